"""``evaluate``: which search, and a model that has learnt another direction."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Command
from tfmr.data import corpora, pocket
from tfmr.decode import translate
from tfmr.train.checkpoint import load_translator
from tfmr.train.evaluation import Bleu, bleu


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of a few sentences, in any direction."""
    monkeypatch.setattr(
        corpora, "load", lambda name, direction: pocket.split(direction or "en-fr", 100, 4, 9)
    )


@pytest.mark.parametrize("beam", [None, 1, 2])
def test_the_score_is_that_of_the_search_asked_for(
    monkeypatch: pytest.MonkeyPatch, command: Command, few: None, model: Path, beam: int | None
) -> None:
    scored: list[str] = []

    def score(outputs: list[str], references: list[str]) -> Bleu:
        scored.extend(outputs)
        return bleu(outputs, references)

    monkeypatch.setattr("tfmr.commands.evaluate.bleu", score)
    out, _ = command("evaluate", "--model", model, *(() if beam is None else ("--beam", beam)))
    scores = json.loads(out)
    pairs = pocket.split("en-fr", 100, 4, 9).test
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    by_width = {
        width: translate(*load_translator(model), sources, beam=width) for width in (1, 2, 4)
    }
    assert scored == by_width[beam or 4]
    assert by_width[1] != by_width[2] != by_width[4] != by_width[1]
    assert scores["bleu"] == bleu(scored, references).score
    assert scores["beam"] == (beam or 4)
    assert scores.get("alpha") == (None if beam == 1 else 0.6)


def test_another_direction_is_refused(refused, few: None, model: Path) -> None:
    line = refused("evaluate", "--model", model, "--direction", "en-ko")
    assert "the model translates en-fr and the corpus is en-ko" in line
    assert "choose by --direction, or name another --model" in line


def test_nobody_knows_the_direction_of_your_own_files(command: Command, model: Path) -> None:
    pairs = pocket.generate("en-fr", 40, 0)
    for side, name in enumerate(("a", "b")):
        Path(name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    out, _ = command("evaluate", "--model", model, "--files", "a", "b", "--beam", 1)
    assert "bleu" in json.loads(out)


def test_options_that_make_no_sense(refused, few: None, model: Path) -> None:
    assert "has only one" in refused("evaluate", "--model", model, "--beam", 1, "--alpha", 1)
    assert "at least one" in refused("evaluate", "--model", model, "--beam", -1)
