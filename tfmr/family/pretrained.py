"""Checkpoints of Hugging Face: a folder with ``config.json`` and safetensors files.

Pickle files, which can execute any code when they are read, are rejected. With a network, the
public checkpoint ``openai-community/gpt2``, for example, is downloaded to the folder ``gpt2`` by
``hf download openai-community/gpt2 config.json model.safetensors --local-dir gpt2``.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tfmr.errors import TfmrError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
BUFFERS = re.compile(
    r"(position_ids|attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq)$|^(cls\.predictions\.decoder\.|"
    r"(encoder|decoder)\.embed_tokens\.|bert\.pooler\.|cls\.seq_relationship\.)"
)
"""Tensors that checkpoints may contain and the models do not need: constants, second copies of tied
matrices, and heads for other tasks."""


class Rename(NamedTuple):
    """A replacement in the name of a weight."""

    pattern: str
    """A regular expression."""
    replacement: str
    """What replaces it."""


class Settings(dict[str, Any]):
    """A configuration; reading a setting that it lacks raises :class:`TfmrError`."""

    def __missing__(self, name: str) -> NoReturn:
        raise TfmrError(
            f"config.json: expected the setting {name!r}, which is missing; load the checkpoint "
            "with a current version of Transformers and save it again"
        )


def read_checkpoint(
    folder: str | Path, model_type: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the weights of a checkpoint, by their names there.

    Args:
        folder: the folder with ``config.json`` and ``model.safetensors``, or with several
            safetensors files and their index.
        model_type: the ``model_type`` that the configuration must state.

    Raises:
        TfmrError: if a file is missing or damaged, the weights are pickled, or the checkpoint is of
            another type of model.
    """
    folder = Path(folder)
    config = Settings(_read_json(folder / "config.json"))
    given = config.get("model_type")
    if given != model_type:
        raise TfmrError(
            f"{folder}: expected a checkpoint with model_type {model_type!r}, got {given!r}"
        )
    if (folder / SINGLE).is_file():
        names = [SINGLE]
    elif (folder / INDEX).is_file():
        names = sorted(set(_read_json(folder / INDEX).get("weight_map", {}).values()))
    else:
        pickles = [name for name in PICKLES if (folder / name).exists()]
        advice = (
            f"; {pickles[0]} is a pickle file, which can execute code when it is read: convert it "
            "with save_pretrained(folder, safe_serialization=True)"
            if pickles
            else ""
        )
        raise TfmrError(f"{folder}: expected {SINGLE} or {INDEX}, found neither{advice}")
    tensors: dict[str, Tensor] = {}
    for name in names:
        if Path(name).name != name:
            raise TfmrError(f"{folder / INDEX}: expected names of files beside it, got {name!r}")
        try:
            tensors |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            raise TfmrError(f"{folder / name}: not a readable safetensors file ({error})") from None
    return config, tensors


def expect(config: dict[str, Any], **settings: object) -> None:
    """Raise :class:`TfmrError` if ``config`` has another value for one of ``settings``.

    A setting that is not in the configuration has the expected value.
    """
    for name, value in settings.items():
        if config.get(name, value) != value:
            raise TfmrError(
                f"config.json: this model supports only {name} = {value!r}, got {config[name]!r}"
            )


def split_columns(
    tensors: dict[str, Tensor], joined: str, parts: Sequence[str]
) -> dict[str, Tensor]:
    """Split the weights and biases named ``joined`` into equal ``parts`` of their first axis."""
    split: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if joined not in name:
            split[name] = tensor
            continue
        for part, piece in zip(parts, tensor.chunk(len(parts)), strict=True):
            split[name.replace(joined, part)] = piece
    return split


@torch.no_grad()
def copy_weights(
    model: nn.Module, tensors: dict[str, Tensor], names: Sequence[Rename], folder: str | Path
) -> None:
    """Copy the weights of a checkpoint to ``model``; all must be present, none may remain.

    Args:
        model: the model.
        tensors: the weights, by their names in the checkpoint.
        names: replacements that turn these names into those of the model, applied in order.
        folder: where the checkpoint is, for error messages.

    Raises:
        TfmrError: naming a weight that is missing, has another shape, or is unknown to the model.
    """
    renamed = {}
    for name, tensor in tensors.items():
        if BUFFERS.search(name):
            continue
        for pattern, replacement in names:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    wanted = dict(model.named_parameters())
    missing, unknown = sorted(wanted.keys() - renamed), sorted(renamed.keys() - wanted)
    tied = {"output.weight"} & renamed.keys()
    unknown = [name for name in unknown if name not in tied]
    if missing or unknown:
        raise TfmrError(
            f"{folder}: the weights do not fit the model: missing {missing[:3] or 'none'}, unknown "
            f"{unknown[:3] or 'none'}; the checkpoint is incomplete or of another architecture"
        )
    for name, parameter in wanted.items():
        if parameter.shape != renamed[name].shape:
            raise TfmrError(
                f"{folder}: expected {name} to be {tuple(parameter.shape)}, as config.json states, "
                f"got {tuple(renamed[name].shape)}"
            )
        parameter.copy_(renamed[name])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TfmrError(
            f"expected {path}, found no such file; give the folder that save_pretrained wrote"
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TfmrError(f"{path}: not a readable JSON file ({error})") from None
    if not isinstance(content, dict):
        raise TfmrError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content
