"""Every operation of a profile is counted once, under its kind."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import profile, speed
from benchmarks.profile import FRAMEWORK, KINDS, OTHER, Profile, kind_of, shares
from benchmarks.record import read
from benchmarks.speed import OWN
from benchmarks.workload import SETTINGS, Setting, generated_pairs


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("aten::addmm", "matrix multiplication"),
        ("mkldnn::_linear_pointwise", "matrix multiplication"),
        ("aten::_softmax_backward_data", "softmax"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "fused attention"),
        ("aten::native_layer_norm_backward", "layer norm"),
        ("aten::random_", "random numbers"),
        ("aten::_fused_adam_", "optimiser"),
        ("aten::embedding_dense_backward", "data movement"),
        ("aten::add_", "elementwise"),
        ("aten::expand", OTHER),
        ("autograd::engine::evaluate_function: AddmmBackward0", FRAMEWORK),
        (OWN, FRAMEWORK),
    ],
)
def test_kind_of_operations(operation: str, kind: str) -> None:
    assert kind_of(operation) == kind


def test_no_operation_has_two_kinds() -> None:
    names = [name for words in KINDS.values() for name in words.split()]
    assert len(set(names)) == len(names)


def test_shares_sum_to_one_in_falling_order() -> None:
    events = [
        SimpleNamespace(key="aten::mm", self_cpu_time_total=2e6),
        SimpleNamespace(key="aten::bmm", self_cpu_time_total=1e6),
        SimpleNamespace(key=OWN, self_cpu_time_total=1e6),
    ]
    rows = shares(events)
    assert [(row["kind"], row["seconds"], row["share"]) for row in rows] == [
        ("matrix multiplication", 3.0, 0.75),
        (FRAMEWORK, 1.0, 0.25),
    ]


def test_training_and_decoding_are_profiled(
    tmp_path: Path, in_process: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = generated_pairs()[:300]
    monkeypatch.setattr(profile, "token_pairs", lambda: (pairs, "generated"))
    monkeypatch.setitem(SETTINGS, "A", Setting(16, 2, 32, 1, 100))
    monkeypatch.setattr(speed, "STEPS", 8)
    monkeypatch.setattr(speed, "SENTENCES", {"greedy": 3})
    Profile(("train A", "greedy"), rounds=1, precision="fp32", out=tmp_path / "profile.json")()
    assert in_process == ["train A", "greedy"]
    record = read(tmp_path / "profile.json")
    for task, specific in (("train A", {"optimiser", "random numbers"}), ("greedy", set[str]())):
        rows = [row for row in record["rows"] if row["task"] == task]
        kinds = {row["kind"] for row in rows}
        assert {"matrix multiplication", "layer norm", FRAMEWORK} | specific <= kinds
        assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-3)
        assert all(row["seconds"] > 0 for row in rows if row["kind"] == "matrix multiplication")
    text = "\n".join(profile.table(record["rows"], record["settings"]))
    assert "|  | train A, fp32 | greedy, fp32 |" in text
    assert "| optimiser | " in text
