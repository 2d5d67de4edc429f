"""The measurement from end to end, on sizes that cost nothing; and the work that is measured."""

import dataclasses
from pathlib import Path

import pytest
import torch

from benchmarks import quality, speed
from benchmarks.quality import Quality
from benchmarks.record import read
from benchmarks.speed import Speed, product_error
from benchmarks.tables import section
from benchmarks.workload import (
    LENGTHS,
    SETTINGS,
    Setting,
    decoding_flops,
    generated,
    lengths,
    sources,
    training_batches,
    training_flops,
)
from tfmr.data import corpora, pocket
from tfmr.data.batches import collate
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train.config import find_recipe

PAIRS = generated()[:300]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch):
    """Small models, no corpus; and torch as it was."""
    before = torch.get_float32_matmul_precision()
    monkeypatch.setitem(SETTINGS, "A", Setting(16, 2, 32, 1, 100))
    monkeypatch.setitem(SETTINGS, "B", Setting(16, 4, 16, 1, None))
    monkeypatch.setattr(speed, "tokenised", lambda: (PAIRS, "generated"))
    monkeypatch.setattr(speed, "SIZE", 32)
    monkeypatch.setattr(speed, "STEPS", 8)
    monkeypatch.setattr(speed, "SENTENCES", {"greedy": 3, "beam": 2, "single": 2})
    yield
    torch.set_float32_matmul_precision(before)


def test_every_task_is_measured_for_everybody(tmp_path: Path, here: list[str]) -> None:
    Speed(peers=("torch",), rounds=2, out=tmp_path / "speed.json")()
    trained = [f"train {setting} {sites}" for setting in "AB" for sites in ("paper", "own")]
    assert here == [*trained, "greedy paper", "beam paper", "single paper"]
    record = read(tmp_path / "speed.json")
    seen = {(row["task"], row.get("dropout"), row["system"]) for row in record["rows"]}
    systems = ("tfmr", "torch.nn.Transformer", "peak")
    assert seen == {
        *((f"train {s}", d, x) for s in "AB" for d in ("paper", "own") for x in systems),
        *((task, None, x) for task in ("greedy", "beam", "single") for x in systems),
    }
    assert all(len(row["seconds"]) == 2 for row in record["rows"])
    for row in record["rows"]:
        if row["best"] and row["system"] == "tfmr":
            assert row["times"] == row["times_low"] == row["times_high"] == 1.0
    [greedy] = [
        r for r in record["rows"] if r["task"] == "greedy" and r["best"] and r["system"] == "tfmr"
    ]
    assert greedy["share_of_peak"] > 0
    assert 3 * 8 / max(greedy["seconds"]) * 0.99 <= greedy["tokens_per_second"]
    assert greedy["tokens_per_second"] <= 3 * 8 / min(greedy["seconds"]) * 1.01
    assert "torch.nn.Transformer" in section("speed", record)


def test_products_are_as_exact_as_they_say() -> None:
    assert 0 < product_error("highest", "cpu") < 1e-6


def test_the_recorded_lengths_are_those_of_the_generated_sentences() -> None:
    pairs = generated()
    assert len(pairs) == 29000
    assert lengths(pairs) == LENGTHS.read_text("utf-8")


def test_sentences_are_drawn_as_asked() -> None:
    batches = sources(PAIRS, 4, 12, 3, seed=0)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert all(batch.shape[1] <= 12 for batch in batches)
    again = sources(PAIRS, 4, 12, 3, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))


def test_batches_are_as_large_as_the_setting_says() -> None:
    for batch in training_batches(SETTINGS["A"], PAIRS, 4, seed=0):
        assert max(batch.source.numel(), batch.target_in.numel()) <= 100
    for batch in training_batches(SETTINGS["B"], PAIRS, 2, seed=0):
        assert batch.source.shape == batch.target_in.shape == (32, 32)
        assert batch.n_tokens == 1024


def test_operations_are_those_that_the_model_does() -> None:
    """Counted by torch itself, without padding, on a model whose scores it can see."""
    from torch.utils.flop_counter import FlopCounterMode

    config = SETTINGS["A"].config()
    batch = collate([([5, 6, 7, 8], [9, 10, 11]), ([5, 6, 7, 8], [9, 10, 11])])
    assert (batch.target_out != PAD).all()
    model = Transformer(config)
    with FlopCounterMode(display=False) as counter:
        model(batch.source, batch.target_in)
    assert training_flops(config, batch) == 3 * counter.get_total_flops()


@pytest.mark.parametrize("beam", [1, 3])
def test_operations_of_a_translation_are_those_that_the_model_does(beam: int) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    config = SETTINGS["A"].config()
    model = Transformer(config).eval()
    source = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        memory, mask = model.encode(source)
        encoded = counter.get_total_flops()
        caches = model.decoder.new_caches(6, 4)
        for _ in range(6):
            new = torch.randint(3, 100, (2, 1))
            model.scores(model.decode(new, memory, mask, caches)[:, -1])
    once = encoded + config.n_decoder * 2 * 2 * 2 * 4 * config.d_model**2
    more = (beam - 1) * (counter.get_total_flops() - once)
    assert decoding_flops(config, source, 6, beam) == counter.get_total_flops() + more


def test_peers_and_tfmr_are_trained_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "load", lambda *_: pocket.split("en-fr", 60, 2, 2))
    tiny = {"model.d_model": 16, "model.d_ff": 16, "model.n_encoder": 1, "model.n_decoder": 1}
    pocket_recipe = find_recipe("pocket").with_overrides(tiny)
    monkeypatch.setattr(quality, "find_recipe", lambda _: pocket_recipe)
    monkeypatch.setattr(quality, "TURN", 0.1)
    out = tmp_path / "quality.json"
    Quality(minutes=(0.001, 0.002), systems=("tfmr", "torch"), seeds=(0, 1), out=out)()
    record = read(out)
    seen = [(row["seed"], row["minutes"], row["system"]) for row in record["rows"]]
    systems = ("tfmr", "torch.nn.Transformer")
    assert seen == [(k, m, x) for k in (0, 1) for m in (0.001, 0.002) for x in systems]
    steps = {(row["seed"], row["minutes"], row["system"]): row["steps"] for row in record["rows"]}
    assert all(steps[k, 0.001, x] <= steps[k, 0.002, x] for k in (0, 1) for x in systems)
    assert len({row["parameters"] for row in record["rows"]}) == 1
    assert "2 seeds" in section("quality", record)


def test_minutes_that_do_not_rise_are_refused() -> None:
    with pytest.raises(TfmrError, match="must rise"):
        Quality(minutes=(2.0, 1.0))()


def test_a_setting_is_the_papers_model() -> None:
    config = Setting(512, 8, 2048, 6, None).config()
    base = dataclasses.replace(config, source_vocab=37000, target_vocab=37000)
    assert base == dataclasses.replace(type(config).base(), dropout=0.0, max_length=128)
