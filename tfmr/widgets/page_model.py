r"""Write a trained Transformer as one file that a web page can load.

The file is a script of one statement, ``tfmrModel({…});`` in UTF-8. A page reads it as text by
``fetch``, which reports progress, or, when it was opened from a folder (``file://``), runs it as a
script. The argument is a JSON object:

============= =====================================================================================
``format``    :data:`FORMAT`
``name``      name of the model, such as ``"multi30k-de-en"``
``corpus``    name of the corpus that the model was trained on
``direction`` source and target language, such as ``"de-en"``
``config``    the fields of :class:`tfmr.config.TransformerConfig`
``tokenizer`` an object with ``kind``, ``vocabulary``, ``merges`` and ``form``, as in
              :meth:`tfmr.data.tokenizer.Tokenizer.to_json`
``shapes``    the shape of each parameter by name, in the order of their data; tied parameters once
``weights``   the data, in base64
============= =====================================================================================

The data have two sections, each without gaps and in the order of ``shapes``. The first holds
little-endian 32-bit floats: the values of every vector (biases, layer norms), and one scale for
each row of every matrix. The second holds 8-bit integers: the entries of the matrices. An entry is
its integer times the scale of its row, :math:`W_{ij} = s_i n_{ij}` with
:math:`s_i = \max_j |W_{ij}| / 127`, so rounding changes it by at most half a scale, 0.4% of the
row's largest entry. This is symmetric quantisation with one scale per output channel (Jacob et al.,
2018, without its zero points). ``tfmr/widgets/weights.js`` reads the file in the page.
"""

import base64
import dataclasses
import json
import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor

from tfmr import registry
from tfmr.checkpoint import Checkpoint
from tfmr.config import TransformerConfig
from tfmr.data.tokenizer import FORMAT as TOKENIZER_FORMAT
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require

FORMAT = "tfmr-page-model-1"
PREFIX, SUFFIX = "tfmrModel(", ");\n"
LARGEST = 127
"""The largest 8-bit integer that is used."""


def quantise(
    weight: Float[Tensor, "rows columns"],
) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, "rows"]]:
    """Round a matrix to 8-bit integers and one scale per row."""
    weight = weight.float()
    scales = weight.abs().amax(dim=1) / LARGEST
    divisors = scales.where(scales > 0, 1)[:, None]
    return (weight / divisors).round().to(torch.int8), scales


def dequantise(
    integers: Int8[Tensor, "rows columns"], scales: Float[Tensor, "rows"]
) -> Float[Tensor, "rows columns"]:
    """The matrix that :func:`quantise` rounded to."""
    return integers.float() * scales[:, None]


def page_model(saved: Checkpoint, name: str) -> str:
    """The content of the file of a model.

    Raises:
        TfmrError: if the page cannot compute the model, because it is not a Transformer with ReLU,
            sinusoidal positions and the default epsilon.
    """
    config = saved.config
    require(
        isinstance(config, TransformerConfig)
        and config.position == "sinusoidal"
        and config.activation == "relu"
        and config.eps == 1e-5,
        "the page computes Transformers with sinusoidal positions, ReLU and eps=1e-5: got "
        f"{registry.config_to_dict(config)}; train another model for the page",
    )
    floats, integers = [], []
    for weight in saved.weights.values():
        if weight.dim() == 1:
            floats.append(weight.float())
        else:
            matrix, scales = quantise(weight)
            integers.append(matrix.flatten())
            floats.append(scales)
    data = torch.cat(floats).numpy().astype("<f4").tobytes() + torch.cat(integers).numpy().tobytes()
    tokenizer = json.loads(saved.tokenizer.to_json())
    content = {
        "format": FORMAT,
        "name": name,
        "corpus": saved.metadata.get("corpus", ""),
        "direction": saved.metadata.get("direction", ""),
        "config": registry.config_to_dict(config),
        "tokenizer": {key: value for key, value in tokenizer.items() if key != "format"},
        "shapes": {name: list(weight.shape) for name, weight in saved.weights.items()},
        "weights": base64.b64encode(data).decode("ascii"),
    }
    return PREFIX + json.dumps(content, ensure_ascii=False, separators=(",", ":")) + SUFFIX


def read_page_model(text: str, where: str = "the text") -> Checkpoint:
    """The inverse of :func:`page_model`: the model with its rounded weights, in single precision.

    Raises:
        TfmrError: if ``text`` is not a complete file of this format; ``where`` names its origin.
    """
    complete = text.startswith(PREFIX) and text.endswith(SUFFIX)
    require(complete, f"expected {where} to be a complete page model: write it again")
    try:
        content: dict[str, Any] = json.loads(text.removeprefix(PREFIX).removesuffix(SUFFIX))
        found = content.get("format")
        require(found == FORMAT, f"expected the format {FORMAT} in {where}, got {found!r}")
        weights = _unpack(content["shapes"], base64.b64decode(content["weights"]), where)
        tokenizer = json.dumps(content["tokenizer"] | {"format": TOKENIZER_FORMAT})
        config = registry.config_from_dict(content["config"], where)
        metadata = {key: content[key] for key in ("corpus", "direction")}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TfmrError(f"{where} is damaged ({error!r}): write it again") from error
    return Checkpoint(config, Tokenizer.from_json(tokenizer, where), weights, metadata=metadata)


def rounded(saved: Checkpoint) -> Checkpoint:
    """``saved`` with the weights that the page computes with."""
    weights = {
        name: weight.float() if weight.dim() == 1 else dequantise(*quantise(weight))
        for name, weight in saved.weights.items()
    }
    return dataclasses.replace(saved, weights=weights)


def _unpack(shapes: dict[str, list[int]], data: bytes, where: str) -> dict[str, Tensor]:
    """The parameters in the two sections of ``data``."""
    n_floats = sum(shape[0] for shape in shapes.values())
    n_integers = sum(math.prod(shape) for shape in shapes.values() if len(shape) == 2)
    expected = 4 * n_floats + n_integers
    require(
        len(data) == expected,
        f"expected {expected:,} bytes of weights in {where}, got {len(data):,}: write it again",
    )
    floats = torch.from_numpy(np.frombuffer(data, "<f4", n_floats).astype(np.float32))
    integers = torch.from_numpy(np.frombuffer(data, np.int8, offset=4 * n_floats).copy())
    weights: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        rows, floats = floats[: shape[0]], floats[shape[0] :]
        if len(shape) == 1:
            weights[name] = rows
        else:
            matrix, integers = integers[: math.prod(shape)], integers[math.prod(shape) :]
            weights[name] = dequantise(matrix.view(*shape), rows)
    return weights
