"""One spelling of a text at both ends of a model, and the form of a corpus."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmr import translate
from tfmr.checkpoint import load_translator
from tfmr.data import pocket
from tfmr.data.own_files import load_files
from tfmr.data.text import canonical, from_form, to_form
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.metrics import bleu, exact_match, sentence_chrf
from tfmr.records import record_path
from tfmr.train.config import find_recipe

DIRECTIONS = ("en-fr", "en-ko")
CLEAN = "Où est l'été à Gyeongju (경주)?"
SPELLINGS = {
    "decomposed": unicodedata.normalize("NFD", CLEAN),
    "carriage return": f"{CLEAN}\r",
    "byte order mark": f"\ufeff{CLEAN}",
    "spaces": f"  {CLEAN.replace(' ', '   ')} ",
    "tabs": CLEAN.replace(" ", "\t"),
    "no-break spaces": CLEAN.replace(" ", "\u00a0"),
    "narrow no-break spaces": CLEAN.replace(" ", "\u202f"),
    "ideographic spaces": CLEAN.replace(" ", "\u3000"),
    "zero-width spaces": CLEAN.replace(" ", " \u200b"),
    "word joiners": CLEAN.replace("é", "é\u2060"),
    "next lines": CLEAN.replace(" ", "\u0085"),
    "line separators": CLEAN.replace(" ", "\u2028"),
    "paragraph separators": CLEAN.replace(" ", "\u2029 "),
    "vertical tabs and form feeds": CLEAN.replace(" ", "\v\f"),
    "information separators": CLEAN.replace(" ", "\x1c\x1f"),
    "control characters": CLEAN.replace("é", "\x01é\x7f\x9f"),
    "nulls": "\x00".join(CLEAN),
}
"""Texts that a reader cannot tell from :data:`CLEAN`, or only by the width of a space."""


spellings = pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())


@spellings
def test_a_text_has_one_spelling(text: str) -> None:
    assert text != CLEAN
    assert canonical(text) == CLEAN


@spellings
@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_the_spelling_of_the_training_set_does_not_matter(kind: str, text: str) -> None:
    """Vocabulary, ids and scores are the same, whichever end has which spelling."""

    def train(sentence: str) -> Tokenizer:
        if kind == "words":
            return Tokenizer.words([sentence])
        return Tokenizer.train_bpe([sentence], 280)

    tokenizer = train(text)
    assert tokenizer.to_json() == train(CLEAN).to_json()
    assert tokenizer.encode(text) == tokenizer.encode_batch([text])[0] == tokenizer.encode(CLEAN)
    assert tokenizer.decode(tokenizer.encode(text)) == CLEAN
    for hypothesis, reference in ((CLEAN, text), (text, CLEAN)):
        assert bleu([hypothesis], [reference]).score == 100
        assert exact_match([hypothesis], [reference]) == 1
        assert sentence_chrf(hypothesis, reference) == 100


@spellings
def test_corpus_files_are_read_in_one_spelling(tmp_path, text: str) -> None:
    """And pairs with the same source go to the same set, whatever its spelling."""
    for name, sentence in (("clean", CLEAN), ("other", text)):
        lines = [f"{i} {sentence}" if i % 3 else f"{sentence}" for i in range(9)]
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    paths = ("clean", "clean"), ("other", "other"), ("other", "clean")
    clean, *others = (load_files([tmp_path / name for name in pair]) for pair in paths)
    for other in others:
        assert [other.train, other.valid, other.test] == [clean.train, clean.valid, clean.test]


@pytest.mark.parametrize(
    "text",
    [
        *("ﬁn ½ ² Ⅷ ａ …", "👩\u200d👩 🏖\ufe0f", "می\u200cخواهم", "co\u00adop"),
        *("<unk> &quot;", "\ufffd"),
    ],
)
def test_what_is_kept(text: str) -> None:
    assert canonical(text) == text


@settings(max_examples=300)
@given(st.text())
def test_the_canonical_spelling_is_one_line_and_stays(text: str) -> None:
    once = canonical(text)
    assert canonical(once) == once
    assert once == " ".join(once.split())
    assert len(f"{once}.".splitlines()) == 1
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(c) == "Cc" for c in once)
    for form in ("plain", "pocket"):
        assert to_form(to_form(text, form), form) == to_form(text, form)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a \ud83d b", ["U+D83D", "character 3"]),
        ("\udc00", ["U+DC00", "character 1"]),
        ("\udc7f", ["U+DC7F", "character 1"]),
        (b"M\xe4nner".decode("utf-8", "surrogateescape"), ["0xE4", "character 2", "UTF-8"]),
    ],
)
def test_half_a_character_is_rejected(text: str, words: list[str]) -> None:
    tokenizer = Tokenizer.words(["a b"])
    for call in (
        canonical,
        tokenizer.encode,
        lambda text: tokenizer.encode_batch(["a", text]),
        lambda text: Tokenizer.train_bpe(["a", text], 300),
        lambda text: Tokenizer.words([text]),
    ):
        with pytest.raises(TfmrError) as caught:
            call(text)
        message = str(caught.value)
        assert all(word in message for word in words)
        message.encode()


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
