"""Check that the records support the statements of README.md and the chapters about them.

``python -m tools.claims`` runs :func:`check`. A failure means that a record was measured again and
a sentence, or a model, no longer matches it; it is not an error in the code.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.copying import VARIANTS
from benchmarks.depth import CONNECTIONS
from benchmarks.heads import ablations
from benchmarks.paired import Difference, paired_difference
from benchmarks.prefixes import PREFIXES
from benchmarks.record import Record, read_all
from benchmarks.scaling import Row, fitted, points
from benchmarks.speed import OWN, PEAK
from benchmarks.tables import README, fastest, render
from benchmarks.timing import ratio
from benchmarks.trained import MODEL, weights_fingerprint
from tfmr import checkpoint
from tfmr.family.tasks import TASKS
from tfmr.model import Transformer
from tfmr.records import FOLDER

Claims = Iterator[tuple[str, bool]]
"""Statements, and whether they hold."""

SEEDED = (
    "speed",
    "versus",
    "scores",
    "line",
    "multi30k",
    "depth",
    "stream",
    "replay",
    "ablations",
    "recall",
    "copying",
    "distance",
    "family",
    "parallel",
    "scaling law",
)
"""The kinds of records whose results depend on a seed."""


def check(folder: Path = FOLDER, readme: Path = README) -> list[str]:
    """The claims that do not hold; empty if all do."""
    records = read_all(folder)
    claims = [
        *rendering(readme, records),
        *provenance(records),
        *speed(records),
        *quality(records["quality"]),
        *steps(records),
        *published(records["multi30k"]),
        *heads(records["heads"]),
        *recall(records["recall"]),
        *inside(records["inside"], records["heads"]),
        *copying(records["copying"]),
        *distance(records["distance"]),
        *layer_cost(records["layer-length"]["rows"]),
        *layer_parallelism(records["layer-parallelism"]["rows"]),
        *fits(records),
        *attention(records["cost/attention"]["rows"]),
        *decoding(records["cost/decoding"]["rows"]),
        *training(records["cost/training"]["rows"]),
        *networks(records["depth-feed-forward"]["rows"]),
        *blocks(records["depth-encoder"]),
        *warm_up(records["depth-warm-up"]["rows"]),
        *effects(records["ablations"]["rows"]),
        *family(records),
        *parallel(records["parallel"]),
        *scaling_law(records["scaling-law"]["rows"]),
        *step_memory(records["step-memory"]["rows"]),
        *utilisation(records["utilisation"]["rows"]),
    ]
    return [claim for claim, holds in claims if not holds]


def rendering(readme: Path, records: dict[str, Record]) -> Claims:
    """README.md has the rendered tables."""
    text = readme.read_text("utf-8")
    yield "README.md is up to date: run python -m benchmarks.tables", render(text, records) == text


def provenance(records: dict[str, Record]) -> Claims:
    """Every record can be measured again."""
    for name, record in records.items():
        metadata = record["metadata"]
        command = metadata["command"].startswith("python -m benchmarks.")
        yield f"{name}: the metadata name the command", command
        complete = metadata["commit"] and metadata["hardware"]["processor"]
        yield f"{name}: the metadata name commit and processor", bool(complete)
        if record["kind"] in SEEDED:
            names = {*record["settings"], *(key for row in record["rows"] for key in row)}
            yield f"{name}: the record has its seeds", bool(names & {"seed", "seeds"})


def speed(records: dict[str, Record]) -> Claims:
    """The statements about speed in README.md."""
    for name, record in records.items():
        if record["kind"] == "speed":
            for task, precision, lead in leads(record["rows"]):
                claim = f"{name}: tfmr is the fastest system in {task}, {precision}: {lead:.2f}"
                yield claim, lead > 1
    profile = records["profile"]["rows"]
    for task in dict.fromkeys(row["task"] for row in profile):
        shares = {row["kind"]: row["share"] for row in profile if row["task"] == task}
        largest = max(shares, key=lambda kind: shares[kind])
        claim = f"profile: matrix multiplication takes the largest share of {task}"
        yield claim, largest == "matrix multiplication"
        if task.startswith("train"):
            share = shares["matrix multiplication"]
            yield f"profile: matmuls take more than two thirds of {task}", share > 2 / 3
    if "versus" in records:
        for row in records["versus"]["rows"]:
            claim = f"versus: {row['task']}, {row['precision']} is at most 5 % slower"
            yield f"{claim}: {row['ratio']}", row["ratio"] <= 1.05


def leads(rows: list[Row]) -> Iterator[tuple[str, str, float]]:
    """Task, precision, and the smallest median ratio of a peer's time to tfmr's."""
    groups = dict.fromkeys((row["task"], row.get("dropout"), row["precision"]) for row in rows)
    for task, dropout, precision in groups:
        own_group = [
            row
            for row in rows
            if (row["task"], row.get("dropout"), row["precision"]) == (task, dropout, precision)
        ]
        systems = dict.fromkeys(row["system"] for row in own_group if row["system"] != PEAK)
        best = {s: fastest(r for r in own_group if r["system"] == s) for s in systems}
        if OWN in best and len(best) > 1:
            own = best.pop(OWN)["seconds"]
            lead = min(ratio(row["seconds"], own).median for row in best.values())
            yield task, precision, lead


def quality(record: Record) -> Claims:
    """More steps and a higher BLEU in the same time, for every seed recorded."""
    yield "quality: all systems use the recipe's learning rate", not record["settings"]["peak_lrs"]
    for minutes in record["settings"]["minutes"]:
        rows = [row for row in record["rows"] if row["minutes"] == minutes]
        for own in (row for row in rows if row["system"] == OWN):
            for row in rows:
                if row["system"] != OWN and row["seed"] == own["seed"]:
                    name = f"quality: {row['system']} after {minutes:g} minutes"
                    yield f"{name} has taken fewer steps than tfmr", row["steps"] < own["steps"]
                    lower = row["test_bleu_beam4"] < own["test_bleu_beam4"]
                    yield f"{name} has a lower BLEU than tfmr", lower


def steps(records: dict[str, Record]) -> Claims:
    """The numbers of steps after the same time differ between records and between seeds."""
    for minutes in {row["minutes"] for row in records["quality"]["rows"]}:
        runs = {
            row["seed"]: row["step"]
            for row in records["multi30k"]["rows"]
            if (row["recipe"], row["direction"], row["minutes"]) == ("multi30k", "de-en", minutes)
        }
        for row in records["quality"]["rows"]:
            if runs and (row["system"], row["minutes"]) == (OWN, minutes):
                claim = f"quality: after {minutes:g} minutes fewer steps than in multi30k.json"
                yield claim, row["steps"] < min(runs.values())
        if runs:
            claim = f"multi30k: seed 2 took the fewest steps in {minutes:g} minutes"
            yield claim, runs[2] < min(runs[0], runs[1])


def published(record: Record) -> Claims:
    """Chapter 13 and README.md compare this run with a published score."""
    for row in record["rows"]:
        if (row["direction"], row["minutes"]) == ("en-de", 20):
            found = (row["seed"], row["step"], round(row["test_bleu_beam4"], 1))
            claim = f"multi30k: English to German, seed, steps and BLEU after 20 minutes: {found}"
            yield claim, found == (0, 5059, 37.0)


def heads(record: Record) -> Claims:
    """The record belongs to the recorded model and is complete."""
    same = record["settings"]["model"] == weights_fingerprint(MODEL)
    yield "heads: the record is that of the model: run python -m benchmarks.heads", same
    model = checkpoint.load(MODEL).model()
    assert isinstance(model, Transformer)
    names = [
        {name: value for name, value in row.items() if not name.startswith("valid")}
        for row in record["rows"]
    ]
    yield "heads: a row for every ablation", names == [name for name, _ in ablations(model)]
    worst = {
        kind: min(row["valid_bleu"] for row in record["rows"] if row["ablated"] == kind)
        for kind in ("head", "sublayer")
    }
    yield "heads: no head costs as much as the worst sublayer", worst["head"] > worst["sublayer"]


def recall(record: Record) -> Claims:
    """What chapters 1 and 2 state about all seeds, and what an RNN and a gate near 1 recall."""
    rows = record["rows"]
    settings = record["settings"]
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        found.setdefault((row["network"], row["distance"]), []).append(row["accuracy"])
    complete = all(len(seeds) == len(settings["seeds"]) == 5 for seeds in found.values())
    yield "recall: five seeds of every network and distance", complete
    for network, distance, low, high in (
        ("RNN", 5, 0.99, 1.0),
        ("RNN", 60, 0.0, 0.35),
        ("LSTM, forget bias 1", 60, 0.0, 0.35),
        ("LSTM, forget bias 5", 60, 0.95, 1.0),
        ("GRU", 60, 0.0, 0.35),
        ("GRU, update bias 5", 60, 0.95, 1.0),
    ):
        seeds = found[network, distance]
        claim = f"recall: {network} at distance {distance} is in {low}..{high} for every seed"
        yield f"{claim}: {seeds}", low <= min(seeds) and max(seeds) <= high


def inside(record: Record, heads: Record) -> Claims:
    """The record belongs to the model of ``heads`` and agrees with it where both measure."""
    same = record["settings"]["model"] == heads["settings"]["model"]
    yield "inside: the record is that of the model: run python -m benchmarks.inside", same
    intact = heads["rows"][0]
    *_, last = (row for row in record["rows"] if row["analysis"] == "logit lens")
    equal = abs(last["loss"] - intact["valid_loss"]) < 1e-3
    yield "inside: the lens ends with the loss of heads.json", equal and last["agreement"] == 1
    decoding = {row["split"]: row for row in record["rows"] if row["analysis"] == "decoding"}
    equal = abs(decoding["validation"]["greedy"] - intact["valid_bleu"]) < 0.05
    yield "inside: greedy decoding has the BLEU of heads.json", equal
    for split, row in decoding.items():
        ahead = row["difference_interval"][0] > 0
        yield f"inside: beam search is ahead of greedy decoding on the {split} set", ahead
    stream = [row for row in record["rows"] if row.get("part") == "encoder stream"]
    noun = min(row["effect"] for row in stream if row["positions"] == "noun")
    yield "inside: the difference stays at the noun's position in the encoder", noun > 0.98
    effects = {
        (row["part"], row["layer"], row["head"]): row["effect"]
        for row in record["rows"]
        if "head" in row
    }
    largest = max(effects, key=lambda key: effects[key])
    same_head = largest == ("decoder cross-attention head", 3, 4)
    yield "inside: cross-attention 3, head 4 carries the largest part of the difference", same_head
    replaced = {
        (row["layer"], row["output"]): row
        for row in record["rows"]
        if row["analysis"] == "feed-forward"
    }
    zero, mean, by_token = (
        replaced[1, name]["loss_increase"] for name in ("zero", "mean", "mean of the input token")
    )
    yield "inside: a constant does not replace feed-forward 1", mean > 0.9 * zero
    yield "inside: a mean per input token replaces nine tenths of it", by_token < 0.1 * zero
    greedy = {
        (row["ablated"] == "nothing", row["repetition"] == "allowed"): row["bleu"]
        for row in record["rows"]
        if row["analysis"] == "repetition"
    }
    regained = (greedy[False, False] - greedy[False, True]) / (
        greedy[True, True] - greedy[False, True]
    )
    claim = (
        f"inside: repetition is more than two thirds of the BLEU lost without it: {regained:.2f}"
    )
    yield claim, regained > 2 / 3


def copying(record: Record) -> Claims:
    """With every seed, attention repeats more of the long sequences than one vector."""
    lengths = record["settings"]["lengths"]
    scores: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
    for row in record["rows"]:
        scores[row["variant"]].append(row["accuracy"])
    counts = {len(rows) for rows in scores.values()}
    yield "copying: every variant has every seed", counts == {len(record["settings"]["seeds"])}
    attention = scores.pop("attention")
    for variant, rows in scores.items():
        for k, length in enumerate(lengths):
            if length >= 6:
                claim = f"copying: attention repeats more of {length} digits than {variant}"
                yield claim, min(row[k] for row in attention) > max(row[k] for row in rows)


def distance(record: Record) -> Claims:
    """The statements of chapter 14 about the accuracy of the layers by distance, for every seed."""
    distances = record["settings"]["distances"]
    for row in record["rows"]:
        layer, by_distance = row["layer"], dict(zip(distances, row["accuracy"], strict=True))
        name = f"distance: {layer}, seed {row['seed']}"
        if layer in ("recurrent (LSTM)", "dilated convolution", "self-attention"):
            yield f"{name}: at least 0.99 at every distance", min(by_distance.values()) > 0.99
        elif layer == "recurrent (RNN)":
            yield f"{name}: at most 0.53 at every distance", max(by_distance.values()) < 0.53
        else:
            inside = [value for n, value in by_distance.items() if n < row["reach"]]
            outside = [value for n, value in by_distance.items() if n > row["reach"]]
            yield f"{name}: at least 0.99 below its reach", min(inside) > 0.99
            yield f"{name}: chance level beyond its reach", max(outside) < 0.3


def layer_cost(rows: list[Row]) -> Claims:
    """The statements of chapter 14 about the time and the memory of the layers."""

    def times(layer: str, other: str, **case: object) -> float:
        a, b = (found(rows, layer=name, mode="training", **case) for name in (layer, other))
        return ratio(a["seconds"], b["seconds"]).median

    for row in rows:
        if row["mode"] == "training" and row["layer"] == "self-attention":
            case = {name: row[name] for name in ("d_model", "length")}
            share = times("self-attention", "recurrent (RNN)", **case)
            claim = f"layer-length: {case}: attention is faster than the RNN: {share:.2f}"
            yield claim, share < 1
    parts = ("attention without projections", "projections and feed-forward")
    for d_model in (64, 128):
        below, above = (times(*parts, d_model=d_model, length=n * d_model) for n in (4, 8))
        claim = f"layer-length: d {d_model}: the parts of a block cross between n = 4d and 8d"
        yield f"{claim}: {below:.2f}, {above:.2f}", below < 1 < above
    for length in (32, 64, 128, 512, 1024):
        local = times("local self-attention", "self-attention", d_model=128, length=length)
        claim = (
            f"layer-length: local attention is the faster one from 512 on: {length}, {local:.2f}"
        )
        yield claim, (local < 1) == (length >= 512)
    for length in (32, 64, 128, 256, 512, 1024):
        for mode, largest in (
            ("forward", "local self-attention"),
            ("training", "recurrent (LSTM)"),
        ):
            case = {"mode": mode, "d_model": 128, "length": length}
            peaks = {
                row["layer"]: row["bytes"]
                for row in rows
                if case.items() <= row.items() and row["layer"] not in parts
            }
            least, most = (f(peaks, key=peaks.__getitem__) for f in (min, max))
            claim = f"layer-length: {case}: the RNN needs the least memory: {least}"
            yield claim, least == "recurrent (RNN)"
            claim = f"layer-length: {case}: {largest} needs the most memory: {most}"
            yield claim, most == largest


def layer_parallelism(rows: list[Row]) -> Claims:
    """The statements of chapter 14 about batches and threads."""

    def times(layer: str, batch: int) -> float:
        a, b = (
            found(rows, layer=name, batch=batch, threads=1) for name in (layer, "self-attention")
        )
        return ratio(a["seconds"], b["seconds"]).median

    batches = (1, 4, 16, 64, 256)
    rnn = [times("recurrent (RNN)", batch) for batch in batches]
    falling = rnn == sorted(rnn, reverse=True)
    yield "layer-parallelism: a larger batch favours the RNN", falling
    yield "layer-parallelism: with one sentence, 2.2 times the time", round(rnn[0], 1) == 2.2
    yield "layer-parallelism: with 256 sentences, less than half of it", rnn[-1] < 0.5
    lstm = [times("recurrent (LSTM)", batch) for batch in batches[2:]]
    claim = "layer-parallelism: the LSTM takes 1.8 to 3.1 times the time from 16 sentences on"
    yield claim, (round(min(lstm), 1), round(max(lstm), 1)) == (1.8, 3.1)

    def gain(layer: str, batch: int) -> float:
        two, one = (found(rows, layer=layer, batch=batch, threads=t) for t in (2, 1))
        return ratio(two["seconds"], one["seconds"]).median

    for layer in ("recurrent (RNN)", "recurrent (LSTM)", "self-attention"):
        claim = f"layer-parallelism: {layer}: no gain from two threads with one sentence"
        yield claim, round(gain(layer, 1), 2) >= 1
    for batch, *stated in ((16, 0.66, 0.93), (256, 0.53, 0.66)):
        gains = [gain(layer, batch) for layer in ("self-attention", "recurrent (RNN)")]
        claim = f"layer-parallelism: {batch} sentences: two threads take {stated}: {gains}"
        yield claim, [round(value, 2) for value in gains] == stated
    for batch in batches[1:]:
        claim = f"layer-parallelism: {batch} sentences: two threads favour self-attention"
        yield claim, gain("self-attention", batch) < gain("recurrent (RNN)", batch)


def found(rows: list[Row], **selection: object) -> Row:
    """The only row with the values ``selection``."""
    (row,) = (row for row in rows if selection.items() <= row.items())
    return row


def fits(records: dict[str, Record]) -> Claims:
    """The power laws of the scaling records follow from their points."""
    for name, record in records.items():
        if record["kind"] == "scaling":
            rows = record["rows"]
            for row in rows:
                if row["what"] == "fit":
                    selection = {key: row[key] for key in ("kind", "mode") if key in row}
                    again = fitted(rows, row["quantity"], row["fitted_from"], **selection)
                    yield f"{name}: the fit {selection} follows from its points", row == again


def attention(rows: list[Row]) -> Claims:
    """Naive attention is quadratic, fused attention in time only, local attention in neither."""
    ranges = {
        ("bytes", "naive"): (1.95, 2.05),
        ("bytes", "fused"): (0.7, 1.15),
        ("bytes", "local"): (0.9, 1.1),
        ("seconds", "naive"): (1.7, 3),
        ("seconds", "fused"): (1.6, 2.3),
        ("seconds", "local"): (0.75, 1.3),
    }
    for mode in ("forward", "training"):
        for (quantity, kind), (low, high) in ranges.items():
            found = exponent(rows, quantity, kind=kind, mode=mode)
            claim = (
                f"cost/attention: {quantity} of {kind}, {mode}: exponent {found} in {low}..{high}"
            )
            yield claim, low < found < high
        naive, fused, local = (
            dict(points(rows, "seconds", kind=kind, mode=mode))[4096]
            for kind in ("naive", "fused", "local")
        )
        faster = naive > 2 * fused > 4 * local
        yield f"cost/attention: at 4096, {mode}, fused and local each at least halve", faster


def decoding(rows: list[Row]) -> Claims:
    """The longer the sentence, the more time the cache saves."""
    naive, cached = (dict(points(rows, "seconds", kind=kind)) for kind in ("naive", "cached"))
    saved = [naive[size] / cached[size] for size in (16, 64, 256)]
    yield "cost/decoding: the cache saves more on longer sentences", saved == sorted(saved)
    yield "cost/decoding: at 256 tokens more than twice as much as at 16", saved[-1] > 2 * saved[0]
    slow, fast = (exponent(rows, "seconds", kind=kind) for kind in ("naive", "cached"))
    yield "cost/decoding: naive grows faster than cached", slow > fast + 0.3
    yield "cost/decoding: cached is about linear", 0.8 < fast < 1.35


def training(rows: list[Row]) -> Claims:
    """An epoch takes time in proportion to the corpus; more pairs reduce overfitting."""
    linear = abs(exponent(rows, "seconds") - 1) < 0.15
    yield "cost/training: the time of an epoch is proportional to the corpus", linear
    losses = [loss for _, loss in points(rows, "valid_loss")]
    falling = losses[:4] == sorted(losses[:4], reverse=True)
    yield "cost/training: validation loss falls with the size, up to half of the corpus", falling
    yield "cost/training: and is level from there", abs(losses[4] / losses[3] - 1) < 0.02
    gaps = [a - b for a, (_, b) in zip(losses, points(rows, "train_loss"), strict=True)]
    yield "cost/training: the generalisation gap shrinks", gaps == sorted(gaps, reverse=True)
    scores = [score for _, score in points(rows, "valid_bleu")]
    rising = min(scores[2:]) > scores[1] > scores[0] + 3
    yield "cost/training: BLEU rises with the size", rising


def exponent(rows: list[Row], quantity: str, **selection: str) -> float:
    """The fitted exponent of ``quantity``."""
    (law,) = (
        row
        for row in rows
        if row["what"] == "fit"
        and row["quantity"] == quantity
        and all(row[name] == value for name, value in selection.items())
    )
    return float(law["exponent"])


def networks(rows: list[Row]) -> Claims:
    """The statements of chapter 7 about stacks of feed-forward networks.

    A run has trained if its loss is below 0.5 nats; the counts are those of three learning rates.
    """
    expected = {(stack, blocks): [5, 5, 5] for stack in CONNECTIONS for blocks in (4, 12)}
    expected["plain, Xavier", 12] = [5, 3, 2]
    expected |= {
        ("plain, Xavier", 32): [0, 0, 0],
        ("plain", 32): [5, 0, 0],
        ("residual", 32): [0, 0, 1],
        ("scaled residual", 32): [5, 5, 0],
        ("post-norm", 32): [5, 4, 0],
        ("pre-norm", 32): [5, 5, 5],
    }
    for (stack, blocks), counts in expected.items():
        found = [
            sum(loss < 0.5 for loss in losses(rows, stack=stack, blocks=blocks, peak_lr=peak_lr))
            for peak_lr in (3e-4, 1e-3, 3e-3)
        ]
        claim = f"depth-feed-forward: {stack}, {blocks} networks: {found} runs trained"
        yield f"{claim}, expected {counts}", found == counts
    deep = [row for row in rows if row["blocks"] == 32]
    ratios = [row["first_grad"] / row["last_grad"] for row in deep if row["stack"] == "plain"]
    kept = min(ratios) > 1 / 4 and max(ratios) < 4
    yield "depth-feed-forward: the gradient of the plain stack does not vanish", kept
    parallel = min(row["cosine"] for row in deep if row["stack"].startswith("plain"))
    yield "depth-feed-forward: the vectors of plain stacks are nearly parallel", parallel > 0.86


def blocks(record: Record) -> Claims:
    """The statements of chapter 7 about stacks of encoder blocks."""
    rows, chance = record["rows"], record["settings"]["uniform_loss"]
    for stack in ("plain", "post-norm"):
        near = min(losses(rows, stack=stack)) > chance - 0.1
        yield f"depth-encoder: {stack} remains near chance level", near
    large = min(losses(rows, stack="residual")) > 200
    yield "depth-encoder: the loss with a residual connection alone is above 200", large
    for stack in ("scaled residual", "pre-norm"):
        yield f"depth-encoder: {stack} learns", max(losses(rows, stack=stack)) < 1.1


def warm_up(rows: list[Row]) -> Claims:
    """The statements of chapter 7 about warm-up."""
    for stack in ("post-norm", "pre-norm"):
        for n_blocks in (6, 12):
            for peak_lr in (3e-4, 1e-3, 3e-3):
                settings = {"stack": stack, "blocks": n_blocks, "peak_lr": peak_lr}
                with_warm_up, without = (
                    losses(rows, **settings, warmup=steps) for steps in (200, 0)
                )
                helps = paired_difference(with_warm_up, without).high < 0
                expected = (stack, n_blocks, peak_lr) == ("post-norm", 12, 1e-3)
                claim = f"depth-warm-up: {stack}, {n_blocks} blocks, {peak_lr:g}"
                yield (
                    f"{claim}: warm-up {'helps' if expected else 'does not help'}",
                    (helps == expected),
                )


def effects(rows: list[Row]) -> Claims:
    """The statements of chapter 11 about label smoothing and warm-up."""

    def difference(quantity: str, baseline: Row, **changed: object) -> Difference:
        recipe = {"norm": "pre", "label_smoothing": 0.1, "peak_lr": 3e-3, "warmup": True}
        with_it = select(rows, quantity, **recipe | changed)
        return paired_difference(with_it, select(rows, quantity, **recipe | changed | baseline))

    plain: Row = {"label_smoothing": 0.0}
    yield "ablations: label smoothing raises the loss", difference("valid_loss", plain).low > 0
    lower = difference("confidence", plain).high < 0
    yield "ablations: label smoothing lowers the confidence", lower
    yield "ablations: its effect on accuracy is noise", difference("accuracy", plain).is_noise
    fewer = difference("valid_exact", plain).high < 0
    yield "ablations: label smoothing costs exact matches", fewer
    for norm, peak_lr in (("pre", 1e-3), ("pre", 3e-3), ("pre", 1e-2), ("post", 3e-3)):
        loss, exact = (
            difference(quantity, {"warmup": False}, norm=norm, peak_lr=peak_lr)
            for quantity in ("valid_loss", "valid_exact")
        )
        claim = f"ablations: {norm}-norm, {peak_lr:g}: warm-up"
        if peak_lr == 1e-2:
            yield f"{claim} helps", loss.high < 0 < exact.low
        else:
            yield f"{claim} costs", exact.high < 0 < loss.low
    yield "ablations: no run diverged", not any(row["diverged"] for row in rows)


def losses(rows: list[Row], **selection: object) -> list[float]:
    """The losses of the selected runs, in the order of the seeds."""
    return select(rows, "loss", **selection)


def select(rows: list[Row], quantity: str, **selection: object) -> list[float]:
    """``quantity`` of the rows with the values ``selection``, in the order of the seeds."""
    chosen = [row for row in rows if all(row[name] == value for name, value in selection.items())]
    return [row[quantity] for row in sorted(chosen, key=lambda row: row["seed"])]


def family(records: dict[str, Record]) -> Claims:
    """Every model of the family is ahead of its baseline, seed by seed."""

    def values(name: str, model: str, column: str) -> list[Any]:
        rows = records[f"family-{name}"]["rows"]
        return [row[column] for row in rows if row["model"] == model]

    ahead = paired_difference(
        values("digits", "ViT", "accuracy"), values("digits", "logistic regression", "accuracy")
    )
    yield f"family-digits: ViT is ahead of logistic regression: {ahead.low}", ahead.low > 0
    for name, model, column in (
        ("gpt-pocket", "GPT", "ahead_of_best_n_gram_nats"),
        ("gpt-multi30k", "GPT", "ahead_of_best_n_gram_nats"),
        ("llama-multi30k", "Llama", "ahead_of_best_n_gram_nats"),
        ("bert-pocket", "BERT", "ahead_of_n_gram_nats"),
        ("bert-multi30k", "BERT", "ahead_of_n_gram_nats"),
    ):
        least = min(low for low, _ in values(name, model, column))
        yield f"family-{name}: {model} is ahead of the n-gram model: {least}", least > 0
    original = values("changes", "2017", "loss")
    signs = {"pre-norm": -1, "separate output matrix": -1, "all changes": -1}
    for name in dict.fromkeys(row["model"] for row in records["family-changes"]["rows"]):
        if name == "2017":
            continue
        effect = paired_difference(values("changes", name, "loss"), original)
        sign = 0 if effect.is_noise else math.copysign(1, effect.mean)
        claim = f"family-changes: {name}: {effect.low:.3f} to {effect.high:.3f}"
        yield claim, sign == signs.get(name, 0)
    for task in TASKS:
        worst = min(values("tasks", "T5 with prefixes", task))
        best = max(values("tasks", "T5 without prefixes", task))
        yield f"family-tasks: the prefix improves {task}: {best} to {worst}", worst > best
    for language in PREFIXES:
        worst = min(values("t5-multi30k", "T5 with prefixes", language))
        best = max(values("t5-multi30k", "T5 without prefixes", language))
        yield f"family-t5-multi30k: the prefix improves {language}: {best} to {worst}", worst > best


def parallel(record: Record) -> Claims:
    """The statements of chapter 16 about the memory and communication of DDP and FSDP."""
    settings, rows = record["settings"], record["rows"]
    whole, blocks = 4 * settings["parameters"], 4 * settings["block_parameters"]
    runs = [row for row in rows if row["what"] == "run"]
    for run in runs:
        name = {key: run[key] for key in ("method", "processes", "batches")}
        p, batches = run["processes"], run["batches"]
        claim = f"parallel: {run['method']}, {p} processes, {batches} batches"
        shards = p if run["method"] == "FSDP" else 1
        expected = [[size * whole // shards] * p for size in (1, 1, 2)]
        stored = [run[part] for part in ("weights", "gradients", "moments")]
        yield f"{claim}: bytes stored: {stored}", stored == expected
        single = found(rows, what="run", method="single", batches=p * batches)
        difference = max(
            abs(own / other - 1) for own, other in zip(run["losses"], single["losses"], strict=True)
        )
        yield f"{claim}: the losses are those of one process: {difference}", difference < 1e-6
        sizes = {
            row["operation"]: row["bytes"]
            for row in rows
            if row["what"] == "collective" and name.items() <= row.items()
        }
        large = {
            operation: sum(size for size in volumes if size > 1000)
            for operation, volumes in sizes.items()
        }
        if run["method"] == "FSDP":
            counted = {
                "all-reduce": 0,
                "all-gather": batches * (whole + blocks),
                "reduce-scatter": batches * whole,
            }
        else:
            counted = {"all-reduce": whole} if p > 1 else {}
        yield f"{claim}: bytes of collective operations: {large}", large == counted
        # gloo implements reduce-scatter as an all-reduce.
        twice = counted.get("all-reduce", 0) + counted.get("reduce-scatter", 0)
        volume = (p - 1) / p * (2 * twice + counted.get("all-gather", 0))
        sent = all(volume <= one <= 1.01 * volume for one in run["sent"])
        yield f"{claim}: bytes sent: {run['sent']}, expected {volume:.0f} to 1 % more", sent


def scaling_law(rows: list[Row]) -> Claims:
    """The statements of chapter 16 about the loss of small GPTs."""
    widths = sorted({row["width"] for row in rows})
    steps = sorted({row["steps"] for row in rows})
    average = {
        (width, n): mean(select(rows, "loss", width=width, steps=n))
        for width in widths
        for n in steps
    }
    for width in widths:
        curve = [average[width, n] for n in steps]
        falling = curve == sorted(curve, reverse=True)
        yield f"scaling-law: the loss falls with the tokens, width {width}", falling
    for n in steps:
        gain = average[widths[0], n] - average[widths[-1], n]
        yield f"scaling-law: the widest model is ahead after {n} steps: {gain:.3f}", gain > 0
    yield (
        "scaling-law: at least five sizes and three seeds",
        (len(widths) >= 5 and len({row["seed"] for row in rows}) >= 3),
    )


def step_memory(rows: list[Row]) -> Claims:
    """The statements of chapter 16 about the peak memory of a training step."""
    for row in rows:
        kept, released = (
            row[name] / row["predicted"] for name in ("gradients_kept", "gradients_released")
        )
        claim = f"step-memory: {row['model']}: {kept:.2f} and {released:.2f} of the prediction"
        yield claim, 1 <= kept < 1.2 and released < kept


def utilisation(rows: list[Row]) -> Claims:
    """The statements of chapter 16 about the share of the peak."""
    shares = {(row["model"], row["tokens"]): row["share_of_peak"] for row in rows[1:]}
    gpts = [share for (model, _), share in shares.items() if model.startswith("GPT")]
    base = [share for (model, _), share in sorted(shares.items()) if model == "base"]
    yield "utilisation: wider models reach a larger share", gpts[-1] > gpts[0] + 0.1
    yield "utilisation: no step reaches the peak", max(shares.values()) < 1
    more = len(base) == 2 and base[0] < base[1]
    yield f"utilisation: a larger batch reaches a larger share: {base}", more
