"""Where the time goes: every operation is counted once, as the kind of work that it is."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import profile, speed
from benchmarks.compare import OWN
from benchmarks.profile import BETWEEN, KINDS, REST, Profile, kind_of, shares
from benchmarks.record import read
from benchmarks.tables import section
from benchmarks.workload import SETTINGS, Setting, generated


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("aten::addmm", "products of matrices"),
        ("mkldnn::_linear_pointwise", "products of matrices"),
        ("aten::_softmax_backward_data", "softmax"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "fused attention"),
        ("aten::native_layer_norm_backward", "norm"),
        ("aten::random_", "chance"),
        ("aten::_fused_adam_", "optimiser"),
        ("aten::embedding_dense_backward", "moving numbers"),
        ("aten::add_", "number by number"),
        ("aten::expand", REST),
        ("autograd::engine::evaluate_function: AddmmBackward0", BETWEEN),
        (OWN, BETWEEN),
    ],
)
def test_operations_are_counted_as_what_they_are(operation: str, kind: str) -> None:
    assert kind_of(operation) == kind


def test_no_operation_is_of_two_kinds() -> None:
    names = [name for words in KINDS.values() for name in words.split()]
    assert len(set(names)) == len(names)


def test_shares_are_of_the_whole_and_fall() -> None:
    events = [
        SimpleNamespace(key="aten::mm", self_cpu_time_total=2e6),
        SimpleNamespace(key="aten::bmm", self_cpu_time_total=1e6),
        SimpleNamespace(key=OWN, self_cpu_time_total=1e6),
    ]
    rows = shares("greedy", events)
    assert [(row["kind"], row["seconds"], row["share"]) for row in rows] == [
        ("products of matrices", 3.0, 0.75),
        (BETWEEN, 1.0, 0.25),
    ]


def test_training_and_decoding_are_watched(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = generated()[:300]
    monkeypatch.setattr(profile, "tokenised", lambda: (pairs, "generated"))
    monkeypatch.setitem(SETTINGS, "A", Setting(16, 2, 32, 1, 100))
    monkeypatch.setattr(speed, "STEPS", 8)
    monkeypatch.setattr(speed, "SENTENCES", {"greedy": 3})
    before = torch.get_float32_matmul_precision()
    try:
        Profile(("train A", "greedy"), rounds=1, out=tmp_path / "profile.json")()
    finally:
        torch.set_float32_matmul_precision(before)
    assert here == ["train A", "greedy"]
    record = read(tmp_path / "profile.json")
    for task, only_here in (("train A", {"optimiser", "chance"}), ("greedy", set[str]())):
        rows = [row for row in record["rows"] if row["task"] == task]
        kinds = {row["kind"] for row in rows}
        assert {"products of matrices", "norm", BETWEEN} | only_here <= kinds
        assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-3)
        assert all(row["seconds"] > 0 for row in rows if row["kind"] == "products of matrices")
    text = section("profile", record)
    assert "|  | train A | greedy |" in text
    assert "| optimiser | " in text
