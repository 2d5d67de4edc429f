"""The doctor finds and names every planted fault, and reports none in a correct model."""

import copy
import dataclasses
import json
import warnings

import pytest
import torch

from benchmarks.doctor import CASES
from benchmarks.patients import by_hand, torch_nn
from benchmarks.patients.case import TRAINING, Case, losses
from tfmr.doctor import Subject, examine
from tfmr.errors import TfmrError
from tfmr.records import record_path

# Faults of the training do not depend on the architecture; benchmarks.doctor plants all of them.
FAULTY = [
    case
    for case in CASES
    if case.fault
    and (case.name.startswith(("by hand", "GPT-2")) or case.name.partition(": ")[2] not in TRAINING)
]
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
    subject = torch_nn.build()
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
    report = examine(torch_nn.build("no mask"))
    lines = repr(report).splitlines()
    assert lines[-1] == "1 fault, 3 undecided, 9 ok"
    assert [line.split()[0] for line in lines[:4]] == ["ok", "ok", "FAULT", "?"]


def test_probes_that_need_more_functions_say_so() -> None:
    subject = torch_nn.build()
    report = examine(Subject(model=subject.model, logits=subject.logits, vocab=24, source_vocab=24))
    undecided = {each.name: each.text for each in report if each.verdict == "undecided"}
    assert {text.partition(" to ")[0] for text in undecided.values()} == {
        "pass `cached`",
        "pass `parameters`, the number that you counted,",
        "pass `loss`",
        "pass `loss` and `accumulate`",
    }
    assert len(undecided) == 7


@pytest.mark.parametrize(("counted", "verdict"), [(False, "ok"), (True, "fault")])
def test_an_unknown_loss_is_undecided_but_padding_is_found(counted: bool, verdict: str) -> None:
    subject = by_hand.build()

    def loss(source, target):
        logits = subject.logits(source, target[:, :-1])
        gold = logits.gather(-1, target[:, 1:, None]).squeeze(-1)
        margins = (1 + logits.amax(dim=-1) - gold).square()
        real = torch.ones_like(margins) if counted else (target[:, 1:] != 0).float()
        return (margins * real).sum() / real.sum()

    report = examine(dataclasses.replace(subject, loss=loss, accumulate=None))
    assert report["labels not shifted"].verdict == "undecided"
    assert "no known cross-entropy" in report["labels not shifted"].text
    assert report["padding in the loss"].verdict == verdict


def test_a_model_without_padding() -> None:
    subject = by_hand.build()
    subject = dataclasses.replace(subject, pad=None, **losses(subject.logits, "padding"))
    report = examine(subject)
    assert not report.faults, report
    assert (
        report["attends to padding"].verdict == report["padding in the loss"].verdict == "undecided"
    )
    assert report["labels not shifted"].verdict == "ok"


def test_a_stated_number_that_no_embedding_explains() -> None:
    subject = by_hand.build()
    finding = examine(dataclasses.replace(subject, parameters=subject.parameters - 1))[
        "embeddings not tied"
    ]
    assert finding.verdict == "undecided"
    assert "not the size of an embedding matrix" in finding.text


def test_a_random_loss_is_undecided() -> None:
    subject = by_hand.build()
    report = examine(dataclasses.replace(subject, loss=lambda *batch: torch.rand(())))
    assert "random" in report["labels not shifted"].text


def test_the_record_has_every_model() -> None:
    rows = json.loads(record_path("doctor.json").read_text("utf-8"))["rows"]
    assert [row["model"] for row in rows] == [case.name for case in CASES]
