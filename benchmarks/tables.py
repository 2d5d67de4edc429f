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
``ablations``
    training with and without label smoothing and warm-up, from :mod:`benchmarks.ablations`.
``copying``
    a row per variant and seed, from :mod:`benchmarks.copying`.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import tyro

from benchmarks.paired import paired_difference
from benchmarks.record import Record, read_all
from benchmarks.speed import OWN, PEAK
from benchmarks.timing import ratio
from tfmr.errors import TfmrError, require
from tfmr.records import FOLDER
from tfmr.train.run_dir import write_text

Row = dict[str, Any]

README = Path(__file__).parent / "README.md"

BEGIN = "<!-- Rendered by python -m benchmarks.tables; edits below are lost. -->"
END = "<!-- End of the rendered tables. -->"
NOTHING = "–"
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
    threads = f"{hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    machine = hardware["processor"] if hardware["device"] == "cpu" else hardware["device"]
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    return (
        f"`{metadata['command']}` on {metadata['date']}, commit {metadata['commit'] or 'unknown'}: "
        f"{machine}, {threads}; {versions}."
    )


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns, except the first, are aligned to the right.

    >>> print(markdown(["", "a"], [["x", "1"]]))
    |  | a |
    |---|--:|
    | x | 1 |
    """
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    body = ["| " + " | ".join(cells) + " |" for cells in lines]
    body[1] = body[1].replace(" ", "")
    return "\n".join(body)


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
        "Time of each system divided by the time of tfmr: the median of the ratios of "
        f"{rounds} rounds, with the lowest and the highest in parentheses. Tokens are target "
        "tokens without padding. The peak is the rate of one large matrix multiplication in the "
        "same precision."
    ]
    for precision in precisions:
        parts.append(f"**All systems in {precision}.** {_peak(peaks, precision)}")
        parts.append(_comparison([row for row in rows if row["precision"] == precision]))
    if len(precisions) == 2:
        parts.append("**Mixed: each system in its faster precision**, named in each cell.")
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

    lines = [line(f"{OWN}, tokens/s", OWN, lambda row, _: f"{row['tokens_per_second']:.0f}")]
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
        f"Time of commit {settings['new']} divided by the time of commit {settings['old']}; below "
        "1, the former is faster.",
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
            line.append(_spread([r[part] for r in own if r["minutes"] == minutes and part in r]))
        lines.append(line)
    seeds = len({row["seed"] for row in rows})
    signatures = sorted({row["signature"] for row in rows if "signature" in row})
    settings = record["settings"]
    return [
        f"BLEU on {settings['corpus']} {settings['direction']}, {seeds} seed{'s' * (seeds != 1)}"
        f"{': the mean, with the lowest and the highest in parentheses' * (seeds > 1)}. sacreBLEU "
        f"`{'`, `'.join(signatures)}`.",
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
        scored = [_spread([row[part] for row in own if part in row]) for part in parts]
        lines.append([direction, recipe, until, str(len(own)), *scored])
    parameters = sorted({row["parameters"] for row in rows})
    signatures = sorted({row["signature"] for row in rows})
    return [
        "BLEU on Multi30k's validation set and on test2016: the mean over the seeds, with the "
        "lowest and the highest in parentheses. "
        f"{' or '.join(f'{n:,}' for n in parameters)} parameters. "
        f"sacreBLEU `{'`, `'.join(signatures)}`.",
        markdown(["", "recipe", "training", "seeds", *(SCORED[p] for p in parts)], lines),
    ]


def _spread(numbers: Sequence[float], digits: int = 1) -> str:
    """Mean and range."""
    if not numbers:
        return NOTHING
    average, *ends = (f"{x:.{digits}f}" for x in (mean(numbers), min(numbers), max(numbers)))
    return average if len(numbers) == 1 else f"{average} ({'–'.join(ends)})"


def scaling(record: Record) -> list[str]:
    """The fitted exponents."""
    fits = [{**row} for row in record["rows"] if row["what"] == "fit"]
    for row in fits:
        del row["what"]
    about = (
        "Exponents of power laws, fitted to sizes of at least `fitted_from`, with standard errors."
    )
    return [about, all_columns(fits)]


def all_columns(rows: Sequence[Row]) -> str:
    """A table of every column of the rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return markdown(names, [[str(row.get(name, NOTHING)) for name in names] for row in rows])


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
        "Growth of a process's private memory in MB after opening a generated corpus, after "
        f"planning an epoch and after reading {record['settings']['batches']} batches, and the "
        "peak. Pages of memory-mapped files are not counted, since the system can drop them.",
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


def heads(record: Record) -> list[str]:
    """The loss of quality without each sublayer and each head, in BLEU and in nats."""
    intact, *ablated = record["rows"]
    sublayers = [row for row in ablated if row["ablated"] == "sublayer"]
    n_heads = max((row["head"] for row in ablated if row["ablated"] == "head"), default=0)

    def lost(row: Row) -> str:
        bleu = intact["valid_bleu"] - row["valid_bleu"]
        return f"{bleu:.1f} / {row['valid_loss'] - intact['valid_loss']:.3f}"

    lines = []
    for whole in sublayers:
        where = {name: whole[name] for name in ("stack", "sublayer", "layer")}
        own = [row for row in ablated if row["ablated"] == "head" and where.items() <= row.items()]
        cells = [lost(row) for row in own] + [NOTHING] * (n_heads - len(own))
        lines.append([" ".join(str(value) for value in where.values()), lost(whole), *cells])
    settings = record["settings"]
    return [
        "Decrease of BLEU / increase of cross-entropy in nats per token when a sublayer or one of "
        f"its heads is ablated, on {settings['sentences']} sentences of the "
        f"{settings['split']} set of {settings['corpus']} {settings['direction']}. The whole model "
        f"has {intact['valid_bleu']:.1f} BLEU (greedy) and a cross-entropy of "
        f"{intact['valid_loss']:.3f}.",
        markdown(["", "sublayer", *(f"head {k + 1}" for k in range(n_heads))], lines),
    ]


def recall(record: Record) -> list[str]:
    """Accuracy by network and distance: median and range over the seeds."""
    rows, settings = record["rows"], record["settings"]
    distances = list(dict.fromkeys(row["distance"] for row in rows))
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        found.setdefault((row["network"], row["distance"]), []).append(row["accuracy"])
    parameters = {row["network"]: row["parameters"] for row in rows}
    lines = []
    for network, count in parameters.items():
        cells = [
            f"{median(seeds):.2f} ({min(seeds):.2f}–{max(seeds):.2f})"
            for seeds in (found[network, distance] for distance in distances)
        ]
        lines.append([network, f"{count:,}", *cells])
    return [
        "Accuracy of recalling the first symbol by distance in steps, after "
        f"{settings['steps']} training steps, {len(settings['seeds'])} seeds: the median, with the "
        f"lowest and the highest in parentheses. Chance level is {settings['chance']:.2f}.",
        markdown(["", "parameters", *(str(distance) for distance in distances)], lines),
    ]


INSIDE: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, str]]]] = {
    "logit lens": (
        "Logit lens: what the decoder predicts after each block (0: the embeddings). Agreement is "
        "the fraction of positions at which the most probable token is the same as after the last "
        "block; probability and rank are those of that token.",
        ("depth",),
        {
            "agreement": ("agreement", ".3f"),
            "probability": ("probability", ".3f"),
            "median_rank": ("median rank", ".0f"),
            "input_token": ("most probable: input token", ".3f"),
            "loss": ("cross-entropy", ".2f"),
        },
    ),
    "patching": (
        "Activation patching with pairs of sentences that differ in one noun: the fraction of the "
        "difference between their logit differences that each patch restores.",
        ("part", "depth", "layer", "head", "positions"),
        {"effect": ("effect", ".3f")},
    ),
    "feed-forward": (
        "A feed-forward network of the decoder with its output replaced: the increase of the "
        "cross-entropy, and the fraction of tokens for which the most probable next token is the "
        "input token.",
        ("layer", "output"),
        {
            "loss_increase": ("cross-entropy", ".3f"),
            "input_token": ("most probable: input token", ".4f"),
        },
    ),
    "repetition": (
        "Greedy decoding of the validation set; each row names the ablated sublayer and states "
        "whether a token may follow itself. Repeated is the fraction of tokens equal to the "
        "one before.",
        ("ablated", "repetition"),
        {
            "bleu": ("BLEU", ".1f"),
            "tokens": ("tokens per sentence", ".1f"),
            "repeated": ("repeated", ".3f"),
        },
    ),
    "decoding": (
        "BLEU of greedy decoding and of beam search.",
        ("split",),
        {
            "greedy": ("greedy", ".1f"),
            "beam4": ("beam 4", ".1f"),
            "difference": ("difference", ".1f"),
        },
    ),
}
"""For each analysis: a description, the columns that name a row, and title and format of the
others."""


def inside(record: Record) -> list[str]:
    """A table for each analysis, with intervals."""
    settings = record["settings"]
    parts = [
        f"Analyses of the recorded model on {settings['corpus']} {settings['direction']}. In "
        "parentheses: 95 % bootstrap intervals over sentences or pairs."
    ]
    for analysis, (about, names, columns) in INSIDE.items():
        rows = [row for row in record["rows"] if row["analysis"] == analysis]
        if rows:
            lines = [
                [
                    ", ".join(_named(name, row[name], names) for name in names if name in row),
                    *(_with_interval(row, column, form) for column, (_, form) in columns.items()),
                ]
                for row in rows
            ]
            header = [
                names[0] if len(names) == 1 else "",
                *(title for title, _ in columns.values()),
            ]
            parts += [about, markdown(header, lines)]
    return parts


def _named(name: str, value: object, names: Sequence[str]) -> str:
    """A number with its name where several columns name a row; a text alone."""
    return f"{name} {value}" if isinstance(value, int) and len(names) > 1 else str(value)


def _with_interval(row: Row, column: str, form: str) -> str:
    low, high = row[f"{column}_interval"]
    return f"{row[column]:{form}} ({low:{form}} to {high:{form}})"


def depth(record: Record) -> list[str]:
    """The losses of stacks, by depth, warm-up and learning rate."""
    settings, rows = record["settings"], record["rows"]
    rates = list(dict.fromkeys(row["peak_lr"] for row in rows))
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["stack"], row["blocks"], row["warmup"]), []).append(row)
    lines = [
        [
            *(str(value) for value in group),
            f"{median(row['stream'] for row in own):.2g}",
            f"{median(row['cosine'] for row in own):.2f}",
            f"{median(row['first_grad'] / row['last_grad'] for row in own):.2g}",
            *(_losses(row["loss"] for row in own if row["peak_lr"] == rate) for rate in rates),
        ]
        for group, own in groups.items()
    ]
    return [
        "Stacks that differ in what surrounds each sublayer. Stream, cosine and gradient are "
        "measured before training: the root mean square of the last block's output, the mean "
        "cosine between its vectors, and the gradient norm of the first block divided by the "
        f"gradient norm of the last block (medians of {len(settings['seeds'])} seeds). The other "
        "columns have, for each peak learning rate, the training loss after "
        f"{settings['steps']} steps in nats: the median, with the lowest and the highest of the "
        "seeds in parentheses. A uniform "
        f"prediction has the loss {settings['uniform_loss']:.2f}.",
        markdown(
            ["", "blocks", "warm-up", "stream", "cosine", "gradient", *(f"{r:g}" for r in rates)],
            lines,
        ),
    ]


def _losses(losses: Iterable[float | None]) -> str:
    """Median and range; a run that diverged has no loss and counts as infinite."""
    numbers = [math.inf if loss is None else loss for loss in losses]
    return f"{median(numbers):.3g} ({min(numbers):.3g}–{max(numbers):.3g})"


def stream(record: Record) -> list[str]:
    """Growth of the residual stream, gradients and loss, before and after training."""
    settings, rows = record["settings"], record["rows"]
    first, last = min(settings["steps"]), max(settings["steps"])
    found = {(row["stack"], row["blocks"], row["step"]): row for row in rows}
    ends = [
        (stack, blocks, row, found[stack, blocks, last])
        for (stack, blocks, step), row in found.items()
        if step == first
    ]
    lines = [
        [
            *(stack, str(blocks)),
            *(f"{row['stream'][-1] / row['stream'][0]:.2g}" for row in (before, after)),
            *(f"{row['gradient'][0] / row['gradient'][-1]:.2g}" for row in (before, after)),
            *(f"{row['loss']:.3g}" for row in (before, after)),
        ]
        for stack, blocks, before, after in ends
    ]
    return [
        f"Encoder stacks before training and after {last} steps with the learning rate "
        f"{settings['peak_lr']:g}, one seed. Growth: the vector norm of the stream after the last "
        "block divided by that of the input. Gradient: the gradient norm of the first block "
        "divided by that of the last. Loss: in nats, on a batch that is not trained on; a uniform "
        f"prediction has the loss {settings['uniform_loss']:.2f}.",
        markdown(
            ["", "blocks", *(f"{name}, {when}" for name in ("growth", "gradient", "loss")
                             for when in ("before", "after"))],
            lines,
        ),
    ]  # fmt: skip


def ablations(record: Record) -> list[str]:
    """Results with and without label smoothing and warm-up, and their paired differences."""
    settings, rows = record["settings"], record["rows"]
    columns = {
        "valid_loss": "cross-entropy",
        "valid_exact": "exact matches",
        "correct": "probability of the correct token",
        "confidence": "confidence",
        "accuracy": "accuracy",
    }
    smoothed, sharp = (
        [row for row in rows if variant.items() <= row.items()]
        for variant in (
            {"norm": "pre", "peak_lr": settings["recipe_lr"], "warmup": True} | smoothing
            for smoothing in ({"label_smoothing": 0.1}, {"label_smoothing": 0.0})
        )
    )
    lines = [
        [title, *(f"{mean(row[column] for row in own):.3f}" for column in columns)]
        for title, own in (("with", smoothed), ("without", sharp))
    ]
    lines.append(["difference", *(_difference(smoothed, sharp, column) for column in columns)])
    parts = [
        f"A small model with the recipe {settings['recipe']} ({settings['direction']}), "
        f"{settings['steps']} steps, "
        f"evaluated on {settings['sentences']} sentences of the {settings['split']} set: means of "
        f"{len(settings['seeds'])} seeds. Differences (with minus without) are paired by seed, "
        "with the 95 % confidence interval of Student's t. The cross-entropy is without label "
        "smoothing, in nats per token; confidence is the probability of the most probable token, "
        "and accuracy how often this token is correct.",
        "**Label smoothing**",
        markdown(["", *columns.values()], lines),
        f"**Warm-up** of {settings['train.warmup']} steps, with label smoothing.",
    ]
    lines = []
    for norm in dict.fromkeys(row["norm"] for row in rows):
        for rate in sorted({row["peak_lr"] for row in rows if row["norm"] == norm}):
            variant = {"norm": norm, "peak_lr": rate, "label_smoothing": 0.1}
            own = [row for row in rows if variant.items() <= row.items()]
            warm, cold = ([r for r in own if r["warmup"] is with_] for with_ in (True, False))
            cells = [f"{norm}-norm, {rate:g}"]
            for column in ("valid_loss", "valid_exact"):
                cells += [_mean(warm, column), _mean(cold, column), _difference(warm, cold, column)]
            lines.append(cells)
    header = [
        f"{title}{name}"
        for name in ("cross-entropy", "exact matches")
        for title in ("with: ", "without: ", "difference: ")
    ]
    return [*parts, markdown(["norm, peak learning rate", *header], lines)]


def _mean(rows: Sequence[Row], column: str) -> str:
    """The mean of a column, or how many runs diverged."""
    diverged = sum(row["diverged"] for row in rows)
    return f"{diverged} diverged" if diverged else f"{mean(row[column] for row in rows):.3f}"


def _difference(rows: Sequence[Row], baseline: Sequence[Row], column: str) -> str:
    """The paired difference of a column, with its interval."""
    if any(row["diverged"] for row in [*rows, *baseline]):
        return NOTHING
    found = paired_difference([r[column] for r in rows], [r[column] for r in baseline])
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def copying(record: Record) -> list[str]:
    """The fraction of sequences repeated without an error, by variant and length."""
    settings, rows = record["settings"], record["rows"]
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == variant]
        by_length = zip(*(row["accuracy"] for row in own), strict=True)
        spreads = (_spread(numbers, digits=3) for numbers in by_length)
        lines.append([variant, f"{own[0]['parameters']:,}", f"{own[0]['steps']:,}", *spreads])
    seeds = len(settings["seeds"])
    header = ["", "parameters", "steps", *(f"{n} digits" for n in settings["lengths"])]
    return [
        f"Fraction of {settings['sequences']:,} random sequences of digits that are repeated "
        f"without an error, {seeds} seed{'s' * (seeds != 1)}: the mean, with the lowest and the "
        "highest in parentheses.",
        markdown(header, lines),
    ]


def translator(record: Record) -> list[str]:
    """BLEU of the models in Python and in the page; size and speed of the page."""
    rows, settings = record["rows"], record["settings"]
    quality, speed = [], []
    for row in rows:
        name = f"{row['model']}, {'greedy' if row['beam'] == 1 else 'beam ' + str(row['beam'])}"
        same = f"{row['same']:,} of {row['sentences']:,}" if "same" in row else NOTHING
        bleu = f"{row['test_bleu']:.2f}"
        quality.append([name, row["system"], bleu, f"{row['test_exact']:.3f}", same])
        if row["system"] == "page":
            sizes = (f"{row[size] / 1e6:.2f}" for size in ("bytes", "bytes_gzip"))
            times = (f"{row[f'seconds_to_{what}']:.2g}" for what in ("read", "first_token"))
            speed.append([name, *sizes, *times, f"{row['tokens_per_second']:.0f}"])
    header = ["", "size, MB", "compressed, MB", "reading, s", "first token, s", "tokens/s"]
    return [
        f"The test set, translated by Python with the weights of the checkpoint, by Python with "
        f"the rounded weights of the page, and by the page in {settings['browser']}. *Equal* is "
        "the number of translations that are equal: of Python rounded and not rounded, and of the "
        "page and Python rounded.",
        markdown(["", "system", "BLEU", "exact matches", "equal"], quality),
        "**Size and speed of the page**, on one thread: the median time until the first token, "
        "tokenization and encoder included, and the tokens per second of the whole translation.",
        markdown(header, speed),
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
    "ablations": ablations,
    "copying": copying,
    "translator": translator,
}
"""The renderer of each kind of record."""


if __name__ == "__main__":
    try:
        tyro.cli(Tables, prog="python -m benchmarks.tables")()
    except TfmrError as error:
        sys.exit(f"benchmarks.tables: {error}")
