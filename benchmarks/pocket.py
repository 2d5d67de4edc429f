"""``python -m benchmarks.pocket``: train the two pocket models that the package ships.

Each model is trained by the command ``python -m tfmr train`` in a process of its own, and exported
for inference. The records are the folders ``pocket-en-fr`` and ``pocket-en-ko``, with the model in
half precision and the scores of its run.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import record
from tfmr import checkpoint
from tfmr.errors import require


@dataclass(frozen=True)
class Pocket:
    """Train a model of the pocket grammar for each direction, and record model and scores.

    It takes about a minute per direction.
    """

    directions: tuple[str, ...] = ("en-fr", "en-ko")
    """The directions."""
    steps: int = 1000
    """Training steps: on an idle machine with two cores, about a minute."""
    seed: int = 0
    """Random seed of the initial weights, dropout and batch order."""
    runs: Path = Path("runs/pocket")
    """The folder of the runs; must not hold these runs yet."""
    out: Path = record.FOLDER
    """The folder of the records."""

    def __call__(self) -> None:
        """Train and record."""
        for direction in self.directions:
            run = self.runs / f"pocket-{direction}"
            words = ["tfmr", "train", "--corpus", "pocket", "--direction", direction]
            words += ["--steps", str(self.steps), "--seed", str(self.seed), "--threads", "1"]
            done = subprocess.run([sys.executable, "-m", *words, "--out", str(run)], check=False)
            require(done.returncode == 0, f"the run in {run} failed: see its error message above")
            folder = self.out / run.name
            folder.mkdir(parents=True, exist_ok=True)
            saved = checkpoint.load(checkpoint.find(run))
            checkpoint.save(folder / "model.safetensors", checkpoint.strip_for_inference(saved))
            shutil.copyfile(run / "scores.json", folder / "scores.json")
            print(f"wrote {folder}")


if __name__ == "__main__":
    record.run(Pocket)
