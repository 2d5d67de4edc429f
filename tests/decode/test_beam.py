"""Beam search: batched equals naive, wide enough it finds the best, and it ends where it must."""

from itertools import pairwise, product

import pytest
import torch

from tests.decode.models import (
    LIMIT,
    MODELS,
    SENTENCES,
    Table,
    TableConfig,
    count_rows,
    favour,
    recurrent,
    transformer,
)
from tfmr.data.batches import pad
from tfmr.decode import (
    BeamStep,
    Hypothesis,
    beam_search,
    beam_search_naive,
    length_penalty,
)
from tfmr.decode.beam import ROWS, log_softmax_
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import Translator


def same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    """The same translations in the same order, worth the same."""
    assert [(h.ids, h.ended) for h in ours] == [(h.ids, h.ended) for h in theirs]
    for name in ("log_prob", "score"):
        assert [getattr(h, name) for h in ours] == pytest.approx(
            [getattr(h, name) for h in theirs], abs=1e-9
        )


def log_prob(model: Translator, source: list[int], said: list[int]) -> float:
    """The log-probability of the tokens that were said, by teacher forcing."""
    target = torch.tensor([[BOS, *said]])
    with torch.no_grad():
        table = model(torch.tensor([source]), target[:, :-1])[0].log_softmax(dim=-1)
    return float(table.gather(1, target[0, 1:, None]).sum())


@pytest.mark.parametrize(
    ("kind", "beam", "alpha", "n_best"),
    [
        *((kind, 4, 0.6, 1) for kind in MODELS),
        *product(["pre rotary", "lstm with attention"], [3], [0.0, 1.5], [3]),
    ],
)
def test_batched_equals_naive_one_by_one(kind: str, beam: int, alpha: float, n_best: int) -> None:
    model = MODELS[kind]()
    together = beam_search(model, pad(SENTENCES), beam, alpha, n_best=n_best)
    for ids, found in zip(SENTENCES, together, strict=True):
        same(found, beam_search(model, torch.tensor([ids]), beam, alpha, n_best=n_best)[0])
    for row in (0, 3, 4):
        alone = torch.tensor([SENTENCES[row]])
        same(together[row], beam_search_naive(model, alone, beam, alpha, n_best=n_best))


@pytest.mark.parametrize("kind", MODELS)
def test_a_beam_of_one_is_greedy(kind: str) -> None:
    model = MODELS[kind]()
    favour(model, {EOS: 0.5})
    outputs = greedy_search(model, pad(SENTENCES))
    for alpha in (0.0, 5.0):  # however much a longer translation would be worth
        found = beam_search(model, pad(SENTENCES), 1, alpha)
        assert [hypotheses[0].ids for hypotheses in found] == outputs
        cut = [not hypotheses[0].ended for hypotheses in found]
        assert cut == [len(ids) == LIMIT for ids in outputs]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_leaving_early_changes_nothing(alpha: float) -> None:
    """The naive search has no bound: it goes on until the beam is full or the length is reached."""
    sentences, earlier = [[4, 5], [5, 4], [4, 4]], 0
    for seed, end, (beam, n_best) in product(range(4), (-2.0, 0.0, 2.0), ((2, 1), (4, 1), (4, 3))):
        model, steps = Table(TableConfig(), seed, spread=1.0, end=end), []
        found = beam_search(
            model, torch.tensor(sentences), beam, alpha, n_best=n_best, on_step=steps.append
        )
        for number, (ids, ours) in enumerate(zip(sentences, found, strict=True)):
            same(ours, beam_search_naive(model, torch.tensor([ids]), beam, alpha, n_best=n_best))
            rows = [step.finished[step.sentences.index(number)] for step in steps_of(number, steps)]
            earlier += len(rows) < 6 and int(torch.stack(rows).sum()) < beam
    assert earlier > 10, "the bound must have ended some of these searches"


def steps_of(sentence: int, steps: list[BeamStep]) -> list[BeamStep]:
    """Those in which the sentence was still searched for."""
    return [step for step in steps if sentence in step.sentences]


def small(kind: str) -> Translator:
    """A model with two words to say, at most five tokens long."""
    sizes = {"source_vocab": 5, "target_vocab": 5, "max_length": 5}
    return recurrent(**sizes) if kind == "lstm" else transformer(*kind.split(), **sizes)


@pytest.mark.parametrize("kind", ["post sinusoidal", "pre rotary", "lstm"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_the_space_finds_the_best(kind: str, alpha: float) -> None:
    model, source = small(kind), [4, 3, 4]
    everything = [[*words, EOS] for length in range(5) for words in product([3, 4], repeat=length)]
    probabilities = {tuple(said): log_prob(model, source, said) for said in everything}
    ranked = sorted(
        (-p / length_penalty(len(said), alpha), said) for said, p in probabilities.items()
    )
    assert len(ranked) == 31
    # 16 beginnings of four words, and three ways to go on from each.
    found = beam_search(model, torch.tensor([source]), 48, alpha, n_best=31)[0]
    for hypothesis, (score, said) in zip(found, ranked, strict=True):
        assert (*hypothesis.ids, EOS) == said
        assert hypothesis.score == pytest.approx(-score, abs=1e-9)
    [only] = beam_search(model, torch.tensor([source]), 48, alpha)[0]
    assert (*only.ids, EOS) == ranked[0][1]


def test_a_narrow_beam_can_miss_it() -> None:
    missed = 0
    for seed in range(10):
        model = Table(TableConfig(target_vocab=5, max_length=4), seed, spread=1.0)
        [best] = beam_search(model, torch.tensor([[4]]), 48)[0]
        [first] = beam_search(model, torch.tensor([[4]]), 1)[0]
        assert not first.ended or first.score <= best.score + 1e-9
        missed += first.ended and first.score < best.score - 1e-9
    assert missed > 0


@pytest.mark.parametrize("kind", ["post learned", "pre rotary", "lstm with attention"])
def test_scores_are_those_of_teacher_forcing(kind: str) -> None:
    model = MODELS[kind]()
    for ids, found in zip(
        SENTENCES, beam_search(model, pad(SENTENCES), 4, 0.6, n_best=4), strict=True
    ):
        for hypothesis in found:
            said = hypothesis.ids + [EOS] * hypothesis.ended
            expected = log_prob(model, ids, said)
            assert hypothesis.log_prob == pytest.approx(expected, abs=1e-9)
            penalty = ((5 + len(said)) / 6) ** 0.6
            assert hypothesis.score == pytest.approx(expected / penalty, abs=1e-9)


@pytest.mark.parametrize("rows", [1, ROWS, 2 * ROWS + 3])
def test_log_probabilities_in_the_memory_of_the_scores(rows: int) -> None:
    torch.manual_seed(0)
    scores = torch.randn(rows, 7, dtype=torch.float64)
    wanted = scores.log_softmax(dim=-1)
    assert log_softmax_(scores) is scores
    assert torch.equal(scores, wanted)
    half = scores.bfloat16()
    assert torch.equal(log_softmax_(half), half.float().log_softmax(dim=-1))


def test_what_has_not_ended_is_cut_off_at_the_limit() -> None:
    model = transformer(max_length=60)
    favour(model, {EOS: -1e9})
    found = beam_search(model, pad(SENTENCES), 3, n_best=3)
    for ids, hypotheses in zip(SENTENCES, found, strict=True):
        assert [len(h.ids) for h in hypotheses] == [min(len(ids) + 50, 60)] * 3
        assert not any(h.ended for h in hypotheses)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_what_has_ended_ranks_above_what_was_cut_off() -> None:
    better = 0
    for seed in range(6):
        model = Table(TableConfig(), seed, spread=1.0, end=-1.0)
        found = beam_search(model, torch.tensor([[4, 5]]), 4, n_best=4)[0]
        ended = [h.ended for h in found]
        assert ended == sorted(ended, reverse=True)
        better += any(ended) and found[-1].score > found[0].score
    assert better > 0, "some that were cut off must have the better score"


def test_padding_and_a_second_beginning_are_never_said() -> None:
    model = transformer()
    favour(model, {PAD: 5.0, BOS: 5.0})
    for hypotheses in beam_search(model, pad(SENTENCES), 4, n_best=4):
        for hypothesis in hypotheses:
            assert not {PAD, BOS, EOS} & set(hypothesis.ids)


def test_a_model_that_can_say_little_says_that() -> None:
    """Two words at most: the beam is wider than what there is to follow."""
    model = Table(TableConfig(target_vocab=4, max_length=2))
    found = beam_search(model, torch.tensor([[4]]), 6, n_best=6)[0]
    same(found, beam_search_naive(model, torch.tensor([[4]]), 6, n_best=6))
    assert sorted(h.ids for h in found if h.ended) == [[], [3]]
    assert [h.ids for h in found if not h.ended] == [[3, 3]]


def test_a_finished_sentence_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer("pre")
    favour(model, {EOS: 1.0})
    seen, steps, finished = count_rows(monkeypatch, model), [], []
    beam_search(model, pad(SENTENCES), 3, on_finished=finished.append, on_step=steps.append)
    assert seen == [3 * len(step.sentences) for step in steps]
    assert seen[0] == 18
    assert len(set(seen)) > 2
    assert sum(finished) == len(SENTENCES)
    for step, later in pairwise(steps):
        assert set(later.sentences) <= set(step.sentences)


def test_an_end_that_nothing_can_beat_ends_the_search_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = transformer()
    favour(model, {EOS: 30.0})
    seen = count_rows(monkeypatch, model)
    found = beam_search(model, pad(SENTENCES), 4)
    assert [hypotheses[0].ids for hypotheses in found] == [[]] * len(SENTENCES)
    assert seen == [24]


def test_equals_go_by_hypothesis_and_then_by_id() -> None:
    model = Table(TableConfig(target_vocab=9, max_length=3), spread=0.0, end=-5.0)
    steps: list[BeamStep] = []
    beam_search(model, torch.tensor([[4]]), 2, on_step=steps.append)
    assert steps[0].tokens.tolist() == [[3, 4, 5, 6]]
    assert steps[1].parents.tolist() == [[0, 0, 0, 0]]
    assert steps[1].tokens.tolist() == [[3, 4, 5, 6]]


def test_the_steps_are_enough_to_draw_the_tree() -> None:
    """Follow the parents of what an observer is shown, and find what the search returns."""
    model = Table(TableConfig(), seed=5, spread=1.0)
    steps: list[BeamStep] = []
    found = beam_search(model, torch.tensor([[4, 5]]), 3, n_best=3, on_step=steps.append)[0]
    live: list[list[int]] = [[]]
    ended: dict[tuple[int, ...], float] = {}
    for step in steps:
        rows = zip(
            step.parents[0].tolist(),
            step.tokens[0].tolist(),
            step.log_probs[0].tolist(),
            step.live[0].tolist(),
            step.finished[0].tolist(),
            strict=True,
        )
        after = []
        for parent, token, probability, goes_on, has_ended in rows:
            assert not (goes_on and has_ended)
            if has_ended:
                assert token == EOS
                ended[tuple(live[parent])] = probability
            elif goes_on:
                after.append([*live[parent], token])
        assert len(after) == 3
        live = after
    for hypothesis in found:
        if hypothesis.ended:
            assert ended[tuple(hypothesis.ids)] == pytest.approx(hypothesis.log_prob)
    assert any(hypothesis.ended for hypothesis in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "a beam is at least one hypothesis wide: got beam=0"),
        ({"alpha": -0.1}, "must be zero .none. or greater: got -0.1"),
        ({"alpha": float("nan")}, "must be zero .none. or greater: got nan"),
        ({"beam": 2, "n_best": 3}, "a beam of 2 holds between 1 and 2 .* got n_best=3"),
        ({"n_best": 0}, "got n_best=0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], message: str) -> None:
    for search in (beam_search, beam_search_naive):
        with pytest.raises(TfmrError, match=message):
            search(transformer(), torch.tensor([[4, 5]]), **options)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        beam_search(transformer().train(), pad(SENTENCES))
