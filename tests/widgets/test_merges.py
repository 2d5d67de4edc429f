"""MergesFigure in Python, and its JavaScript in Node: both learn the merges of the package."""

import json
import random
import subprocess
from typing import Any

from tests.widgets.page_engine import HERE, NODE, ODD
from tfmr.data.bpe import bpe_merges, bpe_split
from tfmr.widgets import MergesFigure
from tfmr.widgets.merges import MAX_MERGES, read_words

WORDS = {"sing": 5, "singing": 3, "ring": 4, "ringing": 2}


def learn(texts: list[str]) -> list[Any]:
    """What the page's code reads and learns from each of the texts."""
    done = subprocess.run(
        [NODE, HERE / "merges.mjs"], input=json.dumps(texts), capture_output=True, check=True,
        encoding="utf-8",
    )  # fmt: skip
    found: list[Any] = json.loads(done.stdout)
    return found


def random_texts(n: int) -> list[str]:
    """Texts over few letters, so that ties, repeated letters and repeated words are common."""
    draw = random.Random(5)
    texts = []
    for _ in range(n):
        letters = draw.choice(["ab", "abc", "sing", "añ𝄞\uffee한", "0*12×"])
        words = ["".join(draw.choices(letters, k=draw.randint(1, 9))) for _ in range(12)]
        counts = ["", "*2", "×3", "*0", "*12345"]
        texts.append(" ".join(word + draw.choice(counts) for word in words))
    return texts


def test_the_page_learns_the_merges_of_the_package() -> None:
    texts = [*random_texts(150), *ODD, "a\x1cb\x85c\ufeffd\u2028e", "e\u0301 é", "constructor*2"]
    texts.append(" ".join(f"w{i}" for i in range(50)) + " long" * 3 + " " + "x" * 30)
    for text, found in zip(texts, learn(texts), strict=True):
        words = read_words(text)
        assert [tuple(pair) for pair in found["words"]] == list(words.items()), text
        merges = bpe_merges(words, MAX_MERGES)
        assert [tuple(pair) for pair in found["merges"]] == merges, text
        symbols = sorted(set("".join(words)))
        symbols += dict.fromkeys("".join(pair) for pair in merges)
        assert found["vocabulary"] == symbols, text
        spellings = [bpe_split(word, merges) for word in words]
        assert found["spellings"] == spellings, text


def test_counts_are_sums_over_the_words() -> None:
    [found] = learn(["sing*5 singing*3 ring*4 ringing*2"])
    pairs = {"".join(entry["pair"]): entry for entry in found["pairs"]}
    assert list(pairs) == ["in", "ng", "si", "ri", "gi"]
    assert [entry["count"] for entry in pairs.values()] == [19, 19, 8, 6, 5]
    assert pairs["in"]["terms"] == [[1, 5], [2, 3], [1, 4], [2, 2]]


def test_it_shows_the_example_of_the_chapter() -> None:
    figure = MergesFigure(WORDS, word="bringing", step=4)
    assert figure.merges() == bpe_merges(WORDS, 6)
    assert "sing 5, singing 3, ring 4, ringing 2" in repr(figure)
    assert "“in”, “ing”, “sing”, “ring”" in repr(figure)
    assert figure.split() == ["b", "ring", "ing"]
    assert figure.spellings() == {
        "sing": ["sing"],
        "singing": ["sing", "ing"],
        "ring": ["ring"],
        "ringing": ["ring", "ing"],
    }
    figure.step = 3
    assert figure.split() == ["b", "r", "ing", "ing"]
    figure.set_state({"step": 1, "word": " sing again", "text": "sung*2 sing"})
    assert figure.merges()[0] == ("n", "g")
    assert figure.split() == ["s", "i", "ng"]


def test_the_text_is_read_with_its_limits() -> None:
    assert read_words("a*2 b × a*1 c*0 *3 é*2 e\u0301") == {
        "a": 3, "b": 1, "×": 1, "c*0": 1, "*3": 1, "é": 3,
    }  # fmt: skip
    many = read_words(" ".join(f"w{i}" for i in range(50)) + " w3 " + "x" * 25)
    assert list(many) == [f"w{i}" for i in range(20)]
    assert many["w3"] == 2
    assert read_words("  ") == {}
