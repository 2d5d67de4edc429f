"""``python -m benchmarks.cost``: measure and fit how cost scales, and record it."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from benchmarks.cost import attention, decoding, training
from benchmarks.record import collect_metadata, write
from tfmr.data import corpora
from tfmr.errors import TfmrError
from tfmr.records import FOLDER
from tfmr.train.trainer import StepRecord

Part = Literal["attention", "decoding", "training"]


def cost(
    parts: Annotated[tuple[Part, ...], tyro.conf.Positional] = (
        "attention",
        "decoding",
        "training",
    ),
    /,
    *,
    corpus: str = "multi30k",
    direction: str = "de-en",
    rounds: int = 5,
    out: Path = FOLDER / "cost",
) -> None:
    """Measure how cost scales, on one thread, in about seven minutes, and record it.

    Run this on an otherwise idle machine.

    Args:
        parts: what to measure. Default: everything.
        corpus: the training corpus; "pocket" needs no download.
        direction: source and target language.
        rounds: measured rounds of attention and decoding; the median is recorded.
        out: the folder of the records.
    """
    torch.set_num_threads(1)
    # Collected first: writing a record would mark the checkout as changed.
    metadata = collect_metadata()
    for part in parts:
        print(part, file=sys.stderr)
        if part == "attention":
            write(
                out / "attention.json",
                "scaling",
                attention.measure(rounds=rounds),
                settings={**attention.SETTINGS, "rounds": rounds},
                metadata=metadata,
            )
        elif part == "decoding":
            write(
                out / "decoding.json",
                "scaling",
                decoding.measure(rounds=rounds),
                settings={**decoding.SETTINGS, "rounds": rounds},
                metadata=metadata,
            )
        else:
            loaded = corpora.load(corpus, direction)
            write(
                out / "training.json",
                "scaling",
                training.measure(loaded, on_step=print_progress),
                settings=training.settings(loaded, training.STEPS),
                metadata=metadata,
            )


def print_progress(step: StepRecord) -> None:
    """Print the loss every 200 steps."""
    if step.step % 200 == 0:
        print(f"step {step.step}: loss {step.loss:.2f}", file=sys.stderr)


if __name__ == "__main__":
    try:
        tyro.cli(cost, prog="python -m benchmarks.cost")
    except TfmrError as error:
        sys.exit(f"benchmarks.cost: {error}")
