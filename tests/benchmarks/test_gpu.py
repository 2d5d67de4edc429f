"""The command for GPUs: in small, on a CPU."""

from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.gpu import GPU, PARTS
from benchmarks.record import read
from benchmarks.tables import section
from tfmr.errors import TfmrError


def test_every_part_writes_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GPU(smoke=True, minutes=60.0, out=tmp_path)()
    records = {path.stem: read(path) for path in tmp_path.glob("*.json")}
    assert records.keys() == {f"gpu-{part}" for part in PARTS}
    for row in records["gpu-correct"]["rows"]:
        assert row["value"] <= row["limit"], row
    systems = {row["system"] for row in records["gpu-epoch"]["rows"]}
    assert systems == {row["system"] for row in records["gpu-base"]["rows"]}
    for row in records["gpu-epoch"]["rows"] + records["gpu-base"]["rows"]:
        assert 0 < row["ms_min"] <= row["ms"] <= row["ms_max"]
    for name, record in records.items():
        record["metadata"]["command"] = "python -m benchmarks.gpu"
        assert f"*{name.removeprefix('gpu-')}*" in section(name, record)


def test_a_part_that_fails_or_has_no_time_left_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(device: str, sizes: gpu.Sizes) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setitem(PARTS, "epoch", fail)
    with pytest.raises(TfmrError, match=r"epoch \(OutOfMemoryError\)$"):
        GPU(parts=("epoch", "product"), smoke=True, out=tmp_path)()
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-product.json"]
    with pytest.raises(TfmrError, match=r"product \(no time left\)$"):
        GPU(parts=("product",), smoke=True, minutes=0.0, out=tmp_path)()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu() -> None:
    with pytest.raises(TfmrError, match=r"--smoke"):
        GPU()()
