"""What ``tfmr`` exports."""

import pydoc
import subprocess
import sys

import pytest

import tfmr


def test_every_exported_name_is_there_and_help_shows_it() -> None:
    text = pydoc.render_doc(tfmr, renderer=pydoc.plaintext)
    for name in tfmr.__all__:
        assert getattr(tfmr, name).__name__ == name
        assert name in text
    assert sorted(tfmr._MODULES) == sorted(tfmr.__all__)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'tfmr'.*no attribute 'Transfomer'"):
        _ = tfmr.Transfomer


def test_the_import_does_not_import_torch() -> None:
    """The command line sets an environment variable that torch reads when it is imported."""
    code = "import sys, tfmr; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
