"""A training run: from a corpus and a recipe to a run directory with a trained, evaluated model.

A run does the following, in this order:

1. trains the tokenizer, and tokenises the training set into batches;
2. takes optimiser steps (:class:`~tfmr.train.trainer.Trainer`) up to each limit of its budget;
3. on the way, validates the model, keeps the best one, and saves itself at regular intervals;
4. at each limit, evaluates the model on the validation and test sets.

A run that was interrupted, even by SIGKILL, resumes from its last checkpoint.
"""

import copy
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tfmr import checkpoint, registry
from tfmr.checkpoint import Checkpoint, load_translator, load_weights, named_weights
from tfmr.data.batches import Batches, token_lengths
from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.files import explain_os_error
from tfmr.data.fitting import fit_held_out
from tfmr.data.own_files import NAME as YOUR_FILES
from tfmr.data.own_files import TEST_SET, VALID_SET
from tfmr.data.report import DataReport
from tfmr.data.tokenfile import TokenFile, write_token_file
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.train.averaging import CheckpointAverager
from tfmr.train.config import Budget, Recipe, VocabularyConfig
from tfmr.train.distributed import World
from tfmr.train.evaluation import Evaluator, ValidationResult, best_validation
from tfmr.train.fine_tuning import Base
from tfmr.train.metadata import (
    DataOptions,
    RunState,
    corpus_fingerprint,
    differences,
    environment_info,
    resume_key,
)
from tfmr.train.report import ProgressReport, TensorBoardLogger, readme_text, speed
from tfmr.train.run_dir import (
    check_run_dir,
    curve_csv,
    locked,
    read_curve,
    samples_tsv,
    validation_csv,
    write_text,
)
from tfmr.train.threads import measure_threads
from tfmr.train.trainer import StepRecord, Trainer
from tfmr.translator import Translator


class _OutOfPatience(Exception):  # noqa: N818  it ends the training and is no error
    """The validation result has not improved for ``patience`` validations."""


class Run:
    """Trains and evaluates one model. :data:`tfmr.train.run_dir.FILES` lists the files it writes.

    Args:
        folder: the run directory; created if needed.
        corpus: the corpus to train, validate and evaluate on.
        recipe: the tokenizer, the model and the training settings.
        resume: continue from the checkpoint in the folder; start if there is no run.
        base: a trained model whose weights and tokenizer a new run starts from.
        tokenizer: use this tokenizer instead of one that is trained on the corpus; its kind and
            size replace those of the recipe.
        data: how the corpus was loaded, for the metadata of the run.
        world: the processes that train together; the main process writes the files.
        command: the command line of the run, for its metadata.

    Raises:
        TfmrError: without ``resume``, if the folder holds files that would be overwritten; with
            ``resume``, if it holds a run without a checkpoint, or with one for another corpus or
            recipe; if another process trains there; if the tokenizer does not fit the corpus, the
            base, or the run that is resumed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        corpus: Corpus,
        recipe: Recipe,
        *,
        resume: bool = False,
        base: Base | None = None,
        tokenizer: Tokenizer | None = None,
        data: DataOptions | None = None,
        world: World | None = None,
        command: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.corpus = corpus
        self.recipe = recipe
        self.world = world or World()
        self.command = command
        self.curve: list[StepRecord] = []
        self.validations: list[ValidationResult] = []
        self.scores: list[dict[str, Any]] = []
        """One row per evaluation."""
        self.samples = ""
        """The text of samples.tsv."""
        self._warnings: list[str] = []
        saved = self._load_checkpoint(resume)
        state = RunState.from_metadata(saved.metadata, str(self.folder)) if saved else None
        self.base = base.describe() if base else state.base if state else None
        """The model that the run started from, as JSON values; ``None`` for random weights."""
        self.data = data or (state.data if state else None)
        """How the corpus was loaded; ``None`` if that is not known."""
        self.given_tokenizer = state.given_tokenizer if state else tokenizer is not None
        """Whether the tokenizer was given, and not trained on the corpus or kept from the base."""
        known = saved or (base.saved if base else None)
        if tokenizer:
            self._check_tokenizer(tokenizer, known)
        if known:
            tokenizer = known.tokenizer
        self.tokenizer = tokenizer or self._train_tokenizer()
        if self.given_tokenizer:
            vocabulary = VocabularyConfig(self.tokenizer.kind, self.tokenizer.vocab_size)
            self.recipe = recipe = dataclasses.replace(recipe, vocabulary=vocabulary)
        self.corpus_fingerprint = corpus_fingerprint(corpus)
        self.corpus = fit_held_out(corpus, self.tokenizer, recipe.model.max_length)
        self.evaluator = Evaluator(self.corpus, self.tokenizer, recipe)
        batches = self._training_batches(is_new=saved is None)
        self.dropped_pairs = batches.dropped
        """Training pairs that are not used because a sentence is longer than the model allows."""
        self.report: DataReport | None = None
        """What was found in the user's own files."""
        if corpus.name == YOUR_FILES:
            self.report = DataReport.of(
                corpus,
                self.tokenizer,
                recipe.model.max_length,
                train_lengths=token_lengths(batches.pairs),
                own_tokenizer=self.base is None and not self.given_tokenizer,
            )
            self._warnings.append(str(self.report))
        else:
            self._warnings += map(str, self.corpus.provenance.findings)
        if self.dropped_pairs and self.report is None:
            self._warnings.append(
                f"{self.dropped_pairs:,} of {len(corpus.train):,} training pairs are not used: a "
                f"sentence has more than {recipe.model.max_length} tokens (model.max_length)"
            )
        model = self._initial_model()
        if base:
            base.check(recipe, self.corpus)
            load_weights(model, base.saved.weights, base.name)
        self.trainer = Trainer(model, batches, recipe.train, self.world)
        self.averager = CheckpointAverager(self.folder / "checkpoints", recipe.checkpoints.average)
        self.parameters = self.trainer.model.count_parameters()
        self._environment = environment_info(self.world.device)
        self._environment["hardware"]["arithmetic"] = self.trainer.arithmetic.name
        self._started_in: dict[str, Any] = {}
        """The metadata of the run that is resumed."""
        if saved and state:
            self._resume(saved, state)

    def _load_checkpoint(self, resume: bool) -> Checkpoint | None:
        """The checkpoint to resume from; ``None`` for a new run."""
        if self.world.is_main:
            check_run_dir(self.folder, resume=resume)
        self.world.barrier()
        path = self.folder / "model.safetensors"
        if not resume or not path.exists():
            return None
        return checkpoint.load(path, with_state=True)

    def _check_tokenizer(self, tokenizer: Tokenizer, known: Checkpoint | None) -> None:
        """Raise unless a given tokenizer suits the corpus, and is that of a ``known`` model."""
        require(
            known is None or known.tokenizer.to_json() == tokenizer.to_json(),
            "expected no --tokenizer, or that of the model from which the training goes on, got "
            "another one: omit --tokenizer, or train a new model in another folder",
        )
        require(
            tokenizer.form == self.corpus.form,
            f"expected a tokenizer for text in the form {self.corpus.form!r} of the corpus, got "
            f"one for {tokenizer.form!r}: give another --tokenizer",
        )

    def _train_tokenizer(self) -> Tokenizer:
        """The tokenizer of the corpus, trained by the main process for all."""
        trained = self.recipe.train_tokenizer(self.corpus).to_json() if self.world.is_main else ""
        return Tokenizer.from_json(self.world.broadcast(trained))

    def _training_batches(self, *, is_new: bool) -> Batches:
        """The training set as batches; a streamed corpus is tokenised into a file first."""
        if not self.corpus.is_streamed:
            return self.recipe.make_batches(list(self.corpus.train), self.tokenizer)
        path = self.folder / "tokens"
        if is_new:
            self._write_recipe()  # so that a run killed while it tokenises can be resumed
        if self.world.is_main and (is_new or not path.exists()):
            pairs = self.corpus.train
            with tqdm(total=len(pairs), unit="pair", desc="tokenise", delay=1, leave=False) as bar:
                write_token_file(path, pairs, self.tokenizer, bar.update)
        self.world.barrier()
        return self.recipe.make_batches_from_ids(TokenFile(path, self.tokenizer.fingerprint))

    def _initial_model(self) -> Translator:
        """A model with random weights, which depend on the recipe's seed only."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(self.recipe.train.seed)
            model = registry.build_model(self.recipe.model_config(self.tokenizer.vocab_size))
        return model.to(self.world.device)

    def _resume(self, saved: Checkpoint, state: RunState) -> None:
        """Restore the state of the run from its checkpoint."""
        before, now = resume_key(vars(state)), resume_key(self.metadata())
        for name in before | now:
            require(
                before.get(name) == now.get(name),
                f"{self.folder} was trained with {name} {before.get(name)}, not {now.get(name)}: "
                "resume with the same setting, or train in another folder",
            )
        self.trainer.load_state_dict(saved.state, state.trainer)
        self.scores, self.validations = list(state.scores), list(state.validations)
        self.samples, self.command = state.samples, state.command
        path, steps = self.folder / "curve.csv", self.trainer.steps_done
        self._name_checkpoint()
        self.curve = [record for record in read_curve(path) if record.step <= steps]
        require(
            [record.step for record in self.curve] == list(range(1, steps + 1)),
            f"{path} must have one row for each of the {steps} steps of the checkpoint, got "
            f"{len(self.curve)}: restore it, or train in another folder",
        )
        self._started_in = vars(state)
        # Both read files of the folder: report a damaged one before the training goes on.
        self.current_model()
        self.best_model()

    def metadata(self) -> dict[str, Any]:
        """JSON values that describe the run, sufficient to repeat it."""
        corpus = self.corpus
        return {
            "corpus": corpus.name,
            "direction": f"{corpus.source}-{corpus.target}",
            "corpus_fingerprint": self.corpus_fingerprint,
            "sentence_pairs": {
                "train": len(corpus.train),
                "valid": len(corpus.valid),
                "test": len(corpus.test),
            },
            "dropped_pairs": self.dropped_pairs,
            "base": self.base,
            "data": dataclasses.asdict(self.data) if self.data else None,
            "given_tokenizer": self.given_tokenizer,
            "recipe": self.recipe.to_dict(),
            "parameters": self.parameters,
            "vocab_size": self.tokenizer.vocab_size,
            "vocabulary_fingerprint": self.tokenizer.fingerprint,
            "command": self.command,
            "processes": self.world.size,
            **self.environment,
        }

    @property
    def environment(self) -> dict[str, Any]:
        """See :func:`~tfmr.train.metadata.environment_info`; with the current number of threads."""
        hardware = {**self._environment["hardware"], "threads": torch.get_num_threads()}
        return {**self._environment, "hardware": hardware}

    @property
    def warnings(self) -> list[str]:
        """What a user should know before the training starts."""
        changes = differences(self._started_in, self.environment) if self._started_in else []
        remark = (
            f"the environment has changed since the run started ({'; '.join(changes)}): its "
            "numbers may differ from those of an uninterrupted run"
        )
        return [*self._warnings, *([remark] if changes else [])]

    def best_threads(self) -> tuple[int, dict[int, float]]:
        """The number of CPU threads to train with, and the measured seconds per step.

        A resumed run continues with its number of threads, which can change the rounding, unless
        the machine has fewer. For a new one, some steps are measured: with one thread, and with as
        many as PyTorch uses now. The run does not change.
        """
        most = torch.get_num_threads()
        recorded = self._started_in.get("hardware", {}).get("threads")
        if isinstance(recorded, int) and 1 <= recorded <= most:
            return recorded, {}
        model = copy.deepcopy(self.trainer.model)
        config = dataclasses.replace(self.recipe.train, compile=False)
        trainer = Trainer(model, self.trainer.batches, config)
        batches, _, _ = next(trainer.upcoming_batches())
        seconds = measure_threads(lambda: trainer.step(*batches), sorted({1, most}))
        return min(seconds, key=lambda threads: seconds[threads]), seconds

    def train(
        self,
        minutes: Sequence[float] | None = None,
        *,
        steps: Sequence[int] | None = None,
        quiet: bool = False,
        on_scores: Callable[[dict[str, Any]], object] | None = None,
    ) -> list[dict[str, Any]]:
        """Train, and evaluate at each limit of the budget.

        Validation, evaluation and saving do not count as training time.

        Args:
            minutes: training times that replace the recipe's budget.
            steps: numbers of steps that replace the recipe's budget.
            quiet: show no progress.
            on_scores: called with each new row of scores, once it is saved.

        Returns:
            One row of scores per evaluation, those of earlier processes included.

        Raises:
            TfmrError: if a file cannot be written, or training diverges. The last checkpoint
                remains.
            KeyboardInterrupt: after Ctrl-C, once the run is saved; the message states how to
                resume.
        """
        if minutes is not None or steps is not None:
            budget = Budget(tuple(map(float, minutes or ())), tuple(steps or ()))
            self.recipe = dataclasses.replace(self.recipe, budget=budget)
        quiet = quiet or not self.world.is_main
        self.evaluator.quiet = quiet or not sys.stderr.isatty()
        self._write_recipe()
        self._write_data()
        with locked(self.folder) if self.world.is_main else nullcontext():
            try:
                with self._after_each_step(quiet) as (after_step, needs_model):
                    self._train(
                        partial(self.trainer.run, on_step=after_step, needs_model=needs_model),
                        on_scores or (lambda _: None),
                    )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._stop()) from None
        return self.scores

    def _train(
        self, train: Callable[..., object], on_scores: Callable[[dict[str, Any]], object]
    ) -> None:
        """Call ``train`` for each limit, until the patience is exhausted, and evaluate there."""
        self._complete_last_step()
        budget = self.recipe.budget
        for limit in sorted(budget.minutes or budget.steps):
            if self._is_out_of_patience() or not self._is_due(limit):
                continue
            try:
                if budget.steps:
                    train(steps=int(limit))
                else:
                    train(seconds=limit * 60)
            except _OutOfPatience:
                break
            self.evaluate(limit if budget.minutes else None)
            on_scores(self.scores[-1])
        evaluated = any(row["step"] == self.trainer.steps_done for row in self.scores)
        if self._is_out_of_patience() and not evaluated:
            self.evaluate()
            on_scores(self.scores[-1])

    def _complete_last_step(self) -> None:
        """Do what an interruption prevented after the last step: averaging, validation."""
        step = self.trainer.steps_done
        average_every = self.recipe.checkpoints.average_every
        eval_every = self.recipe.evaluation.eval_every
        if step and average_every and step % average_every == 0:
            self._add_to_average()
        validated = any(result.step == step for result in self.validations)
        if step and eval_every and step % eval_every == 0 and not validated:
            self.validate()

    def _is_due(self, limit: int | float) -> bool:
        """Whether training up to ``limit``, or the evaluation there, is still to be done.

        A run that was interrupted during an evaluation is evaluated when it resumes. An earlier
        limit that was not in the budget then is skipped.
        """
        if self.recipe.budget.steps:
            evaluated = any(row["step"] == limit for row in self.scores)
            steps = self.trainer.steps_done
            return steps < limit or (steps == limit and not evaluated)
        evaluated = any(row["minutes"] == limit for row in self.scores)
        previous = self.curve[-2].seconds if len(self.curve) > 1 else 0.0
        reached_by_last_step = previous < limit * 60
        return self.trainer.seconds < limit * 60 or (reached_by_last_step and not evaluated)

    def _is_out_of_patience(self) -> bool:
        best, patience = best_validation(self.validations), self.recipe.evaluation.patience
        return patience > 0 and best is not None and len(self.validations) - 1 - best >= patience

    @contextmanager
    def _after_each_step(
        self, quiet: bool
    ) -> Iterator[tuple[Callable[[StepRecord], None], Callable[[], bool]]]:
        """A function that logs, averages, validates and saves after a step.

        The second one states whether it will need the model after this step.
        """
        recipe = self.recipe
        average_every, eval_every = recipe.checkpoints.average_every, recipe.evaluation.eval_every
        saved_at = self.trainer.seconds
        progress = ProgressReport(
            recipe.budget, self.trainer.steps_done, self.trainer.seconds, quiet=quiet
        )
        tensorboard = TensorBoardLogger(
            self.folder / "tensorboard", self.trainer.steps_done, enabled=self.world.is_main
        )

        def is_multiple(every: int) -> bool:
            return every > 0 and self.trainer.steps_done % every == 0

        def is_time_to_save() -> bool:
            if recipe.checkpoints.steps:
                return is_multiple(recipe.checkpoints.steps)
            return self.trainer.seconds - saved_at >= recipe.checkpoints.seconds

        def needs_model() -> bool:
            return is_multiple(average_every) or is_multiple(eval_every) or is_time_to_save()

        def after_step(record: StepRecord) -> None:
            nonlocal saved_at
            step = record.step
            self.curve.append(record)
            tensorboard.log_step(record)
            progress.log_step(record)
            if step < self.trainer.steps_done:
                return  # a GPU has taken further steps, after none of which is the model needed
            if is_multiple(average_every):
                self._add_to_average()
            if is_multiple(eval_every):
                result = self.validate()
                tensorboard.log_validation(result)
                progress.log_validation(result)
            if is_time_to_save():
                saved_at = record.seconds
                self.save()
            if self._is_out_of_patience():
                raise _OutOfPatience

        with progress, tensorboard:
            yield after_step, needs_model

    def _stop(self) -> str:
        """Save after Ctrl-C; return a message that states how to resume."""
        if self.trainer.steps_done == 0:
            if self.world.is_main:
                (self.folder / "recipe.toml").unlink(missing_ok=True)
                shutil.rmtree(self.folder / "tokens", ignore_errors=True)
            return "stopped before the first step, so there is nothing to save: start again"
        if not self.trainer.between_steps:
            return f"stopped during a step; {self.world.resume_hint()}"
        self.save()
        return (
            f"stopped at step {self.trainer.steps_done} and saved in {self.folder}: resume with "
            "--resume"
        )

    def current_model(self) -> Translator:
        """A copy of the model with the averaged weights. All processes must call this."""
        model = self.trainer.averaged_model()
        if average := self.averager.average(self.trainer.steps_done):
            load_weights(model, average)
        return model

    def best_model(self) -> tuple[Translator, int]:
        """The model with the best validation result, or the current one; and its step."""
        best = best_validation(self.validations)
        if best is None:
            return self.current_model(), self.trainer.steps_done
        model, _ = load_translator(self.folder / "best.safetensors")
        return model.to(self.world.device), self.validations[best].step

    def validate(self) -> ValidationResult:
        """Validate the current model, and save it if it has the best result so far."""
        model = self.current_model()
        result = None
        if self.world.is_main:
            result = self.evaluator.validate(model, self.trainer.steps_done, self.trainer.seconds)
        result = self.world.broadcast(result)
        assert result is not None
        self.validations.append(result)
        if best_validation(self.validations) == len(self.validations) - 1:
            if self.world.is_main:
                with self._named_disk_errors():
                    path = self.folder / "best.safetensors"
                    checkpoint.save(path, self._inference_checkpoint(model))
            self.save()
        return result

    def evaluate(self, minutes: float | None = None) -> None:
        """Evaluate the run's model on the validation and test sets, and save the run.

        Args:
            minutes: the limit of the budget; by default, the training time so far.
        """
        self.save()
        model, step = self.best_model()
        if self.world.is_main:
            row = {
                "minutes": round(self.trainer.seconds / 60, 2) if minutes is None else minutes,
                "step": self.trainer.steps_done,
                "model_step": step,
                "epoch": self.trainer.epoch,
                "tokens": sum(record.tokens for record in self.curve),
            }
            scores, hypotheses = self.evaluator.evaluate(model)
            sources, references = zip(*self.corpus.test, strict=True)
            self.samples = samples_tsv(sources, references, hypotheses)
            self.scores.append(row | scores)
        self.scores = self.world.broadcast(self.scores)
        self.save()

    def save(self) -> None:
        """Write the checkpoint and all tables, each file atomically. All processes must call this.

        Raises:
            TfmrError: if a file cannot be written; a previous checkpoint remains.
        """
        state, progress = self.trainer.state_dict()
        model = self.current_model()
        if self.world.is_main:
            saved = Checkpoint(model.config, self.tokenizer, named_weights(model), state)
            with self._named_disk_errors():
                self._write_files(saved, progress)
        self._name_checkpoint()

    def _name_checkpoint(self) -> None:
        """Let messages name the checkpoint of the current step."""
        self.world.last_checkpoint = (
            f"the checkpoint of step {self.trainer.steps_done} in {self.folder}"
        )

    def _write_files(self, saved: Checkpoint, progress: dict[str, Any]) -> None:
        """Write the tables before the checkpoint, which must not be ahead of the curve."""
        metadata = self.metadata()
        results = {**metadata, "date": time.strftime("%Y-%m-%d"), "scores": self.scores}
        write_text(self.folder / "recipe.toml", self.recipe.to_toml())
        write_text(self.folder / "curve.csv", curve_csv(self.curve))
        write_text(self.folder / "scores.json", json.dumps(results, indent=2) + "\n")
        if self.validations:
            write_text(
                self.folder / "valid.csv", validation_csv(self.validations, len(self.corpus.valid))
            )
        if self.samples:
            write_text(self.folder / "samples.tsv", self.samples)
        metadata |= {
            "trainer": progress,
            "scores": self.scores,
            "validations": [dataclasses.asdict(result) for result in self.validations],
            "samples": self.samples,
        }
        saved = dataclasses.replace(saved, metadata=metadata)
        checkpoint.save(self.folder / "model.safetensors", saved)
        self.write_readme()

    @property
    def few_steps(self) -> str:
        """A remark if a time budget has ended too early to train the model; otherwise empty."""
        minutes, warmup = self.recipe.budget.minutes, self.recipe.train.warmup
        steps, seconds = self.trainer.steps_done, self.trainer.seconds
        if not minutes or seconds < 60 * max(minutes) or steps >= 2 * warmup:
            return ""
        return (
            f"the time budget ended after {steps:,} steps, which are few compared with the "
            f"{warmup:,} of the warm-up, so expect poor translations: continue with --resume and "
            "more --minutes"
        )

    def write_readme(self) -> None:
        """Write README.md, which describes the run."""
        progress = f"{self.trainer.steps_done:,} steps in {self.trainer.seconds / 60:.1f} minutes"
        if self.trainer.seconds:
            tokens = sum(record.tokens for record in self.curve)
            progress += f" ({speed(self.trainer.steps_done, tokens, self.trainer.seconds)})"
        if self.few_steps:
            progress += f". {self.few_steps[0].upper()}{self.few_steps[1:]}"
        text = readme_text(
            self.folder, self.metadata(), self.scores, self.samples, progress, self.report
        )
        write_text(self.folder / "README.md", text)

    def _write_recipe(self) -> None:
        """Create the folder and write recipe.toml, which marks it as a run directory."""
        if self.world.is_main:
            try:
                write_text(self.folder / "recipe.toml", self.recipe.to_toml())
            except OSError as error:
                raise TfmrError(
                    f"cannot write to {self.folder}: {explain_os_error(error)}, or choose another "
                    "folder with --out"
                ) from error

    def _write_data(self) -> None:
        """Keep the report on the user's own files, and their validation and test set as TSV."""
        if self.world.is_main and self.report:
            with self._named_disk_errors():
                report = json.dumps(self.report.to_dict(), ensure_ascii=False, indent=2)
                write_text(self.folder / "data.json", f"{report}\n")
                write_text(self.folder / VALID_SET, _tsv(self.corpus.valid))
                write_text(self.folder / TEST_SET, _tsv(self.corpus.test))

    def _add_to_average(self) -> None:
        """Save the weights of this step among the checkpoints to average."""
        model = self.trainer.averaged_model()
        if self.world.is_main:
            with self._named_disk_errors():
                self.averager.add(self.trainer.steps_done, self._inference_checkpoint(model))
        self.world.barrier()

    def _inference_checkpoint(self, model: Translator) -> Checkpoint:
        """``model`` as a checkpoint without the state that training needs."""
        metadata = {**self.metadata(), "step": self.trainer.steps_done}
        return Checkpoint(model.config, self.tokenizer, named_weights(model), metadata=metadata)

    @contextmanager
    def _named_disk_errors(self) -> Iterator[None]:
        """Turn an :class:`OSError` into an error that names the file and the remedies."""
        try:
            yield
        except OSError as error:
            file = error.filename2 or error.filename
            raise TfmrError(
                f"cannot save in {self.folder}: {f'{Path(file).name}: ' if file else ''}"
                f"{explain_os_error(error)}; {self.world.resume_hint()}"
            ) from error


def _tsv(pairs: Sequence[SentencePair]) -> str:
    """One line per pair; sentences in their canonical spelling have neither tabs nor line feeds."""
    return "".join(f"{source}\t{target}\n" for source, target in pairs)
