"""Listings that a reader of the ideas can do without: they are folded, and each can be opened.

A listing in a notebook cell is folded if the cell draws a figure, if more than half of its
statements are assertions, or if it has more than twenty lines. In the solution of an exercise,
which is folded itself, listings are open. The switch below the opener of a chapter opens and folds
all of them (``book/_assets/frame.js``).
"""

import ast
import re
from collections.abc import Iterator
from html import escape

from docutils import nodes
from sphinx.environment import BuildEnvironment

from tools.site.captions import numbered_figure
from tools.site.exercises import SOLUTION

LONG = 20
LANGUAGES = ("ipython3", "python", "javascript")
"""The languages of listings; what a notebook cell prints has another."""
DEFINITION = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
SWITCH = """<fieldset class="reading pst-js-only">
<legend>Read for</legend>
<label><input type="radio" name="reading" value="idea" checked>the idea</label>
<label><input type="radio" name="reading" value="code">the code</label>
</fieldset>"""


def fold_listings(document: nodes.document, env: BuildEnvironment) -> None:
    """Fold listings, and add the switch to a page that has an opener."""
    folded = False
    for listing in list(document.findall(nodes.literal_block)):
        label = summary(listing)
        if label:
            folded = True
            opening = f'<details class="folded"><summary>{escape(label)}</summary>'
            parts = (nodes.raw("", html, format="html") for html in (opening, "</details>"))
            listing.replace_self([next(parts), listing, next(parts)])
    for box in list(document.findall(nodes.container)):
        if folded and "opener" in box["classes"]:
            box.replace_self([box, nodes.raw("", SWITCH, format="html")])


def ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    """The elements around a node, from the inside to the outside."""
    while node.parent is not None:
        node = node.parent
        yield node


def summary(listing: nodes.literal_block) -> str | None:
    """The summary of a listing that is to be folded, ``None`` for any other."""
    around = list(ancestors(listing))
    cell = next((each for each in around if each.get("nb_element") == "cell_code"), None)
    sections = (each for each in around if isinstance(each, nodes.section))
    if (
        cell is None
        or listing.get("language") not in LANGUAGES
        or cell.get("hide_mode")
        or any(SOLUTION.fullmatch(section[0].astext()) for section in sections)
    ):
        return None
    text = listing.astext()
    lines = len(text.splitlines())
    size = f"Code ({lines} {'line' if lines == 1 else 'lines'})"
    if next(cell.findall(numbered_figure), None):
        return f"{size}: the figure"
    if is_check(text):
        return f"{size}: a check"
    names = ", ".join(DEFINITION.findall(text))
    return (f"{size}: {names}" if names else size) if lines > LONG else None


def is_check(text: str) -> bool:
    """Whether more than half of the statements of a listing are assertions."""
    try:
        statements = ast.parse(text).body
    except SyntaxError:  # a command of IPython, or JavaScript
        return False
    return 2 * sum(isinstance(each, ast.Assert) for each in statements) > len(statements)
