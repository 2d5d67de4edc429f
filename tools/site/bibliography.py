"""Citations: on the site, a link to a paper leads to its entry in the bibliography."""

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools import citations

BIBLIOGRAPHY = "book/bibliography"


def link_citations(document: nodes.document, env: BuildEnvironment) -> None:
    """Replace every link to a paper, outside the bibliography, by a link to its entry."""
    keys = {address: key for key, address in citations.addresses().items()}
    for link in list(document.findall(nodes.reference)):
        key = keys.get(link.get("refuri", ""))
        if key and env.docname != BIBLIOGRAPHY:
            reference = addnodes.pending_xref(
                refdoc=env.docname,
                refdomain="doc",
                reftype="myst",
                reftarget=BIBLIOGRAPHY,
                reftargetid=nodes.make_id(key),
                refexplicit=True,
            )
            reference += nodes.inline("", "", *link.children, classes=["citation"])
            link.replace_self(reference)


def add_anchors(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Let links lead to the entries of the bibliography."""
    if BIBLIOGRAPHY in env.all_docs:
        slugs = env.metadata[BIBLIOGRAPHY].setdefault("myst_slugs", {})
        for key in citations.addresses():
            name = nodes.make_id(key)
            slugs[name] = (1, name, key)
    return []
