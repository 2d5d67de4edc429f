"""``compare``: two models on the same test set."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.commands.conftest import Command
from tfmr import checkpoint
from tfmr.data import corpora, pocket
from tfmr.decode import translate
from tfmr.metrics import bleu
from tfmr.train.run_dir import curve_csv
from tfmr.train.trainer import StepRecord

PAIRS = pocket.split("en-fr", 100, 4, 9).test


@pytest.fixture
def runs(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two run directories with models of different weights, on a small corpus."""
    monkeypatch.setattr(corpora, "load", lambda *_: pocket.split("en-fr", 100, 4, 9))
    saved = checkpoint.load(model / "model.safetensors")
    for name, noise in (("a", 0.0), ("b", 0.05)):
        torch.manual_seed(1)
        weights = {n: w + noise * torch.randn_like(w) for n, w in saved.weights.items()}
        metadata = saved.metadata | {"recipe": {"train": {"seed": name}}}
        Path(name).mkdir()
        changed = checkpoint.Checkpoint(saved.config, saved.tokenizer, weights, metadata=metadata)
        checkpoint.save(Path(name, "model.safetensors"), changed)
        records = [StepRecord(n, 5.0 / n, 1.0, 1.0, 1.0, 9, 1.0) for n in range(1, 11)]
        Path(name, "curve.csv").write_text(curve_csv(records))
    return "a", "b"


def test_scores_settings_curves_and_sentences(command: Command, runs: tuple[str, str]) -> None:
    out, _ = command("compare", *runs, "--beam", 1, "--plot", "c.png", "--sentences", 2)
    sources, references = zip(*PAIRS, strict=True)
    outputs = [
        translate(*checkpoint.load_translator(run), sources, detokenise=False) for run in runs
    ]
    scores = [bleu(hypotheses, references).score for hypotheses in outputs]
    assert outputs[0] != outputs[1]
    assert f"| BLEU | {scores[0]:.2f} | {scores[1]:.2f} | {scores[1] - scores[0]:+.2f}, " in out
    assert "9 sentences, beam 1, nrefs:1" in out
    assert "- recipe.train.seed: a | b\n" in out
    assert "| 2 | 3.750 | 3.750 |" in out
    assert out.count("- source: ") == 2
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    assert not list(Path().glob(".c.png*"))


def test_a_model_and_itself_do_not_differ(command: Command, runs: tuple[str, str]) -> None:
    shutil.rmtree(runs[1])
    out, _ = command("compare", runs[0], Path(runs[0], "model.safetensors"), "--beam", 1)
    assert "+0.00, 95 % interval +0.00 to +0.00" in out
    assert "may be noise" in out
    assert "- source: " not in out
    assert "| step |" in out


def test_runs_with_different_test_sets_are_refused(
    command: Command, rejected, runs: tuple[str, str]
) -> None:
    lines = "".join(f"{s}\t{t}\n" for s, t in pocket.generate("en-fr", 5, 3))
    Path("b/test-set.tsv").write_text(lines, encoding="utf-8")
    message = rejected("compare", *runs)
    assert "9 sentences of pocket and 5 other ones of your files; give one test set with" in message
    out, _ = command("compare", *runs, "--files", "b/test-set.tsv", "--beam", 1)
    assert out.startswith("5 sentences, beam 1")


def test_invalid_options_are_rejected(rejected, runs: tuple[str, str]) -> None:
    assert "--sentences of at least 0, got -1" in rejected("compare", *runs, "--sentences", -1)
    assert "the ending .png, .svg or .pdf, got c.gif" in rejected(
        "compare", *runs, "--plot", "c.gif"
    )
    assert "no checkpoint at c: " in rejected("compare", "a", "c")
