"""Byte-pair encoding in the page: words, counts, merges and splits are those of the package."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.conftest import Visit
from tests.pages.live import Stage, press, status
from tests.widgets.test_merges import WORDS
from tfmr.widgets import MergesFigure


def symbols(place: Locator) -> list[list[str]]:
    """The symbols in each of some rows."""
    return [row.locator(".mer-symbol").all_text_contents() for row in place.all()]


def agree(live: Locator, figure: MergesFigure) -> None:
    """The words, the vocabulary, the next merge and the split word are those of the package."""
    assert symbols(live.locator(".mer-words li")) == list(figure.spellings().values())
    assert symbols(live.locator(".mer-splits li"))[-1] == figure.split()
    merges = figure.merges()
    letters = sorted(set("".join(figure.spellings())))
    learned = ["".join(pair) for pair in merges[: figure.step]]
    assert live.locator(".mer-vocabulary .mer-symbol").all_text_contents() == letters + learned
    after = live.locator(".mer-pairs [data-rank=next] .mer-symbol").all_text_contents()
    assert [tuple(after)] == (merges[figure.step : figure.step + 1] or [()])


@pytest.fixture
def live(stage: Stage) -> Locator:
    return stage.show(MergesFigure(WORDS, word="bringing"))


def test_every_step_is_that_of_the_package(phone_stage: Stage) -> None:
    live = phone_stage.show(MergesFigure(WORDS, word="bringing"))
    for step in range(7):
        agree(live, MergesFigure(WORDS, word="bringing", step=step))
        live.get_by_role("button", name="Next").click()
    # There is no merge after the last one.
    expect(live.get_by_role("status")).to_contain_text("As before: After 6 merges")
    expect(live.locator(".mer-reason")).to_contain_text("Every word is a single symbol")
    slider = live.get_by_role("slider", name="Merges")
    slider.focus()
    press(live.page, "ArrowLeft", "ArrowLeft")
    agree(live, MergesFigure(WORDS, word="bringing", step=4))


def test_counts_are_spelled_out_and_a_tie_is_a_tie(live: Locator) -> None:
    rows = live.locator(".mer-pairs tbody tr")
    assert rows.locator("td").all_inner_texts()[:6] == [
        "19 = 5 + 2·3 + 4 + 2·2", "merged next", "19 = 5 + 2·3 + 4 + 2·2", "tie", "8 = 5 + 3", "",
    ]  # fmt: skip
    assert live.locator(".mer-reason").inner_text() == (
        "Tie: “i n” and “n g” occur 19 times each. The pair with the older symbols is merged: "
        "on the left, “i” (number 2) is older than “n” (number 3)."
    )
    assert status(live) == (
        "Before the first merge: 5 symbols. Merged next: “i n”, 19 times, a tie of 2 pairs. "
        "“bringing” is split into 8 symbols: b r i n g i n g."
    )
    assert live.locator(".mer-new .mer-note").inner_text().startswith("“b” is in none of the words")
    next_parts = live.locator(".mer-words [data-look=next-left]")
    assert next_parts.count() == 6
    field = live.get_by_label("Words to learn from")
    # Three pairs, and the first two have the same left symbol.
    field.fill("ab ac xy")
    assert live.locator(".mer-reason").inner_text() == (
        "Tie: 3 pairs occur once each. The pair with the older symbols is merged: the left symbols "
        "are the same, and on the right “b” (number 2) is older than “c” (number 3)."
    )
    field.fill("ab*2 xy")
    assert live.locator(".mer-reason").inner_text() == (
        "“a b” is the most frequent pair (twice), so it is merged next."
    )


@pytest.mark.parametrize("width", [1024, 1280, 390])
def test_the_first_view_shows_the_whole_explanation(visit: Visit, width: int) -> None:
    page = visit.open("11-training.html", width=width)
    boxes = page.locator(".mer-box")
    cut = "all => all.filter(e => e.scrollHeight > e.clientHeight).map(e => e.ariaLabel)"
    assert boxes.count() == 4
    assert boxes.evaluate_all(cut) == []


def test_examples_own_words_and_an_own_word(live: Locator) -> None:
    selector = live.get_by_label("Example")
    texts = live.get_by_label("Words to learn from")
    for name in selector.locator("option").all_inner_texts()[1:-1]:
        selector.select_option(label=name)
        figure = MergesFigure({"x": 1})
        figure.text, figure.word = texts.input_value(), live.get_by_label("Split").input_value()
        slider = live.get_by_role("slider", name="Merges")
        slider.fill("5")
        figure.step = 5
        agree(live, figure)
    live.get_by_label("Split").fill("wolfhound")
    figure.word = "wolfhound"
    agree(live, figure)
    texts.fill("banana*3 bandana ananas")
    assert selector.evaluate("e => e.selectedOptions[0].label") == "your own words"
    figure.text, figure.step = "banana*3 bandana ananas", 0
    agree(live, figure)
    press(live.page, "End")
    texts.press_sequentially("*2")
    figure.text = "banana*3 bandana ananas*2"
    agree(live, figure)


@pytest.mark.parametrize(
    ("text", "word", "answer"),
    [
        ("", "", "There are no words to learn from: write at least one word."),
        (" \n\t", "sing", "There are no words to learn from"),
        ("a", "\u200b", "“U+200B” is split into 1 symbol: U+200B."),
        ("👩‍👩‍👧‍👦*2 🇩🇪", "👧", "Before the first merge: 6 symbols."),
        ("<b>x</b> <script>alert(1)</script>*2", "<b>", "“<b>” is split into 3 symbols: < b >."),
        ("كتاب*2 كاتب", "كتب", "“كتب” is split into 3 symbols: ك ت ب."),
        ("constructor __proto__", "toString", "“toString” is split into 8 symbols"),
    ],
)
def test_any_input_has_a_sensible_answer(live: Locator, text: str, word: str, answer: str) -> None:
    live.get_by_label("Words to learn from").fill(text)
    live.get_by_label("Split").fill(word)
    assert answer in status(live)
    assert live.locator("b:text-is('x'), .live-failure").count() == 0


def test_what_is_left_out_is_stated(stage: Stage, live: Locator) -> None:
    many = " ".join(f"word{i}" for i in range(1500))
    live.get_by_label("Words to learn from").fill(f"{many} {'x' * 10_000}")
    live.get_by_label("Split").fill("y" * 30 + " z")
    notes = " ".join(live.locator(".mer-note").all_text_contents())
    assert "first 20 different words; 1,480 later words are left out" in notes
    assert "A word of more than 24 characters is left out." in notes
    assert "Only the first word is split." in notes
    assert "The word is cut after 24 characters." in notes
    alphabet = "abcdefghijklmnopqrstuvwx"
    text = f"{alphabet} {alphabet.upper()} {alphabet[::-1]}"
    live.get_by_label("Words to learn from").fill(text)
    live.get_by_role("slider", name="Merges").press("End")
    expect(live.get_by_role("status")).to_have_text(re.compile("stops after 60 merges"))
    assert stage.visit.errors == []


def test_reset_and_looks(stage: Stage, live: Locator) -> None:
    stage.check_reset(live)
    live.get_by_label("Words to learn from").fill("other")
    live.get_by_label("Split").fill("word")
    live.get_by_role("button", name="Reset").click()
    agree(live, MergesFigure(WORDS, word="bringing"))
    stage.check_looks(MergesFigure(WORDS, word="bringing", step=2))
    long = {f"{'abcdefghij' * 2}{i}": i for i in range(1, 21)}
    stage.check_looks(MergesFigure(long, word="unbelievably-long-words!", step=9))
