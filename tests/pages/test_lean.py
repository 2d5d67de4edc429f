"""What the site does to a page after Sphinx has written it."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sphinx.errors import ExtensionError

from tests.pages.conftest import SITE, page_names
from tools.site import icons, lean

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 400, 100)


@pytest.fixture
def site(tmp_path: Path) -> lean.Site:
    (tmp_path / "_static").mkdir()
    (tmp_path / "a.png").write_bytes(PICTURE)
    return lean.Site(tmp_path)


def rewrite(site: lean.Site, text: str, name: str = "page.html") -> str:
    return lean.Page(site, name).rewrite(text)


@pytest.mark.parametrize(
    "kept",
    [
        "<p>a &amp; b &#8212; c &lt; d</p>",
        '<script type="application/json">{"a": "<b style=\\"x\\">"}</script>',
        '<svg viewBox="0 0 1 1"><linearGradient id="g"></linearGradient></svg>',
        '<pre>if a &lt; b:\n    "x"  # style="y"</pre>',
        '<script defer src="_static/own.js"></script>',
        "<noscript><p>Without scripts.</p></noscript>",
    ],
)
def test_other_text_stays_as_it_is(site: lean.Site, kept: str) -> None:
    text = f"<!DOCTYPE html><html><body>{kept}</body></html>"
    assert rewrite(site, text) == text


def test_inline_code_is_moved_to_files(site: lean.Site) -> None:
    text = rewrite(
        site,
        '<style>p { margin: 0 }</style><p style="color: red;" onclick="f()">x</p>'
        '<p class="a" style="color: red">y</p><script>g();</script>',
        "api/page.html",
    )
    [(file, code)] = site.scripts.items()
    assert code == "g();"
    assert text == (
        f'<p class="style-0">x</p><p class="a style-0">y</p><script src="../{file}"></script>'
    )
    assert list(site.inline) == ["p { margin: 0 }"]
    assert site.styles == {"color: red": "style-0"}


def test_what_the_frame_replaces_is_dropped(site: lean.Site) -> None:
    dropped = (
        '<script src="_static/scripts/bootstrap.js?digest=1"></script>'
        '<script src="_static/doctools.js"></script>'
        '<script>var togglebuttonSelector = ".toggle";</script>'
        '<link rel="preload" as="script" href="_static/scripts/x.js"/>'
        '<link rel="stylesheet" href="_static/pygments.css?v=1"/>'
    )
    assert rewrite(site, dropped) == ""
    assert list(site.sheets) == ["_static/pygments.css"]
    assert "defer" in rewrite(site, '<script src="_static/other.js"></script>')


def test_a_page_starts_with_its_policy(site: lean.Site) -> None:
    text = rewrite(site, '<head><meta charset="utf-8"/></head>', "_modules/tfmr/a.html")
    assert text.index("Content-Security-Policy") < text.index("<script")
    assert 'src="../../_static/first.js"' in text


def test_pictures_have_their_size(site: lean.Site) -> None:
    first, second = '<img src="a.png"/>', '<img src="a.png" style="width: 200px;"/>'
    text = rewrite(site, first + second)
    assert '<img src="a.png" width="400" height="100"/>' in text
    assert '<img src="a.png" width="200" height="50" loading="lazy" decoding="async"/>' in text


def test_a_phone_gets_the_narrow_layout_of_a_figure(site: lean.Site) -> None:
    folder = site.out / "_static" / "narrow"
    folder.mkdir()
    Image.new("RGB", (2 * lean.NARROW_WIDTH, 400)).save(folder / "a.webp")
    text = rewrite(site, '<img alt="A chart." src="../a.png"/>', "book/page.html")
    assert text == (
        '<picture><source media="screen and (max-width: 640px)" '
        f'srcset="../_static/narrow/a.webp" width="{lean.NARROW_WIDTH}" height="200" />'
        '<img alt="A chart." src="../a.png" width="400" height="100"/></picture>'
    )
    (site.out / "b.png").write_bytes(PICTURE)
    assert "<picture>" not in rewrite(site, '<img src="b.png"/>')


def test_icons_are_drawings(site: lean.Site) -> None:
    text = rewrite(site, '<i class="theme-switch fa-solid fa-sun fa-lg" data-mode="light"></i>')
    assert text.startswith('<svg class="icon theme-switch" data-mode="light" viewBox="0 0 16 16"')
    assert text.endswith("</svg>")
    with pytest.raises(ExtensionError, match=r"expected an icon of .*got 'unicorn'"):
        icons.icon("unicorn")


def test_a_table_gets_a_frame(site: lean.Site) -> None:
    text = rewrite(site, '<table class="table"><tr><td>1</td></tr></table><table></table>')
    assert text == (
        '<div class="wide-table"><table class="table"><tr><td>1</td></tr></table></div>'
        "<table></table>"
    )


def test_parameters_are_no_list_without_terms(site: lean.Site) -> None:
    text = rewrite(site, '<dl><dt class="sig">f<dl><dd>x</dd></dl></dt><dd>Text.</dd></dl>')
    assert text == (
        '<dl><dt class="sig">f<span class="sig-parameters"><span class="sig-parameter">x</span>'
        "</span></dt><dd>Text.</dd></dl>"
    )


def test_the_style_sheet_has_the_rules_that_occur(site: lean.Site) -> None:
    (site.out / "_static" / "a").mkdir()
    (site.out / "_static" / "base.css").write_text(".base { background: url(x.svg) }")
    (site.out / "_static" / "a" / "one.css").write_text(
        '@import "../base.css"; @font-face { font-family: F; src: url("f.woff2") }'
        " .used { color: red; font-family: F } .unused { color: blue }"
        ' a[href*="terms.html#"] { color: tan } a[href*="other.html#"] { color: teal }'
    )
    rewrite(site, '<a href="terms.html#mask">mask</a><a href="other.html">other</a>')
    site.sheets["_static/a/one.css"] = None
    site.words.update(("used", "base"))
    site.style("top: 1px")
    site.words.add("style-0")
    css = site.css()
    assert "unused" not in css
    assert re.search(r'a\[href\*="?terms\.html#"?\]\{color:tan\}', css)
    assert "teal" not in css
    assert ".used{color:red" in css
    assert "url(x.svg)" in css
    assert "url(a/f.woff2)" in css or 'url("a/f.woff2")' in css
    assert ".style-0:not(#s){top:1px" in css


def test_no_page_needs_an_exception_from_the_policy() -> None:
    for name in page_names():
        text = (SITE / name).read_text("utf-8")
        site = lean.Site(SITE)
        again = lean.Page(site, name)
        again.rewrite(text)
        assert text.count(f'content="{lean.POLICY}"') == 1, name
        assert "unsafe" not in lean.POLICY
        assert not site.styles, f"{name} has style attributes"
        assert not site.inline, f"{name} has a style element"
        assert not site.scripts, f"{name} has an inline script"
        assert "onclick=" not in text, name


def test_a_corner_of_a_table_and_an_entry_of_the_bibliography_are_valid(site: lean.Site) -> None:
    row = '<tr><th class="head text-right"><p></p></th><th class="head"><p>a</p></th></tr>'
    assert rewrite(site, row) == '<tr><td></td><th class="head"><p>a</p></th></tr>'
    entry = '<div class="citation" role="doc-biblioentry"></div>'
    assert rewrite(site, entry) == '<div class="citation" role="listitem"></div>'


def test_a_picture_becomes_smaller_without_loss(site: lean.Site, tmp_path: Path) -> None:
    folder = tmp_path / "_images"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 4, (40, 60, 3), dtype=np.uint8) * 80
    Image.fromarray(pixels).save(folder / "a.png")
    picture = '<a class="image-reference" href="../_images/a.png"><img src="../_images/a.png"/></a>'
    text = rewrite(site, picture, "book/a.html")
    for address in ('href="../_images/a.webp"', 'src="../_images/a.webp"'):
        assert address in text
    assert np.array_equal(np.asarray(Image.open(folder / "a.webp")), pixels)
    assert site.compressed == {folder / "a.png"}
