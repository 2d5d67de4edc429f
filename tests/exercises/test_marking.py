"""Marking: which submissions are found, what is run of them, and what is reported."""

import csv
import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from tfmr.errors import TfmrError
from tfmr.exercises import ch04, guard, marking
from tfmr.exercises.exercise import Exercise, WriteTest
from tfmr.exercises.guard import Failure
from tfmr.exercises.marking import (
    LARGEST,
    Mark,
    Marked,
    class_page,
    mark,
    student_page,
    submissions,
    table,
    write,
)
from tfmr.exercises.verdict import Verdict

RIGHT = "another_query = [0.663, 2.229]\n"
HEADER = 'CHAPTER = "04"\n'


@pytest.fixture(autouse=True)
def limit_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """:func:`mark` changes the time limit of its process, which other tests share."""
    monkeypatch.setattr(guard, "SECONDS", guard.SECONDS)


def marked(path: Path) -> Marked:
    """Marked without a sandbox; the answers are numbers, so PyTorch is not imported."""
    return mark("ada", path, (), 60.0)


def kinds(found: Marked) -> list[str]:
    return [each.verdict.kind for each in found.marks]


def test_a_student_hands_in_a_file_or_a_folder(tmp_path: Path) -> None:
    for name in ("ada.py", "bob.ipynb", "ada.ipynb", ".hidden", "evil\x1b[2J.py", f"{'x' * 99}.py"):
        (tmp_path / name).touch()
    (tmp_path / "Cy v. 2").mkdir()
    found = submissions(tmp_path)
    names = {"ada": "ada.ipynb", "ada.py": "ada.py", "bob": "bob.ipynb", "Cy v. 2": "Cy v. 2"}
    assert {name: path.name for name, path in found.items()} == names | {
        "evil?[2J": "evil\x1b[2J.py",
        "x" * 80: f"{'x' * 99}.py",
    }


def test_every_student_gets_a_page(tmp_path: Path) -> None:
    for name in ("a.py", "a.ipynb", "a.py.py", f"{'x' * 80}1.py", f"{'x' * 80}2.py"):
        (tmp_path / name).touch()
    assert sorted(map(str, submissions(tmp_path).values())) == sorted(map(str, tmp_path.iterdir()))


def test_a_folder_without_submissions(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match="empty folder"):
        submissions(tmp_path)
    with pytest.raises(TfmrError, match="cannot read"):
        submissions(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("ada.pdf", b"%PDF", "expected a notebook or a Python file, got ada.pdf"),
        ("ada.py", b"x = 1\n", "contains no exercise"),
        ("ada.py", b"", "contains no exercise"),
        ("ada.py", b'CHAPTER = "99"\n', "got '99'"),
        ("ada.py", b"\xff\xfe", "not a text file"),
        ("ada.py", b"x" * (LARGEST + 1), "larger than 20 MB"),
        ("ada/notes.txt", b"", "got 0 of them"),
    ],
)
def test_a_submission_that_cannot_be_marked(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    found = marked(tmp_path / Path(name).parts[0])
    assert problem in found.problem
    assert found.marks == []
    assert str(found) == f"ada: not marked; {found.problem}"
    assert found.problem in student_page(found).replace("&#x27;", "'").replace("&quot;", '"')


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}'])
def test_a_file_that_is_no_notebook(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ada.ipynb"
    path.write_text(f"{text}\n\n\n" if text else '"from tfmr.exercises import ch04"', "utf-8")
    if text:
        path.write_text(text.replace("[", "[ ") + " " * 9, "utf-8")
        assert "contains no exercise" in marked(path).problem
        path.write_text(json.dumps([text, "from tfmr.exercises import ch04"]), "utf-8")
    found = marked(path)
    assert "it is not a notebook" in found.problem
    start = "Not checked: your submission could not be run; it is not a notebook"
    assert found.marks[0].verdict.headline.startswith(start)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text(HEADER + RIGHT, "utf-8")
    (tmp_path / "folder").mkdir()
    for link in (tmp_path / "ada.py", tmp_path / "folder" / "ada.py"):
        link.symlink_to(tmp_path / "secret.py")
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    for path in ("ada.py", "folder", "linked"):
        assert "expected a notebook or a Python file" in marked(tmp_path / path).problem


def test_a_folder_with_one_file_is_marked(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(HEADER + RIGHT, "utf-8")
    (tmp_path / "notes.txt").touch()
    assert kinds(marked(tmp_path)) == ["right"] + ["not attempted"] * 5
    (tmp_path / "answers.ipynb").touch()
    assert "got 2 of them" in marked(tmp_path).problem


def notebook(path: Path, *sources: str) -> Path:
    cells = [new_code_cell(source) for source in ("from tfmr.exercises import ch04", *sources)]
    path.write_text(writes(new_notebook(cells=[new_markdown_cell("# 4"), *cells])), "utf-8")
    return path


def test_only_what_the_answers_need_is_run_of_a_notebook(tmp_path: Path) -> None:
    path = notebook(
        tmp_path / "ada.ipynb",
        "%load_ext tfmr.notebook\nimport math as m, os",
        "1 / 0\nunused = 1 / 0",
        "factor = 1\nfactor *= m.floor(1.5)\nclass Numbers:\n    values = [0.663, 2.229]",
        "this is not Python",
        "ids = each = unused = 1 / 0",
        "def helper(ids):\n    unused = ids\n    return [factor * each for each in Numbers.values]",
        "!ls\nanother_query = helper(1)\nch04.q1.check(another_query)",
    )
    found = marked(path)
    assert (found.right, found.problem) == (1, "")


def test_an_error_in_one_cell_of_a_notebook_does_not_affect_the_others(tmp_path: Path) -> None:
    path = notebook(
        tmp_path / "ada.ipynb",
        RIGHT,
        "width = 2\nattention = width + missing",
        "def masked_attention(:",
    )
    found = marked(path)
    assert kinds(found) == ["right", "raised", "not attempted", "raised"] + ["not attempted"] * 2
    assert found.problem.startswith("it raised NameError")
    assert found.marks[1].verdict.details == "NameError: name 'missing' is not defined"
    assert found.marks[3].verdict.headline == "Your code raised an error at line 1"
    assert found.marks[3].verdict.details.startswith("SyntaxError")


def test_answers_before_an_error_in_a_file_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    path.write_text(f"{HEADER}from tfmr.exercises import ch04\n{RIGHT}1 / 0\n", "utf-8")
    found = marked(path)
    assert found.right == 1
    assert found.problem == "it raised ZeroDivisionError: division by zero at line 4: 1 / 0"
    path.write_text(f"{HEADER}{RIGHT}attention = (\n", "utf-8")
    assert kinds(marked(path))[:3] == ["raised", "raised", "not attempted"]


def test_after_an_exit_the_other_answers_are_checked_in_a_new_process(tmp_path: Path) -> None:
    path = tmp_path / "ada.py"
    code = "def attention(q, k, v):\n    import os\n    os._exit(0)\ndecoder_mask = lambda ids: 3\n"
    path.write_text(HEADER + RIGHT + code, "utf-8")
    found = marked(path)
    assert kinds(found)[:3] == ["right", "raised", "wrong"]
    assert found.problem.startswith("exercise 4.2 was stopped: its process ended")


def test_a_test_that_counts_its_calls_is_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards:
        def shuffle(self, subjects: list) -> None:
            subjects.reverse()

    calls = []

    def counting(attend):
        calls.append(attend)
        return None if len(calls) <= 3 else Failure(AssertionError(), "")

    exercise: Exercise = ch04.q6
    assert isinstance(exercise, WriteTest)
    assert exercise.check(counting).kind == "right"
    calls.clear()
    monkeypatch.setattr(marking.secrets, "SystemRandom", Backwards)
    assert exercise.check(marking._in_any_order(exercise, counting)).kind == "wrong"

    def honest(attend):
        return guard.call(exercise.answer, (attend,)).result

    assert exercise.check(marking._in_any_order(exercise, honest)).kind == "right"


def test_the_order_of_correct_and_faulty_functions_is_random() -> None:
    orders = set()
    assert isinstance(ch04.q6, WriteTest)
    for _ in range(9):
        order: list = []
        marking._in_any_order(ch04.q6, order.append)
        orders.add(tuple(order))
    assert len(orders) > 1


SCALED = Verdict("mistake", "This is the mistake: the scores are not divided.", "Divide <them>.")
CLASS = [
    Marked("ada", [Mark("4.1", "Query", Verdict("right", "Right.")), Mark("4.2", "Few", SCALED)]),
    Marked("bob", [Mark("4.1", "Query", Verdict("right, but", "Right, but: x."))]),
    Marked("cy", [Mark("4.1", "Query", Verdict("wrong", "Wrong.")), Mark("4.2", "Few", SCALED)]),
    Marked("=1+1", [Mark("4.2", "Few", Verdict("raised", "<b>")), Mark("10.1", "In", SCALED)]),
    Marked("dee", problem="it is <large>"),
]
STUDENTS = {each.student: Path(f"{each.student}.py") for each in CLASS}


def test_the_table_of_marks() -> None:
    head, *rows = table(STUDENTS, CLASS)
    assert head == ["student", "file", "right", "exercises", "4.1", "4.2", "10.1", "problem"]
    assert rows[0] == ["ada", "ada.py", "1", "2", "right", "mistake", "", ""]
    assert rows[3] == ["'=1+1", "'=1+1.py", "0", "2", "", "raised", "mistake", ""]
    assert rows[4] == ["dee", "dee.py", "0", "0", "", "", "", "it is <large>"]


def test_the_page_for_the_class_counts_mistakes() -> None:
    page = class_page(CLASS)
    assert "<h2>4.1 Query: 2 of 3 right</h2>" in page
    assert "<tr><td>1 of 3</td><td>another wrong answer</td></tr>" in page
    assert "<h2>4.2 Few: 0 of 3 right</h2>" in page
    assert "<tr><td>2 of 3</td><td>the scores are not divided</td></tr>" in page
    assert "<tr><td>dee</td><td>it is &lt;large&gt;</td></tr>" in page
    assert page.index("4.2 Few") < page.index("10.1 In")


def test_the_page_for_a_student() -> None:
    page = student_page(CLASS[0])
    assert "<title>Feedback for ada</title>" in page
    assert "Right answers: 1 of 2." in page
    assert "<h2>4.2 Few</h2>" in page
    assert SCALED.headline in page
    assert "<pre>Divide &lt;them&gt;.</pre>" in page
    assert page.count('class="solved"') == 1
    assert "<b>" not in student_page(CLASS[3])


def test_everything_is_written_once(tmp_path: Path) -> None:
    target = tmp_path / "class-marks"
    write(target, STUDENTS, CLASS)
    with (target / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == table(STUDENTS, CLASS)
    assert (target / "class.html").read_text("utf-8") == class_page(CLASS)
    for each in CLASS:
        page = target / "feedback" / f"{each.student}.html"
        assert page.read_text("utf-8") == student_page(each)
    with pytest.raises(TfmrError, match="cannot write"):
        write(target, STUDENTS, CLASS)
