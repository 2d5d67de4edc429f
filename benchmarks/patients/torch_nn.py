"""``torch.nn.Transformer`` with embeddings, positions and an output projection."""

import functools
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.patients.case import TRAINING, Case, losses
from tfmr.doctor import Subject
from tfmr.position import sinusoidal
from tfmr.special_tokens import PAD

VOCAB, D_MODEL = 24, 16


class Model(nn.Module):
    """A translation model; ``faults`` are the names of what is wrong."""

    def __init__(self, *faults: str, **options: Any) -> None:
        super().__init__()
        self.faults = faults
        self.embedding = nn.Embedding(VOCAB, D_MODEL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an encoder has no fast path
            self.transformer = nn.Transformer(
                D_MODEL, 2, 2, 2, 32, batch_first="batch axis" not in faults, **options
            )
        self.output = nn.Linear(D_MODEL, VOCAB, bias=False)
        if "untied" not in faults:
            self.output.weight = self.embedding.weight
        if "copied" in faults:
            self.output.weight = nn.Parameter(self.embedding.weight.detach().clone())

    def embed(self, ids: Tensor, side: str) -> Tensor:
        """Embed tokens and add positions."""
        x: Tensor = self.embedding(ids)
        if f"no {side} positions" not in self.faults:
            x = x + sinusoidal(ids.shape[1], D_MODEL)
        return F.dropout(x, 0.1, "functional dropout" in self.faults or self.training)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The logits."""
        length = target.shape[1]
        hidden = torch.ones(length, length).triu(2 if "wide mask" in self.faults else 1).bool()
        padding = source == PAD
        if "batch axis" in self.faults:
            padding = padding.T
            hidden = torch.ones(len(target), len(target)).triu(1).bool()
        transformer = self.transformer
        memory = transformer.encoder(
            self.embed(source, "source"),
            src_key_padding_mask=None if "encoder padding" in self.faults else padding,
        )
        x = transformer.decoder(
            self.embed(target, "target"),
            memory,
            tgt_mask=None if "no mask" in self.faults else hidden,
            memory_key_padding_mask=None if "cross padding" in self.faults else padding,
        )
        logits: Tensor = self.output(x)
        return logits


def build(*faults: str, **options: Any) -> Subject:
    """A subject with the given faults."""
    torch.manual_seed(0)
    model = Model(*faults, **options)
    if "training mode" in faults:
        dropout = model.transformer.decoder.layers[0].dropout1
        dropout.train = lambda mode=True: dropout
    total = sum(each.numel() for each in model.parameters())
    return Subject(
        model=model,
        logits=model,
        vocab=VOCAB,
        source_vocab=VOCAB,
        parameters=total - VOCAB * D_MODEL * ("untied" in faults),
        **losses(model, *faults),
    )


def _case(name: str, fault: str | None, *faults: str, **options: Any) -> Case:
    return Case(f"torch.nn: {name}", functools.partial(build, *faults, **options), fault)


CASES = [
    _case("post-norm", None),
    _case("pre-norm without bias", None, norm_first=True, bias=False, activation="gelu"),
    _case("no causal mask", "sees the future", "no mask"),
    _case("mask one position too wide", "sees the future", "wide mask"),
    _case("no padding mask in the encoder", "attends to padding", "encoder padding"),
    _case("no padding mask in cross-attention", "attends to padding", "cross padding"),
    _case("batch on the second axis", "depends on the batch", "batch axis"),
    _case("functional dropout", "dropout in evaluation", "functional dropout"),
    _case("a layer stays in training mode", "dropout in evaluation", "training mode"),
    _case("no positions in the source", "no positions", "no source positions"),
    _case("no positions in the target", "no positions", "no target positions"),
    _case("weights not tied", "embeddings not tied", "untied"),
    _case("weights copied", "embeddings not tied", "copied"),
    *(_case(name, fault, argument) for name, (fault, argument) in TRAINING.items()),
]
