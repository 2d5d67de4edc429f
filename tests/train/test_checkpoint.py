"""Checkpoints: whole or not there, no code inside, and every way to be wrong named in one line."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import tfmr
from tfmr import registry
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.train import checkpoint
from tfmr.train.checkpoint import Checkpoint, load_weights, named_weights

WORDS = Tokenizer("words", ["a", "b", "c"])
CONFIG = TransformerConfig(
    7, 7, d_model=8, n_heads=2, d_ff=8, n_encoder=1, n_decoder=1, norm="pre", max_length=6
)


def made(config: TransformerConfig = CONFIG, tokenizer: Tokenizer = WORDS) -> Checkpoint:
    torch.manual_seed(0)
    weights = named_weights(Transformer(config))
    state = {"random": torch.get_rng_state(), "step": torch.tensor(3.0)}
    return Checkpoint(config, tokenizer, weights, state, {"step": 3, "scores": [{"bleu": 1.5}]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "run" / "model.safetensors"
    checkpoint.save(file, made())
    return file


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(TfmrError, match=message) as error:
        checkpoint.load(path).model()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tie", ["three-way", "target", "none"])
def test_what_was_saved_is_loaded(tmp_path: Path, tie: str) -> None:
    before = made(dataclasses.replace(CONFIG, tie=tie))
    checkpoint.save(tmp_path / "file", before)
    after = checkpoint.load(tmp_path / "file")
    assert (after.config, after.facts) == (before.config, before.facts)
    assert after.tokenizer.to_json() == before.tokenizer.to_json()
    for one, other in ((before.weights, after.weights), (before.state, after.state)):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    model = after.model()
    assert not model.training
    assert (model.source_embedding is model.target_embedding) == (tie == "three-way")
    assert all(torch.equal(w, before.weights[n]) for n, w in named_weights(model).items())


def test_a_tied_matrix_is_stored_once(path: Path) -> None:
    stored = [name for name, tensor in load_file(path).items() if tensor.shape == (7, 8)]
    assert stored == ["model.target_embedding.weight"]


def test_the_file_is_plain_safetensors_and_no_pickle(path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["__metadata__"]["format"] == checkpoint.FORMAT
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends) == len(content) - 8 - size  # tensors and nothing behind them


def test_nothing_stays_beside_the_file(path: Path) -> None:
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize(
    "error", [OSError("disk full"), SafetensorError("disk full"), KeyboardInterrupt()]
)
def test_a_write_that_fails_leaves_the_old_file_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    before = path.read_bytes()

    def half(tensors: object, file: Path, header: object) -> None:
        file.write_bytes(before[: len(before) // 2])
        raise error

    monkeypatch.setattr(checkpoint, "save_file", half)
    with pytest.raises(OSError if isinstance(error, SafetensorError) else type(error)):
        checkpoint.save(path, made(dataclasses.replace(CONFIG, d_ff=16)))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


def test_a_missing_file(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none", "no checkpoint at .*train one with `python -m tfmr train`")
    assert_refused(tmp_path, "no checkpoint at ")


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_or_empty_file(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    assert_refused(path, "is not a whole safetensors file .*copy it again, or train anew")


def test_a_file_of_something_else(path: Path) -> None:
    path.write_text("no tensors in here, only words, and many of them " * 9)
    assert_refused(path, "is not a whole safetensors file")
    save_file({"x": torch.zeros(2)}, path)
    assert_refused(path, "not a checkpoint of this package: expected format .*got None")
    save_file({"x": torch.zeros(2)}, path, {"format": "pt"})
    assert_refused(path, "not a checkpoint of this package: expected format .*got pt")


@pytest.mark.parametrize("key", ["config", "tokenizer", "facts"])
@pytest.mark.parametrize("damage", ["", "{", None])
def test_a_damaged_header(path: Path, key: str, damage: str | None) -> None:
    header = {"format": checkpoint.FORMAT, "tokenizer": WORDS.to_json(), "facts": "{}"}
    header["config"] = json.dumps(dataclasses.asdict(CONFIG))
    if damage is None:
        del header[key]
    else:
        header[key] = damage
    save_file({"x": torch.zeros(2)}, path, header)
    assert_refused(path, "header|expected a tokenizer")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d_ff": 16}, r"expand.* must have shape \(16, 8\): got \(8, 8\)"),
        ({"n_encoder": 2}, r"not those of this model: 16 names differ.*another configuration\?"),
        ({"norm": "post"}, r"not those of this model: 4 names differ, .*decoder\.norm\.bias"),
    ],
)
def test_weights_of_another_configuration(path: Path, changed: dict, message: str) -> None:
    other = dataclasses.replace(made(), config=dataclasses.replace(CONFIG, **changed))
    checkpoint.save(path, other)
    assert_refused(path, message)
    model = Transformer(other.config)
    before = {name: weight.clone() for name, weight in named_weights(model).items()}
    with pytest.raises(TfmrError):
        load_weights(model, made().weights)
    assert all(torch.equal(before[n], w) for n, w in named_weights(model).items())


def test_a_configuration_of_another_version(path: Path) -> None:
    header = {
        "format": checkpoint.FORMAT,
        "config": json.dumps({**dataclasses.asdict(CONFIG), "experts": 8}),
        "tokenizer": WORDS.to_json(),
        "facts": "{}",
    }
    save_file({"x": torch.zeros(2)}, path, header)
    assert_refused(path, r"unknown \['experts'\].*another version of tfmr\?")


def test_another_vocabulary(path: Path) -> None:
    checkpoint.save(path, made(tokenizer=Tokenizer("words", ["a", "b"])))
    saved = checkpoint.load(path)
    with pytest.raises(TfmrError, match="the vocabulary has 6 tokens and the model 7"):
        translate(saved.model(), saved.tokenizer, ["a"])


def test_a_recurrent_model_too(tmp_path: Path) -> None:
    config = Seq2SeqConfig(
        source_vocab=7, target_vocab=7, cell="gru", attention=False, d_model=8, max_length=6
    )
    torch.manual_seed(0)
    weights = named_weights(registry.build(config))
    checkpoint.save(tmp_path / "file", Checkpoint(config, WORDS, weights))
    after = checkpoint.load(tmp_path / "file")
    assert after.config == config
    model = after.model()
    assert isinstance(model, Seq2Seq)
    assert all(torch.equal(weights[name], weight) for name, weight in named_weights(model).items())


def rewritten(path: Path, **changes: str) -> None:
    """The file with another header."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(load_file(path), path, header | changes)


def test_a_file_that_names_no_kind_is_a_transformer(path: Path) -> None:
    rewritten(path, config=json.dumps(dataclasses.asdict(CONFIG)))
    assert checkpoint.load(path).config == CONFIG


def test_a_file_of_another_kind_and_version(path: Path) -> None:
    assert checkpoint.load(path).version == tfmr.__version__
    rewritten(path, tfmr="9.1.0", config=json.dumps({"kind": "mamba"}))
    assert_refused(path, r"written by tfmr 9\.1\.0, has a model of kind 'mamba': expected one of")
    rewritten(path, config="[]")
    assert_refused(path, "header of .* is damaged")


def test_a_slim_file_translates_alike_and_cannot_be_resumed_from(tmp_path: Path) -> None:
    before = dataclasses.replace(made(), facts={"step": 3, "trainer": {"step": 3}})
    checkpoint.save(tmp_path / "whole", before)
    checkpoint.save(tmp_path / "slim", checkpoint.slim(before))
    after = checkpoint.load(tmp_path / "slim")
    assert (after.state, after.facts) == ({}, {"step": 3})
    assert {weight.dtype for weight in after.weights.values()} == {torch.float16}
    model = after.model()
    for name, weight in named_weights(model).items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, before.weights[name], rtol=2**-11, atol=2**-24)
    ours, theirs = (translate(m, WORDS, ["a b c"]) for m in (before.model(), model))
    assert ours == theirs
    stored = sum(weight.numel() for weight in before.weights.values())
    content = (tmp_path / "slim").read_bytes()
    assert len(content) - 8 - int.from_bytes(content[:8], "little") == 2 * stored


def test_half_precision_ends_somewhere() -> None:
    before = made()
    name = next(iter(before.weights))
    weights = before.weights | {name: torch.full_like(before.weights[name], 70_000.0)}
    with pytest.raises(TfmrError, match=f"ends at 65504 and 1 weights go beyond.*{name}"):
        checkpoint.slim(dataclasses.replace(before, weights=weights))


def test_the_content_is_on_the_disk_before_its_name_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    plain = os.replace
    monkeypatch.setattr(os, "fsync", lambda file: order.append(os.fstat(file).st_ino))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("move"), plain(*names)))
    checkpoint.save(path, made())
    assert order == [path.stat().st_ino, "move", path.parent.stat().st_ino]
