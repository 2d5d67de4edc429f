"""Whatever a command meets, it ends in one line and a documented status, never in a traceback."""

import dataclasses
import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tfmr
from tests.commands.conftest import Command
from tfmr.commands.decoding import Decoding
from tfmr.commands.translate import Translate
from tfmr.dtype import Precision
from tfmr.errors import TfmrError

ROOT = Path(tfmr.__file__).parent.parent
OUT_OF_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 6400000000 bytes.\nException raised from alloc_cpu\nframe #0: c10::Error"
)


def error_of(call) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  any error of the call
        call()
    return caught.value


class SeveralLinesError(TfmrError):
    """A message that the package itself never has; see ``one_line`` in conftest."""

    __init__ = ValueError.__init__


ERRORS = {
    "invalid input": (SeveralLinesError("expected a,\ngot b;\x1b[31m do\u2028c"), 2, ["a, got b;"]),
    "no memory in torch": (RuntimeError(OUT_OF_MEMORY), 2, ["memory", "6400000000", "--set"]),
    "no memory on a GPU": (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), 2, ["2.00 GiB"]
    ),
    "no memory in NumPy": (error_of(lambda: np.empty(2**50)), 2, ["memory", "--set"]),
    "no memory in Python": (MemoryError(), 2, ["memory", "MemoryError"]),
    "no memory for a file": (OSError(errno.ENOMEM, "Cannot allocate memory", "x"), 2, ["memory"]),
    "no memory in C++": (RuntimeError("std::bad_alloc"), 2, ["memory"]),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device", "run/a"),
        2,
        ["run/a: No space left on device; free disk space\n"],
    ),
    "a full output": (OSError(errno.ENOSPC, "No space left"), 2, ["output", "free disk space\n"]),
    "a full quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), 2, ["quota"]),
    "no permission": (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, ["/x", "perm"]),
    "a missing file": (error_of(lambda: open("none")), 2, ["none", "No such file"]),  # noqa: SIM115
    "a long name": (error_of(lambda: os.stat("x" * 9999)), 2, ["File name too long"]),
    "too many open files": (OSError(errno.EMFILE, "Too many open files", "a"), 2, ["ulimit -n"]),
    "an error without a number": (OSError("odd"), 2, ["odd"]),
    "a broken late import": (ImportError("cannot import name 'x'\nfrom 'y'"), 70, ["ImportError"]),
    "a fault of the package": (TypeError("f() takes\n1 argument"), 70, ["TypeError"]),
    "an assertion": (AssertionError(), 70, ["AssertionError", "report"]),
    "endless recursion": (RecursionError("maximum recursion depth"), 70, ["RecursionError"]),
    "a torch error": (RuntimeError("mat1 and mat2\nframe #0"), 70, ["mat1", "--traceback"]),
    "not text": (error_of(lambda: b"\xff".decode()), 70, ["UnicodeDecodeError"]),
    "an interrupt": (KeyboardInterrupt(), 130, ["stopped"]),
    "an interrupt of a run": (KeyboardInterrupt("stopped at step 5"), 130, ["step 5"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("traceback", [False, True])
def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys, command: Command, name: str, traceback: bool
) -> None:
    error, status, words = ERRORS[name]

    def fail(_: Translate) -> None:
        print("a translation")
        raise error

    monkeypatch.setattr(Translate, "__call__", fail)
    with pytest.raises(SystemExit) as stop:
        command("translate", *(["--traceback"] if traceback else []), "a sentence")
    assert stop.value.code == status
    out, err = capsys.readouterr()
    assert out == "a translation\n"
    *before, line = err.split("\n")[:-1]
    assert line.startswith("tfmr: ")
    assert line.isprintable()
    assert all(word in f"{line}\n" for word in words)
    assert ("Traceback (most recent call last):" in before) == traceback
    assert bool(before) == traceback


def test_the_status_of_a_command_that_has_reported_its_error_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys, command: Command
) -> None:
    def fail(_: Translate) -> None:
        raise SystemExit(1) from TfmrError("a process was lost")

    monkeypatch.setattr(Translate, "__call__", fail)
    for options, shown in (([], False), (["--traceback"], True)):
        with pytest.raises(SystemExit) as stop:
            command("translate", *options, "a")
        assert stop.value.code == 1
        assert ("a process was lost" in capsys.readouterr().err) == shown


def test_traceback_may_be_a_sentence_and_is_no_part_of_the_arguments(
    monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    given: list[object] = []
    monkeypatch.setattr(Translate, "__call__", lambda call: given.append(call.sentences))
    command("--traceback", "translate", "a", "--", "--traceback")
    assert given == [("a", "--traceback")]
    assert sys.argv == ["tfmr", "translate", "a", "--", "--traceback"]


@pytest.mark.parametrize("value", ["[" * 3000, "9" * 5000, "{a=" * 2000])
def test_a_value_that_no_parser_accepts(rejected, value: str) -> None:
    line = rejected("train", "--set", f"train.seed={value}")
    assert "train.seed" in line
    assert len(line) < 1000
    Path("recipe.toml").write_text(f"about = {value}\n")
    assert "recipe.toml" in rejected("train", "--recipe", "recipe.toml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["train", "translate", "evaluate", "export", "recipes"]),
        (["trin"], ["trin", "train"]),
        (["train", "--stepz", "3"], ["--stepz", "--steps"]),
        (["train", "--steps", "abc"], ["--steps", "abc", "INT"]),
        (["train", "--out"], ["--out"]),
        (["translate", "--precision", "fp23"], ["--precision", "fp23", "fp32"]),
        (["export"], ["--out"]),
        (["evaluate", "--version"], ["--version"]),
    ],
)
@pytest.mark.parametrize("columns", ["30", "200"])
def test_invalid_arguments(
    command: Command,
    capsys,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: list[str],
    columns: str,
) -> None:
    """One line, although tyro draws a box."""
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit) as stop:
        command(*arguments)
    assert stop.value.code == 2
    out, line = capsys.readouterr()
    assert (out, line.count("\n")) == ("", 1)
    assert line.startswith("tfmr: ")
    assert all(word in line for word in [*words, "--help"])
    assert not any(character in line for character in "│─╭╰")
    assert "  " not in line


def test_the_version(command: Command) -> None:
    assert command("--version") == (f"tfmr {tfmr.__version__}\n", "")


def test_help_and_invalid_arguments_do_not_wait_for_pytorch() -> None:
    code = """
import sys
from tfmr.__main__ import main
for arguments in (["--help"], ["train", "--help"], ["translate", "--help"], ["evaluate", "--help"],
                  ["export", "--help"], ["recipes", "--help"], ["compare", "--help"],
                  ["exercises", "--help"],
                  ["--version"], ["train", "--x"]):
    sys.argv = ["tfmr", *arguments]
    try:
        main()
    except SystemExit:
        pass
slow = {"torch", "sacrebleu", "tokenizers", "matplotlib"} & set(sys.modules)
sys.exit(f"imported: {slow}" if slow else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def test_every_arithmetic_can_be_selected() -> None:
    [option] = [each for each in dataclasses.fields(Decoding) if each.name == "precision"]
    assert option.type == Precision


def test_a_long_message_keeps_its_ends(rejected) -> None:
    line = rejected("translate", "--model", "x" * 200_000, "a")
    assert len(line) < 2100
    assert "File name too long" in line


def test_a_deleted_folder(rejected, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "folder" in rejected("recipes")


def shell(command: str, **variables: str) -> tuple[int, str, str]:
    """Run a command line in which ``tfmr`` is the program: status, output, errors.

    Each takes seconds, because it imports PyTorch.
    """
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(
        ["bash", "-c", command.replace("tfmr", f"{sys.executable} -m tfmr")],
        env=os.environ | settings,
        capture_output=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_an_output_that_is_full_or_closed(model: Path, command: Command) -> None:
    given = f"tfmr translate --model {model} --beam 1 --alignment"
    for redirection, word in ((">/dev/full", "No space left"), (">&-", "closed")):
        status, _, err = shell(f"{given} 'The owl sleeps.' {redirection}")
        assert (status, err.count("\n")) == (2, 1), err
        assert err.startswith("tfmr: ")
        assert word in err
    # What is read as UTF-8 is written as UTF-8, whatever the locale.
    lines = ("The owl sleeps.", "Two boxes are heavy.")
    found = shell(
        f"printf '%s\\n%s\\n' {shlex.join(lines)} | {given} 2>&-", PYTHONIOENCODING="ascii"
    )
    options = ("--beam", 1, "--alignment")
    assert found == (0, command("translate", "--model", model, *options, *lines)[0], "")
    assert found[1].count("→") > 0
    assert shell("tfmr translate --model none a 2>/dev/full") == (2, "", "")


# An extension module turns Ctrl-C into another error.
CTRL_C = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10**9): pass
except KeyboardInterrupt:
    raise ImportError("initialisation failed")
"""


def test_a_model_that_does_not_fit_into_memory(tmp_path: Path) -> None:
    line = "ulimit -v 12000000; tfmr train --set model.d_model=60000 --steps 1 --out"
    status, out, err = shell(f"{line} {tmp_path / 'run'}")
    *_, message = err.splitlines()
    assert (status, out) == (2, "")
    assert message.startswith("tfmr: not enough memory")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "code", "status", "words"),
    [
        ("tyro", "raise TypeError('Descriptors cannot\\nbe created')", 2, ["TypeError", "install"]),
        ("torch", "raise OSError('libtorch.so: no such file')", 2, ["libtorch", "install"]),
        ("tyro", "raise MemoryError", 2, ["memory"]),
        ("tyro", CTRL_C, 130, ["stopped"]),
        ("torch", CTRL_C, 130, ["stopped"]),
    ],
)
def test_an_error_while_packages_are_imported(
    tmp_path: Path, name: str, code: str, status: int, words: list[str]
) -> None:
    (tmp_path / f"{name}.py").write_text(f"{code}\n")
    found, out, err = shell("tfmr recipes", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (found, out, err.count("\n")) == (status, "", 1), err
    assert all(word in err for word in words)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "1"}, ["MASTER_ADDR", "MASTER_PORT", "unset", "torchrun"]),
        ({"RANK": "0"}, ["WORLD_SIZE missing"]),
        ({"WORLD_SIZE": "two", "RANK": "0"}, ["WORLD_SIZE=two"]),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "1", "MASTER_ADDR": "h",
          "WORLD_SIZE": "1", "RANK": "1"}, ["RANK=1"]),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "99999",
          "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "1", "RANK": "0"}, ["MASTER_PORT", "torchrun"]),
    ],
)  # fmt: skip
def test_variables_of_torchrun_without_torchrun(
    monkeypatch: pytest.MonkeyPatch, rejected, variables: dict[str, str], words: list[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    line = rejected("train", "--steps", "1")
    assert all(word in line for word in words), line
