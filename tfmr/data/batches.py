"""From token ids to padded tensors: collation, the right shift, and batches by length.

Batches have a maximum number of tokens instead of a fixed number of sentences, and pairs of similar
length are batched together (Vaswani et al., 2017, section 5.1: "sentence pairs were batched
together by approximate sequence length"), which minimises padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor
from torch.nn import functional as F

from tfmr.data.tokenfile import IdPair, Ids, TokenFile, check_not_empty
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import BOS, EOS, PAD

__all__ = ["Batch", "Batches", "IdPair", "collate", "pad", "token_lengths"]


@dataclass(frozen=True)
class Batch:
    """A batch of sentence pairs, padded with PAD to the longest source and the longest target.

    ``source`` is (batch, source). ``target_in``, the decoder input, and ``target_out``, the tokens
    to predict, are (batch, target). ``target_in`` is ``target_out`` shifted right by one position
    with BOS in front (Vaswani et al., 2017, Figure 1, "outputs (shifted right)"), so that position
    ``pos`` of ``target_in`` holds the token before position ``pos`` of ``target_out``. For the
    target y0 y1 y2:

    .. code-block:: text

        target_in    BOS  y0  y1  y2
        target_out   y0   y1  y2  EOS
    """

    source: Int[Tensor, "batch source"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]

    @property
    def n_tokens(self) -> int:
        """Number of target tokens in the loss: the positions of ``target_out`` that are not PAD."""
        return int((self.target_out != PAD).sum())

    @property
    def padding_share(self) -> float:
        """The fraction of all positions, source and target, that are PAD."""
        padding = (self.source == PAD).sum() + (self.target_out == PAD).sum()
        return float(padding) / (self.source.numel() + self.target_out.numel())

    def rounded(self, lengths: int, rows: int, max_length: int) -> "Batch":
        """The batch with more padding: its lengths are multiples of ``lengths``, if they fit.

        A length that would exceed ``max_length`` becomes ``max_length``. The last sentence is
        repeated, without tokens to predict, until the number of sentences is a multiple of
        ``rows``. So an epoch has few shapes, for each of which a GPU has to prepare its work.
        """
        more = -len(self.source) % rows

        def rounded(ids: Tensor) -> Tensor:
            length = min(-(-ids.shape[1] // lengths) * lengths, max_length)
            return F.pad(ids, (0, max(0, length - ids.shape[1])), value=PAD)

        source, target_in = (
            torch.cat([rounded(ids), rounded(ids[-1:]).expand(more, -1)])
            for ids in (self.source, self.target_in)
        )
        target_out = F.pad(rounded(self.target_out), (0, 0, 0, more), value=PAD)
        return Batch(source, target_in, target_out)

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """``source``, ``target_in`` and ``target_out``."""
        return self.source, self.target_in, self.target_out

    def to(self, device: torch.device | str) -> "Batch":
        """A copy of the batch on ``device``; a copy to a GPU does not wait for its work."""
        return Batch(*(pinned(x, device).to(device, non_blocking=True) for x in self.tensors()))


def pinned(x: Tensor, device: torch.device | str) -> Tensor:
    """``x`` in pinned memory, from which a copy to a GPU does not wait, if ``device`` is one."""
    return x.pin_memory() if torch.device(device).type == "cuda" and not x.is_cuda else x


def pad(sentences: Sequence[Ids]) -> Int[Tensor, "batch length"]:
    """Stack token id sequences into one tensor (batch, length), padded with PAD on the right.

    Raises :class:`TfmrError` if there is no sequence, or one without tokens: attention over
    padding only is undefined.
    """
    if not sentences:
        raise TfmrError("expected at least one sentence to pad, got none")
    lengths = [len(sentence) for sentence in sentences]
    if 0 in lengths:
        raise TfmrError(
            f"expected sentences with at least one token, but sentence {lengths.index(0)} of the "
            "batch has none; leave it out"
        )
    ids = np.full((len(sentences), max(lengths)), PAD)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = sentence
    return torch.from_numpy(ids)


def collate(pairs: Sequence[IdPair]) -> Batch:
    """Make one :class:`Batch` of ``(source, target)`` token ids without BOS and EOS."""
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
    """The pairs of a corpus, arranged into new batches for every epoch.

    The pairs are sorted by target length, then by source length (ascending for odd target lengths
    and descending for even ones, which keeps adjacent source lengths close), then at random, so
    that batches differ between epochs. The sorted sequence is cut into batches such that
    the padded size of a batch, its number of pairs times its longest sentence (source or target),
    is at most ``tokens_per_batch``. Then the batches are shuffled. The result depends on
    ``(seed, k)`` only; torch's global random state is neither used nor changed.

    A length is the number of positions in the model: the source tokens, or BOS and the target
    tokens. A pair with a length above ``max_length`` cannot be used for training and is left out;
    ``dropped`` is the number of these pairs, which the caller should report.

    ``pairs`` is a list or a :class:`~tfmr.data.tokenfile.TokenFile`; both give the same batches.
    Only the index of each pair is held in memory, in four bytes; the ids of a pair are read when
    its batch is made.

    Raises :class:`TfmrError` if a sentence is empty or does not fit into a batch, or if all pairs
    are too long.
    """

    def __init__(
        self, pairs: Sequence[IdPair], tokens_per_batch: int, seed: int, max_length: int
    ) -> None:
        self.pairs = pairs
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        source, target = token_lengths(pairs).T
        rows = np.flatnonzero(np.maximum(source, target) <= max_length)
        self.dropped = len(pairs) - len(rows)
        """Number of pairs that are left out because a sentence is longer than ``max_length``."""
        require(
            len(rows) > 0,
            f"expected sentence pairs of at most {max_length} tokens, got none among {len(pairs)}; "
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
        """Yield the batches of epoch ``k``, which contain every pair once.

        Only the batches ``start``, ``start + stride``, ``start + 2 * stride``, … are made:
        ``start`` resumes a run within an epoch, ``stride`` distributes an epoch over processes.
        """
        rng = np.random.default_rng([self.seed % 2**64, k])
        rows = self._rows.copy()
        for begin, end in pairwise([*self._ties, len(rows)]):
            rng.shuffle(rows[begin:end])
        for number in rng.permutation(self.count())[start::stride]:
            begin, end = self._cuts[number : number + 2]
            yield collate([self.pairs[row] for row in rows[begin:end].tolist()])

    def count(self) -> int:
        """The number of batches in an epoch, the same in every epoch."""
        return len(self._cuts) - 1

    def padding_share(self) -> float:
        """The fraction of all positions in an epoch that are padding; the same in every epoch."""
        return self._padding_share

    def _cut(self, longest: Integer[np.ndarray, " pairs"]) -> Integer[np.ndarray, " cuts"]:
        """The start of each batch in the sorted sequence, and the end of the last one.

        ``longest`` is the length of the longer side of each pair.
        """
        maximum = int(longest.max())
        require(
            maximum <= self.tokens_per_batch,
            f"expected sentences of at most tokens_per_batch={self.tokens_per_batch} tokens, got "
            f"one of {maximum}; set tokens_per_batch to {maximum} or more, or max_length to "
            f"{self.tokens_per_batch} or less",
        )
        cuts = [0]
        while cuts[-1] < len(longest):
            start = cuts[-1]
            ahead = longest[start : start + self.tokens_per_batch // longest[start]]
            sizes = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
            cuts.append(start + int(np.searchsorted(sizes, self.tokens_per_batch, side="right")))
        return np.array(cuts)


def token_lengths(pairs: Sequence[IdPair]) -> Integer[np.ndarray, "pairs 2"]:
    """The positions of each pair in the model: source tokens, and target tokens plus one.

    Raises :class:`TfmrError` if a sentence is empty.
    """
    if isinstance(pairs, TokenFile):
        lengths = pairs.lengths()
    else:
        lengths = np.array([(len(s), len(t)) for s, t in pairs], np.int32).reshape(-1, 2)
    check_not_empty(lengths)
    lengths[:, 1] += 1
    return lengths
