"""``python -m benchmarks.tables``: render every record into README.md.

The ``kind`` of a record selects how it is rendered:

``speed``
    a row per system, precision and task, from :mod:`benchmarks.speed`.
``versus``
    a row per task and precision, from :mod:`benchmarks.versus`.
``scores`` and ``line``
    a row per system, seed and training time, from :mod:`benchmarks.quality` and
    :mod:`benchmarks.line`.
``multi30k``
    the same by direction and recipe, from :mod:`benchmarks.multi30k`.
``profile``
    a row per task and kind of operation, from :mod:`benchmarks.profile`.
``scaling``
    points and fitted power laws, from :mod:`benchmarks.cost`; the fits are shown.
``memory``
    a row per reader and corpus, from :mod:`benchmarks.memory`.
``heads``
    a row for the whole model and one per ablated sublayer or head, from :mod:`benchmarks.heads`.
``recall``
    a row per network, distance and seed, from :mod:`benchmarks.recall`.
``inside``
    rows of several analyses of one model, from :mod:`benchmarks.inside`.
``depth``
    a table per experiment, a row per stack and depth, from :mod:`benchmarks.depth`.
``stream``
    a row per stack and depth, before and after training, from :mod:`benchmarks.stream`.
``replay``
    a row per recorded step, from :mod:`benchmarks.replay`.
``ablations``
    training with and without label smoothing and warm-up, from :mod:`benchmarks.ablations`.
``copying``
    a row per variant and seed, from :mod:`benchmarks.copying`.
``distance``
    a row per layer type and seed, from :mod:`benchmarks.distance`.
``layer cost``
    a row per layer, size and mode, from :mod:`benchmarks.layer_cost`.
``family``
    a row per model, over its seeds, from :mod:`benchmarks.family`.
``parallel``
    a row per method and number of processes, from :mod:`benchmarks.parallel`.
``scaling law``
    a row per width, over its seeds, from :mod:`benchmarks.scaling_law`.
``step memory``
    a row per model, from :mod:`benchmarks.step_memory`.
``utilisation``
    a row per model and batch, from :mod:`benchmarks.utilisation`.
``translator``
    a row per model, system and search, from :mod:`benchmarks.translator`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tyro

from benchmarks.markdown import NOTHING, Row, all_columns, markdown, spread
from benchmarks.model_tables import (
    ablations,
    copying,
    depth,
    distance,
    family,
    heads,
    inside,
    layer_cost,
    parallel,
    recall,
    replay,
    scaling_law,
    step_memory,
    stream,
    translator,
    utilisation,
)
from benchmarks.record import Record, read_all
from benchmarks.speed import OWN, PEAK
from benchmarks.timing import ratio
from tfmr.errors import TfmrError, require
from tfmr.records import FOLDER
from tfmr.train.run_dir import write_text

README = Path(__file__).parent / "README.md"

BEGIN = "<!-- Rendered by python -m benchmarks.tables; edits below are lost. -->"
END = "<!-- End of the rendered tables. -->"
SCORED = {
    "valid_bleu": "validation",
    "valid_bleu_beam4": "validation, beam 4",
    "test_bleu": "test",
    "test_bleu_beam4": "test, beam 4",
}
"""The columns of scores and their titles. Without "beam 4", decoding is greedy."""


@dataclass(frozen=True)
class Tables:
    """Render the records into benchmarks/README.md."""

    check: bool = False
    """Do not write; fail if the file differs from the rendering."""
    folder: Path = FOLDER
    """The folder of the records."""
    readme: Path = README
    """The file that contains the tables."""

    def __call__(self) -> None:
        """Render or check."""
        before = self.readme.read_text("utf-8")
        after = render(before, read_all(self.folder))
        if self.check:
            require(
                before == after,
                f"{self.readme.name} differs from its records: run python -m benchmarks.tables",
            )
        elif before != after:
            write_text(self.readme, after)


def render(text: str, records: dict[str, Record]) -> str:
    """``text`` with the tables of ``records`` between its two marks.

    Raises:
        TfmrError: unless ``text`` has each mark exactly once.
    """
    require(
        text.count(BEGIN) == text.count(END) == 1,
        f"README.md must contain each of these lines exactly once: {BEGIN} and {END}",
    )
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    sections = [section(name, record) for name, record in records.items()]
    middle = "\n".join(sections or ["There are no records yet.\n"])
    return f"{before}{BEGIN}\n\n{middle}\n{END}{after}"


def section(name: str, record: Record) -> str:
    """Heading, provenance and tables of one record."""
    renderer = KINDS.get(record["kind"])
    require(
        renderer is not None,
        f"{name}.json has the kind {record['kind']!r}: expected one of {', '.join(KINDS)}",
    )
    assert renderer is not None
    parts = [f"### {name}.json", provenance(record), *renderer(record)]
    return "\n\n".join(parts) + "\n"


def provenance(record: Record) -> str:
    """Command, date, commit, machine and versions in a sentence."""
    metadata = record["metadata"]
    hardware = metadata["hardware"]
    used = sorted({row["threads"] for row in record["rows"] if "threads" in row})
    used = used or [record["settings"].get("threads", hardware["threads"])]
    threads = f"{' or '.join(map(str, used))} thread{'s' * (used != [1])}"
    machine = hardware["processor"] if hardware["device"] == "cpu" else hardware["device"]
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    return (
        f"`{metadata['command']}` on {metadata['date']}, commit {metadata['commit'] or 'unknown'}: "
        f"{machine}, {threads}; {versions}."
    )


def fastest(rows: Iterable[Row]) -> Row:
    """The row with the lowest median time."""
    return min(rows, key=lambda row: median(row["seconds"]))


def speed(record: Record) -> list[str]:
    """The equal-precision tables, fp32 and bf16, then every system in its faster precision."""
    rows = [row for row in record["rows"] if row["system"] != PEAK]
    peaks = [row for row in record["rows"] if row["system"] == PEAK]
    precisions = [p for p in ("fp32", "bf16") if any(row["precision"] == p for row in rows)]
    counts = [len(row["seconds"]) for row in rows]
    rounds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0])
    parts = [
        "The rows of the other systems give their time divided by tfmr's time: the median of the "
        f"ratios of {rounds} rounds, with the lowest and the highest in parentheses. Tokens are "
        "target tokens without padding. The peak is the rate of one large matrix multiplication in "
        "the same precision, measured in each task; its range is over the tasks."
    ]
    for precision in precisions:
        own = [row for row in rows if row["precision"] == precision]
        measured = "All systems" if any(row["system"] != OWN for row in own) else f"Only {OWN}"
        parts.append(f"**{measured} in {precision}.** {_peak(peaks, precision)}")
        parts.append(_comparison(own))
    if len(precisions) == 2:
        parts.append(
            "**Mixed: each system in the faster of its measured precisions**, named in each cell."
        )
        parts.append(_comparison(rows, mixed=True))
    return parts


def _comparison(rows: Sequence[Row], *, mixed: bool = False) -> str:
    """A line for each system, a column for each task that tfmr was measured in."""
    tasks = list(dict.fromkeys(_task(row) for row in rows if row["system"] == OWN))
    systems = list(dict.fromkeys(row["system"] for row in rows))
    best = {
        (system, task): fastest(found)
        for system in systems
        for task in tasks
        if (found := [r for r in rows if r["system"] == system and _task(r) == task])
    }

    def line(title: str, system: str, write: Callable[[Row, Row], str]) -> list[str]:
        cells = []
        for task in tasks:
            row = best.get((system, task))
            text = NOTHING if row is None else write(row, best[OWN, task])
            cells.append(f"{text}, {row['precision']}" if mixed and row is not None else text)
        return [title, *cells]

    lines = [line(f"{OWN}, tokens/s", OWN, lambda row, _: f"{row['tokens_per_second']:,.0f}")]
    lines += [line(system, system, _ratio) for system in systems if system != OWN]
    if not mixed:
        lines.append(line(f"{OWN}, share of the peak", OWN, lambda row, _: _share(row)))
    return markdown(["", *tasks], lines)


def _task(row: Row) -> str:
    """The heading of a task. Records before version 0.2 measured two placements of dropout."""
    titles = {"beam": "beam 4", "single": "one sentence at a time"}
    task = str(titles.get(row["task"], row["task"]))
    return f"{task}, own dropout" if row.get("dropout") == "own" else task


def _ratio(row: Row, own: Row) -> str:
    spread = ratio(row["seconds"], own["seconds"])
    return f"{spread.median:.2f} ({spread.min:.2f}–{spread.max:.2f})"


def _share(row: Row) -> str:
    return f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else NOTHING


def _peak(peaks: Iterable[Row], precision: str) -> str:
    """The peak of each task, as a range."""
    tasks: dict[str, float] = {}
    for row in peaks:
        if row["precision"] == precision:
            tasks[_task(row)] = max(row["gflops"], tasks.get(_task(row), 0.0))
    if not tasks:
        return "The peak was not measured."
    low, high = f"{min(tasks.values()):.0f}", f"{max(tasks.values()):.0f}"
    return f"Peak: {low if low == high else f'{low} to {high}'} GFLOP/s."


def versus(record: Record) -> list[str]:
    """The ratio of the times of two checkouts, by task and precision."""
    settings = record["settings"]
    lines = [
        [
            f"{_task(row)}, {row['precision']}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_min']:.2f}–{row['ratio_max']:.2f}",
            str(len(row["seconds_new"])),
        ]
        for row in record["rows"]
    ]
    return [
        f"Time of commit {settings['new']} divided by the time of commit {settings['old']}: if the "
        "ratio is below 1, the former is faster.",
        markdown(["", "median ratio", "lowest to highest", "rounds"], lines),
    ]


def scores(record: Record) -> list[str]:
    """BLEU by system and training time: mean and range over the seeds."""
    rows = record["rows"]
    times = list(dict.fromkeys(row["minutes"] for row in rows))
    parts = [part for part in SCORED if any(part in row for row in rows)]
    columns = [(part, minutes) for minutes in times for part in parts]
    columns = [c for c in columns if any(c[0] in r for r in rows if r["minutes"] == c[1])]
    header = ["", "parameters", *(f"{SCORED[part]}, {minutes:g} min" for part, minutes in columns)]
    lines = []
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        line = [system, f"{own[0]['parameters']:,}"]
        for part, minutes in columns:
            line.append(spread([r[part] for r in own if r["minutes"] == minutes and part in r]))
        lines.append(line)
    seeds = len({row["seed"] for row in rows})
    signatures = sorted({row["signature"] for row in rows if "signature" in row})
    settings = record["settings"]
    return [
        f"BLEU on {settings['corpus']} {settings['direction']}, {seeds} seed{'s' * (seeds != 1)}"
        f"{': the mean, with the lowest and the highest in parentheses' * (seeds > 1)}. "
        f"{_search(parts)} sacreBLEU `{'`, `'.join(signatures)}`.",
        markdown(header, lines),
    ]


def multi30k(record: Record) -> list[str]:
    """BLEU by direction, recipe and training time."""
    rows = record["rows"]
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    parts = [part for part in SCORED if any(part in row for row in rows)]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda r: (directions.index(r["direction"]), r["minutes"])):
        until = row.get("until", f"{row['minutes']:g} minutes")
        groups.setdefault((row["direction"], row["recipe"], until), []).append(row)
    lines = []
    for (direction, recipe, until), own in groups.items():
        scored = [spread([row[part] for row in own if part in row]) for part in parts]
        lines.append([direction, recipe, until, str(len(own)), *scored])
    parameters = sorted({row["parameters"] for row in rows})
    signatures = sorted({row["signature"] for row in rows})
    return [
        "BLEU on Multi30k's validation set and on test2016: the mean over the seeds, with the "
        "lowest and the highest in parentheses. "
        f"{_search(parts)} {' or '.join(f'{n:,}' for n in parameters)} parameters. "
        f"sacreBLEU `{'`, `'.join(signatures)}`.",
        markdown(["", "recipe", "training", "seeds", *(SCORED[p] for p in parts)], lines),
    ]


def _search(parts: Sequence[str]) -> str:
    """Which search the columns of scores come from."""
    if all(part.endswith("beam4") for part in parts):
        return "All scores are from beam search."
    return "Scores without “beam 4” are from greedy decoding."


def scaling(record: Record) -> list[str]:
    """The fitted exponents."""
    fits = [{**row} for row in record["rows"] if row["what"] == "fit"]
    for row in fits:
        del row["what"]
    about = (
        "Exponents of power laws that describe how a quantity grows with the size (in "
        "cost/training.json, the number of sentence pairs; otherwise, the length of the sequence), "
        "fitted to sizes of at least `fitted_from`, with standard errors."
    )
    return [about, all_columns(fits)]


def memory(record: Record) -> list[str]:
    """The growth of a process that opens a corpus, plans an epoch and reads batches."""
    moments = ("opened", "planned", "read", "peak")
    lines = [
        [
            row["reader"],
            f"{row['pairs']:,}",
            f"{row['tokens']:,}",
            f"{row['file']:.0f}",
            *(f"{row[moment]:.0f}" for moment in moments),
        ]
        for row in record["rows"]
    ]
    return [
        "Size of the file, and growth of a process's private memory since its start: after opening "
        "a generated corpus, after planning the batches of an epoch, after reading "
        f"{record['settings']['batches']:,} batches, and at its peak, all in MB. Pages "
        "of memory-mapped files are not counted, because the operating system can evict them.",
        markdown(["", "pairs", "tokens", "file", *moments], lines),
    ]


def profile(record: Record) -> list[str]:
    """The share of each kind of operation in the time of each task."""
    rows = record["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    titles = {row["task"]: f"{_task(row)}, {row['precision']}" for row in rows}
    found = {(row["kind"], row["task"]): row["share"] for row in rows}
    lines = [
        [
            kind,
            *(f"{found[kind, task]:.0%}" if (kind, task) in found else NOTHING for task in tasks),
        ]
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]
    return [
        "Share of each kind of operation in tfmr's time in the tasks of speed.json, measured with "
        "PyTorch's profiler.",
        markdown(["", *(titles[task] for task in tasks)], lines),
    ]


KINDS: dict[str, Callable[[Record], list[str]]] = {
    "speed": speed,
    "versus": versus,
    "scores": scores,
    "line": scores,
    "multi30k": multi30k,
    "scaling": scaling,
    "profile": profile,
    "memory": memory,
    "heads": heads,
    "recall": recall,
    "inside": inside,
    "depth": depth,
    "stream": stream,
    "replay": replay,
    "ablations": ablations,
    "copying": copying,
    "distance": distance,
    "layer cost": layer_cost,
    "family": family,
    "parallel": parallel,
    "scaling law": scaling_law,
    "step memory": step_memory,
    "utilisation": utilisation,
    "translator": translator,
}
"""The renderer of each kind of record."""


if __name__ == "__main__":
    try:
        tyro.cli(Tables, prog="python -m benchmarks.tables")()
    except TfmrError as error:
        sys.exit(f"benchmarks.tables: {error}")
