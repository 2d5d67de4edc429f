"""Handouts: chapters without solutions for students, and with known mistakes for the teacher."""

import html
import re
import zipfile
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import Diagnosed, Function
from tools import handouts, notebooks
from tools.handouts import (
    HandoutError,
    hand_out,
    is_stub,
    known,
    prove,
    resolved,
    without_solutions,
)
from tools.standalone import EXERCISE, LINK, anchors

CHAPTERS = [
    path for path in notebooks.chapters() if "### Exercise " in path.read_text(encoding="utf-8")
]
every_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
[FOUR] = [path for path in CHAPTERS if path.stem.startswith("04")]


@every_chapter
def test_a_student_gets_stubs_but_no_solutions(path: Path) -> None:
    chapter = notebooks.read(path)
    student = without_solutions(chapter)
    sources = [cell.source for cell in student.cells]
    exercises = [number for source in sources for number in EXERCISE.findall(source)]
    assert sum(map(is_stub, student.cells)) == len(exercises) > 0
    assert not any(re.search(r"Solution of exercise|\.q\d\.answer", each) for each in sources)
    removed = [cell.source for cell in chapter.cells if cell.source not in sources]
    assert len(removed) >= 2 * len(exercises)
    first = next(i for i, source in enumerate(sources) if source.startswith("### Exercise "))
    assert sources[:first] == [cell.source for cell in chapter.cells[:first]]
    for section in ("## Summary", "## References"):
        kept = [cell.source for cell in chapter.cells if cell.source.startswith(section)]
        assert [source for source in sources if source.startswith(section)] == kept


@pytest.mark.parametrize("number", chapter_numbers())
def test_a_student_gets_the_stub_of_each_exercise_that_is_checked(number: str) -> None:
    [path] = [path for path in CHAPTERS if path.stem.startswith(number)]
    sources = [cell.source for cell in without_solutions(notebooks.read(path)).cells]
    for exercise in exercises_of(find_chapter(number)):
        assert sum(source.startswith(exercise.stub) for source in sources) == 1
        if isinstance(exercise, Function):
            assert not any(exercise.solution().code in source for source in sources)


def student(*sources: str) -> NotebookNode:
    return new_notebook(cells=[new_code_cell(source) for source in sources])


CHECK = "from tfmr.exercises import ch04\nch04.q1.check({})"


def test_a_notebook_runs_up_to_its_first_stub() -> None:
    prove(student("x = None", CHECK.format("x"), "raise ValueError"))
    with pytest.raises(HandoutError, match="before the first stub fails: NameError"):
        prove(student("x = missing", CHECK.format("x")))
    with pytest.raises(
        HandoutError, match=r"expected \"Not attempted\" for the first stub, got: \['Right"
    ):
        prove(student("x = [0.663, 2.229]", CHECK.format("x")))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[NotebookNode]:
    """The notebooks that would have been run."""
    found: list[NotebookNode] = []
    monkeypatch.setattr(handouts, "prove", found.append)
    return found


def test_the_archive_for_students(ran: list[NotebookNode], tmp_path: Path) -> None:
    archive = hand_out(FOUR, "student", tmp_path)
    assert archive == tmp_path / "student" / "04-self-attention.zip"
    first = archive.read_bytes()
    hand_out(FOUR, "student", tmp_path)
    assert archive.read_bytes() == first
    assert len(ran) == 2
    with zipfile.ZipFile(archive) as content:
        names = ["04-self-attention.ipynb", "exercises_04.py", "glossary.md", "notation.md"]
        assert content.namelist() == [f"04-self-attention/{name}" for name in names]
        content.extractall(tmp_path)
    notebook = notebooks.read(tmp_path / FOUR.stem / FOUR.name)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in ran[0].cells]


def test_the_archive_for_the_teacher(ran: list[NotebookNode], tmp_path: Path) -> None:
    archive = hand_out(FOUR, "teacher", tmp_path)
    assert archive
    with zipfile.ZipFile(archive) as content:
        content.extractall(tmp_path)
    *cells, table = notebooks.read(tmp_path / FOUR.stem / FOUR.name).cells
    whole = notebooks.read(FOUR).cells
    assert [cell.id for cell in cells] == [cell.id for cell in whole]
    code = [[cell for cell in each if cell.cell_type == "code"] for each in (cells, whole)]
    assert code[0] == code[1]
    assert ran == []
    exercises = exercises_of(find_chapter("04"))
    rows = [html.unescape(row) for row in table.source.splitlines()[4:]]
    assert all(row.count("|") == 4 for row in table.source.splitlines()[4:])
    assert len(rows) == sum(len(known(each)) for each in exercises)
    for each in exercises:
        assert known(each)
        for mistake in each.mistakes if isinstance(each, Diagnosed) else ():
            assert f"| {each.label} | {mistake.name} | {mistake.advice} |" in rows


@every_chapter
@pytest.mark.parametrize("audience", ["student", "teacher"])
def test_the_links_of_an_archive_lead_somewhere(
    ran: list[NotebookNode], tmp_path: Path, audience: str, path: Path
) -> None:
    archive = hand_out(path, audience, tmp_path)
    assert archive
    with zipfile.ZipFile(archive) as content:
        content.extractall(tmp_path)
    folder = tmp_path / path.stem
    notebook = notebooks.read(folder / path.name)
    texts = {path.name: [c.source for c in notebook.cells if c.cell_type == "markdown"]}
    texts |= {page.name: [page.read_text("utf-8")] for page in folder.glob("*.md")}
    own = {
        name: anchors(new_notebook(cells=[new_markdown_cell("\n".join(each))]))
        for name, each in texts.items()
    }
    for name, each in texts.items():
        for _, address in LINK.findall("\n".join(each)):
            page, _, anchor = address.partition("#")
            if "://" not in address:
                assert {anchor} <= own[page or name] | {""}, address
    if audience == "teacher":
        assert "<" not in texts[path.name][-1], "Markdown would take it for an element"


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ("https://book.example/en", "[5](https://book.example/en/05-x.html#heads)"),
        ("", "5"),
    ],
)
def test_a_link_to_another_chapter(
    monkeypatch: pytest.MonkeyPatch, site: str, expected: str
) -> None:
    monkeypatch.setattr(handouts, "published_pages", lambda: site)
    kept = "[4](04-x.ipynb#a) [term](glossary.md#b) [here](#c) [paper](https://a.example/d.md)"
    text = f"{kept} [5](05-x.ipynb#heads)"
    assert resolved(text, {"04-x.ipynb", "glossary.md"}) == f"{kept} {expected}"


@pytest.mark.parametrize("number", chapter_numbers())
def test_every_exercise_has_known_mistakes(number: str) -> None:
    for exercise in exercises_of(find_chapter(number)):
        assert len(known(exercise)) >= 2


def test_pages_without_exercises_are_not_handed_out(tmp_path: Path) -> None:
    assert hand_out(notebooks.ROOT / "book" / "common-mistakes.ipynb", "teacher", tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_chapter_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_first(notebook: NotebookNode) -> None:
        if notebook.cells[0].source.startswith("# 4 "):
            raise HandoutError("planted")

    monkeypatch.setattr(handouts, "prove", fail_first)
    monkeypatch.setattr(handouts.hand_out, "__defaults__", (tmp_path,))
    five = FOUR.parent / "05-multi-head-attention.ipynb"
    assert handouts.main(["student", str(FOUR), str(five)]) == 1
    out, err = capsys.readouterr()
    assert err == "handouts: book/04-self-attention.ipynb: planted\n"
    assert out.count("\n") == 1
    assert [path.stem for path in tmp_path.rglob("*.zip")] == [five.stem]
    with pytest.raises(SystemExit):
        handouts.main(["student", "book/absent.ipynb"])


def test_a_cell_for_the_answer_follows_an_exercise_without_a_stub() -> None:
    texts = ["### Exercise 9.9: A title", "#### Solution of exercise 9.9", "It is 3.", "## Summary"]
    cells = [new_markdown_cell(text) for text in texts]
    found = without_solutions(new_notebook(cells=[*cells, new_code_cell("x = 1")])).cells
    answer = "# Write your answer to exercise 9.9 here: code, or text in comments."
    assert [cell.source for cell in found] == [texts[0], answer, texts[3], "x = 1"]
