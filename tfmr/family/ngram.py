"""n-gram language models: the baseline that a neural language model must beat."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.errors import TfmrError, require
from tfmr.special_tokens import BOS, EOS

Context = tuple[int, ...]


class NGram:
    r"""A language model of order ``n`` with interpolated Kneser-Ney smoothing.

    A token is predicted from the ``n - 1`` tokens before it. With the count :math:`c`, the discount
    :math:`D` and the number :math:`N` of different tokens after a context,

    .. math:: p(w \mid h) = \frac{\max(c(h, w) - D, 0) + D\,N(h)\,p(w \mid h')}{c(h)}

    where :math:`h'` is the context without its first token. Below order ``n``, the count is the
    number of different tokens before the n-gram; the lowest distribution is uniform. Chen and
    Goodman (1999), section 2.7; the discount of each order is :math:`n_1 / (n_1 + 2n_2)`, from the
    numbers of n-grams that occur once and twice.

    Args:
        texts: the training texts; ``BOS`` and ``EOS`` are added.
        order: ``n``; 1 predicts from frequencies only.
        vocab: number of tokens, special tokens included.

    Raises:
        TfmrError: if there is no text, or ``order`` or an id is out of range.
    """

    def __init__(self, texts: Iterable[Sequence[int]], order: int, vocab: int) -> None:
        require(order >= 1, f"the order of an n-gram model must be at least 1: got {order}")
        self.order = order
        self.vocab = vocab
        grams: Counter[Context] = Counter()
        for text in texts:
            grams.update(self._grams(text))
        if not grams:
            raise TfmrError("an n-gram model needs at least one text to count: got none")
        self._levels = []
        for level in range(order, 0, -1):
            self._levels.append(_Level(grams))
            grams = Counter(gram[1:] for gram in grams) if level > 1 else grams

    def prob(self, context: Context, token: int) -> float:
        """The probability of ``token`` after the ``order - 1`` tokens of ``context``."""
        p = 1 / self.vocab
        for level in reversed(self._levels):
            history = context[len(context) - level.size :]
            total = level.totals.get(history)
            if total:
                count = level.counts.get((*history, token), 0)
                reserved = level.discount * level.followers[history]
                p = (max(count - level.discount, 0.0) + reserved * p) / total
        return p

    def nats(self, text: Sequence[int]) -> float:
        """The cross-entropy of ``text`` and its ``EOS``: the sum over their tokens, in nats."""
        padded = self._padded(text)
        start = self.order - 1
        return -sum(
            math.log(self.prob(tuple(padded[end - start : end]), padded[end]))
            for end in range(start, len(padded))
        )

    def fill(self, text: Sequence[int], position: int) -> Float[Tensor, "vocab"]:
        """The distribution of the token at ``position``, given all others of ``text``.

        It is proportional to the probability of the text with each token of the vocabulary at this
        position. Only the n-grams that contain the position matter: it depends on ``order - 1``
        tokens on each side.

        Raises:
            TfmrError: if the text has no such position.
        """
        require(
            0 <= position < len(text),
            f"position must be from 0 to {len(text) - 1}: got {position}",
        )
        padded = self._padded(text)
        start = self.order - 1
        at = len(padded) - len(text) - 1 + position
        last = min(at + start, len(padded) - 1)
        scores = torch.empty(self.vocab, dtype=torch.float64)
        for token in range(self.vocab):
            padded[at] = token
            scores[token] = sum(
                math.log(self.prob(tuple(padded[end - start : end]), padded[end]))
                for end in range(at, last + 1)
            )
        return scores.softmax(0).float()

    def _grams(self, text: Sequence[int]) -> Iterable[Context]:
        padded = self._padded(text)
        ends = range(self.order, len(padded) + 1)
        return (tuple(padded[end - self.order : end]) for end in ends)

    def _padded(self, text: Sequence[int]) -> list[int]:
        outside = [token for token in text if not 0 <= token < self.vocab]
        require(not outside, f"ids must be from 0 to {self.vocab - 1}: got {outside[:3]}")
        return [*[BOS] * (self.order - 1), *text, EOS]


class _Level:
    """The counts of one order."""

    def __init__(self, counts: Counter[Context]) -> None:
        self.counts = counts
        self.size = len(next(iter(counts))) - 1
        self.totals: Counter[Context] = Counter()
        self.followers: defaultdict[Context, int] = defaultdict(int)
        for gram, count in counts.items():
            self.totals[gram[:-1]] += count
            self.followers[gram[:-1]] += 1
        once, twice = (sum(c == n for c in counts.values()) for n in (1, 2))
        # Ney's estimate is undefined or 1 if no n-gram occurs twice.
        self.discount = once / (once + 2 * twice) if once and twice else 0.5
