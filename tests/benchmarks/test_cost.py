"""Power laws, peak memory and interleaved timing of the scaling benchmarks."""

import dataclasses
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cost import attention, decoding, training
from benchmarks.scaling import exponent, fit, fitted, peak_bytes, points, seconds_of
from tfmr.data.corpus import Corpus
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, EOS

SIZES = [64, 128, 256, 512, 1024, 2048]


@given(st.floats(0.2, 3.5), st.floats(1e-9, 1e9))
def test_fit_recovers_a_power_law(exponent: float, factor: float) -> None:
    law = fit(SIZES, [factor * size**exponent for size in SIZES])
    assert law.exponent == pytest.approx(exponent)
    assert law.factor == pytest.approx(factor, rel=1e-6)
    assert law.standard_error == pytest.approx(0, abs=1e-6)


def test_standard_error_equals_the_scatter_of_the_exponent() -> None:
    rng = random.Random(0)
    laws = [
        fit(SIZES, [size**2 * rng.lognormvariate(0, 0.1) for size in SIZES]) for _ in range(400)
    ]
    errors = [law.exponent - 2 for law in laws]
    scatter = (sum(e**2 for e in errors) / len(errors)) ** 0.5
    estimated = (sum(law.standard_error**2 for law in laws) / len(laws)) ** 0.5
    assert abs(sum(errors) / len(errors)) < 0.01
    assert estimated == pytest.approx(scatter, rel=0.15)
    assert max(map(abs, errors)) < 0.2


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([1, 2], [1.0, 2.0], "three points or more"),
        ([1, 2, 3], [1.0, 2.0], "3 sizes and 2 values"),
        ([2, 2, 2], [1.0, 2.0, 3.0], "at different sizes"),
        ([1, 2, 3], [1.0, 0.0, 2.0], r"got 0\.0"),
    ],
)
def test_fit_rejects_invalid_points(sizes: list[int], values: list[float], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        fit(sizes, values)


def test_peak_bytes_counts_tensors_that_exist_together() -> None:
    def allocate() -> None:
        a = torch.empty(1000)
        b = torch.empty(500)
        del a
        c = torch.empty(600)
        del b, c

    assert peak_bytes(allocate) == 4 * 1500
    held = [torch.empty(250)]
    assert peak_bytes(held.clear) == 0
    assert peak_bytes(lambda: torch.empty(64).double()) == 4 * 64 + 8 * 64


def test_peak_bytes_of_a_quadratic_function() -> None:
    def quadratic(n: int) -> int:
        return peak_bytes(lambda: torch.empty(n, n).sum() + torch.empty(n).sum())

    assert fit(SIZES, [quadratic(n) for n in SIZES]).exponent == pytest.approx(2, abs=0.01)
    assert quadratic(1024) - quadratic(512) == 3 * 4 * 512**2


def test_a_longer_function_takes_more_seconds() -> None:
    x = torch.randn(300, 300)
    short, long = seconds_of([lambda: x @ x, lambda: [x @ x for _ in range(20)]], rounds=5)
    assert long["seconds"] > 3 * short["seconds"]  # the machine may be busy
    assert long["fastest"] <= long["seconds"] <= long["slowest"]


def test_points_and_fits_are_selected_by_their_columns() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "point", "kind": kind, "size": n, "seconds": n**exponent}
        for kind, exponent in (("a", 1.0), ("b", 2.0))
        for n in (1, 2, 4, 8)
    ]
    rows.append(fitted(rows, "seconds", 2, kind="b"))
    assert points(rows, "seconds", kind="a") == [(n, n) for n in (1, 2, 4, 8)]
    assert rows[-1] == {
        **{"what": "fit", "kind": "b", "quantity": "seconds", "fitted_from": 2, "points": 3},
        **{"exponent": 2.0, "standard_error": 0.0},
    }


def test_attention_is_measured_at_every_length() -> None:
    lengths = (128, 192, 256)
    rows = attention.measure(lengths=lengths, fitted_from=128, rounds=1)
    for kind in ("naive", "fused", "local"):
        for mode in ("forward", "training"):
            for quantity in ("seconds", "bytes"):
                measured = points(rows, quantity, kind=kind, mode=mode)
                assert [size for size, _ in measured] == list(lengths)
                assert all(value > 0 for _, value in measured)
    assert exponent(rows, "bytes", kind="naive", mode="training") == pytest.approx(2, abs=0.2)
    assert exponent(rows, "bytes", kind="fused", mode="training") < 1.3


def test_a_model_without_eos_decodes_to_its_maximum_length() -> None:
    torch.manual_seed(0)
    small = {"d_model": 8, "d_ff": 8, "source_vocab": 5, "target_vocab": 5, "max_length": 12}
    model = decoding.WithoutEos(dataclasses.replace(decoding.CONFIG, **small)).eval()
    source = torch.tensor([[4, 4, 4]])
    ids = greedy_search_naive(model, source)
    assert ids == greedy_search(model, source)[0]
    assert len(ids) == 12
    assert EOS not in ids
    x = torch.randn(3, 8)
    scores, unchanged = model.scores(x), Transformer.scores(model, x)
    assert torch.isneginf(scores[:, EOS]).all()
    assert torch.isfinite(unchanged).all()
    unchanged[:, EOS] = -torch.inf
    assert torch.equal(scores, unchanged)
    state = model.start(source, 1)
    assert torch.isneginf(model.step(torch.tensor([BOS]), state)[:, EOS]).all()


def test_decoding_is_measured_with_and_without_a_cache() -> None:
    rows = decoding.measure(lengths=(2, 4, 8), fitted_from=2, rounds=1)
    for kind in ("naive", "cached"):
        assert [size for size, _ in points(rows, "seconds", kind=kind)] == [2, 4, 8]
        law = fitted(rows, "seconds", 2, kind=kind)
        assert exponent(rows, "seconds", kind=kind) == law["exponent"]


def test_training_is_measured_for_every_subset(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}
    monkeypatch.setattr(training, "MODEL", training.MODEL | sizes | {"max_length": 32})
    pairs = [(f"{'a' * (k % 5 + 1)} {k % 7}", f"{k % 7} {'b' * (k % 5 + 1)}") for k in range(480)]
    corpus = Corpus("counted", "de", "en", pairs, pairs[:2], pairs[:2], "none")
    rows = training.measure(corpus, steps=3, shares=(4, 2, 1))
    measured = [row for row in rows if row["what"] == "point"]
    assert [row["size"] for row in measured] == [120, 240, 480]
    assert all(row["steps_per_epoch"] <= 3 and row["seconds"] > 0 for row in measured)
    assert all(0 <= row["valid_bleu"] <= 100 and row["train_loss"] > 0 for row in measured)
    assert rows[-1]["quantity"] == "seconds"
    with pytest.raises(TfmrError, match=r"epoch.*corpus.*[23] steps.*got 1"):
        training.measure(corpus, steps=1, shares=(4, 2, 1))
