"""Checkpoints are read by name; what does not fit is rejected with a sentence."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import huggingface_hub.cli.download
import pytest
import torch
import transformers
from huggingface_hub.cli import hf
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from tests.family.models import PAIRS, VOCAB, make_pair
from tfmr.errors import TfmrError
from tfmr.family import GPT, T5, Bert, Llama, ViT, pretrained

BOOK = Path(pretrained.__file__).parents[2] / "book"
DISTANCE = "relative_attention_max_distance"


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
    ("kind", "own", "setting"),
    [
        ("gpt2", GPT, {"n_inner": 48}),
        ("t5", T5, {DISTANCE: 128}),
        ("llama", Llama, {"num_key_value_heads": 6}),
    ],
)
def test_a_setting_that_older_configurations_lack(
    kind: str, own: type, setting: dict[str, int], tmp_path: Path
) -> None:
    expected, _ = make_pair(kind, tmp_path, **setting)
    remove(tmp_path, *setting)
    found = own.from_pretrained(tmp_path)
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
    with pytest.raises(TfmrError, match=r"'hidden_size'.*missing"):
        Llama.from_pretrained(folder)


def test_a_checkpoint_in_several_files(tmp_path: Path) -> None:
    own, theirs = make_pair("llama", tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size="4KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    ids = torch.arange(1, 9)[None]
    assert_close(Llama.from_pretrained(tmp_path / "many")(ids), own(ids))


@pytest.mark.parametrize("kind", PAIRS)
def test_another_type_of_model(kind: str, tmp_path: Path) -> None:
    make_pair(kind, tmp_path)
    other = T5 if kind != "t5" else ViT
    with pytest.raises(TfmrError, match=f"expected a checkpoint with model_type .* got '{kind}'"):
        other.from_pretrained(tmp_path)


def test_a_pickle_is_rejected(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(TfmrError, match=r"pytorch_model\.bin.*pickle file.*save_pretrained"):
        Llama.from_pretrained(folder)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"config\.json, found no such file"):
        GPT.from_pretrained(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["{", "[]", "\udcff"])
def test_a_damaged_configuration(folder: Path, text: str) -> None:
    (folder / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(TfmrError, match=r"config\.json: (not a readable JSON|expected a JSON)"):
        Llama.from_pretrained(folder)


def test_a_truncated_file(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TfmrError, match="not a readable safetensors file"):
        Llama.from_pretrained(folder)


def test_weights_that_are_missing_or_unknown(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["model.extra.weight"] = tensors.pop("model.norm.weight")
    save_file(tensors, path)
    expected = r"missing \['norm\.weight'\], unknown \['extra\.weight'\]"
    with pytest.raises(TfmrError, match=expected):
        Llama.from_pretrained(folder)


def test_a_weight_of_another_shape(folder: Path) -> None:
    change(folder, vocab_size=VOCAB + 1)
    with pytest.raises(TfmrError, match=r"embedding\.weight to.*\(31, 24\).*\(30, 24\)"):
        Llama.from_pretrained(folder)


@pytest.mark.parametrize(
    ("kind", "own", "setting", "expected"),
    [
        ("llama", Llama, {"hidden_act": "relu"}, "hidden_act"),
        (
            "llama",
            Llama,
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}},
            "rope_type",
        ),
        ("llama", Llama, {"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "type"),
        (
            "llama",
            Llama,
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor",
        ),
        ("llama", Llama, {"head_dim": 8}, "head_dim"),
        ("llama", Llama, {"attention_bias": True}, "attention_bias"),
        ("gpt2", GPT, {"activation_function": "relu"}, "activation_function"),
        ("gpt2", GPT, {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", GPT, {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("bert", Bert, {"hidden_act": "relu"}, "hidden_act"),
        ("bert", Bert, {"is_decoder": True}, "is_decoder"),
        ("bert", Bert, {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("t5", T5, {"scale_decoder_outputs": False}, "scale_decoder_outputs"),
        ("t5", T5, {"is_decoder": True}, "is_decoder"),
        ("t5", T5, {"feed_forward_proj": "gated-gelu"}, "feed_forward_proj"),
        ("vit", ViT, {"qkv_bias": False}, "qkv_bias"),
    ],
)
def test_a_setting_that_is_not_supported(kind, own, setting, expected, tmp_path: Path) -> None:
    make_pair(kind, tmp_path)
    change(tmp_path, **setting)
    with pytest.raises(TfmrError, match=f"this model supports only {expected}"):
        own.from_pretrained(tmp_path)


@pytest.mark.parametrize(("kind", "own"), [(kind, own) for kind, (own, _, _) in PAIRS.items()])
def test_a_setting_that_the_model_does_not_know(kind: str, own: type, tmp_path: Path) -> None:
    """Every setting is read, expected or known to be irrelevant. ``None`` is no setting."""
    make_pair(kind, tmp_path)
    change(tmp_path, sliding_window=None, _name_or_path="x", temperature=0.5)
    own.from_pretrained(tmp_path)
    for value in (False, 0, 4096, {"bits": 4}):
        change(tmp_path, new_setting=value)
        with pytest.raises(TfmrError, match=re.escape(f"no setting new_setting, got {value!r}")):
            own.from_pretrained(tmp_path)


@pytest.mark.parametrize(("kind", "own"), [(kind, own) for kind, (own, _, _) in PAIRS.items()])
def test_every_setting_of_the_library_is_known(kind: str, own: type, tmp_path: Path) -> None:
    """Also those that ``save_pretrained`` omits because they have their default values."""
    make_pair(kind, tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    change(tmp_path, **PAIRS[kind][2].to_dict() | saved)
    own.from_pretrained(tmp_path)


def test_a_t5_with_untied_embeddings_is_rejected(tmp_path: Path) -> None:
    tied = PAIRS["t5"][2].to_dict()
    del tied["scale_decoder_outputs"]  # which follows from the other setting
    config = transformers.T5Config(**tied | {"tie_word_embeddings": False})
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    with pytest.raises(TfmrError, match="scale_decoder_outputs = True, got False"):
        T5.from_pretrained(tmp_path)


def test_a_bert_that_decodes_is_rejected(tmp_path: Path) -> None:
    config = type(PAIRS["bert"][2])(**PAIRS["bert"][2].to_dict() | {"is_decoder": True})
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(TfmrError, match="is_decoder = False, got True"):
        Bert.from_pretrained(tmp_path)


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
        PAIRS[kind][0].from_pretrained(tmp_path / kind)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder: Path, number: float) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"][3] = number
    save_file(tensors, path)
    with pytest.raises(TfmrError, match=r"norm\.weight contains NaN or infinite"):
        Llama.from_pretrained(folder)


def test_an_index_cannot_name_files_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TfmrError, match="names of files beside it"):
        Llama.from_pretrained(folder)


def test_the_documented_command_downloads_the_configuration_and_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library parses the command; only the download itself is replaced."""
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
