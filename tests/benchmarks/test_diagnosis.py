"""The blind test of the exercises: its answers are complete, judged, and give what is recorded."""

import dataclasses

import pytest

from benchmarks.diagnosis import FOLDER, answers, measure
from benchmarks.record import read
from tfmr.errors import TfmrError
from tfmr.exercises.chapters import chapter_numbers
from tfmr.records import record_path


@pytest.mark.parametrize("chapter", chapter_numbers())
def test_the_answers_of_a_chapter_give_the_recorded_results(chapter: str) -> None:
    rows = read(record_path("diagnosis.json"))["rows"]
    assert list(measure([chapter])) == [row for row in rows if row["chapter"] == chapter]


@pytest.mark.parametrize("chapter", chapter_numbers())
def test_each_answer_is_found_once_in_its_file(chapter: str) -> None:
    text = (FOLDER / f"{chapter}.txt").read_text("utf-8")
    found = list(answers(chapter))
    lines = text.splitlines()
    assert len(found) == sum(line.startswith("####") for line in lines)
    judged = ("# rightly: ", "# partly: ", "# wrongly: ")
    assert sum(bool(each.named) for each in found) == sum(line.startswith(judged) for line in lines)
    assert all(each.fault for each in found if not each.correct)


def test_another_name_than_the_judged_one_is_reported() -> None:
    named = next(each for each in answers("04") if each.named.startswith("rightly: "))
    assert named.result() == "named rightly"
    other = dataclasses.replace(named, named="rightly: the scores are tripled")
    with pytest.raises(TfmrError, match="the scores are tripled"):
        other.result()
    unjudged = dataclasses.replace(named, named="")
    with pytest.raises(TfmrError, match=named.exercise.label):
        unjudged.result()
    wrong = dataclasses.replace(named, named=named.named.replace("rightly", "wrongly"))
    assert wrong.result() == "named wrongly"


def test_a_mistake_that_is_no_longer_named_is_reported() -> None:
    right = next(each for each in answers("04") if each.correct)
    with pytest.raises(TfmrError, match="the mask is inverted"):
        dataclasses.replace(right, named="rightly: the mask is inverted").result()
