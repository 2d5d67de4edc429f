"""Planted faults make the checks fail, with the expected message."""

import re
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tools import kernel, notebooks, verify

SMALL = ("x = 0.1 + 0.2\nprint(f'{x:.3f}')", "x > 0.3")
ATTENTION = """
import torch
from tfmr.attention import scaled_dot_product_attention
q = k = v = torch.eye(4)
print([round(w, 3) for w in scaled_dot_product_attention(q, k, v)[1][0].tolist()])
"""


def assert_fails(done: CompletedProcess[str], *messages: str) -> None:
    """The chapter was executed, its comparison failed, and the output has the messages."""
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "FAILED" in output
    assert "No module named" not in output
    assert "NOT all passed" in output
    for message in messages:
        assert message in output


@dataclass(frozen=True)
class Fault:
    """A fault in a chapter."""

    correct: str
    """A part of the correct notebook."""
    faulty: str
    """What replaces it."""
    message: str
    """What the verification prints about the chapter."""
    refresh: str = ""
    """What ``tools.notebooks refresh`` prints about the chapter, if it fails as well."""
    sources: tuple[str, ...] = SMALL
    """The code cells of the correct chapter."""
    normalise: bool = True
    """Whether the faulty notebook is in normal form."""


FAULTS = {
    "a-changed-number": Fault('"0.300\\n"', '"0.301\\n"', "Cell outputs differ"),
    "a-missing-output": Fault(
        """   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "gone\\n"
     ]
    }
   ],
""",
        '   "outputs": [],\n',
        "Unexpected output fields",
        sources=("print('kept')", "print('gone')"),
    ),
    "a-cell-that-raises": Fault("x > 0.3", "1 / 0", "ZeroDivisionError", "ZeroDivisionError"),
    "a-failing-assert": Fault(
        "assert x > 0.3",
        "assert x < 0.3",
        "Unexpected output fields",
        "This differs from the book",
        sources=("x = 0.1 + 0.2\nprint(x > 0.3)", "assert x > 0.3"),
    ),
    "a-cell-that-warns": Fault(
        "print('fine')",
        "import warnings; print('fine'); warnings.warn('old')",
        "stderr",
        "writes to stderr",
        sources=("print('fine')",),
    ),
    "a-stored-warning": Fault(
        '"name": "stdout"',
        '"name": "stderr"',
        "FAILED  code cell 2 writes to stderr",
        sources=("print('fine')",),
    ),
    "an-output-excluded-from-checking": Fault(
        "x > 0.3", "# NBVAL_IGNORE_OUTPUT\\nx > 0.3", "every output is checked"
    ),
    "not-in-normal-form": Fault(
        '"execution_count": 2',
        '"execution_count": 7',
        "not in normal form; run: python -m tools.notebooks normalise",
        normalise=False,
    ),
}


def about(name: str, output: str) -> str:
    """What the verification prints about a chapter: failed cells, and its verdict."""
    failures = re.findall(rf"^_+ {name}::Cell \d+ _+\n(.*?)(?=^_+ book|^=)", output, re.M | re.S)
    return "\n".join([*failures, *re.findall(rf"^ +{name} +[\d.]+ s  (.*)$", output, re.M)])


def test_each_fault_fails_its_chapter_only(copy: Any) -> None:
    names = {key: f"book/{number:02}-{key}.ipynb" for number, key in enumerate(FAULTS, start=2)}
    sound = copy.write_chapter(*SMALL)
    copy.write_chapters({name: FAULTS[key].sources for key, name in names.items()})
    for key, name in names.items():
        copy.plant(name, FAULTS[key].correct, FAULTS[key].faulty)
    normalised = [name for key, name in names.items() if FAULTS[key].normalise]
    assert copy.run("tools.notebooks", "normalise", *normalised).returncode == 0

    done = copy.verify()
    assert_fails(done)
    assert about(sound, done.stdout) == "verified"
    assert copy.stamped() == ["01-small"]
    for key, name in names.items():
        assert "FAILED" in about(name, done.stdout), key
        assert FAULTS[key].message in about(name, done.stdout), key

    unrefreshed = {key: name for key, name in names.items() if FAULTS[key].refresh}
    done = copy.run("tools.notebooks", "refresh", *unrefreshed.values())
    assert done.returncode == 1
    messages = dict(re.findall(r"^(book/\S+): (.*?)(?=^book/|\Z)", done.stderr, re.M | re.S))
    for key, name in unrefreshed.items():
        assert FAULTS[key].refresh in messages[name], key


def test_a_correct_chapter_is_verified_once(copy: Any) -> None:
    name = copy.write_chapter(*SMALL)
    first = copy.verify()
    assert first.returncode == 0, first.stdout
    assert "1 chapters run" in first.stdout
    second = copy.verify()
    assert second.returncode == 0
    assert "0 chapters run" in second.stdout
    assert "1 verified before" in second.stdout
    assert copy.stamped() == ["01-small"]
    assert copy.run("tools.notebooks", "check", name).returncode == 0


def test_a_slow_chapter(copy: Any) -> None:
    copy.write_chapter(*SMALL)
    copy.plant("tools/verify.py", "CHAPTER_SECONDS = 90.0", "CHAPTER_SECONDS = 0.0")
    assert_fails(copy.verify(), "slower than 0 s")
    assert copy.stamped() == []


def test_the_seconds_of_a_chapter_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system adds up the time of all kernels that a process has started."""
    totals = iter([(5.0, 1.0), (7.0, 1.5)])
    usage = (SimpleNamespace(ru_utime=user, ru_stime=system) for user, system in totals)
    monkeypatch.setattr(verify.resource, "getrusage", lambda _: next(usage))
    monkeypatch.setenv(verify.FOLDER, str(tmp_path))
    monkeypatch.setenv(kernel.REPORT, "")
    config = SimpleNamespace(stash=pytest.Stash())
    one, two = (SimpleNamespace(path=Path(f"book/{n}.ipynb"), config=config) for n in "ab")
    for item, following in ((one, one), (one, two), (two, None)):
        running: Any = verify.pytest_runtest_protocol(item, following)  # type: ignore[arg-type]
        next(running)
        with pytest.raises(StopIteration):
            running.send(None)
    assert [float((tmp_path / f"{n}.seconds").read_text()) for n in "ab"] == [6.0, 2.5]


def test_an_output_that_depends_on_the_settings(copy: Any) -> None:
    copy.write_chapter("import os\nprint(os.environ.get('LANGUAGE'))", LANGUAGE="en")
    assert copy.verify(LANGUAGE="en").returncode == 0
    assert_fails(copy.verify("--all", "--no-stamp", LANGUAGE="de"), "Cell outputs differ")
    assert copy.stamped() == ["01-small"], "a run with other settings is not recorded"
    assert_fails(copy.verify("--all", LANGUAGE="de"), "Cell outputs differ")
    assert copy.stamped() == [], "a failed chapter is not verified"


SQRT = ("tfmr/attention.py", " / math.sqrt(q.shape[-1])", "")
CAUSAL = ("tfmr/attention.py", "tril(diagonal=key - query)", "tril(diagonal=key - query + 1)")
BASE = ("tfmr/position.py", "base: float = 10000.0", "base: float = 1000.0")


@pytest.mark.parametrize(
    ("fault", "chapter", "cells"),
    [(SQRT, "04-*.ipynb", 16), (CAUSAL, "04-*.ipynb", 32), (BASE, "06-*.ipynb", 8)],
    ids=["sqrt-dropped", "mask-off-by-one", "base-1000"],
)
def test_a_fault_in_the_package_fails_the_chapter(
    copy: Any, fault: tuple[str, str, str], chapter: str, cells: int
) -> None:
    name = copy.chapter(chapter, cells)
    copy.plant(*fault)
    assert_fails(copy.verify(name), name, "Unexpected output fields", "stderr")


@pytest.mark.parametrize(
    ("fault", "tests"),
    [
        (SQRT, "tests/test_attention.py"),
        (CAUSAL, "tests/test_attention.py"),
        (BASE, "tests/test_position.py"),
    ],
    ids=["sqrt-dropped", "mask-off-by-one", "base-1000"],
)
def test_a_fault_in_the_package_fails_its_unit_test(
    copy: Any, fault: tuple[str, str, str], tests: str
) -> None:
    copy.plant(*fault)
    done = copy.unit_tests(tests)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "No module named" not in done.stdout


IN_NODE = ("tests/widgets/engine.mjs", "tests/widgets/page_engine.py")
IN_BROWSER = ("tests/pages/conftest.py", "tests/pages/live.py", "book/_assets")


@pytest.mark.parametrize(
    ("fault", "tests", "needed"),
    [
        (
            ("tfmr/widgets/transformer.js", "j <= key - query + i", "j <= key - query + i + 1"),
            "tests/widgets/test_transformer_js.py",
            IN_NODE,
        ),
        (
            ("tfmr/widgets/attention.js", "product / Math.sqrt(q[i].length)", "product"),
            "tests/pages/test_attention_figure.py",
            IN_BROWSER,
        ),
    ],
    ids=["mask-of-the-translator", "scale-of-a-live-figure"],
)
def test_a_fault_in_the_code_of_a_page_fails_its_test(
    copy: Any, fault: tuple[str, str, str], tests: str, needed: tuple[str, ...]
) -> None:
    copy.plant(*fault)
    done = copy.unit_tests(tests, *needed)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "AssertionError" in done.stdout
    assert "No module named" not in done.stdout


READING = """
import os
from safetensors.torch import load_file
from tfmr.encoder import Encoder
from tfmr.widgets import MasksFigure
open("made.txt", "w").close()
print(len(load_file("recorded.safetensors")), open("recorded.json").read(), os.listdir("listed"))
"""
READ = (
    "tfmr/encoder.py",
    "tfmr/attention.py",  # imported by a module that the chapter imports
    "tfmr/__init__.py",
    "tfmr/widgets/masks.css",
    "book/01-small.ipynb",
    "book/recorded.json",
    "book/recorded.safetensors",
    "book/listed/new.txt",
    "requirements.lock",
)
NOT_READ = (
    "tfmr/train/trainer.py",
    "tfmr/widgets/attention.js",
    "tfmr/widgets/attention.css",
    "book/other.json",
    "book/made.txt",  # written by the chapter
    "book/_assets/style.css",
    "tools/site.py",
)


@pytest.fixture
def reading(copy: Any) -> str:
    """A verified chapter that imports a module, reads two files and lists a folder."""
    (copy.root / "book/listed").mkdir(parents=True)
    (copy.root / "book/recorded.json").write_text("{}")
    save_file({"one": torch.zeros(1)}, copy.root / "book/recorded.safetensors")
    name: str = copy.write_chapter(READING)
    verified = copy.verify()
    assert verified.returncode == 0, verified.stdout
    return name


def test_a_chapter_is_run_again_if_something_that_it_read_changed(
    copy: Any, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "ROOT", copy.root)
    monkeypatch.setattr(notebooks, "ROOT", copy.root)
    monkeypatch.setattr(verify, "STAMPS", copy.root / ".verified")
    for name in (*READ, *NOT_READ):
        path = copy.root / name
        before = path.read_bytes() if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((before or b"") + b"\n")
        why = verify.why_not_verified(copy.root / reading)
        path.unlink() if before is None else path.write_bytes(before)
        changed = name if before is not None else Path(name).parent.as_posix()
        assert why == (f"changed since it was verified: {changed}" if name in READ else None), name
    verify.require_verified()
    (copy.root / "book/recorded.json").unlink()
    with pytest.raises(verify.NotVerifiedError, match=r"book/recorded\.json"):
        verify.require_verified()
    (copy.root / ".verified/01-small.json").unlink()
    with pytest.raises(verify.NotVerifiedError, match="has not been verified here"):
        verify.require_verified()


def test_a_fault_in_a_module_that_was_read_is_found_by_running_the_chapter_again(copy: Any) -> None:
    name = copy.write_chapter(ATTENTION)
    assert copy.verify().returncode == 0
    module = copy.root / SQRT[0]
    correct = module.read_text("utf-8")
    copy.plant(*SQRT)
    again = copy.verify()
    assert_fails(
        again, f"{name}: changed since it was verified: tfmr/attention.py", "Cell outputs differ"
    )
    module.write_text(correct, "utf-8")
    repaired = copy.verify()
    assert repaired.returncode == 0, repaired.stdout
    assert "1 chapters run" in repaired.stdout


def test_a_chapter_that_starts_another_program_may_have_read_every_file() -> None:
    started = ("python", ["python", "-c", "pass"], None, None)
    assert kernel.what_is_read("subprocess.Popen", started) == kernel.ANYTHING
    assert "tfmr/widgets/attention.js" in verify.matching(kernel.ANYTHING)
    assert "tfmr/attention.py" in verify.matching(kernel.ANYTHING)


def test_an_output_that_depends_on_the_kernels(copy: Any) -> None:
    copy.write_chapters(
        {
            "book/01-small.ipynb": ("import tfmr.errors",),
            "book/02-kernels.ipynb": ("import os\nprint(os.environ.get('ATEN_CPU_CAPABILITY'))",),
        }
    )
    assert copy.run("tools.plain").returncode == 2, "the chapters must be verified before"
    assert copy.verify().returncode == 0
    done = copy.run("tools.plain")
    assert done.returncode == 1
    assert about("book/01-small.ipynb", done.stdout) == "verified"
    assert "Cell outputs differ" in about("book/02-kernels.ipynb", done.stdout)

    (copy.root / "book/02-kernels.ipynb").unlink()
    assert "0 chapters run with plain kernels" in copy.run("tools.plain").stdout
    assert copy.run("tools.plain", "--all").returncode == 0
    copy.plant("tfmr/errors.py", "class TfmrError", "class  TfmrError")
    assert copy.run("tools.plain").returncode == 2
    assert copy.verify().returncode == 0
    assert "1 chapters run with plain kernels, 0 failed" in copy.run("tools.plain").stdout
