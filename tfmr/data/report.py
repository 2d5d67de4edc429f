"""A report on a corpus: its sets, the lengths of their sentences, and what was found in them.

From Python::

    from tfmr.data import corpora
    from tfmr.data.report import DataReport
    from tfmr.data.tokenizer import Tokenizer

    corpus = corpora.load("pocket", "en-fr")
    tokenizer = Tokenizer.train_bpe((text for pair in corpus.train for text in pair), 500)
    print(DataReport.of(corpus, tokenizer, max_length=128))

:func:`tfmr.data.own_files.load_files` loads your own files instead.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Integer

from tfmr.data.batches import token_lengths
from tfmr.data.corpus import Corpus, Finding, SentencePair
from tfmr.data.fitting import fit_held_out
from tfmr.data.tokenizer import Tokenizer

PERCENTILES = {"5 %": 5, "median": 50, "95 %": 95, "longest": 100}
"""The statistics of the lengths that a report states."""
SHOWN_CHARACTERS = 20
SIDES = ("source", "target")

Lengths = Integer[np.ndarray, "pairs 2"]


@dataclass(frozen=True)
class DataReport:
    """What should be known of a corpus before a model is trained on it."""

    read: Mapping[str, int]
    """Number of pairs in the files of each set; a set that was held out has no files."""
    used: Mapping[str, int]
    """Number of pairs of each set that are used."""
    lengths: Mapping[str, Mapping[str, Mapping[str, int]]]
    """By set, side and :data:`PERCENTILES`: tokens of the source sentence, and of the target
    sentence with EOS."""
    scripts: tuple[str, str]
    """The script of most source sentences, and of most target sentences, such as "Latin"."""
    unseen_characters: Mapping[str, int]
    """How often each character occurs that the tokenizer has not seen, the most frequent first."""
    findings: tuple[Finding, ...]
    """Pairs that are not used and why, and pairs that a user should look at."""
    histograms: Mapping[str, Mapping[str, Mapping[int, int]]] = field(default_factory=dict)
    """By set and side: the number of sentences of each length in tokens."""

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        tokenizer: Tokenizer,
        max_length: int,
        *,
        train_lengths: Lengths | None = None,
        own_tokenizer: bool = True,
    ) -> "DataReport":
        """The report on a corpus.

        Args:
            corpus: the corpus.
            tokenizer: of the model to be trained.
            max_length: maximum number of tokens of the model.
            train_lengths: tokens of each training pair
                (:func:`~tfmr.data.batches.token_lengths`), if they are known already.
            own_tokenizer: whether the tokenizer was trained on this training set. It has then seen
                all its characters; otherwise, those that are in one of its tokens.

        Raises:
            TfmrError: if no pair of the validation or the test set can be used.
        """
        corpus = fit_held_out(corpus, tokenizer, max_length)
        lengths = {"valid": _lengths(corpus.valid, tokenizer)}
        lengths["test"] = _lengths(corpus.test, tokenizer)
        train = _lengths(corpus.train, tokenizer) if train_lengths is None else train_lengths
        fits = train.max(axis=1) <= max_length
        too_long = int((~fits).sum())
        explanation = f"a sentence has more than {max_length} tokens (model.max_length)"
        findings = [Finding("train", "too long", explanation, too_long, (), dropped=True)]
        sets: dict[str, Iterable[SentencePair]] = {"valid": corpus.valid, "test": corpus.test}
        if own_tokenizer:
            known = {character for pair in corpus.train for text in pair for character in text}
        else:
            known = tokenizer.learned_characters()
            sets["train"] = corpus.train
        used = {"train": train[fits], **lengths}
        unseen: Counter[str] = Counter()
        for pairs in sets.values():
            for pair in pairs:
                for text in pair:
                    unseen.update(c for c in text if c not in known and c != " ")
        return cls(
            read=dict(corpus.provenance.read),
            used={name: len(values) for name, values in used.items()},
            lengths={
                name: {
                    side: {label: int(np.percentile(values[:, at], p, method="nearest"))
                           for label, p in PERCENTILES.items()}
                    for at, side in enumerate(SIDES)
                }
                for name, values in used.items()
            },
            histograms={
                name: {side: dict(sorted(Counter(values[:, at].tolist()).items()))
                       for at, side in enumerate(SIDES)}
                for name, values in used.items()
            },
            scripts=corpus.provenance.scripts,
            unseen_characters=dict(unseen.most_common()),
            findings=corpus.provenance.findings + tuple(findings if too_long else ()),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    def table(self) -> str:
        """The sets and the lengths of their sentences, as a table in Markdown."""
        statistics = ", ".join(PERCENTILES)
        rows = [
            f"| set | pairs read | used | source tokens ({statistics}) | target tokens |",
            "| --- | ---: | ---: | --- | --- |",
        ]
        for name, sides in self.lengths.items():
            held_out = "of train" if self.read else "–"
            read = f"{self.read[name]:,}" if name in self.read else held_out
            cells = [", ".join(map(str, side.values())) for side in sides.values()]
            rows.append(f"| {name} | {read} | {self.used[name]:,} | {' | '.join(cells)} |")
        return "\n".join(rows)

    def remarks(self) -> list[str]:
        """One line for each finding, and for the scripts and the unseen characters."""
        lines = [str(finding) for finding in self.findings]
        if any(self.scripts):
            source, target = (script or "none" for script in self.scripts)
            lines.append(f"script of most sentences: source {source}, target {target}")
        if self.unseen_characters:
            shown = [f"{c} ({n})" for c, n in self.unseen_characters.items()][:SHOWN_CHARACTERS]
            more = ", …" if len(self.unseen_characters) > SHOWN_CHARACTERS else ""
            lines.append(
                f"characters that the tokenizer has not seen: {len(self.unseen_characters)}, with "
                f"the number of times: {', '.join(shown)}{more}"
            )
        return lines

    def __str__(self) -> str:
        return "\n".join([self.table(), *self.remarks()])


def _lengths(pairs: Iterable[SentencePair], tokenizer: Tokenizer) -> Lengths:
    listed: Sequence[SentencePair] = list(pairs)
    sources = tokenizer.encode_batch([source for source, _ in listed])
    targets = tokenizer.encode_batch([target for _, target in listed])
    return token_lengths(list(zip(sources, targets, strict=True)))
