"""The recorded results in the package."""

import json

import pytest

from tfmr.errors import TfmrError
from tfmr.records import record_path


def test_files_and_folders_are_found_by_name() -> None:
    assert json.loads(record_path("line.json").read_text("utf-8"))["kind"] == "line"
    assert (record_path("multi30k-de-en") / "model.safetensors").is_file()


def test_an_unknown_record_is_named_with_the_known_ones() -> None:
    message = r"expected one of the records .*cost/attention\.json.*, got 'lines\.json'"
    with pytest.raises(TfmrError, match=message):
        record_path("lines.json")
