"""Submissions in a process of their own: the same verdicts, and attacks that have no effect."""

import importlib
import os
import socket
from html import escape, unescape
from pathlib import Path

import pytest

from tests.exercises.hostile import ENDLESS, HOSTILE, RAISING
from tfmr.exercises import guard, marking, sandbox
from tfmr.exercises.chapters import exercises_of, find_chapter
from tfmr.exercises.marking import Marked, mark_all, student_page, submissions
from tfmr.exercises.sandbox import Submission, find_sandbox

SANDBOX = find_sandbox()
needs_sandbox = pytest.mark.skipif(SANDBOX is None, reason="needs bubblewrap or user namespaces")

CHAPTERS = ("04", "10", "12")
"""Their answers return tensors, arrays, lists and modules, and call functions of the probes."""
ANSWERS = """\
import importlib, sys
del sys.modules["tfmr.exercises"]  # the answers are made from the solutions
def answer(number, kind, key, at):
    module = importlib.import_module(f"tests.exercises.answers_{number}")
    value = getattr(module, kind)[key][at]
    return value if kind == "RIGHT" else value[0]
"""

ATTEMPTS = """\
outcomes = []
for name, code in {}:
    try:
        exec(code, {{}})
        outcomes.append(name + ": nothing was raised")
    except Exception as error:
        outcomes.append(f"{{name}}: {{type(error).__name__}}, {{error}}"[:75])
raise RuntimeError(" | ".join(outcomes))
"""
"""Attacks one after another; the outcomes of six fit into the message that is reported."""


def test_answers_get_the_same_verdict_as_in_the_process_of_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "SECONDS", 600.0)
    code, answers = [ANSWERS], []
    for chapter in CHAPTERS:
        module = importlib.import_module(f"tests.exercises.answers_{chapter}")
        for exercise in exercises_of(find_chapter(chapter)):
            key = f"q{exercise.number}"
            for kind in ("RIGHT", "REMARKS", "WRONG"):
                for at, answer in enumerate(getattr(module, kind).get(key, [])):
                    name = f"{kind}_{chapter}_{key}_{at}"
                    code.append(f"{name} = answer({chapter!r}, {kind!r}, {key!r}, {at})")
                    answers.append((exercise, name, answer if kind == "RIGHT" else answer[0]))
    assert len(answers) > 120
    # Without a sandbox, because the answers are made from the solutions.
    with Submission((), 600.0) as submission:
        names = [name for _, name, _ in answers]
        found, error = submission.define("\n".join(code), False, names)
        assert error is None
        for exercise, name, answer in answers:
            verdict = marking._verdict(exercise, found[name])
            expected = exercise.check(answer)
            assert (verdict.kind, verdict.details) == (expected.kind, expected.details), name
            assert verdict.headline == expected.headline, name


def attacked(tmp_path: Path, attacks: dict[str, tuple[str, str]], seconds: float) -> list[Marked]:
    """Mark attacks, with a right and an empty submission before and after them."""
    folder = tmp_path / "class"
    folder.mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret", "utf-8")
    listener = socket.create_server(("127.0.0.1", 0))
    names = {
        "SECRET": str(secret),
        "FOLDER": str(tmp_path),
        "EXERCISES": str(sandbox.EXERCISES),
        "PID": str(os.getpid()),
        "PORT": str(listener.getsockname()[1]),
    }
    for name, (code, _) in attacks.items():
        for word, value in names.items():
            code = code.replace(word, value)
        (folder / f"{name}.py").write_text(f'CHAPTER = "04"\n{code}', "utf-8")
    honest = 'CHAPTER = "04"\nanother_query = [0.663, 2.229]\n'
    for student in ("ada", "zoe"):
        (folder / f"{student}.py").write_text(honest, "utf-8")

    before = snapshot(tmp_path), snapshot(sandbox.PACKAGE)
    students = submissions(folder)
    assert SANDBOX is not None
    marked = list(mark_all(students, SANDBOX, seconds))
    assert (snapshot(tmp_path), snapshot(sandbox.PACKAGE)) == before
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):  # nobody connected
        listener.accept()
    listener.close()
    assert [each.student for each in marked] == list(students)
    return marked


def snapshot(folder: Path) -> list[tuple[object, ...]]:
    """The name, size, mode and time of change of each file."""
    paths = (each for each in sorted(folder.rglob("*")) if "__pycache__" not in each.parts)
    stats = [(path, path.stat()) for path in paths]
    return [(str(path), s.st_size, s.st_mode, s.st_mtime_ns) for path, s in stats]


def check_reports(marked: list[Marked], attacks: dict[str, tuple[str, str]]) -> None:
    """Each attack is reported, none is right, and the honest submissions are marked."""
    found = {each.student: each for each in marked}
    for name, (_, reported) in attacks.items():
        assert escape(reported) in student_page(found[name]), found[name]
        assert found[name].right == 0, found[name]
    for student in ("ada", "zoe"):
        assert (found[student].right, found[student].problem) == (1, "")


def test_a_sandbox_shows_the_package_without_its_exercises() -> None:
    package, exercises = str(sandbox.PACKAGE.resolve()), str(sandbox.EXERCISES.resolve())
    bubblewrap, unshare = list(sandbox.by_bubblewrap()), " ".join(sandbox.by_unshare())
    assert any(package == each or package.startswith(f"{each}/") for each in sandbox.visible())
    assert bubblewrap.index(exercises) > bubblewrap.index("--ro-bind")
    assert bubblewrap[bubblewrap.index(exercises) - 1] == "--tmpfs"
    assert unshare.index(f"tmpfs /sys{exercises}") > unshare.index("mount --bind")
    for home in (Path.home(), sandbox.PACKAGE.parent, Path("/tmp")):
        assert str(home) not in sandbox.visible()


@needs_sandbox
def test_attacks_change_nothing_and_are_reported(tmp_path: Path) -> None:
    assert len(RAISING) + len(HOSTILE) + len(ENDLESS) > 40
    attempts = [(name, code) for name, (code, _) in RAISING.items()]
    together = {
        f"attempts {first}": (ATTEMPTS.format(attempts[first : first + 6]), "RuntimeError")
        for first in range(0, len(attempts), 6)
    }
    marked = attacked(tmp_path, together | HOSTILE, 30.0)
    check_reports(marked, together | HOSTILE)
    pages = " | ".join(unescape(student_page(each)) for each in marked if each.student in together)
    for name, (_, reported) in RAISING.items():
        assert reported in pages.partition(f"{name}: ")[2].partition(" | ")[0], (name, pages)


@needs_sandbox
def test_submissions_that_do_not_end_are_ended(tmp_path: Path) -> None:
    check_reports(attacked(tmp_path, ENDLESS, 1.0), ENDLESS)
