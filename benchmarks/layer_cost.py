"""``python -m benchmarks.layer_cost``: time and memory of the layers of table 1.

Two parts with a record each, both in fp32 on the CPU. *Length*: every layer by length and size,
with one sequence and one thread. *Parallelism*: training of recurrent layers and of self-attention
on sentences of equal length, by batch size and number of threads. The layers of one setting run in
turn within each round. Chapter 14 shows the results.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from einops import rearrange
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.scaling import peak_bytes
from benchmarks.tables import Claims, count, grouped, markdown, only, select
from benchmarks.timing import ratio, run_in_new_process, time_interleaved
from tfmr.attention import fused_attention
from tfmr.complexity import counted_flops
from tfmr.errors import require
from tfmr.layers import FeedForward
from tfmr.sequence_layers import ConvolutionalLayer, RecurrentLayer, SelfAttentionLayer

KERNEL, RADIUS, D_HEAD = 3, 16, 64
DILATION = KERNEL**2
"""The dilation of the third layer of a stack with the dilations 1, 3, 9, …."""
Part = Literal["length", "parallelism"]
MODES = ("forward", "training")
"""Training includes the backward pass."""
MIN_SECONDS = 0.02
"""A call that takes less time than this is repeated within each round."""


class Attention(nn.Module):
    """The attention function alone: queries, keys and values are the input itself."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the heads, concatenated."""
        split = rearrange(x, "batch n (heads d) -> batch heads n d", heads=self.heads)
        out = fused_attention(split, split, split)
        return rearrange(out, "batch heads n d -> batch n (heads d)")


class LinearPart(nn.Module):
    """The matrix multiplications of an encoder block that do not depend on other positions."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.feed_forward = FeedForward(d_model, 4 * d_model)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of the outputs."""
        return torch.stack([w(x) for w in (*self.projections, self.feed_forward)]).sum(dim=0)


LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "recurrent (RNN)": lambda d: RecurrentLayer(d, "rnn"),
    "recurrent (LSTM)": lambda d: RecurrentLayer(d, "lstm"),
    "convolution": lambda d: ConvolutionalLayer(d, KERNEL),
    "dilated convolution": lambda d: ConvolutionalLayer(d, KERNEL, dilation=DILATION),
    "self-attention": lambda d: SelfAttentionLayer(d, d // D_HEAD),
    "local self-attention": lambda d: SelfAttentionLayer(d, d // D_HEAD, radius=RADIUS),
    "attention without projections": lambda d: Attention(d // D_HEAD),
    "projections and feed-forward": LinearPart,
}
"""The layers by the names in the record. The last two are the parts of an encoder block."""
PARALLEL = ("recurrent (RNN)", "recurrent (LSTM)", "self-attention")
"""The layers of the second part."""


@dataclass(frozen=True)
class LayerCost:
    """Measure the cost of the layers in a few minutes, and record it.

    Run this on an otherwise idle machine; the record has the load average.
    """

    parts: tuple[Part, ...] = ("length", "parallelism")
    """What to measure."""
    sizes: tuple[int, ...] = (64, 128)
    """Values of d_model, multiples of 64."""
    lengths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    """Numbers of positions of the first part."""
    batches: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Batch sizes of the second part."""
    threads: tuple[int, ...] = (1, 2)
    """Numbers of threads of the second part."""
    length: int = 32
    """Positions of the second part."""
    d_model: int = 128
    """Size of the second part."""
    rounds: int = 5
    """Measured rounds."""
    out: Path = record.FOLDER
    """The folder of the records."""

    def __call__(self) -> None:
        """Measure and record."""
        for d_model in (*self.sizes, self.d_model):
            require(
                d_model >= D_HEAD and d_model % D_HEAD == 0,
                f"expected sizes that are multiples of {D_HEAD}, got {d_model}",
            )
        torch.set_num_threads(1)
        # Collected first: writing a record would mark the checkout as changed.
        metadata = record.collect_metadata()
        for part in self.parts:
            load = [os.getloadavg()[0]]
            rows: list[dict[str, Any]] = []
            cases = (
                [(self.by_length, d, 1) for d in self.sizes]
                if part == "length"
                else [(self.by_batch, self.d_model, threads) for threads in self.threads]
            )
            for function, d_model, threads in tqdm(cases, desc=part):
                rows += run_in_new_process(function, d_model, threads)
                load.append(os.getloadavg()[0])
            settings = {
                "part": part,
                "kernel": KERNEL,
                "dilation": DILATION,
                "radius": RADIUS,
                "d_head": D_HEAD,
                "rounds": self.rounds,
                "precision": "fp32",
                "load_average": [round(value, 1) for value in load],
            }
            path = self.out / f"layer-{part}.json"
            record.write(path, "layer cost", rows, settings=settings, metadata=metadata)

    def by_length(self, d_model: int, threads: int) -> list[dict[str, Any]]:
        """The rows of the first part."""
        rows = []
        for length in self.lengths:
            for mode in MODES:
                rows += measure(tuple(LAYERS), mode, (1, length, d_model), threads,
                                self.rounds)  # fmt: skip
        return rows

    def by_batch(self, d_model: int, threads: int) -> list[dict[str, Any]]:
        """The rows of the second part."""
        rows = []
        for batch in self.batches:
            shape = (batch, self.length, d_model)
            rows += measure(PARALLEL, "training", shape, threads, self.rounds)
        return rows


def measure(
    names: Sequence[str],
    mode: str,
    shape: tuple[int, int, int],
    threads: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """A row for each layer: FLOPs of the forward pass, peak memory, and seconds per round.

    The peak memory is measured for one sequence only, else it is ``None``: its measurement takes
    longer than that of the time.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layers = {name: LAYERS[name](shape[-1]) for name in names}
    calls = {name: call(layer, mode, shape) for name, layer in layers.items()}
    seconds = seconds_by_round(calls, rounds)
    return [
        {
            "layer": name,
            "mode": mode,
            "batch": shape[0],
            "length": shape[1],
            "d_model": shape[2],
            "threads": threads,
            "flops": counted_flops(layers[name], torch.zeros(shape)),
            "bytes": peak_bytes(calls[name]) if shape[0] == 1 else None,
            "seconds": [float(f"{value:.4g}") for value in seconds[name]],
        }
        for name in names
    ]


def call(layer: nn.Module, mode: str, shape: tuple[int, int, int]) -> Callable[[], None]:
    """A call of ``layer``, with its backward pass in the mode "training"."""
    x = torch.randn(shape, requires_grad=mode == "training")
    direction = torch.randn(shape)
    inputs = [x, *layer.parameters()]

    def work() -> None:
        with torch.set_grad_enabled(mode == "training"):
            out = layer(x)
        if mode == "training":
            torch.autograd.grad(out, inputs, direction)

    return work


def seconds_by_round(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """The seconds of one call of each function, in interleaved rounds."""
    repeats = {}
    for name, work in calls.items():
        work()
        start = time.perf_counter()
        work()
        repeats[name] = max(1, round(MIN_SECONDS / (time.perf_counter() - start)))

    def repeated(name: str) -> Callable[[int], None]:
        def several(_: int) -> None:
            for _ in range(repeats[name]):
                calls[name]()

        return several

    taken = time_interleaved({name: repeated(name) for name in calls}, rounds=rounds, warmup=0)
    return {name: [value / repeats[name] for value in taken[name]] for name in calls}


def table(rows: list[Row], settings: Row) -> list[str]:
    """Training time relative to the RNN, peak memory, and the effect of batch and threads."""
    parts = [
        f"{settings['precision']}, {settings['rounds']} interleaved rounds; the load average of "
        f"the machine was at most {max(settings['load_average'])}. Each entry of a time table is "
        "the median, over the rounds, of the training time of a layer divided by the training time "
        "of the RNN."
    ]
    axis, fixed = ("length", "batch") if settings["part"] == "length" else ("batch", "length")
    titles = {"length": "length", "batch": "batch size"}

    def by_size(own: list[Row], cell: Callable[[Row, Row], str]) -> str:
        """A line for each layer, a cell for each size, computed with the row of the first layer."""
        sizes, layers = grouped(own, axis), list(grouped(own, "layer"))
        lines = [
            [layer, *(cell(only(at, layer=layer), at[0]) for at in sizes.values())]
            for layer in layers
        ]
        return markdown(["", *map(str, sizes)], lines)

    training = select(rows, mode="training")
    for (d_model, threads), own in grouped(training, "d_model", "threads").items():
        where = f"d_model {d_model}, {titles[fixed]} {own[0][fixed]}"
        parts += [
            f"Training time relative to the RNN, {where}, {count(threads, 'thread')}, by "
            f"{titles[axis]}:",
            by_size(own, lambda row, rnn: f"{ratio(row['seconds'], rnn['seconds']).median:.2f}"),
        ]
        for mode, what in (("forward", "the forward pass"), ("training", "training")):
            if axis == "length":
                peaks = select(rows, mode=mode, d_model=d_model)
                parts += [
                    f"Peak memory of {what} in MiB, {where}, by length:",
                    by_size(peaks, lambda row, _: f"{row['bytes'] / 2**20:.2f}"),
                ]
    return parts


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 14 about the layers."""
    yield from (_by_length if settings["part"] == "length" else _in_parallel)(rows)


def _times(rows: list[Row], layer: str, other: str, **case: object) -> float:
    """The training time of a layer divided by that of another."""
    a, b = (only(rows, layer=name, mode="training", **case) for name in (layer, other))
    return ratio(a["seconds"], b["seconds"]).median


def _by_length(rows: list[Row]) -> Claims:
    """Time and memory."""
    for row in select(rows, mode="training", layer="self-attention"):
        case = {name: row[name] for name in ("d_model", "length")}
        share = _times(rows, "self-attention", "recurrent (RNN)", **case)
        yield f"{case}: attention is faster than the RNN: {share:.2f}", share < 1
    parts = ("attention without projections", "projections and feed-forward")
    for d_model in (64, 128):
        below, above = (_times(rows, *parts, d_model=d_model, length=n * d_model) for n in (4, 8))
        claim = f"d {d_model}: the parts of a block cross between n = 4d and 8d"
        yield f"{claim}: {below:.2f}, {above:.2f}", below < 1 < above
    for length in (32, 64, 128, 512, 1024):
        local = _times(rows, "local self-attention", "self-attention", d_model=128, length=length)
        claim = f"local attention is the faster one from 512 on: {length}, {local:.2f}"
        yield claim, (local < 1) == (length >= 512)
    largest = {"forward": "local self-attention", "training": "recurrent (LSTM)"}
    for length in (32, 64, 128, 256, 512, 1024):
        for mode in MODES:
            case = {"mode": mode, "d_model": 128, "length": length}
            layers = [row for row in select(rows, **case) if row["layer"] not in parts]
            least, most = (f(layers, key=lambda row: row["bytes"])["layer"] for f in (min, max))
            claim = f"{case}: the RNN needs the least memory: {least}"
            yield claim, least == "recurrent (RNN)"
            yield f"{case}: {largest[mode]} needs the most memory: {most}", most == largest[mode]


def _in_parallel(rows: list[Row]) -> Claims:
    """Batches and threads."""

    def times(layer: str, batch: int) -> float:
        return _times(rows, layer, "self-attention", batch=batch, threads=1)

    batches = (1, 4, 16, 64, 256)
    rnn = [times("recurrent (RNN)", batch) for batch in batches]
    yield "a larger batch favours the RNN", rnn == sorted(rnn, reverse=True)
    yield "with one sentence, 2.2 times the time", round(rnn[0], 1) == 2.2
    yield "with 256 sentences, less than half of it", rnn[-1] < 0.5
    lstm = [times("recurrent (LSTM)", batch) for batch in batches[2:]]
    claim = "the LSTM takes 1.8 to 3.1 times the time from 16 sentences on"
    yield claim, (round(min(lstm), 1), round(max(lstm), 1)) == (1.8, 3.1)

    def gain(layer: str, batch: int) -> float:
        two, one = (only(rows, layer=layer, batch=batch, threads=t) for t in (2, 1))
        return ratio(two["seconds"], one["seconds"]).median

    for layer in PARALLEL:
        claim = f"{layer}: no gain from two threads with one sentence"
        yield claim, round(gain(layer, 1), 2) >= 1
    for batch, *stated in ((16, 0.66, 0.93), (256, 0.53, 0.66)):
        gains = [gain(layer, batch) for layer in ("self-attention", "recurrent (RNN)")]
        claim = f"{batch} sentences: two threads take {stated}: {gains}"
        yield claim, [round(value, 2) for value in gains] == stated
    for batch in batches[1:]:
        claim = f"{batch} sentences: two threads favour self-attention"
        yield claim, gain("self-attention", batch) < gain("recurrent (RNN)", batch)


if __name__ == "__main__":
    record.run(LayerCost)
