"""The site: the pages of the book, built from the chapters.

``tools.site.steps`` lists everything that is done to a page, in order. ``python -m tools.site
build`` builds the site, ``python -m tools.site serve`` serves it on this machine.
"""

from pathlib import Path

from tools import ROOT, published

SITE = ROOT / "site"
LANGUAGE = "en"


def published_pages(root: Path = ROOT) -> str:
    """The address of the published pages; empty if the project is not published."""
    address = published("Documentation", root)
    return f"{address.rstrip('/')}/{LANGUAGE}" if address else ""


class SiteError(RuntimeError):
    """The site could not be built or served; the message states what to do."""
