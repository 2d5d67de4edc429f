"""Initialisation and a training loop for small models: Adam, warm-up, decay, clipped gradients."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from tfmr.errors import require


def initialise_small(model: nn.Module) -> None:
    """Draw the weights of all linear layers with variance 1 / inputs.

    The standard deviation of 0.02 with which the models of the family are initialised is meant for
    their usual sizes. In small layers, it makes the outputs tiny. A matrix that is tied to the
    embedding is not changed.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in embeddings:
            nn.init.normal_(module.weight, std=module.in_features**-0.5)


ADAMW = partial(torch.optim.AdamW, betas=(0.9, 0.98), fused=True)
"""The optimiser of Loshchilov and Hutter (2019), with the averages of Vaswani et al. (2017)."""


def train(
    model: nn.Module,
    loss: Callable[[], Tensor],
    steps: int,
    peak_lr: float,
    warmup_ratio: float = 0.1,
    make_optimizer: Callable[..., torch.optim.Optimizer] = ADAMW,
) -> list[float]:
    """Train ``model`` and put it into evaluation mode.

    The learning rate increases linearly during the first part of the steps and then decreases
    linearly to zero.

    Args:
        model: the model.
        loss: draws a batch and returns the loss of the model on it.
        steps: number of steps.
        peak_lr: the largest learning rate.
        warmup_ratio: the fraction of the steps before the peak.
        make_optimizer: receives the parameters and ``lr``.

    Returns:
        The loss at each step.

    Raises:
        TfmrError: if ``steps`` is not positive or ``warmup_ratio`` is not a fraction.
    """
    require(steps > 0, f"steps must be positive: got {steps}")
    require(
        0 <= warmup_ratio < 1,
        f"warmup_ratio must be a fraction from 0 to below 1: got {warmup_ratio}",
    )
    optimizer = make_optimizer(model.parameters(), lr=peak_lr)
    rising = max(1, round(warmup_ratio * steps))

    def factor(step: int) -> float:
        return min((step + 1) / rising, (steps - step) / max(1, steps - rising + 1))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    model.train()
    losses = []
    for _ in range(steps):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(value.item())
    model.eval()
    return losses
