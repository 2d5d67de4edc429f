"""SamplingFigure in Python: its distributions, its samples, its traits and its errors."""

import copy
import math
from functools import cache

import pytest
import torch

from tfmr.checkpoint import load_translator
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import Sampling
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.records import record_path
from tfmr.special_tokens import BOS, EOS
from tfmr.widgets import SamplingFigure
from tfmr.widgets.sampling import NAMED, uniforms

DOG = "Ein kleiner Hund läuft über die Wiese."
TAXES = "Die Regierung erhöht die Steuern."
PREFIXES = [(DOG, "A small"), (DOG, "A small dog"), (TAXES, "The")]


@cache
def recorded_model() -> tuple[Transformer, Tokenizer]:
    model, tokenizer = load_translator(record_path("multi30k-de-en"))
    assert isinstance(model, Transformer)
    return model, tokenizer


def sampling_figure() -> SamplingFigure:
    """A peaked, a medium and a flat distribution of the recorded model."""
    return SamplingFigure.of_model(*recorded_model(), PREFIXES, selected=1)


@pytest.fixture(scope="module")
def figure() -> SamplingFigure:
    return sampling_figure()


SETTINGS = [
    (1.0, None, 1.0),
    (0.1, None, 1.0),
    (2.0, None, 1.0),
    (0.7, 4, 1.0),
    (1.5, None, 0.9),
    (2.0, None, 0.95),
    (1.3, 50, 0.8),
    (1.0, 1, 0.05),
]


@pytest.mark.parametrize("row", range(len(PREFIXES)))
def test_the_stored_distribution_is_that_of_the_model(figure: SamplingFigure, row: int) -> None:
    model, tokenizer = recorded_model()
    source, prefix = PREFIXES[row]
    ids = torch.tensor([tokenizer.encode(source)])
    with torch.no_grad():
        scores = model(ids, torch.tensor([[BOS, *tokenizer.encode(prefix)]]))[0, -1:]
    figure.selected = row
    assert figure.scores().shape == scores.shape
    for temperature, top_k, top_p in SETTINGS:
        figure.temperature, figure.top_k, figure.top_p = temperature, top_k, top_p
        expected = torch.zeros_like(scores[0], dtype=torch.float64)
        tokens, probs = figure.sampling().candidates(scores)
        expected = expected.scatter(0, tokens[0], probs[0])
        found = figure.probabilities()
        assert found.sum() == pytest.approx(1)
        ranked = expected.sort(descending=True).values[: len(found)]
        assert (found - ranked).abs().max() < 1e-3
        kept = int((found > 0).sum()), int((ranked > 0).sum())
        assert kept[0] == pytest.approx(kept[1], rel=0.01)
        stored = figure.prefixes[row]
        names = [tokenizer.tokens([int(id)])[0] for id in scores[0, EOS:].topk(NAMED).indices + EOS]
        assert stored["tokens"] == names


def test_logs_descend_and_each_is_within_a_step(figure: SamplingFigure) -> None:
    for row in range(len(PREFIXES)):
        figure.selected = row
        logs = figure.scores()[0, EOS:]
        assert (logs.diff() <= 0).all()
        assert len(logs) == 4998
        assert float(logs.exp().sum()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("gap", [0.001, 0.002, 0.003, 0.004])
def test_rounding_never_puts_another_token_before_the_named_ones(gap: float) -> None:
    figure = SamplingFigure(-gap * torch.arange(40.0)[None], ["a"] * 40, [("", "")])
    assert (figure.scores()[0, EOS:].diff() <= 0).all()


def test_samples_are_those_of_the_package_and_follow_the_distribution(
    figure: SamplingFigure,
) -> None:
    figure.set_state({"selected": 1, "temperature": 1.2, "top_k": 5, "top_p": 1.0, "seed": 3})
    figure.draws = 4000
    expected = Sampling(1.2, 5).draw(figure.scores().expand(4000, -1), uniforms(4000, 3)) - EOS
    assert torch.equal(figure.samples(), expected)
    counts = torch.bincount(figure.samples(), minlength=6).double()
    assert counts[5:].sum() == 0
    for count, p in zip(counts[:5].tolist(), figure.probabilities()[:5].tolist(), strict=True):
        assert abs(count - 4000 * p) < 4 * math.sqrt(4000 * p * (1 - p))


def test_random_numbers_are_uniform_and_depend_on_the_seed() -> None:
    first, second = uniforms(20000, 0), uniforms(20000, 1)
    for numbers in (first, second):
        histogram = torch.histc(numbers, bins=20, min=0, max=1)
        assert (histogram - 1000).abs().max() < 150
        assert float(torch.corrcoef(torch.stack([numbers[:-1], numbers[1:]]))[0, 1]) < 0.03
    assert not torch.equal(first, second)


def test_the_text(figure: SamplingFigure) -> None:
    for part in ("4,998", "small” (perplexity 2)", "dog” (perplexity 8)", "The” (perplexity 170)"):
        assert part in repr(figure)


def test_a_model_in_training_mode_is_refused() -> None:
    model, tokenizer = recorded_model()
    with pytest.raises(TfmrError, match=r"model.eval\(\)"):
        SamplingFigure.of_model(copy.deepcopy(model).train(), tokenizer, PREFIXES)
