"""The command line: its output, and one line with exit status 2 for invalid input."""

import dataclasses
import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import tfmr
from tfmr import checkpoint
from tfmr.__main__ import main
from tfmr.data import corpora, pocket
from tfmr.data.tokenizer import Tokenizer
from tfmr.train.config import find_recipe
from tfmr.train.run import Run

ROOT = Path(tfmr.__file__).parent.parent
NOWHERE = "http://127.0.0.1:9"
"""An address without a server: a machine without a network."""
TINY = {"model.d_model": 16, "model.d_ff": 16, "model.n_encoder": 1, "model.n_decoder": 1}
"""Overrides that make the model of a recipe tiny."""


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty working directory, no corpus, no cache, no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFMR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, NOWHERE)


def shrink_recipes(monkeypatch: pytest.MonkeyPatch, overrides: dict) -> None:
    """Override values of every recipe that ``train`` uses."""
    monkeypatch.setattr(
        "tfmr.train.config.find_recipe", lambda name: find_recipe(name).with_overrides(overrides)
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny pocket corpus and a tiny model."""
    monkeypatch.setattr(corpora, "load", lambda *_: pocket.split("en-fr", 800, 4, 5))
    shrink_recipes(monkeypatch, TINY)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("models") / "run"
    run = Run(folder, pocket.split("en-fr", 800, 4, 5), find_recipe("pocket").with_overrides(TINY))
    run.trainer.run(steps=3)
    run.save()
    return folder


def stdin(given: bytes) -> TextIOWrapper:
    return TextIOWrapper(BytesIO(given), encoding="utf-8")


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["tfmr", *map(str, arguments)])
    main()


@pytest.fixture
def rejected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run a command that must fail: exit status 2, one line beginning "tfmr:", no new file."""

    def check(*arguments: object) -> str:
        capsys.readouterr()
        before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
        with pytest.raises(SystemExit) as stop:
            command(monkeypatch, *arguments)
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        status = ("pocket en-fr: ", "your files source-target: ", "parameters, ")
        lines = [line for line in err.splitlines() if not any(part in line for part in status)]
        assert out == ""
        assert len(lines) == 1
        assert lines[0].startswith("tfmr: ")
        assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == before
        return lines[0]

    return check


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("train", ["--corpus", "--direction", "--files", "--recipe", "--set", "--minutes"]),
        ("train", ["--steps", "--seed", "--patience", "--device", "--threads", "--out"]),
        ("train", ["--resume"]),
        ("export", ["--model", "--out"]),
        ("translate", ["STR", "--model", "--file", "--beam", "--alpha", "--alignment", "--sample"]),
        ("translate", ["--stream"]),
        ("translate", ["--temperature", "--top-k", "--top-p", "--seed"]),
        ("evaluate", ["--corpus", "--direction", "--files", "--model", "--beam", "--alpha"]),
    ],
)
def test_help(monkeypatch, capsys, name: str, options: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command(monkeypatch, name, "--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert [option for option in options if option not in text] == []


def test_help_names_the_commands(monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        command(monkeypatch, "--help")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    names = ("train", "translate", "evaluate", "export", "recipes")
    assert all(name in text for name in names)


def test_train_then_translate_then_evaluate(monkeypatch, capsys, small, tmp_path: Path) -> None:
    command(monkeypatch, "train", "--minutes", "0.01", "0.005")
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["minutes"] for row in rows] == [0.005, 0.01]
    assert "The pocket grammar" in err
    assert "python -m tfmr translate --model runs/pocket-en-fr" in err

    command(monkeypatch, "translate", "the owl sleeps .", "two boxes are heavy .")
    assert len(capsys.readouterr().out.splitlines()) == 2

    command(monkeypatch, "evaluate", "--beam", "1")
    scores = json.loads(capsys.readouterr().out)
    assert scores["bleu"] == rows[-1]["test_bleu"]
    assert scores["exact"] == rows[-1]["test_exact"]
    assert scores["signature"] == rows[-1]["signature"]
    assert scores["sentences"] == rows[-1]["test_sentences"] == 5
    assert rows[-1]["valid_sentences"] == 4
    assert "version:" in scores["signature"]

    command(monkeypatch, "train", "--minutes", "0.015", "--resume")
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"runs"}


def test_your_own_files(monkeypatch, capsys, tmp_path: Path) -> None:
    pairs = pocket.generate("en-fr", 60, 0)
    for side, name in enumerate(("a.en", "a.fr")):
        Path(name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    shrink_recipes(monkeypatch, TINY | {"vocabulary.size": 300})
    files = ("--files", "a.en", "a.fr")
    command(monkeypatch, "train", *files, "--minutes", "0.002", "--out", "mine")
    assert "your own files" in capsys.readouterr().err
    command(monkeypatch, "evaluate", *files, "--model", "mine")
    scores = json.loads(capsys.readouterr().out)
    assert "bleu" in scores
    assert scores["sentences"] == len(pairs), "every line, not a part that is held out"


def test_arguments_a_file_and_standard_input_give_the_same_order(
    monkeypatch, capsys, model: Path
) -> None:
    pairs = pocket.generate("en-fr", 9, 1)
    sentences = [source for source, _ in pairs]
    one_by_one = []
    for sentence in sentences:
        command(monkeypatch, "translate", "--model", model, sentence)
        one_by_one.append(capsys.readouterr().out)
    command(monkeypatch, "translate", "--model", model, *sentences)
    assert capsys.readouterr().out == "".join(one_by_one)
    Path("lines").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    command(monkeypatch, "translate", "--model", model, "--file", "lines")
    assert capsys.readouterr().out == "".join(one_by_one)
    monkeypatch.setattr(sys, "stdin", stdin("\n".join(sentences).encode()))
    command(monkeypatch, "translate", "--model", model / "model.safetensors")
    assert capsys.readouterr().out == "".join(one_by_one)


def test_line_ends_and_a_byte_order_mark_are_ignored(monkeypatch, capsys, model: Path) -> None:
    outputs = []
    for given in (b"The owl sleeps.\n", b"The owl sleeps.\r\n", b"\xef\xbb\xbfThe owl sleeps."):
        monkeypatch.setattr(sys, "stdin", stdin(given))
        command(monkeypatch, "translate", "--model", model)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_standard_input_that_is_closed(monkeypatch, rejected, model: Path) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in rejected("translate", "--model", model)


def test_a_closed_pipe_and_an_interrupt(monkeypatch, capsys, model: Path) -> None:
    line = f"{sys.executable} -m tfmr translate --model {model} 'The owl sleeps.' | true"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tfmr.checkpoint.load", stop)
    with pytest.raises(SystemExit) as end:
        command(monkeypatch, "translate", "--model", model, "a")
    assert end.value.code == 130
    assert capsys.readouterr().err == "tfmr: stopped\n"


@pytest.mark.parametrize("folder", [None, "data"])
def test_a_missing_corpus(monkeypatch, rejected, folder: str | None) -> None:
    if folder:
        Path(folder).mkdir()
        monkeypatch.setenv("TFMR_DATA", folder)
    line = rejected("train", "--corpus", "multi30k", "--direction", "de-en")
    assert "cannot get multi30k/train.de" in line
    assert "set TFMR_DATA to a folder that holds" in line


def test_an_unknown_corpus_or_direction(rejected) -> None:
    assert "expected a corpus among" in rejected("train", "--corpus", "wmt")
    assert "got 'fr-en'" in rejected("train", "--direction", "fr-en")


def test_invalid_files(rejected, model: Path) -> None:
    Path("two").write_text("a\nb\n")
    Path("three").write_text("a\nb\nc\n")
    Path("empty").write_text("")
    line = rejected("train", "--files", "two", "three")
    assert "two has 2 lines and three has 3; align them first" in line
    assert "empty is empty" in rejected("train", "--files", "two", "empty")
    line = rejected("evaluate", "--files", "none", "two", "--model", model)
    assert "cannot read none" in line


def test_a_broken_or_missing_checkpoint(rejected, model: Path) -> None:
    Path("run").mkdir()
    Path("run/model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1])
    assert "copy it again, or train the model again" in rejected("translate", "--model", "run", "a")
    assert "copy it again, or train the model again" in rejected("evaluate", "--model", "run")
    assert "train a model with `python -m tfmr train`" in rejected("translate", "a")
    Path("run/model.safetensors").unlink()
    Path("run/README.md").touch()
    line = rejected("train", "--resume", "--out", "run")
    assert all(part in line for part in ("run ", "model.safetensors", "--out"))


def test_a_wrong_vocabulary(rejected, model: Path) -> None:
    saved = checkpoint.load(model / "model.safetensors")
    other = dataclasses.replace(saved, tokenizer=Tokenizer("words", ["the", "owl"]))
    checkpoint.save(Path("other/model.safetensors"), other)
    line = rejected("translate", "--model", "other", "the owl")
    assert "the vocabulary has 6 tokens and the model" in line
    assert "use the tokenizer that the model was trained with" in line


def test_a_missing_file_and_two_inputs(rejected, model: Path) -> None:
    assert "cannot read none" in rejected("translate", "--model", model, "--file", "none")
    assert "got both" in rejected("translate", "--model", model, "--file", "none", "a")


def test_incompatible_sizes(monkeypatch, rejected, small) -> None:
    line = rejected("train", "--set", "model.d_model=15")
    assert "d_model must be divisible by n_heads" in line
    assert "got d_model=15, n_heads=4" in line


def test_an_existing_run_and_an_invalid_time(rejected, small, model: Path) -> None:
    assert "already holds a run: continue it with --resume" in rejected("train", "--out", model)
    assert "minutes must be positive" in rejected("train", "--minutes", "0")
    assert "less than a million: got [0.1, inf]" in rejected("train", "--minutes", "0.1", "inf")
    assert "got [0.1, nan]" in rejected("train", "--minutes", "0.1", "nan")
