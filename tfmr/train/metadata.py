"""Metadata for reproducing a run: software, hardware, commit, and a fingerprint of the corpus."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch

import tfmr
from tfmr.data.corpus import Corpus


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
