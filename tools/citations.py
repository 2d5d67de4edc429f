"""The address and the label of every entry of ``book/references.bib``.

A chapter cites a paper with an ordinary link, ``[Elman (1990)](https://doi.org/…)``. Both parts of
the link follow from the entry, so the site and the check of the chapters read them here.
"""

import functools
from collections.abc import Sequence

from pybtex.database import Entry, Person, parse_file
from pybtex.richtext import Text

from tools import ROOT

BIBLIOGRAPHY = ROOT / "book" / "references.bib"
PREFIXES = {"url": "", "doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/"}
"""The fields that hold an address, in order of preference, and what precedes their value."""


@functools.cache
def entries() -> dict[str, Entry]:
    """The entries of the bibliography, by key, in the order of the file."""
    return dict(parse_file(BIBLIOGRAPHY, bib_format="bibtex").entries.items())


def address(entry: Entry) -> str:
    """The permanent address of ``entry``: its URL, or else its DOI, or else its arXiv page.

    Raises ``ValueError`` if the entry has none of them.
    """
    for field, prefix in PREFIXES.items():
        if field in entry.fields:
            return f"{prefix}{entry.fields[field]}"
    raise ValueError(f"{entry.key}: expected one of {', '.join(PREFIXES)}, found none")


def addresses() -> dict[str, str]:
    """The address of every entry, by key."""
    return {key: address(entry) for key, entry in entries().items()}


def names(authors: Sequence[Person]) -> str:
    """The last names of one or two ``authors``, or the first and *et al.*, without LaTeX."""
    last = [
        str(Text(" ").join([*author.rich_prelast_names, *author.rich_last_names]))
        for author in authors
    ]
    return f"{last[0]} et al." if len(last) > 2 else " and ".join(last)


def label(key: str, parenthetical: bool = False) -> str:
    """The text of a link to the entry ``key``: ``Elman (1990)``.

    With ``parenthetical`` it is ``Elman, 1990``, for a citation that already is in parentheses.
    Raises ``KeyError`` if the bibliography has no such entry.
    """
    entry = entries()[key]
    authors, year = names(entry.persons["author"]), entry.fields["year"]
    return f"{authors}, {year}" if parenthetical else f"{authors} ({year})"
