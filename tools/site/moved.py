"""Old addresses: pages that are gone, and sections that are on another page now.

Each line of ``book/moved.csv`` has an old address and the place of its content today, both as a
page and an optional anchor. A page that is gone becomes a list of links to these places, and a page
that remains has the list at its end, where it shows a link only to a reader who comes with its old
address. A script, ``book/_assets/frame.js``, follows the link at once.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from tools.site import heights

FILE = "book/moved.csv"
FOLDER = "book/"


def moves(root: Path) -> dict[str, dict[str, str]]:
    """The new addresses, by the old page and by the old anchor ("" for the page itself)."""
    found: dict[str, dict[str, str]] = {}
    if not (root / FILE).is_file():
        return found
    with (root / FILE).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            page, _, anchor = row["old"].partition("#")
            found.setdefault(page, {})[anchor] = row["new"]
    return found


def title(env: BuildEnvironment, address: str) -> str:
    """The title of the page or the section at an address; a live figure has that of its page."""
    page, _, anchor = address.partition("#")
    if anchor in heights.names():
        anchor = ""
    contents = env.tocs.get(f"{FOLDER}{page}")
    if contents is not None:
        for entry in contents.findall(nodes.reference):
            if entry["anchorname"] == (anchor and f"#{anchor}"):
                return str(entry.astext())
    raise ExtensionError(f"{FILE} leads to {address}, which does not exist")


def links(app: Sphinx, page: str) -> list[dict[str, str]]:
    """The links of an old page: the old anchor, the new address, and the title there."""
    made = []
    for anchor, new in moves(Path(app.srcdir)).get(page, {}).items():
        target, _, place = new.partition("#")
        address = app.builder.get_target_uri(f"{FOLDER}{target}") + (place and f"#{place}")
        made.append({"anchor": anchor, "address": address, "title": title(app.env, new)})
    return made


def gone_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page of links for each page that is gone."""
    for page in moves(Path(app.srcdir)):
        if f"{FOLDER}{page}" not in app.env.found_docs:
            about = {"title": "This page has moved", "description": "Where the content is now."}
            unlisted = '<meta name="robots" content="noindex">\n'
            yield page, about | {"metatags": unlisted}, "moved.html"


def add_links(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Give the template the links of the page."""
    context["moved"] = links(app, pagename.removeprefix(FOLDER))
