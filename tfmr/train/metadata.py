"""Metadata of a run: software, hardware, commit, fingerprint of the corpus, state to resume."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch

import tfmr
from tfmr.data.corpus import Corpus
from tfmr.errors import require
from tfmr.registry import structure
from tfmr.train.config import Recipe
from tfmr.train.evaluation import ValidationResult


def environment_info(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and git commit, as JSON values."""
    return {
        "versions": {
            "tfmr": tfmr.__version__,
            "torch": torch.__version__.split("+")[0],
            "tokenizers": tokenizers.__version__,
            "python": platform.python_version(),
        },
        "hardware": {
            "processor": processor(),
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        },
        "commit": commit(),
    }


def processor(cpuinfo: str | os.PathLike[str] = "/proc/cpuinfo") -> str:
    """The name of the processor as the operating system reports it.

    Virtual machines often report only the brand. The family and model numbers, appended if they
    are known, identify the instruction set and the width of its vectors.
    """
    cpuinfo = Path(cpuinfo)
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    lines = (line.partition(":") for line in cpuinfo.read_text("utf-8").splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    name = values.get("model name") or platform.machine()
    family, model = values.get("cpu family"), values.get("model")
    return f"{name} (family {family}, model {model})" if family and model else name


@cache
def commit(file: str | os.PathLike[str] = tfmr.__file__) -> str | None:
    """The git commit of the working tree that contains ``file``.

    Followed by "+" if the working tree has uncommitted changes; ``None`` if ``file`` is not under
    version control.
    """
    file = Path(file)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        changes = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def corpus_fingerprint(corpus: Corpus) -> str:
    """The first twelve hexadecimal digits of the SHA-256 of all sentence pairs of a corpus."""
    digest = hashlib.sha256()
    for pairs in (corpus.train, corpus.valid, corpus.test):
        for source, target in pairs:
            digest.update(f"{source}\t{target}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class DataOptions:
    """The options with which a run loaded its corpus; ``--resume`` needs them again.

    The fields are those of :class:`tfmr.commands.data.TrainingData`, with absolute paths.
    """

    corpus: str | None
    direction: str
    files: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]
    header: bool
    max_ratio: float


@dataclass(frozen=True)
class RunState:
    """The metadata that a run needs to continue from its checkpoint.

    Raises:
        TfmrError: if a value cannot come from a run.
    """

    corpus: str
    direction: str
    corpus_fingerprint: str
    recipe: dict[str, Any]
    """See :meth:`tfmr.train.config.Recipe.to_dict`."""
    processes: int
    trainer: dict[str, Any]
    """See :class:`tfmr.train.trainer.Progress`."""
    scores: tuple[dict[str, Any], ...]
    """One row per evaluation, with numbers and the signature of the metric."""
    validations: tuple[ValidationResult, ...]
    samples: str
    """The text of samples.tsv; empty before the first evaluation."""
    command: str | None
    versions: dict[str, Any]
    hardware: dict[str, Any]
    base: dict[str, Any] | None = None
    """See :meth:`tfmr.train.fine_tuning.Base.describe`."""
    data: DataOptions | None = None
    given_tokenizer: bool = False
    """Whether the tokenizer was given, and not trained on the corpus or kept from the base."""

    def __post_init__(self) -> None:
        require(self.processes >= 1, f"expected at least 1 process, got {self.processes}")
        for row in self.scores:
            numbers = {name: value for name, value in row.items() if name != "signature"}
            require(
                {"minutes", "step", "signature"} <= set(row)
                and isinstance(row.get("signature", ""), str)
                and all(type(value) in (int, float) for value in numbers.values()),
                f"expected scores with minutes, step, other numbers and a signature, got {row}",
            )
        for line in self.samples.splitlines():
            require(
                line.count("\t") == 3,
                f"expected samples with four columns, got {line[:40]!r}",
            )

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], where: str) -> "RunState":
        """The state in the metadata of a checkpoint.

        Args:
            metadata: of :class:`tfmr.checkpoint.Checkpoint`.
            where: the origin of the metadata, for messages.

        Raises:
            TfmrError: if the checkpoint is for inference only, or a value is missing or invalid.
        """
        require(
            "trainer" in metadata,
            f"{where} is for inference only and cannot be resumed: train in another folder",
        )
        names = {field.name for field in fields(cls)}
        values = {name: value for name, value in metadata.items() if name in names}
        state: RunState = structure(cls, values, where)
        # A recipe of an older version has no values for newer settings, which take their defaults.
        recipe = Recipe.from_dict(state.recipe, f"{where}: recipe")
        return replace(state, recipe=recipe.to_dict())


def resume_key(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run's metadata that must be unchanged for the run to be resumed.

    It contains all that the weights depend on: the corpus, the model and the training settings.
    The budget, the patience, the beam size and the times of saving may change. The number of
    processes may change if ``processes × grad_accum_steps`` does not.
    """
    recipe = metadata["recipe"]
    key = {name: metadata[name] for name in ("corpus", "direction", "corpus_fingerprint")}
    for table in ("vocabulary", "model", "batches", "train"):
        key |= {f"{table}.{name}": value for name, value in recipe[table].items()}
    key["--from"] = (metadata.get("base") or {}).get("weights_fingerprint", "random weights")
    key["batches per step"] = key.pop("train.grad_accum_steps") * metadata["processes"]
    for name in ("compile", "fsdp"):
        del key[f"train.{name}"]
    for name in ("average", "average_every"):
        key[f"checkpoints.{name}"] = recipe["checkpoints"][name]
    for name in ("eval_every", "metric"):
        key[f"evaluation.{name}"] = recipe["evaluation"][name]
    return key


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences in versions and hardware between two :func:`environment_info`.

    >>> differences({"hardware": {"threads": 1}}, {"hardware": {"threads": 2}})
    ['threads 1, now 2']
    """
    return [
        f"{name} {before.get(group, {}).get(name)}, now {value}"
        for group in ("versions", "hardware")
        for name, value in now.get(group, {}).items()
        if before.get(group, {}).get(name) != value
    ]
