"""The training loop: one optimiser step, the loop over steps, and the state for resuming it."""

import copy
import dataclasses
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim.swa_utils import get_ema_multi_avg_fn

from tfmr import registry
from tfmr.checkpoint import check_tensors, load_weights, named_weights
from tfmr.data.batches import Batch, Batches
from tfmr.dtype import choose_arithmetic, find_units
from tfmr.errors import TfmrError, require
from tfmr.later import STEPS_AHEAD, read_later
from tfmr.train.config import TrainConfig
from tfmr.train.distributed import (
    World,
    distribute_like,
    full_tensor,
    no_sync,
    transformer_blocks,
    wrap_distributed,
)
from tfmr.train.gradients import RecordedGradients
from tfmr.train.interrupt import defer_interrupts
from tfmr.train.loss import LossModule, round_shape
from tfmr.train.schedule import learning_rate
from tfmr.translator import Translator

COMPILE_BACKEND = "inductor"
"""The backend of :func:`torch.compile`."""
ADAM = ("adam.step", "adam.exp_avg", "adam.exp_avg_sq")
"""The state of the optimiser, by the prefixes of its tensors in a checkpoint."""


@dataclass(frozen=True)
class StepRecord:
    """The measurements of one training step: a row of ``curve.csv``."""

    step: int
    """Number of the step, from 1."""
    loss: float
    """Label-smoothed cross-entropy in nats per token, before the step."""
    grad_norm: float
    """Euclidean norm of all gradients, before clipping."""
    weight_norm: float
    """Euclidean norm of all parameters, after the step."""
    learning_rate: float
    """Learning rate of the step."""
    tokens: int
    """Target tokens in the step, padding excluded."""
    seconds: float
    """Training time so far, evaluation excluded."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training run, as stored in the metadata of its checkpoint.

    Raises:
        TfmrError: if a value is negative or not finite.
    """

    step: int
    """Steps done."""
    epoch: int
    """Complete epochs."""
    batches_done: int
    """Batches of the current epoch that all processes together have trained on."""
    seconds: float
    """Training time, evaluation excluded."""

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            require(
                0 <= value < math.inf,
                f"{name} must be finite and not negative: got {value}",
            )


class Trainer:
    """Trains a model, one optimiser step at a time.

    A step (:meth:`step`) sets the learning rate, accumulates the gradients of its batches, clips
    them, takes one Adam step and updates the exponential moving average (EMA) of the weights.
    :meth:`run` repeats it over the batches of epoch after epoch. A trainer that loads the
    :meth:`state_dict` of another continues with results bit-identical to the other's.

    The random numbers of dropout are derived from the seed, the step and the position of the batch
    in the step, so they are not part of the state. Evaluation between two steps does not change
    them, and one process that accumulates several batches draws the same numbers as several
    processes with one batch each.

    Args:
        model: the model to train, in place.
        batches: the training batches.
        config: the hyperparameters.
        world: the processes that train together. All call the same methods in the same order.

    Raises:
        TfmrError: if the model's device does not support ``config.precision``, or if
            ``config.compile`` is set and the model has no Transformer blocks.
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
        self.arithmetic = choose_arithmetic(config.precision, find_units(self.device))
        """How this device multiplies matrices for ``config.precision``."""
        loss = LossModule(model, config.label_smoothing, self.arithmetic)
        if config.compile:
            compile_blocks(model)
            loss.chunk_loss = torch.compile(loss.chunk_loss, backend=COMPILE_BACKEND, dynamic=True)
        self.loss_module = wrap_distributed(loss, self.world, fsdp=config.fsdp)
        self._recorded = None
        if self.device.type == "cuda" and self.world.size == 1 and transformer_blocks(model):
            self._recorded = RecordedGradients(
                loss, list(model.parameters()), self.device, warm_up_each=config.compile
            )
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.peak_lr, betas=config.betas, eps=config.eps, fused=True
        )
        self.weights = named_weights(model)
        self.ema = {n: w.clone() for n, w in self.weights.items()} if config.ema_decay else {}
        """The exponential moving average of the weights; empty if ``ema_decay`` is 0."""
        self.steps_done = 0
        self.seconds = 0.0
        self.epoch = 0
        self.batches_done = 0
        """Batches of the current epoch that all processes together have trained on."""
        self.between_steps = True
        """Whether the weights and the counters above belong to the same step."""
        self._steps_ahead = STEPS_AHEAD if self.device.type != "cpu" and self.world.size == 1 else 0
        self._diverged = torch.zeros((), device=self.device)
        """1 from a step without finite numbers on, which a GPU finds before this process does."""

    def step(self, *batches: Batch) -> StepRecord:
        """Take one optimiser step on the mean loss of all target tokens in ``batches``.

        With several processes, the loss is the mean over the tokens of all their batches.

        Raises:
            TfmrError: if the loss or the gradient norm is not finite; the weights are unchanged.
        """
        return self.start_step(*batches)()

    def start_step(self, *batches: Batch) -> Callable[[], StepRecord]:
        """Take a step; return the function that reads its numbers, which waits for a GPU.

        On a CPU, this method raises the error of :meth:`step`; on a GPU, the returned function
        does, and neither the step without finite numbers nor those after it change a weight.
        """
        start = time.perf_counter()
        self.model.train()
        lr = learning_rate(self.steps_done + 1, self.config.peak_lr, self.config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = lr

        if self._recorded is None:
            self.optimizer.zero_grad()
        else:
            self._recorded.clear()
        n_tokens = int(self.world.all_reduce(sum(batch.n_tokens for batch in batches)))
        losses = []
        for index, batch in enumerate(batches):
            is_last = index == len(batches) - 1
            sync = nullcontext() if is_last else no_sync(self.loss_module)
            # Weight each batch by its tokens, so that every token counts equally.
            share = batch.n_tokens / n_tokens
            with self._seeded(index), self.arithmetic.applied(), sync:
                if self._recorded is not None:
                    rounded = round_shape(batch, self.model.config.max_length)
                    losses.append(self._recorded(rounded, share))
                    continue
                batch_loss = self.loss_module(batch) * share
                # DDP and FSDP average gradients over the processes; the weighted losses need a sum.
                (batch_loss * self.world.size).backward()
            losses.append(batch_loss.detach())
        loss = torch.stack(losses).sum()
        if not self._steps_ahead:
            total = self.world.all_reduce(float(loss))
            loss = torch.tensor(total, dtype=torch.float64, device=self.device)
        grad_norm = full_tensor(clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        if self._steps_ahead:
            self._diverged = torch.maximum(self._diverged, (~(loss + grad_norm).isfinite()).float())
            # With this attribute at 1, which PyTorch's gradient scaler uses, Adam changes nothing.
            self.optimizer.found_inf = self._diverged  # type: ignore[attr-defined]
        else:
            self._check_finite(self.steps_done + 1, float(loss), float(grad_norm))

        self.between_steps = False
        self.optimizer.step()
        self.steps_done += 1
        self._update_ema()

        seconds = self.seconds + time.perf_counter() - start
        # The clock of the main process counts, so that all processes stop at the same step.
        self.seconds = self.world.all_reduce(seconds if self.world.is_main else 0)
        weight_norm = full_tensor(get_total_norm(list(self.weights.values())))
        numbers = read_later(torch.stack([x.double() for x in (loss, grad_norm, weight_norm)]))
        step, seconds = self.steps_done, self.seconds

        def record() -> StepRecord:
            loss, grad_norm, weight_norm = numbers()
            self._check_finite(step, loss, grad_norm)
            return StepRecord(step, loss, grad_norm, weight_norm, lr, n_tokens, seconds)

        return record

    def _check_finite(self, step: int, loss: float, grad_norm: float) -> None:
        if not math.isfinite(grad_norm) or not math.isfinite(loss):
            self.steps_done = step - 1
            self._diverged.zero_()
            raise TfmrError(
                f"training diverged at step {step}: loss {loss}, gradient norm {grad_norm}; lower "
                f"peak_lr ({self.config.peak_lr}) or lengthen the warm-up ({self.config.warmup} "
                "steps)"
            )

    @contextmanager
    def _seeded(self, index: int) -> Iterator[None]:
        """Seed PyTorch's default generators for batch ``index`` of this step, then restore them.

        Dropout takes no generator argument, so it can only be seeded through the default ones.
        """
        position = index * self.world.size + self.world.rank
        rng = random.Random(f"{self.config.seed}/{self.steps_done}/{position}")
        seed = rng.getrandbits(63)
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if self.device.type == "cuda":  # seeds only this GPU, unlike torch.manual_seed
                with torch.cuda.device(self.device):
                    torch.cuda.manual_seed(seed)
            yield

    def _update_ema(self) -> None:
        """Move the EMA towards the weights, with a smaller decay in the first steps.

        The EMA starts from random weights; the smaller decay quickly reduces their influence.
        """
        if self.ema:
            decay = min(self.config.ema_decay, self.steps_done / (self.steps_done + 10))
            update = get_ema_multi_avg_fn(decay)
            update(list(self.ema.values()), list(self.weights.values()), None)

    def run(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        on_step: Callable[[StepRecord], object] | None = None,
        needs_model: Callable[[], bool] = lambda: True,
    ) -> list[StepRecord]:
        """Train up to ``steps`` steps or ``seconds`` seconds in total, earlier calls included.

        Ctrl-C takes effect at the end of the current step, in all processes at the same step; see
        :func:`~tfmr.train.interrupt.defer_interrupts`. So does the end of ``torchrun``.

        Args:
            steps: total number of steps; ``None`` for no limit.
            seconds: total training time; ``None`` for no limit.
            on_step: called after each step, for example to log it.
            needs_model: whether ``on_step`` uses the model of the current step; asked after each
                step. Otherwise, on a GPU, ``on_step`` is called a few steps later.

        Returns:
            The records of the steps of this call.

        Raises:
            TfmrError: if neither limit is given, or training diverges.
            KeyboardInterrupt: after Ctrl-C, or if ``torchrun`` has ended.
        """
        require(
            steps is not None or seconds is not None,
            "expected a limit for the training: pass steps, seconds, or both",
        )
        max_steps = math.inf if steps is None else steps
        max_seconds = math.inf if seconds is None else seconds
        records: list[StepRecord] = []
        started: deque[Callable[[], StepRecord]] = deque()

        def finish(remaining: int = 0) -> None:
            while len(started) > remaining:
                records.append(started.popleft()())
                if on_step is not None:
                    on_step(records[-1])

        upcoming = self.upcoming_batches()
        with defer_interrupts() as interrupted:
            try:
                while self.steps_done < max_steps and self.seconds < max_seconds:
                    start = time.perf_counter()
                    batches, epoch, batches_done = next(upcoming)
                    self.seconds += time.perf_counter() - start
                    started.append(self.start_step(*batches))
                    self.epoch, self.batches_done = epoch, batches_done
                    self.between_steps = True
                    read_all = on_step is not None and needs_model()
                    finish(remaining=0 if read_all else self._steps_ahead)
                    ended = interrupted() or self.world.launcher_has_ended
                    if self.world.all_reduce(ended):
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                finish()
                raise
            finish()
        return records

    def upcoming_batches(self) -> Iterator[tuple[list[Batch], int, int]]:
        """Yield, for each following step, this process's batches and the position after the step.

        The position is ``epoch`` and ``batches_done``, counted over all processes. The batches of
        all epochs form one sequence, of which each process takes every ``world.size``-th.
        """
        own = self._own_batches()
        epoch, done = self.epoch, self.batches_done
        while True:
            batches = list(islice(own, self.config.grad_accum_steps))
            done += self.config.grad_accum_steps * self.world.size
            while done > self.batches.count():
                done -= self.batches.count()
                epoch += 1
            yield batches, epoch, done

    def _own_batches(self) -> Iterator[Batch]:
        """Yield the batches of this process, epoch after epoch, from the current position."""
        epoch, first = self.epoch, self.batches_done + self.world.rank
        while True:
            yield from self.batches.epoch(epoch, first, self.world.size)
            # The number, in the next epoch, of this process's first batch.
            first = (first - self.batches.count()) % self.world.size
            epoch += 1

    def averaged_model(self) -> Translator:
        """A copy of the model with the EMA of the weights, in evaluation mode.

        Without EMA it has the weights themselves. Sharded weights are gathered, so all processes
        must call this.
        """
        if self._is_sharded:  # sharded modules cannot be copied
            with torch.random.fork_rng([]):
                model = type(self.model)(self.model.config)
            weight = next(iter(self.weights.values()))
            model.to(weight.device, weight.dtype)
        else:
            model = copy.deepcopy(self.model)
        weights = self.ema or self.weights
        load_weights(model, {name: full_tensor(weight) for name, weight in weights.items()})
        return model.eval()

    @property
    def _is_sharded(self) -> bool:
        return self.config.fsdp and self.world.size > 1

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Copies of everything that the next step depends on.

        The state has the same form for any number of processes, so that any number can load it.
        Sharded tensors are gathered for the main process: all processes must call this, and the
        others get no tensors.

        Returns:
            tensors: weights, EMA and Adam's moments, by name.
            progress: a :class:`Progress` as JSON values.
        """
        tensors: dict[str, Tensor] = {}

        def put(name: str, tensor: Tensor) -> None:
            full = full_tensor(tensor)
            if self.world.is_main or not self._is_sharded:
                tensors[name] = full.clone()

        for name, parameter in self.model.named_parameters():
            put(f"weight.{name}", self.weights[name])
            if self.ema:
                put(f"ema.{name}", self.ema[name])
            for key, value in self.optimizer.state[parameter].items():
                put(f"adam.{key}.{name}", value)
        progress = Progress(self.steps_done, self.epoch, self.batches_done, self.seconds)
        return tensors, dataclasses.asdict(progress)

    @torch.no_grad()
    def load_state_dict(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned; further entries are not used.

        Raises:
            TfmrError: if a tensor or a value is missing, or does not fit this trainer (see
                :func:`tfmr.checkpoint.check_tensors`). Then nothing is changed.
        """
        where = "the state of the training"
        count = torch.empty((), dtype=torch.float32)
        expected: dict[str, Tensor] = {}
        for name, parameter in self.model.named_parameters():
            for kind in ("weight", *(["ema"] if self.ema else []), *ADAM):
                expected[f"{kind}.{name}"] = count if kind == "adam.step" else parameter
        check_tensors({n: t for n, t in tensors.items() if n in expected}, expected, where)
        known = {field.name for field in dataclasses.fields(Progress)}
        values = {name: value for name, value in progress.items() if name in known}
        restored = registry.structure(Progress, values, where)

        for name, parameter in self.model.named_parameters():
            weight = self.weights[name]
            weight.copy_(distribute_like(tensors[f"weight.{name}"], weight))
            if self.ema:
                self.ema[name].copy_(distribute_like(tensors[f"ema.{name}"], weight))
            step, *moments = (tensors[f"{kind}.{name}"] for kind in ADAM)
            exp_avg, exp_avg_sq = (distribute_like(moment, parameter) for moment in moments)
            self.optimizer.state[parameter] = {
                "step": step.to(self.device, copy=True),
                "exp_avg": exp_avg,
                "exp_avg_sq": exp_avg_sq,
            }
        self.steps_done, self.epoch = restored.step, restored.epoch
        self.batches_done, self.seconds = restored.batches_done, restored.seconds


def compile_blocks(model: Translator) -> None:
    """Compile each encoder and decoder block of ``model`` with :func:`torch.compile`.

    All encoder blocks share one kernel, and all decoder blocks another. Compiling the rest of the
    model would save no time. A copy of the model is not compiled.

    Raises:
        TfmrError: if the model has no such blocks.
    """
    blocks = transformer_blocks(model)
    require(
        bool(blocks),
        f"compile needs a model with Transformer blocks, and {type(model).__name__} has none: "
        "train it with compile = false",
    )
    for block in blocks:
        block.compile(backend=COMPILE_BACKEND, dynamic=True)
