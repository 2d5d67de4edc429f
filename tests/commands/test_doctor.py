"""``doctor``: the report on a Python file."""

import shutil
from pathlib import Path

import pytest

MODEL = """
import torch
from helper import VOCAB
from tfmr.doctor import Subject

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(VOCAB, 8), torch.nn.Linear(8, VOCAB))


def logits(ids):
    x = model[0](ids) * torch.arange(1.0, ids.shape[1] + 1)[:, None]
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


def test_a_run_directory(command, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(model, folder)
    rows = [f"{k},{6 / k},1,{10 + k},{k / 1000},100,{k}" for k in range(1, 21)]
    header = "step,loss,grad_norm,weight_norm,learning_rate,tokens,seconds"
    (folder / "curve.csv").write_text("\n".join([header, *rows]), "utf-8")
    (folder / "valid.csv").write_text("step,loss\n10,0.9\n20,0.5\n", "utf-8")
    out, _ = command("doctor", folder, "--figure", "curve.png")
    assert "FAULT" not in out
    assert "sees the future" in out
    assert "validation loss 0.50" in out
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_without_a_curve_has_no_figure(rejected, model: Path) -> None:
    assert "--figure" in rejected("doctor", model, "--figure", "curve.png")


def test_a_table(command, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{k},6.9" for k in range(1, 11)]
    Path("curve.csv").write_text("\n".join(["step,loss", *rows]), "utf-8")
    with pytest.raises(SystemExit) as stop:
        command("doctor", "curve.csv")
    assert stop.value.code == 1
    [line] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("FAULT")]
    assert "not learning" in line


def test_the_curve_in_an_event_file_or_its_folder(command) -> None:
    Path("logs").mkdir()
    written = Path(__file__).parent.parent / "doctor" / "curve.tfevents"
    shutil.copy(written, "logs/events.out.tfevents.1.host")
    for path in ("logs", "logs/events.out.tfevents.1.host"):
        out, _ = command("doctor", path, "--figure", "curve.png")
        assert "the training loss is 2.20 and the validation loss 2.50" in out
    assert Path("curve.png").stat().st_size > 0
