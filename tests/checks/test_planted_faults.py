"""Planted faults make the checks fail, with the expected message."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output
from safetensors.torch import save_file

from tests.checks.conftest import Copy, cells_of, printing
from tools import kernel, notebooks, plain, verify


def assert_fails(done: CompletedProcess[str], *messages: str) -> None:
    """The chapters were executed, a comparison failed, and the output has the messages."""
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "FAILED" in output
    assert "No module named" not in output
    assert "NOT all passed" in output
    for message in messages:
        assert message in output


def verdict(name: str, output: str) -> str:
    """What the verification prints about a chapter at the end."""
    [found] = re.findall(rf"^ +{name} +[\d.]+ s  (.*)$", output, re.M)
    return str(found)


def failures(name: str, output: str) -> dict[int, str]:
    """What the verification prints about each code cell that failed, by its number."""
    found = re.findall(rf"^_+ {name}::Cell (\d+) _+\n(.*?)(?=^_+ book|^=)", output, re.M | re.S)
    return {int(number): text for number, text in found}


approximation = "from tfmr.notebook import approximate as a\nprint('loss', a({}, 0.31, 0.02))"
FAULTS = {
    "a changed number": (
        printing("print(f'{0.1 + 0.2:.3f}')", "0.300\n"),
        printing("print(f'{0.1 + 0.2:.3f}')", "0.301\n"),
        "Cell outputs differ",
    ),
    "a missing output": (
        printing("print('kept')", "kept\n"),
        printing("print('gone')"),
        "Unexpected output fields",
    ),
    "a cell that raises": (printing("x = 0.1 + 0.2"), printing("1 / 0"), "ZeroDivisionError"),
    "a failing assert": (
        printing("assert 0.1 + 0.2 > 0.3"),
        printing("assert 0.1 + 0.2 < 0.3"),
        "Unexpected output fields",
    ),
    "a cell that warns": (
        printing("import warnings\nprint('fine')", "fine\n"),
        printing("import warnings\nprint('fine')\nwarnings.warn('old')", "fine\n"),
        "stderr",
    ),
    "a number outside its tolerance": (
        printing(approximation.format(0.31), "loss ≈ 0.32\n"),
        printing(approximation.format(0.34), "loss ≈ 0.34\n"),
        "stderr",
    ),
    "a changed word beside an approximate number": (
        printing(approximation.format(0.30), "loss ≈ 0.31\n"),
        printing(approximation.format(0.30), "cost ≈ 0.30\n"),
        "Cell outputs differ",
    ),
}
"""A correct cell, a faulty one, and what the verification prints about it."""
MALFORMED = (
    (
        new_code_cell("1", outputs=[new_output("stream", name="stderr", text="old")]),
        "code cell 2 writes to stderr",
    ),
    (new_code_cell("# NBVAL_IGNORE_OUTPUT\n2"), "every output is checked"),
    (new_code_cell("print('≈ 0.4')"), "its digits are not checked: use notebook.approximate"),
)


def test_each_fault_fails_its_cell_only(copy: Copy) -> None:
    sound, faulty, malformed, other, varying = (f"book/0{n}-x.ipynb" for n in range(1, 6))
    copy.write(sound, *(cell for cell, _, _ in FAULTS.values()))
    copy.write(faulty, *(cell for pair in FAULTS.values() for cell in pair[:2]))
    copy.write(malformed, *(cell for cell, _ in MALFORMED))
    copy.write(other, printing("1"))
    copy.plant(other, '"execution_count": 2', '"execution_count": 7')
    kernels = "import os; print(os.environ.get('ATEN_CPU_CAPABILITY'))"
    copy.write(varying, printing(kernels, "None\n"))
    done = copy.run("tools.verify")
    assert_fails(done)
    assert verdict(sound, done.stdout) == verdict(varying, done.stdout) == "verified"
    assert not re.search(rf"{sound} +0\.0 s", done.stdout), "the time of a kernel is measured"
    assert verdict(faulty, done.stdout) == "FAILED  outputs differ from the stored ones (see above)"
    for _, message in MALFORMED:
        assert message in verdict(malformed, done.stdout)
    assert verdict(other, done.stdout).startswith(
        "FAILED  not in normal form; run: python -m tools.notebooks normalise"
    )
    assert copy.stamped() == ["01-x", "05-x"]
    found = failures(faulty, done.stdout)
    assert list(found) == [2 * number for number in range(1, 1 + len(FAULTS))]
    for key, text in zip(FAULTS, found.values(), strict=True):
        assert FAULTS[key][2] in text, key

    for name in (faulty, malformed, other):
        (copy.root / name).unlink()
    done = copy.run("tools.plain")
    assert done.returncode == 1
    assert verdict(sound, done.stdout) == "verified"
    [text] = failures(varying, done.stdout).values()
    assert "Cell outputs differ" in text
    assert "2 chapters run with plain kernels, 1 failed" in done.stdout


def check_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks in this process apply to the project in ``root``."""
    monkeypatch.setattr(verify, "ROOT", root)
    monkeypatch.setattr(notebooks, "ROOT", root)
    monkeypatch.setattr(verify, "STAMPS", root / ".verified")
    monkeypatch.setattr(plain, "RECORD", root / "plain.json")


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> verify.Outcome:
    """The outcome of each run of the only chapter in ``tmp_path``, which reads one file."""
    check_here(tmp_path, monkeypatch)
    for name, value in plain.SETTINGS.items():
        monkeypatch.setenv(name, value)  # restored at the end
    (tmp_path / "book").mkdir()
    chapter = new_notebook(cells=[printing("1")])
    (tmp_path / "book/01-x.ipynb").write_text(notebooks.normal_form(chapter), "utf-8")
    (tmp_path / "book/read.json").write_text("{}")
    made = verify.Outcome(passed=True, read={"book/read.json"})
    monkeypatch.setattr(verify, "compare", lambda paths: dict.fromkeys(paths, made))
    return made


def test_a_chapter_is_stamped_if_it_passes_with_the_usual_settings(
    outcome: verify.Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp = tmp_path / ".verified/01-x.json"
    assert verify.main(["--no-stamp"]) == 0
    assert not stamp.exists()
    capsys.readouterr()
    assert verify.main([]) == 0
    assert "1 chapters run" in capsys.readouterr().out
    outcome.passed = False
    assert verify.main([]) == 0
    assert "0 chapters run in 0 s, 1 verified before" in capsys.readouterr().out
    assert verify.main(["--all", "--no-stamp"]) == 1
    assert stamp.exists(), "a run with other settings is not recorded"
    assert verify.main(["--all"]) == 1
    assert not stamp.exists(), "a failed chapter is not verified"


def test_a_chapter_runs_with_plain_kernels_until_it_has_passed(
    outcome: verify.Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain.main([]) == 2, "the chapter must be verified before"
    assert verify.main([]) == 0
    outcome.passed = False
    assert plain.main([]) == 1
    outcome.passed = True
    for arguments, number in (([], 1), ([], 0), (["--all"], 1)):
        assert plain.main(arguments) == 0
        assert f"{number} chapters run with plain kernels, 0 failed" in capsys.readouterr().out
    (tmp_path / "book/read.json").write_text("[]")
    assert plain.main([]) == 2
    assert verify.main([]) == 0
    assert plain.main([]) == 0
    assert "1 chapters run with plain kernels, 0 failed" in capsys.readouterr().out


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


SQRT = ("tfmr/attention.py", " / math.sqrt(q.shape[-1])", "")
CAUSAL = ("tfmr/attention.py", "tril(diagonal=key - query)", "tril(diagonal=key - query + 1)")
BASE = ("tfmr/position.py", "base: float = 10000.0", "base: float = 1000.0")
MASK = ("tfmr/widgets/transformer.js", "j <= key - query + i", "j <= key - query + i + 1")
TRANSLATOR = "tests/widgets/test_transformer_js.py"
SCALE = ("tfmr/widgets/attention.js", "product / Math.sqrt(q[i].length)", "product")
BENCH = "tests/pages/test_attention_figure.py"


@pytest.mark.parametrize(
    ("faults", "needed"),
    [
        (
            {
                "tests/test_attention.py::test_attention_by_hand": SQRT,
                "tests/test_attention.py::test_a_causal_mask_shows_each_query_its_prefix": CAUSAL,
                "tests/test_position.py::test_sinusoidal_table_by_hand": BASE,
            },
            (),
        ),
        (
            {
                f"{TRANSLATOR}::test_encoder_output_and_logits_are_equal[pocket-en-ko]": MASK,
                f"{BENCH}::test_numbers_are_those_of_the_package[False-True]": SCALE,
            },
            (
                *("tests/widgets/engine.mjs", "tests/widgets/page_engine.py"),
                *("tests/pages/conftest.py", "tests/pages/live.py", "book/_assets"),
            ),
        ),
    ],
    ids=["package", "page"],
)
def test_each_fault_fails_its_unit_test(
    copy: Copy, faults: dict[str, tuple[str, str, str]], needed: tuple[str, ...]
) -> None:
    """Every test is one that only its own fault can fail."""
    for name in needed:
        copy.add(name)
    for fault in faults.values():
        copy.plant(*fault)
    done = copy.unit_tests(list(faults))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"^FAILED (\S+)", done.stdout, re.M) == list(faults)
    assert done.stdout.count("AssertionError") >= len(faults)
    assert "No module named" not in done.stdout


READING = """
import os
from safetensors.torch import load_file
from tfmr.encoder import Encoder
from tfmr.widgets import MasksFigure
open("made.txt", "w").close()
print(len(load_file("recorded.safetensors")), open("recorded.json").read(), os.listdir("listed"))
"""
BOOK = (
    printing(
        "import torch\n\ntorch.set_printoptions(precision=3, sci_mode=False)\n\n\n"
        "def largest_difference(a, b):\n    return float((a - b).abs().max())"
    ),
    *cells_of("06-*.ipynb", "vectors = {", "by_hand = ", "from_hand = "),
    *cells_of(
        "04-*.ipynb", "words = [", "Q, K, V = X", "q_I = [", "z_I = [", "scaled = S", "A_other ="
    ),
    *cells_of("04-*.ipynb", "mask_panels(labels", "lower = "),
)
"""What chapters 4 and 6 need to compute attention, a mask and positions by hand and by `tfmr`."""
FOUND = {"from_hand = ": BASE, "A_other =": SQRT, "lower = ": CAUSAL}
"""The cell that only this fault can fail, by a part of it."""
READ = (
    "tfmr/encoder.py",
    "tfmr/attention.py",  # imported by a module that the chapter imports
    "tfmr/__init__.py",
    "tfmr/widgets/masks.css",
    "book/01-x.ipynb",
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


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy with a verified chapter that imports modules, reads two files and lists a folder."""
    made = Copy(tmp_path_factory.mktemp("verified"))
    (made.root / "book/listed").mkdir(parents=True)
    (made.root / "book/recorded.json").write_text("{}")
    save_file({"one": torch.zeros(1)}, made.root / "book/recorded.safetensors")
    made.write("book/01-x.ipynb", *BOOK, printing(READING, "1 {} []\n"))
    done = made.run("tools.verify")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@contextmanager
def changed(path: Path) -> Iterator[bool]:
    """Change a file, or make it; whether it was there."""
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((before or b"") + b"\n")
    yield before is not None
    path.unlink() if before is None else path.write_bytes(before)


def test_a_chapter_is_run_again_if_something_that_it_read_changed(
    verified: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_here(verified.root, monkeypatch)
    for name in (*READ, *NOT_READ):
        with changed(verified.root / name) as existed:
            why = verify.why_not_verified(verified.root / "book/01-x.ipynb")
        reason = name if existed else Path(name).parent.as_posix()
        assert why == (f"changed since it was verified: {reason}" if name in READ else None), name
    verify.require_verified()
    with (
        changed(verified.root / "book/recorded.json"),
        pytest.raises(verify.NotVerifiedError, match=r"book/recorded\.json"),
    ):
        verify.require_verified()
    monkeypatch.setattr(verify, "STAMPS", verified.root / ".none")
    with pytest.raises(verify.NotVerifiedError, match="has not been verified here"):
        verify.require_verified()


def test_each_fault_in_a_module_that_was_read_is_found_by_running_the_chapter_again(
    verified: Copy,
) -> None:
    modules = {name for name, _, _ in FOUND.values()}
    for fault in FOUND.values():
        verified.plant(*fault)
    done = verified.run("tools.verify")
    assert_fails(
        done, f"book/01-x.ipynb: changed since it was verified: {', '.join(sorted(modules))}"
    )
    found = failures("book/01-x.ipynb", done.stdout)
    for part in FOUND:
        [number] = (n for n, cell in enumerate(BOOK, start=1) if part in cell.source)
        assert "Unexpected output fields" in found[number], part
        assert "stderr" in found[number], part
    assert verified.stamped() == []


def test_the_list_of_fonts_which_every_copy_makes_is_not_read() -> None:
    """It contains the path of the copy, so no record of a chapter would hold in another copy."""
    assert kernel.project_file(str(notebooks.matplotlib_folder() / "fontlist.json")) is None
    assert kernel.project_file(str(notebooks.ROOT / "tfmr/model.py")) == "tfmr/model.py"


def test_a_chapter_that_starts_another_program_may_have_read_every_file() -> None:
    started = ("python", ["python", "-c", "pass"], None, None)
    assert kernel.what_is_read("subprocess.Popen", started) == kernel.ANYTHING
    assert "tfmr/widgets/attention.js" in verify.matching(kernel.ANYTHING)
    assert "tfmr/attention.py" in verify.matching(kernel.ANYTHING)
