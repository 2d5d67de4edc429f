"""The standalone form of a notebook, which needs neither the site nor the project.

It is the same in JupyterLab, VS Code, Colab and GitHub, and contains no directive or role of MyST.
Citations are links to the papers, terms are links to the glossary, hints are ``<details>``, and
solutions stand below a collapsed heading. The first code cell installs the package where it is
missing.
"""

import functools
import re

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import ROOT, citations, published

COLLAPSED = "jp-MarkdownHeadingCollapsed"
"""The metadata with which JupyterLab folds the cells below a heading."""
SETUP_ID = "setup"
INSTALL = """\
# The extra index has builds of PyTorch without CUDA, which are much smaller.
    %pip install --quiet --extra-index-url https://download.pytorch.org/whl/cpu git+{}"""
NOT_PUBLISHED = 'raise ModuleNotFoundError("install the package first: pip install FOLDER_OF_TFMR")'
SETUP = """\
# This notebook needs the book's package, which Colab, for example, does not have.
import importlib.util

if importlib.util.find_spec("tfmr") is None:
    {}
%load_ext tfmr.notebook"""

FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["remove-cell"]}

RAW = re.compile(
    r"^\s*(?:`{3,}|:{3,}|~{3,})\s*\{[^}]*\}.*$|\{[a-z][\w:+-]*\}`[^`]*`|^\([\w-]+\)=\s*$",
    re.MULTILINE,
)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
PAPER = re.compile(r"https://(?:arxiv\.org|doi\.org|dx\.doi\.org|aclanthology\.org)/")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
EXERCISE = re.compile(r"^### Exercise (\S+?):?(?:\s.*)?$", re.MULTILINE)
SOLUTION = re.compile(r"\A#### Solution of exercise (\S+)\Z")


def set_up(notebook: NotebookNode) -> None:
    """Make the setup cell the first code cell of ``notebook``, after the title."""
    cells = [cell for cell in notebook.cells if cell.get("id") != SETUP_ID]
    address = published("Repository")
    install = INSTALL.format(address) if address else NOT_PUBLISHED
    cell = new_code_cell(SETUP.format(install), id=SETUP_ID, metadata=FOLDED)
    after_title = bool(cells) and cells[0].cell_type == "markdown"
    notebook.cells = [*cells[:after_title], cell, *cells[after_title:]]


def fold_in_colab(notebook: NotebookNode) -> None:
    """Fold in Colab what JupyterLab folds: hidden code and the cells below headings of solutions.

    Colab has fields of its own and identifies a heading by the field ``id`` of the metadata.
    """
    folded = []
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["cellView"] = "form"
        if cell.metadata.get(COLLAPSED):
            cell.metadata["id"] = cell.id
            folded.append(cell.id)
    if folded:
        notebook.metadata["colab"] = {"collapsed_sections": folded}


def problems(notebook: NotebookNode) -> list[str]:
    """What is not standalone in ``notebook``, as one message each."""
    found, exercises, solutions = [], [], []
    own = anchors(notebook)
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            continue
        where = f"cell {number}"
        for raw in RAW.findall(cell.source):
            found.append(f"{where} has MyST markup, which only the site understands: {raw.strip()}")
        for text, address in LINK.findall(cell.source):
            found += [f"{where}: {problem}" for problem in link_problems(text, address, own)]
        exercises += EXERCISE.findall(cell.source)
        if solution := SOLUTION.match(cell.source):
            solutions.append(solution[1])
            if not cell.metadata.get(COLLAPSED):
                found.append(f"{where}: the heading of a solution needs the metadata {COLLAPSED}")
        elif "#### Solution" in cell.source:
            found.append(f"{where}: the heading of a solution must stand alone in its cell")
    if exercises != solutions:
        found.append(f"expected a solution for each of the exercises {exercises}, got {solutions}")
    numbers = [exercise.rpartition(".")[2] for exercise in exercises]
    if numbers != [str(k) for k in range(1, len(numbers) + 1)]:
        found.append(f"expected the exercises to be numbered from 1, got {exercises}")
    return found


def link_problems(text: str, address: str, own: frozenset[str]) -> list[str]:
    """What is wrong with a link to a paper or to a heading of the book.

    ``own`` are the anchors of the page that contains the link.
    """
    keys = {paper: key for key, paper in citations.addresses().items()}
    if key := keys.get(address):
        labels = [citations.label(key), citations.label(key, parenthetical=True)]
        if text not in labels:
            return [f"expected the link to {address} to be {' or '.join(labels)}, got {text}"]
    elif PAPER.match(address):
        return [f"{address} is not the address of an entry of book/references.bib"]
    page, _, anchor = address.partition("#")
    if "://" in address or not anchor:
        return []
    if page and not (ROOT / "book" / page).is_file():
        return [f"there is no file book/{page}"]
    if anchor not in (anchors_of(page) if page else own):
        return [f"{page or 'the chapter'} has no heading with the anchor {anchor}"]
    return []


def anchors(notebook: NotebookNode) -> frozenset[str]:
    """The anchors of the headings of ``notebook``, as GitHub and the site make them."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    headings = HEADING.findall("\n".join(texts))
    plain = (re.sub(r"\$[^$]*\$|\]\([^)]*\)", "", heading) for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in plain)


@functools.cache
def anchors_of(page: str) -> frozenset[str]:
    """The anchors of a page in the folder ``book``."""
    text = (ROOT / "book" / page).read_text("utf-8")
    if page.endswith(".ipynb"):
        return anchors(nbformat.reads(text, as_version=4))
    return anchors(new_notebook(cells=[new_markdown_cell(text)]))
