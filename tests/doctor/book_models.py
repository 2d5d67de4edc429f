"""The book's own Transformer."""

import functools
from typing import Any

import torch

from tests.doctor.case import Case
from tfmr.config import TransformerConfig
from tfmr.doctor import Subject
from tfmr.model import Transformer

VOCAB = 24


class Model(Transformer):
    """The Transformer; ``faults`` are the names of what is wrong."""

    def __init__(self, faults: tuple[str, ...], **options: Any) -> None:
        config = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder": 2, "n_decoder": 2}
        super().__init__(
            TransformerConfig(source_vocab=VOCAB, target_vocab=VOCAB, **(config | options))
        )
        self.faults = faults

    def encode(self, source):
        memory, mask = super().encode(source)
        if "encoder padding" in self.faults:
            x = self._embed(self.source_embedding, source, "source")
            memory = self.encoder(x, torch.ones_like(mask))
        return memory, mask

    def decode(self, target, memory, memory_mask, caches=None):
        x = self._embed(self.target_embedding, target, "target")
        if "cross padding" in self.faults:
            memory_mask = torch.ones_like(memory_mask)
        if "batch mean" in self.faults:
            x = x - x.mean(dim=0)
        if "no mask" in self.faults:
            return self.decoder(x, memory, is_causal=False, memory_mask=memory_mask)
        return super().decode(target, memory, memory_mask, caches)


def build(*faults: str, **options: Any) -> Subject:
    torch.manual_seed(0)
    model = Model(faults, **options)
    if "training mode" in faults:
        model.decoder.eval = model.decoder.train
        model.eval = lambda: model
    return Subject(
        model=model,
        logits=model,
        encode=lambda source: model.encode(source)[0],
        vocab=VOCAB,
        source_vocab=VOCAB,
    )


def _case(name: str, fault: str | None, *faults: str, **options: Any) -> Case:
    return Case(f"tfmr: {name}", functools.partial(build, *faults, **options), fault)


CASES = [
    _case("post-norm", None),
    _case("pre-norm, learned positions", None, norm="pre", position="learned", tie="none"),
    _case("rotary positions", None, position="rotary"),
    _case("no causal mask", "sees the future", "no mask"),
    _case("no padding mask in the encoder", "attends to padding", "encoder padding"),
    _case("no padding mask in cross-attention", "attends to padding", "cross padding"),
    _case("eval() without effect", "dropout in evaluation", "training mode"),
]
