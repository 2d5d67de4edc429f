"""A run: from a corpus to a folder with the model, its curve, its scores and all they came from."""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tfmr import registry
from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.train import checkpoint
from tfmr.train.average import Kept
from tfmr.train.board import Board
from tfmr.train.checkpoint import Checkpoint, load_translator, load_weights, named_weights
from tfmr.train.distributed import World
from tfmr.train.evaluation import Evaluator, ValidationResult, best_validation
from tfmr.train.feed import training_batches
from tfmr.train.files import write_text
from tfmr.train.folder import check_folder
from tfmr.train.metadata import differences, fingerprint, identity, surroundings
from tfmr.train.recipes import Budget, Recipe
from tfmr.train.records import curve_text, looks_text, read_curve
from tfmr.train.report import report_text
from tfmr.train.trainer import StepRecord, Trainer
from tfmr.translator import Translator

__all__ = ["Run", "load_translator", "read_curve"]


class _Enough(Exception):  # noqa: N818  it is no error
    """The validation part has stopped improving."""


class Run:
    """Trains one model and keeps its folder; :data:`tfmr.train.folder.FILES` says what is in it.

    Args:
        folder: where all of it goes; made if needed.
        corpus: what to learn from and be scored on.
        recipe: the vocabulary, the model, and how to train it.
        resume: go on from the folder's checkpoint. Without it, a folder that holds one is refused.
        world: the processes that train together; the first of them writes.
        command: how the run was started, for those who read about it.

    Raises:
        TfmrError: if there is a checkpoint and ``resume`` is not given, there is none and it is,
            the checkpoint belongs to another corpus or recipe, or the folder holds files that are
            not of a run and would be overwritten.
    """

    def __init__(
        self,
        folder: Path,
        corpus: Corpus,
        recipe: Recipe,
        *,
        resume: bool = False,
        world: World | None = None,
        command: str | None = None,
    ) -> None:
        self.folder = folder
        self.corpus = corpus
        self.recipe = recipe
        self.world = world or World()
        self.curve: list[StepRecord] = []
        self.looks: list[ValidationResult] = []
        self.scores: list[dict[str, Any]] = []
        self.samples = ""
        self.command = command
        self.notes: list[str] = []
        """What whoever started the run should know."""
        saved = self._checkpoint(resume)
        self.tokenizer = saved.tokenizer if saved else self._learn_vocabulary()
        self.evaluator = Evaluator(corpus, self.tokenizer, recipe)
        torch.manual_seed(recipe.train.seed)
        model = registry.build(recipe.model(self.tokenizer.vocab_size)).to(self.world.device)
        if saved is None and corpus.is_streamed:
            self._open()
        tokens = folder / "tokens"
        batches = training_batches(
            corpus, self.tokenizer, recipe, tokens, self.world, again=saved is None
        )
        self.trainer = Trainer(model, batches, recipe.train, self.world)
        self.parameters = model.count_parameters()
        self.kept = Kept(folder / "kept", recipe.checkpoints.average)
        self.surroundings = surroundings(self.world.device)
        self.sentences = fingerprint(corpus)
        if saved:
            self._go_on(saved)

    def _checkpoint(self, resume: bool) -> Checkpoint | None:
        """The checkpoint to go on from; ``None`` for a run that begins."""
        path = self.folder / "model.safetensors"
        if self.world.is_main:
            check_folder(self.folder, resume=resume)
        self.world.barrier()
        # A run that was killed before its first checkpoint has only said what it is about.
        if not resume or (not path.exists() and (self.folder / "recipe.toml").is_file()):
            return None
        return checkpoint.load(path)

    def _learn_vocabulary(self) -> Tokenizer:
        """The vocabulary of the corpus, learnt once for all processes."""
        learnt = self.recipe.tokenizer(self.corpus).to_json() if self.world.is_main else ""
        return Tokenizer.from_json(self.world.broadcast(learnt))

    def _go_on(self, saved: Checkpoint) -> None:
        then, now = identity(saved.facts), identity(self.facts())
        for name in then | now:
            require(
                then.get(name) == now.get(name),
                f"{self.folder} was trained with {name} {then.get(name)}, now asked for "
                f"{now.get(name)}: resume with the same, or start anew in another folder",
            )
        if "trainer" not in saved.facts:
            raise TfmrError(
                f"the checkpoint in {self.folder} was made to translate with, not to resume from: "
                "train anew in another folder"
            )
        self.trainer.load_state_dict(saved.state, saved.facts["trainer"])
        self.scores = saved.facts["scores"]
        self.looks = [ValidationResult(**look) for look in saved.facts["looks"]]
        self.samples = saved.facts["samples"]
        self.command = saved.facts["command"]
        curve = read_curve(self.folder / "curve.csv")
        self.curve = [step for step in curve if step.step <= self.trainer.steps_done]
        if other := differences(saved.facts, self.surroundings):
            self.notes.append(
                f"this run was begun with {'; '.join(other)}: it goes on, but its numbers may "
                "not be those that it would have had without the stop"
            )

    def facts(self) -> dict[str, Any]:
        """What a reader of the results must know to repeat them."""
        corpus = self.corpus
        return {
            "corpus": corpus.name,
            "direction": f"{corpus.source}-{corpus.target}",
            "sentences": self.sentences,
            "pairs": [len(corpus.train), len(corpus.valid), len(corpus.test)],
            "recipe": json.loads(json.dumps(self.recipe.tables())),
            "seed": self.recipe.train.seed,
            "parameters": self.parameters,
            "vocabulary": self.tokenizer.fingerprint,
            "tokens": self.tokenizer.vocab_size,
            "command": self.command,
            "processes": self.world.size,
            **self.surroundings,
        }

    def train(
        self,
        minutes: Sequence[float] | None = None,
        *,
        steps: Sequence[int] | None = None,
        quiet: bool = False,
    ) -> list[dict[str, Any]]:
        """Train, and score at each of ``minutes`` or ``steps``, or of those that the recipe names.

        The clock stands still while the run is scored, looked at or saved.

        Returns:
            The scores so far, one dictionary per time.

        Raises:
            TfmrError: if the folder cannot be made, or training diverges; the last checkpoint
                stays.
        """
        if minutes is not None or steps is not None:
            budget = Budget(tuple(float(mark) for mark in minutes or ()), tuple(steps or ()))
            self.recipe = dataclasses.replace(self.recipe, budget=budget)
        self.evaluator.quiet = quiet or not self.world.is_main
        self._open()
        try:
            with self._after_each_step() as on_step:
                self._train(on_step)
        except KeyboardInterrupt:
            if self.trainer.steps_done == 0:
                if self.world.is_main:
                    (self.folder / "recipe.toml").unlink(missing_ok=True)
                    shutil.rmtree(self.folder / "tokens", ignore_errors=True)
                raise TfmrError("stopped before any step, nothing to save: start again") from None
            if not self.trainer.between_steps:
                raise TfmrError(f"stopped within a step; {self.world.resume_hint()}") from None
            self.save()
            where = f"all of it saved in {self.folder}: go on with --resume"
            raise TfmrError(f"stopped at step {self.trainer.steps_done}, {where}") from None
        return self.scores

    def _open(self) -> None:
        """Make the folder, and say in it what it is for."""
        if self.world.is_main:
            try:
                write_text(self.folder / "recipe.toml", self.recipe.to_toml())
            except OSError as error:
                raise TfmrError(
                    f"cannot write to {self.folder}: {error}; name another by --out"
                ) from error

    def _train(self, on_step: Callable[[StepRecord], None]) -> None:
        """Train up to each mark of the budget, and score there, or where patience ends."""
        self._catch_up()
        budget = self.recipe.budget
        for mark in sorted(budget.minutes or budget.steps):
            if self._enough() or not self._due(mark):
                continue
            try:
                if budget.steps:
                    self.trainer.run(steps=int(mark), on_step=on_step)
                else:
                    self.trainer.run(seconds=mark * 60, on_step=on_step)
            except _Enough:
                break
            self.score(mark if budget.minutes else None)
        if self._enough() and not any(
            row["step"] == self.trainer.steps_done for row in self.scores
        ):
            self.score()

    def _catch_up(self) -> None:
        """What should have followed the last step, where a stop came between."""
        done = self.trainer.steps_done
        apart, every = self.recipe.checkpoints.average_every, self.recipe.evaluation.eval_every
        if done and apart and done % apart == 0:
            self._keep()
        if done and every and done % every == 0 and all(look.step != done for look in self.looks):
            self.look()

    def _due(self, mark: int | float) -> bool:
        """Whether something is left to do until ``mark``, in the unit of the budget.

        A run that was stopped while it was being scored is scored when it goes on; a time that has
        long passed is not.
        """
        if self.recipe.budget.steps:
            scored = any(row["step"] == mark for row in self.scores)
            now = self.trainer.steps_done
            return now < mark or (now == mark and not scored)
        before = self.curve[-2].seconds if len(self.curve) > 1 else 0.0
        scored = any(row["minutes"] == mark for row in self.scores)
        return self.trainer.seconds < mark * 60 or (before < mark * 60 and not scored)

    def _enough(self) -> bool:
        """Whether the last looks, as many as the recipe has patience for, found nothing better."""
        best, patience = best_validation(self.looks), self.recipe.evaluation.patience
        return patience > 0 and best is not None and len(self.looks) - 1 - best >= patience

    @contextmanager
    def _after_each_step(self) -> Iterator[Callable[[StepRecord], None]]:
        """What follows a step: the curve, the bar; and in its time a look, or a checkpoint."""
        keep, every, budget = (
            self.recipe.checkpoints,
            self.recipe.evaluation.eval_every,
            self.recipe.budget,
        )
        saved_at = self.trainer.seconds
        board = Board(self.folder / "tensorboard", self.trainer.steps_done, self.world.is_main)
        bar = tqdm(
            total=max(budget.steps) if budget.steps else round(60 * max(budget.minutes)),
            initial=self.trainer.steps_done if budget.steps else round(self.trainer.seconds),
            unit=" steps" if budget.steps else "s",
            disable=self.evaluator.quiet,
            leave=False,
        )

        def on_step(step: StepRecord) -> None:
            nonlocal saved_at
            self.curve.append(step)
            board.step(step)
            bar.update((step.step if budget.steps else round(step.seconds)) - bar.n)
            bar.set_postfix(step=step.step, loss=f"{step.loss:.2f}", norm=f"{step.grad_norm:.1f}")
            if keep.average_every and step.step % keep.average_every == 0:
                self._keep()
            if every and step.step % every == 0:
                board.look(self.look())
            by_clock = step.seconds - saved_at >= keep.seconds
            if step.step % keep.steps == 0 if keep.steps else by_clock:
                saved_at = step.seconds
                self.save()
            if self._enough():
                raise _Enough

        with bar, board:
            yield on_step

    def current(self) -> Translator:
        """The model as it is now, its weights averaged as the recipe asks; all must call this."""
        model = self.trainer.averaged_model()
        if mean := self.kept.mean(self.trainer.steps_done):
            load_weights(model, mean)
        return model

    def best(self) -> tuple[Translator, int]:
        """The model that the run delivers, and the step it is of: the best look's, or the last."""
        best = best_validation(self.looks)
        if best is None:
            return self.current(), self.trainer.steps_done
        model, _ = load_translator(self.folder / "best.safetensors")
        return model.to(self.world.device), self.looks[best].step

    def _keep(self) -> None:
        """Keep the weights of this step for the mean."""
        model = self.trainer.averaged_model()
        if self.world.is_main:
            with self._writing():
                self.kept.add(self.trainer.steps_done, self._to_translate(model))
        self.world.barrier()

    def _to_translate(self, model: Translator) -> Checkpoint:
        """``model`` as a checkpoint that translates and does not go on."""
        facts = {**self.facts(), "step": self.trainer.steps_done}
        return Checkpoint(model.config, self.tokenizer, named_weights(model), facts=facts)

    def look(self) -> ValidationResult:
        """See how the model does on the validation part; keep it if none did better before."""
        model = self.current()
        look = None
        if self.world.is_main:
            look = self.evaluator.validate(model, self.trainer.steps_done, self.trainer.seconds)
        look = self.world.broadcast(look)
        assert look is not None
        self.looks.append(look)
        if best_validation(self.looks) == len(self.looks) - 1:
            if self.world.is_main:
                with self._writing():
                    checkpoint.save(self.folder / "best.safetensors", self._to_translate(model))
            self.save()
        return look

    def score(self, minutes: float | None = None) -> None:
        """Score the run's model on both parts, and leave the folder complete.

        ``minutes`` is the time that was asked for; without it the time that was taken.
        """
        self.save()
        model, step = self.best()
        if self.world.is_main:
            row = {
                "minutes": round(self.trainer.seconds / 60, 2) if minutes is None else minutes,
                "step": self.trainer.steps_done,
                "model_step": step,
                "epoch": self.trainer.epoch,
                "tokens": sum(step.tokens for step in self.curve),
            }
            scores, self.samples = self.evaluator.evaluate(model)
            self.scores.append(row | scores)
        self.scores = self.world.broadcast(self.scores)
        self.save()

    def save(self) -> None:
        """Write the checkpoint and all that is to be read, each whole or not at all.

        Raises:
            TfmrError: if the folder cannot be written to; what was there before stays.
        """
        tensors, trainer = self.trainer.state_dict()
        model = self.current()
        if self.world.is_main:
            saved = Checkpoint(model.config, self.tokenizer, named_weights(model), tensors)
            with self._writing():
                self._write(saved, trainer)
        self.world.last_checkpoint = (
            f"the checkpoint of step {self.trainer.steps_done} in {self.folder}"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say in a sentence what the disk refuses."""
        try:
            yield
        except OSError as error:
            raise TfmrError(
                f"cannot save in {self.folder}: {error}; the checkpoint before it stays: make "
                f"room, then go on with --resume"
            ) from error

    def _write(self, saved: Checkpoint, trainer: dict[str, Any]) -> None:
        """Write the tables first: a checkpoint must never know more steps than the curve does."""
        facts = self.facts()
        scores = {**facts, "date": time.strftime("%Y-%m-%d"), "scores": self.scores}
        write_text(self.folder / "recipe.toml", self.recipe.to_toml())
        write_text(self.folder / "curve.csv", curve_text(self.curve))
        write_text(self.folder / "scores.json", json.dumps(scores, indent=2) + "\n")
        if self.looks:
            write_text(self.folder / "valid.csv", looks_text(self.looks))
        if self.samples:
            write_text(self.folder / "samples.tsv", self.samples)
        looks = [dataclasses.asdict(look) for look in self.looks]
        going_on = {"trainer": trainer, "scores": self.scores, "looks": looks}
        facts |= {**going_on, "samples": self.samples}
        checkpoint.save(self.folder / "model.safetensors", dataclasses.replace(saved, facts=facts))
        self.report()

    def report(self) -> None:
        """Write the page for people, README.md."""
        done = f"{self.trainer.steps_done:,} steps in {self.trainer.seconds / 60:.1f} minutes"
        text = report_text(self.folder, self.facts(), self.scores, self.samples, done)
        write_text(self.folder / "README.md", text)
