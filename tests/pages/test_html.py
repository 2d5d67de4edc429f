"""The HTML of the pages, their pictures, and their style sheet."""

import json
import re
import subprocess
from base64 import b64encode
from html import unescape
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from docutils import nodes
from docutils.utils import new_document
from PIL import Image

import tfmr
from tests.pages.conftest import SITE, page_names
from tests.pages.reference import TO_READ
from tfmr.special_tokens import SPECIAL
from tools import ROOT
from tools.site import figures, formulas, head, icons, styles

TEXTS = {name: (SITE / name).read_text("utf-8") for name in page_names()}
LAYOUT = (ROOT / "book/_templates/layout.html").read_text("utf-8")
SCRIPT = re.compile(r"<script(?![^>]* src=)(?![^>]*json)[^>]*>")


@pytest.fixture(params=TEXTS)
def text(request: pytest.FixtureRequest) -> str:
    """The HTML of a page, without the data of its figures."""
    return re.sub(r"(<script[^>]*json[^>]*>).*?</script>", r"\1", TEXTS[request.param])


def test_a_page_needs_no_exception_from_its_policy(text: str) -> None:
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy in LAYOUT
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "manifest-src" not in policy  # WebKit does not know it and would report it on every page
    tags = "".join(re.findall(r"<[a-zA-Z][^<>]*>", text))
    assert re.findall(r"\s(?:style|on\w+)=", tags) == []
    assert SCRIPT.findall(text) == []
    assert "<style" not in text


def test_no_button_and_no_link_is_dead(text: str) -> None:
    assert re.findall(r'<a [^>]*href="(?:|None)"[^>]*>', text) == []


def test_a_page_has_a_head_a_title_the_contents_of_the_book_and_its_version(text: str) -> None:
    start, _, body = text.partition("</head>")
    [title] = re.findall(r"<title>([^<]*)</title>", start)
    assert title.count("The Executable Transformer") == 1
    [description] = re.findall(r'<meta name="description" content="([^"]*)"', start)
    assert 10 < len(unescape(description)) <= 220
    assert re.search(r'<link rel="icon" href="[^"]*favicon\.svg\?v=\w{8}"', start)
    assert '<html lang="en"' in start
    assert "<h1" in body
    sidebar = body.partition('id="pst-primary-sidebar"')[2].partition("<main")[0]
    assert sidebar.count('class="reference internal"') > 10
    [edition] = re.findall(r'<p class="edition">([^<]*)</p>', body)
    assert edition.startswith(f"Version {tfmr.__version__}")


def test_the_edition_has_the_date_and_the_name_of_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-03-02T08:30:00+0900")

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    version = f"Version {tfmr.__version__}"
    assert head.edition(tmp_path) == version
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Begin")
    name = git("rev-parse", "--short=10", "HEAD")
    for zone in ("Asia/Seoul", "America/Lima"):
        monkeypatch.setenv("TZ", zone)
        head.last_commit.cache_clear()
        assert head.last_commit(tmp_path) == ("2026-03-01T23:30:00Z", name)
    assert head.edition(tmp_path) == f"{version} of 2026-03-01, commit {name}"


def test_a_page_to_read_has_contents_and_leads_to_its_neighbours() -> None:
    ends = "index.html", max(name for name in TEXTS if name.startswith("api/"))
    for name in TO_READ:
        body = TEXTS[name].partition("</head>")[2]
        contents = body.partition('id="pst-page-toc-nav"')[2].partition("</nav>")[0]
        assert "<a " in contents, name
        links = body.partition('class="prev-next-area"')[2].partition("</footer>")[0]
        assert links.count("<a ") == (1 if name in ends else 2), name


def test_a_page_loads_its_files_once_and_in_order(text: str) -> None:
    address = re.compile(r' (?:src|href)="[^"]*_static/([\w/]+\.(?:js|css))\?v=\w{8}"')
    names = address.findall(text)
    answers = ["answers.js"] if '<form class="answer ' in text else []
    live = ["live/host.js"] if 'class="live-figure"' in text else []
    assert names == ["first.js", "site.css", "frame.js", "search/open.js", *answers, *live]


def test_the_html_of_a_page_is_valid_where_sphinx_writes_it_otherwise(text: str) -> None:
    assert "doc-biblioentry" not in text
    assert re.findall(r"<th[^>]*>\s*(?:<p>\s*</p>)?\s*</th>", text) == [], "a header without text"
    for term in re.findall(r'<dt class="sig .*?</dt>', text, re.DOTALL):
        assert "<dl" not in term
        assert "<dd" not in term


def test_a_special_token_is_text(text: str) -> None:
    assert [token for token in SPECIAL if token in text] == []


def test_a_picture_has_its_size_and_those_further_down_come_later(text: str) -> None:
    article = text.partition("<article")[2].partition("</article>")[0]
    pictures = re.findall(r"<img [^>]*>", article)
    for number, picture in enumerate(pictures):
        assert re.search(r' width="\d+" height="\d+"', picture)
        assert ".png" not in picture
        assert number == 0 or 'loading="lazy"' in picture


def test_the_site_has_no_files_of_the_theme() -> None:
    folders = {path.name for path in (SITE / "_static").iterdir() if path.is_dir()}
    assert folders == {
        *("fonts", "icons", "katex", "live", "minisearch"),
        *("models", "narrow", "search", "thumbnails", "widgets"),
    }


def test_the_rules_of_a_style_sheet_that_occur_stay() -> None:
    css = styles.used(
        """.used { color: red } .unused { color: blue }
        a[href*="terms.html#"] { color: tan } a[href*="other.html#"] { color: teal }""",
        {"used", "a", "href", "terms.html#"},
    )
    assert ".used{color:red" in css
    assert "unused" not in css
    assert re.search(r'a\[href\*="?terms\.html#"?\]\{color:tan\}', css)
    assert "teal" not in css


def test_names_come_from_the_tags_of_pages_and_from_scripts(tmp_path: Path) -> None:
    (tmp_path / "_static" / "search").mkdir(parents=True)
    (tmp_path / "page.html").write_text('<p class="one two"><a href="x.html#y">a word</a>')
    (tmp_path / "_static" / "frame.js").write_text('add("three")')
    (tmp_path / "_static" / "search" / "open.js").write_text('"four"')
    found = styles.names(tmp_path)
    assert {"one", "two", "three", "four", "p", "class", "x.html#"} <= found
    assert "word" not in found


def test_the_address_of_the_style_sheet_changes_with_its_sources(tmp_path: Path) -> None:
    (tmp_path / "book" / "_style").mkdir(parents=True)
    part = tmp_path / "book" / "_style" / "1.css"
    found = []
    for text in ("a", "b"):
        part.write_text(text)
        styles.version.cache_clear()
        found.append(styles.version(tmp_path))
    assert found[0] != found[1]
    assert len({re.findall(r"site\.css\?v=(\w+)", text)[0] for text in TEXTS.values()}) == 1


def test_the_style_sheet_needs_its_parts(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="_style"):
        list(styles.book_sheets(tmp_path))


def test_a_style_in_a_formula_becomes_a_class() -> None:
    rules: dict[str, str] = {}
    html = '<i class="a" style="top:1em;"><b style="top:1em"></b><b style="left:2em;" id="c"></b>'
    assert formulas.without_styles(html, rules) == (
        '<i class="math-0 a"><b class="math-0"></b><b id="c" class="math-1"></b>'
    )
    assert rules == {"top:1em": "math-0", "left:2em": "math-1"}
    assert styles.rules_of(rules) == ".math-0:not(#s){top:1em}\n.math-1:not(#s){left:2em}"


def test_an_icon_is_a_drawing() -> None:
    text = icons.icon("sun", "theme-switch", "light")
    assert text.startswith('<svg class="icon theme-switch" data-mode="light" viewBox="0 0 16 16"')
    assert text.endswith("</svg>")
    assert icons.icon("list").startswith('<svg class="icon" viewBox')


def png(width: int, height: int) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 4, (height, width, 3), dtype=np.uint8) * 80
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_a_picture_becomes_smaller_without_loss(tmp_path: Path) -> None:
    picture, narrow = png(60, 40), png(80, 100)
    metadata = {figures.PNG: {"width": 30, "narrow": b64encode(narrow).decode()}}
    output = {"data": {figures.PNG: b64encode(picture).decode()}, "metadata": metadata}
    (tmp_path / "page.ipynb").write_text(json.dumps({"cells": [{"outputs": [output]}]}))
    [(name, _)] = figures.narrow_layouts({"cells": [{"outputs": [output]}]})
    (tmp_path / f"{name}.png").write_bytes(picture)
    document = new_document("page")
    document += [nodes.image(uri=f"/{name}.png", width="30"), nodes.image(uri="/map.svg")]
    env: Any = SimpleNamespace(
        docname="page",
        srcdir=tmp_path,
        app=SimpleNamespace(outdir=tmp_path),
        doc2path=lambda docname: tmp_path / f"{docname}.ipynb",
    )
    figures.compress_pictures(document, env)
    image, drawing = document
    assert (image["uri"], image["width"], image["height"]) == (f"/{name}.webp", "30", "20")
    assert image["narrow"] == str(round(figures.NARROW_WIDTH * 100 / 80))
    assert drawing["uri"] == "/map.svg"
    pairs = {picture: tmp_path, narrow: tmp_path / figures.NARROW}
    for content, folder in pairs.items():
        with Image.open(folder / f"{name}.webp") as made, Image.open(BytesIO(content)) as given:
            assert np.array_equal(np.asarray(made), np.asarray(given))
