"""FlowFigure in Python: its stages are those of model and page; its state; its errors."""

import json
from collections.abc import Iterator

import nbformat
import pytest
import torch
from torch.testing import assert_close

from tests.widgets.page_engine import Engine, engine
from tests.widgets.test_packing import unpack
from tfmr.decode import translate
from tfmr.decode.beam import length_penalty
from tfmr.errors import TfmrError
from tfmr.position import sinusoidal
from tfmr.special_tokens import EOS
from tfmr.widgets import FlowFigure
from tfmr.widgets.flow import BEAM, IN_CHAPTER_12, RANGE, SHOWN, ZERO, Trace, trace
from tfmr.widgets.heads import MODEL, SENTENCES
from tfmr.widgets.packing import UNIT
from tools import ROOT
from tools.notebooks import WIDGET_STATE

TEXTS = (*SENTENCES, *IN_CHAPTER_12, "犬 und 😀", "Ein Mann und eine Frau " * 4)


@pytest.fixture(scope="module")
def figure() -> FlowFigure:
    return FlowFigure()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("models") / "model.js"
    path.write_text(MODEL.text(), encoding="utf-8")
    with engine(path) as started:
        yield started


@pytest.fixture(scope="module", params=range(len(TEXTS)))
def traced(request: pytest.FixtureRequest, page: Engine) -> tuple[str, Trace, dict[str, object]]:
    """A text, its stages in Python, and those in the page."""
    text = TEXTS[request.param]
    found = trace(text)
    return text, found, page("trace", source=found.source)


def test_the_stages_are_those_of_the_model(traced: tuple[str, Trace, object]) -> None:
    text, found, _ = traced
    saved = MODEL.load()
    model, tokenizer = saved.model().double(), saved.tokenizer
    assert found.source == tokenizer.encode(text.strip())
    embeddings = model.source_embedding.weight[found.source] * 128**0.5
    position = sinusoidal(len(found.source), 128)
    assert_close(found.stream[0], (embeddings + position).detach(), atol=1e-6, rtol=0)
    batch = torch.tensor([found.source])
    memory = model.encode(batch)[0][0]
    assert_close(found.stream[-1], memory.detach())
    x = found.stream[0][None]
    for block, after in zip(model.encoder.blocks, found.stream[1:-1], strict=True):
        x = block(x)
        assert_close(x[0].detach(), after)
    assert (found.logits[:, EOS:].argmax(dim=-1) + EOS).tolist() == found.generated
    # The model of the figure has double precision, so its translation may differ in a tie only.
    assert tokenizer.decode(found.generated[:-1]) == translate(saved.model(), tokenizer, [text])[0]
    for each in found.hypotheses:
        penalty = length_penalty(len(each.ids) + each.finished)
        assert each.score == pytest.approx(each.log_prob / penalty)


def test_the_page_computes_the_same_stages(
    traced: tuple[str, Trace, dict[str, object]],
) -> None:
    """In single precision, Python in double precision; the residual stream has values up to 50."""
    _, found, computed = traced
    tokenizer = MODEL.load().tokenizer
    stream = torch.tensor(computed["stream"], dtype=torch.float64)
    assert_close(stream, found.stream, atol=2e-4, rtol=0)
    assert computed["generated"] == found.generated
    for kind, maps in found.maps.items():
        weights = torch.tensor(computed["maps"][kind], dtype=torch.float64)  # type: ignore[index]
        assert_close(weights, maps, atol=1e-4, rtol=0)
    steps = computed["steps"]
    assert isinstance(steps, list)
    for step, logits in zip(steps, found.logits, strict=True):
        probabilities = logits.softmax(dim=-1)
        best = logits[EOS:].topk(SHOWN).values.tolist()
        assert [each["logit"] for each in step["alternatives"]] == pytest.approx(best, abs=1e-4)
        for each in step["alternatives"]:
            assert each["logit"] == pytest.approx(float(logits[each["id"]]), abs=1e-4)
            assert each["probability"] == pytest.approx(float(probabilities[each["id"]]), abs=1e-4)
    hypotheses = computed["hypotheses"]
    assert isinstance(hypotheses, list)
    for ours, theirs in zip(hypotheses, found.hypotheses, strict=True):
        assert ours["text"] == tokenizer.decode(theirs.ids)
        assert ours["length"] == len(theirs.ids) + theirs.finished
        assert ours["logProb"] == pytest.approx(theirs.log_prob, abs=1e-3)
        assert ours["score"] == pytest.approx(theirs.score, abs=1e-3)


def test_the_stored_stages_are_those_of_the_model(figure: FlowFigure) -> None:
    stored, found = figure.stored, figure.trace()
    tokenizer = MODEL.load().tokenizer
    assert stored["ids"] == found.source
    assert stored["source"] == tokenizer.tokens(found.source)
    assert stored["target"] == tokenizer.tokens(found.generated)
    assert stored["translation"] == "A woman is reading a book at the park."
    stream = (unpack("".join(stored["stream"]), found.stream.shape) - ZERO) * RANGE
    assert_close(stream, found.stream, atol=0.005001, rtol=0)
    for kind, maps in found.maps.items():
        packed = "".join("".join(block) for block in stored["maps"][kind])
        weights = unpack(packed, maps.shape)
        assert_close(weights, maps, atol=0.5001 / UNIT, rtol=0)
    for step, logits in zip(stored["steps"], found.logits, strict=True):
        probabilities = logits.softmax(dim=-1)
        ids = (logits[EOS:].topk(SHOWN).indices + EOS).tolist()
        assert [name for name, _, _ in step] == tokenizer.tokens(ids)
        for id, (_, logit, probability) in zip(ids, step, strict=True):
            assert logit == pytest.approx(float(logits[id]), abs=6e-4)
            assert probability == pytest.approx(float(probabilities[id]), abs=6e-6)
    assert len(stored["hypotheses"]) == BEAM
    for (text, length, log_prob, score), each in zip(
        stored["hypotheses"], found.hypotheses, strict=True
    ):
        assert (text, length) == (tokenizer.decode(each.ids), len(each.ids) + each.finished)
        assert [log_prob, score] == pytest.approx([each.log_prob, each.score], abs=6e-5)


def test_the_state_is_small_and_its_summary_has_numbers(figure: FlowFigure) -> None:
    state = figure.get_state()
    text = json.dumps({name: state[name] for name in state if name[0] != "_"}, default=str)
    assert len(text) < 40_000
    assert "8 tokens" in repr(figure)
    assert "“▁A” (0.860)" in repr(figure)
    assert "(log-probability −2.54)" in repr(figure)


def test_the_summary_is_that_of_the_stored_sentence(
    figure: FlowFigure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without running the model again."""
    expected = repr(figure)
    monkeypatch.setattr("tfmr.widgets.flow.trace", None)
    figure.set_state({"text": "Zwei Hunde."})
    assert repr(figure) == expected


def test_the_named_sentences_are_those_of_the_other_figures() -> None:
    for chapter, trait, name in (
        ("12-decoding", "searches", "source"),
        ("13-inside-a-trained-model", "stored", "text"),
    ):
        notebook = nbformat.read(ROOT / "book" / f"{chapter}.ipynb", as_version=4)
        widgets = notebook.metadata.widgets[WIDGET_STATE].state.values()
        [shown] = [each.state[trait] for each in widgets if trait in each.state]
        expected = IN_CHAPTER_12 if trait == "searches" else SENTENCES
        assert [each[name] for each in shown] == list(expected)


def test_a_wrong_argument_is_an_error() -> None:
    for stage in (0, 9):
        with pytest.raises(TfmrError, match=f"from 1 to 8: got {stage}"):
            FlowFigure(stage=stage)
    with pytest.raises(TfmrError, match="at least one token"):
        FlowFigure(" ")
