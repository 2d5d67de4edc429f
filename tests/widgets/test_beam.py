"""BeamFigure in Python: its recorded searches, its results, its state and its errors."""

import json
from functools import cache
from typing import Any

import pytest
import torch

from tfmr.checkpoint import load_translator
from tfmr.decode.beam import beam_search, beam_search_naive
from tfmr.records import record_path
from tfmr.widgets import BeamFigure
from tfmr.widgets.beam import BEAMS, FINISHED, LIVE

SENTENCES = ("Zwei Frauen lachen.", "Ein alter Mann spielt Gitarre.", "Eine Frau wartet.")


@cache
def recorded_model() -> tuple[Any, Any]:
    """The recorded German-English model in double precision, and its tokenizer."""
    model, tokenizer = load_translator(record_path("multi30k-de-en") / "model.safetensors")
    return model.double(), tokenizer


def figure(**changes: Any) -> BeamFigure:
    """A figure of three sentences; the other traits are set after it is made."""
    made = BeamFigure(*recorded_model(), SENTENCES)
    made.set_state(changes)
    return made


def test_the_recorded_steps_are_those_of_the_search() -> None:
    made = figure()
    assert [search["source"] for search in made.searches] == list(SENTENCES)
    model, tokenizer = recorded_model()
    source = torch.tensor([tokenizer.encode(SENTENCES[0])])
    assert made.searches[0]["max_length"] == source.shape[1] + 50
    assert [each["beam"] for each in made.searches[0]["beams"]] == list(BEAMS)
    steps = made.searches[0]["beams"][1]["steps"]
    # Follow the recorded parents; the finished hypotheses are those of the naive search.
    live, finished = [((), 0.0)], []
    for step in steps:
        rows = [((*live[parent][0], token), total, kind) for parent, token, total, kind in step]
        assert [total for _, total, _ in rows] == sorted((row[1] for row in rows), reverse=True)
        live = [(tokens, total) for tokens, total, kind in rows if kind == LIVE]
        finished += [(tokens[:-1], total) for tokens, total, kind in rows if kind == FINISHED]
    naive = beam_search_naive(model, source, beam=2, n_best=2)
    expected = [(tuple(tokenizer.tokens(found.ids)), found.log_prob) for found in naive]
    assert sorted(tokens for tokens, _ in finished) == sorted(tokens for tokens, _ in expected)
    assert sorted(total for _, total in finished) == pytest.approx(
        sorted(total for _, total in expected), abs=1e-4
    )


def test_its_result_is_that_of_the_search() -> None:
    made = figure(sentence=2, beam=4, alpha=0.0)
    model, tokenizer = recorded_model()
    steps: list[Any] = []
    source = torch.tensor([tokenizer.encode(SENTENCES[2])])
    [[best]] = beam_search(model, source, beam=4, alpha=0.0, on_step=steps.append)
    assert made.search() == (best, len(steps))
    assert made.translation() == tokenizer.decode(best.ids)
    # With this alpha no live hypothesis can win, before four hypotheses are finished.
    assert len(steps) < len(made.searches[2]["beams"][2]["steps"])


def test_the_state_is_small_and_finite() -> None:
    made = figure()
    assert all(part in repr(made) for part in ("1, 2 and 4", *SENTENCES))
    state = made.get_state()
    text = json.dumps({name: state[name] for name in state if name[0] != "_"}, default=str)
    assert len(text) < 20_000
    assert "Infinity" not in text
    assert "NaN" not in text
