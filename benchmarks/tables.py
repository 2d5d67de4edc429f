"""``python -m benchmarks.tables``: render every record into README.md, so that nobody retypes one.

A record's ``kind`` says how:

``speed``
    a row per system, precision and task, from :mod:`benchmarks.speed`.
``scores`` and ``line``
    a row per system, seed and time, with ``parameters``, ``minutes`` and some of :data:`SCORED`,
    from :mod:`benchmarks.quality` and :mod:`benchmarks.line`.
``multi30k``
    the same by direction and recipe, from :mod:`benchmarks.multi30k`.
``profile``
    a row per task and kind of work, from :mod:`benchmarks.profile`.
``growth``
    points and fitted power laws, from :mod:`benchmarks.cost`; the fits are shown.
``memory``
    a row per reader and corpus, from :mod:`benchmarks.memory`.
``heads``
    a row for the whole model and one per part taken away, from :mod:`benchmarks.heads`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import tyro

from benchmarks.compare import OWN, PEAK
from benchmarks.record import FOLDER, Record, records
from tfmr.errors import TfmrError, require
from tfmr.train.run_dir import write_text

Row = dict[str, Any]

BEGIN = "<!-- Rendered by python -m benchmarks.tables; edits below are lost. -->"
END = "<!-- End of what is rendered. -->"
NOTHING = "–"
SCORED = {
    "valid_bleu": "valid",
    "valid_bleu_beam4": "valid, beam 4",
    "test_bleu": "test",
    "test_bleu_beam4": "test, beam 4",
}
"""The scores that are shown, and how they are called. The others are greedy."""


@dataclass(frozen=True)
class Tables:
    """Render the records of this folder into its README.md."""

    check: bool = False
    """Change nothing; fail if the file is not what would be rendered."""
    folder: Path = FOLDER
    """Where the records and README.md are."""

    def __call__(self) -> None:
        """Render, or check."""
        path = self.folder / "README.md"
        before = path.read_text("utf-8")
        after = rendered(before, records(self.folder))
        if self.check:
            require(before == after, f"{path.name} is not what its records say: render it anew")
        elif before != after:
            write_text(path, after)


def rendered(text: str, found: dict[str, Record]) -> str:
    """``text`` with the records between its two marks in place of what was there.

    Raises:
        TfmrError: unless each mark is there once.
    """
    require(
        text.count(BEGIN) == text.count(END) == 1,
        f"README.md must have each of its marks once, to say where tables go: {BEGIN} and {END}",
    )
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    sections = [section(name, record) for name, record in found.items()]
    middle = "\n".join(sections or ["Nothing is recorded yet.\n"])
    return f"{before}{BEGIN}\n\n{middle}\n{END}{after}"


def section(name: str, record: Record) -> str:
    """A heading, where the numbers come from, and the tables of one record."""
    render = KINDS.get(record["kind"])
    require(
        render is not None,
        f"{name}.json is a record of {record['kind']!r}: expected one of {', '.join(KINDS)}",
    )
    assert render is not None
    parts = [f"### {name}.json", provenance(record), *render(record)]
    return "\n\n".join(parts) + "\n"


def provenance(record: Record) -> str:
    """Command, machine, versions and code, in a sentence."""
    facts = record["facts"]
    hardware = facts["hardware"]
    threads = f"{hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    machine = hardware["processor"] if hardware["device"] == "cpu" else hardware["device"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"`{facts['command']}` on {facts['date']}, commit {facts['commit'] or 'unknown'}: "
        f"{machine}, {threads}; {versions}."
    )


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers.

    >>> print(markdown(["", "a"], [["x", "1"]]))
    |  | a |
    |---|--:|
    | x | 1 |
    """
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    body = ["| " + " | ".join(cells) + " |" for cells in lines]
    body[1] = body[1].replace(" ", "")
    return "\n".join(body)


def speed(record: Record) -> list[str]:
    """Who is how many times slower than tfmr, and tokens per second at either precision."""
    rows = [row for row in record["rows"] if row["system"] != PEAK]
    tasks = list(dict.fromkeys((row["task"], row.get("dropout")) for row in rows))
    systems = list(dict.fromkeys(row["system"] for row in rows))

    def cell(system: str, task: tuple[str, str | None], write: Callable[[list[Row]], str]) -> str:
        found = [r for r in rows if r["system"] == system and (r["task"], r.get("dropout")) == task]
        return write(found) if found else NOTHING

    def line(title: str, system: str, write: Callable[[list[Row]], str]) -> list[str]:
        return [title, *(cell(system, task, write) for task in tasks)]

    header = ["", *(_task_title(task) for task in tasks)]
    compared = [
        line(f"{OWN}, tokens/s", OWN, lambda found: f"{_best(found)['tokens_per_second']:.0f}"),
        *(
            line(system, system, lambda found: _times(_best(found)))
            for system in systems
            if system != OWN
        ),
        line(f"{OWN}, share of the peak", OWN, lambda found: _share(_best(found))),
    ]
    both = [line(system, system, _rates) for system in systems]
    precisions = " / ".join(dict.fromkeys(row["precision"] for row in rows))
    counts = sorted({len(row["seconds"]) for row in rows})
    rounds = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return [
        "How many times as long as tfmr the others take, each at the precision of products that "
        f"suits it better: the median of {rounds} rounds, and in brackets the lowest and the "
        "highest. Tokens are target tokens without padding. The peak is the rate of a "
        f"large product of matrices, {_peak(record)}. {_arithmetic(record)}",
        markdown(header, compared),
        f"Tokens per second at either precision, {precisions}:",
        markdown(header, both),
    ]


def _arithmetic(record: Record) -> str:
    settings = record["settings"]
    if settings.get("bf16"):
        return "Training multiplies in bf16 throughout."
    said = ["Training multiplies in fp32."]
    if settings.get("own_bf16"):
        said = ["Training multiplies in fp32, but at its own defaults tfmr does so in bf16."]
        if "bfloat16" in settings.get("decoder", {}).values():
            said.append("At medium it also translates so.")
        said.append("Its share is always one of the peak in fp32.")
    return " ".join(said)


def _task_title(task: tuple[str, str | None]) -> str:
    name, dropout = task
    titles = {"beam": "beam 4", "single": "one by one"}
    return titles.get(name, name) + (", own defaults" if dropout == "own" else "")


def _best(found: list[Row]) -> Row:
    [row] = [row for row in found if row["best"]]
    return row


def _rates(found: list[Row]) -> str:
    return " / ".join(f"{row['tokens_per_second']:.0f}" for row in found)


def _times(row: Row) -> str:
    return f"{row['times']:.2f} ({row['times_low']:.2f}–{row['times_high']:.2f})"


def _share(row: Row) -> str:
    return f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else NOTHING


def _peak(record: Record) -> str:
    rates = [row["gflops"] for row in record["rows"] if row["system"] == PEAK and row["best"]]
    return f"{min(rates):.0f} to {max(rates):.0f} GFLOP/s" if rates else "which was not measured"


def scores(record: Record) -> list[str]:
    """BLEU by system and time: the mean of the seeds, with the lowest and the highest."""
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
            line.append(_spread([r[part] for r in own if r["minutes"] == minutes and part in r]))
        lines.append(line)
    seeds = len({row["seed"] for row in rows})
    signatures = sorted({row["signature"] for row in rows if "signature" in row})
    settings = record["settings"]
    return [
        f"BLEU on {settings['corpus']} {settings['direction']}, {seeds} seed{'s' * (seeds != 1)}: "
        "the mean, and in brackets the lowest and the highest. sacreBLEU "
        f"`{'`, `'.join(signatures)}`.",
        markdown(header, lines),
    ]


def multi30k(record: Record) -> list[str]:
    """BLEU by direction and time, a line for each."""
    rows = record["rows"]
    directions = list(dict.fromkeys(row["direction"] for row in rows))
    parts = [part for part in SCORED if any(part in row for row in rows)]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda r: (directions.index(r["direction"]), r["minutes"])):
        until = row.get("until", f"{row['minutes']:g} minutes")
        groups.setdefault((row["direction"], row["recipe"], until), []).append(row)
    lines = []
    for (direction, recipe, until), own in groups.items():
        scored = [_spread([row[part] for row in own if part in row]) for part in parts]
        lines.append([direction, recipe, until, str(len(own)), *scored])
    parameters = sorted({row["parameters"] for row in rows})
    signatures = sorted({row["signature"] for row in rows})
    return [
        "BLEU on Multi30k's validation part and test2016: the mean of the seeds, and in brackets "
        f"the lowest and the highest. {' or '.join(f'{n:,}' for n in parameters)} parameters. "
        f"sacreBLEU `{'`, `'.join(signatures)}`.",
        markdown(["", "recipe", "trained", "seeds", *(SCORED[p] for p in parts)], lines),
    ]


def _spread(numbers: Sequence[float]) -> str:
    if not numbers:
        return NOTHING
    middle = f"{mean(numbers):.1f}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.1f}–{max(numbers):.1f})"


def growth(record: Record) -> list[str]:
    """The fitted exponents."""
    fits = [{**row} for row in record["rows"] if row["what"] == "fit"]
    for row in fits:
        del row["what"]
    about = "Exponents of power laws fitted from the size `since` on, with their standard errors."
    return [about, all_of(fits)]


def all_of(rows: Sequence[Row]) -> str:
    """A table of all columns of all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return markdown(names, [[str(row.get(name, NOTHING)) for name in names] for row in rows])


def memory(record: Record) -> list[str]:
    """What a process grew by when it opened, planned and read a corpus."""
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
        "Memory of a process in MB, beyond what it took before and without the pages of mapped "
        "files, which the system may drop: when it had opened a generated corpus, planned an "
        f"epoch, and read {record['settings']['batches']} batches; and the peak of all.",
        markdown(["", "pairs", "tokens", "file", *moments], lines),
    ]


def profile(record: Record) -> list[str]:
    """The share of each kind of work in the time of each task."""
    rows = record["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    found = {(row["kind"], row["task"]): row["share"] for row in rows}
    lines = [
        [
            kind,
            *(f"{found[kind, task]:.0%}" if (kind, task) in found else NOTHING for task in tasks),
        ]
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]
    return [
        "Share of tfmr's time that each kind of work takes, under PyTorch's profiler, in the tasks "
        "of speed.json.",
        markdown(["", *(_task_title((task, None)) for task in tasks)], lines),
    ]


def heads(record: Record) -> list[str]:
    """What is lost without each sublayer and without each head, in BLEU and in nats."""
    intact, *gone = record["rows"]
    sublayers = [row for row in gone if row["removed"] == "sublayer"]
    n_heads = max((row["head"] for row in gone if row["removed"] == "head"), default=0)

    def lost(row: Row) -> str:
        bleu = intact["valid_bleu"] - row["valid_bleu"]
        return f"{bleu:.1f} / {row['valid_loss'] - intact['valid_loss']:.3f}"

    lines = []
    for whole in sublayers:
        where = {name: whole[name] for name in ("stack", "sublayer", "layer")}
        own = [row for row in gone if row["removed"] == "head" and where.items() <= row.items()]
        cells = [lost(row) for row in own] + [NOTHING] * (n_heads - len(own))
        lines.append([" ".join(str(value) for value in where.values()), lost(whole), *cells])
    settings = record["settings"]
    return [
        f"BLEU and nats per token that are lost without a sublayer, or without one of its heads, "
        f"on {settings['sentences']} sentences of the {settings['part']} part of "
        f"{settings['corpus']} {settings['direction']}; the whole model has "
        f"{intact['valid_bleu']:.1f} BLEU, greedy, and a loss of {intact['valid_loss']:.3f}.",
        markdown(["", "whole", *(f"head {k + 1}" for k in range(n_heads))], lines),
    ]


KINDS: dict[str, Callable[[Record], list[str]]] = {
    "speed": speed,
    "scores": scores,
    "line": scores,
    "multi30k": multi30k,
    "growth": growth,
    "profile": profile,
    "memory": memory,
    "heads": heads,
}
"""What renders each kind of record."""


if __name__ == "__main__":
    try:
        tyro.cli(Tables, prog="python -m benchmarks.tables")()
    except TfmrError as error:
        sys.exit(f"benchmarks.tables: {error}")
