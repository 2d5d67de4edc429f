"""The tables of :mod:`benchmarks.tables` about trained models and small experiments."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, median

from benchmarks.markdown import NOTHING, Row, markdown, spread
from benchmarks.paired import paired_difference
from benchmarks.record import Record
from benchmarks.timing import ratio


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
        "Decrease in BLEU / increase in cross-entropy, in nats per token, when a sublayer or one "
        f"of its heads is ablated, on the {settings['sentences']:,} sentences of the "
        f"{settings['split']} set of {settings['corpus']} {settings['direction']}. Without "
        f"ablation, the model reaches {intact['valid_bleu']:.1f} BLEU (greedy decoding) and a "
        f"cross-entropy of {intact['valid_loss']:.3f}.",
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
        "Accuracy of recalling the first symbol at the last position, by the distance between "
        f"these two positions, after {settings['steps']} training steps, {len(settings['seeds'])} "
        "seeds: the median, with the lowest and the highest in parentheses. Chance level is "
        f"{settings['chance']:.2f}.",
        markdown(["", "parameters", *(str(distance) for distance in distances)], lines),
    ]


INSIDE: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, str]]]] = {
    "logit lens": (
        "Logit lens: what the decoder predicts after each block (0: the embeddings). Agreement is "
        "the fraction of positions at which the most probable token is the same as after the last "
        "block; probability and rank are those of the token that is the most probable after the "
        "last block. *Most probable: input token* is the fraction of positions at which the most "
        "probable token is the input token.",
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
        "Activation patching with pairs of German sentences that differ in one noun: noun 1 "
        "in the first sentence, noun 2 in the second. For each sentence of a pair, the logit "
        "difference is the logit of the translation of noun 1 minus the logit of the translation "
        "of noun 2. The effect of a patch is the fraction of the gap between the two logit "
        "differences that the patch closes. *Before* and *after* are all positions before or after "
        "the noun, patched together; "
        "*last* is the last position of the decoder.",
        ("part", "depth", "layer", "head", "positions"),
        {"effect": ("effect", ".3f")},
    ),
    "feed-forward": (
        "Each row states what replaces the output of one feed-forward network of the decoder: "
        "zeros (*zero*), its mean over the tokens of 4,000 training sentences (*mean*), or its "
        "mean over those tokens that equal the input token (*mean of the input token*). In the "
        "row *own*, nothing is replaced. The columns give the increase in cross-entropy and the "
        "fraction of positions at which the most probable next token is the input token.",
        ("layer", "output"),
        {
            "loss_increase": ("increase in cross-entropy", ".3f"),
            "input_token": ("most probable: input token", ".4f"),
        },
    ),
    "repetition": (
        "Greedy decoding of the validation set; each row names the ablated sublayer and states "
        "whether a token may follow itself. *Repeated* is the fraction of tokens that equal the "
        "previous token. It is computed after the translation has been tokenised again, so it can "
        "exceed 0 even where repetition is forbidden.",
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
    title = "block" if name == "layer" else name
    return f"{title} {value}" if isinstance(value, int) and len(names) > 1 else str(value)


def _with_interval(row: Row, column: str, form: str) -> str:
    low, high = row[f"{column}_interval"]
    return f"{row[column]:{form}} ({low:{form}} to {high:{form}})"


_SCALED = (
    "*Scaled*: the last matrix of each sublayer is divided by the square root of the number of "
    "sublayers."
)
DEPTH = {
    "encoder": (
        f"Stacks of encoder blocks that differ in the connection around each sublayer. {_SCALED}"
    ),
    "feed-forward": (
        "Stacks of feed-forward networks that differ in the connection around each sublayer, in "
        "the number of blocks and, in the rows *Xavier*, in the initialisation (Xavier instead of "
        f"He). {_SCALED}"
    ),
    "warm-up": (
        "Stacks of encoder blocks with Xavier initialisation that differ in the placement of layer "
        "norm, in the number of blocks and in the warm-up."
    ),
}
"""What differs between the stacks of each experiment."""


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
        f"{DEPTH[settings['experiment']]} "
        "*Stream*, *cosine* and *gradient* are measured before training: the root mean square of "
        "the last block's output, the mean cosine between its vectors, and the gradient norm of "
        "the first block divided by the gradient norm of the last block (medians of "
        f"{len(settings['seeds'])} seeds). The columns headed by a peak learning rate give the "
        f"training loss, in nats, averaged over the last {settings['mean_of_last_steps']} of "
        f"{settings['steps']} steps: the median, with the lowest and the highest of the seeds in "
        f"parentheses. A uniform prediction has a loss of {settings['uniform_loss']:.2f}.",
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
        f"Encoder stacks before training and after {last} training steps with a learning rate of "
        f"{settings['peak_lr']:g}, one seed. *Growth*: the vector norm of the residual stream "
        "after the last block divided by the vector norm of the input. *Gradient*: the gradient "
        "norm of the first block divided by that of the last. *Loss*: in nats, on a batch that was "
        "not used for training; a uniform prediction has a loss of "
        f"{settings['uniform_loss']:.2f}.",
        markdown(
            ["", "blocks", *(f"{name}, {when}" for name in ("growth", "gradient", "loss")
                             for when in ("before", "after"))],
            lines,
        ),
    ]  # fmt: skip


def replay(record: Record) -> list[str]:
    """Losses, sharpness of the cross-attention and a translation, step by step."""
    settings = record["settings"]
    lines = [
        [
            f"{row['step']:,}",
            *(f"{row[name]:.3f}" for name in ("train_loss", "valid_loss", "entropy")),
            row["output"],
        ]
        for row in record["rows"]
    ]
    return [
        f"The recipe `{settings['recipe']}`, {settings['direction']}, one seed. Losses in nats per "
        f"token on {settings['sentences']} sentence pairs of the training set and as many of the "
        "validation set, without label smoothing or dropout. "
        "*Entropy*: the mean, over the target positions, of the entropy of the cross-attention "
        f"weights of decoder block {settings['block'] + 1}, averaged over the heads, in nats, for "
        f"the sentence “{settings['source']}” and its reference “{settings['reference']}”.",
        markdown(["step", "training loss", "validation loss", "entropy", "translation"], lines),
    ]


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
        f"A small model with the recipe `{settings['recipe']}` ({settings['direction']}), "
        f"{settings['steps']} steps, "
        f"evaluated on {settings['sentences']} sentences of the {settings['split']} set: means of "
        f"{len(settings['seeds'])} seeds. Differences (with minus without) are paired by seed, "
        "with a 95 % confidence interval from Student's t distribution. The cross-entropy is "
        "without label smoothing, in nats per token; *confidence* is the probability of the most "
        "probable token, *accuracy* the fraction of positions at which this token is correct, and "
        "*exact matches* the fraction of translations that equal the reference.",
        "**Label smoothing**",
        markdown(["", *columns.values()], lines),
        f"**Warm-up.** *With*: {settings['train.warmup']} steps; *without*: none. Both have label "
        "smoothing.",
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
    return [*parts, markdown(["layer norm, peak learning rate", *header], lines)]


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
        spreads = (spread(numbers, digits=3) for numbers in by_length)
        lines.append([variant, f"{own[0]['parameters']:,}", f"{own[0]['steps']:,}", *spreads])
    seeds = len(settings["seeds"])
    header = ["", "parameters", "steps", *(f"{n} digits" for n in settings["lengths"])]
    return [
        f"Fraction of {settings['sequences']:,} random digit sequences that the model repeats "
        f"without an error, {seeds} seed{'s' * (seeds != 1)}: the mean, with the lowest and the "
        "highest in parentheses.",
        markdown(header, lines),
    ]


def distance(record: Record) -> list[str]:
    """Accuracy by layer type and distance: mean and range over the seeds."""
    settings, rows = record["settings"], record["rows"]
    lines = []
    for layer in dict.fromkeys(row["layer"] for row in rows):
        own = [row for row in rows if row["layer"] == layer]
        by_distance = zip(*(row["accuracy"] for row in own), strict=True)
        reach = own[0]["reach"]
        cells = [NOTHING if reach is None else str(reach), f"{own[0]['parameters']:,}"]
        lines.append([layer, *cells, *(spread(values, digits=2) for values in by_distance)])
    header = ["", "reach", "parameters", *(str(n) for n in settings["distances"])]
    return [
        "Accuracy of recalling the first symbol at the last position, by the distance between "
        f"these two positions, after {settings['steps']} training steps, {len(settings['seeds'])} "
        "seeds: the mean, with the lowest and the highest in parentheses. Reach is the largest "
        f"distance that {settings['blocks']} blocks connect (–: unlimited). Chance level is "
        f"{settings['chance']:.2f}.",
        markdown(header, lines),
    ]


def layer_cost(record: Record) -> list[str]:
    """Training time relative to the RNN, peak memory, and the effect of batch and threads."""
    settings, rows = record["settings"], record["rows"]
    parts = [
        f"{settings['precision']}, {settings['rounds']} interleaved rounds; the load average of "
        f"the machine was at most {max(settings['load_average'])}. Each entry of a time table is "
        "the median, over the rounds, of the training time of a layer divided by the training time "
        "of the RNN."
    ]
    training = [row for row in rows if row["mode"] == "training"]
    axis, fixed = ("length", "batch") if settings["part"] == "length" else ("batch", "length")
    title_of = {"length": "length", "batch": "batch size"}
    for d_model, threads in dict.fromkeys((row["d_model"], row["threads"]) for row in training):
        group = [row for row in training if (row["d_model"], row["threads"]) == (d_model, threads)]
        sizes = list(dict.fromkeys(row[axis] for row in group))
        names = list(dict.fromkeys(row["layer"] for row in group))
        found = {(row["layer"], row[axis]): row for row in group}
        lines = [
            [
                name,
                *(
                    f"{ratio(found[name, n]['seconds'], found[names[0], n]['seconds']).median:.2f}"
                    for n in sizes
                ),
            ]
            for name in names
        ]
        size = f"d_model {d_model}, {title_of[fixed]} {group[0][fixed]}"
        run = f"{threads} thread{'s' * (threads != 1)}, by {title_of[axis]}:"
        title = f"Training time relative to the RNN, {size}, {run}"
        parts += [title, markdown(["", *map(str, sizes)], lines)]
        if axis == "length":
            for mode, what in (("forward", "the forward pass"), ("training", "training")):
                peaks = {
                    (row["layer"], row["length"]): row["bytes"]
                    for row in rows
                    if (row["mode"], row["d_model"]) == (mode, d_model)
                }
                memory = [
                    [name, *(f"{peaks[name, n] / 2**20:.2f}" for n in sizes)] for name in names
                ]
                title = f"Peak memory of {what} in MiB, {size}, by length:"
                parts += [title, markdown(["", *map(str, sizes)], memory)]
    return parts


LANGUAGES = (
    " The columns *German* and *French* give the BLEU of the translations from English. The row "
    "*inputs without translation* scores the English sentences themselves."
)
LOSS = " The loss is the cross-entropy in nats per token."
TITLES = {"peak_lr": "peak learning rate"}
TASKS = " The columns *copy*, *reverse* and *sort* give the fraction of outputs without an error."


def family(record: Record) -> list[str]:
    """Each measured number by model, over the seeds."""
    settings, rows = record["settings"], record["rows"]
    plain = ("model", "seed", "steps", "parameters")
    columns = [
        name
        for name in dict.fromkeys(key for row in rows for key in row)
        if name not in plain and all(isinstance(r.get(name, 0.0), float) for r in rows)
    ]
    tasks, languages = "tasks" in settings, "prefixes" in settings
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        sizes = [f"{own[0][name]:,}" if name in own[0] else NOTHING for name in plain[2:]]
        found = [[row[name] for row in own if name in row] for name in columns]
        digits = 2 if languages else 4
        lines.append([model, *sizes, *(spread(numbers, digits=digits) for numbers in found)])
    titles = (TITLES.get(name, name.capitalize() if languages else name) for name in columns)
    seeds = len(settings["seeds"])
    return [
        f"The experiment `{settings['experiment']}`, evaluated on the test data, {seeds} "
        f"seed{'s' * (seeds != 1)}: the mean, with the lowest and the highest in parentheses."
        f"{tasks * TASKS}{languages * LANGUAGES}{('loss' in columns) * LOSS}",
        markdown(["", *plain[2:], *titles], lines),
    ]


def parallel(record: Record) -> list[str]:
    """What each process stores, and the volume of its collective operations."""
    settings, rows = record["settings"], record["rows"]
    runs = [row for row in rows if row["what"] == "run"]
    lines = []
    for run in runs:
        name = {key: run[key] for key in ("method", "processes", "batches")}
        volumes = {
            row["operation"]: sum(row["bytes"])
            for row in rows
            if row["what"] == "collective" and name.items() <= row.items()
        }
        single = next(
            row
            for row in runs
            if row["processes"] == 1 and row["batches"] == run["processes"] * run["batches"]
        )
        pairs = zip(run["losses"], single["losses"], strict=True)
        difference = max(abs(own / other - 1) for own, other in pairs)
        stored = (max(run[part]) for part in ("weights", "gradients", "moments"))
        counted = (volumes.get(name, 0) for name in ("all-reduce", "all-gather", "reduce-scatter"))
        lines.append(
            [
                run["method"],
                *(str(run[key]) for key in ("processes", "batches")),
                *(f"{size / 1000:,.1f}" for size in (*stored, *counted, max(run["sent"]))),
                f"{difference:.0e}" if run is not single else NOTHING,
            ]
        )
    return [
        f"A model with {settings['parameters']:,} weights, {settings['steps']} training steps. The "
        "columns give, in kB per process, the weights, gradients and moments that a process stores "
        "after the last step, the total size of the tensors in each kind of collective operation "
        "of this step, and the amount of data that the process sent in this step. The last column "
        "is the largest relative difference between the losses and those of a single process with "
        "the same batches.",
        markdown(
            [
                *("", "processes", "batches per process", "weights", "gradients", "moments"),
                *("all-reduce", "all-gather", "reduce-scatter", "sent", "loss difference"),
            ],
            lines,
        ),
    ]


def scaling_law(record: Record) -> list[str]:
    """The loss by weights and training steps, over the seeds."""
    settings, rows = record["settings"], record["rows"]
    steps = sorted({row["steps"] for row in rows})
    lines = []
    for width in dict.fromkeys(row["width"] for row in rows):
        own = [row for row in rows if row["width"] == width]
        cells = [spread([r["loss"] for r in own if r["steps"] == n], digits=3) for n in steps]
        lines.append([str(width), f"{own[0]['weights']:,}", *cells])
    header = ["d_model", "weights", *(f"{n:,} steps" for n in steps)]
    return [
        "Test loss, in nats per token, of GPTs with "
        f"{settings['n_layers']} blocks, trained on captions ({settings['corpus']}), in "
        f"batches of {settings['batch']}; {len(settings['seeds'])} seeds: the mean, with the "
        "lowest and the highest in parentheses. The weights exclude the embeddings.",
        markdown(header, lines),
    ]


def step_memory(record: Record) -> list[str]:
    """The predicted and the measured memory of a training step."""
    settings = record["settings"]
    columns = ("predicted", "gradients_kept", "gradients_released")
    lines = [
        [row["model"], f"{row['parameters']:,}", *(f"{row[name] / 1e9:.2f}" for name in columns)]
        for row in record["rows"]
    ]
    return [
        f"Memory, in GB, of a training step in {settings['precision']} with Adam, for a batch of "
        f"{settings['batch']} texts, sentence pairs or images (texts and sentences of "
        f"{settings['length']} tokens): the prediction of the formulas of chapter 16, and the "
        "measured peak of the second step, once with gradients that remain in memory and once "
        "with gradients that are released before the forward pass.",
        markdown(
            ["", "parameters", "predicted", "gradients kept", "gradients released"],
            lines,
        ),
    ]


def utilisation(record: Record) -> list[str]:
    """The share of the peak that a training step reaches."""
    settings = record["settings"]
    peak, *rows = record["rows"]
    lines = [
        [
            "Transformer base" if row["model"] == "base" else row["model"],
            f"{row['parameters']:,}",
            f"{row['tokens']:,}",
            f"{row['flops'] / 1e9:.2f}",
            f"{row['share_of_peak']:.2f}",
        ]
        for row in rows
    ]
    rate = peak["flops"] / median(peak["seconds"]) / 1e9
    size = f"{settings['peak_size']:,}"
    return [
        f"Rate of a training step in {settings['precision']}, with Adam, divided by the peak rate: "
        f"the median of {settings['rounds']} interleaved rounds. The peak rate, {rate:.0f} "
        f"GFLOP/s, is reached by a multiplication of two {size} × {size} matrices. The load "
        f"average of the machine was {settings['load_average']}.",
        markdown(["", "parameters", "tokens", "GFLOP", "share of the peak rate"], lines),
    ]


def translator(record: Record) -> list[str]:
    """BLEU of the models in Python and in the page; size and speed of the page."""
    rows, settings = record["rows"], record["settings"]
    quality, speed = [], []
    for row in rows:
        name = f"{row['model']}, {'greedy' if row['beam'] == 1 else 'beam ' + str(row['beam'])}"
        same = f"{row['same']:,}" if "same" in row else NOTHING
        scores = (f"{row['test_bleu']:.2f}", f"{row['test_exact']:.3f}")
        quality.append([name, row["system"], f"{row['sentences']:,}", *scores, same])
        if row["system"] == "page":
            sizes = (f"{row[size] / 1e6:.2f}" for size in ("bytes", "bytes_gzip"))
            times = (f"{row[f'seconds_to_{what}']:.2g}" for what in ("read", "first_token"))
            speed.append([name, *sizes, *times, f"{row['tokens_per_second']:,.0f}"])
    header = ["", "size, MB", "compressed, MB", "reading, s", "first token, s", "tokens/s"]
    return [
        "Sentences of the test sets, in their original order, translated by Python with "
        "the weights of the checkpoint, by Python with the rounded weights of the translator page, "
        "and by the "
        f"page in {settings['browser']}. *Equal* is the number of identical translations: it "
        "compares the rows *Python, rounded* with *Python*, and the rows *page* with *Python, "
        "rounded*.",
        markdown(["", "system", "sentences", "BLEU", "exact matches", "equal"], quality),
        "**Size of the model files, and speed of the page**, which computes on one thread: the "
        "time to read the model from its downloaded file, the median time until the first token, "
        "tokenisation and encoder included, and the tokens per second of the whole translation.",
        markdown(header, speed),
    ]
