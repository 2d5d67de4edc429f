"""The processor time of the chapters, relative to each other: machines differ in speed."""

import json
from statistics import median

from tools.notebooks import chapters
from tools.verify import STAMPS

LIMIT = 5
"""How many times the median a chapter may take."""


def test_no_chapter_takes_much_longer_than_the_others() -> None:
    seconds = {
        path.stem: json.loads((STAMPS / f"{path.stem}.json").read_text("utf-8"))["seconds"]
        for path in chapters()
    }
    limit = LIMIT * median(seconds.values())
    assert {name: time for name, time in seconds.items() if time > limit} == {}
