"""A corpus from a user's own files: read, filtered, and split into three sets.

The files are read twice. The first pass keeps a few numbers per pair (:class:`_Survey`), from
which the set of each pair follows, and whether it is used; the second pass collects the sentences.
So the training set of large files never has to fit into memory.
"""

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from jaxtyping import Bool, Integer

from tfmr.data.corpus import Corpus, Finding, Provenance, SentencePair, StreamedPairs, digest
from tfmr.data.script import main_script
from tfmr.data.tables import Row, Table
from tfmr.errors import TfmrError, require

__all__ = ["load_files", "load_test_files"]

NAME = "your files"
TEST_SET, VALID_SET = "test-set.tsv", "validation-set.tsv"
"""The files of a run directory that hold the sets with which the run was evaluated."""
LICENCE = "your own files: their licence is not known to this package."
STREAM_FROM = 200_000
"""Training sets with at least this many pairs are streamed by :func:`load_files`."""
HELD_OUT_SHARE = 0.05
"""Fraction of the source sentences that are held out for the validation set, and for the test
set."""
MOST_HELD_OUT = 2000
"""Maximum number of source sentences of a set that is held out."""
MAX_RATIO = 9.0
"""The default limit for the ratio of lengths; the same as in the scripts of Moses."""
SHOWN_TRAINING_PLACES = 20
"""Maximum number of training pairs whose lines a :class:`Finding` lists."""

Paths = Sequence[str | os.PathLike[str]]
Mask = Bool[np.ndarray, " rows"]

_EMPTY, _RATIO, _DUPLICATE, _HELD_OUT, _VALID, _TEST, _TRAIN = range(7)
_DROPPED = {
    _EMPTY: ("empty", "a sentence is missing"),
    _RATIO: ("length ratio", "one side has more than {max_ratio:g} times as many bytes as the other"
             " (--max-ratio)"),
    _DUPLICATE: ("duplicate", "the same pair is on an earlier line"),
    _HELD_OUT: ("held out", "the source sentence is in the validation or the test set"),
}  # fmt: skip


@dataclass
class _Survey:
    """What is known of each row of a table after the first pass."""

    table: Table
    lines: "array[int]" = field(default_factory=lambda: array("I"))
    sources: "array[int]" = field(default_factory=lambda: array("Q"))
    """A hash of each source sentence. In 10 million sentences, two that differ have the same hash
    with a probability of 3 in a million."""
    pairs: "array[int]" = field(default_factory=lambda: array("Q"))
    """A hash of each pair."""
    ratios: "array[float]" = field(default_factory=lambda: array("f"))
    """The ratio of the lengths in bytes, at least 1; 0 if a side is empty."""
    untranslated: "array[int]" = field(default_factory=lambda: array("B"))
    scripts: "array[int]" = field(default_factory=lambda: array("B"))
    """The script of source and target of each row, alternating: an index of ``names``."""
    names: dict[str, int] = field(default_factory=lambda: {"": 0})
    empty_places: dict[int, str] = field(default_factory=dict)
    """The places of the rows with an empty side."""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.table):
            source, target = row.pair
            self.lines.append(row.line)
            self.sources.append(int.from_bytes(digest(source)[:8], "big"))
            pair = blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
            self.pairs.append(int.from_bytes(pair, "big"))
            shorter, longer = sorted((len(source.encode()), len(target.encode())))
            self.ratios.append(longer / shorter if shorter else 0.0)
            self.untranslated.append(source == target)
            for text in row.pair:
                self.scripts.append(self.names.setdefault(main_script(text), len(self.names)))
            if not shorter:
                self.empty_places[number] = self.table.place(row)

    def __len__(self) -> int:
        return len(self.lines)

    def is_empty(self) -> Mask:
        """The rows with an empty side."""
        empty: Mask = np.equal(np.array(self.ratios), 0)
        return empty

    def places(self, rows: Integer[np.ndarray, " rows"]) -> tuple[str, ...]:
        """File and line of some rows."""
        return tuple(
            self.empty_places.get(row) or self.table.place(None, self.lines[row])
            for row in rows.tolist()
        )

    def script(self, side: int, used: Mask) -> str:
        """The script of most sentences of a side."""
        counts = np.bincount(np.array(self.scripts)[side::2][used], minlength=len(self.names))
        counts[0] = 0
        return list(self.names)[int(counts.argmax())]

    def is_other_script(self, side: int, script: str) -> Mask:
        """The rows in which most letters of a side are of another script than ``script``."""
        codes = np.array(self.scripts)[side::2]
        other: Mask = (codes != 0) & (codes != self.names.get(script, 0)) & bool(script)
        return other


def load_files(
    files: Paths,
    source: str = "source",
    target: str = "target",
    *,
    valid: Paths = (),
    test: Paths = (),
    header: bool = False,
    max_ratio: float = MAX_RATIO,
) -> Corpus:
    """Load a corpus from two aligned text files, or from one TSV or CSV file.

    ``source`` and ``target`` are the languages. Without files for the validation or the test set,
    5 % of the different source sentences, at most :data:`MOST_HELD_OUT`, are held out for it, with
    all their translations. The choice depends on the SHA-256 of the sentence, so it is the same on
    every machine.

    Of the training pairs, these are not used: pairs with an empty side; pairs with more than
    ``max_ratio`` times as many bytes on one side as on the other (0 means no limit); all but the
    first of equal pairs; pairs whose source sentence is in the validation or the test set. Of the
    validation and test pairs, only those with an empty side are not used. All are counted in the
    corpus's :class:`~tfmr.data.corpus.Provenance`, with their lines.

    Training sets of at least :data:`STREAM_FROM` pairs are streamed: every iteration reads the
    files again.

    Raises :class:`TfmrError` as :class:`~tfmr.data.tables.Table` does, or if a set would be empty.
    """
    require(
        max_ratio == 0 or max_ratio >= 1,
        f"expected max_ratio to be at least 1, or 0 for no limit, got {max_ratio}",
    )
    columns = (source, target)
    survey = _Survey(Table(files, columns, header=header))
    given: dict[str, _Survey] = {
        split: _Survey(Table(paths, columns, header=header))
        for split, paths in (("valid", valid), ("test", test))
        if paths
    }
    codes = _assign(survey, given, max_ratio)
    scripts = (survey.script(0, codes == _TRAIN), survey.script(1, codes == _TRAIN))
    findings = _dropped_training_pairs(survey, codes, max_ratio)
    findings += _properties(survey, "train", codes == _TRAIN, scripts)
    held_out: dict[str, list[SentencePair]] = {}
    places: dict[str, tuple[str, ...]] = {}
    for split, code in (("valid", _VALID), ("test", _TEST)):
        at = given.get(split)
        used = codes == code if at is None else ~at.is_empty()
        if at is not None:
            findings += _dropped_held_out_pairs(at, split)
        at = at or survey
        findings += _properties(at, split, used, scripts)
        if split == "valid" and "test" in given:
            findings += _shared(at, used, given["test"])
        held_out[split] = [row.pair for row in _selected(at, used)]
        places[split] = at.places(np.flatnonzero(used))
        require(bool(held_out[split]), f"expected a sentence pair in {at.table}, got empty lines")
    return Corpus(
        name=NAME,
        source=source,
        target=target,
        licence=LICENCE,
        train=_training_pairs(survey, codes == _TRAIN),
        valid=held_out["valid"],
        test=held_out["test"],
        provenance=Provenance(
            files={"train": _names(files), "valid": _names(valid), "test": _names(test)},
            read={split: len(at) for split, at in {"train": survey, **given}.items()},
            places=places,
            scripts=scripts,
            findings=tuple(findings),
        ),
    )


def load_test_files(
    files: Paths, source: str = "source", target: str = "target", *, header: bool = False
) -> Corpus:
    """Load files as :func:`load_files` does, with all their pairs in the test set.

    Pairs with an empty side are not used, and are among the findings.

    Raises :class:`TfmrError` as :class:`~tfmr.data.tables.Table` does, or if no pair is left.
    """
    survey = _Survey(Table(files, (source, target), header=header))
    used = ~survey.is_empty()
    require(bool(used.any()), f"expected a sentence pair in {survey.table}, got empty lines")
    return Corpus(
        name=NAME,
        source=source,
        target=target,
        licence=LICENCE,
        train=[],
        valid=[],
        test=[row.pair for row in _selected(survey, used)],
        provenance=Provenance(
            files={"test": _names(files)},
            read={"test": len(survey)},
            places={"test": survey.places(np.flatnonzero(used))},
            findings=tuple(_dropped_held_out_pairs(survey, "test")),
        ),
    )


def _names(paths: Paths) -> tuple[str, ...]:
    return tuple(map(str, paths))


def _assign(
    survey: _Survey, given: dict[str, _Survey], max_ratio: float
) -> Integer[np.ndarray, " rows"]:
    """The set of each row of the training files, or the reason for which it is not used."""
    codes = np.full(len(survey), _TRAIN)
    sources, pairs = np.array(survey.sources), np.array(survey.pairs)
    ratios = np.array(survey.ratios)
    if max_ratio:
        codes[ratios > max_ratio] = _RATIO
    codes[survey.is_empty()] = _EMPTY
    rows = np.flatnonzero(codes == _TRAIN)
    _, first = np.unique(pairs[rows], return_index=True)
    codes[np.delete(rows, first)] = _DUPLICATE
    for other in given.values():
        usable = np.array(other.sources)[~other.is_empty()]
        codes[(codes == _TRAIN) & np.isin(sources, usable)] = _HELD_OUT
    keys = np.unique(sources[codes == _TRAIN])
    missing = [code for split, code in (("valid", _VALID), ("test", _TEST)) if split not in given]
    least = 1 + len(missing)
    require(
        len(keys) >= least,
        f"expected at least {least} different source sentences in {survey.table}, got {len(keys)} "
        "that can be used; the training set and each set that is held out need one",
    )
    held_out = max(1, min(round(HELD_OUT_SHARE * len(keys)), MOST_HELD_OUT))
    for number, code in enumerate(missing):
        chosen = keys[number * held_out : (number + 1) * held_out]
        codes[(codes == _TRAIN) & np.isin(sources, chosen)] = code
    return codes


def _selected(survey: _Survey, used: Mask) -> Iterator[Row]:
    """Read the files again, and yield the rows that are used."""
    rows = iter(survey.table)
    for is_used in used.tolist():
        row = next(rows, None)
        if row is None:
            break
        if is_used:
            yield row
    else:
        if next(rows, None) is None:
            return
    raise TfmrError(
        f"{survey.table} no longer has {len(survey):,} lines: files must not change while they "
        "are used; start again"
    )


def _training_pairs(survey: _Survey, used: Mask) -> list[SentencePair] | StreamedPairs:
    def read() -> Iterator[SentencePair]:
        return (row.pair for row in _selected(survey, used))

    count = int(used.sum())
    return list(read()) if count < STREAM_FROM else StreamedPairs(read, count)


def _finding(
    survey: _Survey, split: str, kind: str, explanation: str, found: Mask, *, dropped: bool
) -> list[Finding]:
    """A list with the finding, or an empty one if there are no such rows."""
    rows = np.flatnonzero(found)
    if len(rows) == 0:
        return []
    shown = rows[:SHOWN_TRAINING_PLACES] if split == "train" else rows
    return [Finding(split, kind, explanation, len(rows), survey.places(shown), dropped)]


def _dropped_training_pairs(
    survey: _Survey, codes: Integer[np.ndarray, " rows"], max_ratio: float
) -> list[Finding]:
    findings = []
    for code, (kind, explanation) in _DROPPED.items():
        text = explanation.format(max_ratio=max_ratio)
        findings += _finding(survey, "train", kind, text, codes == code, dropped=True)
    return findings


def _dropped_held_out_pairs(survey: _Survey, split: str) -> list[Finding]:
    return _finding(survey, split, *_DROPPED[_EMPTY], survey.is_empty(), dropped=True)


def _properties(survey: _Survey, split: str, used: Mask, scripts: tuple[str, str]) -> list[Finding]:
    """What should be known of the pairs that are used."""
    untranslated = np.array(survey.untranslated, bool)
    findings = _finding(
        survey, split, "untranslated", "source and target are equal", used & untranslated,
        dropped=False,
    )  # fmt: skip
    for side, name in enumerate(("source", "target")):
        findings += _finding(
            survey,
            split,
            f"{name} script",
            f"most letters of the {name} are not {scripts[side]}, as in most lines; is it in "
            "another language?",
            used & survey.is_other_script(side, scripts[side]),
            dropped=False,
        )
    rows = np.flatnonzero(used)
    _, first = np.unique(np.array(survey.pairs)[rows], return_index=True)
    repeated = np.zeros(len(survey), bool)
    repeated[np.delete(rows, first)] = True
    return findings + _finding(
        survey, split, "duplicate", "the same pair is on an earlier line", repeated, dropped=False
    )


def _shared(valid: _Survey, used: Mask, test: _Survey) -> list[Finding]:
    """The validation pairs whose source sentence is in the test set, too."""
    shared = used & np.isin(np.array(valid.sources), np.array(test.sources)[~test.is_empty()])
    return _finding(
        valid, "valid", "in the test set", "the source sentence is in the test set, too", shared,
        dropped=False,
    )  # fmt: skip
