"""From sentences to tensors: padding, the shift to the right, and batches of like length.

A batch is filled by tokens, not by sentences (Vaswani et al., 2017, section 5.1: "sentence pairs
were batched together by approximate sequence length"), so that little of it is padding.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.errors import require
from tfmr.ids import BOS, EOS, PAD

IdPair = tuple[Sequence[int], Sequence[int]]


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


def pad(sentences: Sequence[Sequence[int]]) -> Int[Tensor, "batch length"]:
    """Stack sentences of ids into one tensor (batch, length), with PAD after the shorter ones.

    Raises :class:`TfmrError` if there is no sentence, or one without a token: attention over
    padding alone has no answer.
    """
    require(len(sentences) > 0, "expected at least one sentence to pad, got none")
    for row, sentence in enumerate(sentences):
        require(len(sentence) > 0, f"sentence {row} of the batch has no tokens; leave it out")
    longest = max(len(sentence) for sentence in sentences)
    return torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in sentences])


def collate(pairs: Sequence[IdPair]) -> Batch:
    """Make one :class:`Batch` of ``(source, target)`` pairs of ids without BOS and EOS."""
    return Batch(
        source=pad([source for source, _ in pairs]),
        target_in=pad([[BOS, *target] for _, target in pairs]),
        target_out=pad([[*target, EOS] for _, target in pairs]),
    )


class Batches:
    """The pairs of a corpus, cut anew into batches for every epoch.

    The pairs are sorted by the length of the target, then of the source (rising and falling by
    turns, so that no step between neighbours is long), then by seeded chance, so that neighbours
    change from one epoch to the next. The sorted row is cut wherever the next pair would push the
    padded size of the batch, its rows times its longest sentence of either side, over
    ``tokens_per_batch``; and the batches are shuffled. Everything follows from ``(seed, k)``
    alone: torch's own random numbers are neither used nor moved.

    Lengths count what the model sees: the source, or the target and its BOS. Pairs in which
    either is longer than ``max_length`` are left out; ``dropped`` says how many.

    Raises :class:`TfmrError` if a pair fits no batch, has an empty side, or if none is left.
    """

    def __init__(
        self, pairs: Sequence[IdPair], tokens_per_batch: int, seed: int, max_length: int
    ) -> None:
        for line, (source, target) in enumerate(pairs, start=1):
            side = "source" if not source else "target"
            require(
                len(source) > 0 and len(target) > 0,
                f"the {side} of pair {line} has no tokens; leave empty lines out of the corpus",
            )
        self.pairs = [pair for pair in pairs if max(_lengths(pair)) <= max_length]
        self.dropped = len(pairs) - len(self.pairs)
        require(
            len(self.pairs) > 0,
            f"expected sentence pairs of at most {max_length} tokens, but none of {len(pairs)} is; "
            "raise max_length or use a larger vocabulary",
        )
        longest = max(max(_lengths(pair)) for pair in self.pairs)
        require(
            longest <= tokens_per_batch,
            f"a batch of {tokens_per_batch} tokens cannot hold the longest sentence, {longest} "
            f"tokens; set tokens_per_batch to {longest} or more, "
            f"or max_length to {tokens_per_batch} or less",
        )
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed

    def epoch(self, k: int) -> Iterator[Batch]:
        """Yield the batches of epoch ``k``: every pair once, the same for the same ``k``."""
        for rows in self._plan(k):
            yield collate([self.pairs[row] for row in rows])

    def count(self, k: int) -> int:
        """The number of batches in epoch ``k``."""
        return len(self._plan(k))

    def padding_share(self, k: int) -> float:
        """The share of all positions in epoch ``k`` that are padding, counted without tensors."""
        useful = sum(sum(_lengths(pair)) for pair in self.pairs)
        padded = 0
        for rows in self._plan(k):
            sides = zip(*(_lengths(self.pairs[row]) for row in rows), strict=True)
            padded += len(rows) * sum(max(side) for side in sides)
        return 1 - useful / padded

    def _plan(self, k: int) -> list[list[int]]:
        """Which pairs go together in epoch ``k``."""
        chance = random.Random(f"{self.seed}/{k}")
        keys = []
        for row, pair in enumerate(self.pairs):
            source, target = _lengths(pair)
            keys.append((target, source if target % 2 else -source, chance.random(), row))
        plan: list[list[int]] = []
        longest = 0
        for _, _, _, row in sorted(keys):
            length = max(_lengths(self.pairs[row]))
            longest = max(longest, length)
            if not plan or (len(plan[-1]) + 1) * longest > self.tokens_per_batch:
                plan.append([])
                longest = length
            plan[-1].append(row)
        chance.shuffle(plan)
        return plan


def _lengths(pair: IdPair) -> tuple[int, int]:
    """What the model sees of a pair: the source, and the target with one more token, BOS or EOS."""
    source, target = pair
    return len(source), len(target) + 1
