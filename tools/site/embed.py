"""A page for each live figure, which shows nothing else, to be embedded in other pages.

The page of the second figure of ``04-self-attention.html`` is ``embed/04-self-attention-2.html``.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from tools.site.captions import numbered_caption, numbered_figure, statement
from tools.site.figures import is_live_figure

FOLDER = "embed"


def label(figure: nodes.Node) -> str:
    """The number of a figure, such as ``Figure 4.2``; empty on the cover, which has no numbers."""
    while figure.parent is not None and not isinstance(figure, numbered_figure):
        figure = figure.parent
    caption = next(figure.findall(numbered_caption), None) if figure.parent is not None else None
    return caption[0][0].astext() if caption is not None else ""


class Pages:
    """Collects the live figures of the pages while Sphinx writes them, and adds their pages."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any], str]] = []

    def collect(
        self,
        app: Sphinx,
        pagename: str,
        templatename: str,
        context: dict[str, Any],
        doctree: nodes.document | None,
    ) -> None:
        """Keep the figures of a page."""
        for figure in doctree.findall(is_live_figure) if doctree is not None else ():
            title = statement(figure["summary"])
            about = {
                "embedded": True,
                "title": title.removesuffix("."),
                "description": title,
                "metatags": '<meta name="robots" content="noindex">\n',
                "body": figure.astext() + figure["state"],
                "label": label(figure),
                "chapter_name": pagename,
                "chapter_title": context["title"] if pagename != app.config.root_doc else "",
                "anchor": figure["name"],
            }
            name = figure["name"].removeprefix("live-")
            self.made.append((f"{FOLDER}/{name}", about, "embed.html"))

    def pages(self, app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
        """The pages of all figures."""
        yield from self.made
