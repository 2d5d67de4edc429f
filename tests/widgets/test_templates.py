"""White space in the templates of the figures."""

import re
from pathlib import Path

import pytest

import tfmr.widgets

FOLDER = Path(tfmr.widgets.__file__).parent
SCRIPTS = sorted(path for path in FOLDER.rglob("*.js") if "vendor" not in path.parts)
INLINE = "i|b|a|em|code"
LOST = re.compile(
    rf"(?:[\w,.;:)’”]\n\s+<(?:{INLINE})\b[^\n]*|</(?:{INLINE})>\n\s+[\w(“][^\n]*)", re.ASCII
)
"""A line break between text and an inline element, which htm removes: the words would touch."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_line_break_separates_a_word_from_an_inline_element(path: Path) -> None:
    assert LOST.findall(path.read_text("utf-8")) == []
