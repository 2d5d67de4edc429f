"""The site: the pages of the book, built from the chapters.

``tools.site.steps`` lists everything that is done to a page, in order. ``python -m tools.site
build`` builds the site, ``python -m tools.site serve`` serves it on this machine.
"""

from tools import ROOT

SITE = ROOT / "site"
LANGUAGE = "en"


class SiteError(RuntimeError):
    """The site could not be built or served; the message states what to do."""
