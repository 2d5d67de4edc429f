"""The measures of growth measure what they say, and the records hold what the book claims."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cost import attention, decoding, training
from benchmarks.growth import fit, fitted, peak_bytes, points, seconds_of
from benchmarks.record import FOLDER, read
from tfmr.data.corpus import Corpus
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, EOS

SIZES = [64, 128, 256, 512, 1024, 2048]


@given(st.floats(0.2, 3.5), st.floats(1e-9, 1e9))
def test_a_power_law_is_found_again(exponent: float, factor: float) -> None:
    law = fit(SIZES, [factor * size**exponent for size in SIZES])
    assert law.exponent == pytest.approx(exponent)
    assert law.factor == pytest.approx(factor, rel=1e-6)
    assert law.error == pytest.approx(0, abs=1e-6)


def test_noise_moves_the_exponent_by_as_much_as_its_error_says() -> None:
    chance = random.Random(0)
    laws = [
        fit(SIZES, [size**2 * chance.lognormvariate(0, 0.1) for size in SIZES]) for _ in range(400)
    ]
    missed = [law.exponent - 2 for law in laws]
    scatter = (sum(miss**2 for miss in missed) / len(missed)) ** 0.5
    told = (sum(law.error**2 for law in laws) / len(laws)) ** 0.5
    assert abs(sum(missed) / len(missed)) < 0.01
    assert told == pytest.approx(scatter, rel=0.15)
    assert max(map(abs, missed)) < 0.2


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([1, 2], [1.0, 2.0], "three points or more"),
        ([1, 2, 3], [1.0, 2.0], "3 sizes and 2 values"),
        ([2, 2, 2], [1.0, 2.0, 3.0], "at different sizes"),
        ([1, 2, 3], [1.0, 0.0, 2.0], r"must be positive: got 0\.0"),
    ],
)
def test_no_power_law_without_points(sizes: list[int], values: list[float], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        fit(sizes, values)


def test_the_peak_is_what_is_held_at_one_time() -> None:
    def one_after_another() -> None:
        a = torch.empty(1000)
        b = torch.empty(500)
        del a
        c = torch.empty(600)
        del b, c

    assert peak_bytes(one_after_another) == 4 * 1500
    kept = [torch.empty(250)]
    assert peak_bytes(kept.clear) == 0
    assert peak_bytes(lambda: torch.empty(64).double()) == 4 * 64 + 8 * 64


def test_a_planted_quadratic_is_seen() -> None:
    def planted(n: int) -> int:
        return peak_bytes(lambda: torch.empty(n, n).sum() + torch.empty(n).sum())

    assert fit(SIZES, [planted(n) for n in SIZES]).exponent == pytest.approx(2, abs=0.01)
    assert planted(1024) - planted(512) == 3 * 4 * 512**2


def test_what_takes_longer_is_seen_to() -> None:
    x = torch.randn(300, 300)
    once, often = seconds_of([lambda: x @ x, lambda: [x @ x for _ in range(20)]], rounds=5)
    assert often["seconds"] > 3 * once["seconds"]  # the machine may be busy
    assert often["fastest"] <= often["seconds"] <= often["slowest"]


def test_points_and_fits_are_chosen_by_what_they_are() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "point", "kind": kind, "size": n, "seconds": n**exponent}
        for kind, exponent in (("a", 1.0), ("b", 2.0))
        for n in (1, 2, 4, 8)
    ]
    rows.append(fitted(rows, "seconds", 2, kind="b"))
    assert points(rows, "seconds", kind="a") == [(n, n) for n in (1, 2, 4, 8)]
    assert rows[-1] == {
        **{"what": "fit", "kind": "b", "of": "seconds", "since": 2, "points": 3},
        **{"exponent": 2.0, "error": 0.0},
    }


def test_attention_is_measured_at_every_length_and_its_memory_fitted() -> None:
    lengths = (128, 192, 256)
    rows = attention.measure(lengths=lengths, since=128, rounds=1)
    for kind in ("naive", "fused", "window"):
        for way in ("forward", "training"):
            for of in ("seconds", "bytes"):
                measured = points(rows, of, kind=kind, way=way)
                assert [size for size, _ in measured] == list(lengths)
                assert all(value > 0 for _, value in measured)
    assert exponent(rows, "bytes", kind="naive", way="training") == pytest.approx(2, abs=0.2)
    assert exponent(rows, "bytes", kind="fused", way="training") < 1.3


def test_an_endless_model_ends_where_it_must() -> None:
    torch.manual_seed(0)
    config = decoding.CONFIG.from_dict(
        {**vars(decoding.CONFIG), "d_model": 8, "d_ff": 8, "source_vocab": 5, "target_vocab": 5}
        | {"max_length": 12}
    )
    model = decoding.Endless(config).eval()
    source = torch.tensor([[4, 4, 4]])
    said = greedy_search_naive(model, source)
    assert said == greedy_search(model, source)[0]
    assert len(said) == 12
    assert EOS not in said
    x = torch.randn(3, 8)
    scores, ending = model.scores(x), Transformer.scores(model, x)
    assert torch.isneginf(scores[:, EOS]).all()
    assert torch.isfinite(ending).all()
    ending[:, EOS] = -torch.inf
    assert torch.equal(scores, ending)
    state = model.start(source, 1)
    assert torch.isneginf(model.step(torch.tensor([BOS]), state)[:, EOS]).all()


def test_decoding_is_measured_with_and_without_the_cache() -> None:
    rows = decoding.measure(lengths=(2, 4, 8), since=2, rounds=1)
    for kind in ("naive", "cached"):
        assert [size for size, _ in points(rows, "seconds", kind=kind)] == [2, 4, 8]
        law = fitted(rows, "seconds", 2, kind=kind)
        assert exponent(rows, "seconds", kind=kind) == law["exponent"]


def test_training_is_measured_for_every_part_of_the_corpus() -> None:
    pairs = [(f"{'a' * (k % 5 + 1)} {k % 7}", f"{k % 7} {'b' * (k % 5 + 1)}") for k in range(480)]
    corpus = Corpus("counted", "de", "en", pairs, pairs[:2], pairs[:2], "none")
    rows = training.measure(corpus, steps=3, shares=(4, 2, 1))
    made = [row for row in rows if row["what"] == "point"]
    assert [row["size"] for row in made] == [120, 240, 480]
    assert all(row["steps_per_epoch"] <= 3 and row["seconds"] > 0 for row in made)
    assert all(0 <= row["valid_bleu"] <= 100 and row["train_loss"] > 0 for row in made)
    assert rows[-1]["of"] == "seconds"
    with pytest.raises(
        TfmrError, match=r"an epoch of the whole corpus has [23] steps: .* not for 1"
    ):
        training.measure(corpus, steps=1, shares=(4, 2, 1))


def exponent(rows: list[dict[str, Any]], of: str, **chosen: str) -> float:
    """The fitted exponent of the column ``of``."""
    (law,) = (
        row
        for row in rows
        if row["what"] == "fit"
        and row["of"] == of
        and all(row[name] == value for name, value in chosen.items())
    )
    return float(law["exponent"])


RECORDED = {path.stem: read(path) for path in sorted((FOLDER / "cost").glob("*.json"))}


@pytest.mark.parametrize("name", RECORDED)
def test_a_record_says_where_it_comes_from_and_rises(name: str) -> None:
    record = RECORDED[name]
    assert record["kind"] == "growth"
    assert record["facts"]["command"].startswith("python -m benchmarks.cost")
    assert record["facts"]["hardware"]["threads"] == 1
    assert record["facts"]["commit"]
    assert {"python", "torch", "tfmr"} <= record["facts"]["versions"].keys()
    series: dict[tuple[str, ...], list[int]] = {}
    for row in record["rows"]:
        if row["what"] == "point":
            series.setdefault((row.get("kind", ""), row.get("way", "")), []).append(row["size"])
    for sizes in series.values():
        assert len(sizes) >= 5
        assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("name", RECORDED)
def test_the_fits_of_a_record_follow_from_its_points(name: str) -> None:
    rows = RECORDED[name]["rows"]
    for row in rows:
        if row["what"] == "fit":
            chosen = {key: row[key] for key in ("kind", "way") if key in row}
            assert row == fitted(rows, row["of"], row["since"], **chosen)


def claims_of_attention(rows: list[dict[str, Any]]) -> None:
    """Naive is quadratic, fused in time only, and a window in nothing."""
    for way in ("forward", "training"):
        assert 1.95 < exponent(rows, "bytes", kind="naive", way=way) < 2.05
        assert 0.7 < exponent(rows, "bytes", kind="fused", way=way) < 1.15
        assert 0.9 < exponent(rows, "bytes", kind="window", way=way) < 1.1
        assert 1.7 < exponent(rows, "seconds", kind="naive", way=way) < 3
        assert 1.6 < exponent(rows, "seconds", kind="fused", way=way) < 2.3
        assert 0.75 < exponent(rows, "seconds", kind="window", way=way) < 1.3
        times = [dict(points(rows, "seconds", kind=kind, way=way)) for kind in attention.KINDS]
        naive, fused, window = (time[4096] for time in times)
        assert naive > 2 * fused > 4 * window


def claims_of_decoding(rows: list[dict[str, Any]]) -> None:
    """The longer the sentence, the more the cache saves."""
    naive, cached = (dict(points(rows, "seconds", kind=kind)) for kind in decoding.KINDS)
    ratios = [naive[size] / cached[size] for size in (16, 64, 256)]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 2 * ratios[0]
    assert exponent(rows, "seconds", kind="naive") > exponent(rows, "seconds", kind="cached") + 0.3
    assert 0.8 < exponent(rows, "seconds", kind="cached") < 1.35


def claims_of_training(rows: list[dict[str, Any]]) -> None:
    """An epoch costs in proportion. The more pairs, the less is learnt by heart, and the better is
    the model, until there are too many to be read twice.
    """
    assert exponent(rows, "seconds") == pytest.approx(1, abs=0.15)
    losses = [loss for _, loss in points(rows, "valid_loss")]
    assert losses[:4] == sorted(losses[:4], reverse=True)
    assert losses[4] == pytest.approx(losses[3], rel=0.02)
    assert points(rows, "steps_per_epoch")[-1][1] > training.STEPS / 2
    gaps = [loss - own for loss, (_, own) in zip(losses, points(rows, "train_loss"), strict=True)]
    assert gaps == sorted(gaps, reverse=True)
    scores = [score for _, score in points(rows, "valid_bleu")]
    assert min(scores[2:]) > scores[1] > scores[0] + 3


CLAIMS = {
    "attention": claims_of_attention,
    "decoding": claims_of_decoding,
    "training": claims_of_training,
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_book_may_say_what_it_says(name: str) -> None:
    CLAIMS[name](RECORDED[name]["rows"])
