"""``evaluate``: score a trained model."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tqdm import tqdm

from tfmr.commands.data import Data
from tfmr.commands.decoding import BATCH_SIZE, Decoding
from tfmr.data.corpus import Corpus
from tfmr.data.own_files import NAME as YOUR_FILES
from tfmr.data.own_files import TEST_SET, load_test_files
from tfmr.errors import TfmrError, require

if TYPE_CHECKING:
    from tfmr.data.tokenizer import Tokenizer
    from tfmr.translator import IncrementalTranslator


@dataclass(frozen=True)
class Evaluate:
    """Translate a test set, and print BLEU and the fraction of exact matches.

    The test set is that of a corpus, or every line of your own files; by default, it is the one
    with which the model's run was evaluated. A sentence that cannot be translated counts as an
    empty translation and is reported. The output is one line of JSON; it includes the number of
    sentences, the sacreBLEU signature and the search options.
    """

    data: Annotated[Data, tyro.conf.arg(name="")]
    decoding: Annotated[Decoding, tyro.conf.arg(name="")]

    def __call__(self) -> None:
        """Evaluate, and print one line of JSON."""
        from tfmr.metrics import bleu, exact_match

        options = self.decoding.search_options()
        model, tokenizer, metadata = self.decoding.load()
        corpus = find_test_corpus(self.data, self.decoding.model, metadata)
        references = [target for _, target in corpus.test]
        hypotheses, failed = translate_test_set(model, tokenizer, corpus, options)
        result = bleu(hypotheses, references)
        scores = {
            "bleu": result.score,
            "exact": round(exact_match(hypotheses, references), 4),
            "sentences": len(references),
            "failed": failed,
            "signature": result.signature,
            "beam": options["beam"],
            "arithmetic": self._arithmetic(model),
        }
        if options["beam"] > 1:
            scores["alpha"] = options["alpha"]
        print(json.dumps(scores))

    def _arithmetic(self, model: "IncrementalTranslator") -> str:
        """The arithmetic that the option selected; ``auto`` depends on the size of the model."""
        import torch

        from tfmr.fast import FastTransformer

        auto_bf16 = isinstance(model, FastTransformer) and model.dtype == torch.bfloat16
        return "bf16" if auto_bf16 or self.decoding.precision == "bf16" else "fp32"


def find_test_corpus(data: Data, model: Path, metadata: dict[str, Any]) -> Corpus:
    """The corpus that the options select, or else the one with which the run was evaluated.

    Raises:
        TfmrError: if there is neither, or the corpus has another direction than the model.
    """
    trained_on, direction = metadata.get("corpus"), metadata.get("direction")
    kept = model / TEST_SET
    if data.corpus or data.files or data.direction or trained_on is None or direction is None:
        corpus = data.load()
    elif kept.is_file():
        corpus = load_test_files([kept], *direction.split("-"))
    else:
        require(
            trained_on != YOUR_FILES,
            f"expected {TEST_SET} in a run directory, or --files, got neither: the model was "
            "trained on other files than those of a corpus; give its test set with --files",
        )
        corpus = replace(data, corpus=trained_on, direction=direction).load()
    _check_direction(metadata, corpus)
    for finding in corpus.provenance.findings:
        print(finding, file=sys.stderr)
    return corpus


def translate_test_set(
    model: "IncrementalTranslator",
    tokenizer: "Tokenizer",
    corpus: Corpus,
    options: dict[str, Any],
) -> tuple[list[str], int]:
    """The translations of a test set, and how many sentences could not be translated.

    These have an empty translation, and are reported on standard error.
    """
    from tfmr.decode import translate_each
    from tfmr.fast import cpu_matmul_settings

    failed: dict[int, TfmrError] = {}
    with (
        tqdm(total=len(corpus.test), unit="sentence", delay=2, leave=False, disable=None) as bar,
        cpu_matmul_settings(model, min(len(corpus.test), BATCH_SIZE) * options["beam"]),
    ):
        translations = translate_each(
            model,
            tokenizer,
            [source for source, _ in corpus.test],
            batch_size=BATCH_SIZE,
            detokenise=False,
            on_finished=bar.update,
            on_error=failed.__setitem__,
            **options,
        )
        hypotheses = [translation.text for translation in translations]
    places = corpus.provenance.places.get("test")
    for number, error in failed.items():
        where = f"{places[number - 1]}: " if places else ""
        print(f"tfmr: {where}{error}", file=sys.stderr)
    return hypotheses, len(failed)


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
