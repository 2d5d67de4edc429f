"""Exercises on a page: their answers are marked as in Python, and their code can be run."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from html import unescape
from itertools import combinations, product
from typing import Any

import pytest
from lxml.html import document_fromstring
from playwright.sync_api import Browser, Locator, Page, expect

from tests.pages.axe import AXE, RUN, STILL, TARGETS
from tests.pages.conftest import CONTRAST, NAMELESS, OVERFLOW, SITE, Visit, guarded
from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import LEVELS, Exercise, Numbers, Predict
from tfmr.records import record_path
from tools.handouts import known
from tools.notebooks import chapters

EXERCISES = [each for number in chapter_numbers() for each in exercises_of(find_chapter(number))]
NUMBERS = [each for each in EXERCISES if isinstance(each, Numbers)]
PREDICTIONS = [each for each in EXERCISES if isinstance(each, Predict)]
PAGES = {path.stem[:2]: f"{path.stem}.html" for path in reversed(chapters())}
CHAPTER = PAGES["05"]
FORM = re.compile(
    r'<form class="answer [^>]* aria-label="Exercise ([\d.]+)">.*?'
    r'<script type="application/json">(.*?)</script></form>',
    re.DOTALL,
)
MARK = """cases => cases.map(([data, texts]) => window.bookAnswers.mark(data, texts))"""

CELL = "./div[contains(@class, 'cell')]//div[contains(@class, 'cell_input')]"
HINTS = "./details[not(contains(@class, 'solution'))]/summary/text()"

WRITTEN = {
    "0,5": 0.5,
    ".5": 0.5,
    "2.": 2.0,
    " 7 ": 7.0,
    "+3": 3.0,
    "-1.5": -1.5,
    "−1,5": -1.5,
    "1/3": 1 / 3,
    "−2 / 3,5": -2 / 3.5,
    "12e-1": 1.2,
    "1E400/1": None,
    "0.5.1": None,
    "1,000,000": None,
    "1/2/3": None,
    "1/0": None,
    "0/0": None,
    "/2": None,
    "--1": None,
    "1 2": None,
    "e": None,
    ".": None,
    "√2": None,
    "50 %": None,
    "0x10": None,
    "NaN": None,
    "Infinity": None,
    "don't": None,
    'say "x"': None,
    """'"'""": None,
    "C:\\n": None,
}
"""Numbers as a reader may write them, and what is not a number."""


def source(exercise: Exercise) -> str:
    return (SITE / PAGES[exercise.chapter]).read_text("utf-8")


def data_of(exercise: Exercise) -> dict[str, Any]:
    [found] = [data for label, data in FORM.findall(source(exercise)) if label == exercise.label]
    return json.loads(found.replace("<\\/", "</"))


@pytest.fixture
def fresh(chromium: Browser, address: str) -> Iterator[Visit]:
    """A browser's page that remembers nothing of other tests."""
    yield from guarded(chromium, address)


@pytest.fixture(scope="module")
def marking(visit: Visit) -> Page:
    page = visit.open(CHAPTER)
    page.evaluate((SITE / "_static" / "marking.js").read_text("utf-8"))
    return page


def marked(page: Page, exercise: Exercise, answers: list[list[str]]) -> list[dict[str, str]]:
    data = data_of(exercise)
    return page.evaluate(MARK, [[data, texts] for texts in answers])


def numeric_answers(exercise: Numbers) -> Iterator[list[float]]:
    """The right answer, the known mistakes, and other wrong answers, some of them right in part."""
    right = [float(each) for each in exercise.answer]
    yield right
    names = [frozenset({each.name}) for each in exercise.mistakes]
    mistakes = [[float(each) for each in exercise.build(name)] for name in names]
    yield from mistakes
    yield from ([round(each, 3) for each in values] for values in mistakes)
    for pair in combinations(mistakes, 2):  # between them, both may explain the answer
        yield [sum(both) / 2 for both in zip(*pair, strict=True)]
    for missed in product((0.0, 5.25), repeat=len(right)):
        yield [each + off for each, off in zip(right, missed, strict=True)]
    exact = [float(each) for each in exercise.build(frozenset())]
    for i, value in enumerate(exact):
        limit = exercise.tolerance * (1 + abs(value))
        for factor in (-1.01, -0.98, 0.98, 1.01):
            yield [*exact[:i], value + factor * limit, *exact[i + 1 :]]
    yield [1e30] * len(right)


def is_single(exercise: Numbers) -> bool:
    return exercise.stub == f"{exercise.name} = None\n"


@pytest.mark.parametrize("exercise", NUMBERS, ids=lambda each: each.label)
def test_the_page_marks_numbers_as_python_does(marking: Page, exercise: Numbers) -> None:
    answers = list(numeric_answers(exercise))
    texts = [[repr(each) for each in answer] for answer in answers]
    verdicts = marked(marking, exercise, texts)
    kinds = set()
    for answer, verdict in zip(answers, verdicts, strict=True):
        expected = exercise.check(answer[0] if is_single(exercise) else answer)
        assert verdict == asdict(expected), answer
        kinds.add(expected.kind)
    assert kinds == {"right", "mistake", "wrong"}


@pytest.mark.parametrize("exercise", NUMBERS, ids=lambda each: each.label)
def test_a_number_may_be_written_in_several_ways(marking: Page, exercise: Numbers) -> None:
    rest = [str(each) for each in exercise.answer[1:]]
    verdicts = marked(marking, exercise, [[text, *rest] for text in WRITTEN])
    for (text, value), verdict in zip(WRITTEN.items(), verdicts, strict=True):
        if value is None:
            assert verdict["kind"] == "wrong", text
            number = "Number 1: " if rest else "Number: "
            assert verdict["headline"].startswith(f"{number}expected a number, such as 0.5"), text
            assert verdict["headline"].endswith(f"got “{text}”."), text
        else:
            given = [value, *exercise.answer[1:]]
            assert verdict == asdict(exercise.check(given[0] if is_single(exercise) else given)), (
                text
            )


@pytest.mark.parametrize("exercise", NUMBERS, ids=lambda each: each.label)
def test_an_empty_field_is_not_attempted(marking: Page, exercise: Numbers) -> None:
    texts = [str(each) for each in exercise.answer]
    answers = [["" for _ in texts], [" ", *texts[1:]], [*texts[:-1], ""]]
    for verdict in marked(marking, exercise, answers):
        assert verdict["kind"] == exercise.check(None).kind == "not attempted"
        assert verdict["headline"] == "Not attempted: fill in all fields, and check again."


@pytest.mark.parametrize("exercise", PREDICTIONS, ids=lambda each: each.label)
def test_the_page_marks_predictions_as_python_does(marking: Page, exercise: Predict) -> None:
    verdicts = marked(marking, exercise, [[letter] for letter in exercise.options])
    assert verdicts == [asdict(exercise.check(letter)) for letter in exercise.options]
    assert [each["kind"] for each in verdicts].count("right") == 1
    [nothing] = marked(marking, exercise, [[""]])
    assert nothing["headline"] == "Not attempted: choose an option, and check again."
    assert nothing["kind"] == exercise.check(None).kind


@pytest.mark.parametrize("chapter", chapter_numbers())
def test_a_page_has_a_form_for_each_exercise_that_it_marks(chapter: str) -> None:
    own = [each for each in EXERCISES if each.chapter == chapter]
    page = source(own[0])
    forms = [label for label, _ in FORM.findall(page)]
    assert forms == [each.label for each in own if isinstance(each, Numbers | Predict)]


@pytest.mark.parametrize("exercise", PREDICTIONS, ids=lambda each: each.label)
def test_the_options_of_a_prediction_are_those_of_its_stub(exercise: Predict) -> None:
    form = source(exercise).split(f'aria-label="Exercise {exercise.label}"')[1].split("<script")[0]
    options = re.findall(r'value="(\w)"> (.*?)</label>', form)
    assert [letter for letter, _ in options] == list(exercise.options)
    for letter, text in options:
        assert f"# {letter}: {unescape(text)}\n" in exercise.stub


@pytest.mark.parametrize("chapter", chapter_numbers())
def test_a_page_shows_how_to_run_the_exercises(chapter: str) -> None:
    own = [each for each in EXERCISES if each.chapter == chapter]
    exercises = document_fromstring(source(own[0])).get_element_by_id("exercises")
    sections = exercises.find_class("exercise")
    text = exercises.text_content()
    assert f"from tfmr.exercises import ch{chapter}\n" in text
    assert f"python -m tfmr exercises start {chapter}" in text
    for each in own:
        [section] = [s for s in sections if f"Exercise {each.label}:" in s.text_content()]
        shown = section.xpath(CELL)[0].text_content()
        assert each.stub in shown
        assert f"ch{chapter}.q{each.number}.check({each.name})" in shown
        assert section.xpath(HINTS) == ["Hint 1", "Hint 2", "Hint 3"]


def form_of(page: Page, label: str) -> Locator:
    return page.get_by_role("form", name=f"Exercise {label}", exact=True)


def test_numbers_are_answered_by_keyboard(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    form = form_of(page, "5.1")
    verdict = form.get_by_role("status")
    expect(verdict).to_be_empty()
    form.get_by_label("Number 1").focus()
    for text in ("0,752", "0.497", "one", "1/2x"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    expect(form.get_by_role("button", name="Check")).to_be_focused()
    page.keyboard.press("Enter")
    lines = ["Number 3: … got “one”.", "Number 4: … got “1/2x”."]
    asked = "expected a number, such as 0.5, 0,5 or 1/2;"
    expect(verdict.locator("p")).to_have_text([line.replace("…", asked) for line in lines])
    invalid = form.locator("[aria-invalid=true]")
    expect(invalid).to_have_count(2)
    expect(invalid.first).to_have_accessible_name("Number 3")
    expect(invalid.first).to_have_accessible_description(re.compile("0,5 or 1/2"))
    form.get_by_label("Number 3").fill("1.509")
    form.get_by_label("Number 4").fill("1/2")
    page.keyboard.press("Enter")
    expect(verdict.locator("p").first).to_have_text(
        "Wrong: compute each step again, with three decimal places."
    )
    expect(verdict).to_have_css("border-inline-start-width", "3px")
    expect(verdict).to_contain_text("Correct so far: number 1, number 2 and number 3.")
    expect(verdict).to_contain_text("Your answer was read as 0.752, 0.497, 1.509 and 0.5.")
    expect(form.locator("[aria-invalid=true]")).to_have_count(0)
    form.get_by_label("Number 4").fill("0.491")
    page.keyboard.press("Enter")
    expect(verdict.locator("p").first).to_have_text("Right.")
    assert visit.errors == []
    assert page.url.endswith(CHAPTER)


def test_a_mistake_is_named_with_its_advice(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    form = form_of(page, "5.1")
    for i, text in enumerate(("0.788", "0.424", "1.680", "0.320"), start=1):
        form.get_by_label(f"Number {i}").fill(text)
    form.get_by_role("button", name="Check").click()
    lines = form.get_by_role("status").locator("p")
    expect(lines).to_have_count(2)
    expect(lines.first).to_have_text(
        "This is the mistake: the dot products are not divided by √d_k."
    )


def test_predictions_are_answered_by_mouse_and_by_keyboard(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    form = form_of(page, "5.6")
    verdict = form.get_by_role("status")
    form.get_by_role("button", name="Check").click()
    expect(verdict).to_contain_text("Not attempted")
    form.get_by_text("above 0.9").click()
    form.get_by_role("button", name="Check").click()
    expect(verdict).to_contain_text("Measured: after 200 steps, the accuracy is ≈ 0.39.")
    expect(verdict).to_contain_text("Training separates only heads that differ")
    form.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(verdict).to_contain_text("Right: after 200 steps")
    expect(verdict).not_to_contain_text("Measured")


def answered(page: Page, *, right: bool) -> list[Locator]:
    forms = [form_of(page, "5.1"), form_of(page, "5.6")]
    for i, text in enumerate(("0.752", "0.497", "1.509", "0.491" if right else "x"), start=1):
        forms[0].get_by_label(f"Number {i}").fill(text)
    forms[1].get_by_role("radio").nth(1 if right else 0).check()
    for form in forms:
        form.get_by_role("button", name="Check").click()
    return forms


@pytest.mark.parametrize("right", [True, False])
def test_axe_finds_no_fault_in_a_form(fresh: Visit, *, right: bool) -> None:
    page = fresh.open(CHAPTER)
    answered(page, right=right)
    page.get_by_label("Remember my answers").check()
    page.evaluate(STILL)
    page.evaluate(AXE)
    for theme in ("light", "dark"):
        fresh.set_theme(theme)
        assert page.evaluate(RUN, {"include": [".answer"]}) == [], theme
        assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []


@pytest.mark.parametrize("width", [390, 320])
def test_a_finger_can_answer_on_a_phone(phone: Visit, width: int) -> None:
    page = phone.open(CHAPTER, theme="dark", width=width)
    remember = page.get_by_label("Remember my answers")
    remember.check()
    for form in answered(page, right=False):
        expect(form.get_by_role("status")).not_to_be_empty()
    assert page.evaluate(TARGETS, 44) == []
    assert page.evaluate(OVERFLOW) == []
    fields = page.locator("form.answer input[type=text]")
    sizes = fields.evaluate_all("found => found.map(e => parseFloat(getComputedStyle(e).fontSize))")
    assert min(sizes) >= 16, "a phone zooms in on smaller text"
    remember.uncheck()


def test_the_keyboard_of_a_phone_has_what_the_answer_needs() -> None:
    for exercise in NUMBERS:
        form = source(exercise).split(f'aria-label="Exercise {exercise.label}"')[1]
        mode = re.search(r'inputmode="(\w+)"', form)
        assert mode
        assert mode[1] == ("text" if min(exercise.answer) < 0 else "decimal")


def test_the_output_of_a_stub_gives_way_to_the_form_on_a_screen(visit: Visit) -> None:
    page = visit.open(CHAPTER)
    form = form_of(page, "5.1")
    output = page.locator("section.exercise > .cell > .cell_output").first
    expect(form).to_be_visible()
    expect(output).to_be_hidden()
    page.emulate_media(media="print")
    expect(form).to_be_hidden()
    expect(output).to_be_visible()
    page.emulate_media(media="screen")


STORED = "JSON.parse(localStorage.getItem('tfmr-answers'))"


def test_a_page_counts_what_is_solved_and_stores_nothing(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    progress = page.get_by_role("group", name="Your answers").get_by_role("status")
    expect(progress).to_have_text("Solved in the forms on this page: 0 of 2")
    answered(page, right=True)
    expect(progress).to_have_text("Solved in the forms on this page: 2 of 2")
    answered(page, right=False)
    expect(progress).to_have_text("Solved in the forms on this page: 0 of 2")
    assert page.evaluate("[Object.keys(localStorage), sessionStorage.length]") == [["mode"], 0]
    page.reload()
    expect(form_of(page, "5.1").get_by_label("Number 1")).to_have_value("")
    assert "bookAnswers" not in page.evaluate("Object.keys(window)")


def test_answers_are_remembered_only_if_asked_and_can_be_removed(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    box = page.get_by_role("group", name="Your answers")
    remember = box.get_by_role("checkbox", name="Remember my answers in this browser")
    removal = box.get_by_role("button", name="Remove all my answers")
    form_of(page, "5.6").get_by_role("button", name="Check").click()
    expect(form_of(page, "5.6").get_by_role("status")).to_contain_text("Not attempted")
    expect(removal).to_be_hidden()
    remember.focus()
    page.keyboard.press("Space")
    expect(removal).to_be_visible()
    assert page.evaluate(STORED) == {}
    answered(page, right=True)
    texts = ["0.752", "0.497", "1.509", "0.491"]
    expect(box.get_by_role("status")).to_contain_text("2 of 2")
    assert page.evaluate(STORED) == {"Exercise 5.1": texts, "Exercise 5.6": ["b"]}

    other = fresh.open(PAGES["04"])
    expect(other.get_by_role("checkbox", name="Remember my answers")).to_be_checked()
    form = form_of(other, "4.1")
    form.get_by_label("Number 1").fill("1")
    form.get_by_label("Number 2").fill("2")
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_contain_text("Wrong")
    assert list(other.evaluate(STORED)) == ["Exercise 5.1", "Exercise 5.6", "Exercise 4.1"]

    page = fresh.open(CHAPTER)
    expect(box.get_by_role("status")).to_have_text("Solved in the forms on this page: 2 of 2")
    for i, text in enumerate(texts, start=1):
        expect(form_of(page, "5.1").get_by_label(f"Number {i}")).to_have_value(text)
    expect(form_of(page, "5.6").get_by_role("radio", checked=True)).to_have_value("b")
    verdict = form_of(page, "5.1").locator(".verdict")
    expect(verdict).to_have_text("Right.")
    expect(verdict).to_have_attribute("aria-live", "off")
    form_of(page, "5.1").get_by_role("button", name="Check").click()
    expect(verdict).to_have_attribute("aria-live", "polite")

    remember.focus()
    page.keyboard.press("Tab")
    expect(removal).to_be_focused()
    page.keyboard.press("Enter")
    expect(remember).to_be_focused()
    expect(remember).not_to_be_checked()
    expect(removal).to_be_hidden()
    expect(box.get_by_role("status")).to_have_text(
        "All your answers have been removed. Solved in the forms on this page: 0 of 2"
    )
    expect(verdict).to_be_empty()
    expect(form_of(page, "5.1").get_by_label("Number 1")).to_have_value("")
    assert page.evaluate(STORED) is None
    assert fresh.errors == []


def test_a_reader_may_stop_remembering_and_keep_the_page(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    remember = page.get_by_label("Remember my answers")
    remember.check()
    answered(page, right=True)
    remember.uncheck()
    assert page.evaluate(STORED) is None
    expect(form_of(page, "5.1").get_by_label("Number 1")).to_have_value("0.752")


def test_a_page_stores_nothing_after_another_page_stopped_remembering(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    remember = page.get_by_label("Remember my answers")
    removal = page.get_by_role("button", name="Remove all my answers")
    remember.check()
    expect(removal).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{fresh.base}/{PAGES['04']}")
    other.get_by_role("button", name="Remove all my answers").click()
    assert other.evaluate(STORED) is None
    other.close()
    for form in answered(page, right=True):
        expect(form.get_by_role("status")).to_contain_text("Right")
    assert page.evaluate(STORED) is None
    expect(remember).not_to_be_checked()
    expect(removal).to_be_hidden()
    remember.check()
    assert list(page.evaluate(STORED)) == ["Exercise 5.1", "Exercise 5.6"]
    assert fresh.errors == []


def test_only_what_was_checked_is_remembered(fresh: Visit) -> None:
    page = fresh.open(CHAPTER)
    page.get_by_label("Remember my answers").check()
    numbers, prediction = answered(page, right=True)
    expect(prediction.get_by_role("status")).to_contain_text("Right")
    numbers.get_by_label("Number 1").fill("")
    prediction.get_by_role("button", name="Check").click()
    checked = {"Exercise 5.1": ["0.752", "0.497", "1.509", "0.491"], "Exercise 5.6": ["b"]}
    assert page.evaluate(STORED) == checked
    fresh.open(CHAPTER)
    expect(numbers.get_by_role("status")).to_have_text("Right.")
    page.get_by_role("button", name="Remove all my answers").click()
    page.get_by_label("Remember my answers").check()
    assert page.evaluate(STORED) == {}


UNREADABLE = ["{", "5", "[null]", '"text"', '{"Exercise 5.1": null, "Exercise 5.6": {}}']


@pytest.mark.parametrize("text", UNREADABLE)
def test_stored_text_that_no_page_writes_is_ignored(fresh: Visit, text: str) -> None:
    page = fresh.open("bibliography.html")
    page.evaluate("text => localStorage.setItem('tfmr-answers', text)", text)
    fresh.open(CHAPTER)
    expect(page.get_by_label("Remember my answers")).to_be_checked()
    progress = page.get_by_role("group", name="Your answers").get_by_role("status")
    answered(page, right=True)
    expect(progress).to_have_text("Solved in the forms on this page: 2 of 2")
    assert list(page.evaluate(STORED)) == ["Exercise 5.1", "Exercise 5.6"]
    assert fresh.errors == []


def test_what_cannot_be_loaded_or_stored_is_reported(fresh: Visit) -> None:
    page = fresh.page
    page.route("**/marking.js*", lambda route: route.abort())
    fresh.open(CHAPTER)
    box = page.get_by_role("group", name="Your answers")
    remember = box.get_by_role("checkbox")
    problem = "could not be loaded. Try again when the site can be reached."
    remember.click()
    expect(box.get_by_role("status")).to_contain_text(problem)
    expect(remember).not_to_be_checked()
    form = form_of(page, "5.6")
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_contain_text(problem)

    page.unroute("**/marking.js*")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error(); }; }")
    remember.click()
    expect(box.get_by_role("status")).to_contain_text("Your answers cannot be remembered")
    expect(remember).not_to_be_checked()
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_contain_text("Not attempted")


def test_without_javascript_a_page_has_no_form(chromium: Browser, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{CHAPTER}")
    expect(page.locator("form.answer").first).to_be_hidden()
    expect(page.locator(".answers")).to_be_hidden()
    expect(page.locator("section.exercise > .cell > .cell_output").first).to_be_visible()
    context.close()


def test_a_page_lists_every_exercise_and_links_to_it() -> None:
    page = document_fromstring((SITE / "exercises.html").read_bytes())
    listed, results = page.xpath("//table")
    rows = [row.xpath("td") for row in listed.xpath(".//tbody/tr")]
    titles = [f"{each.label} {each.title}" for each in EXERCISES]
    assert [cells[0].text_content() for cells in rows] == titles
    assert [int(cells[2].text_content()) for cells in rows] == [len(known(e)) for e in EXERCISES]
    for cells, exercise in zip(rows, EXERCISES, strict=True):
        assert cells[1].text_content().endswith(f", {LEVELS[exercise.level]}")
        [address] = cells[0].xpath(".//a/@href")
        name, _, anchor = address.partition("#")
        assert name == PAGES[exercise.chapter]
        assert f'id="{anchor}"' in (SITE / name).read_text("utf-8")
    record = json.loads(record_path("diagnosis.json").read_text("utf-8"))["rows"]
    wrong = [row for row in record if row["kind"] == "numbers and functions" and not row["correct"]]
    first = [name for row in wrong if row["when"] == "at first" for name in row["results"]]
    column = [row.xpath("td[2]")[0].text_content() for row in results.xpath(".//tbody/tr")]
    assert int(column[0]) == first.count("named rightly")
    assert int(column[-1]) == len(first) == sum(map(int, column[:-1]))
