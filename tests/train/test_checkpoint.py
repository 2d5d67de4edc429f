"""Checkpoints: complete or absent, free of code, and every invalid file explained in one line."""

import dataclasses
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import tfmr
from tfmr import registry
from tfmr.config import TransformerConfig
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.train import checkpoint
from tfmr.train.checkpoint import (
    Checkpoint,
    CheckpointAverager,
    average_checkpoints,
    load_weights,
    named_weights,
    write_atomic,
)

WORDS = Tokenizer("words", ["a", "b", "c"])
CONFIG = TransformerConfig(
    source_vocab=7,
    target_vocab=7,
    d_model=8,
    n_heads=2,
    d_ff=8,
    n_encoder=1,
    n_decoder=1,
    norm="pre",
    max_length=6,
)


def new_checkpoint(
    config: TransformerConfig = CONFIG, tokenizer: Tokenizer = WORDS, seed: int = 0
) -> Checkpoint:
    torch.manual_seed(seed)
    weights = named_weights(Transformer(config))
    state = {"adam.step": torch.tensor(3.0), "random": torch.rand(5)}
    return Checkpoint(config, tokenizer, weights, state, {"step": 3, "scores": [{"bleu": 1.5}]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "run" / "model.safetensors"
    checkpoint.save(str(file), new_checkpoint())
    return file


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(TfmrError, match=message) as error:
        checkpoint.load(path).model()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tie", ["three-way", "target", "none"])
def test_a_saved_checkpoint_is_loaded(tmp_path: Path, tie: str) -> None:
    before = new_checkpoint(dataclasses.replace(CONFIG, tie=tie))
    checkpoint.save(tmp_path / "file", before)
    after = checkpoint.load(str(tmp_path / "file"), with_state=True)
    assert (after.config, after.metadata) == (before.config, before.metadata)
    assert after.tokenizer.to_json() == before.tokenizer.to_json()
    for saved, loaded in ((before.weights, after.weights), (before.state, after.state)):
        assert saved.keys() == loaded.keys()
        assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    model = after.model()
    assert not model.training
    assert (model.source_embedding is model.target_embedding) == (tie == "three-way")
    assert all(torch.equal(w, before.weights[n]) for n, w in named_weights(model).items())


def test_loading_for_inference_does_not_read_the_training_state(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    @contextmanager
    def recording(*arguments: Any, **options: Any) -> Iterator[Any]:
        class File:
            def __init__(self, file: Any) -> None:
                self.file = file

            def __getattr__(self, name: str) -> Any:
                return getattr(self.file, name)

            def get_tensor(self, name: str) -> torch.Tensor:
                read.append(name)
                return self.file.get_tensor(name)

        with safe_open(*arguments, **options) as file:
            yield File(file)

    monkeypatch.setattr(checkpoint, "safe_open", recording)
    assert checkpoint.load(path).state == {}
    checkpoint.load_translator(path.parent)
    assert read
    assert not [name for name in read if not name.startswith("model.")]
    assert checkpoint.load(path, with_state=True).state.keys() == {"adam.step", "random"}


def test_a_tied_matrix_is_stored_once(path: Path) -> None:
    stored = [name for name, tensor in load_file(path).items() if tensor.shape == (7, 8)]
    assert stored == ["model.target_embedding.weight"]


def test_the_file_contains_tensors_and_a_json_header_only(path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["__metadata__"]["format"] == "tfmr-checkpoint-2"
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends) == len(content) - 8 - size


@pytest.mark.parametrize(
    "error", [OSError("disk full"), SafetensorError("disk full"), KeyboardInterrupt()]
)
def test_a_failed_write_leaves_the_previous_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]
    before = path.read_bytes()

    def write_half(tensors: object, file: Path, header: object) -> None:
        file.write_bytes(before[: len(before) // 2])
        raise error

    monkeypatch.setattr(checkpoint, "save_file", write_half)
    with pytest.raises(OSError if isinstance(error, SafetensorError) else type(error)):
        checkpoint.save(path, new_checkpoint(dataclasses.replace(CONFIG, d_ff=16)))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_the_permissions_follow_the_umask(tmp_path: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        checkpoint.save(tmp_path / "model", new_checkpoint())
        write_atomic(tmp_path / "text", lambda temporary: temporary.write_text("x"))
    finally:
        os.umask(previous)
    for name in ("model", "text"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o666 & ~umask


def test_the_content_is_on_disk_before_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[object] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda file: order.append(os.fstat(file).st_ino))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("move"), replace(*names)))
    checkpoint.save(path, new_checkpoint())
    assert order == [path.stat().st_ino, "move", path.parent.stat().st_ino]


def test_a_missing_file(tmp_path: Path) -> None:
    assert_refused(
        tmp_path / "none", "no checkpoint at .*train a model with `python -m tfmr train`"
    )
    assert_refused(tmp_path, "no checkpoint at ")
    with pytest.raises(TfmrError, match="no checkpoint at"):
        checkpoint.load_translator(str(tmp_path))


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_truncated_file(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(path, "is not a complete safetensors file .*copy it again, or train")


def test_another_kind_of_file(path: Path) -> None:
    path.write_text("text instead of tensors " * 9)
    assert_refused(path, "is not a complete safetensors file")
    save_file({"x": torch.zeros(2)}, path)
    assert_refused(path, "not a tfmr checkpoint: expected the format tfmr-checkpoint-2, got None")
    save_file({"x": torch.zeros(2)}, path, {"format": "pt"})
    assert_refused(path, "not a tfmr checkpoint: .*got pt")


def rewrite_header(path: Path, **changes: str) -> None:
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(load_file(path), path, header | changes)


def test_a_checkpoint_of_another_version(path: Path) -> None:
    assert checkpoint.load(path).version == tfmr.__version__
    rewrite_header(path, format="tfmr-checkpoint-1", tfmr="0.0.9")
    assert_refused(
        path, r"format tfmr-checkpoint-1, written by tfmr 0\.0\.9; this version, .*reads"
    )
    rewrite_header(path, format=checkpoint.FORMAT, tfmr="9.1.0", config=json.dumps({"kind": "x"}))
    assert_refused(path, r"written by tfmr 9\.1\.0: expected a model of kind transformer or")
    config = registry.config_to_dict(CONFIG) | {"experts": 8}
    rewrite_header(path, config=json.dumps(config))
    assert_refused(path, "unknown key experts")
    rewrite_header(path, config="[]")
    assert_refused(path, r"expected a table of keys and values, got \[\]")


@pytest.mark.parametrize(
    ("key", "damage"),
    [
        *((key, damage) for key in ("config", "tokenizer", "metadata") for damage in ("{", None)),
        *(("metadata", "[]"), ("tfmr", None)),
    ],
)
def test_a_damaged_header(path: Path, key: str, damage: str | None) -> None:
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    if damage is None:
        del header[key]
    else:
        header[key] = damage
    save_file(load_file(path), path, header)
    assert_refused(path, "the header of .* is damaged|to be a tokenizer")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_ff": 16}, r"expand.* with shape \(16, 8\), got \(8, 8\)"),
        ({"n_encoder": 2}, r"do not match the model: 16 names differ.*another configuration\?"),
        ({"norm": "post"}, r"do not match the model: 4 names differ, .*decoder\.norm\.bias"),
    ],
)
def test_weights_of_another_configuration(path: Path, change: dict, message: str) -> None:
    other = dataclasses.replace(new_checkpoint(), config=dataclasses.replace(CONFIG, **change))
    checkpoint.save(path, other)
    assert_refused(path, message)
    model = Transformer(other.config)
    before = {name: weight.clone() for name, weight in named_weights(model).items()}
    with pytest.raises(TfmrError):
        load_weights(model, new_checkpoint().weights)
    assert all(torch.equal(before[n], w) for n, w in named_weights(model).items())


def test_another_vocabulary(path: Path) -> None:
    checkpoint.save(path, new_checkpoint(tokenizer=Tokenizer("words", ["a", "b"])))
    saved = checkpoint.load(path)
    with pytest.raises(TfmrError, match="vocabulary"):
        translate(saved.model(), saved.tokenizer, ["a"])


def test_a_recurrent_model(tmp_path: Path) -> None:
    config = Seq2SeqConfig(
        source_vocab=7, target_vocab=7, cell="gru", attention=False, d_model=8, max_length=6
    )
    weights = named_weights(registry.build_model(config))
    checkpoint.save(tmp_path / "file", Checkpoint(config, WORDS, weights))
    after = checkpoint.load(tmp_path / "file")
    assert after.config == config
    model = after.model()
    assert isinstance(model, Seq2Seq)
    assert all(torch.equal(weights[name], weight) for name, weight in named_weights(model).items())


def test_a_run_directory_stands_for_its_best_model_else_its_last(path: Path) -> None:
    assert checkpoint.find(str(path)) == path
    assert checkpoint.find(path.parent) == path
    best = path.with_name("best.safetensors")
    checkpoint.save(best, new_checkpoint(seed=1))
    assert checkpoint.find(str(path.parent)) == best
    model, tokenizer = checkpoint.load_translator(str(path.parent))
    expected = new_checkpoint(seed=1).weights
    assert all(torch.equal(expected[n], w) for n, w in named_weights(model).items())
    assert tokenizer.to_json() == WORDS.to_json()


def test_a_stripped_checkpoint_is_small_and_translates_the_same(tmp_path: Path) -> None:
    before = dataclasses.replace(new_checkpoint(), metadata={"step": 3, "trainer": {"step": 3}})
    checkpoint.save(tmp_path / "small", checkpoint.strip_for_inference(before))
    after = checkpoint.load(tmp_path / "small", with_state=True)
    assert (after.state, after.metadata) == ({}, {"step": 3})
    assert {weight.dtype for weight in after.weights.values()} == {torch.float16}
    model = after.model()
    for name, weight in named_weights(model).items():
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight, before.weights[name], rtol=2**-11, atol=2**-24)
    full, small = (translate(m, WORDS, ["a b c"]) for m in (before.model(), model))
    assert full == small
    stored = sum(weight.numel() for weight in before.weights.values())
    content = (tmp_path / "small").read_bytes()
    assert len(content) - 8 - int.from_bytes(content[:8], "little") == 2 * stored


def test_weights_too_large_for_half_precision_are_refused() -> None:
    before = new_checkpoint()
    name = next(iter(before.weights))
    weights = before.weights | {name: torch.full_like(before.weights[name], 70_000.0)}
    with pytest.raises(TfmrError, match=f"1 weights exceed 65504.*{name}"):
        checkpoint.strip_for_inference(dataclasses.replace(before, weights=weights))


def test_the_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{seed}.safetensors") for seed in range(3)]
    saved = [new_checkpoint(seed=seed) for seed in range(3)]
    for path, one in zip(paths, saved, strict=True):
        checkpoint.save(path, dataclasses.replace(one, metadata={"path": path}))
    average = average_checkpoints(paths)
    assert (average.state, average.metadata) == ({}, {"path": paths[-1]})
    for name, weight in average.weights.items():
        mean = torch.stack([one.weights[name] for one in saved]).double().mean(dim=0)
        assert torch.equal(weight, mean.float())

    with pytest.raises(TfmrError, match="expected at least one checkpoint to average, got none"):
        average_checkpoints([])
    for number, other in enumerate(
        (
            new_checkpoint(dataclasses.replace(CONFIG, d_ff=16)),
            new_checkpoint(tokenizer=Tokenizer("words", ["a", "b", "d"])),
        )
    ):
        other_path = tmp_path / f"other{number}.safetensors"
        checkpoint.save(other_path, other)
        with pytest.raises(TfmrError, match="has another configuration or vocabulary than"):
            average_checkpoints([paths[0], other_path])


def test_the_averager_keeps_the_last_checkpoints_and_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    averager = CheckpointAverager(str(tmp_path / "checkpoints"), 2)
    assert averager.average(9) == {}
    read: list[list[int]] = []

    def recording(paths: list[Path]) -> Checkpoint:
        read.append([int(path.stem) for path in paths])
        return average_checkpoints(paths)

    monkeypatch.setattr(checkpoint, "average_checkpoints", recording)
    for step in (1, 2, 3):
        averager.add(step, new_checkpoint(seed=step))
        averager.average(step)
        averager.average(step)
    assert read == [[1], [1, 2], [2, 3]]
    assert [int(path.stem) for path in averager.paths(2)] == [2], "after a resume at step 2"
