"""The search index of the site: one entry per section, glossary term, exercise and API object.

The index holds text, not postings: ``book/_assets/search/`` ranks it in the reader's browser. It
is a classic script, which also loads from ``file://``, and no page loads it before it is used.
Sphinx's own index and scripts are left out.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from tools.site.reference import PAGE
from tools.site.tex_text import plain_math

WORDS = Path(__file__).with_name("search_words.yml")
INDEX = Path("_static", "search", "index.js")
SECTION, TERM, EXERCISE, REFERENCES, API = range(5)
"""Kinds of entries, which the ranking distinguishes."""

LEFT_OUT = (
    "book/bibliography",
    *(f"book/api/{name}-" for name in ("exercises", "figures", "widgets")),
)
"""Pages without entries: the papers stand in the references of the chapters that cite them, and the
static and the live figures have the subjects of chapters, as the exercises have."""

COMPOUND = re.compile(r"\b([A-Za-z]+(?:_[A-Za-z0-9]+)+|[A-Z]\w*[a-z][A-Z]\w*)\(")
TORCH = re.compile(r"\b(?:torch|nn|F)\.([A-Za-z]\w+)")
"""Names in cells that a reader searches: ``masked_fill``, ``LayerNorm``, ``torch.einsum``."""

WORD = re.compile(r" ?[A-Za-z]{2,}")
CODES = range(0x0500, 0x1300)
"""Characters, of two or three bytes each, of scripts that the book does not use."""

SENTENCE = re.compile(r"(?<=[.;]) ")
EXERCISE_TITLE = re.compile(r"Exercise \d+\.\d+")
FOLDED = re.compile(r'<details class="solution"|<details>\s*<summary>Hint')
FOLDED_END = "</details>"


class Entry(NamedTuple):
    """One place in the book that a search can find."""

    kind: int
    title: str
    anchor: str
    text: str
    code: str


def words_of(node: nodes.Node) -> Iterator[str]:
    """The text of ``node`` in pieces: prose, inline code and formulas, without nested sections."""
    if isinstance(node, nodes.Text):
        yield node.astext()
    elif isinstance(node, nodes.math):
        yield plain_math(node.astext()) + node.get("marks", "")  # see formulas.KeepMarks
    elif not isinstance(node, UNREAD) and not is_output_table(node) and not is_opener(node):
        for child in node.children:
            yield from words_of(child)
        if not isinstance(node, nodes.Inline):
            yield " "


UNREAD = (
    nodes.section,
    nodes.math_block,
    nodes.literal_block,
    nodes.raw,
    nodes.image,
    nodes.Invisible,
    addnodes.desc,
    addnodes.toctree,
)
"""What contributes no prose: a listing contributes identifiers, an API object its own entry."""


def is_output_table(node: nodes.Node) -> bool:
    """Whether ``node`` is a table that a notebook cell displays: numbers, no prose."""
    return isinstance(node, nodes.table) and node.parent.get("nb_element") == "cell_code_output"


def is_opener(node: nodes.Node) -> bool:
    """Whether ``node`` is the strip of a chapter, which names the subjects of other chapters."""
    return isinstance(node, nodes.container) and "opener" in node["classes"]


def prose(parts: list[nodes.Node]) -> str:
    """The text of ``parts`` in one line."""
    return " ".join("".join(piece for part in parts for piece in words_of(part)).split())


def without_answers(children: list[nodes.Node]) -> list[nodes.Node]:
    """Leave out the hints and solutions of exercises: a search does not give them away."""
    kept = []
    inside = False
    for child in children:
        markup = child.astext() if isinstance(child, nodes.raw) else ""
        inside = inside or bool(FOLDED.match(markup))
        if not inside:
            kept.append(child)
        inside = inside and markup != FOLDED_END
    return kept


def is_cell_source(node: nodes.Node) -> bool:
    """Whether ``node`` has the source of a notebook cell, unlike a listing of the package."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code_source"


def identifiers(parts: list[nodes.Node]) -> str:
    """The names of functions and classes in the notebook cells of ``parts``, each once."""
    names: dict[str, None] = {}
    for part in parts:
        for cell in part.findall(is_cell_source):
            for pattern in (COMPOUND, TORCH):
                names.update(dict.fromkeys(pattern.findall(cell.astext())))
    return " ".join(names)


def kind_of(docname: str, title: str, top: bool) -> int:
    """The kind of a section, from its page, its title, and whether it is the page itself."""
    if docname.startswith("book/api"):
        return API
    if title == "References":
        return REFERENCES
    if docname.endswith("/glossary") and not top:
        return TERM
    return EXERCISE if EXERCISE_TITLE.match(title) else SECTION


def section_entries(docname: str, section: nodes.section, top: bool = False) -> Iterator[Entry]:
    """The entries of ``section`` and of the sections in it."""
    # The lists of the overview repeat the names and first sentences of entries of other pages.
    nested = (nodes.section, nodes.bullet_list) if docname == PAGE else nodes.section
    own = without_answers([child for child in section.children if not isinstance(child, nested)])
    title = prose(own[:1])
    text, code = prose(own[1:]), identifiers(own[1:])
    anchor = "" if top else section["ids"][0]
    if top or text or code:
        yield Entry(kind_of(docname, title, top), title, anchor, text, code)
    for described in own[1:]:
        for object_ in described.findall(addnodes.desc):
            yield from object_entries(object_)
    for child in section.children:
        if isinstance(child, nodes.section):
            yield from section_entries(docname, child)


def summary(content: list[nodes.Node]) -> str:
    """The first sentence of a docstring; the entry of the object on its page has the rest."""
    paragraphs = (
        child for part in content for child in part.children if isinstance(child, nodes.paragraph)
    )
    return SENTENCE.split(prose(list(islice(paragraphs, 1))), maxsplit=1)[0]


def object_entries(description: addnodes.desc) -> Iterator[Entry]:
    """The entry of an API object; attributes and properties have none, they are in their class."""
    signature = next(iter(description.findall(addnodes.desc_signature)))
    if description["objtype"] in ("attribute", "property", "data") or not signature["ids"]:
        return
    content = [child for child in description.children if isinstance(child, addnodes.desc_content)]
    members = " ".join(
        str(member[0]["fullname"]).rpartition(".")[2]
        for part in content
        for member in part.findall(addnodes.desc)
        if member["objtype"] in ("attribute", "property")
    )
    yield Entry(API, str(signature["fullname"]), signature["ids"][0], summary(content), members)


def with_names_once(found: Iterable[Entry]) -> Iterator[Entry]:
    """Keep each name from cells only in the first section of its page that uses it.

    ``manual_seed`` stands in most cells of a chapter: a search needs to find it once on the
    page, and the repetitions would only lengthen the index.
    """
    known: set[str] = set()
    for entry in found:
        new = [name for name in entry.code.split() if name not in known]
        known.update(new)
        yield entry if entry.kind == API else entry._replace(code=" ".join(new))


def entries(docname: str, doctree: nodes.document) -> list[Entry]:
    """All entries of a page."""
    top = None if docname.startswith(LEFT_OUT) else next(iter(doctree.findall(nodes.section)), None)
    return list(with_names_once(section_entries(docname, top, top=True))) if top is not None else []


def slug(title: str) -> str:
    """The anchor that Sphinx makes of most titles."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def shortened(entry: Entry) -> Entry:
    """An entry without what its anchor repeats of its title; the browser adds it again.

    The anchor of an API entry ends with its title; that of a section is often its :func:`slug`.
    """
    if entry.anchor.endswith(f".{entry.title}"):
        return entry._replace(anchor=entry.anchor.removesuffix(entry.title))
    return (
        entry._replace(anchor="-") if entry.anchor and entry.anchor == slug(entry.title) else entry
    )


def with_codes(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The common words of ``texts``, and the texts with a single character in place of each.

    The browser restores the words. gzip, which does not see words, then needs a tenth less.
    """
    counts = Counter(word for text in texts for word in WORD.findall(text))
    saved = sorted(counts, key=lambda word: (-counts[word] * (len(word) - 1), word))
    common = saved[: len(CODES)]
    code = {word: chr(number) for word, number in zip(common, CODES, strict=False)}
    used = {character for text in texts for character in text if ord(character) in CODES}
    assert not used, (
        f"expected no characters of Armenian, Hebrew and the scripts up to Ethiopic: got {used}"
    )
    return common, [WORD.sub(lambda word: code.get(word[0], word[0]), text) for text in texts]


class Index:
    """Collects the entries of the pages while Sphinx resolves them, and writes the index."""

    def __init__(self) -> None:
        self.pages: dict[str, list[Entry]] = {}

    def collect(self, app: Sphinx, doctree: nodes.document, docname: str) -> None:
        """Keep the entries of a page."""
        self.pages[docname] = entries(docname, doctree)

    def content(self, app: Sphinx) -> dict[str, Any]:
        """What the browser receives: pages, entries, and the words that readers use.

        The entries are stored as columns, which gzip compresses better than rows.
        """
        pages: list[tuple[str, str]] = []
        rows: list[tuple[int | str, ...]] = []
        for docname, found in sorted(self.pages.items()):
            if found:
                rows += [(len(pages), *shortened(entry)) for entry in found]
                pages.append((app.builder.get_target_uri(docname), found[0].title))
        *columns, texts, codes = zip(*rows, strict=True)
        common, coded = with_codes(texts)
        entries = [*columns, coded, codes]
        words = yaml.safe_load(WORDS.read_text("utf-8"))
        return {"pages": pages, "entries": entries, "common": common, **words}

    def write(self, app: Sphinx, failure: Exception | None) -> None:
        """Write the script that a page loads at the first search."""
        if failure is not None or app.builder.format != "html":
            return
        for docname in app.env.found_docs - set(self.pages):  # pages of an earlier build
            app.env.get_and_resolve_doctree(docname, app.builder)
        text = json.dumps(self.content(app), ensure_ascii=False, separators=(",", ":"))
        file = Path(app.outdir, INDEX)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"window.bookIndex = {text};\n", encoding="utf-8")


def replace_sphinx_search(app: Sphinx) -> None:
    """Keep Sphinx from building its own index; :func:`search_page` adds the page."""
    if app.builder.format == "html":
        app.builder.search = False  # type: ignore[attr-defined]


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page for links with a query, ``search.html?q=…``."""
    yield ("search", {}, "search.html")
