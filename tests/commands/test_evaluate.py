"""``evaluate``: search options, precision, and the check of the direction."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Command
from tfmr import checkpoint
from tfmr.checkpoint import load_translator
from tfmr.data import corpora, pocket
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.metrics import Bleu, bleu


@pytest.fixture
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small corpus for every direction."""
    monkeypatch.setattr(
        corpora, "load", lambda name, direction: pocket.split(direction or "en-fr", 100, 4, 9)
    )


@pytest.mark.parametrize("beam", [None, 1, 2])
def test_the_score_is_that_of_the_requested_search(
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    small_corpus: None,
    model: Path,
    beam: int | None,
) -> None:
    scored: list[str] = []

    def score(hypotheses: list[str], references: list[str]) -> Bleu:
        scored.extend(hypotheses)
        return bleu(hypotheses, references)

    monkeypatch.setattr("tfmr.metrics.bleu", score)
    out, _ = command("evaluate", "--model", model, *(() if beam is None else ("--beam", beam)))
    scores = json.loads(out)
    pairs = pocket.split("en-fr", 100, 4, 9).test
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    by_beam = {
        beam_size: translate(*load_translator(model), sources, beam=beam_size, detokenise=False)
        for beam_size in (1, 2, 4)
    }
    assert scored == by_beam[beam or 4]
    assert by_beam[1] != by_beam[2] != by_beam[4] != by_beam[1]
    assert scores["arithmetic"] == "fp32"
    assert scores["bleu"] == bleu(scored, references).score
    assert scores["beam"] == (beam or 4)
    assert scores["sentences"] == len(pairs)
    assert scores.get("alpha") == (None if beam == 1 else 0.6)


def test_a_model_of_another_direction_is_rejected(
    rejected, small_corpus: None, model: Path
) -> None:
    line = rejected("evaluate", "--model", model, "--direction", "en-ko")
    assert "direction of the model, en-fr, got en-ko; set --direction" in line


def test_the_direction_of_own_files_is_not_checked(command: Command, model: Path) -> None:
    pairs = pocket.generate("en-fr", 40, 0)
    for side, name in enumerate(("a", "b")):
        Path(name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    out, _ = command("evaluate", "--model", model, "--files", "a", "b", "--beam", 1)
    assert json.loads(out)["sentences"] == len(pairs)


def test_the_default_corpus_is_that_of_the_model(
    monkeypatch: pytest.MonkeyPatch, command: Command, model: Path
) -> None:
    loaded = []

    def load(name: str, direction: str) -> Corpus:
        loaded.append((name, direction))
        return pocket.split("en-fr", 100, 4, 9)

    monkeypatch.setattr(corpora, "load", load)
    command("evaluate", "--model", model, "--beam", 1)
    assert loaded == [("pocket", "en-fr")]


def test_a_model_of_own_files_without_its_test_set_needs_files(
    rejected, model: Path, tmp_path: Path
) -> None:
    saved = checkpoint.load(model / "model.safetensors")
    saved.metadata["corpus"] = "your files"
    checkpoint.save(tmp_path / "exported.safetensors", saved)
    line = rejected("evaluate", "--model", "exported.safetensors")
    assert "test-set.tsv" in line
    assert "--files" in line


def test_lines_that_cannot_be_scored_are_counted(
    command: Command, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = pocket.generate("en-fr", 6, 0)
    Path("a").write_text("\n".join([*(s for s, _ in pairs), "", "the owl " * 40, "zzz"]))
    Path("b").write_text("\n".join([*(t for _, t in pairs), "le hibou dort .", "b", "c"]))
    out, err = command("evaluate", "--model", model, "--files", "a", "b", "--beam", 1)
    scores = json.loads(out)
    assert (scores["sentences"], scores["failed"]) == (8, 2)
    assert "test: 1 not used, empty: a sentence is missing (a:7)" in err
    assert "a:8: sentence 7 has 81 tokens and the model's max_length is 20" in err
    assert "a:9: sentence 8 has words outside the model's vocabulary: zzz" in err
    hypotheses = translate(*load_translator(model), [s for s, _ in pairs], detokenise=False)
    references = [*(t for _, t in pairs), "b", "c"]
    assert scores["bleu"] == bleu([*hypotheses, "", ""], references).score


def test_the_arithmetic_is_recorded(
    command: Command, rejected, small_corpus: None, model: Path
) -> None:
    out, _ = command("evaluate", "--model", model, "--beam", 1, "--precision", "bf16")
    assert json.loads(out)["arithmetic"] == "bf16"
    message = rejected("evaluate", "--model", model, "--precision", "tf32")
    assert all(word in message for word in ("tf32", "cpu", "fp32", "auto"))


def test_invalid_options_are_rejected(rejected, small_corpus: None, model: Path) -> None:
    assert "is greedy decoding" in rejected("evaluate", "--model", model, "--beam", 1, "--alpha", 1)
    assert "beam must be at least 1" in rejected("evaluate", "--model", model, "--beam", -1)
