"""``doctor``: the report on a Python file."""

from pathlib import Path

import pytest

MODEL = """
import torch
from helper import VOCAB
from tfmr.doctor import Subject

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(VOCAB, 8), torch.nn.Linear(8, VOCAB))


def logits(ids):
    x = model[0](ids)
    return model[1](x + x.{reduction})


subject = Subject(model=model, logits=logits, vocab=VOCAB)
"""


def write(reduction: str) -> None:
    Path("mine").mkdir()
    Path("mine/helper.py").write_text("VOCAB = 24\n", "utf-8")
    Path("mine/model.py").write_text(MODEL.format(reduction=reduction), "utf-8")


def test_a_correct_model(command) -> None:
    write("cumsum(dim=1)")
    out, _ = command("doctor", "mine/model.py")
    assert "FAULT" not in out
    assert out.splitlines()[-1].startswith("0 faults")


def test_a_fault_is_named_and_sets_the_exit_status(
    command, capsys: pytest.CaptureFixture[str]
) -> None:
    write("mean(dim=1, keepdim=True)")
    with pytest.raises(SystemExit) as stop:
        command("doctor", "mine/model.py")
    assert stop.value.code == 1
    [line] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("FAULT")]
    assert "sees the future" in line


@pytest.mark.parametrize(
    ("text", "words"), [("x = 1\n", ["subject"]), ("x = (\n", ["line 1", "Python"])]
)
def test_a_file_without_a_subject(rejected, text: str, words: list[str]) -> None:
    Path("model.py").write_text(text, "utf-8")
    line = rejected("doctor", "model.py")
    assert all(word in line for word in words)


def test_an_absent_file(rejected) -> None:
    assert "absent.py" in rejected("doctor", "absent.py")
