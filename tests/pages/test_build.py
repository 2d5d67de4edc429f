"""The build, on a book of two pages: red when it should be, and without dead buttons."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser

from tests.pages import live
from tests.pages.conftest import OVERFLOW, PATIENCE
from tools import ROOT
from tools.site import SiteError, build

CHAPTER, FIGURE = "04-self-attention", "04-figure"
EXERCISES = """
See [Elman (1990)](https://doi.org/10.1207/s15516709cog1402_1) on the
[softmax](glossary.md#softmax).

## Exercises

### Exercise 4.1

Do this.

<details>
<summary>Hint</summary>

A *hint*.

</details>

#### Solution of exercise 4.1

It is done.

### Exercise 4.2

After the [first exercise](#exercise-41), do that.
"""
GLOSSARY = "# Glossary\n\n## S\n\n### softmax\n\nA function.\n"
REPOSITORY = "https://github.com/owner/name"
ADDRESS = "https://owner.github.io/name/"
SHARED = {
    "link[rel=canonical]": "href",
    "meta[property='og:image']": "content",
    "meta[property='og:title']": "content",
    "meta[property='og:description']": "content",
}
"""What search engines and messengers read, and the attribute that has it."""


def notebook(text: str) -> str:
    cell = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def with_first_figure(stored: str) -> str:
    """A notebook with the first live figure of a stored chapter and nothing else."""
    whole = json.loads(stored)
    outputs = [out for cell in whole["cells"] for out in cell.get("outputs", ())]
    output = next(out for out in outputs if live.VIEW in out.get("data", {}))
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# A figure\n\nA page."},
        {"cell_type": "code", "id": "b", "metadata": {}, "source": "1", "outputs": [output],
         "execution_count": output["execution_count"]},
    ]  # fmt: skip
    names = ("widgets", "language_info")
    metadata = {name: whole["metadata"][name] for name in names}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book with the real configuration, extensions and styles, and five pages."""
    root = tmp_path / "project"
    for name in ("_assets", "_style", "_templates", "vendor"):
        shutil.copytree(ROOT / "book" / name, root / "book" / name)
    shutil.copyfile(ROOT / "_config.yml", root / "_config.yml")
    for name in ("references.bib", "bibliography.md"):
        shutil.copyfile(ROOT / "book" / name, root / "book" / name)
    (root / "book" / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    (root / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    pages = [{"file": f"book/{name}"} for name in (CHAPTER, FIGURE, "glossary", "bibliography")]
    toc = {"format": "jb-book", "root": "book/index", "chapters": pages}
    (root / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    (root / "book" / "index.md").write_text(
        f"# A book\n\nSee []({CHAPTER}.ipynb).\n\n```{{translator}}\n```\n",
        encoding="utf-8",
    )
    stored = (ROOT / "book" / f"{CHAPTER}.ipynb").read_text("utf-8")
    (root / "book" / f"{FIGURE}.ipynb").write_text(with_first_figure(stored), "utf-8")
    (root / "book" / f"{CHAPTER}.ipynb").write_text(
        notebook(f"# Self-attention\n\nA page.\n{EXERCISES}"), encoding="utf-8"
    )
    return root


def parsed(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")


def test_a_published_book(book: Path, tmp_path: Path, chromium: Browser) -> None:
    urls = f'[project.urls]\nRepository = "{REPOSITORY}"\nDocumentation = "{ADDRESS}"\n'
    (book / "pyproject.toml").write_text(f"[project]\n{urls}", encoding="utf-8")
    site = tmp_path / "site"
    pages = build.build(book, site)
    assert sorted(path.name for path in site.iterdir()) == [
        *(".nojekyll", "404.html", "en", "index.html")
    ]
    # The marks of the steps.
    text = (pages / f"{CHAPTER}.html").read_text(encoding="utf-8")
    assert "<title>4 Self-attention" in text
    assert text.count('<section class="exercise"') == 2
    assert '<details class="solution" id="solution-of-exercise-4-1"><summary>' in text
    assert re.search(r"<summary>Hint</summary>\s*<p>A <em>hint</em>", text)
    assert 'href="glossary.html#softmax"' in text
    assert 'href="bibliography.html#elman1990finding"' in text
    assert parsed(pages / "bibliography.html").find(id="elman1990finding")
    cover = parsed(pages / "index.html")
    assert ">Chapter 4</span></a>" in str(cover)
    # Live figures, from the disk, also on a page without a notebook.
    assert "host.js" not in (pages / "glossary.html").read_text("utf-8")
    page = chromium.new_page(viewport={"width": 320, "height": 640})
    for name in ("index", FIGURE):
        page.goto((pages / f"{name}.html").as_uri())
        page.locator(".live").wait_for(timeout=PATIENCE)
        assert page.locator("script[src*='host.js?']").count() == 1
    # Buttons.
    file = f"book/{CHAPTER}.ipynb"
    assert f"https://colab.research.google.com/github/owner/name/blob/main/{file}" in text
    assert f"https://mybinder.org/v2/gh/owner/name/main?urlpath=lab/tree/{file}" in text
    assert "colab" not in str(cover)
    for path in pages.glob("*.html"):
        [link] = parsed(path).select(".bd-header-article a.btn-source-repository-button")
        assert link["href"] == REPOSITORY
    page.goto((pages / f"{CHAPTER}.html").as_uri())
    assert page.evaluate(OVERFLOW) == [], "the header has too many buttons"
    page.close()
    # The page at the address of the site leads to the cover, which messengers display.
    front = parsed(site / "index.html")
    for selector, name in SHARED.items():
        [own], [other] = front.select(selector), cover.select(selector)
        assert own[name]
        if "title" not in selector and "description" not in selector:
            assert own[name] == other[name]
    assert front.select("link[rel=canonical]")[0]["href"] == f"{ADDRESS}en/index.html"
    picture = str(front.select("meta[property='og:image']")[0]["content"])
    assert (site / picture.removeprefix(ADDRESS)).is_file()


WARNINGS = {
    "See [](05-multi-head-attention.ipynb).": "05-multi-head-attention.ipynb",
    "See {ref}`nowhere`.": "nowhere",
    "```{thumbnail} 01-none\n```": "01-none",
    f"```{{thumbnail}} {CHAPTER}\n```": "0 pictures",
    "See [it](glossary.md#nothing).": "nothing",
    "See [there](#no-such-place).": "no-such-place",
    "See {cite}`nobody2000`.": "nobody2000",
    "See {py:class}`tfmr.Nothing`.": "tfmr.Nothing",
    "See {nothing}`it`.": 'role "nothing"',
    "```{nothing}\n```": "directive type: 'nothing'",
    "#### Too deep": "H1 to H4",
}
"""What is wrong in a page, and a part of the warning about it."""


def test_every_kind_of_mistake_turns_the_build_red_and_leaves_the_site_alone(
    book: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "site" / "en" / "old.html"
    old.parent.mkdir(parents=True)
    old.touch()
    text = notebook("\n\n".join(["# Self-attention", *WARNINGS]))
    (book / "book" / f"{CHAPTER}.ipynb").write_text(text, encoding="utf-8")
    with pytest.raises(SiteError, match="not changed"):
        build.build(book, tmp_path / "site")
    assert list((tmp_path / "site").rglob("*")) == [old.parent, old]
    printed = capfd.readouterr().err.splitlines()
    lines = [line for line in printed if "WARNING" in line or "ERROR" in line]
    assert len(lines) == len(WARNINGS), lines
    for named in WARNINGS.values():
        assert any(named in line for line in lines), named
