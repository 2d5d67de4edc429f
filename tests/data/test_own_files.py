"""A corpus from a user's files: which pairs are used, which sets they belong to, what is found."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tfmr.data import own_files
from tfmr.data.corpus import Corpus, Finding, SentencePair
from tfmr.data.own_files import load_files, load_test_files
from tfmr.errors import TfmrError

Write = Callable[..., list[Path]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write two text files with these lines; return their paths."""

    def run(name: str, sources: Sequence[str], targets: Sequence[str]) -> list[Path]:
        paths = [tmp_path / f"{name}.{side}" for side in ("de", "en")]
        for path, lines in zip(paths, (sources, targets), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return paths

    return run


def numbered(word: str, n: int) -> list[str]:
    return [f"{word} {i}" for i in range(n)]


def everything(corpus: Corpus) -> list[SentencePair]:
    return [*corpus.train, *corpus.valid, *corpus.test]


def findings(corpus: Corpus, split: str, *, dropped: bool) -> dict[str, Finding]:
    found = [f for f in corpus.provenance.findings if f.split == split and f.dropped is dropped]
    assert len({finding.kind for finding in found}) == len(found)
    return {finding.kind: finding for finding in found}


def lines(finding: Finding) -> list[str]:
    """The file names and line numbers of a finding."""
    return [place.rpartition("/")[2] for place in finding.places]


def test_own_files_are_split_by_source_sentence(write: Write) -> None:
    paths = write("a", numbered("eins", 100) * 2, numbered("one", 100) + numbered("un", 100))
    corpus = load_files(paths, "de", "en")
    parts = [corpus.train, corpus.valid, corpus.test]
    assert [len(part) for part in parts] == [180, 10, 10]
    sources = [{source for source, _ in part} for part in parts]
    assert [len(part) for part in sources] == [90, 5, 5]
    assert len(set.union(*sources)) == 100
    assert (corpus.name, corpus.source, corpus.target) == ("your files", "de", "en")
    assert all(source.split()[1] == target.split()[1] for part in parts for source, target in part)
    assert corpus == load_files(paths, "de", "en")
    assert corpus.provenance.findings == ()


def test_the_held_out_sentences_do_not_depend_on_the_order_of_the_lines(write: Write) -> None:
    a = load_files(write("a", numbered("eins", 80), numbered("one", 80)))
    b = load_files(write("b", numbered("eins", 80)[::-1], numbered("one", 80)[::-1]))
    assert sorted(a.test) == sorted(b.test)
    assert sorted(a.valid) == sorted(b.valid)
    assert len(a.test) == len(a.valid) == 4


def test_at_most_so_many_sentences_are_held_out(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "MOST_HELD_OUT", 3)
    corpus = load_files(write("a", numbered("eins", 200), numbered("one", 200)))
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [194, 3, 3]


def test_three_sentences_suffice(write: Write) -> None:
    corpus = load_files(write("a", ["a", "b", "c"], ["x", "y", "z"]))
    assert [len(split) for split in (corpus.train, corpus.valid, corpus.test)] == [1, 1, 1]
    with pytest.raises(TfmrError, match=r"at least 3 different source sentences in .*got 2"):
        load_files(write("b", ["a", "a", "b"], ["x", "y", "z"]))


def test_training_pairs_that_are_not_used_are_counted_with_their_lines(write: Write) -> None:
    sources, targets = numbered("eins", 60), numbered("one", 60)
    sources[1], targets[3], sources[4], targets[4] = "", " \t", "", ""
    sources[10], targets[10] = sources[9], targets[9]
    sources[20], targets[20] = "ja", "x" * 19
    sources[21], targets[21] = "ja", "x" * 18
    targets[30] = sources[30]
    corpus = load_files(write("a", sources, targets), max_ratio=9.0)
    dropped = findings(corpus, "train", dropped=True)
    assert {kind: lines(finding) for kind, finding in dropped.items()} == {
        "empty": ["a.de:2", "a.en:4", "a.de:5"],
        "duplicate": ["a.de:11"],
        "length ratio": ["a.de:21"],
    }
    assert "9 times as many bytes" in dropped["length ratio"].explanation
    assert "--max-ratio" in dropped["length ratio"].explanation
    pairs = [("ja", "x" * 18), ("eins 30", "eins 30"), ("eins 9", "one 9")]
    assert set(pairs) <= set(everything(corpus))
    assert len(everything(corpus)) == 60 - 5
    [untranslated] = [f for f in corpus.provenance.findings if f.kind == "untranslated"]
    assert (lines(untranslated), untranslated.dropped) == (["a.de:31"], False)
    assert str(dropped["empty"]).startswith("train: 3 not used, empty: a sentence is missing (")
    unlimited = load_files(write("a", sources, targets), max_ratio=0.0)
    assert ("ja", "x" * 19) in everything(unlimited)


def test_a_ratio_below_1_is_refused(write: Write) -> None:
    with pytest.raises(TfmrError, match="max_ratio to be at least 1, or 0"):
        load_files(write("a", ["a", "b", "c"], ["x", "y", "z"]), max_ratio=0.5)


def test_separate_validation_and_test_files(write: Write) -> None:
    train = write("train", [*numbered("eins", 20), "gut", "alt"], [*numbered("one", 20), "g", "o"])
    valid = write("dev", ["eins 3", "neu", "alt", ""], ["another", "new", "old", "nothing"])
    test = write("test", ["alt", "spät", "spät"], ["old", "late", "late"])
    corpus = load_files(train, "de", "en", valid=valid, test=test)
    assert corpus.valid == [("eins 3", "another"), ("neu", "new"), ("alt", "old")]
    assert corpus.test == [("alt", "old"), ("spät", "late"), ("spät", "late")]
    assert len(corpus.train) == 20
    assert not {"eins 3", "alt"} & {source for source, _ in corpus.train}
    leaked = findings(corpus, "train", dropped=True)["held out"]
    assert lines(leaked) == ["train.de:4", "train.de:22"]
    assert lines(findings(corpus, "valid", dropped=True)["empty"]) == ["dev.de:4"]
    assert lines(findings(corpus, "valid", dropped=False)["in the test set"]) == ["dev.de:3"]
    assert lines(findings(corpus, "test", dropped=False)["duplicate"]) == ["test.de:3"]
    places = corpus.provenance.places
    assert [place.rpartition("/")[2] for place in places["valid"]] == [
        "dev.de:1", "dev.de:2", "dev.de:3"
    ]  # fmt: skip
    assert corpus.provenance.read == {"train": 22, "valid": 4, "test": 3}


def test_a_set_without_files_is_held_out_of_the_rest(write: Write) -> None:
    train = write("train", numbered("eins", 100), numbered("one", 100))
    test = write("test", numbered("eins", 40), numbered("one", 40))
    corpus = load_files(train, test=test)
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [57, 3, 40]
    assert not set(corpus.valid) & set(corpus.test)
    assert corpus.test == list(zip(numbered("eins", 40), numbered("one", 40), strict=True))


def test_validation_files_without_a_pair_are_refused(write: Write) -> None:
    train = write("train", ["a", "b", "c"], ["x", "y", "z"])
    with pytest.raises(TfmrError, match=r"a sentence pair in .*dev.de.*, got empty lines"):
        load_files(train, valid=write("dev", ["", "a"], ["x", ""]))
    with pytest.raises(TfmrError, match="got 0 that can be used"):
        load_files(train, valid=train)


def test_lines_in_another_script_are_found(write: Write) -> None:
    sources, targets = numbered("eins", 40), numbered("один", 40)
    targets[7], targets[8], sources[9] = "one seven", "8 !", "Это eins"
    corpus = load_files(write("a", sources, targets))
    assert corpus.provenance.scripts == ("Latin", "Cyrillic")
    found = {f.kind: f for f in corpus.provenance.findings}
    assert {kind: lines(finding) for kind, finding in found.items()} == {
        "target script": ["a.de:8"]
    }
    assert "Cyrillic" in found["target script"].explanation


def test_all_lines_of_a_test_file_are_in_the_test_set(write: Write) -> None:
    corpus = load_test_files(write("t", ["a", "a", "b"], ["x", "x", ""]), "de", "en")
    assert (corpus.train, corpus.valid, corpus.test) == ([], [], [("a", "x"), ("a", "x")])
    assert lines(findings(corpus, "test", dropped=True)["empty"]) == ["t.en:3"]
    with pytest.raises(TfmrError, match="got empty lines"):
        load_test_files(write("t", [""], ["x"]))


# ---------------------------------------------------------------- streams


@pytest.fixture
def streamed(write: Write, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus that is above the limit for streaming, with a line that is not used."""
    monkeypatch.setattr(own_files, "STREAM_FROM", 150)
    return load_files(write("a", [*numbered("eins", 200), ""], numbered("one", 201)), "de", "en")


def test_large_files_are_streamed(streamed: Corpus) -> None:
    assert streamed.is_streamed
    train = list(streamed.train)
    assert train == list(streamed.train), "can be iterated again"
    assert len(train) == len(streamed.train) == 180
    assert streamed.valid[0] not in streamed.train
    assert sorted(everything(streamed)) == sorted(
        zip(numbered("eins", 200), numbered("one", 200), strict=True)
    )


def test_a_stream_has_the_pairs_of_the_lists(
    streamed: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "STREAM_FROM", 181)
    corpus = load_files([tmp_path / "a.de", tmp_path / "a.en"], "de", "en")
    assert isinstance(corpus.train, list)
    assert corpus.train == list(streamed.train)
    assert corpus.test == streamed.test


@pytest.mark.parametrize("count", [150, 300])
def test_files_that_change_are_reported(streamed: Corpus, write: Write, count: int) -> None:
    write("a", numbered("eins", count), numbered("one", count))
    with pytest.raises(TfmrError, match=r"no longer has 201 lines.*start again"):
        list(streamed.train)


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    for name, word in (("a", "eins"), ("b", "one")):
        text = "".join(f"{line}\n" for line in numbered(word, 20))
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    assert len(load_files([tmp_path / "a", tmp_path / "b"]).train) == 18
