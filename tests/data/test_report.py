"""The report on a corpus: sets, lengths, scripts, unseen characters, findings."""

import json

import pytest

from tfmr.data.corpus import Corpus, Finding, Provenance
from tfmr.data.report import DataReport
from tfmr.data.tokenizer import Tokenizer

FINDING = Finding("train", "empty", "a sentence is missing", 1, ("a.de:4",), dropped=True)
CORPUS = Corpus(
    *("your files", "de", "en"),
    train=[("eins", "one"), ("zwei drei vier", "two three four"), ("a " * 9, "b"), ("c", "d " * 5)],
    valid=[("eins ß", "one ☃ ☃")],
    test=[("zwei", "two"), ("a " * 6, "c")],
    licence="",
    provenance=Provenance(
        read={"train": 5, "test": 2},
        places={"valid": ("a.de:9",), "test": ("t.de:1", "t.de:2")},
        scripts=("Latin", ""),
        findings=(FINDING,),
    ),
)
WORDS = Tokenizer.words(["eins zwei drei vier one two three four a b c d ß"])


def test_the_report_counts_what_the_model_uses() -> None:
    report = DataReport.of(CORPUS, WORDS, 5)
    assert report.used == {"train": 2, "valid": 1, "test": 1}
    assert report.lengths["train"] == {
        "source": {"5 %": 1, "median": 1, "95 %": 3, "longest": 3},
        "target": {"5 %": 2, "median": 2, "95 %": 4, "longest": 4},
    }
    assert report.histograms["train"] == {"source": {1: 1, 3: 1}, "target": {2: 1, 4: 1}}
    assert report.histograms["test"] == {"source": {1: 1}, "target": {2: 1}}
    train, test = (f for f in report.findings if f.kind == "too long")
    if train.split == "test":
        train, test = test, train
    assert (train.split, train.count, train.dropped) == ("train", 2, True)
    assert (test.split, test.places) == ("test", ("t.de:2",))
    assert report.findings[0] == FINDING
    assert json.loads(json.dumps(report.to_dict()))["findings"][0]["places"] == ["a.de:4"]
    assert not [f for f in DataReport.of(CORPUS, WORDS, 50).findings if f.kind == "too long"]


def test_characters_that_the_tokenizer_has_not_seen() -> None:
    assert DataReport.of(CORPUS, WORDS, 50).unseen_characters == {"☃": 2, "ß": 1}
    of_another = DataReport.of(CORPUS, WORDS, 50, own_tokenizer=False)
    assert of_another.unseen_characters == {"☃": 2}
    other = Tokenizer.words(["eins zwei drei one two three four a b c d ß ☃"])
    assert DataReport.of(CORPUS, other, 50, own_tokenizer=False).unseen_characters == {"v": 1}


def test_learned_characters_of_a_byte_pair_encoding() -> None:
    tokenizer = Tokenizer.train_bpe(["né né né", "né né", "x"], 300)
    assert {"n", "é"} <= tokenizer.learned_characters()
    assert not {"x", "y", "è", "\N{REPLACEMENT CHARACTER}"} & (
        Tokenizer.train_bpe(["né né né", "x"], 262).learned_characters()
    )


def test_the_text_of_the_report() -> None:
    text = str(DataReport.of(CORPUS, WORDS, 50))
    for part in (
        "| train | 5 | 4 | 1, 3, 9, 9 | 2, 4, 6, 6 |\n",
        "| valid | of train | 1 | 2, 2, 2, 2 |",
        "\ntrain: 1 not used, empty: a sentence is missing (a.de:4)\n",
        "script of most sentences: source Latin, target none\n",
        "characters that the tokenizer has not seen: 2, with the number of times: ☃ (2), ß (1)",
    ):
        assert part in text
    assert not text.endswith("…")


@pytest.mark.parametrize("count", [20, 21])
def test_many_characters_are_shortened(count: int) -> None:
    characters = {chr(0x4E00 + n): 1 for n in range(count)}
    report = DataReport({}, {}, {}, ("", ""), characters, ())
    [line] = report.remarks()
    assert line.count("(1)") == 20
    assert line.endswith(", …") == (count > 20)
