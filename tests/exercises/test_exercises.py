"""Every exercise: its solution, its stub, its hints, and each of its known mistakes.

The tests are generated from the lists of the exercises, and from ``answers_NN.py``.
"""

import copy
import importlib
import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tfmr.exercises import ch04
from tfmr.exercises.chapters import chapter_numbers, exercises_of, find_chapter
from tfmr.exercises.exercise import Diagnosed, Exercise, Function, Mistake, Numbers, Probe, common

EXERCISES = [each for number in chapter_numbers() for each in exercises_of(find_chapter(number))]
DIAGNOSED = [each for each in EXERCISES if isinstance(each, Diagnosed)]
MISTAKES = [(each, mistake) for each in DIAGNOSED for mistake in each.mistakes]


def answers(exercise: Exercise, kind: str) -> list:
    module = importlib.import_module(f"tests.exercises.answers_{exercise.chapter}")
    return getattr(module, kind).get(f"q{exercise.number}", [])


every = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda each: each.label)
every_mistake = pytest.mark.parametrize(
    ("exercise", "mistake"), MISTAKES, ids=lambda each: getattr(each, "label", None)
)


def test_exercises_are_numbered_and_named_apart() -> None:
    for number in chapter_numbers():
        chapter = find_chapter(number)
        found = exercises_of(chapter)
        assert [each.number for each in found] == list(range(1, len(found) + 1))
        assert len({each.name for each in found}) == len(found)
        for each in found:
            assert getattr(chapter, f"q{each.number}") is each
            assert each.chapter == chapter.CHAPTER == number


@every
def test_the_solution_is_right(exercise: Exercise) -> None:
    verdict = exercise.check(exercise.answer)
    assert verdict.kind == "right", verdict
    text = repr(exercise.solution())
    assert exercise.remark in text
    assert exercise.name in text or exercise.answer.__name__ in text


@every
def test_a_stub_is_not_attempted(exercise: Exercise) -> None:
    names = {"math": math, "torch": torch}
    exec(exercise.stub, names)
    assert exercise.check(names[exercise.name]).kind == "not attempted"
    assert exercise.check(None).kind == exercise.check(...).kind == "not attempted"


@every
def test_hints_come_one_after_the_other_and_are_not_the_answer(exercise: Exercise) -> None:
    exercise = replace(exercise)  # which no other test has asked for a hint
    shown = [repr(exercise.hint()) for _ in range(4)]
    assert len(set(exercise.hints)) == 3
    for i, hint in enumerate(exercise.hints):
        assert shown[i] == f"Hint {i + 1} of 3: {hint}"
    assert f"ch{exercise.chapter}.q{exercise.number}.solution()" in shown[3]
    code = [line.strip() for line in exercise.solution().code.splitlines()]
    lines = [line for line in code if len(line) > 20 and not line.startswith(('"', "def"))]
    assert not any(line in hint for line in lines for hint in exercise.hints)
    if isinstance(exercise, Numbers):
        assert not any(str(value) in hint for value in exercise.answer for hint in exercise.hints)


@every
def test_differently_written_right_answers_are_accepted(exercise: Exercise) -> None:
    variants = answers(exercise, "RIGHT")
    assert len(variants) >= 5
    for answer in variants:
        verdict = exercise.check(answer)
        assert verdict.kind == "right", (answer, verdict)


@every
def test_what_could_be_better_is_said(exercise: Exercise) -> None:
    for answer, remark in answers(exercise, "REMARKS"):
        verdict = exercise.check(answer)
        assert verdict.kind == "right, but", (answer, verdict)
        assert remark in repr(verdict)
        assert re.match(r"Right, but: [a-z]", verdict.headline)
        assert all(line.startswith("Also, ") for line in verdict.details.splitlines())


@every
def test_a_mistake_is_named_only_if_it_explains_the_answer(exercise: Exercise) -> None:
    for answer, name in answers(exercise, "WRONG"):
        verdict = exercise.check(answer)
        if name:
            assert (verdict.kind, name in verdict.headline) == ("mistake", True), verdict
        else:
            assert verdict.kind in ("wrong", "raised"), (answer, verdict)


@every_mistake
def test_a_wrong_version_gets_its_own_name(exercise: Diagnosed, mistake: Mistake) -> None:
    verdict = exercise.check(exercise.build(frozenset({mistake.name})))
    assert verdict.kind == "mistake", verdict
    assert verdict.headline == f"This is the mistake: {mistake.name}."
    assert verdict.details == mistake.advice


@pytest.mark.parametrize("exercise", DIAGNOSED, ids=lambda each: each.label)
def test_a_pair_of_mistakes_is_named_unless_one_mistake_looks_the_same(exercise: Diagnosed) -> None:
    results = {each: list(exercise.observe(exercise.build(each))) for each in exercise.versions}
    for faults, observed in results.items():
        if not exercise.agree(observed, exercise.expected):
            found = [each for each in results if exercise.agree(observed, results[each])]
            named = common(found)
            assert faults in found
            assert len(faults) > 1 or named == faults
            assert named <= faults or len(named) == 1


def test_only_what_all_explanations_share_is_certain() -> None:
    a, b, ab, ac = (frozenset(names) for names in ("a", "b", "ab", "ac"))
    assert common([]) == common([a, b]) == common([ab, frozenset("cd")]) == frozenset()
    assert common([a]) == common([a, ab, ac]) == common([ab, ac]) == a
    assert common([b, ac]) == b
    assert common([ab]) == ab


@pytest.mark.parametrize("exercise", DIAGNOSED, ids=lambda each: each.label)
def test_there_are_enough_mistakes(exercise: Diagnosed) -> None:
    names = [each.name for each in exercise.mistakes]
    assert len(set(names)) == len(names) >= 3
    for mistake in exercise.mistakes:
        assert re.fullmatch(r"([a-z]|True ).*[^.]", mistake.name)
        assert re.fullmatch(r"[A-Z].*\.", mistake.advice)


@every
def test_a_check_changes_neither_random_numbers_nor_its_probes(exercise: Exercise) -> None:
    def answer(*arguments):
        for each in arguments:
            if isinstance(each, torch.Tensor):
                each.zero_()
        random.random(), np.random.rand(), torch.rand(1)
        return arguments[0]

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(1)
    probes = copy.deepcopy(getattr(exercise, "probes", ()))
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    exercise.check(answer)
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected
    for probe, before in zip(getattr(exercise, "probes", ()), probes, strict=True):
        for argument, copied in zip(probe.arguments, before.arguments, strict=True):
            if isinstance(argument, torch.Tensor):
                assert_close(argument, copied)
            else:
                assert argument == copied


@every
def test_a_value_of_another_type_is_wrong(exercise: Exercise) -> None:
    for value in ("text", 3.5, {}, torch):
        assert exercise.check(value).kind == "wrong"


FUNCTIONS = [each for each in EXERCISES if isinstance(each, Function)]
every_function = pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda each: each.label)


@every_function
def test_an_error_is_shown_with_its_line(exercise: Function) -> None:
    def answer(*arguments):
        return undefined_name  # type: ignore[name-defined]

    verdict = exercise.check(answer)
    assert verdict.kind == "raised"
    assert "return undefined_name" in verdict.headline
    error, case = verdict.details.splitlines()[:2]
    assert error == "NameError: name 'undefined_name' is not defined"
    assert case == f"The case: {exercise.probes[0].stage}."


@every_function
def test_another_wrong_answer_is_shown_with_its_first_failing_case(exercise: Function) -> None:
    verdict = exercise.check(lambda *arguments: torch.full((1, 1), 0.125))
    assert verdict.kind == "wrong"
    assert verdict.headline == f"Wrong for this case: {exercise.probes[0].stage}."
    assert "yours = [[0.125]]  # shape (1, 1)" in verdict.details
    assert "expected = " in verdict.details
    assert verdict.details.endswith(f"q{exercise.number}.hint() gives a hint.")
    verdict = exercise.check(lambda *arguments: None)
    assert verdict.headline.endswith("got None (is the return statement missing?).")
    assert f"The case: {exercise.probes[0].stage}." in verdict.details


def test_a_failing_case_shows_matrices_by_row_and_where_they_differ() -> None:
    def answer(ids: torch.Tensor) -> torch.Tensor:
        return (ch04.q3.answer(ids) & (torch.arange(ids.shape[1]) != 1)).bfloat16()

    assert isinstance(ch04.q3, Function)
    lines = ch04.q3.check(answer).details.splitlines()
    assert lines[-5:] == [
        "yours = [[[1., 0., 0.],",
        "          [1., 0., 0.],",
        "          [1., 0., 1.]]]  # shape (1, 3, 3)",
        "They differ first at index [0, 1, 1].",
        "ch04.q3.hint() gives a hint.",
    ]


@every_function
def test_a_failing_case_names_what_passed(exercise: Function) -> None:
    calls = []

    def answer(*arguments):
        calls.append(arguments)
        result = exercise.read(exercise.answer(*arguments))
        return result if len(calls) == 1 else result.double() + 0.3

    verdict = exercise.check(answer)
    assert verdict.kind == "wrong"
    assert f"Passed: {exercise.probes[0].stage}." in verdict.details


def doubled(x):
    return 2 * x


def test_one_result_among_errors_does_not_name_a_mistake() -> None:
    mistake = Mistake("it is tripled", "Double it.", "factor")

    def build(faults):
        def version(x):
            if faults and x < 0:
                raise ValueError
            return 3 * x if faults else doubled(x)

        return version

    def exercise(*values: float) -> Function:
        return Function(
            chapter="00",
            number=1,
            title="Double",
            level=1,
            name="double",
            stub="",
            hints=("", "", ""),
            answer=doubled,
            remark="",
            build=build,
            mistakes=(mistake,),
            probes=tuple(Probe(f"{value}", (torch.tensor(value),)) for value in values),
            arguments=("x",),
            task="",
        )

    wrong = build(frozenset({mistake.name}))
    assert exercise(1.0, 2.0, -1.0).check(wrong).kind == "mistake"
    assert exercise(1.0, -2.0, -1.0).check(wrong).kind == "wrong"
