"""The loop: predict, compare, step; and keep what is needed to go on after a stop."""

import copy
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr import registry
from tfmr.data.batches import Batch, Batches
from tfmr.dtype import uses_bf16
from tfmr.errors import TfmrError, require
from tfmr.train.checkpoint import load_weights, named_weights
from tfmr.train.config import TrainConfig
from tfmr.train.distributed import (
    World,
    distribute_like,
    full_tensor,
    joint_norm,
    no_sync,
    to_local,
    wrap_distributed,
)
from tfmr.train.interrupt import deferred
from tfmr.train.objective import Objective, compile_blocks
from tfmr.train.schedule import learning_rate
from tfmr.translator import Translator


@dataclass(frozen=True)
class StepRecord:
    """What one training step was like: a row of the curve."""

    step: int
    """Counted from 1."""
    loss: float
    """Smoothed cross-entropy in nats per token, before the step."""
    grad_norm: float
    """Euclidean norm of all gradients, before clipping."""
    weight_norm: float
    """Euclidean norm of all parameters, after the step."""
    learning_rate: float
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
    norms = torch._foreach_norm([to_local(tensor) for tensor in tensors])
    return joint_norm(torch.linalg.vector_norm(torch.stack(norms)), tensors[0])


def clip_gradients(model: nn.Module, largest: float) -> Float[Tensor, ""]:
    """Scale all gradients by one factor so that their joint norm is at most ``largest``.

    The direction stays. Returns the norm before. Pascanu et al. (2013), section 3.2, algorithm 1.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = total_norm(gradients)
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([to_local(gradient) for gradient in gradients], scale)
    return norm


class Trainer:
    """Trains a model on batches, one step at a time, and remembers where it is.

    Dropout's random numbers at a step follow from the seed, the step and the batch alone. So they
    need not be kept to go on, scoring between two steps does not change them, and a step is the
    same whether one process learns from its batches in turn or several at once.

    Args:
        model: is trained in place.
        batches: what it learns from.
        config: how.
        world: the processes that train it together. Each calls the same methods in the same order.

    Raises:
        TfmrError: if the model's device cannot compute in the precision that ``config`` asks for,
            or the model cannot be compiled and should.
    """

    def __init__(
        self,
        model: Translator,
        batches: Batches,
        config: TrainConfig,
        world: World | None = None,
    ) -> None:
        self.model = model
        self.batches = batches
        self.config = config
        self.world = world or World()
        self.device = next(model.parameters()).device
        if config.compile:
            compile_blocks(model)
        loss = Objective(model, config.label_smoothing, uses_bf16(config.precision, self.device))
        self.objective = wrap_distributed(loss, self.world, shard=config.fsdp)
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.peak_lr, betas=config.betas, eps=config.eps, fused=True
        )
        self.weights = named_weights(model)
        averaged = self.weights if config.ema_decay else {}
        self.ema = {name: weight.clone() for name, weight in averaged.items()}
        self.steps_done = 0
        self.seconds = 0.0
        self.epoch = 0
        self.batches_done = 0
        """Batches of the current epoch already learnt from, by all processes."""
        self.between_steps = True
        """Whether the weights and the counts above are those of the same step."""

    def step(self, *batches: Batch) -> StepRecord:
        """Learn from these batches: forward, loss, backward, clip, Adam, average.

        Raises:
            TfmrError: if the loss or the gradient is not a finite number; the weights stay as they
                were.
        """
        began = time.perf_counter()
        self.model.train()
        rate = learning_rate(self.steps_done + 1, self.config.peak_lr, self.config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        nats, tokens = self._differentiate(batches)
        norm = float(clip_gradients(self.model, self.config.max_grad_norm))
        if not math.isfinite(norm) or not math.isfinite(nats):
            raise TfmrError(
                f"training diverged at step {self.steps_done + 1}: loss {nats}, gradient norm "
                f"{norm}; lower peak_lr ({self.config.peak_lr}) or lengthen the "
                f"warm-up ({self.config.warmup})"
            )
        self.between_steps = False
        self.optimizer.step()
        self.steps_done += 1
        self._update_mean()
        elapsed = time.perf_counter() - began
        self.seconds = self.world.all_reduce(self.seconds + elapsed if self.world.is_main else 0)
        return StepRecord(
            step=self.steps_done,
            loss=nats,
            grad_norm=norm,
            weight_norm=float(total_norm(list(self.weights.values()))),
            learning_rate=rate,
            tokens=tokens,
            seconds=self.seconds,
        )

    def _differentiate(self, batches: tuple[Batch, ...]) -> tuple[float, int]:
        """Leave the gradient of the mean loss over all target tokens that all processes see.

        Each batch's mean loss counts by its share of the tokens. Weighted equally instead, the
        tokens of a short batch would count for more than those of a long one.

        Returns:
            The loss, and the number of tokens.
        """
        total = self.world.all_reduce(sum(batch.n_tokens for batch in batches))
        parts: list[Tensor] = []
        for turn, batch in enumerate(batches):
            position = turn * self.world.size + self.world.rank
            chance = random.Random(f"{self.config.seed}/{self.steps_done}/{position}")
            torch.manual_seed(chance.getrandbits(63))
            last = turn == len(batches) - 1
            with nullcontext() if last else no_sync(self.objective):
                loss = self.objective(batch.to(self.device)) * (batch.n_tokens / total)
                # Gradients will be averaged over the processes, and are wanted summed.
                (loss * self.world.size).backward()
            parts.append(loss.detach())
        return self.world.all_reduce(float(torch.stack(parts).sum())), int(total)

    @torch.no_grad()
    def _update_mean(self) -> None:
        """Move the average towards the weights; at first by more, for it began as noise."""
        decay = min(self.config.ema_decay, self.steps_done / (self.steps_done + 10))
        if self.ema:
            torch._foreach_lerp_(list(self.ema.values()), list(self.weights.values()), 1 - decay)

    def upcoming(self) -> Iterator[tuple[list[Batch], int, int]]:
        """What each step to come learns from, epoch after epoch, without end.

        Every item has the batches of this process, then ``epoch`` and ``batches_done`` as they are
        after the step. Of the batches of a step, one process takes every ``world.size``-th.
        """
        own = self._own()
        epoch, done = self.epoch, self.batches_done
        while True:
            batches = list(islice(own, self.config.grad_accum_steps))
            done += self.config.grad_accum_steps * self.world.size
            while done > self.batches.count():
                done -= self.batches.count()
                epoch += 1
            yield batches, epoch, done

    def _own(self) -> Iterator[Batch]:
        """The batches for this process to learn from, epoch after epoch, from where the run is."""
        epoch, start, before = self.epoch, self.batches_done, 0
        while True:
            first = start + (self.world.rank - before) % self.world.size
            yield from self.batches.epoch(epoch, first, self.world.size)
            before += self.batches.count() - start
            epoch, start = epoch + 1, 0

    def run(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        on_step: Callable[[StepRecord], object] | None = None,
    ) -> list[StepRecord]:
        """Train until ``steps`` steps or ``seconds`` seconds are done, counted from the very first.

        Args:
            steps: total number of steps; ``None`` for no limit.
            seconds: total training time; ``None`` for no limit.
            on_step: called after each step (a progress bar, a log).

        Ctrl-C takes effect between two steps, of all processes alike; if that takes long, at once.

        Returns:
            The steps of this call.

        Raises:
            TfmrError: if neither limit is given, or training diverges.
            KeyboardInterrupt: if that was asked for.
        """
        require(
            steps is not None or seconds is not None,
            "say when to stop: give steps, seconds, or both",
        )
        most = math.inf if steps is None else steps
        longest = math.inf if seconds is None else seconds
        curve: list[StepRecord] = []
        coming = self.upcoming()
        with deferred() as asked:
            while self.steps_done < most and self.seconds < longest:
                began = time.perf_counter()
                batches, epoch, batches_done = next(coming)
                self.seconds += time.perf_counter() - began
                curve.append(self.step(*batches))
                self.epoch, self.batches_done = epoch, batches_done
                self.between_steps = True
                if on_step is not None:
                    on_step(curve[-1])
                if self.world.all_reduce(asked()):
                    raise KeyboardInterrupt
        return curve

    def averaged_model(self) -> Translator:
        """A copy of the model with the averaged weights, in evaluation mode.

        Sharded weights are put together: then all processes must call this.
        """
        if not self._sharded:
            model = copy.deepcopy(self.model)
        else:
            weight = next(iter(self.weights.values()))
            model = registry.build_model(self.model.config).to(weight.device, weight.dtype)
        kept = self.ema or self.weights
        load_weights(model, {name: full_tensor(weight) for name, weight in kept.items()})
        return model.eval()

    @property
    def _sharded(self) -> bool:
        return self.config.fsdp and self.world.size > 1

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next step depends on, copied: tensors, and facts as JSON.

        The same for one process as for several, so that any number of them can go on from it.
        Sharded weights are put together for the first process: then all must call this, and the
        others get no tensors.
        """
        tensors: dict[str, Tensor] = {}

        def put(name: str, tensor: Tensor) -> None:
            full = full_tensor(tensor)
            if self.world.is_main or not self._sharded:
                tensors[name] = full.clone()

        for name, parameter in self.model.named_parameters():
            put(f"weight.{name}", self.weights[name])
            if self.ema:
                put(f"ema.{name}", self.ema[name])
            for key, value in self.optimizer.state[parameter].items():
                put(f"adam.{key}.{name}", value)
        progress = {
            "step": self.steps_done,
            "epoch": self.epoch,
            "batches_done": self.batches_done,
            "seconds": self.seconds,
        }
        return tensors, progress

    @torch.no_grad()
    def load_state_dict(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Go on from a :meth:`state`, as if there had been no stop.

        Raises:
            TfmrError: if something that the next step depends on is missing.
        """
        try:
            weights = {
                n: distribute_like(tensors[f"weight.{n}"], w) for n, w in self.weights.items()
            }
            load_weights(self.model, weights)
            for name, mean in self.ema.items():
                mean.copy_(distribute_like(tensors[f"ema.{name}"], mean))
            for name, parameter in self.model.named_parameters():
                self.optimizer.state[parameter] = {
                    "step": tensors[f"adam.step.{name}"].to(self.device, copy=True),
                    "exp_avg": distribute_like(tensors[f"adam.exp_avg.{name}"], parameter),
                    "exp_avg_sq": distribute_like(tensors[f"adam.exp_avg_sq.{name}"], parameter),
                }
            self.steps_done = progress["step"]
            self.epoch = progress["epoch"]
            self.batches_done = progress["batches_done"]
            self.seconds = progress["seconds"]
        except KeyError as error:
            raise TfmrError(
                f"the checkpoint lacks {error}, which a run needs to go on: it was made to "
                "translate with, not to resume from; train anew"
            ) from error
