"""The map is valid SVG, links to the chapters, and highlights the parts of one chapter."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tfmr
from tfmr.errors import TfmrError
from tfmr.figures import map as drawing
from tfmr.figures.palette import DECODER, ENCODER, INK, PAGE, rgb
from tfmr.figures.style import CONTRAST, contrast

BOOK = Path(tfmr.__file__).parent.parent / "book"
SVG = "{http://www.w3.org/2000/svg}"


def links(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(f"{SVG}a"))


def test_every_part_links_to_a_chapter_of_the_book() -> None:
    found = links(drawing.architecture_map().svg)
    assert [link.get("href") for link in found] == [part.file for part in drawing.PARTS]
    assert {part.chapter for part in drawing.PARTS} >= set(range(4, 11))
    for chapter, file in drawing.CHAPTERS.items():
        assert file.startswith(f"{chapter:02}-")
        assert (BOOK / file).is_file()


def test_every_part_shows_its_name_and_its_chapter() -> None:
    for part, link in zip(drawing.PARTS, links(drawing.architecture_map().svg), strict=True):
        title, *texts = [e.text or "" for e in link if e.tag in (f"{SVG}title", f"{SVG}text")]
        assert title.lower() == f"{part.name}: chapter {part.chapter}".lower()
        assert " ".join(texts).lower() == f"{part.name} {part.chapter}".lower()


@pytest.mark.parametrize("chapter", drawing.CHAPTERS)
def test_the_highlight_changes_exactly_the_parts_of_the_chapter(chapter: int) -> None:
    pale, strong = drawing.architecture_map(), drawing.architecture_map(chapter)
    before, after = (list(map(ET.tostring, links(figure.svg))) for figure in (pale, strong))
    changed = [part for part, a, b in zip(drawing.PARTS, before, after, strict=True) if a != b]
    assert changed == [part for part in drawing.PARTS if part.chapter == chapter]
    assert [b.replace(b' on"', b'"') for b in after] == before
    highlighted = strong.alt.removeprefix(pale.alt)
    assert highlighted.startswith(f" Highlighted, chapter {chapter}: ")
    named = set(highlighted.partition(": ")[2].removesuffix(".").split(", "))
    assert named == {part.name for part in changed}


def test_a_chapter_without_parts_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"4 to 12.*got 13"):
        drawing.architecture_map(13)


def test_alternative_text() -> None:
    figure = drawing.architecture_map(7)
    root = ET.fromstring(figure.svg)
    assert repr(figure) == figure.alt == root.get("aria-label")
    assert root.get("role") == "img"
    for part in drawing.PARTS:
        assert f"{part.name} ({part.chapter})" in figure.alt
    assert set(re.findall(r"(\w+) block", figure.alt)) == {"encoder", "decoder"}


def test_residual_connections_and_the_encoder_output_have_their_colours() -> None:
    style = drawing.architecture_map().svg
    assert f".residual {{ color: {INK} }}" in style
    assert f".memory {{ color: {ENCODER};" in style


def rules(svg: str) -> dict[str, dict[str, str]]:
    """The declarations of each selector of the style of a map."""
    return {
        selector.strip(): dict(re.findall(r"([\w-]+): ([^;}]+?)\s*(?=[;}]|$)", body))
        for selector, body in re.findall(r"([^{}]+)\{([^}]*)\}", svg.partition("</style>")[0])
    }


def test_parts_have_the_hue_of_their_side() -> None:
    for part, link in zip(drawing.PARTS, links(drawing.architecture_map().svg), strict=True):
        assert link.get("class") == part.side
    found = rules(drawing.architecture_map().svg)
    for side, hue in (("encoder", ENCODER), ("decoder", DECODER)):
        pale = found[f".tfmr-map .{side} rect"]["fill"]
        for own, page, mixed in zip(rgb(hue), rgb(PAGE), rgb(pale), strict=True):
            assert mixed == pytest.approx(page + 0.16 * (own - page), abs=0.003)


@pytest.mark.parametrize("side", ["encoder", "decoder", "output"])
def test_the_highlight_is_dark_and_its_text_is_legible(side: str) -> None:
    found = rules(drawing.architecture_map().svg)
    pale, strong = (found[f".tfmr-map .{side}{state} rect"] for state in ("", ".on"))
    assert contrast(strong["fill"], pale["fill"]) >= 3
    assert strong["fill"] == strong["stroke"] == found[f".tfmr-map .{side}.on .number"]["fill"]
    assert float(strong["stroke-width"]) >= 3
    assert contrast(found[".tfmr-map .on text"]["fill"], strong["fill"]) >= CONTRAST
    assert contrast(INK, pale["fill"]) >= CONTRAST


def test_svg_is_small_reproducible_and_scales() -> None:
    first, second = (drawing.architecture_map(5)._repr_svg_() for _ in range(2))
    assert first == second
    assert len(first.encode()) < 15_000
    root = ET.fromstring(first)
    assert root.get("viewBox") == " ".join(map(str, drawing.VIEW))
    assert root.get("height") is None
    sizes = [int(size) for size in re.findall(r"(\d+)px", first)]
    assert min(sizes) * 360 / drawing.VIEW[2] >= 11


def test_every_arrow_ends_at_a_part() -> None:
    def at_edge(x: int, y: int, part: drawing.Part) -> bool:
        left, top, width, height = part.place
        inside = left <= x <= left + width and top <= y <= top + height
        return inside and (x in (left, left + width) or y in (top, top + height))

    for *_, end in (*drawing.ARROWS, *drawing.RESIDUALS):
        assert any(at_edge(*end, part) for part in drawing.PARTS)


def test_parts_are_inside_the_drawing() -> None:
    left, top, width, height = drawing.VIEW
    for part in drawing.PARTS:
        x, y, part_width, part_height = part.place
        assert left <= x < x + part_width <= left + width
        assert top <= y < y + part_height <= top + height


def test_map_links_lists_every_part_once_under_its_chapter() -> None:
    listed = {}
    for line in drawing.map_links().splitlines():
        found = re.fullmatch(r"- \[Chapter (\d+)\]\(([^)]+)\): (.+)", line)
        assert found
        listed[int(found[1])] = found[3].split(", ")
        assert found[2] == drawing.CHAPTERS[int(found[1])]
    assert list(listed) == list(drawing.CHAPTERS)
    for chapter, names in listed.items():
        assert sorted(names) == sorted({b.name for b in drawing.PARTS if b.chapter == chapter})
