"""Sampling: the right tokens, as often as they are probable, and the same in every batch."""

import math

import pytest
import torch
from torch import Tensor

from tests.decode.models import MODELS, SENTENCES, Table, TableConfig, favour, transformer
from tfmr.data.batches import pad
from tfmr.decode import Sampling, greedy_search, sample
from tfmr.decode.sampling import LIKELY
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS, PAD

SEEDS = list(range(len(SENTENCES)))


def scores_of(*shares: float) -> Tensor:
    """Scores whose softmax gives ``EOS`` and the ids after it these shares; PAD and BOS less."""
    return torch.tensor([[-9.0, -9.0, *map(math.log, shares)]], dtype=torch.float64)


def distribution(sampling: Sampling, scores: Tensor) -> dict[int, float]:
    """The tokens that may be drawn for the first row, with their probabilities."""
    tokens, shares = sampling.candidates(scores)
    pairs = zip(tokens[0].tolist(), shares[0].tolist(), strict=True)
    return {token: share for token, share in pairs if share > 0}


@pytest.mark.parametrize(
    ("sampling", "wanted"),
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
        # top-p looks at what temperature and top-k have left: 2/3 and 1/3, then 16/20 and 4/20.
        (Sampling(top_k=2, top_p=0.66), {2: 1.0}),
        (Sampling(top_k=2, top_p=0.67), {2: 2 / 3, 4: 1 / 3}),
        (Sampling(temperature=0.5, top_k=2, top_p=0.75), {2: 1.0}),
    ],
)
def test_the_tokens_that_may_be_drawn(sampling: Sampling, wanted: dict[int, float]) -> None:
    assert distribution(sampling, scores_of(0.5, 0.125, 0.25, 0.125)) == pytest.approx(wanted)


def nucleus(shares: Tensor, top_p: float) -> set[int]:
    """The fewest likeliest places that make up ``top_p``, one after the other."""
    total, places = 0.0, set()
    for place in shares.argsort(descending=True).tolist():
        if total >= top_p:
            break
        places.add(place)
        total += float(shares[place])
    return places


@pytest.mark.parametrize("spread", [0.2, 4.0])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999])
def test_the_nucleus_of_a_large_vocabulary(spread: float, top_p: float) -> None:
    torch.manual_seed(4)
    scores = torch.randn(3, 500, dtype=torch.float64) * spread
    tokens, shares = Sampling(top_p=top_p).candidates(scores)
    wanted = [nucleus(row.softmax(dim=0), top_p) for row in scores[:, EOS:]]
    for row, places in enumerate(wanted):
        assert {token - EOS for token in tokens[row][shares[row] > 0].tolist()} == places
    assert shares.sum(dim=1).tolist() == pytest.approx([1.0] * 3)
    if top_p == 0.9:
        assert (max(map(len, wanted)) > LIKELY) == (spread == 0.2), "both ways must be taken"


def critical(degrees: int) -> float:
    """The 99.9th percentile of chi-square, by Wilson and Hilferty (1931)."""
    return float(degrees * (1 - 2 / (9 * degrees) + 3.09 * math.sqrt(2 / (9 * degrees))) ** 3)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=2.0), Sampling(top_k=3), Sampling(top_p=0.9)],
    ids=["plain", "hot", "top-k", "top-p"],
)
def test_tokens_come_as_often_as_they_are_probable(sampling: Sampling) -> None:
    """The first two tokens of many draws, against the probability of each pair."""
    model, draws = Table(TableConfig(max_length=2), seed=3, spread=0.7), 4000
    outputs = sample(model, torch.tensor([[4]] * draws), sampling, seeds=range(draws))
    expected: dict[tuple[int, ...], float] = {}
    for first, share in distribution(sampling, model.row([4], [BOS])[None]).items():
        if first == EOS:
            expected[()] = share
            continue
        after = distribution(sampling, model.row([4], [BOS, first])[None])
        for second, part in after.items():
            said = (first,) if second == EOS else (first, second)
            expected[said] = expected.get(said, 0.0) + share * part
    assert sum(expected.values()) == pytest.approx(1.0)
    assert {tuple(output) for output in outputs} <= expected.keys()
    statistic = sum(
        (sum(tuple(output) == said for output in outputs) - draws * share) ** 2 / (draws * share)
        for said, share in expected.items()
    )
    assert len(expected) > 4
    assert statistic < critical(len(expected) - 1)


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_drawn_for_a_sentence_does_not_depend_on_the_batch(kind: str) -> None:
    model = MODELS[kind]()
    sampling = Sampling(temperature=1.5, top_p=0.9)
    together = sample(model, pad(SENTENCES), sampling, seeds=SEEDS)
    for seed, ids in zip(SEEDS, SENTENCES, strict=True):
        assert sample(model, torch.tensor([ids]), sampling, seeds=[seed]) == [together[seed]]
    assert sample(model, pad(SENTENCES), sampling, seeds=SEEDS[::-1]) != together
    turned = sample(model, pad(SENTENCES[::-1]), sampling, seeds=SEEDS[::-1])
    assert turned == together[::-1]


@pytest.mark.parametrize(
    "sampling",
    [{"temperature": 1e-6}, {"temperature": 1e-300}, {"top_k": 1}, {"top_p": 1e-9}],
    ids=str,
)
def test_cold_or_narrow_it_is_greedy(sampling: dict[str, float]) -> None:
    for kind in ("post sinusoidal", "lstm with attention"):
        model = MODELS[kind]()
        drawn = sample(model, pad(SENTENCES), Sampling(**sampling), seeds=SEEDS)
        assert drawn == greedy_search(model, pad(SENTENCES))


def test_padding_and_a_second_beginning_are_never_said() -> None:
    model = transformer()
    favour(model, {PAD: 20.0, BOS: 20.0})
    for sampling in (Sampling(), Sampling(top_k=30), Sampling(top_p=1.0)):
        for output in sample(model, pad(SENTENCES), sampling, seeds=SEEDS):
            assert not {PAD, BOS, EOS} & set(output)


def test_it_never_exceeds_the_limit() -> None:
    model = transformer(max_length=60)
    favour(model, {EOS: -1e9})
    outputs = sample(model, pad(SENTENCES), seeds=SEEDS)
    assert [len(output) for output in outputs] == [min(len(ids) + 50, 60) for ids in SENTENCES]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive: got 0.0; .* use greedy decoding"),
        ({"temperature": math.inf}, "temperature must be positive: got inf"),
        ({"temperature": math.nan}, "temperature must be positive: got nan"),
        ({"top_k": 0}, "top_k is a number of tokens to draw from, at least 1: got 0"),
        ({"top_p": 0.0}, "top_p is a share .* above 0 and at most 1: got 0.0"),
        ({"top_p": 1.1}, "top_p is a share .* got 1.1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        Sampling(**options)


def test_each_sentence_needs_a_seed() -> None:
    with pytest.raises(TfmrError, match="got 2 seeds for 6 sentences"):
        sample(transformer(), pad(SENTENCES), seeds=[1, 2])


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        sample(transformer().train(), pad(SENTENCES), seeds=SEEDS)
