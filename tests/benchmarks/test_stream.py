"""The residual stream of deep stacks: what is recorded, and that the record can be repeated."""

from pathlib import Path

import pytest
import torch

from benchmarks.depth import MASK, POSITIONS, PreviousToken, rng
from benchmarks.record import read
from benchmarks.stream import HELD_OUT, Stream, measure, state
from tfmr.records import record_path


def test_the_state_is_that_of_the_stack() -> None:
    torch.manual_seed(3)
    stack = PreviousToken("pre-norm", 2, matched=True)
    ids, classes = stack.batch(rng(HELD_OUT))
    found = state(stack)
    with torch.no_grad():
        x = stack.embedding(ids) + POSITIONS
        first = stack.blocks[0](x, MASK)
        second = stack.blocks[1](first, MASK)
    norms = [float(each.norm(dim=-1).mean()) for each in (x, first, second)]
    assert found["stream"] == pytest.approx(norms, rel=1e-3)
    changes = [float((b - a).norm(dim=-1).mean()) for a, b in ((x, first), (first, second))]
    expected = [change / norm for change, norm in zip(changes, norms, strict=False)]
    assert found["change"] == pytest.approx(expected, rel=1e-3)
    loss = stack(ids, classes)
    loss.backward()
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-3)
    squares = [
        sum(float(p.grad.square().sum()) for p in block.parameters() if p.grad is not None)
        for block in stack.blocks
    ]
    assert found["gradient"] == pytest.approx([square**0.5 for square in squares], rel=1e-3)


def test_the_record_has_every_stack_and_step(tmp_path: Path) -> None:
    out = tmp_path / "stream.json"
    Stream(stacks=("post-norm", "pre-norm"), blocks=(1,), steps=(0, 2), out=out)()
    rows = read(out)["rows"]
    names = [(row["stack"], row["blocks"], row["step"]) for row in rows]
    assert names == [(s, 1, step) for s in ("post-norm", "pre-norm") for step in (0, 2)]
    assert rows[:2] == list(measure("post-norm", 1, (0, 2)))
    assert rows[0]["loss"] != rows[1]["loss"]


def test_the_record_can_be_repeated() -> None:
    rows = read(record_path("depth-stream.json"))["rows"]
    [recorded] = [r for r in rows if (r["stack"], r["blocks"], r["step"]) == ("pre-norm", 6, 10)]
    *_, again = measure("pre-norm", 6, (10,))
    for name in ("stream", "change", "gradient"):
        assert again[name] == pytest.approx(recorded[name], rel=0.01)
