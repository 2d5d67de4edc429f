"""``train``: train and evaluate a model."""

import json
import os
import shlex
import sys
import tomllib
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import UseAppendAction

from tfmr.commands.data import TrainingData
from tfmr.commands.plot import save_plot
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError, require

if TYPE_CHECKING:
    from tfmr.train.config import Recipe
    from tfmr.train.distributed import World
    from tfmr.train.fine_tuning import Base
    from tfmr.train.metadata import DataOptions
    from tfmr.train.run import Run

MOST_THREADS = max(1024, os.cpu_count() or 1)
"""Maximum of --threads: with many more threads than cores, PyTorch crashes the process."""


@dataclass(frozen=True)
class Train:
    """Train a model on a corpus, evaluate it, and write a run directory with model and report.

    Example: python -m tfmr train --corpus multi30k --direction de-en --minutes 5 10

    Fine-tune: python -m tfmr train --from runs/multi30k-de-en --files my.de my.en --out runs/mine

    Several processes or GPUs: torchrun --nproc-per-node 2 -m tfmr train ...
    """

    data: Annotated[TrainingData, tyro.conf.arg(name="")]
    recipe: Annotated[
        str | None,
        tyro.conf.arg(
            help="Name of a recipe (see `python -m tfmr recipes`) or path of a TOML file.",
            help_behavior_hint="(default: the run's own with --resume, otherwise the recipe named "
            "like the corpus)",
        ),
    ] = None
    base: Annotated[
        Path | None,
        tyro.conf.arg(
            name="from",
            help="Fine-tune a trained model: a run directory, a checkpoint file, or the name of a "
            "model of the package. Its tokenizer and architecture are kept; the optimiser and the "
            "learning-rate schedule start anew.",
            help_behavior_hint="(default: random weights)",
        ),
    ] = None
    overrides: Annotated[
        UseAppendAction[tuple[tuple[str, ...], ...]],
        tyro.conf.arg(
            name="set",
            metavar="TABLE.NAME=VALUE ...",
            help="Override values of the recipe, as in --set train.peak_lr=1e-3 model.dropout=0.2. "
            "The option may be repeated.",
            help_behavior_hint="(default: none)",
        ),
    ] = ()
    minutes: Annotated[
        UseAppendAction[tuple[tuple[float, ...], ...]],
        tyro.conf.arg(
            help="Training time in minutes, evaluation excluded. With several numbers, the model "
            "is evaluated at each.",
            help_behavior_hint="(default: the recipe's budget)",
        ),
    ] = ()
    steps: Annotated[
        UseAppendAction[tuple[tuple[int, ...], ...]],
        tyro.conf.arg(
            help="Number of training steps, instead of --minutes. With several numbers, the model "
            "is evaluated at each.",
            help_behavior_hint="(default: the recipe's budget)",
        ),
    ] = ()
    seed: Annotated[
        int | None,
        tyro.conf.arg(
            help="Random seed of the initial weights, dropout and batch order.",
            help_behavior_hint="(default: the recipe's)",
        ),
    ] = None
    patience: Annotated[
        int | None,
        tyro.conf.arg(
            help="Stop after this many validations in a row without improvement. Validations are "
            "enabled by, for example, --set evaluation.eval_every=250.",
            help_behavior_hint="(default: the recipe's)",
        ),
    ] = None
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        tyro.conf.arg(
            help="Device to train on.",
            help_behavior_hint="(default: cuda if available, otherwise cpu)",
        ),
    ] = None
    threads: Annotated[
        int | None,
        tyro.conf.arg(
            help="Number of CPU threads.",
            help_behavior_hint="(default: one, or one per core, whichever is faster in a short "
            "measurement; a resumed run keeps its number)",
        ),
    ] = None
    out: Annotated[
        Path | None,
        tyro.conf.arg(help="Run directory.", help_behavior_hint="(default: runs/RECIPE-DIRECTION)"),
    ] = None
    tokenizer: Annotated[
        Path | None,
        tyro.conf.arg(
            help="Use the tokenizer in this file, which Tokenizer.save of tfmr.data.tokenizer "
            "wrote.",
            help_behavior_hint="(default: trained on the training set)",
        ),
    ] = None
    resume: bool = False
    """Continue the run in the run directory from its last checkpoint; if the directory holds no
    run, start one. With --out, the options that select the corpus need not be repeated."""

    def __call__(self) -> None:
        """Train, and print one line of JSON per evaluation."""
        import torch

        from tfmr.train.config import find_recipe
        from tfmr.train.distributed import World, exit_process
        from tfmr.train.fine_tuning import Base

        if self.threads is not None:
            require(
                1 <= self.threads <= MOST_THREADS,
                f"expected --threads from 1 to {MOST_THREADS}, got {self.threads}; one per core is "
                "usually fastest",
            )
            torch.set_num_threads(self.threads)
        with World.join() as world:
            self._choose_device(world)
            recipe = find_recipe(self.recipe) if self.recipe else None
            base = Base.load(self.base) if self.base else None
            data, folder = self.data, self.out
            if self.resume and folder:
                data = data.of_run(folder)
                recipe = recipe or _recipe_of_run(folder)
            if base and data.files and data.direction is None:
                data = replace(data, direction=base.saved.metadata.get("direction"))
            corpus = data.load(recipe, quiet=not world.is_main)
            corpus_name = corpus.name.replace(" ", "-")
            name = Path(self.recipe or corpus_name).stem
            folder = folder or Path("runs") / f"{name}-{corpus.source}-{corpus.target}"
            if self.resume:
                recipe = recipe or _recipe_of_run(folder)
            recipe = recipe or find_recipe(corpus_name)
            recipe = self._override(base.adapt(recipe) if base else recipe)
            self._run(folder, corpus, recipe, base, data.record(corpus), world)
        if world.size > 1:
            exit_process()

    def _choose_device(self, world: "World") -> None:
        """Apply --device."""
        if self.device is None or self.device == world.device.type:
            return
        require(
            self.device == "cpu",
            "--device cuda needs a GPU that PyTorch supports, and none was found: remove the "
            "option, or install a PyTorch build for your GPU",
        )
        require(
            world.size == 1,
            "with several processes, --device cpu is not supported: set CUDA_VISIBLE_DEVICES= "
            "(empty) before the command instead",
        )
        import torch

        world.device = torch.device("cpu")

    def _override(self, recipe: "Recipe") -> "Recipe":
        """The recipe with the values that the options override."""
        overrides: dict[str, Any] = {}
        for override in chain(*self.overrides):
            name, equals, value = override.partition("=")
            require(
                bool(equals),
                f"--set expects TABLE.NAME=VALUE, as in train.peak_lr=1e-3: got {override!r}",
            )
            try:
                overrides[name] = tomllib.loads(f"value = {value}")["value"]
            except tomllib.TOMLDecodeError:  # a string without quotes
                overrides[name] = value
            except (ValueError, RecursionError) as error:  # thousands of digits or brackets
                raise TfmrError(
                    f"--set expects a value in TOML for {name}, got {value[:40]}… ({error}): "
                    "correct it"
                ) from error
        for name, option in (("train.seed", self.seed), ("evaluation.patience", self.patience)):
            if option is not None:
                overrides[name] = option
        if self.minutes or self.steps:
            limits = {"budget.minutes": self.minutes, "budget.steps": self.steps}
            overrides |= {name: tuple(chain(*values)) for name, values in limits.items()}
        require(
            self.tokenizer is None or not any(name.startswith("vocabulary.") for name in overrides),
            "expected --tokenizer or settings of [vocabulary], got both: omit one of them",
        )
        return recipe.with_overrides(overrides)

    def _run(
        self,
        folder: Path,
        corpus: Corpus,
        recipe: "Recipe",
        base: "Base | None",
        data: "DataOptions",
        world: "World",
    ) -> None:
        from tfmr.data.tokenizer import Tokenizer
        from tfmr.train.run import Run

        launcher = ["python"]
        if world.size > 1:
            launcher = ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"]]
        command = shlex.join([*launcher, "-m", "tfmr", *sys.argv[1:]])
        run = Run(
            folder,
            corpus,
            recipe,
            resume=self.resume,
            base=base,
            tokenizer=Tokenizer.load(self.tokenizer) if self.tokenizer else None,
            data=data,
            world=world,
            command=command,
        )
        # As OMP_NUM_THREADS does, --threads states that nothing has to be measured.
        chosen = self.threads is not None or "OMP_NUM_THREADS" in os.environ
        if world.size == 1 and world.device.type == "cpu" and not chosen:
            self._choose_threads(run)
        if world.is_main:
            print(
                f"{run.parameters:,} parameters, {run.tokenizer.vocab_size:,} tokens in the "
                f"vocabulary, run directory {folder}",
                *run.warnings,
                sep="\n",
                file=sys.stderr,
            )
        before = run.trainer.steps_done, len(run.scores)
        rows = list(run.scores)
        if world.is_main:
            for row in rows:
                _print_row(row)
        rows = run.train(on_scores=_print_row if world.is_main else None)
        if not world.is_main:
            return
        if run.few_steps:
            print(run.few_steps, file=sys.stderr)
        if before == (run.trainer.steps_done, len(rows)):
            print(
                f"the run has reached its budget, {before[0]:,} steps, and nothing was trained: "
                "give a larger --steps or --minutes to continue it",
                file=sys.stderr,
            )
        self._draw(run)
        print(f"next: python -m tfmr translate --model {folder} 'a sentence'", file=sys.stderr)

    def _choose_threads(self, run: "Run") -> None:
        """Set the number of threads with which steps are fastest."""
        import torch

        threads, seconds = run.best_threads()
        torch.set_num_threads(threads)
        if len(seconds) > 1:
            rates = [f"{1 / each:.3g} with {number}" for number, each in seconds.items()]
            print(
                f"{threads} CPU thread{'s' * (threads > 1)}; measured steps per second: "
                f"{', '.join(rates)} (--threads selects another number)",
                file=sys.stderr,
            )

    def _draw(self, run: "Run") -> None:
        """Add pictures of the training curve and of the user's own files to the run directory."""
        try:
            from tfmr.figures import lengths, training  # matplotlib takes half a second to import

            figure = training.training_curve(run.curve, run="the run")
            save_plot(run.folder / "curve.png", figure)
            if run.report:
                save_plot(run.folder / "lengths.png", lengths.length_histograms(run.report))
        except Exception as error:  # the run is complete; a broken matplotlib may raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"tfmr: no picture of the training curve ({reason})", file=sys.stderr)
        run.write_readme()


def _recipe_of_run(folder: Path) -> "Recipe | None":
    """The recipe in a run directory; ``None`` if there is no run yet."""
    from tfmr.train.config import read_recipe

    used = folder / "recipe.toml"
    if used.is_file():
        return read_recipe(used)
    require(
        not (folder / "model.safetensors").is_file(),
        f"{used} has the settings of the run, which --resume needs, and is missing: restore it, "
        "or give the settings by --recipe and --set",
    )
    return None


def _print_row(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)
