"""A model, the fault that was planted in it, and faults of the training that fit every model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tfmr.doctor import Subject
from tfmr.special_tokens import PAD


@dataclass(frozen=True)
class Case:
    """A model: how it is made, and the fault that was planted in it."""

    name: str
    build: Callable[[], Subject]
    fault: str | None = None
    """The name that the doctor gives to the fault; ``None`` for a correct model."""

    def __repr__(self) -> str:
        return self.name.replace(" ", "-")


def losses(logits: Callable[..., Tensor], *faults: str) -> dict[str, Any]:
    """``loss`` and ``accumulate`` for a function that computes logits, with some of the faults.

    Both take a target from the start to the end token.
    """

    def loss(*batch: Tensor) -> Tensor:
        target = batch[-1]
        inputs, labels = target[:, :-1], target[:, 1:]
        if "labels are the inputs" in faults:
            labels = inputs
        if "no start token" in faults:
            inputs = labels = target
        if "shifted twice" in faults:
            inputs, labels = inputs[:, :-1], labels[:, 1:]
        scores = logits(*batch[:-1], inputs)
        if "softmax" in faults:
            scores = scores.softmax(dim=-1)
        ignored = -100 if "padding" in faults else PAD
        smoothing = 0.1 if "smoothing" in faults else 0.0
        value = F.cross_entropy(
            scores.transpose(1, 2), labels, ignore_index=ignored, label_smoothing=smoothing
        )
        if "all positions" in faults:
            value = value * (labels != PAD).double().mean()
        return value

    def accumulate(batches: list[tuple[Tensor, ...]]) -> None:
        counts = [int((batch[-1][:, 1:] != PAD).sum()) for batch in batches]
        weights = [count / sum(counts) for count in counts]
        if "mean of means" in faults:
            weights = [1 / len(batches)] * len(batches)
        if "sum of means" in faults:
            weights = [1.0] * len(batches)
        parameters: list[Tensor] = []
        for batch, weight in zip(batches, weights, strict=True):
            value = loss(*batch) * weight
            parameters = parameters or _leaves(value)
            if "last batch" in faults:
                for each in parameters:
                    each.grad = None
            value.backward()

    return {"loss": loss, "accumulate": accumulate}


def _leaves(value: Tensor) -> list[Tensor]:
    """The tensors whose gradients ``value.backward()`` accumulates."""
    found, nodes, seen = [], [value.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        nodes += [child for child, _ in node.next_functions]
    return found


TRAINING = {
    "the labels are the inputs": ("labels not shifted", "labels are the inputs"),
    "inputs and labels from the start token": ("labels not shifted", "no start token"),
    "the labels are shifted twice": ("labels shifted twice", "shifted twice"),
    "the loss includes padding": ("padding in the loss", "padding"),
    "the loss is divided by all positions": ("padding in the loss", "all positions"),
    "softmax before cross_entropy": ("softmax before the loss", "softmax"),
    "a mean of the means of batches": ("wrong accumulation", "mean of means"),
    "a sum of the means of batches": ("wrong accumulation", "sum of means"),
    "zero_grad for every batch": ("wrong accumulation", "last batch"),
}
"""For each fault of the training: how the doctor names it, and the argument that plants it."""


def stepwise(step: Callable[[Tensor, int], Tensor], target: Tensor) -> Tensor:
    """The logits at all positions, one token at a time: ``step(tokens, position)``."""
    return torch.stack([step(target[:, [t]], t)[:, -1] for t in range(target.shape[1])], dim=1)
