"""The head of a page: its description, its addresses, and the typefaces that it needs first."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

from tfmr import __version__
from tools import ROOT
from tools.site import published_pages
from tools.site.card import CARD
from tools.site.icons import icon
from tools.site.styles import SHEET, version

DESCRIPTION_LENGTH = 200
PLAIN_PAGES = {
    "search": "Search the book.",
    "genindex": "All names in the book's package, in alphabetical order.",
    "py-modindex": "The modules of the book's package.",
    "_modules/index": "The source code of the book's package.",
}
LOADERS = ("answers.js", "frame.js", "live/host.js", "search/open.js")
"""Scripts that load other files, by addresses with the version of their own."""
FACES = ("400-normal", "400-italic", "600-normal")
"""The faces of the text, which the first lines of a page need; italics only if the page has any."""


def description(doctree: nodes.document) -> str:
    """The first paragraph of a page as plain text, shortened at a word boundary."""
    section = next(doctree.findall(nodes.section), doctree)
    paragraph = next((child for child in section if isinstance(child, nodes.paragraph)), None)
    if paragraph is None:
        paragraph = next(section.findall(nodes.paragraph), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    text = re.sub(r"\\(?:mathrm|text|operatorname|sqrt)\b|[\\{}]", "", text)
    if len(text) <= DESCRIPTION_LENGTH:
        return text
    return text[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def published_tags(page: str, root: Path = ROOT) -> str:
    """The canonical address and the picture of a ``page``, if the project is published."""
    pages = published_pages(root)
    if not pages:
        return ""
    return (
        f'<link rel="canonical" href="{pages}/{page}">\n'
        f'<meta property="og:image" content="{pages}/{CARD}">\n'
    )


@cache
def checksum(file: Path) -> str:
    """A short hash of a file, by which its address changes when the file does."""
    return sha256(file.read_bytes()).hexdigest()[:8]


def asset(app: Sphinx, pathto: Callable[..., str], name: str) -> str:
    """The address of a file that a page loads; it changes when the file, or what it loads, does."""
    late = name in (SHEET, *LOADERS)
    made = version(Path(app.srcdir)) if late else checksum(Path(app.outdir, "_static", name))
    return f"{pathto(f'_static/{name}', 1)}?v={made}"


class Commit(NamedTuple):
    """A commit of the book."""

    time: str
    """Its time in UTC, in ISO 8601."""
    name: str


@cache
def last_commit(root: Path) -> Commit | None:
    """The last commit, if Git knows it; its name has the same length in every clone."""
    if not shutil.which("git"):
        return None
    date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ"
    command = ["git", "log", "-1", "--abbrev=10", date, "--format=%cd %h"]
    utc = os.environ | {"TZ": "UTC"}
    done = subprocess.run(command, cwd=root, env=utc, capture_output=True, text=True, check=False)
    return Commit(*done.stdout.split()) if done.returncode == 0 else None


def edition(root: Path) -> str:
    """The version of the book, with the date and the name of its last commit if Git knows them."""
    version, commit = f"Version {__version__}", last_commit(root)
    return f"{version} of {commit.time[:10]}, commit {commit.name}" if commit else version


def describe_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add what search engines and messengers display, and what the template draws and loads."""
    context["icon"] = icon
    context["asset"] = partial(asset, app, context["pathto"])
    context["edition"] = edition(Path(app.srcdir))
    text = (
        description(doctree)
        if doctree is not None
        else PLAIN_PAGES.get(pagename, context.get("description", ""))
    )
    if not text:
        text = f"Source code of {pagename.removeprefix('_modules/').replace('/', '.')}."
    title = re.sub(r"<[^>]*>", "", context.get("title", "")) or app.config.project
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
    fonts = (
        context["pathto"](f"_static/fonts/source-serif-4-latin-{face}.woff2", 1)
        for face in FACES
        if "italic" not in face or "<em" in context.get("body", "")
    )
    preloads = (
        f'<link rel="preload" href="{font}" as="font" type="font/woff2" crossorigin>\n'
        for font in fonts
    )
    context["metatags"] = "".join(
        [
            context.get("metatags", ""),
            f'<meta name="description" content="{escape(text)}">\n',
            f'<meta property="og:title" content="{escape(title)}">\n',
            f'<meta property="og:description" content="{escape(text)}">\n',
            *preloads,
            published_tags(app.builder.get_target_uri(pagename), Path(app.srcdir)),
        ]
    )
