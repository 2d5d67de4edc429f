"""Metadata: hardware, commit, corpus fingerprint, and what must be unchanged for a resume."""

import dataclasses
import platform
import subprocess
from pathlib import Path

import pytest
import torch

import tfmr
from tests.errors import rejects
from tfmr.data.corpus import Corpus
from tfmr.train.config import Recipe
from tfmr.train.metadata import (
    RunState,
    commit,
    corpus_fingerprint,
    differences,
    environment_info,
    processor,
    resume_key,
)


def test_the_environment() -> None:
    info = environment_info(torch.device("cpu"))
    assert info["versions"]["tfmr"] == tfmr.__version__
    assert torch.__version__.startswith(info["versions"]["torch"])
    assert info["hardware"]["threads"] == torch.get_num_threads()
    assert info["hardware"]["device"] == "cpu"
    assert info["hardware"]["processor"]
    assert info["commit"] == commit()


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (
            "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: EPYC: two\n",
            "EPYC: two (family 26, model 2)",
        ),
        ("model name\t: ARMv7 rev 4\nBogoMIPS\t: 38\n", "ARMv7 rev 4"),
        ("BogoMIPS\t: 50\n", platform.machine()),
    ],
)
def test_the_processor_is_named_with_its_family_and_model(
    cpuinfo: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(cpuinfo, "utf-8")
    assert processor(str(path)) == name
    assert processor(tmp_path / "none") == (platform.processor() or platform.machine())


def test_the_commit_is_that_of_the_file_and_marks_uncommitted_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1")
    assert commit(tmp_path / "a") is None
    git("init", "--quiet")
    git("add", "a", "b")
    git("commit", "--quiet", "--message", "x", "--no-verify")
    assert commit(tmp_path / "b") == git("rev-parse", "HEAD")[:12]
    assert commit(tmp_path / "c") is None, "a file that is not under version control"
    (tmp_path / "a").write_text("2")
    commit.cache_clear()
    assert commit(str(tmp_path / "b")) == git("rev-parse", "HEAD")[:12] + "+"


def test_the_fingerprint_depends_on_every_sentence_and_its_set() -> None:
    corpus = Corpus("c", "en", "fr", [("a", "b")], [("c", "d")], [("e", "f")], "")
    others = [
        dataclasses.replace(corpus, train=[("a", "x")]),
        dataclasses.replace(corpus, valid=[("x", "d")]),
        dataclasses.replace(corpus, test=[("e", "f"), ("e", "f")]),
        dataclasses.replace(corpus, train=[("a", "b"), ("c", "d")], valid=[]),
    ]
    assert len({corpus_fingerprint(one) for one in (corpus, *others)}) == 5
    assert corpus_fingerprint(corpus) == corpus_fingerprint(dataclasses.replace(corpus, name="x"))


AVERAGED = {"train.ema_decay": 0, "checkpoints.average": 2, "checkpoints.average_every": 1}


@pytest.mark.parametrize(
    ("overrides", "processes", "same"),
    [
        *(({"budget.minutes": (9.0,)}, 2, True), ({"train.compile": True}, 2, True)),
        *(({"evaluation.beam": 9, "checkpoints.seconds": 1}, 2, True), ({}, 1, False)),
        *(({"train.grad_accum_steps": 4}, processes, processes == 1) for processes in (1, 2)),
        *(({"train.seed": 1}, 2, False), ({"model.dropout": 0.2}, 2, False)),
        *(({"vocabulary.size": 6}, 2, False), ({"batches.tokens_per_batch": 6}, 2, False)),
        *(({"evaluation.metric": "loss"}, 2, False), ({"evaluation.eval_every": 6}, 2, False)),
        (AVERAGED, 2, False),
    ],
)
def test_a_resume_needs_the_same_settings(overrides: dict, processes: int, same: bool) -> None:
    def key(recipe: Recipe, processes: int) -> object:
        own = {"corpus": "c", "direction": "en-fr", "corpus_fingerprint": "1"}
        return resume_key({**own, "processes": processes, "recipe": recipe.to_dict()})

    recipe = Recipe().with_overrides({"train.grad_accum_steps": 2})
    now = key(recipe.with_overrides(overrides), processes)
    assert (key(recipe, 2) == now) == same


def test_a_run_has_at_least_one_process() -> None:
    def state(processes: int) -> RunState:
        return RunState("c", "en-fr", "1", {}, processes, {}, (), (), "", None, {}, {})

    assert state(1).processes == 1
    rejects(lambda: state(0), "got 0")


def test_differences_between_environments() -> None:
    before = {"versions": {"torch": "2.5"}, "hardware": {"processor": "a"}}
    now = {"versions": {"torch": "2.6"}, "hardware": {"processor": "a"}, "commit": "b"}
    assert differences(before, now) == ["torch 2.5, now 2.6"]
