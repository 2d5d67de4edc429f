"""A translation model in one file, as a student writes it, and faults planted in it."""

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.patients.case import TRAINING, Case, losses, stepwise
from tfmr.doctor import Subject
from tfmr.position import sinusoidal
from tfmr.special_tokens import PAD

VOCAB, WIDTH, HEADS = 30, 32, 2
Cache = dict[str, Tensor]


class Attention(nn.Module):
    """Multi-head attention; ``faults`` are the names of what is wrong."""

    def __init__(self, faults: tuple[str, ...], bias: bool) -> None:
        super().__init__()
        self.faults, self.p = faults, 0.1
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(4))

    def heads(self, x: Tensor) -> Tensor:
        """(batch, length, width) → (batch, heads, length, width / heads)."""
        if "view without transpose" in self.faults:
            return x.reshape(x.shape[0], HEADS, x.shape[1], WIDTH // HEADS)
        heads: Tensor = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return heads

    def forward(
        self, x: Tensor, y: Tensor, mask: Tensor, cache: Cache | None = None, start: int = 0
    ) -> Tensor:
        """Attend from ``x`` to ``y``; with a cache, also to what it holds."""
        q, k, v = self.heads(self.q(x)), self.heads(self.k(y)), self.heads(self.v(y))
        if "rotary" in self.faults and x is y:
            q, k = rotate(q, start), rotate(k, start)
        if cache is not None:
            old = cache.get("k"), cache.get("v")
            if old[0] is not None and old[1] is not None:
                k, v = torch.cat([old[0], k], dim=2), torch.cat([old[1], v], dim=2)
            cache["k"], cache["v"] = k, v
        scores = q @ k.mT
        if "unscaled" not in self.faults:
            scores = scores / math.sqrt(q.shape[-1])
        if "alibi" in self.faults and x is y:
            distance = torch.arange(k.shape[2]) - (start + torch.arange(q.shape[2]))[:, None]
            slopes = torch.tensor([0.5, 0.25])[:, None, None]
            scores = scores + slopes * (-distance.abs())
        weights = scores.masked_fill(~mask, -1e9).softmax(-2 if "wrong axis" in self.faults else -1)
        weights = F.dropout(weights, self.p, self.training or "attention dropout" in self.faults)
        out: Tensor = self.o((weights @ v).transpose(1, 2).flatten(2))
        return out


def rotate(x: Tensor, start: int) -> Tensor:
    """Rotary positions."""
    half = x.shape[-1] // 2
    angle = (start + torch.arange(x.shape[2]))[:, None] * 10000 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


class Norm(nn.Module):
    """Layer norm or RMSNorm."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__()
        self.faults = faults
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector."""
        if "batch norm" in self.faults:
            return self.gain * (x - x.mean(dim=(0, 1))) / (x.std(dim=(0, 1)) + 1e-5)
        if "rms" in self.faults:
            return self.gain * x * (x.square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt()
        return self.gain * F.layer_norm(x, (WIDTH,))


class Block(nn.Module):
    """An encoder block, or with ``cross`` a decoder block."""

    def __init__(self, faults: tuple[str, ...], bias: bool, cross: bool) -> None:
        super().__init__()
        self.pre = "pre" in faults
        self.attention = Attention(faults, bias)
        self.cross = Attention(faults, bias) if cross else None
        self.feed = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.norms = nn.ModuleList(Norm(faults) for _ in range(3))

    def forward(
        self, x: Tensor, mask: Tensor, *cross: Tensor, cache: Any = None, start: int = 0
    ) -> Tensor:
        """Apply the sublayers, pre-norm or post-norm."""

        def add(x: Tensor, sublayer: Any, norm: nn.Module) -> Tensor:
            out: Tensor = x + sublayer(norm(x)) if self.pre else norm(x + sublayer(x))
            return out

        x = add(x, lambda z: self.attention(z, z, mask, cache, start), self.norms[0])
        if self.cross is not None:
            attend = self.cross
            x = add(x, lambda z: attend(z, *cross), self.norms[1])
        return add(x, self.feed, self.norms[2])


class Model(nn.Module):
    """Encoder and decoder."""

    def __init__(self, faults: tuple[str, ...], bias: bool = True) -> None:
        super().__init__()
        self.faults = faults
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.encoder = nn.ModuleList(Block(faults, bias, cross=False) for _ in range(2))
        self.decoder = nn.ModuleList(Block(faults, bias, cross=True) for _ in range(2))
        self.output = nn.Linear(WIDTH, VOCAB, bias=False)
        self.dropout = nn.Dropout(0.1)
        if "untied" not in faults and "copied" not in faults:
            self.output.weight = self.embedding.weight
        if "copied" in faults:
            self.output.weight.data = self.embedding.weight.data.clone()

    def embed(self, ids: Tensor, side: str, start: int = 0) -> Tensor:
        """Embed tokens and add positions."""
        x: Tensor = self.embedding(ids)
        relative = "rotary" in self.faults or "alibi" in self.faults
        if not relative and f"no {side} positions" not in self.faults:
            table = sinusoidal(64, WIDTH)
            if "one position" in self.faults:
                table = table[:1].expand(64, -1)
            x = x + table[start : start + ids.shape[1]]
        dropped: Tensor = self.dropout(x)
        return dropped

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder output, and the mask that hides its padding."""
        mask = (source != PAD)[:, None, None]
        x = self.embed(source, "source")
        for block in self.encoder:
            x = block(x, torch.ones_like(mask) if "encoder padding" in self.faults else mask)
        return x, torch.ones_like(mask) if "cross padding" in self.faults else mask

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The logits."""
        memory, mask = self.encode(source)
        length = target.shape[1]
        offset = 1 if "wide mask" in self.faults else 0
        causal = torch.ones(length, length).tril(offset).bool()
        if "no mask" in self.faults:
            causal = torch.ones_like(causal)
        x = self.embed(target, "target")
        for block in self.decoder:
            x = block(x, causal, memory, mask)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Project to the vocabulary."""
        logits: Tensor = self.output(x)
        return logits.softmax(dim=-1) if "probabilities" in self.faults else logits

    def cached(self, source: Tensor, target: Tensor) -> Tensor:
        """The logits, one token at a time."""
        memory, mask = self.encode(source)
        caches: list[Cache] = [{} for _ in self.decoder]

        def step(tokens: Tensor, t: int) -> Tensor:
            at = 0 if "cache positions" in self.faults else t
            x = self.embed(tokens, "target", at)
            for block, cache in zip(self.decoder, caches, strict=True):
                if "cache forgets" in self.faults and t % 4 == 0:
                    cache.clear()
                x = block(x, torch.ones(1, 1).bool(), memory, mask, cache=cache, start=at)
            return self.logits(x)

        return stepwise(step, target)


def build(*faults: str, bias: bool = True) -> Subject:
    """A subject with the given properties and faults."""
    torch.manual_seed(0)
    model = Model(faults, bias)
    total = sum(each.numel() for each in model.parameters())
    return Subject(
        model=model,
        logits=model,
        encode=lambda source: model.encode(source)[0],
        cached=model.cached,
        parameters=total - VOCAB * WIDTH * ("untied" in faults),
        vocab=VOCAB,
        source_vocab=VOCAB,
        **losses(model, *faults),
    )


def _case(name: str, fault: str | None, *faults: str, bias: bool = True) -> Case:
    return Case(f"by hand: {name}", functools.partial(build, *faults, bias=bias), fault)


CASES = [
    _case("post-norm", None),
    _case("pre-norm, RMSNorm, no bias", None, "pre", "rms", bias=False),
    _case("rotary positions", None, "rotary", "pre"),
    _case("ALiBi", None, "alibi"),
    _case("label smoothing", None, "smoothing"),
    _case("no causal mask", "sees the future", "no mask"),
    _case("mask one position too wide", "sees the future", "wide mask"),
    _case("no padding mask in the encoder", "attends to padding", "encoder padding"),
    _case("no padding mask in cross-attention", "attends to padding", "cross padding"),
    _case("attention dropout in evaluation", "dropout in evaluation", "attention dropout"),
    _case("scores without the division", "scores not scaled", "unscaled"),
    _case("scores without the division, pre-norm", "scores not scaled", "unscaled", "pre"),
    _case("no positions in the source", "no positions", "no source positions"),
    _case("no positions in the target", "no positions", "no target positions"),
    _case("one row of the table for all positions", "no positions", "one position"),
    _case("the cache has positions from 0", "cache differs", "cache positions"),
    _case("the rotary cache has positions from 0", "cache differs", "cache positions", "rotary"),
    _case("the cache forgets", "cache differs", "cache forgets"),
    _case("weights not tied", "embeddings not tied", "untied"),
    _case("weights copied", "embeddings not tied", "copied"),
    _case("the model returns probabilities", "softmax before the loss", "probabilities"),
    *(_case(name, fault, argument) for name, (fault, argument) in TRAINING.items()),
]
