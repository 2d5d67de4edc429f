"""Checkpoints: complete or absent, free of code, and every invalid file explained in one line."""

import dataclasses
import errno
import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import tfmr
from tfmr import checkpoint, registry
from tfmr.checkpoint import Checkpoint, load_weights, named_weights
from tfmr.config import TransformerConfig
from tfmr.data.files import write_atomic
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.records import FOLDER, record_path
from tfmr.seq2seq import Seq2SeqConfig

ROOT = Path(tfmr.__file__).parent.parent
WORDS = Tokenizer("words", ["a", "b", "c"])
CONFIG = TransformerConfig(
    **{"source_vocab": 7, "target_vocab": 7, "d_model": 8, "n_heads": 2, "d_ff": 8},
    **{"n_encoder": 1, "n_decoder": 1, "norm": "pre", "max_length": 6},
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
    with pytest.raises(TfmrError, match=message):
        checkpoint.load(path).model()


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
        with safe_open(*arguments, **options) as file:
            reader = Mock(wraps=file)
            yield reader
        read.extend(call.args[0] for call in reader.get_tensor.call_args_list)

    monkeypatch.setattr(checkpoint, "safe_open", recording)
    assert checkpoint.load(path).state == {}
    checkpoint.load_translator(path.parent)
    assert read
    assert not [name for name in read if name.startswith("state.")]
    assert checkpoint.load(path, with_state=True).state.keys() == {"adam.step", "random"}


def test_a_tied_matrix_is_stored_once(path: Path) -> None:
    stored = [name for name, tensor in load_file(path).items() if tensor.shape == (7, 8)]
    assert stored == ["target_embedding.weight"]


def test_the_file_contains_tensors_and_a_json_header_only(path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert header["__metadata__"]["format"] == "tfmr-checkpoint-3"
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
    assert_refused(tmp_path / "none", "no checkpoint at .*python -m tfmr train")
    with pytest.raises(TfmrError, match="no checkpoint at"):
        checkpoint.load_translator(str(tmp_path))


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_a_truncated_file(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(path, "is not a complete safetensors file .*copy it again, or train")


def test_another_kind_of_file(path: Path) -> None:
    path.write_text("text instead of tensors " * 9)
    assert_refused(path, "safetensors format, got another file: give a run directory")
    for zipped in (True, False):
        torch.save({"x": torch.zeros(2)}, path, _use_new_zipfile_serialization=zipped)
        assert_refused(path, "safetensors format, got a PyTorch file: give a run directory")
    save_file({"x": torch.zeros(2)}, path)
    assert_refused(path, "not a tfmr checkpoint: expected the format tfmr-checkpoint-3, got None")
    save_file({"x": torch.zeros(2)}, path, {"format": "pt"})
    assert_refused(path, "not a tfmr checkpoint: .*got pt")


def rewrite_header(path: Path, **changes: str) -> None:
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(load_file(path), path, header | changes)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "change its permissions"),
        (OSError(errno.EIO, "Input/output error"), "check the disk"),
        (IsADirectoryError(errno.EISDIR, "Is a directory"), "give a file"),
    ],
)
def test_a_file_that_cannot_be_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, remedy: str
) -> None:
    """Training again is no remedy."""

    def fail(*_: object, **__: object) -> None:
        raise error

    for module, name in ((Path, "open"), (checkpoint, "safe_open")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(TfmrError, match=f"cannot read .*{error.strerror}.*{remedy}") as e:
                checkpoint.load(path)
        assert "train" not in str(e.value)
    path.unlink()
    path.mkdir()
    assert_refused(path, "cannot read .*Is a directory")


def test_a_checkpoint_of_another_version(path: Path) -> None:
    assert checkpoint.load(path).version == tfmr.__version__
    rewrite_header(path, format="tfmr-checkpoint-2", tfmr="0.0.9")
    assert_refused(path, r"tfmr-checkpoint-2, written by tfmr 0\.0\.9; this version, .*reads")
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
        ({"d_ff": 16}, r"expand.* with shape \(16, 8\).* got \(8, 8\)"),
        ({"n_encoder": 2}, r"differ: 16.*another configuration"),
        ({"norm": "post"}, r"differ: 4, .*decoder\.norm\.bias"),
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


@pytest.mark.parametrize("tie", ["three-way", "target", "none"])
@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_a_file_is_the_state_dict_of_its_model(tmp_path: Path, kind: str, tie: str) -> None:
    config = (
        dataclasses.replace(CONFIG, tie=tie)
        if kind == "transformer"
        else Seq2SeqConfig(source_vocab=7, target_vocab=7, d_model=8, tie=tie, max_length=6)
    )
    before = registry.build_model(config)
    state = {"weight.x": torch.ones(1)}
    saved = Checkpoint(config, WORDS, named_weights(before), state)
    checkpoint.save(tmp_path / "file", saved)
    tensors = load_file(tmp_path / "file")
    loaded = checkpoint.load(tmp_path / "file")
    assert (loaded.config, type(loaded.model())) == (config, type(before))
    model = registry.build_model(config)
    assert model.load_state_dict(tensors).missing_keys == []
    for name, tensor in before.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert len(named_weights(model)) == len(named_weights(before)), "tied matrices stay tied"

    known = next(name for name in tensors if not name.startswith("state."))
    without = {name: tensor for name, tensor in tensors.items() if name != known}
    for wrong, key in ((without, known), (tensors | {"extra": torch.ones(1)}, "extra")):
        with pytest.raises(RuntimeError, match=key):
            model.load_state_dict(wrong)


@pytest.mark.parametrize("name", ["multi30k-de-en", "pocket-en-fr", "pocket-en-ko"])
def test_a_recorded_model_is_loaded_by_pytorch(name: str) -> None:
    path = record_path(name) / "model.safetensors"
    saved = checkpoint.load(path)
    model = registry.build_model(saved.config)
    model.load_state_dict(load_file(path))
    expected = saved.model().state_dict()
    assert all(torch.equal(tensor, expected[n]) for n, tensor in model.state_dict().items())


NAMES = ["decoder.blocks.0.feed_forward.expand.weight", "target_embedding.weight"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused(path: Path, name: str, value: float) -> None:
    saved = new_checkpoint()
    weights = {n: weight.clone() for n, weight in saved.weights.items()}
    weights[name].flatten()[3] = value
    checkpoint.save(path, dataclasses.replace(saved, weights=weights))
    assert_refused(path, f"model.safetensors: {name} contains NaN or infinite numbers, 1 in all")
    with pytest.raises(TfmrError, match=name):
        checkpoint.load(path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_weights_of_another_type_are_refused(path: Path, dtype: torch.dtype) -> None:
    saved = new_checkpoint()
    changed = saved.weights | {NAMES[0]: saved.weights[NAMES[0]].to(dtype)}
    checkpoint.save(path, dataclasses.replace(saved, weights=changed))
    assert_refused(path, f"{NAMES[0]} .*{dtype}")


def test_a_configuration_that_no_memory_holds_is_refused_before_it_is_built(path: Path) -> None:
    config = registry.config_to_dict(CONFIG)
    rewrite_header(path, config=json.dumps(config | {"d_model": 2**20, "d_ff": 2**26}))
    assert_refused(path, r"with shape .*1048576")
    rewrite_header(path, config=json.dumps(config | {"d_model": 2**40, "d_ff": 2**40}))
    assert_refused(path, "1099511627776.*: copy the file again, or train")


def test_translating_does_not_import_the_training() -> None:
    code = "import sys, tfmr; tfmr.load_translator; tfmr.translate; tfmr.prepare; tfmr.Transformer"
    show = "print(*[name for name in sys.modules if name.startswith('tfmr.train')])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_a_model_of_the_package_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkpoint.find("pocket-en-ko") == FOLDER / "pocket-en-ko" / "model.safetensors"
    with pytest.raises(TfmrError, match=r"at multi30k: .*\(multi30k-de-en, pocket-en-fr"):
        checkpoint.load(checkpoint.find("multi30k"))
    Path("pocket-en-ko").mkdir()
    found = checkpoint.find("pocket-en-ko")
    assert found == Path("pocket-en-ko/model.safetensors"), "a folder of this name comes first"
