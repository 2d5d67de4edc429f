"""The recorded results in the package."""

import json
import re

import pytest

from tfmr.errors import TfmrError
from tfmr.records import record_path


def test_files_and_folders_are_found_by_name() -> None:
    assert (
        json.loads(record_path("architectures.json").read_text("utf-8"))["kind"] == "architectures"
    )
    assert (record_path("multi30k-de-en") / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("architecture.json", r"did you mean architectures\.json\?"),
        ("?", "list that folder to see the records"),
    ],
)
def test_an_unknown_record_is_named_with_a_similar_one(name: str, hint: str) -> None:
    message = rf"expected the name of a record in .*records, got '{re.escape(name)}'; {hint}"
    with pytest.raises(TfmrError, match=message):
        record_path(name)
