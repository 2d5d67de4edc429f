"""The loop: predict, compare, step; and keep what is needed to go on after a stop."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.data.batches import Batch, Batches
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.train.checkpoint import load_weights, named_weights
from tfmr.train.loss import linear_cross_entropy
from tfmr.train.schedule import learning_rate


@dataclass(frozen=True)
class TrainConfig:
    """How to train. The optimiser's constants are the paper's (Vaswani et al., 2017, section 5.3).

    Raises:
        TfmrError: if a number is out of range.
    """

    peak: float = 2e-3
    """The highest learning rate; see :func:`tfmr.train.schedule.learning_rate`."""
    warmup: int = 400
    """Steps until the rate peaks."""
    smoothing: float = 0.1
    """Label smoothing."""
    clip: float = 1.0
    """The largest gradient norm; a longer gradient is scaled down to it."""
    average: float = 0.998
    """Decay of the running average of the weights, which is kept in the end; 0 averages nothing."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates."""
    eps: float = 1e-9
    """Keeps Adam's division safe."""
    seed: int = 0
    """Of the initial weights and of dropout. The order of the batches has its own."""

    def __post_init__(self) -> None:
        require(self.peak > 0, f"the learning rate's peak must be positive: got {self.peak}")
        require(self.warmup >= 1, f"warmup must be at least one step: got {self.warmup}")
        require(self.clip > 0, f"the largest gradient norm must be positive: got {self.clip}")
        for name in ("smoothing", "average"):
            require(
                0 <= getattr(self, name) < 1, f"{name} lies in [0, 1): got {getattr(self, name)}"
            )


@dataclass(frozen=True)
class Step:
    """What one training step was like: a row of the curve."""

    step: int
    """Counted from 1."""
    loss: float
    """Smoothed cross-entropy in nats per token, before the step."""
    gradient_norm: float
    """Euclidean norm of all gradients, before clipping."""
    weight_norm: float
    """Euclidean norm of all parameters, after the step."""
    rate: float
    """The learning rate of the step."""
    tokens: int
    """Target tokens that the loss saw."""
    seconds: float
    """Training time so far, scoring left out."""


def total_norm(tensors: list[Tensor]) -> Float[Tensor, ""]:
    """The Euclidean norm of all numbers in all tensors.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])])
    tensor(5.)
    """
    norms = torch.stack([torch.linalg.vector_norm(tensor) for tensor in tensors])
    norm: Tensor = torch.linalg.vector_norm(norms)
    return norm


def clip_gradients(model: nn.Module, largest: float) -> Float[Tensor, ""]:
    """Scale all gradients by one factor so that their joint norm is at most ``largest``.

    The direction stays. Returns the norm before. Pascanu et al. (2013), section 3.2, algorithm 1.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = total_norm(gradients)
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


class Trainer:
    """Trains a model on batches, one step at a time, and remembers where it is.

    Args:
        model: is trained in place.
        batches: what it learns from.
        config: how.
    """

    def __init__(self, model: Transformer, batches: Batches, config: TrainConfig) -> None:
        self.model = model
        self.batches = batches
        self.config = config
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.peak, betas=config.betas, eps=config.eps, fused=True
        )
        self.mean = {name: weight.clone() for name, weight in named_weights(model).items()}
        self.steps_done = 0
        self.seconds = 0.0
        self.epoch = 0
        self.batches_done = 0
        """Batches of the current epoch already learnt from."""

    def step(self, batch: Batch) -> Step:
        """Learn from one batch: forward, loss, backward, clip, Adam, average.

        Raises:
            TfmrError: if the loss or the gradient is not a finite number; the weights stay as they
                were.
        """
        began = time.perf_counter()
        self.model.train()
        rate = learning_rate(self.steps_done + 1, self.config.peak, self.config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        hidden = self.model.hidden(batch.source, batch.target_in)
        loss = linear_cross_entropy(
            hidden, self.model.output.weight, batch.target_out, self.config.smoothing
        )
        self.optimizer.zero_grad()
        loss.backward()
        nats = float(loss.detach())
        norm = float(clip_gradients(self.model, self.config.clip))
        if not math.isfinite(norm) or not math.isfinite(nats):
            raise TfmrError(
                f"training diverged at step {self.steps_done + 1}: loss {nats}, gradient norm "
                f"{norm}; lower the peak learning rate ({self.config.peak}) or lengthen the "
                f"warm-up ({self.config.warmup})"
            )
        self.optimizer.step()
        self.steps_done += 1
        self._update_mean()
        self.seconds += time.perf_counter() - began
        return Step(
            step=self.steps_done,
            loss=nats,
            gradient_norm=norm,
            weight_norm=float(total_norm(list(named_weights(self.model).values()))),
            rate=rate,
            tokens=batch.n_tokens,
            seconds=self.seconds,
        )

    @torch.no_grad()
    def _update_mean(self) -> None:
        """Move the average towards the weights; at first by more, for it began as noise."""
        decay = min(self.config.average, self.steps_done / (self.steps_done + 10))
        for name, weight in named_weights(self.model).items():
            self.mean[name].lerp_(weight, 1 - decay)

    def upcoming(self) -> Iterator[Batch]:
        """The batches not yet learnt from, epoch after epoch, without end."""
        device = next(self.model.parameters()).device
        while True:
            for index, batch in enumerate(self.batches.epoch(self.epoch)):
                if index >= self.batches_done:
                    yield batch.to(device)
            self.epoch += 1
            self.batches_done = 0

    def run(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        on_step: Callable[[Step], object] | None = None,
    ) -> list[Step]:
        """Train until ``steps`` steps or ``seconds`` seconds are done, counted from the very first.

        Args:
            steps: total number of steps; ``None`` for no limit.
            seconds: total training time; ``None`` for no limit.
            on_step: called after each step (a progress bar, a log).

        Returns:
            The steps of this call.

        Raises:
            TfmrError: if neither limit is given, or training diverges.
        """
        require(
            steps is not None or seconds is not None,
            "say when to stop: give steps, seconds, or both",
        )
        most = math.inf if steps is None else steps
        longest = math.inf if seconds is None else seconds
        curve: list[Step] = []
        stream = self.upcoming()
        while self.steps_done < most and self.seconds < longest:
            curve.append(self.step(next(stream)))
            self.batches_done += 1
            if on_step is not None:
                on_step(curve[-1])
        return curve

    def averaged(self) -> Transformer:
        """A copy of the model with the averaged weights, in evaluation mode."""
        model = copy.deepcopy(self.model)
        if self.config.average:
            load_weights(model, self.mean)
        return model.eval()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next step depends on, copied: tensors, and facts as JSON."""
        tensors = {"random": torch.get_rng_state()}
        for name, weight in named_weights(self.model).items():
            tensors[f"weight.{name}"] = weight.clone()
            tensors[f"mean.{name}"] = self.mean[name].clone()
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"adam.{key}.{name}"] = value.clone()
        facts = {
            "step": self.steps_done,
            "epoch": self.epoch,
            "batches_done": self.batches_done,
            "seconds": self.seconds,
        }
        return tensors, facts

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Go on from a :meth:`state`, as if there had been no stop.

        Raises:
            TfmrError: if something that the next step depends on is missing.
        """
        try:
            load_weights(self.model, {name: tensors[f"weight.{name}"] for name in self.mean})
            self.mean = {name: tensors[f"mean.{name}"].clone() for name in self.mean}
            for name, parameter in self.model.named_parameters():
                self.optimizer.state[parameter] = {
                    key: tensors[f"adam.{key}.{name}"].clone()
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }
            torch.set_rng_state(tensors["random"])
            self.steps_done = facts["step"]
            self.epoch = facts["epoch"]
            self.batches_done = facts["batches_done"]
            self.seconds = facts["seconds"]
        except KeyError as error:
            raise TfmrError(
                f"the checkpoint lacks {error}, which a run needs to go on: it was made to "
                "translate with, not to resume from; train anew"
            ) from error
