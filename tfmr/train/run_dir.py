"""The files of a run directory and the CSV tables of its metrics: training curve, validations."""

import csv
import dataclasses
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tfmr.data.files import lock_folder, write_atomic
from tfmr.data.own_files import TEST_SET, VALID_SET
from tfmr.data.text import canonical
from tfmr.errors import TfmrError, require
from tfmr.metrics import sentence_chrf
from tfmr.train.evaluation import ValidationResult, best_validation
from tfmr.train.trainer import StepRecord

FILES = {
    "README.md": "this page",
    "model.safetensors": "the model, its tokenizer, and the state needed to resume training",
    "best.safetensors": "the model with the best validation result, used for translation",
    "recipe.toml": "all settings",
    "curve.csv": "one row per training step",
    "curve.png": "the training curve as a picture",
    "valid.csv": "one row per validation",
    "scores.json": "the evaluation scores and the metadata of the run",
    "samples.tsv": "source, reference, hypothesis and chrF of test sentences at equal intervals",
    "data.json": "the report on your own files: lengths, what was not used, and why",
    "lengths.png": "the lengths of the sentences of your own files as a picture",
    VALID_SET: "the validation set that was held out of your own files, or given with them",
    TEST_SET: "the test set, likewise; `evaluate` scores it by default",
    "tokens": "the training set as token ids",
}
"""What each file of a run directory contains. The folder ``tokens`` exists for large corpora only.
There may also be the folders ``checkpoints``, with the checkpoints to average, and
``tensorboard``."""

SAMPLES = 20
"""Number of translations in samples.tsv."""


@contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of an existing run directory, which only one process at a time can hold.

    The operating system releases it when the process ends, however that happens.

    Raises:
        TfmrError: if another process holds it.
    """
    with lock_folder(folder) as is_locked:
        require(
            is_locked is not False,
            f"another process trains in {folder}: wait until it ends, or choose another folder "
            "with --out",
        )
        yield


def check_run_dir(folder: str | os.PathLike[str], *, resume: bool) -> None:
    """Raise if the run directory holds files that this run would overwrite.

    With ``resume``, a run can be continued, or started if there is none.

    Raises:
        TfmrError: without ``resume``, if the folder holds a run or a file with the name of one of
            :data:`FILES`; with it, if the folder holds a run without its checkpoint; in any case,
            if another process trains there.
    """
    folder = Path(folder)
    if resume and folder.is_dir():
        with locked(folder):
            pass
        if (folder / "model.safetensors").exists():
            return
        # The README is written after the first checkpoint.
        require(
            not (folder / "README.md").exists(),
            f"{folder} holds a run without its checkpoint, model.safetensors, which --resume "
            "needs: restore that file, or choose another folder with --out",
        )
        if (folder / "recipe.toml").is_file():
            return  # a run that was killed before its first checkpoint starts again
    exists = any((folder / name).exists() for name in ("model.safetensors", "recipe.toml"))
    require(
        not exists,
        f"{folder} already holds a run: continue it with --resume, or choose another folder with "
        "--out",
    )
    for name in FILES:
        require(
            not (folder / name).exists(),
            f"{folder / name} does not belong to a run and would be overwritten: choose another "
            "folder with --out",
        )


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8 to ``path`` atomically; see :func:`write_atomic`."""
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def curve_csv(curve: Sequence[StepRecord]) -> str:
    """The training curve as CSV, with one column per field of :class:`StepRecord`."""
    names = [field.name for field in dataclasses.fields(StepRecord)]
    return _csv([names, *([_cell(getattr(record, name)) for name in names] for record in curve)])


def read_curve(path: str | os.PathLike[str]) -> list[StepRecord]:
    """The training curve in a file that :func:`curve_csv` formatted.

    Raises:
        TfmrError: if there is no such file, or it has other columns or values.
    """
    path = Path(path)
    require(path.is_file(), f"no curve at {path}: expected the curve.csv of a run directory")
    names = [field.name for field in dataclasses.fields(StepRecord)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                StepRecord(
                    step=int(row.pop("step")),
                    tokens=int(row.pop("tokens")),
                    **{name: float(value) for name, value in row.items()},
                )
                for row in csv.DictReader(file)
            ]
    except (KeyError, TypeError, ValueError, csv.Error, OSError) as error:
        raise TfmrError(
            f"{path} is not a training curve: expected the columns {', '.join(names)} ({error!r})"
        ) from error


def validation_csv(results: Sequence[ValidationResult], sentences: int) -> str:
    """The validation results as CSV, with a column that marks each new best result.

    ``sentences`` is the size of the validation set.
    """
    rows = [["step", "seconds", "sentences", "loss", "bleu", "best"]]
    for index, result in enumerate(results):
        bleu = "" if result.bleu is None else f"{result.bleu:.2f}"
        best = int(best_validation(results[: index + 1]) == index)
        rows.append(
            [
                *(str(result.step), _cell(result.seconds), str(sentences)),
                *(f"{result.loss:.6f}", bleu, str(best)),
            ]
        )
    return _csv(rows)


def samples_tsv(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]
) -> str:
    r"""Twenty sentences at equal intervals as TSV: source, reference, hypothesis, chrF.

    They are in their canonical spelling, so tabs and line breaks become spaces.

    >>> samples_tsv(["a"], ["b"], ["c\td\u2028e"]).splitlines()[1]
    'a\tb\tc d e\t0.0'
    """
    sentences = list(zip(sources, references, hypotheses, strict=True))
    rows = ["source\treference\thypothesis\tchrF"]
    for sentence in sentences[:: max(1, len(sentences) // SAMPLES)]:
        texts = [canonical(text) for text in sentence]
        _, reference, hypothesis = texts
        rows.append("\t".join([*texts, f"{sentence_chrf(hypothesis, reference):.1f}"]))
    return "\n".join(rows) + "\n"


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cell(value: int | float) -> str:
    """A number with up to nine significant digits, which distinguish any two fp32 values."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"
