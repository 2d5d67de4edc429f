"""TOML tables and dataclasses: a file that a person writes, checked until nothing is left to guess.

Every key must be one that the dataclass has and every value of the type that it names, so that a
slip of the pen is an error now and not a surprise after a night of training.
"""

import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tfmr.errors import TfmrError, require

T = TypeVar("T")


def fill(
    kind: type[T], table: Mapping[str, Any], where: str, hidden: Mapping[str, Any] | None = None
) -> T:
    """Make a ``kind`` of the values of ``table``; what is not there keeps its default.

    Args:
        kind: a dataclass.
        table: names and values as TOML or JSON gives them.
        where: names the table in errors.
        hidden: fields that are set so and are none of the table's business.

    Raises:
        TfmrError: if a name is unknown, a value has a wrong type, or the dataclass refuses it.
    """
    hidden = hidden or {}
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name not in hidden]  # type: ignore[arg-type]
    check_names(table, names, where)
    values = {name: _fit(value, hints[name], f"{where}: {name}") for name, value in table.items()}
    try:
        return kind(**values, **hidden)
    except TfmrError as error:
        raise TfmrError(f"{where}: {error}") from None


def check_names(table: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Raise :class:`TfmrError` if ``table`` has a key that is not among ``names``."""
    for name in table:
        if name not in (known := list(names)):
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise TfmrError(f"{where} has no {name!r}: {hint}It has {', '.join(known)}")


def _fit(value: Any, hint: Any, where: str) -> Any:
    """``value`` as a ``hint``: a float may be written as 1, a tuple is written as a list."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        require(
            value in inner and isinstance(value, str),
            f"{where} must be one of {', '.join(map(str, inner))}: got {value!r}",
        )
        return value
    if origin is tuple:
        many = inner[1:] == (...,)
        require(
            isinstance(value, (list, tuple)) and (many or len(value) == len(inner)),
            f"{where} must be a list{'' if many else f' of {len(inner)}'}: got {value!r}",
        )
        kinds = [inner[0]] * len(value) if many else inner
        return tuple(_fit(one, kind, where) for one, kind in zip(value, kinds, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text in quotes",
    }[hint]
    require(type(value) is hint, f"{where} must be {wanted}: got {value!r}")
    return value


def to_toml(tables: Mapping[str, Any]) -> str:
    """The TOML text of plain values, lists of them, and tables of both, one level deep.

    >>> print(to_toml({"about": "a", "train": {"peak_lr": 1e-09, "betas": (0.9, 0.98)}}), end="")
    about = "a"
    <BLANKLINE>
    [train]
    peak = 1e-09
    betas = [0.9, 0.98]
    """
    lines = [f"{name} = {_value(v)}" for name, v in tables.items() if not isinstance(v, Mapping)]
    for title, table in tables.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{title}]", *(f"{name} = {_value(v)}" for name, v in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A TOML value; texts, numbers, true and false are written as in JSON."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf and nan are spelt so in TOML, and otherwise in JSON
    return json.dumps(value, ensure_ascii=False)
