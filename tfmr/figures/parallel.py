"""The figure of training in several processes: what each of them stores."""

from collections.abc import Mapping, Sequence

from tfmr.errors import require
from tfmr.figures.style import BLUE, GREEN, INK, ORANGE, Figure, figure, styled

PARTS = {"weights": BLUE, "gradients": ORANGE, "moments": GREEN}
"""What a process stores between two steps, and the colours."""
TEXT = 10.5
"""Size of all text, which remains legible on a phone."""


@styled
def stored_bytes(runs: Mapping[str, Sequence[Mapping[str, int]]]) -> Figure:
    """Bars of the megabytes that each process stores, stacked from weights to Adam's moments.

    Args:
        runs: by name, the bytes of the parts of each process: ``weights``, ``gradients`` and
            ``moments``.

    Raises:
        TfmrError: if a process lacks one of the parts.
    """
    for name, processes in runs.items():
        for stored in processes:
            require(
                stored.keys() == PARTS.keys(),
                f"stored_bytes needs {', '.join(PARTS)} of each process: got "
                f"{', '.join(stored)} for {name}",
            )
    bars = sum(map(len, runs.values()))
    fig, (ax,) = figure(height=0.24 * bars + 0.16 * len(runs) + 0.95, width=4.6)
    largest = max(sum(one.values()) for processes in runs.values() for one in processes) / 1e6
    y, ticks, parts = 0.0, [], []
    for name, processes in runs.items():
        ticks.append((y + (len(processes) - 1) / 2, name))
        for stored in processes:
            left = 0.0
            for part, colour in PARTS.items():
                size = stored[part] / 1e6
                ax.barh(y, size, 0.84, left, color=colour, label=part if y == 0 else None)
                left += size
            ax.text(
                left + largest / 60, y, f"{left:.2f}", va="center", fontsize=TEXT, color=INK
            )  # fmt: skip
            y += 1
        y += 0.6
        sizes = ", ".join(f"{part} {size / 1e6:.2f}" for part, size in processes[0].items())
        totals = [f"{sum(stored.values()) / 1e6:.2f}" for stored in processes]
        parts.append(f"{name}: {', '.join(totals)} ({sizes})")
    ax.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=TEXT)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=TEXT)
    ax.invert_yaxis()
    ax.set_xlim(0, largest * 1.16)
    ax.set_xlabel("MB stored by a process", fontsize=TEXT)
    fig.legend(loc="outside upper center", ncols=3, fontsize=TEXT, handlelength=1, columnspacing=1)
    fig.alt = (
        "Megabytes that each process stores, as bars of weights, gradients and moments. Totals by "
        f"process, and in parentheses the parts of the first process: {'; '.join(parts)}."
    )
    return fig
