"""``exercises``: the list, the file of stubs, and the check of a file."""

import shutil
from pathlib import Path

import pytest

from tfmr.exercises import ch04, guard, sandbox
from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import LEVELS, Numbers

FILE = "exercises_04.py"


def solve(*numbers: int) -> None:
    """Append the solutions of exercises to the file of stubs."""
    with Path(FILE).open("a", encoding="utf-8") as file:
        for number in numbers:
            exercise = exercises_of(ch04)[number - 1]
            value = f"ch04.q{number}.answer"
            file.write(f"\nfrom tfmr.exercises import ch04\n{exercise.name} = {value}\n")


def test_a_chapter_is_started_solved_and_checked(
    command, capsys: pytest.CaptureFixture[str]
) -> None:
    exercises = exercises_of(ch04)
    out, _ = command("exercises", "start", "04")
    assert f"exercises check {FILE}" in out
    assert all(each.stub in Path(FILE).read_text("utf-8") for each in exercises)

    with pytest.raises(SystemExit) as stop:
        command("exercises", "check", FILE)
    assert stop.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:3] for line in lines] == [each.label for each in exercises]
    assert all("Not attempted" in line for line in lines)

    solve(2)
    lines = [line for line in command("exercises")[0].splitlines() if line.startswith("4.")]
    rows = [line.split(maxsplit=3) for line in lines]
    for row, each in zip(rows, exercises, strict=True):
        mark = "done" if each.number == 2 else "-"
        assert row == [each.label, mark, LEVELS[each.level], each.title]

    solve(*range(1, len(exercises) + 1))
    out, _ = command("exercises", "check", FILE)
    assert all("Right" in line for line in out.splitlines())


def test_without_a_file_nothing_is_done(command) -> None:
    out, _ = command("exercises")
    every = [each for number in chapter_numbers() for each in exercises_of(find_chapter(number))]
    assert [line.split()[:2] for line in out.splitlines()] == [[each.label, "-"] for each in every]


def test_a_wrong_answer_is_named_with_its_advice(
    command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(ch04.q1, Numbers)
    mistake = ch04.q1.mistakes[0]
    wrong = ch04.q1.build(frozenset({mistake.name}))
    Path(FILE).write_text(f'CHAPTER = "04"\nanother_query = {wrong}\n', "utf-8")
    with pytest.raises(SystemExit):
        command("exercises", "check", FILE)
    first, advice, *others = capsys.readouterr().out.splitlines()
    assert first == f"4.1  This is the mistake: {mistake.name}."
    assert advice == f"     {mistake.advice}"
    assert all("Not attempted" in line for line in others)


def test_an_error_is_shown_with_its_case(command, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'CHAPTER = "04"\ndef attention(q, k, v):\n    raise ValueError\n'
    Path(FILE).write_text(text, "utf-8")
    with pytest.raises(SystemExit):
        command("exercises", "check", FILE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "4.2  Your code raised an error at line 3: raise ValueError",
        "     ValueError",
        "     The case: one query and two keys with d_k = 1.",
        "     q = [[1.]]  # shape (1, 1)",
    ]


def test_a_file_of_answers_is_not_overwritten(command, rejected) -> None:
    Path(FILE).write_text("mine", "utf-8")
    assert "already exists" in rejected("exercises", "start", "4")
    assert Path(FILE).read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", ["CHAPTER", "start"]),
        ('CHAPTER = "99"\n', ["99", "04"]),
        ("x = (\n", ["line 1", "Python"]),
        ("import math\nmath.nothing\n", ["AttributeError", "line 2: math.nothing"]),
        ("while True:\n    pass\n", ["0.2 seconds", "line 1"]),
        ("raise SystemExit\n", ["SystemExit"]),
    ],
)
def test_a_file_that_cannot_be_checked(
    rejected, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str]
) -> None:
    monkeypatch.setattr(guard, "SECONDS", 0.2)
    Path(FILE).write_text(text, "utf-8")
    line = rejected("exercises", "check", FILE)
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["start"], ["chapter", "04"]),
        (["start", "99"], ["'99'", "04"]),
        (["check"], ["file", FILE]),
        (["check", "absent.py"], ["absent.py"]),
        (["list", "04"], ["'04'"]),
    ],
)
def test_invalid_arguments(rejected, arguments: list[str], words: list[str]) -> None:
    line = rejected("exercises", *arguments)
    assert all(word in line for word in words)


def test_a_folder_of_submissions_is_marked(command, capsys: pytest.CaptureFixture[str]) -> None:
    Path("homework").mkdir()
    Path("homework/ada.py").write_text('CHAPTER = "04"\nanother_query = [0.663, 2.229]\n', "utf-8")
    out, _ = command("exercises", "mark", "homework", "--unsandboxed")
    assert out.splitlines()[0] == "ada: 1 of 6 right"
    assert "homework-marks: marks.csv, class.html and" in out
    files = [path.name for path in sorted(Path("homework-marks").rglob("*.*"))]
    assert files == ["class.html", "ada.html", "marks.csv"]

    shutil.rmtree("homework-marks")
    Path("homework/bob.pdf").touch()
    with pytest.raises(SystemExit) as stop:
        command("exercises", "mark", "homework", "--unsandboxed")
    assert stop.value.code == 1
    ada, bob, _ = capsys.readouterr().out.splitlines()
    assert ada == "ada: 1 of 6 right"
    assert bob == "bob: not marked; expected a notebook or a Python file, got bob.pdf"


def test_submissions_are_not_run_without_a_sandbox(
    rejected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_sandbox", lambda: None)
    Path("homework").mkdir()
    Path("homework/ada.py").write_text("open('run', 'w')\n", "utf-8")
    line = rejected("exercises", "mark", "homework")
    assert all(word in line for word in ("bubblewrap", "--unsandboxed"))
    assert [path.name for path in Path().iterdir()] == ["homework"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["folder", "homework"]),
        (["absent"], ["absent", "cannot read"]),
        (["empty"], ["empty folder", "ada.ipynb"]),
        (["full"], ["full-marks already exists"]),
        (["full", "--seconds", "0"], ["positive", "0"]),
    ],
)
def test_a_folder_that_cannot_be_marked(rejected, arguments: list[str], words: list[str]) -> None:
    for folder in ("empty", "full", "full-marks"):
        Path(folder).mkdir()
    Path("full/ada.py").touch()
    line = rejected("exercises", "mark", *arguments)
    assert all(word in line for word in words)
