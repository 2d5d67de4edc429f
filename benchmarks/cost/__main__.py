"""``python -m benchmarks.cost``: measure and fit how cost scales, and record it."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from benchmarks.cost import attention, decoding, training
from benchmarks.record import FOLDER, collect_metadata, run, write
from tfmr.data import corpora
from tfmr.train.trainer import StepRecord

Part = Literal["attention", "decoding", "training"]


@dataclass(frozen=True)
class Cost:
    """Measure how cost scales, on one thread, in about seven minutes, and record it.

    Run this on an otherwise idle machine.
    """

    parts: Annotated[tuple[Part, ...], tyro.conf.Positional] = ("attention", "decoding", "training")
    """What to measure."""
    corpus: str = "multi30k"
    """The training corpus; "pocket" needs no download."""
    direction: str = "de-en"
    """Source and target language."""
    rounds: int = 5
    """Measured rounds of attention and decoding; the median is recorded."""
    out: Path = FOLDER / "cost"
    """The folder of the records."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = collect_metadata()
        for part in self.parts:
            print(part, file=sys.stderr)
            if part == "training":
                corpus = corpora.load(self.corpus, self.direction)
                rows = training.measure(corpus, on_step=print_progress)
                settings = training.settings(corpus, training.STEPS)
            else:
                module = attention if part == "attention" else decoding
                rows = module.measure(rounds=self.rounds)
                settings = {**module.SETTINGS, "rounds": self.rounds}
            path = self.out / f"{part}.json"
            write(path, "scaling", rows, settings=settings, metadata=metadata)


def print_progress(step: StepRecord) -> None:
    """Print the loss every 200 steps."""
    if step.step % 200 == 0:
        print(f"step {step.step}: loss {step.loss:.2f}", file=sys.stderr)


if __name__ == "__main__":
    run(Cost)
