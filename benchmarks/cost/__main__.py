"""``python -m benchmarks.cost``: measure, fit, record."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from benchmarks.cost import attention, decoding, training
from benchmarks.record import facts, write
from tfmr.data import corpora
from tfmr.errors import TfmrError
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
    out: Path = Path(__file__).parent,
) -> None:
    """Measure how cost grows, on one thread, in about seven minutes, and record it.

    Nothing else should run meanwhile.

    Args:
        parts: what to measure; all if none is named.
        corpus: what training learns from; "pocket" needs no data.
        direction: its languages.
        rounds: how often attention and decoding are timed, in turns; the median is kept.
        out: the folder for the records.
    """
    torch.set_num_threads(1)
    # Before the first record changes a file, which would make the commit look changed.
    about = facts()
    for part in parts:
        print(part, file=sys.stderr)
        if part == "attention":
            write(
                out / "attention.json",
                "growth",
                attention.measure(rounds=rounds),
                settings={**attention.SETTINGS, "rounds": rounds},
                about=about,
            )
        elif part == "decoding":
            write(
                out / "decoding.json",
                "growth",
                decoding.measure(rounds=rounds),
                settings={**decoding.SETTINGS, "rounds": rounds},
                about=about,
            )
        else:
            loaded = corpora.load(corpus, direction)
            write(
                out / "training.json",
                "growth",
                training.measure(loaded, on_step=tell),
                settings=training.settings(loaded, training.STEPS),
                about=about,
            )


def tell(step: StepRecord) -> None:
    """Say now and then how far a training is."""
    if step.step % 200 == 0:
        print(f"step {step.step}: loss {step.loss:.2f}", file=sys.stderr)


if __name__ == "__main__":
    try:
        tyro.cli(cost, prog="python -m benchmarks.cost")
    except TfmrError as error:
        sys.exit(f"benchmarks.cost: {error}")
