"""Checkpoints: one safetensors file with a model, its tokenizer and metadata.

The tensors have the names of the model's ``state_dict``; a tied matrix is stored once, under the
first of its names. ``model.load_state_dict(safetensors.torch.load_file(path))`` loads them. A
checkpoint from which a run can resume also holds the state of the training, under names that start
with ``state.``.

A file holds tensors and a JSON header, so loading it runs no code. It is written atomically: at any
moment the path holds either the previous complete file or the new one.
"""

import dataclasses
import errno
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

import tfmr
from tfmr import registry
from tfmr.data.files import explain_os_error, write_atomic
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.records import model_names, record_path
from tfmr.translator import TRAINING_STATE, Translator, TranslatorConfig

FORMAT = "tfmr-checkpoint-3"
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The types that weights may have in a file; models compute in fp32 unless converted."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    config: TranslatorConfig
    """The model's configuration."""
    tokenizer: Tokenizer
    """The tokenizer that the model was trained with."""
    weights: dict[str, Tensor]
    """The model's parameters by name; tied parameters once. In a run that averages its weights,
    these are the averaged ones."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """Tensors of :meth:`tfmr.train.trainer.Trainer.state_dict`: weights, EMA and Adam moments.
    Empty if the checkpoint is for inference only, or was loaded without its state."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """JSON values that describe the run: step, corpus, direction, recipe, scores."""
    version: str = tfmr.__version__
    """The version of tfmr that wrote the file."""

    def model(self) -> Translator:
        """The model with these weights, in evaluation mode.

        Raises:
            TfmrError: as :func:`check_tensors`.
        """
        model = registry.build_model(self.config)
        load_weights(model, self.weights)
        return model.eval()


def named_weights(model: Translator) -> dict[str, Tensor]:
    """The detached parameters of ``model`` by name; tied parameters once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def check_tensors(
    given: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    where: str | Path,
    dtypes: Sequence[torch.dtype] = (),
) -> None:
    """Raise unless ``given`` has the names and shapes of ``expected``, and only finite numbers.

    Args:
        given: the tensors to check.
        expected: tensors of the right shapes; their values do not matter, and they may be on the
            device ``meta``.
        where: the origin of the tensors, for messages.
        dtypes: the types that the tensors may have; if empty, those of ``expected``.

    Raises:
        TfmrError: naming the first tensor that is missing, unknown, of another shape or type, or
            not finite.
    """
    cause = "was the checkpoint written for another configuration?"
    different = sorted(set(expected) ^ set(given))
    if different:
        problem = "missing" if different[0] in expected else "unknown"
        raise TfmrError(
            f"{where}: the tensors do not match the model: names that differ: {len(different)}, "
            f"such as {different[0]}, which is {problem}; {cause}"
        )
    for name, like in expected.items():
        tensor = given[name]
        if tensor.shape != like.shape:
            raise TfmrError(
                f"{where}: expected {name} with shape {tuple(like.shape)}, got "
                f"{tuple(tensor.shape)}; {cause}"
            )
        if tensor.dtype not in (allowed := dtypes or (like.dtype,)):
            raise TfmrError(
                f"{where}: expected {name} with type {' or '.join(map(str, allowed))}, got "
                f"{tensor.dtype}; convert it, or train the model again"
            )
        if not tensor.isfinite().all():
            raise TfmrError(
                f"{where}: {name} contains NaN or infinite numbers, "
                f"{int((~tensor.isfinite()).sum())} in all: use an earlier checkpoint, or train "
                "the model again"
            )


@torch.no_grad()
def load_weights(
    model: Translator, weights: Mapping[str, Tensor], where: str | Path = "the weights"
) -> None:
    """Copy ``weights`` into ``model``. If an error is raised, the model is unchanged.

    Raises:
        TfmrError: as :func:`check_tensors`.
    """
    parameters = named_weights(model)
    check_tensors(weights, parameters, where, DTYPES)
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


def save(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` to ``path`` atomically.

    Raises:
        OSError: if the file cannot be written; a previous file is unchanged.
    """
    header = {
        "format": FORMAT,
        "tfmr": checkpoint.version,
        "config": json.dumps(registry.config_to_dict(checkpoint.config)),
        "tokenizer": checkpoint.tokenizer.to_json(),
        "metadata": json.dumps(checkpoint.metadata),
    }
    state = {f"{TRAINING_STATE}{name}": tensor for name, tensor in checkpoint.state.items()}
    tensors = checkpoint.weights | state
    on_cpu = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_atomic(path, lambda temporary: save_file(on_cpu, temporary, header))
    except SafetensorError as error:  # raised by safetensors when the disk is full
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def load(path: str | os.PathLike[str], *, with_state: bool = False) -> Checkpoint:
    """Read a checkpoint that :func:`save` wrote.

    Args:
        path: the file.
        with_state: read the state of the training run, too. It is about three times as large as
            the model and needed only to resume training.

    Raises:
        TfmrError: if there is no such file, it is damaged, or it has another format; if the weights
            do not match the configuration (:func:`check_tensors`).
    """
    path = Path(path)
    require(
        path.exists(),
        f"no checkpoint at {path}: train a model with `python -m tfmr train`, or give another path "
        f"or the name of a model of the package ({', '.join(model_names())})",
    )
    _check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            _check_format(path, header)
            names = list(file.keys())
            state_names = [name for name in names if name.startswith(TRAINING_STATE)]
            weights = {n: file.get_tensor(n) for n in names if n not in state_names}
            state = {
                name.removeprefix(TRAINING_STATE): file.get_tensor(name)
                for name in (state_names if with_state else ())
            }
    except OSError as error:
        raise TfmrError(f"cannot read {path}: {explain_os_error(error)}") from error
    except SafetensorError as error:
        raise TfmrError(
            f"{path} is not a complete safetensors file ({error}): copy it again, or train the "
            "model again"
        ) from error
    try:
        config, metadata = json.loads(header["config"]), json.loads(header["metadata"])
        tokenizer, version = header["tokenizer"], header["tfmr"]
        if not isinstance(metadata, dict):
            raise ValueError("metadata is not a JSON object")
    except (KeyError, ValueError) as error:
        raise TfmrError(
            f"the header of {path} is damaged ({error!r}): copy the file again, or train the model "
            "again"
        ) from error
    config = registry.config_from_dict(config, f"{path}, written by tfmr {version}")
    try:
        with torch.device("meta"):
            expected = named_weights(registry.build_model(config))
    except RuntimeError as error:  # the number of bytes overflows
        raise TfmrError(
            f"{path}: no machine can hold a model with its configuration, {config}: copy the file "
            "again, or train the model again"
        ) from error
    check_tensors(weights, expected, path, DTYPES)
    return Checkpoint(
        config=config,
        tokenizer=Tokenizer.from_json(tokenizer, where=str(path)),
        weights=weights,
        state=state,
        metadata=metadata,
        version=version,
    )


def _check_file(path: Path) -> None:
    """Raise :class:`TfmrError` if ``path`` cannot be read or does not begin as safetensors do."""
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise TfmrError(f"cannot read {path}: {explain_os_error(error)}") from error
    # A header of JSON follows its size; a truncated file is reported when it is loaded.
    if len(start) < 9 or start[8:] == b"{":
        return
    kind = "a PyTorch file" if start.startswith((b"PK\x03\x04", b"\x80")) else "another file"
    raise TfmrError(
        f"expected {path} to be a checkpoint in the safetensors format, got {kind}: give a run "
        "directory, or a file that `train` or `export` wrote"
    )


def _check_format(path: Path, header: dict[str, str]) -> None:
    found = header.get("format")
    if found == FORMAT:
        return
    if found is not None and found.startswith("tfmr-checkpoint-"):
        raise TfmrError(
            f"{path} has the format {found}, written by tfmr {header.get('tfmr')}; this version, "
            f"{tfmr.__version__}, reads {FORMAT}: use the version that wrote it, or train the "
            "model again"
        )
    raise TfmrError(f"{path} is not a tfmr checkpoint: expected the format {FORMAT}, got {found}")


def find(path: str | os.PathLike[str]) -> Path:
    """The checkpoint to use for inference: ``path`` itself, or the one in a run directory.

    If there is no file or folder ``path``, it may be the name of a model of the package
    (:func:`tfmr.records.model_names`). In a run directory, it is ``best.safetensors``, the model
    with the best validation result, if the run was validated during training, otherwise
    ``model.safetensors``.
    """
    path = Path(path)
    if not path.exists() and str(path) in model_names():
        path = record_path(str(path))
    if not path.is_dir():
        return path
    best = path / "best.safetensors"
    return best if best.exists() else path / "model.safetensors"


def load_translator(path: str | os.PathLike[str]) -> tuple[Translator, Tokenizer]:
    """The model and the tokenizer of a run directory, a checkpoint file or a name of :func:`find`.

    Raises:
        TfmrError: if there is no such file, or it is not a valid checkpoint.
    """
    saved = load(find(path))
    return saved.model(), saved.tokenizer


def strip_for_inference(saved: Checkpoint) -> Checkpoint:
    """A copy for inference only: weights in half precision (fp16), no training state.

    Raises:
        TfmrError: if a weight is not finite in half precision.
    """
    weights = {name: weight.half() for name, weight in saved.weights.items()}
    overflowed = sorted(name for name, weight in weights.items() if not weight.isfinite().all())
    require(
        not overflowed,
        f"{len(overflowed)} weights exceed 65504, the largest half-precision number, such as "
        f"{overflowed[:1]}: did the training diverge?",
    )
    metadata = {name: value for name, value in saved.metadata.items() if name != "trainer"}
    return dataclasses.replace(saved, weights=weights, state={}, metadata=metadata)
