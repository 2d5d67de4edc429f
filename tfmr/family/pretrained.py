"""Checkpoints of Hugging Face: a folder with ``config.json`` and safetensors files.

Pickle files, which can execute any code when they are read, are rejected. With a network, the
public checkpoint ``openai-community/gpt2``, for example, is downloaded to the folder ``gpt2`` by
``hf download openai-community/gpt2 config.json model.safetensors --local-dir gpt2``.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from tfmr.errors import TfmrError

Model = TypeVar("Model", bound=nn.Module)
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
    """A configuration that knows which of its settings were read.

    Reading a setting that it lacks raises :class:`TfmrError`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.known: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise TfmrError(
                f"config.json: expected the setting {name!r}, which is missing; load the "
                "checkpoint with a current version of Transformers and save it again"
            )
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting; ``default`` if it is missing or ``None``."""
        self.known.add(name)
        value = super().get(name)
        return default if value is None else value

    def expect(self, **settings: object) -> None:
        """Raise :class:`TfmrError` if a setting has a value other than that in ``settings``.

        A setting that is not in the configuration is taken to have the expected value.
        """
        for name, value in settings.items():
            if self.get(name, value) != value:
                raise TfmrError(
                    f"config.json: this model supports only {name} = {value!r}, got {self[name]!r}"
                )

    def finish(self, *ignored: str) -> None:
        """Raise :class:`TfmrError` for a setting that was not read, expected or ``ignored``.

        Such a setting belongs to a variant of the architecture that the model cannot express.
        :data:`IRRELEVANT` settings and those without a value are also ignored.
        """
        for name in sorted(self.keys() - self.known - IRRELEVANT - set(ignored)):
            if not name.startswith("_") and super().get(name) is not None:
                raise TfmrError(
                    f"config.json: this model has no setting {name}, got {super().get(name)!r}; "
                    "the checkpoint belongs to another variant of the architecture"
                )


IRRELEVANT = {
    "architectures", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop",
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward",
    "classifier_dropout", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "embd_pdrop", "encoder_no_repeat_ngram_size", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
    "forced_eos_token_id", "gradient_checkpointing", "id2label", "initializer_factor",
    "initializer_range", "label2id", "length_penalty", "max_length", "min_length", "model_type",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_past",
    "output_scores", "pad_token_id", "prefix", "problem_type", "remove_invalid_values",
    "repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id",
    "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version",
    "typical_p", "use_bfloat16", "use_cache",
}  # fmt: skip
"""Settings of Hugging Face's models that do not change the logits in evaluation mode: those for
bookkeeping, training and generation, and a chunk size that only limits memory."""


def read_checkpoint(folder: str | Path, model_type: str) -> tuple[Settings, dict[str, Tensor]]:
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
    model: Model, tensors: dict[str, Tensor], names: Sequence[Rename], folder: str | Path
) -> Model:
    """Copy the weights of a checkpoint to ``model``; all must be present, none may remain.

    Args:
        model: the model.
        tensors: the weights, by their names in the checkpoint.
        names: replacements that turn these names into those of the model, applied in order.
        folder: where the checkpoint is, for error messages.

    Returns:
        ``model``, in evaluation mode.

    Raises:
        TfmrError: naming a weight that is missing, has another shape, is unknown to the model, or
            contains NaN or infinite numbers.
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
        if not parameter.isfinite().all():
            raise TfmrError(f"{folder}: {name} contains NaN or infinite numbers; copy it again")
    return model.eval()


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
