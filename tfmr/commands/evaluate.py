"""``evaluate``: how good a trained model is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tqdm import tqdm

from tfmr.commands.data import Data
from tfmr.commands.translate import multiply_fast, search_options
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.train import checkpoint
from tfmr.train.evaluation import bleu, exact_match


@dataclass(frozen=True)
class Evaluate:
    """Score a model on the test part of a corpus: BLEU, its signature, and exact matches."""

    data: Annotated[Data, tyro.conf.arg(name="")]
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""
    beam: int | None = None
    """How many hypotheses the search follows; 4 if not given, 1 is greedy."""
    alpha: float | None = None
    """Length penalty of the search: 0 favours short sentences; 0.6, the paper's, if not given."""

    def __call__(self) -> None:
        """EvalConfig, printing one line of JSON."""
        options = search_options(self.beam, self.alpha)
        corpus = self.data.load()
        saved = checkpoint.load(checkpoint.find(self.model))
        _check_direction(saved.metadata, corpus)
        multiply_fast()
        references = [target for _, target in corpus.test]
        with tqdm(total=len(references), unit="sentence", delay=2, leave=False) as bar:
            outputs = translate(
                saved.model(),
                saved.tokenizer,
                [source for source, _ in corpus.test],
                on_finished=bar.update,
                **options,
            )
        result = bleu(outputs, references)
        scores = {
            "bleu": result.score,
            "exact": round(exact_match(outputs, references), 4),
            "signature": result.signature,
            "beam": options["beam"],
        }
        if options["beam"] > 1:
            scores["alpha"] = options["alpha"]
        print(json.dumps(scores))


def _check_direction(metadata: dict[str, Any], corpus: Corpus) -> None:
    """Refuse to score a model on a direction that it has not learnt."""
    asked = f"{corpus.source}-{corpus.target}"
    learnt = metadata.get("direction", asked)
    # Nobody has said what the languages of a person's own files are.
    require(
        learnt == asked or "source-target" in (learnt, asked),
        f"the model translates {learnt} and the corpus is {asked}: its score would mean nothing; "
        f"choose by --direction, or name another --model",
    )
