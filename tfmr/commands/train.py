"""``train``: from a corpus to a folder with a model."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from tfmr.commands.data import Data
from tfmr.train.recipes import RECIPES
from tfmr.train.run import Run


@dataclass(frozen=True)
class Train:
    """Train a model on a corpus and score it; leaves a folder with model, curve and scores.

    Example: python -m tfmr train --corpus multi30k --direction de-en --minutes 5 10
    """

    data: Annotated[Data, tyro.conf.arg(name="")]
    minutes: tuple[float, ...] = (1.0,)
    """Train this long and score; several numbers score at each. Scoring does not count."""
    out: Path | None = None
    """The folder to write to; runs/CORPUS-DIRECTION if not given."""
    resume: bool = False
    """Go on with the run in the folder."""

    def __call__(self) -> None:
        """Train, printing one line of JSON per score."""
        corpus = self.data.load()
        name = f"{corpus.name}-{corpus.source}-{corpus.target}".replace(" ", "-")
        folder = self.out or Path("runs") / name
        # On CPUs whose vendor the default library does not favour, "medium" picks one that
        # multiplies more than twice as fast, and in the same precision unless the CPU has bf16
        # matrix units.
        torch.set_float32_matmul_precision("medium")
        run = Run(folder, corpus, RECIPES[corpus.name], resume=self.resume)
        parameters = run.trainer.model.count_parameters()
        print(
            f"{parameters:,} parameters, {run.tokenizer.vocab_size} tokens, {folder}",
            file=sys.stderr,
        )
        for row in run.train(self.minutes):
            print(json.dumps(row))
        print(f"now try: python -m tfmr translate --model {folder} 'a sentence'", file=sys.stderr)
