"""The form of a corpus: typed text is converted to it, decoded text from it."""

import pytest

from tfmr import translate
from tfmr.data import pocket
from tfmr.data.text import from_form, to_form
from tfmr.data.tokenizer import Tokenizer
from tfmr.records import record_path
from tfmr.train.checkpoint import load_translator
from tfmr.train.config import find_recipe

DIRECTIONS = ("en-fr", "en-ko")


@pytest.mark.parametrize(
    "typed",
    ["The bear sings.", "the bear  sings", " the bear sings . ", "The BEAR sings...\n"],
)
def test_typed_text_is_converted_to_the_form(typed: str) -> None:
    assert to_form(typed, "pocket") == "the bear sings ."
    tokenizer = Tokenizer.words(["the bear sings ."], form="pocket")
    assert tokenizer.encode(typed) == tokenizer.encode("the bear sings .") == [7, 5, 6, 4]
    assert tokenizer.encode_batch([typed]) == [tokenizer.encode(typed)]


def test_an_empty_text_stays_empty() -> None:
    assert to_form(" . ", "pocket") == to_form("", "pocket") == ""


def test_lower_case_is_in_the_normal_form() -> None:
    assert to_form("J\u030c", "pocket") == "\u01f0 ."  # the capital letter has no composed form


def test_plain_text_is_kept() -> None:
    assert to_form("The bear sings.", "plain") == "The bear sings."
    assert from_form("l' ours .", "plain") == "l' ours ."


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_sentences_of_the_grammar_are_in_the_form(direction: str) -> None:
    for source, target in pocket.generate(direction, 500, seed=3):
        assert to_form(source, "pocket") == to_form(from_form(source, "pocket"), "pocket") == source
        assert to_form(target, "pocket") == target


def test_ordinary_spelling() -> None:
    for text, expected in (
        ("l' ours n' aime pas l' œuf .", "l'ours n'aime pas l'œuf."),
        ("늑대 -들 -은 사과 -를 먹어요 .", "늑대들은 사과를 먹어요."),
        ("le chat dort aujourd'hui .", "le chat dort aujourd'hui."),
    ):
        assert from_form(text, "pocket") == expected
        assert Tokenizer("words", [], form="pocket").detokenise(text) == expected


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_the_tokenizer_of_a_run_has_the_form_of_its_corpus(kind: str) -> None:
    recipe = find_recipe("pocket").with_overrides({"vocabulary.kind": kind})
    tokenizer = recipe.train_tokenizer(pocket.split("en-fr", 800, 4, 4))
    assert tokenizer.form == "pocket"
    assert tokenizer.encode("The owl sleeps") == tokenizer.encode("the owl sleeps .")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_recorded_tokenizer_is_that_of_the_corpus(direction: str) -> None:
    corpus = pocket.split(direction)
    _, recorded = load_translator(record_path(f"pocket-{direction}"))
    assert find_recipe("pocket").train_tokenizer(corpus).to_json() == recorded.to_json()


def test_a_library_call_translates_typed_text() -> None:
    translator = load_translator(record_path("pocket-en-fr"))
    assert translate(*translator, ["A brave queen buys three apples.", "The bear sings"]) == [
        "une reine courageuse achète trois pommes.",
        "l'ours chante.",
    ]
    assert translate(*translator, ["The bear sings"], detokenise=False) == ["l' ours chante ."]
