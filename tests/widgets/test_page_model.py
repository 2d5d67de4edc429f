"""The file of a model for the page: what is rounded, what is refused, how large it is."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from tests.widgets.page_engine import captions
from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint, named_weights
from tfmr.config import TransformerConfig
from tfmr.data.batches import pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.records import record_path
from tfmr.special_tokens import BOS
from tfmr.widgets.page_model import dequantise, page_model, quantise, read_page_model, rounded


@pytest.fixture(scope="module")
def saved() -> Checkpoint:
    return checkpoint.load(record_path("multi30k-de-en") / "model.safetensors")


@pytest.fixture(scope="module")
def text(saved: Checkpoint) -> str:
    return page_model(saved, "multi30k-de-en")


def test_reading_returns_what_was_written(saved: Checkpoint, text: str) -> None:
    again, expected = read_page_model(text), rounded(saved)
    assert again.config == saved.config
    assert again.tokenizer.to_json() == saved.tokenizer.to_json()
    assert again.metadata == {"corpus": "multi30k", "direction": "de-en"}
    assert again.weights.keys() == expected.weights.keys()
    for name, weight in expected.weights.items():
        assert torch.equal(again.weights[name], weight), name
    assert page_model(again, "multi30k-de-en") == text


def test_rounding_changes_an_entry_by_at_most_half_a_scale(saved: Checkpoint) -> None:
    for name, weight in saved.weights.items():
        difference = rounded(saved).weights[name] if weight.dim() == 1 else None
        if difference is not None:
            assert torch.equal(difference, weight.float())
            continue
        integers, scales = quantise(weight)
        assert int(integers.abs().max()) == 127
        error = (dequantise(integers, scales) - weight.float()).abs()
        assert (error <= 0.5001 * scales[:, None]).all(), name


def test_a_row_of_zeros_stays_zero() -> None:
    integers, scales = quantise(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
    assert dequantise(integers, scales)[0].tolist() == [0.0, 0.0]
    assert integers[1].tolist() == [64, -127]


def test_the_file_has_at_most_3_mb(text: str) -> None:
    assert len(text.encode()) <= 3_000_000


def test_rounding_changes_logits_by_at_most_a_quarter(saved: Checkpoint) -> None:
    """The bound that the page of the translator states, over the predictions of 236 captions."""
    source = pad([saved.tokenizer.encode(text) for text in captions()])
    target = torch.full((len(source), 1), BOS)
    with torch.inference_mode():
        exact, approximate = (each.model()(source, target) for each in (saved, rounded(saved)))
    difference = (exact - approximate).abs()
    assert 0 < float(difference.max()) < 0.25


def small(**changes: object) -> Checkpoint:
    tokenizer = Tokenizer.words(["a b c"])
    config = TransformerConfig(
        d_model=8, n_heads=2, d_ff=16, n_encoder=1, n_decoder=1,
        source_vocab=tokenizer.vocab_size, target_vocab=tokenizer.vocab_size,
    )  # fmt: skip
    config = dataclasses.replace(config, **changes)  # type: ignore[arg-type]
    return Checkpoint(config, tokenizer, named_weights(Transformer(config)))


@pytest.mark.parametrize("changes", [{"position": "rotary"}, {"activation": "gelu"}, {"eps": 1e-6}])
def test_a_model_that_the_page_cannot_compute_is_refused(changes: dict[str, str | float]) -> None:
    with pytest.raises(TfmrError, match=r"eps=1e-5: got .*'transformer'"):
        page_model(small(**changes), "small")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-10], "expected the file to be a complete page model"),
        (lambda text: "x" + text, "expected the file to be a complete page model"),
        (lambda text: text.replace("model-1", "model-9"), "the format tfmr-page-model-1 .* -9'"),
        (lambda text: text.replace('"format"', '"form"'), "the format tfmr-page-model-1 .* None"),
        (lambda text: text.replace('"shapes":{', '"shapes":['), "the file is damaged"),
        (lambda text: text.replace('"config"', '"conf"'), "the file is damaged"),
        (
            lambda text: re.sub(r'"weights":"....', '"weights":"', text),
            r"expected [\d,]+ bytes of weights in the file, got [\d,]+",
        ),
    ],
)
def test_a_damaged_file_is_refused(change: "type[str]", message: str) -> None:
    with pytest.raises(TfmrError, match=message.replace(" -9'", ".*model-9'")):
        read_page_model(change(page_model(small(), "small")), "the file")


def test_the_file_is_one_script(tmp_path: Path) -> None:
    text = page_model(small(), "small")
    assert text.startswith('tfmrModel({"format":"tfmr-page-model-1","name":"small"')
    assert text.count("\n") == 1
    assert text.endswith(");\n")
