"""Page addresses without the folder: ``book/02-gates`` is published as ``02-gates.html``."""

from typing import Any

from sphinx.builders.html import StandaloneHTMLBuilder

FOLDER = "book/"


class BookBuilder(StandaloneHTMLBuilder):
    """Sphinx's HTML builder, with the chapters at the root of the site."""

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """The address of a page below the root of the site."""
        return super().get_target_uri(docname.removeprefix(FOLDER), typ)

    def get_outfilename(self, pagename: str) -> Any:
        """The file of a page."""
        return super().get_outfilename(pagename.removeprefix(FOLDER))
