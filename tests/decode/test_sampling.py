"""Sampling: the correct distribution, independent of the batch."""

import math
from collections import Counter
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.decode.models import MODELS, SENTENCES, Table, TableConfig, transformer
from tfmr.data.batches import pad
from tfmr.decode import Sampling, greedy_search, sample
from tfmr.decode.sampling import NUCLEUS_CANDIDATES
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS

SEEDS = list(range(len(SENTENCES)))


def scores_of(*probs: float) -> Tensor:
    """Scores of ``EOS`` and the ids above it with these probabilities."""
    return torch.tensor([[-9.0, -9.0, *map(math.log, probs)]], dtype=torch.float64)


def distribution(sampling: Sampling, scores: Tensor) -> dict[int, float]:
    """The candidates of the first row and their probabilities."""
    tokens, probs = sampling.candidates(scores)
    pairs = zip(tokens[0].tolist(), probs[0].tolist(), strict=True)
    return {token: prob for token, prob in pairs if prob > 0}


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), {2: 0.5, 3: 0.125, 4: 0.25, 5: 0.125}),
        (Sampling(temperature=0.5), {2: 16 / 22, 3: 1 / 22, 4: 4 / 22, 5: 1 / 22}),
        (Sampling(top_k=2), {2: 2 / 3, 4: 1 / 3}),
        (Sampling(top_k=3), {2: 4 / 7, 4: 2 / 7, 3: 1 / 7}),
        (Sampling(top_k=100), {2: 0.5, 3: 0.125, 4: 0.25, 5: 0.125}),
        (Sampling(top_p=0.49), {2: 1.0}),
        (Sampling(top_p=0.51), {2: 2 / 3, 4: 1 / 3}),
        (Sampling(top_p=0.76), {2: 4 / 7, 4: 2 / 7, 3: 1 / 7}),
        (Sampling(top_p=1.0), {2: 0.5, 3: 0.125, 4: 0.25, 5: 0.125}),
        # top-p applies to the result of temperature and top-k: 2/3 and 1/3, then 16/20 and 4/20.
        (Sampling(top_k=2, top_p=0.66), {2: 1.0}),
        (Sampling(top_k=2, top_p=0.67), {2: 2 / 3, 4: 1 / 3}),
        (Sampling(temperature=0.5, top_k=2, top_p=0.75), {2: 1.0}),
    ],
)
def test_candidates(sampling: Sampling, expected: dict[int, float]) -> None:
    assert distribution(sampling, scores_of(0.5, 0.125, 0.25, 0.125)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sampling", "n"),
    [
        (Sampling(top_p=0.25), 1),
        (Sampling(top_p=0.5), 2),
        (Sampling(top_p=0.5000001), 3),
        (Sampling(top_p=0.75), 3),
        (Sampling(top_p=1.0), 4),
        (Sampling(top_k=1), 1),
        (Sampling(top_k=3), 3),
        (Sampling(top_k=2, top_p=0.5), 1),
        (Sampling(top_k=2, top_p=0.5000001), 2),
        (Sampling(temperature=5e-324), 4),
        (Sampling(temperature=1e-39, top_k=2), 2),
        (Sampling(temperature=1e-39, top_p=0.75), 3),
    ],
    ids=str,
)
def test_ties_at_a_boundary(sampling: Sampling, n: int) -> None:
    """Of four equally probable tokens, those with the smaller ids are preferred. The nucleus ends
    where the total reaches top-p, and probabilities are divided by the total that is left."""
    scores = torch.full((2, 7), -9.0)
    scores[:, [2, 3, 5, 6]] = 1.5
    scores[1] *= 1e3
    expected = dict.fromkeys([2, 3, 5, 6][:n], 1 / n)
    if sampling.temperature == 1:
        scores[:, 4] = -torch.inf
    assert distribution(sampling, scores) == expected
    assert distribution(sampling, scores[1:]) == expected


@pytest.mark.parametrize("options", [{}, {"top_k": 6}, {"top_p": 0.9}, {"top_k": 6, "top_p": 0.9}])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_draws_invert_the_cumulative_distribution(
    temperature: float, options: dict[str, float]
) -> None:
    """The shares of evenly spaced uniform numbers equal the probabilities; the smallest and the
    largest number below one do not draw a token of probability zero."""
    torch.manual_seed(0)
    sampling, n = Sampling(temperature, **options), 10_000
    for scores in torch.randn(20, 1, 12, dtype=torch.float64):
        scores[0, 2] = scores[0, 11] = -torch.inf
        tokens, probs = sampling.candidates(scores)
        possible = distribution(sampling, scores)
        assert float(probs.sum()) == pytest.approx(1)
        kept = (scores[0, tokens[0]] / temperature).softmax(0)[probs[0] > 0]
        assert_close(probs[0][probs[0] > 0], kept / kept.sum())
        uniform = (torch.arange(n, dtype=torch.float64) + 0.5) / n
        drawn = sampling.draw(scores.expand(n, -1), uniform)
        shares = torch.bincount(drawn, minlength=12) / n
        assert [shares[token].item() for token in possible] == pytest.approx(
            list(possible.values()), abs=2 / n
        )
        ends = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
        assert set(sampling.draw(scores.expand(2, -1), ends).tolist()) <= possible.keys()


def nucleus(probs: Tensor, top_p: float) -> set[int]:
    """The smallest set of the most probable indices with a total of at least ``top_p``."""
    total, indices = 0.0, set()
    for index in probs.argsort(descending=True).tolist():
        if total >= top_p:
            break
        indices.add(index)
        total += float(probs[index])
    return indices


@pytest.mark.parametrize("spread", [0.2, 4.0])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999])
def test_nucleus_in_a_large_vocabulary(spread: float, top_p: float) -> None:
    torch.manual_seed(4)
    scores = torch.randn(3, 500, dtype=torch.float64) * spread
    tokens, probs = Sampling(top_p=top_p).candidates(scores)
    expected = [nucleus(row.softmax(dim=0), top_p) for row in scores[:, EOS:]]
    for row, indices in enumerate(expected):
        assert {token - EOS for token in tokens[row][probs[row] > 0].tolist()} == indices
    assert probs.sum(dim=1).tolist() == pytest.approx([1.0] * 3)
    if top_p == 0.9:  # both branches must be tested
        assert (max(map(len, expected)) > NUCLEUS_CANDIDATES) == (spread == 0.2)


def critical(degrees: int) -> float:
    """The 99.9th percentile of the chi-squared distribution, by Wilson and Hilferty (1931)."""
    return float(degrees * (1 - 2 / (9 * degrees) + 3.09 * math.sqrt(2 / (9 * degrees))) ** 3)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=2.0), Sampling(top_k=3), Sampling(top_p=0.9)],
    ids=["plain", "high temperature", "top-k", "top-p"],
)
def test_frequencies_match_probabilities(sampling: Sampling) -> None:
    """A chi-squared test on the first two tokens."""
    model, n = Table(TableConfig(max_length=2), seed=3, spread=0.7), 4000
    outputs = Counter(map(tuple, sample(model, torch.tensor([[4]] * n), sampling, seeds=range(n))))
    expected: dict[tuple[int, ...], float] = {}
    for first, p in distribution(sampling, model.row([4], [BOS])[None]).items():
        if first == EOS:
            expected[()] = p
            continue
        for second, q in distribution(sampling, model.row([4], [BOS, first])[None]).items():
            ids = (first,) if second == EOS else (first, second)
            expected[ids] = expected.get(ids, 0.0) + p * q
    assert sum(expected.values()) == pytest.approx(1.0)
    assert outputs.keys() <= expected.keys()
    statistic = sum((outputs[ids] - n * p) ** 2 / (n * p) for ids, p in expected.items())
    assert len(expected) > 4
    assert statistic < critical(len(expected) - 1)


@pytest.mark.parametrize("kind", MODELS)
def test_the_translation_of_a_sentence_does_not_depend_on_the_batch(kind: str) -> None:
    model = MODELS[kind]()
    sampling = Sampling(temperature=1.5, top_p=0.9)
    outputs = sample(model, pad(SENTENCES), sampling, seeds=SEEDS)
    for seed, ids in zip(SEEDS, SENTENCES, strict=True):
        assert sample(model, torch.tensor([ids]), sampling, seeds=[seed]) == [outputs[seed]]
    assert sample(model, pad(SENTENCES), sampling, seeds=SEEDS[::-1]) != outputs
    reversed_outputs = sample(model, pad(SENTENCES[::-1]), sampling, seeds=SEEDS[::-1])
    assert reversed_outputs == outputs[::-1]


@pytest.mark.parametrize(
    "sampling",
    [*map(Sampling, (1e-6, 1e-39, 5e-324)), Sampling(top_k=1), Sampling(top_p=1e-9)],
    ids=str,
)
def test_low_temperature_and_small_candidate_sets_are_greedy(sampling: Sampling) -> None:
    model = transformer()
    outputs = sample(model, pad(SENTENCES), sampling, seeds=SEEDS)
    assert outputs == greedy_search(model, pad(SENTENCES))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, r"temperature.*finite.*got 0.0.*greedy"),
        ({"temperature": math.inf}, r"temperature.*finite.*got inf"),
        ({"temperature": math.nan}, r"temperature.*finite.*got nan"),
        ({"top_k": 0}, r"top_k.*1.*got 0"),
        ({"top_p": 0.0}, r"top_p.*\(0, 1\].*got 0.0"),
        ({"top_p": 1.1}, r"top_p.*\(0, 1\].*got 1.1"),
    ],
)
def test_options_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        Sampling(**options)


def test_options_are_checked_once_and_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Sampling().temperature = 0.0  # type: ignore[misc]


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.9}])
@pytest.mark.parametrize("bad", [[math.nan, 0, 0], [0, math.inf, 0], [-math.inf] * 3])
def test_scores_without_a_possible_token_are_an_error(
    bad: list[float], options: dict[str, float]
) -> None:
    """In the second row; the ids below ``EOS`` do not count."""
    scores = torch.tensor([[math.nan, 0, 1, 2, -math.inf], [0, 0, *bad]])
    assert Sampling(**options).draw(scores[:1], torch.tensor([0.0])) == 3 - (not options)
    with pytest.raises(TfmrError, match=r"NaN.*-inf in row 1$"):
        Sampling(**options).draw(scores, torch.tensor([0.0, 0.5]))


def test_each_sentence_needs_a_seed() -> None:
    with pytest.raises(TfmrError, match=r"got 2 seeds.*6"):
        sample(transformer(), pad(SENTENCES), seeds=[1, 2])
