"""The chapters show the stubs, the hints and the solutions of their exercises."""

import pytest

from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import LEVELS, Exercise
from tools import notebooks

EXERCISES = [each for number in chapter_numbers() for each in exercises_of(find_chapter(number))]


def cells(exercise: Exercise) -> list:
    [path] = [path for path in notebooks.chapters() if path.stem.startswith(exercise.chapter)]
    return notebooks.read(path).cells


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda each: each.label)
def test_a_chapter_shows_the_exercise(exercise: Exercise) -> None:
    found = cells(exercise)
    [at] = [
        i
        for i, cell in enumerate(found)
        if cell.source.startswith(f"### Exercise {exercise.label}: {exercise.title}\n")
    ]
    text, stub, heading = found[at : at + 3]
    assert f"*Level: {LEVELS[exercise.level]}.*" in text.source
    for i, hint in enumerate(exercise.hints, start=1):
        assert f"<summary>Hint {i}</summary>\n\n{hint}\n\n</details>" in text.source
    call = f"ch{exercise.chapter}.q{exercise.number}.check({exercise.name})"
    assert stub.source.startswith(exercise.stub)
    assert stub.source.splitlines()[-1] == call
    [output] = stub.outputs
    assert output["data"]["text/plain"].startswith("Not attempted: ")
    assert heading.source == f"#### Solution of exercise {exercise.label}"
