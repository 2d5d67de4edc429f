"""Checkpoints: one safetensors file that knows which model, vocabulary and run it belongs to.

A file is written beside its place and then moved into it, so it is whole or it is not there.
Reading one runs no code: it holds tensors and a JSON header, nothing else.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

import tfmr
from tfmr import registry
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.train.files import write_whole
from tfmr.translator import Translator, TranslatorConfig

FORMAT = "tfmr-checkpoint-1"


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: a model, its vocabulary, and what a run needs to go on."""

    config: TranslatorConfig
    """The model's choices."""
    tokenizer: Tokenizer
    """The vocabulary that its ids mean something in."""
    weights: dict[str, Tensor]
    """The model's parameters by name, a tied matrix once."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """Tensors of the run: weights, optimiser moments, averaged weights. Empty if not
    to be trained further."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else is known, as JSON: step, corpus, direction, settings, scores."""
    version: str = tfmr.__version__
    """Of the package that wrote it."""

    def model(self) -> Translator:
        """The model, in evaluation mode.

        Raises:
            TfmrError: if the weights are not those of the configuration.
        """
        model = registry.build(self.config)
        load_weights(model, self.weights)
        return model.eval()


def named_weights(model: Translator) -> dict[str, Tensor]:
    """The parameters by name, a tied matrix once, detached."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def load_weights(model: Translator, weights: dict[str, Tensor]) -> None:
    """Copy ``weights`` into ``model``, all of them or none.

    Raises:
        TfmrError: if a name is missing or unknown, or a shape differs.
    """
    own = dict(model.named_parameters())
    wrong = sorted(set(own) ^ set(weights))
    require(
        not wrong,
        f"the weights are not those of this model: {len(wrong)} names differ, the first is "
        f"{wrong[:1]}; was the checkpoint written for another configuration?",
    )
    for name, parameter in own.items():
        given = weights[name]
        require(
            given.shape == parameter.shape,
            f"the weight {name} must have shape {tuple(parameter.shape)}: got "
            f"{tuple(given.shape)}; was the checkpoint written for another configuration?",
        )
    for name, parameter in own.items():
        parameter.copy_(weights[name])


def slim(saved: Checkpoint) -> Checkpoint:
    """What is needed to translate and no more, in half precision (fp16): two bytes a weight.

    Raises:
        TfmrError: if a weight is too large for half precision.
    """
    weights = {name: weight.half() for name, weight in saved.weights.items()}
    large = sorted(name for name, weight in weights.items() if not weight.isfinite().all())
    require(
        not large,
        f"half precision ends at 65504 and {len(large)} weights go beyond, the first in "
        f"{large[:1]}: did the training diverge?",
    )
    facts = {name: fact for name, fact in saved.facts.items() if name != "trainer"}
    return dataclasses.replace(saved, weights=weights, state={}, facts=facts)


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` to ``path``, whole or not at all.

    Raises:
        OSError: if the folder cannot be written.
    """
    header = {
        "format": FORMAT,
        "tfmr": checkpoint.version,
        "config": json.dumps(registry.to_dict(checkpoint.config)),
        "tokenizer": checkpoint.tokenizer.to_json(),
        "facts": json.dumps(checkpoint.facts),
    }
    tensors = {f"model.{name}": tensor for name, tensor in checkpoint.weights.items()}
    tensors |= {f"state.{name}": tensor for name, tensor in checkpoint.state.items()}
    there = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_whole(path, lambda beside: save_file(there, beside, header))
    except SafetensorError as error:  # what the library makes of a full disk
        raise OSError(str(error)) from error


def load(path: Path) -> Checkpoint:
    """Read what :func:`save` wrote.

    Raises:
        TfmrError: if there is no such file, it is damaged, or it is something else.
    """
    require(
        path.is_file(),
        f"no checkpoint at {path}: train one with `python -m tfmr train`, or name another",
    )
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise TfmrError(
            f"{path} is not a whole safetensors file ({error}): copy it again, or train anew"
        ) from error
    require(
        header.get("format") == FORMAT,
        f"{path} is not a checkpoint of this package: expected format {FORMAT}, got "
        f"{header.get('format')}",
    )
    version = header.get("tfmr", "an unknown version")
    try:
        config, facts = json.loads(header["config"]), json.loads(header["facts"])
        vocabulary = header["tokenizer"]
    except (KeyError, ValueError) as error:
        raise TfmrError(f"the header of {path} is damaged ({error}): train anew") from error
    require(
        isinstance(config, dict) and isinstance(facts, dict),
        f"the header of {path} is damaged (expected two JSON objects): train anew",
    )
    return Checkpoint(
        config=registry.from_dict(config, f"{path}, written by tfmr {version},"),
        tokenizer=Tokenizer.from_json(vocabulary, where=str(path)),
        weights=_below("model.", tensors),
        state=_below("state.", tensors),
        facts=facts,
        version=version,
    )


def find(path: Path) -> Path:
    """The checkpoint that translates for a run's folder; a file is its own.

    Of a run that looked at its validation part it is the model that did best there.
    """
    if not path.is_dir():
        return path
    best = path / "best.safetensors"
    return best if best.exists() else path / "model.safetensors"


def load_translator(path: Path) -> tuple[Translator, Tokenizer]:
    """The model and the vocabulary of a run's folder, or of a checkpoint.

    Raises:
        TfmrError: if there is no whole checkpoint.
    """
    saved = load(find(path))
    return saved.model(), saved.tokenizer


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
