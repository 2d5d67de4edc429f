"""Formulas are set when the site is built, with KaTeX, so that pages need no script for them.

Node.js runs once for all formulas of the build. Each becomes HTML for the eye and MathML for
screen readers. An error in a formula fails the build and names the page.
"""

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.nodes import Element
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from tools import vendor
from tools.site.hues import in_formula

MARKS = re.compile(r"[.,;:!?)\]’”%]+")
ENDS = "</span>" * 3
"""The ends of the last part of a formula in a line, of what is drawn, and of the formula."""
STYLED = re.compile(r'<(?P<before>[^<>]*) style="(?P<style>[^"]*)"(?P<after>[^<>]*)>')
SCRIPT = Path(__file__).with_suffix(".cjs")


class Formula(NamedTuple):
    """A formula in LaTeX; ``display`` if it stands on a line of its own."""

    tex: str
    display: bool


class Unset(NamedTuple):
    """A formula with an error: its page and the message of KaTeX."""

    page: str
    formula: Formula
    message: str

    def __str__(self) -> str:
        return f"{self.page}: expected a formula in LaTeX, got {self.formula.tex!r}: {self.message}"


def formula(node: Element) -> Formula:
    r"""The formula of a node; lines that are separated by ``\\`` are aligned, as in Sphinx."""
    tex = in_formula(node.astext().strip())
    display = isinstance(node, nodes.math_block)
    if display and "\\\\" in tex and not node.get("nowrap"):
        if "\\begin" not in tex:
            tex = f"\\begin{{aligned}}{tex}\\end{{aligned}}"
        if "\\frac" in tex and tex.count("\\begin") == 1:  # rows of fractions need room
            tex = re.sub(r"\\\\(?!\[)", r"\\\\[0.7em]", tex)
    return Formula(tex, display)


def typeset(formulas: list[Formula]) -> list[dict[str, str]]:
    """The ``html`` of each formula, or the ``error`` in it."""
    done: list[dict[str, str]] = vendor.run_node(SCRIPT, [each._asdict() for each in formulas])
    return done


def collect(document: nodes.document, env: BuildEnvironment) -> None:
    """Keep the formulas of a page, which are set together with those of all other pages."""
    pages: dict[Formula, str] = vars(env).setdefault("formula_pages", {})
    for node in document.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)):
        pages.setdefault(formula(node), env.docname)


def set_formulas(app: Sphinx, env: BuildEnvironment) -> None:
    """Set every formula of the book; raise for those with an error."""
    pages: dict[Formula, str] = vars(env)["formula_pages"]
    done = typeset(list(pages))
    wrong = [
        Unset(page, each, result["error"])
        for (each, page), result in zip(pages.items(), done, strict=True)
        if "error" in result
    ]
    if wrong:
        raise ExtensionError("\n".join(map(str, wrong)))
    rules: dict[str, str] = {}
    env.formulas = {  # type: ignore[attr-defined]
        each: without_styles(result["html"], rules)
        for each, result in zip(pages, done, strict=True)
    }
    env.formula_rules = rules  # type: ignore[attr-defined]


def without_styles(html: str, rules: dict[str, str]) -> str:
    """A formula with classes in place of style attributes, which the policy of a page forbids.

    ``rules`` has the class of each style, and receives new ones.
    """

    def with_class(found: re.Match[str]) -> str:
        name = rules.setdefault(found["style"].rstrip(";"), f"math-{len(rules)}")
        tag = found["before"] + found["after"]
        if ' class="' in tag:
            return "<" + tag.replace(' class="', f' class="{name} ', 1) + ">"
        return f'<{tag} class="{name}">'

    return STYLED.sub(with_class, html)


def keep_marks(document: nodes.document, env: BuildEnvironment) -> None:
    """Give a formula in a line the punctuation after it, so that no line begins with a mark."""
    for node in list(document.findall(nodes.math)):
        following = node.next_node(descend=False, siblings=True)
        found = MARKS.match(following) if isinstance(following, nodes.Text) else None
        if found:
            node["marks"] = found.group()
            following.parent.replace(following, nodes.Text(following[found.end() :]))


def html_of(translator: HTML5Translator, node: Element) -> str:
    """The HTML of a formula that was set before the pages are written."""
    done: dict[Formula, str] = translator.builder.env.formulas  # type: ignore[attr-defined]
    return done[formula(node)]


def visit_inline(translator: HTML5Translator, node: Element) -> None:
    """Write a formula within a line."""
    html = html_of(translator, node)
    if "marks" in node:
        marks = f'<span class="math-marks">{escape(node["marks"])}</span>'
        html = f"{html.removesuffix(ENDS)}{marks}{ENDS}"
    translator.body.append(f'<span class="math">{html}</span>')
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: Element) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    anchor = "".join(f' id="{escape(name)}"' for name in node.get("ids", [])[:1])
    number = ""
    if node.get("number"):
        text = get_node_equation_number(translator, node)
        number = f'<span class="eqno">({escape(text)})</span>'
    translator.body.append(f'<div class="math"{anchor}>{number}{html_of(translator, node)}</div>\n')
    raise nodes.SkipNode
