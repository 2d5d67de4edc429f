"""Check the shapes of the signatures of ``tfmr`` and of ``benchmarks`` while the tests run.

jaxtyping decorates every function, and beartype checks its arguments and results. A check takes
longer than many of the functions. In each test, the first calls of a function are therefore
checked, and later calls ever more rarely.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import jaxtyping
import torch

ALWAYS = 16
"""The first calls in a test, all of which are checked; after them, calls 32, 64, 128, …"""
jaxtyped = jaxtyping.jaxtyped
number_of_test = 0


@dataclass(slots=True)
class Calls:
    """How often a function was called in a test."""

    test: int = 0
    number: int = 0


CALLS: dict[CodeType, Calls] = {}


def begin_test() -> None:
    """Count the calls of all functions from zero again."""
    global number_of_test
    number_of_test += 1


def is_checked(call: int) -> bool:
    """Whether the arguments and the result of the ``call``-th call in a test are checked."""
    return call <= ALWAYS or call & (call - 1) == 0


def often(**options: Any) -> Callable[[Any], Any]:
    """The decorator of jaxtyping, except that it does not check every call of a function."""

    def decorate(function: Any) -> Any:
        if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
            return jaxtyped(**options)(function)
        checked = None
        # Shared by all functions that one inner ``def`` makes, of which each call makes another.
        calls = CALLS.setdefault(function.__code__, Calls())

        @functools.wraps(function)
        def decorated(*arguments: Any, **named: Any) -> Any:
            nonlocal checked
            if torch.compiler.is_compiling():
                return function(*arguments, **named)
            calls.number = 1 if calls.test != number_of_test else calls.number + 1
            calls.test = number_of_test
            if not is_checked(calls.number):
                return function(*arguments, **named)
            # Generated at the first call: most functions are not called in every process.
            checked = checked or jaxtyped(**options)(function)
            return checked(*arguments, **named)

        return decorated

    return decorate


def install() -> None:
    """Decorate the functions of the package from now on."""
    jaxtyping.jaxtyped = often
    jaxtyping.install_import_hook("tfmr", "beartype.beartype")
