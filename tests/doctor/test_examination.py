"""The doctor finds and names every planted fault, and reports none in a correct model."""

import copy
import warnings

import pytest
import torch

from tests.doctor import book_models, torch_models
from tests.doctor.case import Case
from tfmr.doctor import Subject, examine
from tfmr.errors import TfmrError

CASES = [*book_models.CASES, *torch_models.CASES]
FAULTY = [case for case in CASES if case.fault]
CORRECT = [case for case in CASES if not case.fault]


@pytest.mark.parametrize("case", FAULTY, ids=repr)
def test_a_planted_fault_is_named(case: Case) -> None:
    report = examine(case.build())
    assert [finding.name for finding in report.faults] == [case.fault], report


@pytest.mark.parametrize("case", CORRECT, ids=repr)
def test_a_correct_model_raises_no_alarm(case: Case) -> None:
    report = examine(case.build())
    assert not report.faults, report


def test_the_model_and_the_random_state_are_unchanged() -> None:
    subject = torch_models.build()
    subject.model.train()
    subject.model.output.weight.grad = gradient = torch.ones_like(subject.model.output.weight)
    before, state = copy.deepcopy(subject.model.state_dict()), torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        examine(subject)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in subject.model.modules())
    assert subject.model.output.weight.grad is gradient
    after = subject.model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_a_model_that_ignores_its_input_is_undecided() -> None:
    linear = torch.nn.Linear(1, 24)

    def logits(ids):
        return linear(torch.ones(*ids.shape, 1))

    report = examine(Subject(model=linear, logits=logits, vocab=24))
    assert not report.faults
    assert report["sees the future"].verdict == "undecided"
    assert "train the model" in report["sees the future"].text


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (lambda ids: ids, ["(2, 8, 24)", "(2, 8)"]),
        (lambda ids: 1 / 0, ["ZeroDivisionError", "line"]),
        (lambda ids: torch.full((*ids.shape, 24), torch.nan), ["NaN"]),
    ],
)
def test_a_subject_that_cannot_be_examined(logits, words: list[str]) -> None:
    with pytest.raises(TfmrError) as error:
        examine(Subject(model=torch.nn.Linear(1, 1), logits=logits, vocab=24))
    assert all(word in str(error.value) for word in words)


def test_the_vocabulary_must_be_large_enough() -> None:
    with pytest.raises(TfmrError, match="at least 12"):
        Subject(model=torch.nn.Linear(1, 1), logits=lambda ids: ids, vocab=11)


def test_a_report_counts_its_findings() -> None:
    report = examine(torch_models.build("no mask"))
    lines = repr(report).splitlines()
    assert lines[-1] == "1 fault, 1 undecided, 2 ok"
    assert [line.split()[0] for line in lines[:-1]] == ["ok", "ok", "FAULT", "?"]
