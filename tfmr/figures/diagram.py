"""Elements of diagrams: axes, boxes, matrices, operations, and the lines between them."""

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from tfmr.figures.style import INK, MUTED, WIDTH, Figure, figure

Point = tuple[float, float]


def sheet(width: float, height: float, inches: int | float = WIDTH) -> tuple[Figure, Axes]:
    """Axes without a frame, ``width`` by ``height`` units, ``inches`` wide, with equal scales."""
    fig, (axes,) = figure(height=inches * height / width, width=inches)
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return fig, axes


def box(
    axes: Axes, centre: Point, text: str, colour: str, size: Point, fontsize: int | float = 11
) -> None:
    """A part of a network: a rounded box with a name; ``size`` is its width and height."""
    corner = (centre[0] - size[0] / 2, centre[1] - size[1] / 2)
    style = f"round,pad=0,rounding_size={min(0.14, size[1] / 4)}"
    axes.add_patch(
        FancyBboxPatch(
            corner, *size, boxstyle=style, facecolor="white", edgecolor=colour, lw=1.8, zorder=3
        )
    )
    axes.text(
        *centre, text, ha="center", va="center_baseline", fontsize=fontsize, color=INK, zorder=4
    )


def matrix(
    axes: Axes,
    centre: Point,
    name: str,
    colour: str,
    shape: tuple[int, int],
    cell: float,
    fontsize: int | float = 11,
) -> None:
    """A matrix: a rectangle with a name; ``cell`` is the side of one component."""
    width, height = shape[1] * cell, shape[0] * cell
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    axes.add_patch(
        Rectangle(corner, width, height, facecolor=colour + "2e", edgecolor=colour, lw=1.4)
    )
    axes.text(*centre, name, ha="center", va="center_baseline", fontsize=fontsize, color=INK)


def operation(axes: Axes, centre: Point, sign: str, fontsize: int | float = 11.5) -> None:
    """A small circle with the sign of an operation, where lines meet."""
    axes.plot(*centre, "o", ms=1.4 * fontsize, mfc="white", mec=INK, mew=1.3, zorder=3)
    axes.text(*centre, sign, ha="center", va="center_baseline", fontsize=fontsize, zorder=4)


def line(axes: Axes, *points: Point, colour: str = MUTED, arrow: bool = True) -> None:
    """A line through ``points``, with an arrow head at its end if ``arrow``."""
    if len(points) > 2:
        axes.plot(*zip(*points[:-1], strict=True), color=colour, lw=1.6, solid_capstyle="round")
    style = {"arrowstyle": "-|>" if arrow else "-", "color": colour, "lw": 1.6}
    axes.annotate(
        "", points[-1], points[-2], arrowprops={**style, "shrinkA": 0, "shrinkB": 0}, zorder=2
    )
