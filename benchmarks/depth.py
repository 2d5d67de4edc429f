"""``python -m benchmarks.depth``: what makes a deep stack trainable.

Stacks that differ in what surrounds each sublayer (:data:`CONNECTIONS`) are trained on two small
tasks, with several learning rates and seeds, until they have learned the task or until the steps
are used up. Within an experiment, stacks of the same seed have the same batches and, up to scale,
the same initial weights. Every learning rate is recorded; none is chosen here.

``feed-forward``
    stacks of feed-forward networks, with an initialisation that preserves the variance.
``final-norm``
    the same, with only a final layer norm, and with pre-norm but without a final layer norm.
``encoder``
    post-norm and pre-norm encoder blocks with the initialisation of
    :class:`tfmr.model.Transformer`, with and without warm-up (Xiong et al., 2020; Liu et al.,
    2020).
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Literal, cast

import torch
import torch.nn.functional as F
import tyro
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import get_total_norm
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, grouped, markdown, select
from tfmr.attention import MultiHeadAttention, causal_mask
from tfmr.config import BlockConfig
from tfmr.encoder import EncoderBlock
from tfmr.layers import FeedForward, Residual, final_norm
from tfmr.position import sinusoidal

Sublayer = Callable[[Tensor], Tensor]
Name = Literal["feed-forward", "final-norm", "encoder"]

DIGITS = 10
"""Task *addition*: the last digit of the sum of two digits."""
TOKENS, LENGTH, SENTENCES = 16, 8, 8
"""Task *previous token*: the size of the vocabulary, of a sentence and of a batch."""
CONFIG = BlockConfig(d_model=32, n_heads=2, d_ff=128, dropout=0.0)
POSITIONS, MASK = sinusoidal(LENGTH, CONFIG.d_model), causal_mask(LENGTH)
BETAS, EPS = (0.9, 0.98), 1e-9
"""Adam's constants (Vaswani et al., 2017, section 5.3)."""
LEARNED, LAST = 0.5, 10
"""A stack has learned its task when the mean loss of ten successive steps is below 0.5 nats, which
is tested after every ten steps."""


class Plain(nn.Module):
    """The sublayer alone."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply ``sublayer``."""
        return sublayer(x)


class Unnormalised(nn.Module):
    """A residual connection without layer norm."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        """Apply ``sublayer`` and add its output to ``x``."""
        return x + sublayer(x)


CONNECTIONS: dict[str, Callable[[int], nn.Module]] = {
    "plain": lambda d_model: Plain(),
    "residual": lambda d_model: Unnormalised(),
    "scaled residual": lambda d_model: Unnormalised(),
    "residual, final norm": lambda d_model: Unnormalised(),
    "post-norm": lambda d_model: Residual(d_model, 0.0, "post"),
    "pre-norm": lambda d_model: Residual(d_model, 0.0, "pre"),
    "pre-norm, no final norm": lambda d_model: Residual(d_model, 0.0, "pre"),
}
"""What surrounds each sublayer, by the name of the stack.

In ``scaled residual`` the last matrix of each sublayer is divided by the square root of the number
of sublayers.
"""

FINAL_NORM = ("pre-norm", "residual, final norm")
"""Stacks with a layer norm after the last block."""


@dataclass(frozen=True)
class Experiment:
    """A grid of training runs."""

    stacks: tuple[str, ...]
    """Names of :data:`CONNECTIONS`."""
    blocks: int
    """Depth."""
    peak_lrs: tuple[float, ...]
    """Peak learning rates; after the warm-up the rate is constant."""
    warmups: tuple[int, ...] = (0,)
    """Steps of linear warm-up; 0 for none."""
    steps: int = 600
    """The largest number of steps of a run."""
    matched: bool = True
    """Whether the initialisation preserves the variance; otherwise it is Xavier's."""


FEED_FORWARD = Experiment(
    stacks=("plain", "residual", "scaled residual", "post-norm", "pre-norm"),
    blocks=32,
    peak_lrs=(3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
)
EXPERIMENTS: dict[Name, Experiment] = {
    "feed-forward": FEED_FORWARD,
    "final-norm": dataclasses.replace(
        FEED_FORWARD, stacks=("residual, final norm", "pre-norm, no final norm")
    ),
    "encoder": Experiment(
        stacks=("post-norm", "pre-norm"),
        blocks=12,
        peak_lrs=(3e-4, 1e-3, 3e-3),
        warmups=(0, 100),
        matched=False,
    ),
}


@dataclass(frozen=True)
class Depth:
    """Train deep stacks, and record when they have learned their task.

    The losses do not depend on the speed of the machine.
    """

    experiments: Annotated[tuple[Name, ...], tyro.conf.Positional] = tuple(EXPERIMENTS)
    """What to measure; each experiment has its own record. Default: everything."""
    seeds: int = 5
    """Seeds of weights and batches."""
    out: Path = record.FOLDER
    """The folder of the records."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        seeds = list(range(self.seeds))
        for name in self.experiments:
            experiment = EXPERIMENTS[name]
            settings = {
                "experiment": name,
                "seeds": seeds,
                "steps": experiment.steps,
                "blocks": experiment.blocks,
                "matched_initialisation": experiment.matched,
                "uniform_loss": round(math.log(TASKS[name].classes), 4),
                **dataclasses.asdict(TASKS[name].config),
                "betas": list(BETAS),
                "eps": EPS,
                "learned_below": LEARNED,
                "mean_of_last_steps": LAST,
            }
            rows = measure(name, experiment, seeds)
            path = self.out / f"depth-{name}.json"
            record.write(path, "depth", rows, settings=settings, metadata=metadata)


def measure(name: Name, experiment: Experiment, seeds: Sequence[int]) -> Iterator[Row]:
    """A row for each run of ``experiment``."""
    grid = itertools.product(experiment.stacks, experiment.warmups)
    runs = list(itertools.product(experiment.peak_lrs, seeds))
    for stack, warmup in tqdm(list(grid), desc=name, unit=" stacks"):
        stacks = []
        for _, seed in runs:
            torch.manual_seed(seed)
            stacks.append(TASKS[name](stack, experiment.blocks, matched=experiment.matched))
        initial = [
            initial_state(one, *one.batch(rng(seed)))
            for one, (_, seed) in zip(stacks, runs, strict=True)
        ]
        curves = train(stacks, runs, warmup, experiment.steps)
        for (peak_lr, seed), state, curve in zip(runs, initial, curves, strict=True):
            last = mean(curve[-LAST:])
            yield {
                **{"stack": stack, "warmup": warmup, "peak_lr": peak_lr, "seed": seed, **state},
                "learned_at": len(curve) if last < LEARNED else None,
                "loss": round(last, 5) if math.isfinite(last) else None,
            }


def rng(seed: int) -> torch.Generator:
    """The source of the batches of a seed."""
    return torch.Generator().manual_seed(seed)


class Stack(nn.Module):
    """Blocks between an embedding and an output layer.

    Args:
        name: one of :data:`CONNECTIONS`.
        n_blocks: number of blocks.
        matched: whether the initialisation preserves the variance; otherwise it is Xavier's.
    """

    config: BlockConfig
    tokens: int
    classes: int
    block: Callable[[BlockConfig], nn.Module]

    def __init__(self, name: str, n_blocks: int, *, matched: bool) -> None:
        super().__init__()
        d_model = self.config.d_model
        self.embedding = nn.Embedding(self.tokens, d_model)
        self.output = nn.Linear(d_model, self.classes)
        self.blocks = nn.ModuleList(self.block(self.config) for _ in range(n_blocks))
        self.norm = final_norm(d_model, "pre" if name in FINAL_NORM else "post")
        for block in self.blocks:
            n_sublayers = len(cast(nn.ModuleList, block.residuals))
            block.residuals = nn.ModuleList(CONNECTIONS[name](d_model) for _ in range(n_sublayers))
        self._initialise(matched=matched)
        if name == "scaled residual":
            self._scale()

    @torch.no_grad()
    def _initialise(self, *, matched: bool) -> None:
        """Xavier's initialisation, or He's for the feed-forward networks."""
        for module in self.blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for module in self.blocks.modules():
            if matched and isinstance(module, FeedForward):
                nn.init.kaiming_normal_(module.expand.weight, nonlinearity="relu")
                nn.init.kaiming_normal_(module.contract.weight, nonlinearity="linear")

    @torch.no_grad()
    def _scale(self) -> None:
        """Divide the last matrix of each sublayer by the square root of their number."""
        last = [m.contract for m in self.blocks.modules() if isinstance(m, FeedForward)]
        last += [m.w_o for m in self.blocks.modules() if isinstance(m, MultiHeadAttention)]
        for linear in last:
            linear.weight /= math.sqrt(len(last))

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Token ids and the classes to predict."""
        raise NotImplementedError

    def stream(self, ids: Tensor) -> Tensor:
        """The output of the last block."""
        raise NotImplementedError

    def forward(self, ids: Tensor, classes: Tensor) -> Float[Tensor, ""]:
        """Cross-entropy in nats per class."""
        logits = self.output(self.norm(self.stream(ids)))
        return F.cross_entropy(logits.flatten(0, -2), classes.flatten())


class FeedForwardBlock(nn.Module):
    """A feed-forward network and its connection.

    Args:
        config: sizes and activation.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList([Plain()])

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply the network and its connection."""
        out: Tensor = self.residuals[0](x, self.feed_forward)
        return out


class Addition(Stack):
    """Predict the last digit of the sum of two digits; every batch has all pairs."""

    config = BlockConfig(d_model=16, n_heads=2, d_ff=64, dropout=0.0)
    tokens = 2 * DIGITS
    classes = DIGITS
    block = FeedForwardBlock

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Ids ``(pairs, 2)`` and classes ``(pairs)``."""
        digits = torch.cartesian_prod(torch.arange(DIGITS), torch.arange(DIGITS))
        return digits + torch.tensor([0, DIGITS]), digits.sum(dim=1) % DIGITS

    def stream(self, ids: Int[Tensor, "pairs 2"]) -> Float[Tensor, "pairs 1 d_model"]:
        """The blocks, applied to the sum of the two embeddings, which has variance 1."""
        x: Tensor = self.embedding(ids).sum(dim=1, keepdim=True) / math.sqrt(2)
        for block in self.blocks:
            x = block(x)
        return x


class PreviousToken(Stack):
    """Predict the previous token of random sentences, with causal attention."""

    config = CONFIG
    tokens = classes = TOKENS
    block = EncoderBlock

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Ids ``(batch, length)`` and their previous tokens ``(batch, length - 1)``."""
        ids = torch.randint(TOKENS, (SENTENCES, LENGTH), generator=generator)
        return ids, ids[:, :-1]

    def stream(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch predicted d_model"]:
        """The output of the last block at all positions but the first."""
        x: Tensor = self.embedding(ids) + POSITIONS
        for block in self.blocks:
            x = block(x, MASK)
        return x[:, 1:]


TASKS: dict[Name, type[Stack]] = {
    "feed-forward": Addition,
    "final-norm": Addition,
    "encoder": PreviousToken,
}
"""The task of each experiment."""


def initial_state(stack: Stack, ids: Tensor, classes: Tensor) -> Row:
    """The state of a stack before training.

    Returns:
        ``initial_loss``; ``stream``, the root mean square of the last block's output; ``cosine``,
        the mean cosine between its vectors for different tokens or pairs; ``first_grad`` and
        ``last_grad``, the gradient norms of the first and the last block.
    """
    x = stack.stream(ids).detach().flatten(0, -2)
    unit = F.normalize(x, dim=-1)
    n = len(unit)
    loss = stack(ids, classes)
    grads = [
        torch.autograd.grad(loss, list(block.parameters()), retain_graph=True)
        for block in (stack.blocks[0], stack.blocks[-1])
    ]
    values = {
        "initial_loss": loss,
        "stream": x.square().mean().sqrt(),
        "cosine": (unit.sum(dim=0).square().sum() - n) / (n * (n - 1)),
        "first_grad": get_total_norm(grads[0]),
        "last_grad": get_total_norm(grads[1]),
    }
    return {name: float(f"{value.item():.4g}") for name, value in values.items()}


def train(
    stacks: Sequence[Stack], runs: Sequence[tuple[float, int]], warmup: int, steps: int
) -> list[list[float]]:
    """Train stacks with Adam, all together, each until it has learned; return their losses.

    Small stacks train faster together (:func:`torch.func.vmap`) than one after the other. They do
    not affect each other. A run also ends when its loss is no longer finite.

    Args:
        stacks: stacks of one kind, one for each run.
        runs: the peak learning rate and the seed of the batches of each run.
        warmup: steps of linear warm-up.
        steps: the largest number of steps.
    """
    state, _ = stack_module_state(list(stacks))
    weights = [weight.detach() for weight in state.values()]
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]
    stack = stacks[0]
    losses_of = vmap(lambda weights, *batch: functional_call(stack, weights, batch))
    generators = [rng(seed) for _, seed in runs]
    curves: list[list[float]] = [[] for _ in runs]
    active = list(range(len(runs)))
    for step in range(1, steps + 1):
        batches = zip(*(stack.batch(generators[run]) for run in active), strict=True)
        weights = [weight.requires_grad_() for weight in weights]
        losses = losses_of(dict(zip(state, weights, strict=True)), *map(torch.stack, batches))
        gradients = torch.autograd.grad(losses.sum(), weights)
        warm = min(1, step / max(warmup, 1))
        rates = torch.tensor([runs[run][0] * warm for run in active])
        weights = [
            adam(weight.detach(), gradient, *moment, rates, step)
            for weight, gradient, moment in zip(weights, gradients, moments, strict=True)
        ]
        for run, loss in zip(active, losses.tolist(), strict=True):
            curves[run].append(loss)
        if step % LAST == 0:
            # The comparison is false, too, if the mean is not a number.
            kept = [k for k, run in enumerate(active) if mean(curves[run][-LAST:]) >= LEARNED]
            if len(kept) < len(active):
                active = [active[k] for k in kept]
                weights = [weight[kept] for weight in weights]
                moments = [(first[kept], second[kept]) for first, second in moments]
        if not active:
            break
    return curves


def adam(
    weights: Float[Tensor, "run ..."],
    gradients: Float[Tensor, "run ..."],
    first: Float[Tensor, "run ..."],
    second: Float[Tensor, "run ..."],
    rates: Float[Tensor, "run"],
    step: int,
) -> Float[Tensor, "run ..."]:
    """One step of Adam, with a learning rate for each run; the moments are updated in place."""
    first.lerp_(gradients, 1 - BETAS[0])
    second.lerp_(gradients.square(), 1 - BETAS[1])
    mean_square = second / (1 - BETAS[1] ** step)
    change = first / (1 - BETAS[0] ** step) / (mean_square.sqrt() + EPS)
    return weights - rates.view(-1, *[1] * (weights.dim() - 1)) * change


ABOUT: dict[Name, str] = {
    "feed-forward": (
        "Stacks of feed-forward networks with He initialisation that differ in the connection "
        "around each sublayer. *Scaled*: the last matrix of each sublayer is divided by the square "
        "root of the number of sublayers."
    ),
    "final-norm": (
        "Two stacks that differ from *residual* and *pre-norm* in `depth-feed-forward.json` only "
        "in the layer norm after the last block."
    ),
    "encoder": (
        "Stacks of encoder blocks with Xavier initialisation that differ in the placement of layer "
        "norm and in the warm-up."
    ),
}
"""What differs between the stacks of each experiment."""


def table(rows: list[Row], settings: Row) -> list[str]:
    """How many runs learned their task, and after how many steps, by learning rate."""
    rates = grouped(rows, "peak_lr")
    lines = [
        [
            *map(str, stack),
            f"{median(row['stream'] for row in own):.2g}",
            f"{median(row['first_grad'] / row['last_grad'] for row in own):.2g}",
            *(_learned(select(own, peak_lr=rate)) for rate in rates),
        ]
        for stack, own in grouped(rows, "stack", "warmup").items()
    ]
    header = ["", "warm-up", "stream", "gradient", *(f"{rate:g}" for rate in rates)]
    return [
        f"{ABOUT[settings['experiment']]} Every stack has {settings['blocks']} blocks. *Stream* "
        "and *gradient* are measured before training: the root mean square of the last block's "
        "output, and the gradient norm of the first block divided by the gradient norm of the last "
        f"block (medians of {len(settings['seeds'])} seeds). The columns headed by a peak learning "
        "rate give the number of runs that learned the task and, in parentheses, after how many "
        "steps (the fewest and the most). A run has learned the task when the mean loss of "
        f"{settings['mean_of_last_steps']} successive steps is below {settings['learned_below']} "
        f"nats (a uniform prediction has a loss of {settings['uniform_loss']:.2f}); it has at most "
        f"{settings['steps']} steps.",
        markdown(header, lines),
    ]


def _learned(rows: list[Row]) -> str:
    """The number of runs that learned their task, and their fewest and most steps."""
    steps = [row["learned_at"] for row in rows if row["learned_at"] is not None]
    return f"{len(steps)} ({min(steps)}–{max(steps)})" if steps else "0"


CLAIMS: dict[Name, dict[tuple[str, int], list[int]]] = {
    "feed-forward": {
        ("plain", 0): [3, 5, 5, 5, 3, 0],
        ("residual", 0): [3, 5, 3, 5, 5, 3],
        ("scaled residual", 0): [5, 5, 5, 5, 5, 1],
        ("post-norm", 0): [0, 5, 5, 5, 0, 0],
        ("pre-norm", 0): [0, 5, 5, 5, 5, 5],
    },
    "final-norm": {
        ("residual, final norm", 0): [0, 5, 5, 5, 0, 0],
        ("pre-norm, no final norm", 0): [5, 5, 5, 5, 5, 5],
    },
    "encoder": {
        ("post-norm", 0): [0, 0, 0],
        ("post-norm", 100): [0, 2, 0],
        ("pre-norm", 0): [5, 5, 5],
        ("pre-norm", 100): [5, 5, 5],
    },
}
"""The number of runs that learn, by stack and warm-up, for each learning rate."""


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The counts that chapter 7 explains."""
    for (stack, warmup), expected in CLAIMS[settings["experiment"]].items():
        own = grouped(select(rows, stack=stack, warmup=warmup), "peak_lr").values()
        found = [sum(row["learned_at"] is not None for row in runs) for runs in own]
        yield (
            f"{stack}, warm-up {warmup}: {found} runs learned, expected {expected}",
            (found == expected),
        )


if __name__ == "__main__":
    record.run(Depth)
