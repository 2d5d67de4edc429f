"""Checkpoints are read by name; what does not fit is rejected with a sentence."""

import json
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from tests.errors import rejects
from tests.family.models import OWN, VOCAB, make_pair, theirs
from tfmr.family import GPT, T5, Bert, Llama, pretrained

BOOK = Path(pretrained.__file__).parents[2] / "book"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_pair("llama", tmp_path)
    return tmp_path


def change(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def remove(folder: Path, name: str) -> None:
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    del settings[name]
    path.write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("gpt2", {"n_inner": 48}),
        ("t5", {"relative_attention_max_distance": 128}),
        ("llama", {"num_key_value_heads": 6}),
    ],
)
def test_a_setting_that_older_configurations_lack(
    kind: str, setting: dict[str, int], tmp_path: Path
) -> None:
    expected, _ = make_pair(kind, tmp_path, **setting)
    remove(tmp_path, *setting)
    found = OWN[kind].from_pretrained(tmp_path)
    assert found.config == expected.config
    assert_close(found.state_dict(), expected.state_dict())


def test_a_bert_with_the_names_of_its_authors_and_heads_for_other_tasks(tmp_path: Path) -> None:
    expected, _ = make_pair("bert", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): tensor
        for name, tensor in load_file(path).items()
    }
    assert sum(name.endswith("LayerNorm.gamma") for name in tensors) == 2 * 2 + 2
    tensors |= {"bert.pooler.dense.weight": torch.zeros(12, 12)}
    tensors |= {"cls.seq_relationship.weight": torch.zeros(2, 12)}
    save_file(tensors, path)
    assert_close(Bert.from_pretrained(tmp_path).state_dict(), expected.state_dict())


def test_a_missing_setting_is_named(folder: Path) -> None:
    remove(folder, "hidden_size")
    rejects(lambda: Llama.from_pretrained(folder), "'hidden_size'", "missing")


def test_a_checkpoint_in_several_files(tmp_path: Path) -> None:
    own, theirs = make_pair("llama", tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size="4KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    ids = torch.arange(1, 9)[None]
    assert_close(Llama.from_pretrained(tmp_path / "many")(ids), own(ids))


@pytest.mark.parametrize("own", OWN.values())
def test_another_type_of_model(own: type, folder: Path) -> None:
    change(folder, model_type="mamba")
    rejects(lambda: own.from_pretrained(folder), "expected a checkpoint with model_type", "'mamba'")


def test_a_pickle_is_rejected(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    rejects(lambda: Llama.from_pretrained(folder), "pytorch_model.bin", "pickle", "save_pretrained")


def test_a_missing_folder(tmp_path: Path) -> None:
    rejects(lambda: GPT.from_pretrained(tmp_path / "nowhere"), "nowhere/config.json", "no such")


@pytest.mark.parametrize("text", ["{", "[]", "\udcff"])
def test_a_damaged_configuration(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    rejects(lambda: Llama.from_pretrained(folder), "config.json: ", "a", "JSON")


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_weights_that_do_not_fit(folder: Path) -> None:
    load = partial(Llama.from_pretrained, folder)
    change_weights(folder, lambda w: w["model.norm.weight"][3:4].fill_(torch.inf))
    rejects(load, "norm.weight contains NaN or infinite")
    change_weights(folder, lambda w: w["model.norm.weight"][3:4].fill_(torch.nan))
    rejects(load, "norm.weight contains NaN or infinite")
    change_weights(folder, lambda w: w.update(extra=w.pop("model.norm.weight")))
    rejects(load, "missing ['norm.weight'], unknown ['extra']")
    change(folder, vocab_size=VOCAB + 1)
    change_weights(folder, lambda w: w.update({"model.norm.weight": w.pop("extra")}))
    rejects(load, "embedding.weight", "(31, 24)", "(30, 24)")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    rejects(load, "not a readable safetensors file")


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("llama", {"hidden_act": "relu"}),
        ("llama", {"rope_parameters": {"rope_theta": 1.0, "rope_type": "yarn"}}),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "linear"}}),
        ("llama", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}),
        ("llama", {"head_dim": 8}),
        ("llama", {"attention_bias": True}),
        ("gpt2", {"activation_function": "relu"}),
        ("gpt2", {"add_cross_attention": True}),
        ("gpt2", {"tie_word_embeddings": False}),
        ("bert", {"hidden_act": "relu"}),
        ("bert", {"is_decoder": True}),
        ("bert", {"position_embedding_type": "relative_key"}),
        ("t5", {"scale_decoder_outputs": False}),
        ("t5", {"is_decoder": True}),
        ("t5", {"feed_forward_proj": "gated-gelu"}),
        ("vit", {"qkv_bias": False}),
    ],
)
def test_a_setting_that_is_not_supported(kind: str, setting: Any, tmp_path: Path) -> None:
    make_pair(kind, tmp_path)
    change(tmp_path, **setting)
    [*_, (name, value)] = setting.items()
    if isinstance(value, dict):
        *_, name = value
    rejects(lambda: OWN[kind].from_pretrained(tmp_path), f"this model supports only {name} = ")


@pytest.mark.parametrize("kind", OWN)
def test_every_setting_of_the_library_is_known_and_no_other(kind: str, tmp_path: Path) -> None:
    """Every setting is read, expected or known to be irrelevant, also those that
    ``save_pretrained`` omits because they have their default values. ``None`` is no setting."""
    _, other = make_pair(kind, tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    change(tmp_path, **other.config.to_dict() | saved)
    change(tmp_path, sliding_window=None, _name_or_path="x", temperature=0.5)
    OWN[kind].from_pretrained(tmp_path)
    for value in (False, 0, 4096, {"bits": 4}):
        change(tmp_path, new_setting=value)
        rejects(lambda: OWN[kind].from_pretrained(tmp_path), f"new_setting, got {value!r}")


def test_models_that_compute_something_else_are_rejected(tmp_path: Path) -> None:
    """A T5 with untied embeddings, which Transformers 5 does not scale, and a BERT that decodes."""
    theirs("t5", tie_word_embeddings=False).save_pretrained(tmp_path / "t5")
    rejects(lambda: T5.from_pretrained(tmp_path / "t5"), "scale_decoder_outputs = True, got False")
    theirs("bert", "BertLMHeadModel", is_decoder=True).save_pretrained(tmp_path / "bert")
    rejects(lambda: Bert.from_pretrained(tmp_path / "bert"), "is_decoder = False, got True")


def test_a_configuration_as_published_is_accepted(tmp_path: Path) -> None:
    """Settings of the configurations that are published for GPT-2, BERT, T5 and Llama."""
    published: dict[str, dict[str, object]] = {
        "gpt2": {
            "architectures": ["GPT2LMHeadModel"], "n_ctx": 12, "summary_type": "cls_index",
            "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        },
        "bert": {
            "directionality": "bidi", "gradient_checkpointing": False, "pooler_fc_size": 768,
            "position_embedding_type": "absolute", "pooler_type": "first_token_transform",
        },
        "t5": {"n_positions": 512, "output_past": True, "decoder_start_token_id": 0},
        "llama": {"pretraining_tp": 1, "torch_dtype": "bfloat16", "rope_scaling": None},
    }  # fmt: skip
    for kind, settings in published.items():
        make_pair(kind, tmp_path / kind)
        change(tmp_path / kind, **settings)
        OWN[kind].from_pretrained(tmp_path / kind)


def test_an_index_cannot_name_files_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    rejects(lambda: Llama.from_pretrained(folder), "beside it", "../secret.safetensors")


def test_the_documented_command_downloads_the_configuration_and_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library parses the command; only the download itself is replaced."""
    import huggingface_hub.cli.download
    from huggingface_hub.cli import hf

    [command] = re.findall(r"``(hf download [^`]+)``", str(pretrained.__doc__))
    chapter = json.loads((BOOK / "15-family.ipynb").read_text(encoding="utf-8"))
    assert any(f"\n{command}\n" in "".join(cell["source"]) for cell in chapter["cells"])
    requested: list[dict[str, Any]] = []

    def download(**request: Any) -> str:
        requested.append(request)
        return request["local_dir"]

    monkeypatch.setattr(huggingface_hub.cli.download, "snapshot_download", download)
    with pytest.raises(SystemExit, match="0"):
        hf.app(shlex.split(command)[1:])
    [request] = requested
    assert (request["repo_id"], request["local_dir"]) == ("openai-community/gpt2", "gpt2")
    assert request["allow_patterns"] == ["config.json", "model.safetensors"]
