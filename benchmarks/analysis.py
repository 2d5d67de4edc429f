"""What the analyses of a trained Transformer share: options, first checks and the record."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import record
from benchmarks.record import Row
from tfmr import checkpoint
from tfmr.checkpoint import load_translator
from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer

MODEL = record.FOLDER / "multi30k-de-en" / "model.safetensors"


@dataclass(frozen=True)
class Analysis:
    """The options of an analysis."""

    model: Path = MODEL
    """A checkpoint of a Transformer that translates German to English."""
    corpus: str = "multi30k"
    """Corpus whose validation or test set is used."""
    direction: str = "de-en"
    """Source and target language."""
    sentences: int | None = None
    """Use this many sentences of each set only, for a quick test."""
    threads: int = 1
    """CPU threads."""

    def load(self, part: str) -> tuple[Transformer, Tokenizer, Corpus]:
        """The model, its tokenizer, and the corpus with ``sentences`` sentences of each set.

        Args:
            part: what is analysed, which only a Transformer has.

        Raises:
            TfmrError: if ``sentences`` is less than 1, or the model is not a Transformer.
        """
        require(
            self.sentences is None or self.sentences >= 1,
            f"expected --sentences 1 or more, got {self.sentences}",
        )
        torch.set_num_threads(self.threads)
        corpus = corpora.load(self.corpus, self.direction)
        model, tokenizer = load_translator(self.model)
        if not isinstance(model, Transformer):
            raise TfmrError(
                f"expected a Transformer in {self.model}, got a {type(model).__name__}, "
                f"which has no {part}"
            )
        valid, test = corpus.valid[: self.sentences], corpus.test[: self.sentences]
        return model, tokenizer, replace(corpus, valid=valid, test=test)

    def write(self, out: Path, kind: str, rows: Iterable[Row], settings: Mapping[str, Any]) -> None:
        """Record ``rows`` with ``settings``, the corpus and the fingerprint of the model."""
        settings = {
            "corpus": self.corpus,
            "direction": self.direction,
            **settings,
            "model": weights_fingerprint(self.model),
        }
        record.write(out, kind, rows, settings=settings)


def weights_fingerprint(path: str | os.PathLike[str]) -> str:
    """Twelve digits of a SHA-256 of a checkpoint's weights, whatever their names."""
    weights = checkpoint.load(Path(path)).weights.values()
    hashes = sorted(hashlib.sha256(w.numpy().tobytes()).hexdigest() for w in weights)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:12]
