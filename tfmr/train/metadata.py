"""Where and with what a run was made: what a reader of its scores must know to repeat it."""

import hashlib
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


def surroundings(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and commit, as JSON."""
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


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system gives it.

    Rented machines often tell the brand alone, so the numbers of family and model follow if there
    are any: they say which instructions it has, and how wide they are.
    """
    if not info.exists():
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in info.read_text("utf-8").splitlines())
    said = {name.strip(): value.strip() for name, _, value in pairs}
    name = said.get("model name") or platform.machine()
    numbers = [said.get("cpu family"), said.get("model")]
    return f"{name} (family {numbers[0]}, model {numbers[1]})" if all(numbers) else name


@cache
def commit(file: Path = Path(tfmr.__file__)) -> str | None:
    """The git commit that ``file`` is part of, ``None`` if no repository knows it.

    "+" is put behind it when the repository holds changes that are not committed.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def fingerprint(corpus: Corpus) -> str:
    """Twelve digits of the SHA-256 of all sentences, to tell two corpora of one name apart."""
    digest = hashlib.sha256()
    for part in (corpus.train, corpus.valid, corpus.test):
        for source, target in part:
            digest.update(f"{source}\t{target}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()[:12]


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run's facts, those that must be the same for it to go on as if it had not been stopped.

    How long it is trained, when it is saved, how it is scored in the end and how much patience it
    has may change; what it learns from, and how, may not. But the batches of a step may be dealt
    out anew, to more processes or to fewer.
    """
    recipe = facts["recipe"]
    same = {name: facts[name] for name in ("corpus", "direction", "sentences")}
    for table in ("vocabulary", "model", "batches", "train"):
        same |= {f"{table}.{name}": value for name, value in recipe.get(table, {}).items()}
    turns = same.pop("train.grad_accum_steps", 1)
    same["batches a step"] = turns * facts.get("processes", 1)
    for name in ("compile", "fsdp"):
        same.pop(f"train.{name}", None)
    for table, names in (
        ("checkpoints", ("average", "average_every")),
        ("evaluation", ("eval_every", "metric")),
    ):
        same |= {f"{table}.{name}": recipe.get(table, {}).get(name) for name in names}
    return same


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What in the :func:`surroundings` of two moments lets the same run take another way.

    >>> differences({"hardware": {"threads": 1}}, {"hardware": {"threads": 2}})
    ['threads 1, now 2']
    """
    found = []
    for group in ("versions", "hardware"):
        for name, value in now.get(group, {}).items():
            before = then.get(group, {}).get(name)
            if before != value:
                found.append(f"{name} {before}, now {value}")
    return found
