"""The kinds of model by name, and the conversion between dataclasses and plain dictionaries.

Recipes (TOML) and checkpoints (JSON) hold plain values. :func:`structure` checks such values
against the type annotations of a dataclass, and :func:`unstructure` is its inverse. Both use
cattrs. A configuration additionally has the key ``kind``, which names its entry in :data:`MODELS`.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError, transform_error
from cattrs.gen import make_dict_structure_fn

from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.translator import Translator, TranslatorConfig

T = TypeVar("T")


class Kind(NamedTuple):
    """A configuration class and the model class that it configures."""

    config: type[Any]
    model: type[Translator]


MODELS: dict[str, Kind] = {
    "transformer": Kind(TransformerConfig, Transformer),
    "seq2seq": Kind(Seq2SeqConfig, Seq2Seq),
}
"""Every kind of model that can be trained, by its name in recipes and checkpoints."""


def kind_of(config: TranslatorConfig) -> str:
    """The name of the kind of model that ``config`` describes."""
    [name] = [name for name, kind in MODELS.items() if type(config) is kind.config]
    return name


def build_model(config: TranslatorConfig) -> Translator:
    """A new model with random weights, drawn from PyTorch's global generator."""
    return MODELS[kind_of(config)].model(config)


def config_to_dict(config: TranslatorConfig) -> dict[str, Any]:
    """The fields of ``config`` and its ``kind``, as values that JSON and TOML can hold."""
    return {"kind": kind_of(config), **unstructure(config)}


def config_from_dict(values: Any, where: str) -> TranslatorConfig:
    """The inverse of :func:`config_to_dict`.

    Args:
        values: a dictionary with the fields and the ``kind``.
        where: the origin of the values, for error messages.

    Raises:
        TfmrError: if the kind or a key is unknown, a required key is missing, or a value is
            invalid.
    """
    return structure(TranslatorConfig, values, where)  # type: ignore[type-abstract]


def structure(cls: type[T], values: Any, where: str) -> T:
    """Make a ``cls`` from plain values; a missing key takes its default.

    Values are not coerced, with two exceptions: an integer is accepted as a float, and a list as
    a tuple.

    Args:
        cls: a dataclass, or :class:`~tfmr.translator.TranslatorConfig` for that of any model.
        values: a dictionary with a dictionary for each nested dataclass.
        where: the origin of the values, for error messages.

    Raises:
        TfmrError: naming each wrong key, what was expected and what was given.
    """
    try:
        return _converter.structure(values, cls)
    except (BaseValidationError, TfmrError) as error:
        problems = []
        for line in transform_error(error, format_exception=_describe):
            problem, _, path = line.rpartition(" @ $")
            key = path.removeprefix(".")
            problems.append(f"{key}: {problem}" if key else problem)
        raise TfmrError(f"{where}: {'; '.join(problems)}") from None


def unstructure(value: Any) -> Any:
    """The inverse of :func:`structure`: dictionaries, lists, strings and numbers."""
    return _converter.unstructure(value)


_converter = Converter(unstruct_collection_overrides={tuple: list})
_EXPECTED = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def _structure_scalar(value: Any, expected: type[Any]) -> Any:
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        raise TfmrError(f"expected {_EXPECTED[expected]}, got {value!r}")
    return value


def _structure_literal(value: Any, expected: Any) -> Any:
    if value not in (choices := get_args(expected)):
        raise TfmrError(f"expected one of {', '.join(choices)}, got {value!r}")
    return value


def _structure_tuple(value: Any, expected: Any) -> tuple[Any, ...]:
    inner = get_args(expected)
    any_length = inner[1:] == (...,)
    if not isinstance(value, list | tuple) or not (any_length or len(value) == len(inner)):
        size = "" if any_length else f" of {len(inner)} values"
        raise TfmrError(f"expected a list{size}, got {value!r}")
    types = inner[:1] * len(value) if any_length else inner
    return tuple(_converter.structure(*item) for item in zip(value, types, strict=True))


def _structure_dataclass(cls: type[T]) -> Callable[[Any, Any], T]:
    from_dict = make_dict_structure_fn(cls, _converter, _cattrs_forbid_extra_keys=True)

    def hook(values: Any, expected: Any) -> T:
        if not isinstance(values, Mapping):
            raise TfmrError(f"expected a table of keys and values, got {values!r}")
        return from_dict(values, expected)

    return hook


def _structure_config(values: Any, _: Any) -> TranslatorConfig:
    if not isinstance(values, Mapping):
        raise TfmrError(f"expected a table of keys and values, got {values!r}")
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in MODELS:
        raise TfmrError(f"expected a model of kind {' or '.join(MODELS)}, got {kind!r}")
    choices = {name: value for name, value in values.items() if name != "kind"}
    config: TranslatorConfig = _converter.structure(choices, MODELS[kind].config)
    return config


def _describe(error: BaseException, _: Any) -> str:
    """What is wrong with the value at one place, for :func:`cattrs.transform_error`."""
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in fields(error.cl)]
        unknown = sorted(error.extra_fields)
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        return f"unknown key {', '.join(unknown)}{hint} (known: {', '.join(known)})"
    if isinstance(error, KeyError):
        return "required, but missing"
    return str(error)


def _has_origin(origin: Any) -> Callable[[Any], bool]:
    return lambda annotation: get_origin(annotation) is origin


for _type in _EXPECTED:
    _converter.register_structure_hook(_type, _structure_scalar)
_converter.register_structure_hook_func(_has_origin(Literal), _structure_literal)
_converter.register_structure_hook_func(_has_origin(tuple), _structure_tuple)
_converter.register_structure_hook_factory(is_dataclass, _structure_dataclass)
_converter.register_structure_hook_func(lambda t: t is TranslatorConfig, _structure_config)
_converter.register_unstructure_hook_func(lambda t: t is TranslatorConfig, config_to_dict)
