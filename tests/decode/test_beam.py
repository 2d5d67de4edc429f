"""Beam search: batched equals naive, exhaustive width finds the optimum, searches end correctly."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.decode.models import (
    MAX_LENGTH,
    MODELS,
    SENTENCES,
    Table,
    TableConfig,
    add_bias,
    count_rows,
    recurrent,
    transformer,
)
from tfmr.data.batches import pad
from tfmr.decode import (
    BeamStep,
    Hypothesis,
    beam_search,
    beam_search_naive,
    greedy_search,
    length_penalty,
)
from tfmr.decode.beam import CHUNK_ROWS, log_softmax_
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import Translator


def assert_same(
    found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-9
) -> None:
    """The same translations in the same order, with equal scores."""
    assert [(h.ids, h.finished) for h in found] == [(h.ids, h.finished) for h in expected]
    for own, other in zip(found, expected, strict=True):
        assert own.log_prob == pytest.approx(other.log_prob, abs=tolerance)
        assert own.score == pytest.approx(other.score, abs=tolerance)


def log_prob(model: Translator, source: list[int], tokens: list[int]) -> float:
    """The log-probability of ``tokens`` by teacher forcing."""
    target = torch.tensor([[BOS, *tokens]])
    with torch.no_grad():
        log_probs = model(torch.tensor([source]), target[:, :-1])[0].log_softmax(dim=-1)
    return float(log_probs.gather(1, target[0, 1:, None]).sum())


@pytest.mark.parametrize(
    ("kind", "beam", "alpha", "n_best"),
    [
        *((kind, 4, 0.6, 1) for kind in MODELS),
        *product(["pre rotary", "lstm with attention"], [3], [0.0, 1.5], [3]),
    ],
)
def test_batched_equals_single_and_naive(kind: str, beam: int, alpha: float, n_best: int) -> None:
    model = MODELS[kind]()
    batched = beam_search(model, pad(SENTENCES), beam, alpha, n_best=n_best)
    for ids, found in zip(SENTENCES, batched, strict=True):
        alone = beam_search(model, torch.tensor([ids]), beam, alpha, n_best=n_best)
        assert_same(found, alone[0])
    for row in (0, 3, 4):
        source = torch.tensor([SENTENCES[row]])
        naive = beam_search_naive(model, source, beam, alpha, n_best=n_best)
        assert_same(batched[row], naive)


@pytest.mark.parametrize("kind", ["pre rotary", "gru"])
def test_beam_of_one_is_greedy(kind: str) -> None:
    model = MODELS[kind]()
    add_bias(model, {EOS: 0.5})
    outputs = greedy_search(model, pad(SENTENCES))
    for alpha in (0.0, 5.0):  # even if the penalty strongly favours long translations
        found = beam_search(model, pad(SENTENCES), 1, alpha)
        assert [hypotheses[0].ids for hypotheses in found] == outputs
        finished = [hypotheses[0].finished for hypotheses in found]
        assert finished == [len(ids) < MAX_LENGTH for ids in outputs]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_ending_a_search_early_does_not_change_its_result(alpha: float) -> None:
    """Only the batched search ends before ``beam`` hypotheses are finished or the maximum length
    is reached."""
    sentences, early = [[4, 5], [5, 4], [4, 4]], 0
    for seed, eos, (beam, n_best) in product(range(4), (-2.0, 0.0, 2.0), ((2, 1), (4, 1), (4, 3))):
        model, steps = Table(TableConfig(), seed, spread=1.0, eos=eos), []
        found = beam_search(
            model, torch.tensor(sentences), beam, alpha, n_best=n_best, on_step=steps.append
        )
        for number, ids in enumerate(sentences):
            naive = beam_search_naive(model, torch.tensor([ids]), beam, alpha, n_best=n_best)
            assert_same(found[number], naive)
            own_steps = [step for step in steps if number in step.sentences]
            n_finished = sum(
                int(step.finished[step.sentences.index(number)].sum()) for step in own_steps
            )
            early += len(own_steps) < model.config.max_length and n_finished < beam
    assert early > 10, "the bound must have ended some of these searches"


class SparseTable(Table):
    """Few different scores, so that many tie; some are -inf, but at least one in each row is not.

    Among the ids below ``EOS``, which are never generated, only scores of -inf are possible.
    """

    def row(self, source: list[int], prefix: list[int]) -> Tensor:
        scores = super().row(source, prefix).round()
        generator = torch.Generator().manual_seed(hash((self.seed, *source, -2, *prefix)) % 2**31)
        possible = torch.rand(len(scores), generator=generator) < 0.45
        possible[EOS + int(torch.randint(len(scores) - EOS, (1,), generator=generator))] = True
        return scores.masked_fill(~possible, -torch.inf)


@settings(max_examples=60, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
    eos=st.sampled_from([-2.0, 0.0, 1.0]),
    data=st.data(),
)
def test_impossible_tokens_and_ties(
    seed: int, beam: int, alpha: float, eos: float, data: st.DataObject
) -> None:
    """With scores of -inf, too, the batched search returns what the naive one does."""
    n_best = data.draw(st.integers(1, beam))
    model = SparseTable(TableConfig(), seed, spread=1.0, eos=eos)
    sentences = [[4, 5], [5, 4], [4, 4]]
    batched = beam_search(model, torch.tensor(sentences), beam, alpha, n_best=n_best)
    for ids, found in zip(sentences, batched, strict=True):
        expected = beam_search_naive(model, torch.tensor([ids]), beam, alpha, n_best=n_best)
        assert_same(found, expected)
        assert found
        assert all(hypothesis.log_prob > -torch.inf for hypothesis in found)


def small(kind: str) -> Translator:
    """A model with two words besides ``EOS`` and translations of at most five tokens."""
    sizes = {"source_vocab": 5, "target_vocab": 5, "max_length": 5}
    return recurrent(**sizes) if kind == "lstm" else transformer(*kind.split(), **sizes)


@pytest.mark.parametrize("kind", ["post sinusoidal", "pre rotary", "lstm"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_the_search_space_finds_the_optimum(kind: str, alpha: float) -> None:
    model, source = small(kind), [4, 3, 4]
    space = [(*words, EOS) for length in range(5) for words in product([3, 4], repeat=length)]
    scores = {
        tokens: log_prob(model, source, list(tokens)) / length_penalty(len(tokens), alpha)
        for tokens in space
    }
    ranked = sorted(space, key=lambda tokens: -scores[tokens])
    assert len(ranked) == 31
    # 16 prefixes of four words with three candidates each
    [found] = beam_search(model, torch.tensor([source]), 48, alpha, n_best=31)
    assert [(*hypothesis.ids, EOS) for hypothesis in found] == ranked
    assert [h.score for h in found] == pytest.approx([scores[t] for t in ranked], abs=1e-9)
    [[best]] = beam_search(model, torch.tensor([source]), 48, alpha)
    assert (*best.ids, EOS) == ranked[0]


@pytest.mark.parametrize("kind", ["post learned", "pre rotary", "lstm with attention"])
def test_scores_equal_those_of_teacher_forcing(kind: str) -> None:
    model = MODELS[kind]()
    results = beam_search(model, pad(SENTENCES), 4, 0.6, n_best=4)
    for ids, hypotheses in zip(SENTENCES, results, strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis.ids + [EOS] * hypothesis.finished
            expected = log_prob(model, ids, tokens)
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-9)
            penalty = ((5 + len(tokens)) / 6) ** 0.6
            assert hypothesis.score == pytest.approx(expected / penalty, abs=1e-9)


@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, 2 * CHUNK_ROWS + 3])
def test_log_softmax_is_in_place_except_for_half_precision(rows: int) -> None:
    torch.manual_seed(0)
    scores = torch.randn(rows, 7, dtype=torch.float64)
    expected = scores.log_softmax(dim=-1)
    assert log_softmax_(scores) is scores
    assert torch.equal(scores, expected)
    half = scores.bfloat16()
    assert torch.equal(log_softmax_(half), half.float().log_softmax(dim=-1))


def test_finished_hypotheses_rank_above_truncated_ones() -> None:
    better = 0
    for seed in range(6):
        model = Table(TableConfig(), seed, spread=1.0, eos=-1.0)
        [found] = beam_search(model, torch.tensor([[4, 5]]), 4, n_best=4)
        finished = [h.finished for h in found]
        assert finished == sorted(finished, reverse=True)
        better += any(finished) and found[-1].score > found[0].score
    assert better > 0, "some truncated hypotheses must have the higher score"


def test_a_beam_wider_than_the_search_space_returns_all_of_it() -> None:
    """One word besides ``EOS``, at most two tokens."""
    model = Table(TableConfig(target_vocab=4, max_length=2))
    [found] = beam_search(model, torch.tensor([[4]]), 8, n_best=8)
    assert_same(found, beam_search_naive(model, torch.tensor([[4]]), 8, n_best=8))
    assert sorted(h.ids for h in found if h.finished) == [[], [3]]
    assert [h.ids for h in found if not h.finished] == [[3, 3]]


def test_sentences_leave_the_batch_when_their_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer("pre")
    add_bias(model, {EOS: 1.0})
    rows, steps, finished = count_rows(monkeypatch, model), [], []
    beam_search(model, pad(SENTENCES), 3, on_finished=finished.append, on_step=steps.append)
    assert rows == [3 * len(step.sentences) for step in steps]
    assert rows[0] == 18
    assert len(set(rows)) > 2
    assert sum(finished) == len(SENTENCES)
    for step, later in pairwise(steps):
        assert set(later.sentences) <= set(step.sentences)


def test_the_search_ends_when_no_live_hypothesis_can_win(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer()
    add_bias(model, {EOS: 30.0})
    rows = count_rows(monkeypatch, model)
    found = beam_search(model, pad(SENTENCES), 4)
    assert [hypotheses[0].ids for hypotheses in found] == [[]] * len(SENTENCES)
    assert rows == [24]


def test_the_search_ends_when_a_live_hypothesis_can_only_tie() -> None:
    """All tokens are equally probable: ``EOS`` finishes with the score of the live hypotheses."""
    model, steps = Table(TableConfig(), spread=0.0), []
    [found] = beam_search(model, torch.tensor([[4]]), 2, alpha=0.0, on_step=steps.append)
    assert len(steps) == 1
    assert_same(found, beam_search_naive(model, torch.tensor([[4]]), 2, alpha=0.0))


def test_ties_are_ordered_by_hypothesis_and_then_by_id() -> None:
    model = Table(TableConfig(target_vocab=9, max_length=3), spread=0.0, eos=-5.0)
    steps: list[BeamStep] = []
    beam_search(model, torch.tensor([[4]]), 2, on_step=steps.append)
    assert steps[0].tokens.tolist() == [[3, 4, 5, 6]]
    assert steps[1].parents.tolist() == [[0, 0, 0, 0]]
    assert steps[1].tokens.tolist() == [[3, 4, 5, 6]]


def test_the_recorded_steps_reproduce_the_hypotheses() -> None:
    model = Table(TableConfig(), seed=5, spread=1.0)
    steps: list[BeamStep] = []
    [found] = beam_search(model, torch.tensor([[4, 5]]), 3, n_best=3, on_step=steps.append)
    live: list[list[int]] = [[]]
    log_probs: dict[tuple[int, ...], float] = {}
    for step in steps:
        columns = (step.parents, step.tokens, step.log_probs, step.live, step.finished)
        continued = []
        for parent, token, value, is_live, is_finished in zip(
            *(column[0].tolist() for column in columns), strict=True
        ):
            assert not (is_live and is_finished)
            if is_finished:
                assert token == EOS
                log_probs[tuple(live[parent])] = value
            elif is_live:
                continued.append([*live[parent], token])
        assert len(continued) == 3
        live = continued
    finished = [hypothesis for hypothesis in found if hypothesis.finished]
    assert finished
    for hypothesis in finished:
        assert log_probs[tuple(hypothesis.ids)] == pytest.approx(hypothesis.log_prob)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, r"beam.*1 hypothesis.*got beam=0"),
        ({"alpha": -0.1}, r"finite.*0.*got -0.1"),
        ({"alpha": float("nan")}, r"finite.*0.*got nan"),
        ({"beam": 2, "n_best": 3}, r"n_best.*1.*beam=2.*got n_best=3"),
        ({"n_best": 0}, "got n_best=0"),
    ],
)
@pytest.mark.parametrize("search", [beam_search, beam_search_naive])
def test_options_out_of_range(search: object, options: dict[str, float], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        search(transformer(), torch.tensor([[4, 5]]), **options)
