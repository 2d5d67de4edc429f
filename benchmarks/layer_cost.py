"""``python -m benchmarks.layer_cost``: time and memory of the layers of table 1.

Two parts with a record each, both in fp32 on one thread of the CPU. *Length*: every layer by length
and size, with one sequence. *Parallelism*: training of recurrent layers and of self-attention on
sentences of equal length, by batch size. The layers of one setting run in turn within each round.
The times are those of the processor: what other programs take from it is not counted. Chapter 14
shows the results.
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
from benchmarks.tables import Claims, grouped, markdown, only, select
from benchmarks.timing import ratio, run_in_new_process, time_interleaved
from benchmarks.torch_layers import TorchRecurrentLayer
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
    "nn.RNN": lambda d: TorchRecurrentLayer(d, nn.RNN),
    "nn.LSTM": lambda d: TorchRecurrentLayer(d, nn.LSTM),
    "convolution": lambda d: ConvolutionalLayer(d, KERNEL),
    "dilated convolution": lambda d: ConvolutionalLayer(d, KERNEL, dilation=DILATION),
    "self-attention": lambda d: SelfAttentionLayer(d, d // D_HEAD),
    "local self-attention": lambda d: SelfAttentionLayer(d, d // D_HEAD, radius=RADIUS),
    "attention without projections": lambda d: Attention(d // D_HEAD),
    "projections and feed-forward": LinearPart,
}
"""The layers by the names in the record. The last two are the parts of an encoder block."""
PARALLEL = ("recurrent (RNN)", "recurrent (LSTM)", "nn.RNN", "nn.LSTM", "self-attention")
"""The layers of the second part."""
COUNTED_AS = {"nn.RNN": "recurrent (RNN)", "nn.LSTM": "recurrent (LSTM)"}
"""The same layers, with operations that the counter of PyTorch sees."""


@dataclass(frozen=True)
class LayerCost:
    """Measure the cost of the layers in a few minutes, and record it.

    Run this on an otherwise idle machine; the record has the load average.
    """

    parts: tuple[Part, ...] = ("length", "parallelism")
    """What to measure."""
    sizes: tuple[int, ...] = (128,)
    """Values of d_model, multiples of 64."""
    lengths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    """Numbers of positions of the first part."""
    batches: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Batch sizes of the second part."""
    length: int = 32
    """Positions of the second part."""
    d_model: int = 128
    """Size of the second part."""
    rounds: int = 9
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
                [(self.by_length, d) for d in self.sizes]
                if part == "length"
                else [(self.by_batch, self.d_model)]
            )
            for function, d_model in tqdm(cases, desc=part):
                rows += run_in_new_process(function, d_model)
                load.append(os.getloadavg()[0])
            settings = {
                "part": part,
                "kernel": KERNEL,
                "dilation": DILATION,
                "radius": RADIUS,
                "d_head": D_HEAD,
                "rounds": self.rounds,
                "precision": "fp32",
                "threads": 1,
                "load_average": [round(value, 1) for value in load],
            }
            path = self.out / f"layer-{part}.json"
            record.write(path, "layer cost", rows, settings=settings, metadata=metadata)

    def by_length(self, d_model: int) -> list[dict[str, Any]]:
        """The rows of the first part."""
        rows = []
        for length in self.lengths:
            for mode in MODES:
                rows += measure(tuple(LAYERS), mode, (1, length, d_model), self.rounds)
        return rows

    def by_batch(self, d_model: int) -> list[dict[str, Any]]:
        """The rows of the second part."""
        rows = []
        for batch in self.batches:
            shape = (batch, self.length, d_model)
            rows += measure(PARALLEL, "training", shape, self.rounds)
        return rows


def measure(
    names: Sequence[str],
    mode: str,
    shape: tuple[int, int, int],
    rounds: int,
) -> list[dict[str, Any]]:
    """A row for each layer: FLOPs of the forward pass, peak memory, and seconds per round.

    The peak memory is measured for one sequence only, else it is ``None``: its measurement takes
    longer than that of the time.
    """
    torch.set_num_threads(1)
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
            "flops": counted_flops(
                LAYERS[COUNTED_AS.get(name, name)](shape[-1]), torch.zeros(shape)
            ),
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
        start = time.process_time()
        work()
        repeats[name] = max(1, round(MIN_SECONDS / (time.process_time() - start)))

    def repeated(name: str) -> Callable[[int], None]:
        def several(_: int) -> None:
            for _ in range(repeats[name]):
                calls[name]()

        return several

    taken = time_interleaved(
        {name: repeated(name) for name in calls}, rounds=rounds, warmup=0, clock=time.process_time
    )
    return {name: [value / repeats[name] for value in taken[name]] for name in calls}


def table(rows: list[Row], settings: Row) -> list[str]:
    """Training time relative to the RNN, peak memory, and the effect of the batch size."""
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
    for d_model, own in grouped(training, "d_model").items():
        where = f"d_model {d_model}, {titles[fixed]} {own[0][fixed]}"
        parts += [
            f"Training time relative to the RNN, {where}, by {titles[axis]}:",
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
    parts = ("attention without projections", "projections and feed-forward")
    below, above = (_times(rows, *parts, length=n * 128) for n in (4, 8))
    yield f"the parts of a block cross between n = 4d and 8d: {below}, {above}", below < 1 < above
    for length in (32, 64, 128, 256, 512, 1024):
        loop = _times(rows, "recurrent (LSTM)", "nn.LSTM", length=length)
        yield f"the LSTM in a loop takes longer than nn.LSTM: {length}, {loop:.2f}", loop > 1


def _in_parallel(rows: list[Row]) -> Claims:
    """Batches."""
    batches = (1, 4, 16, 64, 256)
    rnn = [_times(rows, "nn.RNN", "self-attention", batch=batch) for batch in batches]
    yield f"with one sentence, nn.RNN is slower than attention: {rnn}", rnn[0] > 1
    yield f"with 256 sentences, it is faster: {rnn}", rnn[-1] < 1


if __name__ == "__main__":
    record.run(LayerCost)
