"""``python -m benchmarks.stream``: the residual stream of deep stacks during training.

The encoder stacks of :mod:`benchmarks.depth` are trained on its task *previous token*, each with
the same batches and, up to scale, the same initial weights. Before training and after some of the
steps, a row records the stream and the gradients of one more batch, which is not trained on.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.utils import get_total_norm
from tqdm import tqdm

from benchmarks import record
from benchmarks.depth import BETAS, CONFIG, EPS, MASK, POSITIONS, PreviousToken, rng
from benchmarks.record import Row
from benchmarks.tables import grouped, markdown, only

STACKS = ("residual", "scaled residual", "post-norm", "pre-norm")
BLOCKS = (6, 12, 24)
STEPS = (0, 10, 30, 100, 200, 400)
"""The steps after which the stream is recorded."""
PEAK_LR = 1e-3
SEED, HELD_OUT = 0, 1_000_000
"""Seeds of weights and batches, and of the batch that is measured."""


@dataclass(frozen=True)
class Stream:
    """Record the vector norms and the gradients of the residual stream during training.

    The results do not depend on the speed of the machine.
    """

    stacks: tuple[str, ...] = STACKS
    """Names of :data:`benchmarks.depth.CONNECTIONS`."""
    blocks: tuple[int, ...] = BLOCKS
    """Depths."""
    steps: tuple[int, ...] = STEPS
    """Steps after which the stream is recorded, in ascending order."""
    out: Path = record.FOLDER / "depth-stream.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        settings = {
            "seed": SEED,
            "peak_lr": PEAK_LR,
            "steps": list(self.steps),
            "uniform_loss": round(math.log(PreviousToken.classes), 4),
            **dataclasses.asdict(CONFIG),
            "betas": list(BETAS),
            "eps": EPS,
        }
        grid = list(itertools.product(self.stacks, self.blocks))
        rows = itertools.chain.from_iterable(
            measure(stack, blocks, self.steps) for stack, blocks in tqdm(grid, unit=" stacks")
        )
        record.write(self.out, "stream", rows, settings=settings, metadata=metadata)


def measure(name: str, blocks: int, steps: Sequence[int]) -> Iterator[Row]:
    """Train one stack; yield its state after each of ``steps``."""
    torch.manual_seed(SEED)
    stack = PreviousToken(name, blocks, matched=True)
    optimizer = torch.optim.Adam(stack.parameters(), lr=PEAK_LR, betas=BETAS, eps=EPS)
    generator = rng(SEED)
    for step in range(max(steps) + 1):
        if step in steps:
            yield {"stack": name, "blocks": blocks, "step": step, **state(stack)}
        optimizer.zero_grad()
        stack(*stack.batch(generator)).backward()
        optimizer.step()


def state(stack: PreviousToken) -> Row:
    """The state of a stack on a batch that is not trained on.

    Returns:
        ``loss`` in nats; ``stream``, the mean vector norm of the input of the first block and of
        the output of each block; ``change``, for each block the mean vector norm of the difference
        between its output and its input, divided by that of its input; ``gradient``, for each block
        the gradient norm of its weights.
    """
    ids, classes = stack.batch(rng(HELD_OUT))
    with torch.no_grad():
        stream = [stack.embedding(ids) + POSITIONS]
        for block in stack.blocks:
            stream.append(block(stream[-1], MASK))
    norms = [x.norm(dim=-1).mean() for x in stream]
    changes = [
        (after - before).norm(dim=-1).mean() / norm
        for before, after, norm in zip(stream, stream[1:], norms, strict=False)
    ]
    loss = stack(ids, classes)
    parameters = [list(block.parameters()) for block in stack.blocks]
    grads = torch.autograd.grad(loss, list(itertools.chain.from_iterable(parameters)))
    iterator = iter(grads)
    gradients = [get_total_norm([next(iterator) for _ in block]) for block in parameters]
    return {
        "loss": _rounded(loss),
        "stream": list(map(_rounded, norms)),
        "change": list(map(_rounded, changes)),
        "gradient": list(map(_rounded, gradients)),
    }


def _rounded(number: torch.Tensor) -> float:
    return float(f"{number.item():.4g}")


def table(rows: list[Row], settings: Row) -> list[str]:
    """Growth of the residual stream, gradients and loss, before and after training."""
    first, last = min(settings["steps"]), max(settings["steps"])
    lines = []
    for (stack, blocks), own in grouped(rows, "stack", "blocks").items():
        ends = [only(own, step=step) for step in (first, last)]
        growth = (f"{row['stream'][-1] / row['stream'][0]:.2g}" for row in ends)
        gradient = (f"{row['gradient'][0] / row['gradient'][-1]:.2g}" for row in ends)
        loss = (f"{row['loss']:.3g}" for row in ends)
        lines.append([stack, str(blocks), *growth, *gradient, *loss])
    columns = itertools.product(("growth", "gradient", "loss"), ("before", "after"))
    return [
        f"Encoder stacks before training and after {last} training steps with a learning rate of "
        f"{settings['peak_lr']:g}, one seed. *Growth*: the vector norm of the residual stream "
        "after the last block divided by the vector norm of the input. *Gradient*: the gradient "
        "norm of the first block divided by that of the last. *Loss*: in nats, on a batch that was "
        "not used for training; a uniform prediction has a loss of "
        f"{settings['uniform_loss']:.2f}.",
        markdown(["", "blocks", *map(", ".join, columns)], lines),
    ]


if __name__ == "__main__":
    record.run(Stream)
