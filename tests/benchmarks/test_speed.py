"""The speed and quality benchmarks end to end on tiny models, and their workload."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import quality, record, speed, versus, workload
from benchmarks.peers.ct2 import CTranslate2
from benchmarks.quality import Quality
from benchmarks.record import read
from benchmarks.speed import CHOSEN, HIGHEST, OWN, PEAK, Speed, exact_settings, matmul_error
from benchmarks.versus import Versus
from tfmr.data import corpora, pocket
from tfmr.data.batches import IdPair, collate
from tfmr.dtype import Units
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train.config import find_recipe


def first_pairs() -> list[IdPair]:
    """The first of the generated pairs."""
    return workload.generated_pairs()[:300]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and generated sentences."""
    monkeypatch.setitem(workload.SETTINGS, "A", workload.Setting(16, 2, 32, 1, 100))
    monkeypatch.setitem(workload.SETTINGS, "B", workload.Setting(16, 4, 16, 1, None))
    monkeypatch.setattr(speed, "token_pairs", lambda: (first_pairs(), "generated"))
    monkeypatch.setattr(speed, "SIZE", 32)
    monkeypatch.setattr(speed, "STEPS", 8)
    monkeypatch.setattr(speed, "SENTENCES", {"greedy": 3, "beam": 2, "single": 2})


def test_every_system_is_measured_in_both_precisions(tmp_path: Path, in_process: list[str]) -> None:
    out = tmp_path / "speed.json"
    Speed(peers=("torch",), precisions=("fp32", "bf16"), rounds=2, out=out)()
    assert in_process == list(speed.TASKS)
    record = read(out)
    seen = {(row["task"], row["precision"], row["system"]) for row in record["rows"]}
    systems = ("tfmr", "torch.nn.Transformer", PEAK)
    assert seen == {(t, p, s) for t in speed.TASKS for p in ("fp32", "bf16") for s in systems}
    settings = {row["float32_matmul_precision"] for row in record["rows"]}
    assert settings == {*(each.matmul for each in exact_settings("cpu")), "medium", CHOSEN}
    own = [(row["task"], row["precision"]) for row in record["rows"] if row["system"] == OWN]
    assert len(set(own)) == len(own), "tfmr chooses its own arithmetic: measured once"
    assert all(len(row["seconds"]) == 2 for row in record["rows"])
    assert all("share_of_peak" in row for row in record["rows"] if row["system"] != PEAK)
    greedy = next(r for r in record["rows"] if (r["task"], r["system"]) == ("greedy", "tfmr"))
    assert 3 * 8 / max(greedy["seconds"]) * 0.99 <= greedy["tokens_per_second"]
    assert greedy["tokens_per_second"] <= 3 * 8 / min(greedy["seconds"]) * 1.01
    text = "\n".join(speed.table(record["rows"], record["settings"]))
    for title in ("All systems in fp32", "All systems in bf16", "Mixed"):
        assert title in text


def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, in_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    out = tmp_path / "speed.json"
    with pytest.raises(TfmrError, match=r"ctranslate2 needs the package.*\[bench\].*--peers"):
        Speed(tasks=("greedy",), peers=("ctranslate2",), rounds=1, out=out)()
    assert not out.exists()


def test_a_system_outside_pytorch_is_in_the_table_and_compared_by_itself() -> None:
    def row(system: str, precision: str, seconds: float) -> dict[str, Any]:
        return {
            **{"task": "greedy", "system": system, "precision": precision},
            **{"seconds": [seconds] * 2, "tokens_per_second": 90.0},
        }

    rows = [
        *(row(OWN, "fp32", 2.0), row(OWN, "bf16", 2.0), row("Marian", "fp32", 5.0)),
        *(row(CTranslate2.title, "fp32", 1.0), row(CTranslate2.title, "int8", 0.5)),
    ]
    fp32, bf16, mixed = (part for part in speed.table(rows, {}) if part.startswith("|  | greedy"))
    assert "| CTranslate2 | 0.50 (0.50–0.50) |" in fp32
    assert "| CTranslate2, int8 | 0.25 (0.25–0.25) |" in fp32
    assert "CTranslate2" not in bf16
    assert "CTranslate2, int8" not in mixed
    claims = dict(speed.claims(rows, {}, {}))
    assert claims == {
        "README.md states the time of CTranslate2, greedy: 0.50 times": False,
        "tfmr is the fastest system in PyTorch in greedy, fp32: 2.50": True,
    }


@pytest.mark.parametrize(("fast", "expected"), [(True, ("fp32", "bf16")), (False, ("fp32",))])
def test_bf16_is_measured_by_default_where_it_is_fast(
    monkeypatch: pytest.MonkeyPatch, fast: bool, expected: tuple[str, ...]
) -> None:
    monkeypatch.setattr(speed, "find_units", lambda device: Units(device, bf16=fast))
    assert speed.default_precisions("cpu") == expected
    assert ("not measured" in Speed()._describe_bf16()) is not fast


SMALL = """
import benchmarks.speed
from benchmarks.workload import SETTINGS, Setting
SETTINGS["A"] = Setting(16, 2, 32, 1, 100)
benchmarks.speed.STEPS, benchmarks.speed.SENTENCES = 8, {"greedy": 3}
"""


def test_a_checkout_is_compared_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versus, "token_pairs", lambda: (first_pairs(), "generated"))
    monkeypatch.setattr(versus, "WORKER", SMALL + versus.WORKER)
    out = tmp_path / "versus.json"
    Versus(record.ROOT, tasks=("greedy",), precisions=("fp32",), rounds=2, out=out)()
    rows = read(out)["rows"]
    [row] = rows
    assert (row["task"], row["precision"], len(row["seconds_new"])) == ("greedy", "fp32", 2)
    assert row["ratio_min"] <= row["ratio"] <= row["ratio_max"]
    assert "| greedy, fp32 |" in versus.table(rows, {"new": "a", "old": "b"})[-1]


def test_a_folder_that_is_no_checkout_raises(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"root.*checkout"):
        Versus(tmp_path)()


def test_highest_is_exact() -> None:
    assert 0 < matmul_error(HIGHEST, "cpu") < 1e-6
    assert exact_settings("cpu")[0] == HIGHEST


def test_generated_pairs_have_the_recorded_lengths() -> None:
    pairs = workload.generated_pairs()
    assert len(pairs) == 29000
    assert workload.count_lengths(pairs) == workload.LENGTHS.read_text("utf-8")


def test_source_batches() -> None:
    batches = workload.source_batches(first_pairs(), 4, 12, 3, seed=0)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert all(batch.shape[1] <= 12 for batch in batches)
    again = workload.source_batches(first_pairs(), 4, 12, 3, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))


def test_training_batches_have_the_size_of_the_setting() -> None:
    for batch in workload.training_batches(workload.SETTINGS["A"], first_pairs(), 4, seed=0):
        assert max(batch.source.numel(), batch.target_in.numel()) <= 100
    for batch in workload.training_batches(workload.SETTINGS["B"], first_pairs(), 2, seed=0):
        assert batch.source.shape == batch.target_in.shape == (32, 32)
        assert batch.n_tokens == 1024


def test_training_flops_equal_the_count_of_torch() -> None:
    """Without padding; torch counts the forward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    config = workload.SETTINGS["A"].config()
    batch = collate([([5, 6, 7, 8], [9, 10, 11]), ([5, 6, 7, 8], [9, 10, 11])])
    assert (batch.target_out != PAD).all()
    model = Transformer(config)
    with FlopCounterMode(display=False) as counter:
        model(batch.source, batch.target_in)
    assert workload.training_flops(config, batch) == 3 * counter.get_total_flops()


@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_flops_equal_the_count_of_torch(beam: int) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    config = workload.SETTINGS["A"].config()
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
    assert workload.decoding_flops(config, source, 6, beam) == counter.get_total_flops() + more


def test_all_systems_are_trained_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "load", lambda *_: pocket.split("en-fr", 60, 2, 2))
    tiny = {"model.d_model": 16, "model.d_ff": 16, "model.n_encoder": 1, "model.n_decoder": 1}
    recipe = find_recipe("pocket").with_overrides(tiny)
    monkeypatch.setattr(quality, "find_recipe", lambda _: recipe)
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
    assert "2 seeds" in quality.table(record["rows"], record["settings"])[0]


def test_minutes_not_in_rising_order_raise() -> None:
    with pytest.raises(TfmrError, match="in rising order"):
        Quality(minutes=(2.0, 1.0))()


def test_setting_b_is_the_papers_base_model() -> None:
    config = workload.Setting(512, 8, 2048, 6, None).config()
    base = dataclasses.replace(config, source_vocab=37000, target_vocab=37000)
    assert base == dataclasses.replace(type(config).base(), dropout=0.0, max_length=128)
