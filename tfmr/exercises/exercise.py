"""The kinds of exercises: numbers, functions, tests that the reader writes, and predictions.

How a mistake is found: an exercise has a function ``build`` that makes its reference solution or,
for a set of mistakes, a *wrong version* with these mistakes. The answer and the reference are run
on the same probes. If they differ, the answer is compared with each wrong version and with pairs
of them. A mistake is named only if it alone explains the results of all probes; otherwise the
first probe that fails is shown.
"""

import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations, count
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tfmr.errors import TfmrError
from tfmr.exercises import guard
from tfmr.exercises.guard import Failure
from tfmr.exercises.verdict import Verdict
from tfmr.wording import joined

# Names of the mistakes that a wrong version contains; without any, it is the reference.
Faults = frozenset[str]
LEVELS = {1: "basic", 2: "intermediate", 3: "advanced"}
LEAST_EVIDENCE = 2
"""If an answer gives fewer results without raising an error, no mistake is named."""
MOST_SHOWN = 40
"""A tensor with more numbers is described by its shape."""


@dataclass(frozen=True)
class Mistake:
    """A known mistake."""

    name: str
    """What the answer does, as a clause: ``the scores are not divided``."""
    advice: str
    """One sentence: what to do."""
    part: str
    """The part of the computation that it changes, or several parts, separated by spaces. Mistakes
    in different parts can be combined."""


@dataclass(frozen=True)
class Probe:
    """Arguments with which an answer is called."""

    stage: str
    """What this probe isolates, such as ``two keys``."""
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Caveat:
    """What could be better in a correct answer."""

    applies: Callable[[Callable[..., Any]], bool]
    text: str


@dataclass(frozen=True, repr=False)
class Note:
    """A hint or a solution: text, which a notebook displays as Markdown."""

    text: str
    code: str = ""

    def __repr__(self) -> str:
        return "\n\n".join(part for part in (self.code, self.text) if part)

    def _repr_markdown_(self) -> str:
        code = f"```python\n{self.code}\n```" if self.code else ""
        return "\n\n".join(part for part in (code, self.text) if part)


@dataclass(frozen=True, kw_only=True, repr=False)
class Exercise(ABC):
    """An exercise: its text, its hints, its solution, and a check of answers."""

    chapter: str
    number: int
    title: str
    level: Literal[1, 2, 3]
    task: str
    """What to do, in one paragraph."""
    name: str
    """The name of the answer in a file of stubs."""
    stub: str
    """Python code for the reader to complete."""
    hints: tuple[str, str, str]
    answer: Any
    """A solution."""
    remark: str
    """An explanation of the solution."""
    _hints_given: "count[int]" = field(default_factory=count, init=False)

    def __repr__(self) -> str:
        return f"{self.label}: {self.title} ({LEVELS[self.level]})"

    @property
    def label(self) -> str:
        """The number of the exercise in the book, such as ``4.2``."""
        return f"{int(self.chapter)}.{self.number}"

    @property
    def _next_hint(self) -> str:
        return f"ch{self.chapter}.q{self.number}.hint() gives a hint."

    def check(self, answer: Any) -> Verdict:
        """The verdict on an answer. The answer and the global random state are not changed."""
        if answer is None or answer is ...:
            return self._not_attempted()
        try:
            with guard.random_state_kept(), guard.time_limit(guard.SECONDS):
                return self._judge(answer)
        except guard.TimeLimitExceeded as error:
            line = guard.failing_line(error)
            return Verdict(
                "raised",
                f"Your code was stopped after {guard.SECONDS:g} seconds"
                + (f", at {line}" if line else ""),
                "Look for a loop that does not end. The check itself takes less than a second.",
            )

    def hint(self) -> Note:
        """The next hint. No hint is the answer."""
        given = next(self._hints_given)
        if given >= len(self.hints):
            name = f"ch{self.chapter}.q{self.number}"
            return Note(f"There are no more hints; `{name}.solution()` shows a solution.")
        return Note(f"Hint {given + 1} of {len(self.hints)}: {self.hints[given]}")

    def solution(self) -> Note:
        """A solution and a remark about it."""
        return Note(self.remark, self._solution_code())

    def _solution_code(self) -> str:
        return source(self.answer)

    def _not_attempted(self) -> Verdict:
        return Verdict(
            "not attempted",
            f"Not attempted: complete {self.name} and check it again.",
            self._next_hint,
        )

    def _not_a_function(self, answer: Any) -> Verdict:
        check = f"ch{self.chapter}.q{self.number}.check({self.name})"
        return Verdict(
            "wrong",
            f"Wrong: expected the function itself, as in {check}, got {type(answer).__name__}.",
        )

    @abstractmethod
    def _judge(self, answer: Any) -> Verdict:
        """The verdict on an answer that is not a stub."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosed(Exercise):
    """An exercise whose wrong answers are compared with known mistakes.

    An answer is observed as a list of results, one for each probe: tensors, and failures where the
    answer raised an exception.
    """

    build: Callable[[Faults], Any]
    mistakes: tuple[Mistake, ...]
    most_combined: int = 2
    """The largest number of mistakes that are combined in one wrong version."""
    tolerance: float = 1e-4

    @abstractmethod
    def observe(self, answer: Any) -> Iterator[Tensor | Failure]:
        """The results of an answer, one after the other."""

    @cached_property
    def expected(self) -> list[Tensor | Failure]:
        """The results of the reference."""
        return list(self.observe(self.build(frozenset())))

    @property
    def versions(self) -> list[Faults]:
        """The mistakes of each wrong version: one or, in different parts, several."""
        sizes = range(1, self.most_combined + 1)
        sets = chain.from_iterable(combinations(self.mistakes, size) for size in sizes)
        parts = ((some, [part for each in some for part in each.part.split()]) for some in sets)
        return [
            frozenset(each.name for each in some)
            for some, changed in parts
            if len(set(changed)) == len(changed)
        ]

    def agree(self, left: Iterable[Tensor | Failure], right: Iterable[Tensor | Failure]) -> bool:
        """Whether two answers give the same results; it stops at the first difference."""
        return all(self._same(one, two) for one, two in zip(left, right, strict=True))

    def _same(self, left: Tensor | Failure, right: Tensor | Failure) -> bool:
        if isinstance(left, Failure) or isinstance(right, Failure):
            slips = (NameError, ImportError, SyntaxError)  # no known mistake raises them
            return all(
                isinstance(each, Failure) and not isinstance(each.error, slips)
                for each in (left, right)
            )
        if left.shape != right.shape:
            return False
        one, two = left.double(), right.double()
        return torch.allclose(one, two, self.tolerance, self.tolerance, equal_nan=True)

    def diagnose(self, observed: Sequence[Tensor | Failure]) -> tuple[Mistake, ...]:
        """The mistakes that explain all results; none if that is not certain.

        A single mistake is preferred to a pair. If several wrong versions with equally many
        mistakes explain the results, only the mistakes that they share count.
        """
        values = sum(not isinstance(each, Failure) for each in observed)
        if values < min(len(observed), LEAST_EVIDENCE):
            return ()
        found = [
            faults
            for faults in self.versions
            if self.agree(observed, self.observe(self.build(faults)))
        ]
        certain = common(found)
        return tuple(each for each in self.mistakes if each.name in certain)

    def _named(self, mistakes: Sequence[Mistake]) -> Verdict:
        names = " and ".join(each.name for each in mistakes)
        start = "This is the mistake" if len(mistakes) == 1 else "These are the two mistakes"
        return Verdict("mistake", f"{start}: {names}.", "\n".join(m.advice for m in mistakes))


def common(explanations: Sequence[Faults]) -> Faults:
    """The mistakes that all of the simplest explanations share."""
    fewest = min(map(len, explanations), default=0)
    simplest = [each for each in explanations if len(each) == fewest]
    return frozenset.intersection(*simplest) if simplest else frozenset()


@dataclass(frozen=True, kw_only=True, repr=False)
class Numbers(Diagnosed):
    """An answer of numbers, computed by hand; wrong numbers are explained one mistake at a time."""

    most_combined: int = 1
    tolerance: float = 0.006

    def observe(self, answer: Any) -> Iterator[Tensor | Failure]:
        """The numbers as one vector."""
        yield torch.as_tensor(answer, dtype=torch.double).flatten()

    def _solution_code(self) -> str:
        return f"{self.name} = {self.answer!r}"

    def _judge(self, answer: Any) -> Verdict:
        if isinstance(answer, list | tuple) and any(each is None or each is ... for each in answer):
            return self._not_attempted()
        tensor, count = as_tensor(answer), len(self.answer)
        if tensor is None or tensor.numel() != count:
            example = ", ".join(f"0.{i + 1}" for i in range(count))
            asked = (
                "a number, such as 0.1" if count == 1 else f"{count} numbers, such as [{example}]"
            )
            return Verdict("wrong", f"Wrong: expected {asked}, got {answer!r}.")
        observed = list(self.observe(tensor))
        if self.agree(observed, self.expected):
            return Verdict("right", "Right.")
        if mistakes := self.diagnose(observed):
            return self._named(mistakes)
        right = torch.tensor(self.answer, dtype=torch.double)
        same = torch.isclose(tensor.double().flatten(), right, 0, self.tolerance)
        correct = [f"number {i + 1}" for i in range(count) if same[i]]
        details = f"Correct so far: {joined(correct)}." if correct else ""
        advice = "compute each step again, with three decimal places."
        return Verdict("wrong", f"Wrong: {advice}", details)


@dataclass(frozen=True, kw_only=True, repr=False)
class Function(Diagnosed):
    """A function that the reader implements or repairs."""

    probes: tuple[Probe, ...]
    arguments: tuple[str, ...]
    """The names of the arguments."""
    read: Callable[[Any], Tensor | None] = field(default_factory=lambda: as_tensor)
    """The tensor in a result: the same for all forms that are accepted; ``None`` for others."""
    caveats: tuple[Caveat, ...] = ()
    given: Callable[..., Any] | None = None
    """The faulty code that is to be repaired; an answer that still does the same is no attempt."""

    def observe(self, answer: Any) -> Iterator[Tensor | Failure]:
        """The results for the probes."""
        for probe in self.probes:
            yield self._result(guard.call(answer, probe.arguments))

    def _result(self, called: guard.Call) -> Tensor | Failure:
        if isinstance(called.result, Failure):
            return called.result
        tensor = self.read(called.result)
        if tensor is not None:
            return tensor
        kind = type(called.result).__name__
        if called.result is None:
            kind = "None (is the return statement missing?)"
        return Failure(TfmrError(f"expected a tensor as the result, got {kind}"), "")

    def _judge(self, answer: Any) -> Verdict:
        if not callable(answer):
            return self._not_a_function(answer)
        calls = [guard.call(answer, probe.arguments) for probe in self.probes]
        observed = [self._result(each) for each in calls]
        if isinstance(observed[0], Failure) and isinstance(observed[0].error, NotImplementedError):
            return self._not_attempted()
        if self.agree(observed, self.expected):
            changed = {self.arguments[i] for each in calls for i in each.changed}
            return self._right(answer, sorted(changed))
        if self.given is not None and self.agree(observed, self.observe(self.given)):
            return Verdict(
                "not attempted",
                "Not attempted: this computes the same as the given code.",
                self._next_hint,
            )
        if mistakes := self.diagnose(observed):
            return self._named(mistakes)
        return self._smallest_failing_case(observed)

    def _right(self, answer: Callable[..., Any], changed: Sequence[str]) -> Verdict:
        remarks = [each.text for each in self.caveats if each.applies(answer)]
        if changed:
            noun = "argument" if len(changed) == 1 else "arguments"
            remarks.append(
                f"it changes its {noun} {joined(changed)} in place, but the caller may still "
                "need the old values; compute a new tensor instead."
            )
        if not remarks:
            return Verdict("right", "Right.")
        others = "\n".join(f"Also, {each}" for each in remarks[1:])
        return Verdict("right, but", f"Right, but: {remarks[0]}", others)

    def _smallest_failing_case(self, observed: Sequence[Tensor | Failure]) -> Verdict:
        same = [self._same(*pair) for pair in zip(observed, self.expected, strict=True)]
        first = same.index(False)
        probe, given, expected = self.probes[first], observed[first], self.expected[first]
        passed = list(dict.fromkeys(p.stage for p in self.probes[:first]))
        lines = [f"Passed: {'; '.join(passed)}."] if passed else []
        case = [
            show(name, value) for name, value in zip(self.arguments, probe.arguments, strict=True)
        ]
        if isinstance(given, Failure):
            case.insert(0, f"The case: {probe.stage}.")
            if isinstance(given.error, TfmrError) and not given.line:  # not a tensor
                return Verdict("wrong", f"Wrong: {given.error}.", "\n".join([*lines, *case]))
            text = "\n".join([str(given), *lines, *case])
            return Verdict("raised", f"Your code raised an error{given.where}", text)
        assert isinstance(expected, Tensor)
        case += [show("expected", expected), show("yours", given)]
        case += first_difference(expected, given, self.tolerance)
        text = "\n".join([*lines, *case, self._next_hint])
        return Verdict("wrong", f"Wrong for this case: {probe.stage}.", text)


@dataclass(frozen=True)
class Subject:
    """A function on which the reader's test is run."""

    description: str
    """What it does, as a clause."""
    function: Callable[..., Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class WriteTest(Exercise):
    """A test that the reader writes: a function that raises AssertionError for a faulty subject."""

    correct: tuple[Subject, ...]
    mutants: tuple[Subject, ...]

    def _judge(self, answer: Any) -> Verdict:
        if not callable(answer):
            return self._not_a_function(answer)
        for subject in self.correct:
            failure = outcome(answer, subject)
            if failure is None:
                continue
            if isinstance(failure.error, NotImplementedError):
                return self._not_attempted()
            if not isinstance(failure.error, AssertionError):
                return Verdict("raised", f"Your test raised an error{failure.where}", str(failure))
            return Verdict(
                "wrong",
                f"Wrong: your test rejects a correct function{failure.where}",
                f"In this function, {subject.description}.",
            )
        survivors = [each for each in self.mutants if outcome(answer, each) is None]
        if not survivors:
            return Verdict("right", f"Right: it rejects all {len(self.mutants)} faulty functions.")
        rejected = len(self.mutants) - len(survivors)
        return Verdict(
            "wrong",
            f"Not yet: your test rejects {rejected} of {len(self.mutants)} faulty functions.",
            "It accepts:\n" + "\n".join(f"- {each.description}" for each in survivors),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Predict(Exercise):
    """The effect of a change, which the reader predicts before an experiment measures it."""

    options: dict[str, str]
    """The predictions to choose from, by letter."""
    replies: dict[str, str]
    """For each wrong option, one sentence on what it overlooks."""
    experiment: Callable[[], tuple[str, str]]
    """Measures the effect: the option that it confirms, and a report of one line."""

    @cached_property
    def measured(self) -> tuple[str, str]:
        """The result of the experiment, which runs once."""
        with guard.random_state_kept():
            return self.experiment()

    def check(self, answer: Any) -> Verdict:
        """The verdict on a prediction. Only a prediction starts the experiment."""
        verdict = super().check(answer)
        if verdict.kind != "right":
            return verdict
        right, report = self.measured
        choice = self._letter(answer)
        if choice == right:
            return Verdict("right", f"Right: {report}")
        return Verdict("wrong", f"Measured: {report}", self.replies[choice])

    @staticmethod
    def _letter(answer: Any) -> str:
        return answer.strip(" .()").lower() if isinstance(answer, str) else ""

    def _judge(self, answer: Any) -> Verdict:
        if self._letter(answer) in self.options:
            return Verdict("right", "This is one of the options.")
        letters = joined([repr(letter) for letter in self.options])
        return Verdict("wrong", f"Wrong: expected one of the options {letters}, got {answer!r}.")

    def _solution_code(self) -> str:
        return f"{self.name} = {self.answer!r}\n\n{source(self.experiment)}"


def source(function: Callable[..., Any]) -> str:
    """The source code of a function."""
    return textwrap.dedent(inspect.getsource(function)).rstrip()


def outcome(test: Callable[..., Any], subject: Subject) -> Failure | None:
    """The failure of a test, or ``None`` if it accepts the subject.

    A test may also return ``False`` instead of raising AssertionError.
    """
    result = guard.call(test, (subject.function,)).result
    if isinstance(result, Failure):
        return result
    rejected = result is not None and isinstance(result, bool | Tensor) and not bool(result)
    return Failure(AssertionError(), "") if rejected else None


def numbers(seed: int, *shape: int) -> Float[Tensor, "..."]:
    """Normally distributed numbers with two decimal places, so that a failing case is readable."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * 100).round() / 100


def as_tensor(value: Any) -> Tensor | None:
    """A tensor, array, number or nested list as a tensor; ``None`` for anything else."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list | tuple):
        rows = [as_tensor(each) for each in value]
        shapes = {None if row is None else row.shape for row in rows}
        return torch.stack(rows) if len(shapes) == 1 and None not in shapes else None  # type: ignore[arg-type]
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def first_tensor(value: Any) -> Tensor | None:
    """As :func:`as_tensor`; of a tuple of tensors, such as outputs and weights, the first."""
    if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        value = value[0]
    return as_tensor(value)


class _CallCounter(TorchFunctionMode):
    """Counts the calls of PyTorch's functions."""

    calls = 0

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        """Count, and call the function."""
        self.calls += 1
        return function(*arguments, **(named or {}))


def loops(small: tuple[Any, ...], large: tuple[Any, ...]) -> Callable[[Callable[..., Any]], bool]:
    """Whether a function calls PyTorch more often for larger arguments: it loops over them."""

    def applies(function: Callable[..., Any]) -> bool:
        calls = []
        for arguments in (small, large):
            with _CallCounter() as counter:
                guard.call(function, arguments)
            calls.append(counter.calls)
        few, many = calls
        return bool(many > few)

    return applies


def show(name: str, value: Any) -> str:
    """An argument or a result on one line or, for a matrix, on several."""
    if not isinstance(value, Tensor):
        return f"{name} = {value!r}"
    if value.numel() > MOST_SHOWN:
        return f"{name}: a tensor of shape {tuple(value.shape)}"
    start = f"{name} = "
    array = (value.double() if value.is_floating_point() else value).numpy(force=True)
    text = np.array2string(array, precision=3, suppress_small=True, separator=", ", prefix=start)
    return start + text + (f"  # shape {tuple(value.shape)}" if value.dim() != 1 else "")


def first_difference(expected: Tensor, given: Tensor, tolerance: float) -> list[str]:
    """A line that states where two tensors of the same shape begin to differ; else none."""
    if expected.shape != given.shape or expected.numel() == 1:
        return []
    same = torch.isclose(given.double(), expected.double(), tolerance, tolerance, equal_nan=True)
    place = (~same).nonzero()[0].tolist()
    return [f"They differ first at index {place}."]
