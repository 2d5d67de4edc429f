"""The map: the whole Transformer in one drawing, with the chapter that explains each part.

The drawing is SVG: it scales to every screen, its text can be selected, and its parts are links.
Where a program shows the SVG as an image, its links do not work; :func:`map_links` has the same
links as Markdown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from tfmr.errors import require
from tfmr.figures.palette import DECODER, ENCODER, INK, MUTED, PAGE, rgb

CHAPTERS = {
    4: "04-self-attention.ipynb",
    5: "05-multi-head-attention.ipynb",
    6: "06-position.ipynb",
    7: "07-add-norm-feed-forward.ipynb",
    8: "08-encoder.ipynb",
    9: "09-decoder.ipynb",
    10: "10-transformer.ipynb",
    11: "11-training.ipynb",
    12: "12-decoding.ipynb",
}
"""The notebook of each chapter on the map."""

VIEW = (-8, 0, 414, 604)
"""Left edge, top edge, width and height: text of size 14 has 12 pixels on a narrow phone."""
SHOWN_WIDTH = 440
"""Width in pixels where there is space for it."""

Point = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """One box on the map.

    ``place`` is its left edge, top edge, width and height. A ``frame`` contains other parts, so
    its name stands at its top.
    """

    name: str
    chapter: int
    side: str
    place: tuple[int, int, int, int]
    frame: bool = False

    @property
    def file(self) -> str:
        """The notebook of the chapter, as a path relative to the other chapters."""
        return CHAPTERS[self.chapter]


PARTS: Sequence[Part] = (
    Part("embedding", 10, "encoder", (4, 525, 174, 26)),
    Part("positional encoding", 6, "encoder", (4, 487, 174, 26)),
    Part("N × encoder block", 8, "encoder", (4, 251, 174, 224), frame=True),
    Part("multi-head", 5, "encoder", (22, 399, 152, 56), frame=True),
    Part("self-attention", 4, "encoder", (25, 424, 146, 26)),
    Part("add & norm", 7, "encoder", (22, 364, 152, 26)),
    Part("feed-forward", 7, "encoder", (22, 318, 152, 26)),
    Part("add & norm", 7, "encoder", (22, 283, 152, 26)),
    Part("embedding", 10, "decoder", (212, 525, 174, 26)),
    Part("positional encoding", 6, "decoder", (212, 487, 174, 26)),
    Part("N × decoder block", 9, "decoder", (212, 124, 174, 351), frame=True),
    Part("multi-head", 5, "decoder", (216, 383, 152, 72), frame=True),
    Part("masked self-attention", 4, "decoder", (219, 408, 146, 42)),
    Part("add & norm", 7, "decoder", (216, 348, 152, 26)),
    Part("multi-head", 5, "decoder", (216, 272, 152, 56), frame=True),
    Part("cross-attention", 9, "decoder", (219, 297, 146, 26)),
    Part("add & norm", 7, "decoder", (216, 237, 152, 26)),
    Part("feed-forward", 7, "decoder", (216, 191, 152, 26)),
    Part("add & norm", 7, "decoder", (216, 156, 152, 26)),
    Part("output projection", 10, "output", (212, 86, 174, 26)),
    Part("softmax", 10, "output", (212, 48, 174, 26)),
    Part("loss", 11, "output", (4, 48, 174, 26)),
    Part("decoding", 12, "output", (212, 10, 174, 26)),
)
"""All parts of the map, in the order in which data pass through them."""

ARROWS: Sequence[Sequence[Point]] = (
    # the encoder
    ((91, 562), (91, 551)),
    ((91, 525), (91, 513)),
    ((98, 487), (98, 455)),
    ((98, 399), (98, 390)),
    ((98, 364), (98, 344)),
    ((98, 318), (98, 309)),
    # the decoder and the output
    ((299, 562), (299, 551)),
    ((299, 525), (299, 513)),
    ((292, 487), (292, 455)),
    ((292, 383), (292, 374)),
    ((292, 348), (292, 328)),
    ((292, 272), (292, 263)),
    ((292, 237), (292, 217)),
    ((292, 191), (292, 182)),
    ((299, 124), (299, 112)),
    ((299, 86), (299, 74)),
    ((299, 48), (299, 36)),
    ((212, 61), (178, 61)),
    ((91, 87), (91, 74)),
)
RESIDUALS: Sequence[Sequence[Point]] = (
    ((98, 465), (12, 465), (12, 377), (22, 377)),
    ((98, 354), (12, 354), (12, 296), (22, 296)),
    ((292, 465), (378, 465), (378, 361), (368, 361)),
    ((292, 338), (378, 338), (378, 250), (368, 250)),
    ((292, 227), (378, 227), (378, 169), (368, 169)),
)
MEMORY: Sequence[Point] = ((91, 251), (91, 238), (200, 238), (200, 310), (216, 310))
GENERATED: Sequence[Point] = ((386, 23), (396, 23), (396, 572), (352, 572))
TIED: Sequence[Sequence[Point]] = (((212, 99), (187, 99), (187, 538)), ((178, 538), (212, 538)))

LABELS: Sequence[tuple[int, int, str, str]] = (
    (91, 577, "middle", "source tokens"),
    (299, 577, "middle", "target tokens,"),
    (299, 593, "middle", "shifted right"),
    (91, 101, "middle", "target tokens"),
    (181, 160, "end", "same matrix"),
    (181, 230, "end", "encoder output"),
    (4, 22, "start", "A number in a circle"),
    (4, 38, "start", "is a chapter."),
)

HUES = {"encoder": ENCODER, "decoder": DECODER, "output": MUTED}
"""The hue of the parts of each side, as in the live figure of the architecture."""


def _tint(colour: str, share: int | float) -> str:
    """A ``share`` of the ``colour`` on the page."""
    mixed = (page + share * (own - page) for own, page in zip(rgb(colour), rgb(PAGE), strict=True))
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)


def _side(name: str, hue: str) -> str:
    """The style of the parts of one side: pale, and in the full hue where they are highlighted."""
    return f"""
.tfmr-map .{name} circle {{ stroke: {_tint(hue, 0.6)} }}
.tfmr-map .{name} rect {{ fill: {_tint(hue, 0.16)}; stroke: {_tint(hue, 0.6)} }}
.tfmr-map .{name} .frame {{ fill: {_tint(hue, 0.05)} }}
.tfmr-map .{name}.on rect {{ fill: {hue}; stroke: {hue}; stroke-width: 3 }}
.tfmr-map .{name}.on .frame {{ fill: {_tint(hue, 0.16)} }}
.tfmr-map .{name}.on .number {{ fill: {hue} }}"""


STYLE = f"""
.tfmr-map text {{ font: 14px sans-serif; fill: {INK} }}
.tfmr-map path {{ color: {MUTED}; fill: none; stroke: currentColor; stroke-width: 1.5 }}
.tfmr-map .residual {{ color: {INK} }}
.tfmr-map .memory {{ color: {ENCODER}; stroke-width: 2 }}
.tfmr-map .tied {{ color: {INK}; stroke-dasharray: 2 3 }}
.tfmr-map .generated {{ stroke-dasharray: 6 4 }}
.tfmr-map .head {{ fill: currentColor; stroke-dasharray: none }}
.tfmr-map circle {{ fill: #fff }}
.tfmr-map .number {{ font-size: 13px; font-weight: bold; text-anchor: middle }}
.tfmr-map .on text {{ fill: #fff }}{"".join(_side(name, hue) for name, hue in HUES.items())}
.tfmr-map a[href]:focus rect, .tfmr-map a[href]:hover rect {{ stroke: {INK}; stroke-width: 2 }}
"""


class SvgFigure:
    """A figure that a notebook displays as SVG, with an alternative text.

    As in :class:`tfmr.figures.style.Figure`, ``alt`` is the ``repr``, which the verification
    compares and the page uses as the alternative text.
    """

    def __init__(self, svg: str, alt: str) -> None:
        self.svg = svg
        self.alt = alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_svg_(self) -> str:
        return self.svg


def architecture_map(chapter: int | None = None) -> SvgFigure:
    """The whole Transformer, with a link from each part to the chapter that explains it.

    Args:
        chapter: the chapter whose parts are highlighted; none if omitted.

    Raises:
        TfmrError: if the map has no part of ``chapter``.
    """
    require(
        chapter is None or chapter in CHAPTERS,
        f"expected a chapter on the map, {min(CHAPTERS)} to {max(CHAPTERS)}: got {chapter}",
    )
    alt = _alternative_text(chapter)
    parts = [_drawn(part, part.chapter == chapter) for part in PARTS]
    labels = [
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in LABELS
    ]
    lines = [
        *map(_arrow, ARROWS),
        *(_arrow(points, "residual") for points in RESIDUALS),
        _arrow(MEMORY, "memory"),
        _arrow(GENERATED, "generated"),
        *(f'<path class="tied" d="{_path(points)}"/>' for points in TIED),
    ]
    left, top, width, height = VIEW
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tfmr-map" width="{SHOWN_WIDTH}"'
        f' viewBox="{left} {top} {width} {height}" style="max-width: 100%" role="img"'
        f' aria-label="{escape(alt)}">',
        "<title>Map of the Transformer</title>",
        f"<style>{STYLE}</style>",
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="8" fill="#fff"/>',
        *parts,
        *lines,
        *labels,
        "</svg>",
    ]
    return SvgFigure("\n".join(svg), alt)


def map_links() -> str:
    """The links of the map as a Markdown list: each chapter, and its parts."""
    parts: dict[int, list[str]] = {chapter: [] for chapter in CHAPTERS}
    for part in PARTS:
        if part.name not in parts[part.chapter]:
            parts[part.chapter].append(part.name)
    return "\n".join(
        f"- [Chapter {chapter}]({CHAPTERS[chapter]}): {', '.join(names)}"
        for chapter, names in parts.items()
    )


def _alternative_text(chapter: int | None) -> str:
    """All parts with their chapters, the connections between them, and the highlighted parts."""

    def listed(side: str) -> str:
        return ", ".join(f"{b.name} ({b.chapter})" for b in PARTS if b.side == side)

    text = (
        "Map of the Transformer, from bottom to top, with the number of the chapter that explains"
        f" each part. Encoder, from the source tokens: {listed('encoder')}. Decoder, from the"
        f" target tokens, shifted right: {listed('decoder')}. Output: {listed('output')}. The"
        " encoder output is an input of cross-attention. Both embeddings and the output projection"
        " share one matrix. The loss compares the softmax with the target tokens; decoding"
        " appends the generated token to the target tokens."
    )
    if chapter is None:
        return text
    names = dict.fromkeys(part.name for part in PARTS if part.chapter == chapter)
    return f"{text} Highlighted, chapter {chapter}: {', '.join(names)}."


def _drawn(part: Part, highlighted: bool) -> str:
    """The part as a link: its rectangle, its name, and its chapter in a circle."""
    left, top, width, height = part.place
    row = 25 if part.frame else height
    middle = top + row / 2
    name = part.name[0].upper() + part.name[1:]
    lines = wrap(name, 19, break_on_hyphens=False)
    first = middle + 4.5 - 8 * (len(lines) - 1)
    shapes = [f'<rect x="{left}" y="{top}" width="{width}" height="{row}" rx="5"/>']
    if part.frame:
        shapes.insert(
            0,
            f'<rect class="frame" x="{left}" y="{top}" width="{width}" height="{height}" rx="5"/>',
        )
    texts = [
        f'<text x="{left + 7}" y="{first + 16 * i:g}">{escape(text)}</text>'
        for i, text in enumerate(lines)
    ]
    centre = left + width - 13
    number = (
        f'<circle cx="{centre}" cy="{middle:g}" r="10"/>'
        f'<text class="number" x="{centre}" y="{middle + 4.5:g}">{part.chapter}</text>'
    )
    state = f"{part.side} on" if highlighted else part.side
    title = escape(f"{name}: chapter {part.chapter}")
    return (
        f'<a href="{part.file}" class="{state}"><title>{title}</title>'
        f"{''.join(shapes)}{''.join(texts)}{number}</a>"
    )


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in points)


def _arrow(points: Sequence[Point], kind: str = "line") -> str:
    """A line through ``points`` with an arrow head at its end."""
    (x0, y0), (x, y) = points[-2:]
    length = abs(x - x0) + abs(y - y0)
    along, across = 5 * (x - x0) // length, 5 * (y - y0) // length
    head = (
        (x - along - across * 3 // 5, y - across + along * 3 // 5),
        (x, y),
        (x - along + across * 3 // 5, y - across - along * 3 // 5),
    )
    return (
        f'<path class="{kind}" d="{_path(points)}"/><path class="{kind} head" d="{_path(head)}Z"/>'
    )
