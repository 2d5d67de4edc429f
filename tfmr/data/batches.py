"""From sentences to tensors: padding, the shift to the right, and batches of like length.

A batch is filled by tokens, not by sentences (Vaswani et al., 2017, section 5.1: "sentence pairs
were batched together by approximate sequence length"), so that little of it is padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor
from torch.nn import functional as F

from tfmr.data.tokenfile import IdPair, Ids, TokenFile, refuse_empty
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import BOS, EOS, PAD

__all__ = ["Batch", "Batches", "IdPair", "collate", "pad"]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs side by side, padded with PAD to the longest of each side.

    ``source`` is (batch, source). ``target_in`` and ``target_out`` are (batch, target): the same
    sentence twice, the first shifted one place to the right (Vaswani et al., 2017, Figure 1,
    "outputs (shifted right)"): BOS is put in front and the last token drops out. So position
    ``pos`` of ``target_in`` holds what comes before the token that position ``pos`` of
    ``target_out`` asks for. For the target y0 y1 y2::

        target_in    BOS  y0  y1  y2
        target_out   y0   y1  y2  EOS
    """

    source: Int[Tensor, "batch source"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]

    @property
    def n_tokens(self) -> int:
        """How many target tokens the loss counts: all of ``target_out`` but its padding."""
        return int((self.target_out != PAD).sum())

    @property
    def padding_share(self) -> float:
        """The share of all positions, source and target, that hold nothing but PAD."""
        padding = (self.source == PAD).sum() + (self.target_out == PAD).sum()
        return float(padding) / (self.source.numel() + self.target_out.numel())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on ``device``."""
        return Batch(self.source.to(device), self.target_in.to(device), self.target_out.to(device))


def pad(sentences: Sequence[Ids]) -> Int[Tensor, "batch length"]:
    """Stack sentences of ids into one tensor (batch, length), with PAD after the shorter ones.

    Raises :class:`TfmrError` if there is no sentence, or one without a token: attention over
    padding alone has no answer.
    """
    require(len(sentences) > 0, "expected at least one sentence to pad, got none")
    lengths = [len(sentence) for sentence in sentences]
    if 0 in lengths:
        raise TfmrError(f"sentence {lengths.index(0)} of the batch has no tokens; leave it out")
    ids = np.full((len(sentences), max(lengths)), PAD)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = sentence
    return torch.from_numpy(ids)


def collate(pairs: Sequence[IdPair]) -> Batch:
    """Make one :class:`Batch` of ``(source, target)`` pairs of ids without BOS and EOS."""
    target = pad([target for _, target in pairs])
    target_out = F.pad(target, (0, 1), value=PAD)
    ends = torch.tensor([len(target) for _, target in pairs])
    target_out[torch.arange(len(pairs)), ends] = EOS
    return Batch(
        source=pad([source for source, _ in pairs]),
        target_in=F.pad(target, (1, 0), value=BOS),
        target_out=target_out,
    )


class Batches:
    """The pairs of a corpus, dealt into batches anew for every epoch.

    The pairs are sorted by the length of the target, then of the source (rising and falling by
    turns, so that no step between neighbours is long), then by seeded chance, so that neighbours
    change from one epoch to the next. The sorted row is cut wherever the next pair would push the
    padded size of the batch, its rows times its longest sentence of either side, over
    ``tokens_per_batch``; and the batches are shuffled. Everything follows from ``(seed, k)``
    alone: torch's own random numbers are neither used nor moved.

    Lengths count what the model sees: the source, or the target and its BOS. Pairs in which
    either is longer than ``max_length`` are left out; ``dropped`` says how many.

    ``pairs`` may be a list or a :class:`~tfmr.data.tokenfile.TokenFile`; the same pairs give the
    same batches. Only the number of each pair is kept here, in four bytes, and its ids are asked
    for when its batch is made.

    Raises :class:`TfmrError` if a pair fits no batch, has an empty side, or if none is left.
    """

    def __init__(
        self, pairs: Sequence[IdPair], tokens_per_batch: int, seed: int, max_length: int
    ) -> None:
        self.pairs = pairs
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        source, target = _lengths(pairs)
        rows = np.flatnonzero(np.maximum(source, target) <= max_length)
        self.dropped = len(pairs) - len(rows)
        require(
            len(rows) > 0,
            f"expected sentence pairs of at most {max_length} tokens, but none of {len(pairs)} is; "
            "raise max_length or use a larger vocabulary",
        )
        source, target = source[rows], target[rows]
        order = np.lexsort((np.where(target % 2 == 1, source, -source), target))
        self._rows, source, target = rows[order].astype(np.uint32), source[order], target[order]
        self._ties = np.flatnonzero(np.diff(source, prepend=0) | np.diff(target, prepend=0))
        self._cuts = self._cut(np.maximum(source, target))
        useful = source.sum() + target.sum()
        longest = [np.maximum.reduceat(side, self._cuts[:-1]) for side in (source, target)]
        self._padding_share = 1 - float(useful / (np.diff(self._cuts) @ sum(longest)))

    def epoch(self, k: int, start: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches of epoch ``k``: every pair once, the same for the same ``k``.

        Those before number ``start`` are passed over without being made, and from there on only
        every ``stride``-th one is: so a run goes on in the middle of an epoch, and several
        processes share one.
        """
        chance = np.random.default_rng([self.seed % 2**64, k])
        rows = self._rows.copy()
        for begin, end in pairwise([*self._ties, len(rows)]):
            chance.shuffle(rows[begin:end])
        for number in chance.permutation(self.count())[start::stride]:
            begin, end = self._cuts[number : number + 2]
            yield collate([self.pairs[row] for row in rows[begin:end].tolist()])

    def count(self) -> int:
        """The number of batches in an epoch: lengths decide it, so every epoch has as many."""
        return len(self._cuts) - 1

    def padding_share(self) -> float:
        """The share of all positions in an epoch that are padding, the same in every epoch."""
        return self._padding_share

    def _cut(self, longest: Integer[np.ndarray, " pairs"]) -> Integer[np.ndarray, " cuts"]:
        """Where each batch begins in the sorted row, and where the last one ends.

        ``longest`` is the length of the longer side of each pair.
        """
        most = int(longest.max())
        require(
            most <= self.tokens_per_batch,
            f"a batch of {self.tokens_per_batch} tokens cannot hold the longest sentence, {most} "
            f"tokens; set tokens_per_batch to {most} or more, "
            f"or max_length to {self.tokens_per_batch} or less",
        )
        cuts = [0]
        while cuts[-1] < len(longest):
            at = cuts[-1]
            ahead = longest[at : at + self.tokens_per_batch // longest[at]]
            sizes = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
            cuts.append(at + int(np.searchsorted(sizes, self.tokens_per_batch, side="right")))
        return np.array(cuts)


def _lengths(
    pairs: Sequence[IdPair],
) -> tuple[Integer[np.ndarray, " pairs"], Integer[np.ndarray, " pairs"]]:
    """What the model sees of each pair: the source, and the target with one more, BOS or EOS."""
    if isinstance(pairs, TokenFile):
        lengths = pairs.lengths()
    else:
        lengths = np.array([(len(s), len(t)) for s, t in pairs], np.int32).reshape(-1, 2)
    refuse_empty(lengths)
    return lengths[:, 0], lengths[:, 1] + 1
