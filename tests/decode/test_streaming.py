"""Words that are decoded one token at a time."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decode.models import TOKENIZER, transformer
from tfmr.data import pocket
from tfmr.data.text import canonical, from_form
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.decode.streaming import StreamDecoder, Watched

TEXTS = [
    "Zwei junge weiße Männer sind im Freien.",
    "늑대가 작은 사과를 먹어요.",
    "it's 3.14 — 👩\u200d👩 é",
]
BPE = Tokenizer.train_bpe(TEXTS, 300)
LINE_BREAK = BPE.encode("a \u2027")[:-1] + BPE.encode("\u0428")[-1:]
"""A word, a space, and the bytes of U+2028: what seems to begin a second word is white space."""


def pieces(tokenizer: Tokenizer, ids: list[int], text: str) -> list[str]:
    """The pieces of a stream, checked against every prefix and the whole ``text``."""
    stream = StreamDecoder(tokenizer)
    found = []
    for id in ids:
        found.append(stream.add(id))
        assert stream.shown == "".join(found)
        assert text.startswith(stream.shown)
    return [*found, text.removeprefix(stream.shown)]


@pytest.mark.parametrize("text", TEXTS)
def test_every_word_is_shown_as_soon_as_it_is_complete(text: str) -> None:
    found = pieces(BPE, BPE.encode(text), canonical(text))
    assert "".join(found) == canonical(text)
    first, *others = canonical(text).split()
    assert [piece for piece in found if piece] == [first, *(f" {word}" for word in others)]


@settings(max_examples=200)
@example(LINE_BREAK)
@given(st.lists(st.integers(3, BPE.vocab_size - 1), max_size=30))
def test_any_ids_join_to_their_text(ids: list[int]) -> None:
    """Also half characters, line breaks and control characters."""
    text = canonical(BPE.decode(ids))
    assert "".join(pieces(BPE, ids, text)) == text


@pytest.mark.parametrize("direction", ["en-fr", "en-ko"])
def test_the_spelling_of_the_pocket_grammar(direction: str) -> None:
    targets = [target for _, target in pocket.generate(direction, 100, 0)]
    tokenizer = Tokenizer.words(targets, form="pocket")
    for target in targets:
        text = from_form(target, "pocket")
        assert "".join(pieces(tokenizer, tokenizer.encode(target), text)) == text


def test_a_watched_model_reports_its_tokens_and_translates_as_before() -> None:
    model, tokens = transformer(), []
    watched = Watched(model, tokens.append)
    assert translate(watched, TOKENIZER, ["w1 w2"]) == translate(model, TOKENIZER, ["w1 w2"])
    [text] = translate(model, TOKENIZER, ["w1 w2"])
    expected = TOKENIZER.encode(text)
    assert tokens in (expected, expected[:-1])  # the last one at the maximum length
    assert len(tokens) > 1
