"""Every kind of model that can be trained, by the name that recipes and checkpoints give it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from tfmr.errors import require
from tfmr.model import Transformer, TransformerConfig
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.translator import Translator, TranslatorConfig


class Kind(NamedTuple):
    """A model and the choices that make one."""

    config: type[Any]
    model: type[Translator]


KINDS: dict[str, Kind] = {
    "transformer": Kind(TransformerConfig, Transformer),
    "seq2seq": Kind(Seq2SeqConfig, Seq2Seq),
}
"""The models of the book, by name."""


def kind_of(config: TranslatorConfig) -> str:
    """The name of the kind of model that ``config`` describes."""
    [name] = [name for name, kind in KINDS.items() if type(config) is kind.config]
    return name


def build(config: TranslatorConfig) -> Translator:
    """A new model, its weights drawn from torch's random numbers."""
    return KINDS[kind_of(config)].model(config)


def to_dict(config: TranslatorConfig) -> dict[str, Any]:
    """The kind and every choice, as JSON or TOML can hold them."""
    return {"kind": kind_of(config), **dataclasses.asdict(cast(Any, config))}


def from_dict(values: Mapping[str, Any], where: str) -> TranslatorConfig:
    """The inverse of :func:`to_dict`; what names no kind is a Transformer.

    Raises:
        TfmrError: if the kind is unknown (``where`` says whose), or a choice is.
    """
    choices = dict(values)
    name = choices.pop("kind", "transformer")
    require(
        name in KINDS,
        f"{where} has a model of kind {name!r}: expected one of {', '.join(KINDS)}; was it "
        "written by another version of tfmr?",
    )
    config: TranslatorConfig = KINDS[name].config.from_dict(choices)
    return config
