"""``python -m benchmarks.heads``: what a trained Transformer loses with each of its parts.

Every head and every sublayer is taken away by itself, nothing is trained again, and the model is
judged on the validation part: cross-entropy in nats per token, and BLEU of greedy translations.
Michel et al. (2019), sections 3.2 and 3.3; Voita et al. (2019).
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks import record
from tfmr.analysis import ablate_head, ablate_sublayer
from tfmr.attention import MultiHeadAttention
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Pair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.layers import FeedForward
from tfmr.model import Transformer
from tfmr.train.checkpoint import load_translator
from tfmr.train.evaluation import bleu, mean_loss

MODEL = record.FOLDER / "multi30k-de-en" / "model.safetensors"
TOKENS_PER_BATCH = 4096
Parts = list[tuple[dict[str, Any], AbstractContextManager[None]]]
"""Names, and what takes away the part that is named, while it is open."""


@dataclass(frozen=True)
class Heads:
    """Judge a model without each of its heads and sublayers, and record it."""

    model: Path = MODEL
    """A checkpoint of a Transformer."""
    corpus: str = "multi30k"
    """Whose validation part to judge by."""
    direction: str = "de-en"
    """Its source and target language."""
    sentences: int | None = None
    """Judge by the first so many only, for a quick look."""
    threads: int = 1
    """Of every product of matrices."""
    out: Path = record.FOLDER / "heads.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            self.sentences is None or self.sentences >= 1,
            f"a model is judged by one sentence at least: got --sentences {self.sentences}",
        )
        torch.set_num_threads(self.threads)
        corpus = corpora.load(self.corpus, self.direction)
        model, tokenizer = load_translator(self.model)
        if not isinstance(model, Transformer):
            raise TfmrError(f"{self.model} has no heads: it holds a {type(model).__name__}")
        judged_by = corpus.valid[: self.sentences]
        settings = {
            "corpus": self.corpus,
            "direction": self.direction,
            "part": "valid",
            "sentences": len(judged_by),
            "model": digest(self.model),
        }
        record.write(self.out, "heads", measure(model, tokenizer, judged_by), settings=settings)
        print(f"wrote {self.out}; now: python -m benchmarks.tables")


def digest(path: Path) -> str:
    """The first digits of the file's SHA-256, which say whose parts were taken away."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def measure(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[Pair]
) -> Iterator[dict[str, Any]]:
    """A row for the whole model, then one for each part that is taken away."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    encoded = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
    batches = Batches(encoded, TOKENS_PER_BATCH, seed=0, max_length=model.config.max_length)
    for names, gone in tqdm(parts(model), unit=" parts"):
        with gone:
            outputs = translate(model, tokenizer, sources)
            loss = round(mean_loss(model, batches), 4)
        yield {**names, "valid_loss": loss, "valid_bleu": bleu(outputs, references).score}


def parts(model: Transformer) -> Parts:
    """Nothing; then every sublayer from the bottom to the top, each followed by its heads.

    Layers and heads are counted from one.
    """
    found: Parts = [({"removed": "nothing"}, nullcontext())]
    for stack in ("encoder", "decoder"):
        for layer, block in enumerate(getattr(model, stack).blocks, start=1):
            for sublayer, part in block.named_children():
                if isinstance(part, (MultiHeadAttention, FeedForward)):
                    kind = sublayer.replace("_", "-")
                    kind = "self-attention" if kind == "attention" else kind
                    where = {"stack": stack, "sublayer": kind, "layer": layer}
                    found.append(({"removed": "sublayer", **where}, ablate_sublayer(part)))
                    if isinstance(part, MultiHeadAttention):
                        found += [
                            ({"removed": "head", **where, "head": k + 1}, ablate_head(part, k))
                            for k in range(part.n_heads)
                        ]
    return found


if __name__ == "__main__":
    try:
        tyro.cli(Heads, prog="python -m benchmarks.heads")()
    except TfmrError as error:
        sys.exit(f"benchmarks.heads: {error}")
