"""Records are written atomically, flat, and with the metadata needed to repeat them."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.record import collect_metadata, read, read_all, write
from tfmr.errors import TfmrError
from tools import ROOT


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "x.json"
    rows = [{"task": "greedy", "seconds": [0.5, 1]}, {"task": "beam", "seconds": []}]
    write(path, "speed", rows, settings={"seed": 0})
    return path


def test_read_returns_what_was_written(written: Path) -> None:
    found = read(written)
    assert found["kind"] == "speed"
    assert found["settings"] == {"seed": 0}
    assert found["rows"][0] == {"task": "greedy", "seconds": [0.5, 1]}
    assert [path.name for path in written.parent.iterdir()] == ["x.json"]
    text = written.read_text("utf-8")
    assert json.loads(text) == found
    assert '  {"task": "greedy", "seconds": [0.5, 1]},' in text.splitlines(), "a row is a line"


def test_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["whatever.py", "--peak-lrs", "a b"])
    found = collect_metadata()
    assert found["command"].startswith("python -m ")
    assert found["command"].endswith(" --peak-lrs 'a b'")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert {"processor", "threads", "device", "cores", "memory_gib"} <= found["hardware"].keys()
    assert {"tfmr", "torch", "python", "sacrebleu"} <= found["versions"].keys()
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "expected at least one row"), ([{"a": {"b": 1}}], r"must be flat: \['a'\]")],
)
def test_invalid_rows_are_not_written(
    tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(TfmrError, match=message):
        write(tmp_path / "x.json", "speed", rows, settings={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot read a record"), ('{"rows": []}', "it lacks kind, metadata, settings")],
)
def test_an_invalid_file_raises(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    with pytest.raises(TfmrError, match=message):
        read(path)


def test_records_are_found_by_name(written: Path) -> None:
    (written.parent / "cost").mkdir()
    (written.parent / "cost" / "y.json").write_text(written.read_text("utf-8"), "utf-8")
    (written.parent / "run").mkdir()
    (written.parent / "run" / "scores.json").write_text("{}", "utf-8")
    assert list(read_all(written.parent)) == ["x", "cost/y"]
    assert record.FOLDER == ROOT / "tfmr" / "records"
