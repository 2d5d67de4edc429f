"""The n-gram baseline: its probabilities, its cross-entropy, and filling a gap."""

import math
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.family.ngram import NGram
from tfmr.special_tokens import BOS, EOS

VOCAB = 9
TEXTS = [[4, 5, 6], [4, 5, 7], [4, 5, 6, 8], [8, 5, 6], [7]]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_probabilities_sum_to_one(order: int) -> None:
    model = NGram(TEXTS, order, VOCAB)
    for text in ([4, 5, 6], [6, 6, 6], [BOS, BOS, BOS], [8, 5, 3]):
        context = tuple(text[len(text) - order + 1 :])
        assert sum(model.prob(context, token) for token in range(VOCAB)) == pytest.approx(1)


def test_a_bigram_by_hand() -> None:
    """After 5: 6 three times, 7 once. Bigrams that occur once: 6, twice: 0, so D = 1/2."""
    model = NGram(TEXTS, 2, VOCAB)
    grams = [pair for text in TEXTS for pair in pairwise([BOS, *text, EOS])]
    once = {pair for pair in grams if grams.count(pair) == 1}
    twice = {pair for pair in grams if grams.count(pair) == 2}
    d = len(once) / (len(once) + 2 * len(twice))
    kinds = set(grams)
    before = {token: sum(second == token for _, second in kinds) for token in range(VOCAB)}
    total = sum(before.values())
    n1, n2 = (sum(count == n for count in before.values()) for n in (1, 2))
    d1 = n1 / (n1 + 2 * n2)
    seen = sum(count > 0 for count in before.values())
    lower = (max(before[6] - d1, 0) + d1 * seen / VOCAB) / total
    assert model.prob((5,), 6) == pytest.approx((3 - d + d * 2 * lower) / 4)


def test_a_context_that_never_occurred_uses_a_shorter_one() -> None:
    model = NGram(TEXTS, 3, VOCAB)
    for token in range(VOCAB):
        assert model.prob((3, 5), token) == model.prob((0, 5), token)
    assert model.prob((3, 5), 6) > model.prob((3, 5), 7) > model.prob((3, 5), 4)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_cross_entropy_is_the_sum_over_tokens(order: int) -> None:
    model = NGram(TEXTS, order, VOCAB)
    padded = [*[BOS] * (order - 1), 4, 5, 7, EOS]
    expected = -sum(
        math.log(model.prob(tuple(padded[end - order + 1 : end]), padded[end]))
        for end in range(order - 1, len(padded))
    )
    assert model.nats([4, 5, 7]) == pytest.approx(expected)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("position", [0, 1, 3])
def test_filling_a_gap_is_the_conditional_distribution(order: int, position: int) -> None:
    model, text = NGram(TEXTS, order, VOCAB), [4, 5, 6, 8]
    scores = torch.tensor(
        [-model.nats([*text[:position], token, *text[position + 1 :]]) for token in range(VOCAB)]
    )
    assert_close(model.fill(text, position), scores.softmax(0))


def test_a_longer_context_predicts_a_pattern() -> None:
    """After 4 5 comes 6, after 7 5 comes 8: a bigram cannot tell them apart."""
    texts = [[4, 5, 6], [7, 5, 8]] * 20
    assert NGram(texts, 3, VOCAB).nats([4, 5, 6]) < NGram(texts, 2, VOCAB).nats([4, 5, 6]) - 0.5


def test_bad_input() -> None:
    with pytest.raises(TfmrError, match="at least 1: got 0"):
        NGram(TEXTS, 0, VOCAB)
    with pytest.raises(TfmrError, match="at least one text"):
        NGram([], 2, VOCAB)
    with pytest.raises(TfmrError, match=r"from 0 to 8.*got \[9\]"):
        NGram([[9]], 2, VOCAB)
    with pytest.raises(TfmrError, match=r"from 0 to 2.*got 3"):
        NGram(TEXTS, 2, VOCAB).fill([4, 5, 6], 3)
