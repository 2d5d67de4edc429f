"""``train``: from a corpus to a folder with a model."""

import json
import os
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from tfmr.commands.data import Data
from tfmr.data.corpus import Corpus
from tfmr.errors import require
from tfmr.train.distributed import World, exit_process
from tfmr.train.files import write_whole
from tfmr.train.recipes import Recipe, find_recipe, read_recipe
from tfmr.train.run import Run


@dataclass(frozen=True)
class Train:
    """Train a model on a corpus and score it; leaves a folder with the model and its report.

    Example: python -m tfmr train --corpus multi30k --direction de-en --minutes 5 10
    """

    data: Annotated[Data, tyro.conf.arg(name="")]
    recipe: str | None = None
    """A recipe of the package, which `python -m tfmr recipes` lists, or a TOML file of your own. If
    not given, the folder's with --resume, else the one that is called like the corpus."""
    changes: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="TABLE.NAME=VALUE")] = ()
    """Change values of the recipe, as in --set train.peak_lr=1e-3 model.dropout=0.2."""
    minutes: tuple[float, ...] = ()
    """Train this long and score; several numbers score at each. Scoring does not count. If neither
    minutes nor steps are given, the recipe says how long."""
    steps: tuple[int, ...] = ()
    """Train for so many steps instead; several numbers score at each."""
    seed: int | None = None
    """Of the weights, the batches and dropout, instead of the recipe's."""
    patience: int | None = None
    """Stop after so many looks at the validation part in a row that found no better model; needs
    looks, as in --set evaluation.eval_every=250."""
    device: Literal["cpu", "cuda"] | None = None
    """Where to compute; if not given, on a GPU where there is one."""
    threads: int | None = None
    """How many processor cores to use; if not given, all."""
    out: Path | None = None
    """The folder to write to; runs/RECIPE-DIRECTION if not given."""
    resume: bool = False
    """Go on with the run in the folder."""

    def __call__(self) -> None:
        """Train, printing one line of JSON per score."""
        if self.threads is not None:
            require(self.threads >= 1, f"expected --threads 1 or more, got {self.threads}")
            torch.set_num_threads(self.threads)
        # On CPUs whose vendor the default library does not favour, "medium" picks one that
        # multiplies more than twice as fast, and in the same precision unless the CPU has bf16
        # matrix units, or is fast in bf16 and scores with a heavy decoder (tfmr/step.py).
        torch.set_float32_matmul_precision("medium")
        with World.join() as world:
            self._choose_device(world)
            recipe = find_recipe(self.recipe) if self.recipe else None
            corpus = self.data.load(recipe, quiet=not world.is_main)
            usual = corpus.name.replace(" ", "-")
            name = Path(self.recipe or usual).stem
            folder = self.out or Path("runs") / f"{name}-{corpus.source}-{corpus.target}"
            if recipe is None:
                used = folder / "recipe.toml"
                recipe = read_recipe(used) if self.resume and used.is_file() else find_recipe(usual)
            self._run(folder, corpus, self._change(recipe), world)
        if world.size > 1:
            exit_process()

    def _choose_device(self, world: World) -> None:
        """Compute where the options say."""
        if self.device is None or self.device == world.device.type:
            return
        require(
            self.device == "cpu",
            "--device cuda needs a GPU that PyTorch can use, and there is none: leave it out, or "
            "install a build of PyTorch for your GPU",
        )
        require(
            world.size == 1,
            "several processes compute on the GPUs of their machines: hide these instead, by "
            "CUDA_VISIBLE_DEVICES= before the command",
        )
        world.device = torch.device("cpu")

    def _change(self, recipe: Recipe) -> Recipe:
        """The recipe with what the options change."""
        changes: dict[str, Any] = {}
        for change in self.changes:
            name, equals, value = change.partition("=")
            require(
                bool(equals), f"--set changes a value, as in train.peak_lr=1e-3: got {change!r}"
            )
            try:
                changes[name] = tomllib.loads(f"value = {value}")["value"]
            except tomllib.TOMLDecodeError:
                changes[name] = value
        for name, option in (("train.seed", self.seed), ("evaluation.patience", self.patience)):
            if option is not None:
                changes[name] = option
        if self.minutes or self.steps:
            changes |= {"budget.minutes": self.minutes, "budget.steps": self.steps}
        return recipe.having(changes)

    def _run(self, folder: Path, corpus: Corpus, recipe: Recipe, world: World) -> None:
        python = ["python"]
        if world.size > 1:
            python = ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]
        command = shlex.join([*python, "-m", "tfmr", *sys.argv[1:]])
        run = Run(folder, corpus, recipe, resume=self.resume, world=world, command=command)
        if world.is_main:
            size = f"{run.parameters:,} parameters, {run.tokenizer.vocab_size} tokens, {folder}"
            print("\n".join([size, *run.notes]), file=sys.stderr)
        rows = run.train()
        if not world.is_main:
            return
        for row in rows:
            print(json.dumps(row))
        self._draw(run)
        print(f"now try: python -m tfmr translate --model {folder} 'a sentence'", file=sys.stderr)

    def _draw(self, run: Run) -> None:
        """Add the picture of the curve to the run's folder."""
        from tfmr.figures import training  # half a second that other commands need not wait

        figure = training.training_curve(run.curve)
        path = run.folder / "curve.png"
        write_whole(path, lambda beside: figure.savefig(beside, format="png", dpi=150))
        run.report()
