"""``evaluate``: how good a trained model is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tfmr.commands.data import Data
from tfmr.commands.translate import progress_translate
from tfmr.train.evaluate import bleu, exact_match
from tfmr.train.run import load_translator


@dataclass(frozen=True)
class Evaluate:
    """Score a model on the test part of a corpus: BLEU, its signature, and exact matches."""

    data: Annotated[Data, tyro.conf.arg(name="")]
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""

    def __call__(self) -> None:
        """Score, printing one line of JSON."""
        corpus = self.data.load()
        model, tokenizer = load_translator(self.model)
        references = [target for _, target in corpus.test]
        outputs = progress_translate(model, tokenizer, [source for source, _ in corpus.test])
        result = bleu(outputs, references)
        scores = {
            "bleu": result.score,
            "exact": round(exact_match(outputs, references), 4),
            "signature": result.signature,
        }
        print(json.dumps(scores))
