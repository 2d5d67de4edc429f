"""The style of the figures: PNG output, alternative text, reproducible bytes."""

import struct
from base64 import b64decode
from io import BytesIO

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from tfmr.figures.style import (
    CONTRAST,
    CYCLE,
    DPI,
    HEAT,
    INK,
    LOWER_DPI,
    PNG_BYTES,
    RC,
    SIGNED,
    WIDTH,
    Figure,
    also_narrow,
    contrast,
    figure,
    heatmap,
    label_ends,
    styled,
    text_colour,
    with_palette,
)


def drawn(alt: str = "") -> Figure:
    fig, (axes,) = figure()
    axes.plot([0, 1, 2], [0, 1, 4])
    axes.set_xlabel("x")
    fig.alt = alt
    return fig


def test_png_size() -> None:
    png, size = drawn()._repr_png_()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (int(WIDTH * DPI), int(2.6 * DPI))
    assert size["width"] == round(WIDTH * 96)
    assert len(png) < PNG_BYTES


def test_large_png_has_a_lower_resolution() -> None:
    torch.manual_seed(0)
    fig, (axes,) = figure()
    for curve in torch.randn(12, 60).tolist():
        axes.plot(curve)
    png, size = fig._repr_png_()
    (width,) = struct.unpack(">I", png[16:20])
    assert width in {int(WIDTH * dpi) for dpi in LOWER_DPI}
    assert size["width"] == round(WIDTH * 96)
    assert len(png) <= PNG_BYTES or width == int(WIDTH * LOWER_DPI[-1])


def test_png_is_reproducible() -> None:
    pngs = [drawn()._repr_png_()[0] for _ in range(2)]
    assert pngs[0] == pngs[1]
    assert b"matplotlib" not in pngs[0].lower()


def coloured() -> bytes:
    """A figure with a scale of colours and with text, as matplotlib writes it."""
    fig, (axes,) = figure()
    image = axes.imshow(torch.linspace(-1, 1, 1200).view(30, 40).tolist(), cmap=SIGNED)
    fig.colorbar(image, ax=axes)
    axes.set_title("Colours of a scale, in text and in lines", color=CYCLE[0])
    axes.axhline(5, color=CYCLE[2])
    buffer = BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def pixels(png: bytes) -> np.ndarray:
    with Image.open(BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGBA")).astype(int)


def test_a_palette_halves_the_bytes_and_changes_no_colour_visibly() -> None:
    before = coloured()
    after = with_palette(before)
    assert len(after) < len(before) / 2
    assert with_palette(before) == after
    with Image.open(BytesIO(after)) as picture:
        assert picture.mode == "P"
    full, few = pixels(before), pixels(after)
    assert len(np.unique(full.reshape(-1, 4), axis=0)) > 1000
    assert len(np.unique(few.reshape(-1, 4), axis=0)) <= 256
    assert np.abs(few - full).max() <= 12
    white = (full == 255).all(axis=-1)
    assert white.mean() > 0.1
    assert (few[white] == 255).all()


def test_a_palette_keeps_transparency() -> None:
    fig, (axes,) = figure()
    axes.plot([0, 1])
    buffer = BytesIO()
    fig.savefig(buffer, format="png", transparent=True)
    png = buffer.getvalue()
    assert pixels(png)[..., 3].min() == 0
    assert np.array_equal(pixels(with_palette(png)), pixels(png))


def test_both_layouts_of_a_figure_are_drawn_and_have_a_palette() -> None:
    @also_narrow
    def draw(title: str, *, narrow: bool = False) -> Figure:
        fig = drawn()
        fig.axes[0].set_title(f"{title}, narrow: {narrow}")
        return fig

    fig = draw("a")
    assert fig.axes[0].get_title() == "a, narrow: False"
    assert fig.narrow is not None
    assert fig.narrow.axes[0].get_title() == "a, narrow: True"
    assert draw("a", narrow=True).narrow is None
    png, metadata = fig._repr_png_()
    phone = b64decode(str(metadata["narrow"]))
    assert phone == fig.narrow._repr_png_()[0] != png
    for picture in (png, phone):
        with Image.open(BytesIO(picture)) as opened:
            assert opened.mode == "P"


def test_repr_is_the_alternative_text() -> None:
    assert repr(drawn("Three points on a parabola.")) == "Three points on a parabola."
    assert "Figure" in repr(drawn())


def test_axes_are_ordered_by_row_and_styled() -> None:
    fig, axes = figure(2, 3, height=4.0, width_ratios=[1, 2, 1])
    assert len(axes) == 6
    assert axes == fig.axes
    assert not axes[0].spines["top"].get_visible()
    assert axes[0].plot([0, 1])[0].get_color() == CYCLE[0]


def test_styled_restores_rcparams() -> None:
    before = dict(matplotlib.rcParams)

    @styled
    def inside() -> float:
        return matplotlib.rcParams["font.size"]

    assert inside() == RC["font.size"]
    figure()
    assert dict(matplotlib.rcParams) == before


def test_label_ends() -> None:
    fig, (axes,) = figure()
    axes.set(ylim=(0, 1))
    label_ends(axes, [("b", 0.52, "red"), ("a", 0.5, "blue"), ("c", 0.9, "black")])
    labels = {text.get_text(): (text.xy[1], text.get_color()) for text in axes.texts}
    assert {name: colour for name, (_, colour) in labels.items()} == {
        "a": "blue",
        "b": "red",
        "c": "black",
    }
    heights = {name: height for name, (height, _) in labels.items()}
    assert heights["c"] == pytest.approx(0.9)
    assert (heights["a"] + heights["b"]) / 2 == pytest.approx(0.51)
    fig.draw_without_rendering()
    a, b = (text.get_window_extent() for text in sorted(axes.texts, key=lambda t: t.xy[1])[:2])
    assert a.y1 <= b.y0
    _, (axes,) = figure()
    axes.set(ylim=(0, 1))
    label_ends(axes, [("a", 0.0, "red"), ("b", 0.01, "red"), ("c", 0.1, "red")])
    heights = [text.xy[1] for text in axes.texts]
    assert heights[0] == pytest.approx(0)
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1])


@pytest.mark.parametrize("signed", [False, True])
def test_heatmap_values(signed: bool) -> None:
    _, (axes,) = figure()
    values = [[0.0, 0.25], [1.0, -0.9 if signed else 0.9]]
    heatmap(axes, values, row_labels=["a", "b"], column_labels=["c", "d"], signed=signed)
    last = "−0.90" if signed else "0.90"
    assert [text.get_text() for text in axes.texts] == ["0.00", "0.25", "1.00", last]
    (image,) = axes.images
    assert image.get_clim() == (-1.0 if signed else 0.0, 1.0)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "d"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]


@pytest.mark.parametrize("signed", [False, True])
def test_heatmap_numbers_contrast_with_their_colours(signed: bool) -> None:
    _, (axes,) = figure()
    values = torch.linspace(-1.2 if signed else 0, 1.2, 49).tolist()
    heatmap(axes, [values], row_labels=[""], column_labels=[""] * 49, signed=signed, limit=1.0)
    (image,) = axes.images
    contrasts = [
        contrast(text.get_color(), image.to_rgba(value)[:3])
        for text, value in zip(axes.texts, values, strict=True)
    ]
    assert min(contrasts) >= CONTRAST


def test_contrast() -> None:
    assert contrast("white", "black") == contrast("black", "white") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.01)
    assert contrast(INK, INK) == 1


def test_text_colour_prefers_ink_and_contrasts_with_every_background() -> None:
    assert text_colour("white") == INK
    assert text_colour("#08306b") == "white"
    for colours in (HEAT, SIGNED):
        for background in colours(range(256)):
            assert contrast(text_colour(background[:3]), background[:3]) >= CONTRAST
    for grey in range(256):
        background = (grey / 255,) * 3
        assert contrast(text_colour(background), background) >= CONTRAST


def test_heatmap_limit_and_digits() -> None:
    _, (axes,) = figure()
    heatmap(axes, [[1.0]], row_labels=["a"], column_labels=["b"], digits=0, limit=4.0)
    assert [text.get_text() for text in axes.texts] == ["1"]
    assert axes.images[0].get_clim() == (0.0, 4.0)
    _, (axes,) = figure()
    heatmap(axes, [[0.0]], row_labels=["a"], column_labels=["b"], numbers=False)
    assert (len(axes.texts), axes.images[0].get_clim()) == (0, (0.0, 1.0))
