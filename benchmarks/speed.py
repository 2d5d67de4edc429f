"""``python -m benchmarks.speed``: speed of training and decoding, compared with other libraries.

All systems have the same model sizes, batches, optimiser and number of threads. Before the
measurement, each peer is given the weights of one of tfmr's models and must compute the same
hidden states. The systems run in turn within each round, one process per task
(:mod:`benchmarks.timing`).

Every system is measured in fp32 and in bf16. On a CPU, PyTorch's process-wide setting
``float32_matmul_precision`` selects the library that multiplies fp32 matrices. tfmr chooses it
itself (:mod:`tfmr.dtype`). A peer is measured in fp32 at both ends of that setting, as long as the
result has the accuracy of fp32, and reported at the faster one.
"""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks import record
from benchmarks.peers import PEERS, build
from benchmarks.peers.ct2 import COMPUTE, CTranslate2
from benchmarks.record import Record, Row
from benchmarks.systems import Precision, Work, decoding, decoding_outside_pytorch, training
from benchmarks.tables import NOTHING, README, Claims, grouped, markdown, select
from benchmarks.timing import device_clock, ratio, run_in_new_process, time_interleaved
from benchmarks.workload import (
    SETTINGS,
    decoding_flops,
    source_batches,
    token_pairs,
    training_batches,
    training_flops,
)
from tfmr.config import TransformerConfig
from tfmr.data.batches import IdPair, collate
from tfmr.dtype import Arithmetic, find_units
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.train.config import TrainConfig
from tfmr.translator import Translator

Task = Literal["train A", "train B", "greedy", "beam", "single"]
TASKS: tuple[Task, ...] = ("train A", "train B", "greedy", "beam", "single")

OWN = "tfmr"
PEAK = "peak"
"""Listed among the systems: one large matrix multiplication, the highest speed of the machine."""
SIZE = 2048
"""Rows and columns of the matrices of :data:`PEAK`."""
ROUNDS = {"train A": 5, "train B": 5, "greedy": 11, "beam": 5, "single": 11}
"""The default number of measured rounds: more for tasks with short rounds."""
DROPOUT = 0.1
STEPS = 30
"""Generated tokens per sentence."""
SENTENCES = {"greedy": 64, "beam": 64, "single": 8}
"""Sentences per round; those of ``"single"`` are translated one at a time."""
BEAM = 4
HIGHEST, MEDIUM = Arithmetic("fp32", "highest"), Arithmetic("fp32", "medium")
"""The ends of PyTorch's setting for fp32 matrices."""
CHOSEN = "chosen by tfmr"
UNUSED = "not PyTorch"
DECODER = "ctranslate2"
"""A system that only decodes, on a CPU; it is not written in PyTorch."""
FP32_ERROR = 1e-6
"""The largest relative error of a matrix multiplication that counts as fp32."""
EXAMPLE = collate([([5, 6, 7, 8], [9, 10, 11]), ([12, 13], [14, 15, 16, 17, 18])])
"""The batch on which all systems must agree."""


class Variant(NamedTuple):
    """A system in one of its settings."""

    system: str
    precision: Precision | Literal["int8"]
    float32_matmul_precision: str
    """:data:`CHOSEN`, :data:`UNUSED`, or the value of PyTorch's setting."""


@dataclass
class PreparedTask:
    """What every system does in round ``k``, and how much work that is."""

    work: dict[tuple[str, Precision | Literal["int8"]], Work] = field(default_factory=dict)
    """By system and precision."""
    parameters: dict[str, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    """Target tokens of each round, without padding."""
    flops: list[float] = field(default_factory=list)
    """Operations of the matrix multiplications of each round."""


@dataclass(frozen=True)
class Speed:
    """Measure training and decoding of tfmr, torch.nn.Transformer, Marian and x-transformers.

    Every system is measured in fp32 and in bf16. CTranslate2 only decodes on a CPU, and is measured
    in fp32 and with 8-bit integers (int8). Writes a record; python -m benchmarks.tables
    renders it. Run this on an otherwise idle machine. To install the peers:
    pip install -e '.[bench]'
    """

    tasks: tuple[Task, ...] = TASKS
    """Tasks to measure."""
    peers: tuple[str, ...] = (*PEERS, DECODER)
    """Systems to compare tfmr with: torch, marian, x-transformers, ctranslate2."""
    precisions: tuple[Precision, ...] | None = None
    """fp32, bf16 or both. Default: both, but fp32 alone on a CPU without bf16 instructions."""
    rounds: int | None = None
    """Measured rounds per task, after one warm-up round. Default: 5 to 11, by task."""
    device: str = "cpu"
    """cpu or cuda."""
    threads: int | None = None
    """CPU threads. Default: PyTorch's."""
    seed: int = 0
    """Seed of weights, batches and sentences."""
    out: Path | None = None
    """The record. Default: speed.json, or speed-cuda.json, in this folder."""

    def __call__(self) -> None:
        """Measure and record."""
        require(
            self.rounds is None or self.rounds >= 1,
            f"expected --rounds 1 or more, got {self.rounds}",
        )
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        metadata = record.collect_metadata(self.device)
        pairs, data = token_pairs()
        rows: list[dict[str, Any]] = []
        for task in self.tasks:
            rows += run_in_new_process(self.measure, task, pairs)
        settings = {
            **{"seed": self.seed, "device": self.device, "data": data, "dropout": DROPOUT},
            **{"max_new_tokens": STEPS, "beam": BEAM, "sentences": SENTENCES},
            "matmul_error": {
                each.matmul: matmul_error(each, self.device) for each in (HIGHEST, MEDIUM)
            },
            "bf16": self._describe_bf16(),
        }
        name = "speed" if self.device == "cpu" else f"speed-{self.device}"
        path = self.out or record.FOLDER / f"{name}.json"
        record.write(path, "speed", rows, settings=settings, metadata=metadata)

    def measure(self, task: Task, pairs: list[IdPair]) -> list[dict[str, Any]]:
        """A row of the record for every system in every setting."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        prepared = self.prepare(task, pairs)
        exact = exact_settings(self.device)
        functions: dict[Variant, Callable[[int], object]] = {}
        for (system, precision), work in prepared.work.items():
            if system == OWN:
                functions[Variant(system, precision, CHOSEN)] = work
                continue
            if system == CTranslate2.title:
                functions[Variant(system, precision, UNUSED)] = work
                continue
            for setting in exact if precision == "fp32" else (MEDIUM,):
                variant = Variant(system, precision, setting.matmul)
                functions[variant] = functools.partial(_at, setting, work)
        rounds = self._rounds(task)
        with tqdm(total=len(functions) * (rounds + 1), desc=task, leave=False) as bar:

            def show(variant: Variant) -> None:
                bar.set_postfix_str(variant.system)
                bar.update()

            seconds = time_interleaved(
                functions, rounds=rounds, clock=device_clock(self.device), on_call=show
            )
        # The first round is the warm-up, which is not measured.
        rows = results(seconds, prepared.tokens[1:], prepared.flops[1:], 2.0 * SIZE**3)
        for row in rows:
            if row["system"] in prepared.parameters:
                row["parameters"] = prepared.parameters[row["system"]]
        return [{"task": task, **row} for row in rows]

    def prepare(self, task: Task, pairs: list[IdPair]) -> PreparedTask:
        """Build the models and the batches of a task."""
        if task.startswith("train"):
            return self._prepare_training(task, pairs)
        return self._prepare_decoding(task, pairs)

    def _rounds(self, task: str) -> int:
        return ROUNDS[task] if self.rounds is None else self.rounds

    def _precisions(self) -> tuple[Precision, ...]:
        return default_precisions(self.device) if self.precisions is None else self.precisions

    def _describe_bf16(self) -> str:
        """How the systems use bf16, for the record."""
        if "bf16" not in self._precisions():
            return "not measured: no bf16 instructions, or excluded by --precisions"
        return (
            "training: torch.autocast; decoding: tfmr prepare(model, dtype=torch.bfloat16), "
            "x-transformers torch.autocast, the others model.to(torch.bfloat16)"
        )

    def _prepare_training(self, task: str, pairs: list[IdPair]) -> PreparedTask:
        """One training step on batch ``k``, with one copy of the model per precision."""
        setting = SETTINGS[task[-1]]
        batches = training_batches(setting, pairs, self._rounds(task) + 1, self.seed)
        config = setting.config()
        prepared = PreparedTask(
            tokens=[batch.n_tokens for batch in batches],
            flops=[training_flops(config, batch) for batch in batches],
        )
        # A long warm-up keeps the weights close to their initial values.
        train = TrainConfig(warmup=4000, seed=self.seed)
        for name, model in self._models(config).items():
            prepared.parameters[name] = model.count_parameters()
            for precision in self._precisions():
                work = training(copy.deepcopy(model), batches, train, precision)
                prepared.work[name, precision] = work
        self._add_peak(prepared)
        return prepared

    def _prepare_decoding(self, task: str, pairs: list[IdPair]) -> PreparedTask:
        """Translations of as many tokens as the model has positions."""
        config = SETTINGS["A"].config(max_length=STEPS)
        number = SENTENCES[task]
        rows = 1 if task == "single" else number
        count = (self._rounds(task) + 1) * number // rows
        drawn = [s.to(self.device) for s in source_batches(pairs, rows, STEPS, count, self.seed)]
        turns = [drawn[k : k + number // rows] for k in range(0, count, number // rows)]
        beam = BEAM if task == "beam" else 1
        prepared = PreparedTask(
            tokens=[number * STEPS] * len(turns),
            flops=[sum(decoding_flops(config, s, STEPS, beam) for s in turn) for turn in turns],
        )
        models = self._models(config)
        if DECODER in self.peers and self.device == "cpu":
            own = models[OWN]
            assert isinstance(own, Transformer)
            for kind in COMPUTE:
                decoder = CTranslate2(own, kind)
                decoder.check_agreement(own, EXAMPLE)
                prepared.work[decoder.title, kind] = decoding_outside_pytorch(
                    decoder, turns, STEPS, beam
                )
                prepared.parameters[decoder.title] = own.count_parameters()
        for name, model in models.items():
            for precision in self._precisions():
                work = decoding(model, turns, STEPS, beam, precision)
                if work is not None:
                    prepared.work[name, precision] = work
                    prepared.parameters[name] = model.count_parameters()
        self._add_peak(prepared)
        return prepared

    def _add_peak(self, prepared: PreparedTask) -> None:
        """Add the multiplication of two large matrices in every precision."""
        for precision in self._precisions():
            dtype = Arithmetic(precision).dtype
            a, b = (torch.randn(SIZE, SIZE, device=self.device).to(dtype) for _ in range(2))
            prepared.work[PEAK, precision] = functools.partial(_multiply, a, b)

    def _models(self, config: TransformerConfig) -> dict[str, Translator]:
        """Every system by its title, tfmr first; the peers after they passed their checks."""
        torch.manual_seed(self.seed)
        models: dict[str, Translator] = {OWN: Transformer(replace(config, dropout=DROPOUT))}
        for name in self.peers:
            if name == DECODER:
                continue
            with HIGHEST.applied():
                build(name, config, DROPOUT).check_agreement(EXAMPLE)
            peer = build(name, config, DROPOUT)
            models[peer.title] = peer
        return {name: model.to(self.device) for name, model in models.items()}


def results(
    seconds: Mapping[Variant, Sequence[float]],
    tokens: Sequence[int],
    flops: Sequence[float],
    peak_flops: float,
) -> list[dict[str, Any]]:
    """A row for each system in each setting.

    ``share_of_peak`` is the rate of the system's matrix multiplications divided by the rate of
    :data:`PEAK` in the same precision.

    Args:
        seconds: of each round.
        tokens: target tokens of each round.
        flops: operations of each round.
        peak_flops: operations of :data:`PEAK` in each round.
    """
    peaks: dict[str, float] = {}
    for variant, times in seconds.items():
        if variant.system == PEAK:
            gflops = peak_flops / median(times) / 1e9
            peaks[variant.precision] = max(gflops, peaks.get(variant.precision, 0.0))
    rows = []
    for variant, times in seconds.items():
        row: dict[str, Any] = {
            **variant._asdict(),
            "seconds": [round(second, 5) for second in times],
        }
        if variant.system == PEAK:
            row["gflops"] = round(peak_flops / median(times) / 1e9, 1)
        else:
            row["tokens_per_second"] = round(_rate(tokens, times), 1)
            if variant.precision in peaks:
                share = _rate(flops, times) / 1e9 / peaks[variant.precision]
                row["share_of_peak"] = round(share, 3)
        rows.append(row)
    return rows


def _multiply(a: Tensor, b: Tensor, _: int) -> Tensor:
    return a @ b


def _rate(amounts: Iterable[int | float], seconds: Iterable[float]) -> float:
    """The median over the rounds of amount per second."""
    return median(amount / second for amount, second in zip(amounts, seconds, strict=True))


def _at(setting: Arithmetic, work: Work, k: int) -> None:
    """``work`` at a value of ``float32_matmul_precision``."""
    with setting.applied():
        work(k)


def default_precisions(device: str) -> tuple[Precision, ...]:
    """fp32, and bf16 if the device has instructions for it."""
    return ("fp32", "bf16") if find_units(torch.device(device)).bf16 else ("fp32",)


def exact_settings(device: str) -> tuple[Arithmetic, ...]:
    """The values of ``float32_matmul_precision`` at which fp32 is multiplied in fp32.

    ``"medium"`` allows PyTorch to use bf16, which it does on GPUs and on CPUs with matrix units.
    """
    exact = matmul_error(MEDIUM, device) < FP32_ERROR
    return (HIGHEST, MEDIUM) if exact else (HIGHEST,)


def matmul_error(setting: Arithmetic, device: str) -> float:
    """The error of an fp32 matrix multiplication relative to the norm of the exact result."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    with setting.applied():
        product: Tensor = (a.to(device) @ b.to(device)).cpu()
    return float(f"{float((product - exact).norm() / exact.norm()):.1e}")


def title(row: Row) -> str:
    """The heading of a task. Records before version 0.2 measured two placements of dropout."""
    titles = {"beam": "beam 4", "single": "one sentence at a time"}
    task = str(titles.get(row["task"], row["task"]))
    return f"{task}, own dropout" if row.get("dropout") == "own" else task


def table(rows: list[Row], settings: Row) -> list[str]:
    """The equal-precision tables, fp32 and bf16, then every system in its faster precision."""
    systems = [row for row in rows if row["system"] != PEAK]
    counts = [len(row["seconds"]) for row in systems]
    rounds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0])
    parts = [
        "The rows of the other systems give their time divided by tfmr's time: the median of the "
        f"ratios of {rounds} rounds, with the lowest and the highest in parentheses. Tokens are "
        "target tokens without padding. The peak is the rate of one large matrix multiplication in "
        "the same precision, measured in each task; its range is over the tasks."
    ]
    integers = [
        {**row, "system": f"{row['system']}, int8"} for row in select(systems, precision="int8")
    ]
    systems = [row for row in systems if row["precision"] != "int8"]
    precisions = sorted(grouped(systems, "precision"), reverse=True)
    for precision in precisions:
        own = select(systems, precision=precision) + (integers if precision == "fp32" else [])
        measured = "All systems" if any(row["system"] != OWN for row in own) else f"Only {OWN}"
        peak = _peak(select(rows, system=PEAK, precision=precision))
        parts += [f"**{measured} in {precision}.** {peak}", _comparison(own)]
    if len(precisions) == 2:
        parts += [
            "**Mixed: each system in the faster of its measured precisions**, named in each cell.",
            _comparison(systems, mixed=True),
        ]
    return parts


def _fastest(rows: Iterable[Row], *columns: str) -> dict[Any, Row]:
    """The row with the lowest median time of each group."""
    groups = grouped(rows, *columns)
    return {key: min(own, key=lambda row: median(row["seconds"])) for key, own in groups.items()}


def _comparison(rows: Sequence[Row], *, mixed: bool = False) -> str:
    """A line for each system, a column for each task that tfmr was measured in."""
    best = _fastest(({**row, "task": title(row)} for row in rows), "system", "task")
    tasks = [task for system, task in best if system == OWN]

    def cells_of(name: str, system: str, write: Callable[[Row, Row], str]) -> list[str]:
        cells = []
        for task in tasks:
            row = best.get((system, task))
            text = NOTHING if row is None else write(row, best[OWN, task])
            cells.append(f"{text}, {row['precision']}" if mixed and row is not None else text)
        return [name, *cells]

    lines = [cells_of(f"{OWN}, tokens/s", OWN, lambda row, _: f"{row['tokens_per_second']:,.0f}")]
    lines += [cells_of(name, name, _ratio) for name in grouped(rows, "system") if name != OWN]
    if not mixed:
        lines.append(cells_of(f"{OWN}, share of the peak", OWN, lambda row, _: _share(row)))
    return markdown(["", *tasks], lines)


def _ratio(row: Row, own: Row) -> str:
    found = ratio(row["seconds"], own["seconds"])
    return f"{found.median:.2f} ({found.min:.2f}–{found.max:.2f})"


def _share(row: Row) -> str:
    return f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else NOTHING


def _peak(peaks: Sequence[Row]) -> str:
    """The peak of each task, as a range."""
    if not peaks:
        return "The peak was not measured."
    tasks = grouped(({**row, "task": title(row)} for row in peaks), "task").values()
    best = [max(row["gflops"] for row in own) for own in tasks]
    low, high = f"{min(best):.0f}", f"{max(best):.0f}"
    return f"Peak: {low if low == high else f'{low} to {high}'} GFLOP/s."


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """In PyTorch, tfmr is the fastest; README.md states the times of CTranslate2 in fp32."""
    tasks = [{**row, "task": title(row)} for row in rows if row["system"] != PEAK]
    for (task, precision), own in grouped(tasks, "task", "precision").items():
        best = _fastest(own, "system")
        outside = best.pop(CTranslate2.title, None)
        tfmr = best.pop(OWN, None)
        if tfmr and outside and precision == "fp32":
            found = f"{ratio(outside['seconds'], tfmr['seconds']).median:.2f} times"
            text = README.read_text("utf-8")
            yield f"README.md states the time of CTranslate2, {task}: {found}", found in text
        if tfmr and best:
            lead = min(ratio(row["seconds"], tfmr["seconds"]).median for row in best.values())
            yield (
                f"tfmr is the fastest system in PyTorch in {task}, {precision}: {lead:.2f}",
                lead > 1,
            )


if __name__ == "__main__":
    record.run(Speed)
