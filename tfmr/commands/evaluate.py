"""``evaluate``: score a trained model."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import tyro
from tqdm import tqdm

from tfmr.commands.data import Data
from tfmr.commands.decoding import BATCH_SIZE, Decoding
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.fast import FastTransformer, cpu_matmul_settings
from tfmr.metrics import bleu, exact_match
from tfmr.translator import IncrementalTranslator


@dataclass(frozen=True)
class Evaluate:
    """Translate a test set, and print BLEU and the fraction of exact matches.

    The test set is that of a corpus, or every line of your own files. The output is one line of
    JSON; it includes the number of sentences, the sacreBLEU signature and the search options.
    """

    data: Annotated[Data, tyro.conf.arg(name="")]
    decoding: Annotated[Decoding, tyro.conf.arg(name="")]

    def __call__(self) -> None:
        """Evaluate, and print one line of JSON."""
        options = self.decoding.search_options()
        corpus = self.data.load(only_test=True)
        model, tokenizer, metadata = self.decoding.load()
        _check_direction(metadata, corpus)
        references = [target for _, target in corpus.test]
        rows = min(len(references), BATCH_SIZE) * options["beam"]
        with (
            tqdm(total=len(references), unit="sentence", delay=2, leave=False) as bar,
            cpu_matmul_settings(model, rows),
        ):
            hypotheses = translate(
                model,
                tokenizer,
                [source for source, _ in corpus.test],
                batch_size=BATCH_SIZE,
                detokenise=False,
                on_finished=bar.update,
                **options,
            )
        result = bleu(hypotheses, references)
        scores = {
            "bleu": result.score,
            "exact": round(exact_match(hypotheses, references), 4),
            "sentences": len(references),
            "signature": result.signature,
            "beam": options["beam"],
            "arithmetic": self._arithmetic(model),
        }
        if options["beam"] > 1:
            scores["alpha"] = options["alpha"]
        print(json.dumps(scores))

    def _arithmetic(self, model: IncrementalTranslator) -> str:
        """The arithmetic that the option selected; ``auto`` depends on the size of the model."""
        auto_bf16 = isinstance(model, FastTransformer) and model.dtype == torch.bfloat16
        return "bf16" if auto_bf16 or self.decoding.precision == "bf16" else "fp32"


def _check_direction(metadata: dict[str, Any], corpus: Corpus) -> None:
    """Raise :class:`TfmrError` if the model was trained for another direction."""
    direction = f"{corpus.source}-{corpus.target}"
    trained = metadata.get("direction", direction)
    # Without --direction, the languages of the user's own files are unknown.
    require(
        trained == direction or "source-target" in (trained, direction),
        f"expected a corpus in the direction of the model, {trained}, got {direction}; set "
        "--direction, or give another --model",
    )
