"""Records: whole, flat, and with all that a reader needs to measure again."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.record import Record, facts, read, records, write
from tfmr.errors import TfmrError


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "x.json"
    rows = [{"task": "greedy", "seconds": [0.5, 1]}, {"task": "beam", "seconds": []}]
    write(path, "speed", rows, settings={"seed": 0})
    return path


def test_what_was_written_is_read(written: Path) -> None:
    found = read(written)
    assert found["kind"] == "speed"
    assert found["settings"] == {"seed": 0}
    assert found["rows"][0] == {"task": "greedy", "seconds": [0.5, 1]}
    assert [path.name for path in written.parent.iterdir()] == ["x.json"]


def test_a_row_is_a_line_so_that_changes_can_be_read(written: Path) -> None:
    lines = written.read_text("utf-8").splitlines()
    assert '  {"task": "greedy", "seconds": [0.5, 1]},' in lines


def test_three_lines_read_any_record(written: Path) -> None:
    found = json.loads(written.read_text("utf-8"))
    rows = [row for row in found["rows"] if row["task"] == "greedy"]
    assert len(rows) == 1


def test_the_facts_say_where_when_what_and_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["whatever.py", "--peaks", "a b"])
    found = facts()
    assert found["command"].startswith("python -m ")
    assert found["command"].endswith(" --peaks 'a b'")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert {"processor", "threads", "device", "cores", "memory_gib"} <= found["hardware"].keys()
    assert {"tfmr", "torch", "python", "sacrebleu"} <= found["versions"].keys()
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "nothing was measured"), ([{"a": {"b": 1}}], r"flat, but \['a'\]")],
)
def test_what_is_no_record_is_not_written(
    tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(TfmrError, match=message):
        write(tmp_path / "x.json", "speed", rows, settings={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"), [("{", "no record at"), ('{"rows": []}', "it lacks facts, kind, settings")]
)
def test_what_is_no_record_is_not_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    with pytest.raises(TfmrError, match=message):
        read(path)


def test_records_are_found_by_name(written: Path) -> None:
    (written.parent / "cost").mkdir()
    (written.parent / "cost" / "y.json").write_text(written.read_text("utf-8"), "utf-8")
    (written.parent / "run").mkdir()
    (written.parent / "run" / "scores.json").write_text("{}", "utf-8")
    assert list(records(written.parent)) == ["x", "cost/y"]


RECORDED: dict[str, Record] = records()


def test_every_recorded_result_can_be_measured_again() -> None:
    for name, found in RECORDED.items():
        about = found["facts"]
        assert about["command"].startswith("python -m benchmarks."), name
        assert about["commit"], name
        assert about["hardware"]["processor"], name
        assert about["hardware"]["threads"] >= 1, name
        assert about["versions"]["torch"], name
        if found["kind"] in (
            "speed",
            "scores",
            "line",
            "multi30k",
        ):  # the others leave nothing to chance
            said = {*found["settings"], *(key for row in found["rows"] for key in row)}
            assert said & {"seed", "seeds"}, name


def test_the_folder_of_records_is_this_projects() -> None:
    assert record.FOLDER.name == "benchmarks"
    assert (record.FOLDER / "README.md").is_file()
