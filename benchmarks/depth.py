"""``python -m benchmarks.depth``: what makes a deep stack trainable.

Stacks that differ in what surrounds each sublayer (:data:`CONNECTIONS`) are trained on two small
tasks, at several depths and learning rates and with several seeds. Within an experiment, stacks of
the same seed have the same batches. Those of the same depth and seed also have the same initial
weights, up to scale; ``plain, Xavier`` is the exception. Every learning rate is recorded; none is
chosen here.

``feed-forward``
    stacks of feed-forward networks, with an initialisation that preserves the variance.
``encoder``
    the same for stacks of encoder blocks, which also contain self-attention.
``warm-up``
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
from benchmarks.tables import Claims, grouped, markdown, select, spread
from tfmr.attention import MultiHeadAttention, causal_mask
from tfmr.config import BlockConfig
from tfmr.encoder import EncoderBlock
from tfmr.layers import FeedForward, Residual, final_norm
from tfmr.position import sinusoidal
from tfmr.train.intervals import paired_difference

Sublayer = Callable[[Tensor], Tensor]
Name = Literal["feed-forward", "encoder", "warm-up"]

DIGITS = 10
"""Task *addition*: the last digit of the sum of two digits."""
TOKENS, LENGTH, SENTENCES = 16, 8, 8
"""Task *previous token*: the size of the vocabulary, of a sentence and of a batch."""
CONFIG = BlockConfig(d_model=32, n_heads=2, d_ff=128, dropout=0.0)
POSITIONS, MASK = sinusoidal(LENGTH, CONFIG.d_model), causal_mask(LENGTH)
BETAS, EPS = (0.9, 0.98), 1e-9
"""Adam's constants (Vaswani et al., 2017, section 5.3)."""
LAST = 10
"""The recorded loss is the mean of so many steps at the end."""


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
    "plain, Xavier": lambda d_model: Plain(),
    "plain": lambda d_model: Plain(),
    "residual": lambda d_model: Unnormalised(),
    "scaled residual": lambda d_model: Unnormalised(),
    "post-norm": lambda d_model: Residual(d_model, 0.0, "post"),
    "pre-norm": lambda d_model: Residual(d_model, 0.0, "pre"),
}
"""What surrounds each sublayer, by the name of the stack.

``plain, Xavier`` has Xavier initialisation, which is too small for the ReLU; in ``scaled residual``
the last matrix of each sublayer is divided by the square root of the number of sublayers.
"""


@dataclass(frozen=True)
class Experiment:
    """A grid of training runs."""

    stacks: tuple[str, ...]
    """Names of :data:`CONNECTIONS`."""
    blocks: tuple[int, ...]
    """Depths."""
    peak_lrs: tuple[float, ...]
    """Peak learning rates; after the warm-up the rate is constant."""
    warmups: tuple[int, ...] = (0,)
    """Steps of linear warm-up; 0 for none."""
    steps: int = 150
    """Length of a run."""
    matched: bool = True
    """Whether the initialisation preserves the variance; otherwise it is Xavier's."""


EXPERIMENTS: dict[Name, Experiment] = {
    "feed-forward": Experiment(
        stacks=tuple(CONNECTIONS), blocks=(4, 12, 32), peak_lrs=(3e-4, 1e-3, 3e-3)
    ),
    "encoder": Experiment(
        stacks=("plain", "residual", "scaled residual", "post-norm", "pre-norm"),
        blocks=(12,),
        peak_lrs=(1e-3, 3e-3),
    ),
    "warm-up": Experiment(
        stacks=("post-norm", "pre-norm"),
        blocks=(6, 12),
        peak_lrs=(3e-4, 1e-3, 3e-3),
        warmups=(0, 200),
        steps=400,
        matched=False,
    ),
}


@dataclass(frozen=True)
class Depth:
    """Train stacks of several depths, and record their losses and gradients.

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
                "matched_initialisation": experiment.matched,
                "uniform_loss": round(math.log(TASKS[name].classes), 4),
                **dataclasses.asdict(CONFIG),
                "betas": list(BETAS),
                "eps": EPS,
                "mean_of_last_steps": LAST,
            }
            rows = measure(name, experiment, seeds)
            path = self.out / f"depth-{name}.json"
            record.write(path, "depth", rows, settings=settings, metadata=metadata)


def measure(name: Name, experiment: Experiment, seeds: Sequence[int]) -> Iterator[Row]:
    """A row for each run of ``experiment``."""
    grid = itertools.product(
        experiment.stacks, experiment.blocks, experiment.warmups, experiment.peak_lrs
    )
    for stack, blocks, warmup, peak_lr in tqdm(list(grid), desc=name, unit=" configurations"):
        stacks = []
        for seed in seeds:
            torch.manual_seed(seed)
            stacks.append(TASKS[name](stack, blocks, matched=experiment.matched))
        initial = [
            initial_state(one, *one.batch(rng(seed)))
            for one, seed in zip(stacks, seeds, strict=True)
        ]
        curves = train(stacks, seeds, peak_lr, warmup, experiment.steps)
        for seed, state, curve in zip(seeds, initial, curves, strict=True):
            diverged = not all(map(math.isfinite, curve))
            yield {
                **{"stack": stack, "blocks": blocks, "warmup": warmup, "peak_lr": peak_lr},
                **{"seed": seed, **state, "diverged": diverged},
                "loss": None if diverged else round(mean(curve[-LAST:]), 5),
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

    tokens: int
    classes: int
    block: Callable[[BlockConfig], nn.Module]

    def __init__(self, name: str, n_blocks: int, *, matched: bool) -> None:
        super().__init__()
        d_model = CONFIG.d_model
        self.embedding = nn.Embedding(self.tokens, d_model)
        self.output = nn.Linear(d_model, self.classes)
        self.blocks = nn.ModuleList(self.block(CONFIG) for _ in range(n_blocks))
        self.norm = final_norm(d_model, "pre" if name == "pre-norm" else "post")
        for block in self.blocks:
            n_sublayers = len(cast(nn.ModuleList, block.residuals))
            block.residuals = nn.ModuleList(CONNECTIONS[name](d_model) for _ in range(n_sublayers))
        self._initialise(matched=matched and name != "plain, Xavier")
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
    "encoder": PreviousToken,
    "warm-up": PreviousToken,
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
    stacks: Sequence[Stack], seeds: Sequence[int], peak_lr: float, warmup: int, steps: int
) -> list[list[float]]:
    """Train one stack per seed, all together, and return the losses of each.

    Small stacks train faster together (:func:`torch.func.vmap`) than one after the other. They do
    not affect each other: if the loss of one is no longer finite, the others continue.
    """
    weights, _ = stack_module_state(list(stacks))
    stack = stacks[0]
    losses_of = vmap(lambda weights, *batch: functional_call(stack, weights, batch))
    optimizer = torch.optim.Adam(weights.values(), lr=peak_lr, betas=BETAS, eps=EPS, fused=True)
    generators = [rng(seed) for seed in seeds]
    curves = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = peak_lr * min(1, step / max(warmup, 1))
        batches = zip(*(stack.batch(generator) for generator in generators), strict=True)
        losses = losses_of(weights, *map(torch.stack, batches))
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
        curves.append(losses.detach())
    return torch.stack(curves, dim=1).tolist()


_SCALED = (
    "*Scaled*: the last matrix of each sublayer is divided by the square root of the number of "
    "sublayers."
)
ABOUT: dict[Name, str] = {
    "encoder": (
        f"Stacks of encoder blocks that differ in the connection around each sublayer. {_SCALED}"
    ),
    "feed-forward": (
        "Stacks of feed-forward networks that differ in the connection around each sublayer, in "
        "the number of blocks and, in the rows *Xavier*, in the initialisation (Xavier instead of "
        f"He). {_SCALED}"
    ),
    "warm-up": (
        "Stacks of encoder blocks with Xavier initialisation that differ in the placement of layer "
        "norm, in the number of blocks and in the warm-up."
    ),
}
"""What differs between the stacks of each experiment."""


def table(rows: list[Row], settings: Row) -> list[str]:
    """The losses of stacks, by depth, warm-up and learning rate."""
    rates = grouped(rows, "peak_lr")
    lines = [
        [
            *map(str, stack),
            f"{median(row['stream'] for row in own):.2g}",
            f"{median(row['cosine'] for row in own):.2f}",
            f"{median(row['first_grad'] / row['last_grad'] for row in own):.2g}",
            # A run that diverged has no loss and counts as infinite.
            *(spread([math.inf if r["loss"] is None else r["loss"]
                      for r in select(own, peak_lr=rate)], ".3g", median) for rate in rates),
        ]
        for stack, own in grouped(rows, "stack", "blocks", "warmup").items()
    ]  # fmt: skip
    header = ["", "blocks", "warm-up", "stream", "cosine", "gradient", *(f"{r:g}" for r in rates)]
    return [
        f"{ABOUT[settings['experiment']]} "
        "*Stream*, *cosine* and *gradient* are measured before training: the root mean square of "
        "the last block's output, the mean cosine between its vectors, and the gradient norm of "
        "the first block divided by the gradient norm of the last block (medians of "
        f"{len(settings['seeds'])} seeds). The columns headed by a peak learning rate give the "
        f"training loss, in nats, averaged over the last {settings['mean_of_last_steps']} of "
        f"{settings['steps']} steps: the median, with the lowest and the highest of the seeds in "
        f"parentheses. A uniform prediction has a loss of {settings['uniform_loss']:.2f}.",
        markdown(header, lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 7 about each experiment."""
    experiment: Name = settings["experiment"]
    if experiment == "feed-forward":
        yield from _networks(rows)
    elif experiment == "encoder":
        yield from _blocks(rows, settings["uniform_loss"])
    else:
        yield from _warm_up(rows)


def _losses(rows: list[Row], **selection: object) -> list[float]:
    """The losses of the selected runs, in the order of the seeds."""
    return [row["loss"] for row in sorted(select(rows, **selection), key=lambda row: row["seed"])]


def _networks(rows: list[Row]) -> Claims:
    """Stacks of feed-forward networks.

    A run has learned its task if its loss is below 0.5 nats; the counts are those of three
    learning rates.
    """
    expected = {(stack, blocks): [5, 5, 5] for stack in CONNECTIONS for blocks in (4, 12)}
    expected["plain, Xavier", 12] = [5, 3, 2]
    expected |= {
        ("plain, Xavier", 32): [0, 0, 0],
        ("plain", 32): [5, 0, 0],
        ("residual", 32): [0, 0, 1],
        ("scaled residual", 32): [5, 5, 0],
        ("post-norm", 32): [5, 4, 0],
        ("pre-norm", 32): [5, 5, 5],
    }
    for (stack, blocks), counts in expected.items():
        found = [
            sum(loss < 0.5 for loss in _losses(rows, stack=stack, blocks=blocks, peak_lr=peak_lr))
            for peak_lr in (3e-4, 1e-3, 3e-3)
        ]
        claim = f"{stack}, {blocks} networks: {found} runs learned the task, expected {counts}"
        yield claim, found == counts
    deep = select(rows, blocks=32)
    ratios = [row["first_grad"] / row["last_grad"] for row in select(deep, stack="plain")]
    kept = min(ratios) > 1 / 4 and max(ratios) < 4
    yield "the gradient of the plain stack does not vanish", kept
    parallel = min(row["cosine"] for row in deep if row["stack"].startswith("plain"))
    yield "the vectors of plain stacks are nearly parallel", parallel > 0.86


def _blocks(rows: list[Row], chance: float) -> Claims:
    """Stacks of encoder blocks."""
    for stack in ("plain", "post-norm"):
        yield f"{stack} remains near chance level", min(_losses(rows, stack=stack)) > chance - 0.1
    large = min(_losses(rows, stack="residual")) > 200
    yield "the loss with a residual connection alone is above 200", large
    for stack in ("scaled residual", "pre-norm"):
        yield f"{stack} learns", max(_losses(rows, stack=stack)) < 1.1


def _warm_up(rows: list[Row]) -> Claims:
    """Warm-up."""
    for run in itertools.product(("post-norm", "pre-norm"), (6, 12), (3e-4, 1e-3, 3e-3)):
        own = select(rows, **dict(zip(("stack", "blocks", "peak_lr"), run, strict=True)))
        effect = paired_difference(_losses(own, warmup=200), _losses(own, warmup=0))
        expected = run == ("post-norm", 12, 1e-3)
        claim = f"{run[0]}, {run[1]} blocks, {run[2]:g}: warm-up "
        yield claim + ("helps" if expected else "does not help"), (effect.high < 0) == expected


if __name__ == "__main__":
    record.run(Depth)
