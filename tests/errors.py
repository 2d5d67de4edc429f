"""Errors of the package."""

from collections.abc import Callable

import pytest

from tfmr.errors import TfmrError


def rejects(call: Callable[[], object], *words: str) -> None:
    """``call`` raises an error whose message contains ``words``."""
    with pytest.raises(TfmrError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
