"""A run: from a corpus to a folder with the model, its curve, its scores and all they came from."""

import csv
import dataclasses
import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tqdm import tqdm

import tfmr
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, Pair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.train import checkpoint
from tfmr.train.checkpoint import Checkpoint, named_weights
from tfmr.train.evaluate import bleu, exact_match, mean_loss, sentence_chrf
from tfmr.train.loop import Step, Trainer
from tfmr.train.recipes import Recipe

SAVE_EVERY = 60.0
"""Seconds of training between two checkpoints."""
SAMPLES = 20
"""Translations kept for a person to read."""


class Run:
    """Trains one model and keeps its folder.

    In it: ``model.safetensors``, ``curve.csv``, ``scores.json`` and ``samples.tsv``.

    Args:
        folder: where all of it goes; made if needed.
        corpus: what to learn from and be scored on.
        recipe: the vocabulary, the model, and how to train it.
        resume: go on from the folder's checkpoint. Without it, a folder that holds one is refused.

    Raises:
        TfmrError: if there is a checkpoint and ``resume`` is not given, there is none and it is, or
            the checkpoint belongs to another corpus or recipe.
    """

    def __init__(
        self, folder: Path, corpus: Corpus, recipe: Recipe, *, resume: bool = False
    ) -> None:
        self.folder = folder
        self.corpus = corpus
        self.recipe = recipe
        self.curve: list[Step] = []
        self.scores: list[dict[str, Any]] = []
        self.samples = ""
        path = folder / "model.safetensors"
        require(
            resume or not path.exists(),
            f"{folder} holds a run already: go on with it by --resume, or name another folder by "
            "--out",
        )
        saved = checkpoint.load(path) if resume else None
        self.tokenizer = saved.tokenizer if saved else recipe.tokenizer(corpus)
        torch.manual_seed(recipe.train.seed)
        config = recipe.model(self.tokenizer.vocab_size)
        self.trainer = Trainer(Transformer(config), self.batches(corpus.train), recipe.train)
        self._check_lengths()
        if saved:
            self._go_on(saved)

    def _check_lengths(self) -> None:
        """Refuse before the training what could not be scored after it."""
        for part in ("valid", "test"):
            pairs: list[Pair] = getattr(self.corpus, part)
            for side in (0, 1):
                encoded = self.tokenizer.encode_batch([pair[side] for pair in pairs])
                for pair, ids in zip(pairs, encoded, strict=True):
                    require(
                        len(ids) + side <= self.recipe.max_length,
                        f"the model reads at most {self.recipe.max_length} tokens and a sentence "
                        f"of the {part} part has {len(ids) + side}: shorten it or leave it out "
                        f"({pair[side][:40]!r}…)",
                    )

    def _go_on(self, saved: Checkpoint) -> None:
        facts = self.facts()
        for name in ("corpus", "direction", "sentences", "recipe"):
            require(
                saved.facts.get(name) == facts[name],
                f"{self.folder} was trained with {name} {saved.facts.get(name)}, now asked for "
                f"{facts[name]}: resume with the same, or start anew in another folder",
            )
        self.trainer.restore(saved.state, saved.facts["trainer"])
        self.scores = saved.facts["scores"]
        curve = read_curve(self.folder / "curve.csv")
        self.curve = [step for step in curve if step.step <= self.trainer.steps_done]

    def batches(self, pairs: Sequence[Pair]) -> Batches:
        """Sentence pairs as batches of ids."""
        sources = self.tokenizer.encode_batch([source for source, _ in pairs])
        targets = self.tokenizer.encode_batch([target for _, target in pairs])
        return Batches(
            list(zip(sources, targets, strict=True)),
            self.recipe.tokens_per_batch,
            self.recipe.train.seed,
            self.recipe.max_length,
        )

    def facts(self) -> dict[str, Any]:
        """What a reader of the results must know to repeat them."""
        return {
            "corpus": self.corpus.name,
            "direction": f"{self.corpus.source}-{self.corpus.target}",
            "sentences": _fingerprint(self.corpus),
            "recipe": json.loads(json.dumps(dataclasses.asdict(self.recipe))),
            "parameters": self.trainer.model.count_parameters(),
            "vocabulary": self.tokenizer.fingerprint,
            "versions": {
                "tfmr": tfmr.__version__,
                "torch": torch.__version__.split("+")[0],
                "python": platform.python_version(),
            },
            "hardware": {"processor": processor(), "threads": torch.get_num_threads()},
        }

    def train(self, minutes: Sequence[float], *, quiet: bool = False) -> list[dict[str, Any]]:
        """Train, and score at each of ``minutes``; the clock stands still while scoring and saving.

        Returns:
            The scores so far, one dictionary per time.

        Raises:
            TfmrError: if the folder cannot be made, or training diverges; the last checkpoint
                stays.
        """
        marks = sorted(minutes)
        require(
            bool(marks) and all(0 < mark < 1e6 for mark in marks),
            f"the minutes to train must be positive and less than a million: got {list(minutes)}",
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(self.folder / ".writable", "")
            (self.folder / ".writable").unlink()
        except OSError as error:
            raise TfmrError(
                f"cannot write to {self.folder}: {error}; name another by --out"
            ) from error
        saved_at = self.trainer.seconds
        with tqdm(
            total=round(marks[-1] * 60),
            initial=round(self.trainer.seconds),
            unit="s",
            disable=quiet,
            leave=False,
        ) as bar:

            def on_step(step: Step) -> None:
                nonlocal saved_at
                self.curve.append(step)
                bar.update(round(step.seconds) - bar.n)
                bar.set_postfix(
                    step=step.step, loss=f"{step.loss:.2f}", norm=f"{step.gradient_norm:.1f}"
                )
                if step.seconds - saved_at >= SAVE_EVERY:
                    saved_at = step.seconds
                    self.save()

            try:
                for mark in marks:
                    # A run that was stopped while it was being scored is scored when it goes on.
                    before = self.curve[-2].seconds if len(self.curve) > 1 else 0.0
                    scored = any(row["minutes"] == mark for row in self.scores)
                    if self.trainer.seconds < mark * 60 or (before < mark * 60 and not scored):
                        self.trainer.run(seconds=mark * 60, on_step=on_step)
                        self.save()
                        self.score(mark, quiet=quiet)
                        self.save()
            except KeyboardInterrupt:
                require(
                    self.trainer.steps_done > 0,
                    "stopped before the first step, so there is nothing to save: start again",
                )
                self.save()
                raise TfmrError(
                    f"stopped at step {self.trainer.steps_done}, all of it saved in "
                    f"{self.folder}: go on with --resume"
                ) from None
        return self.scores

    def score(self, mark: float, *, quiet: bool = False) -> None:
        """Score the averaged weights: validation loss; BLEU and exact match on both other parts."""
        model = self.trainer.averaged()
        row: dict[str, Any] = {
            "minutes": mark,
            "step": self.trainer.steps_done,
            "epoch": self.trainer.epoch,
            "tokens": sum(step.tokens for step in self.curve),
            "valid_loss": round(mean_loss(model, self.batches(self.corpus.valid)), 4),
        }
        for part in ("valid", "test"):
            pairs: list[Pair] = getattr(self.corpus, part)
            sources, references = [s for s, _ in pairs], [t for _, t in pairs]
            with tqdm(
                total=len(pairs), unit="sentence", desc=part, disable=quiet, leave=False
            ) as bar:
                outputs = translate(model, self.tokenizer, sources, on_finished=bar.update)
            result = bleu(outputs, references)
            row[f"{part}_bleu"] = result.score
            row[f"{part}_exact"] = round(exact_match(outputs, references), 4)
            row["signature"] = result.signature
            if part == "test":
                self.samples = _samples(sources, references, outputs)
        self.scores.append(row)

    def save(self) -> None:
        """Write the checkpoint, the curve and the scores, each whole or not at all.

        Raises:
            TfmrError: if the folder cannot be written to; what was there before stays.
        """
        try:
            self._save()
        except (OSError, SafetensorError) as error:
            raise TfmrError(
                f"cannot save in {self.folder}: {error}; the checkpoint before it stays: make "
                f"room, then go on with --resume"
            ) from error

    def _save(self) -> None:
        tensors, trainer = self.trainer.state()
        facts = self.facts()
        names = [field.name for field in dataclasses.fields(Step)]
        rows = [names, *([_cell(getattr(step, name)) for name in names] for step in self.curve)]
        _write(self.folder / "curve.csv", "".join(",".join(row) + "\n" for row in rows))
        _write(
            self.folder / "scores.json",
            json.dumps(
                {**facts, "date": time.strftime("%Y-%m-%d"), "scores": self.scores}, indent=2
            )
            + "\n",
        )
        if self.samples:
            _write(self.folder / "samples.tsv", self.samples)
        checkpoint.save(
            self.folder / "model.safetensors",
            Checkpoint(
                config=self.trainer.model.config,
                tokenizer=self.tokenizer,
                weights=named_weights(self.trainer.averaged()),
                state=tensors,
                facts={**facts, "trainer": trainer, "scores": self.scores},
            ),
        )


def processor() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def read_curve(path: Path) -> list[Step]:
    """The curve that a run wrote, a :class:`Step` per row.

    Raises:
        TfmrError: if there is no such file or it is no curve.
    """
    require(path.is_file(), f"no curve at {path}: it is written beside a run's checkpoint")
    names = [field.name for field in dataclasses.fields(Step)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                Step(
                    step=int(row.pop("step")),
                    tokens=int(row.pop("tokens")),
                    **{k: float(v) for k, v in row.items()},
                )
                for row in csv.DictReader(file)
            ]
    except (KeyError, TypeError, ValueError) as error:
        raise TfmrError(
            f"{path} is no curve: expected the columns {', '.join(names)} ({error!r})"
        ) from error


def _samples(sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> str:
    """Twenty translations at even distances, so that nobody picked them, each with its chrF."""
    rows = ["source\treference\ttranslation\tchrF"]
    for index in range(0, len(outputs), max(1, len(outputs) // SAMPLES)):
        score = sentence_chrf(outputs[index], references[index])
        rows.append(f"{sources[index]}\t{references[index]}\t{outputs[index]}\t{score:.1f}")
    return "\n".join(rows) + "\n"


def _cell(value: int | float) -> str:
    """A number as the curve holds it: whole, or to six digits."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _write(path: Path, text: str) -> None:
    """Write ``text`` whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _fingerprint(corpus: Corpus) -> str:
    """Twelve digits of the SHA-256 of all sentences, to tell two corpora of one name apart."""
    parts = json.dumps([corpus.train, corpus.valid, corpus.test])
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


def load_translator(path: Path) -> tuple[Transformer, Tokenizer]:
    """The model and the vocabulary of a run: its folder, or its checkpoint itself.

    Raises:
        TfmrError: if there is no whole checkpoint.
    """
    saved = checkpoint.load(path / "model.safetensors" if path.is_dir() else path)
    return saved.model(), saved.tokenizer
