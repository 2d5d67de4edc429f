"""The book's own Transformer."""

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.patients.case import TRAINING, Case, losses, stepwise
from tfmr.attention import MultiHeadAttention
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

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class."""
        memory, mask = super().encode(source)
        if "encoder padding" in self.faults:
            x = self._embed(self.source_embedding, source, "source")
            memory = self.encoder(x, torch.ones_like(mask))
        return memory, mask

    def decode(
        self, target: Tensor, memory: Tensor, memory_mask: Tensor, caches: Any = None
    ) -> Tensor:
        """See the base class."""
        if "cross padding" in self.faults:
            memory_mask = torch.ones_like(memory_mask)
        start = caches[0].self_attention.length if caches else 0
        if "cache positions" in self.faults:
            start = 0
        x = self._embed(self.target_embedding, target, "target", start)
        if "batch mean" in self.faults:
            x = x - x.mean(dim=0)
        is_causal = "no mask" not in self.faults
        out: Tensor = self.decoder(
            x, memory, is_causal=is_causal, memory_mask=memory_mask, caches=caches
        )
        return out


def build(*faults: str, **options: Any) -> Subject:
    """A subject with the given faults."""
    torch.manual_seed(0)
    model = Model(faults, **options)
    if "training mode" in faults:
        model.eval = lambda: model  # type: ignore[method-assign]
    if "no positions" in faults:
        model.position = None
    if "unscaled" in faults:
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                _scale_queries(module)
    if "copied" in faults:
        model.output.weight = nn.Parameter(model.output.weight.detach().clone())

    def cached(source: Tensor, target: Tensor) -> Tensor:
        state = model.start(source, target.shape[1])
        return stepwise(lambda tokens, _: model.step(tokens[:, 0], state)[:, None], target)

    return Subject(
        model=model,
        logits=model,
        encode=lambda source: model.encode(source)[0],
        cached=cached,
        parameters=model.count_parameters(),
        vocab=VOCAB,
        source_vocab=VOCAB,
        **losses(model, *faults),
    )


def _scale_queries(module: MultiHeadAttention) -> None:
    """Multiply the queries by √d_k, which undoes the division of the scores."""
    project = module.w_q.forward
    scale = math.sqrt(16 / 2)
    module.w_q.forward = lambda input: project(input) * scale  # type: ignore[method-assign]


def _case(name: str, fault: str | None, *faults: str, **options: Any) -> Case:
    return Case(f"tfmr: {name}", functools.partial(build, *faults, **options), fault)


CASES = [
    _case("post-norm", None),
    _case("pre-norm, learned positions", None, norm="pre", position="learned", tie="none"),
    _case("rotary positions", None, position="rotary"),
    _case("no causal mask", "sees the future", "no mask"),
    _case("no padding mask in the encoder", "attends to padding", "encoder padding"),
    _case("no padding mask in cross-attention", "attends to padding", "cross padding"),
    _case("the mean over the batch is subtracted", "depends on the batch", "batch mean"),
    _case("eval() without effect", "dropout in evaluation", "training mode"),
    _case("scores without the division", "scores not scaled", "unscaled"),
    _case("no positions", "no positions", "no positions"),
    _case("the cache has positions from 0", "cache differs", "cache positions"),
    _case("weights copied", "embeddings not tied", "copied"),
    *(_case(name, fault, argument) for name, (fault, argument) in TRAINING.items()),
]
