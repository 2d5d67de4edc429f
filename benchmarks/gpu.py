"""``python -m benchmarks.gpu``: everything that the project checks and measures on a GPU.

The parts run in order of importance, and each writes its record as it ends, so that a machine that
is only lent for some minutes leaves as much as possible. With ``--smoke`` all parts run in small on
a CPU, which checks the command and measures nothing of interest. A checkout of git is not needed.
Beside PyTorch: jaxtyping, einops, tyro, cattrs, tokenizers, safetensors, sacrebleu, transformers,
pooch, tqdm, tomli-w and numpy.
"""

import copy
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor, nn

from benchmarks import record
from benchmarks.cost.attention import KINDS
from benchmarks.peers import build
from benchmarks.record import Record, Row
from benchmarks.speed import PEAK, Speed, Task
from benchmarks.systems import Precision, training
from benchmarks.tables import NOTHING, Claims, grouped, markdown
from benchmarks.timing import device_clock, time_interleaved
from benchmarks.workload import SETTINGS, VOCAB, generated_pairs, training_batches, training_flops
from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.data.batches import Batch, Batches, collate
from tfmr.decode import beam_search, greedy_search
from tfmr.dtype import Precision as TfmrPrecision
from tfmr.dtype import choose_arithmetic, find_units
from tfmr.errors import TfmrError, require
from tfmr.fast import prepare
from tfmr.later import STEPS_AHEAD
from tfmr.model import Transformer
from tfmr.registry import build_model
from tfmr.sequence_layers import RecurrentLayer, SelfAttentionLayer
from tfmr.special_tokens import EOS, UNK
from tfmr.train.config import Budget, TrainConfig, find_recipe
from tfmr.train.distributed import World
from tfmr.train.loss import cross_entropy
from tfmr.train.run import Run
from tfmr.train.trainer import StepRecord, Trainer
from tfmr.translator import Translator

Part = Literal[
    "correct", "epoch", "base", "decoding", "recipe", "quality", "product", "attention", "layers"
]
PEERS = ("torch", "marian")
COMPILED = ", compiled"
"""After the name of a system whose model and loss are compiled."""
TRAIN = TrainConfig(warmup=4000)
"""A long warm-up keeps the weights close to their initial values."""
PLACEHOLDER = Batches([([EOS], [EOS])], tokens_per_batch=2, seed=0, max_length=2)
"""For trainers that are given their batches one by one."""


@dataclass(frozen=True)
class Sizes:
    """How much each part does."""

    pairs: int | None
    """Sentence pairs of Multi30k, and of a validation or test set; ``None`` for all."""
    small: TransformerConfig
    """The model of the parts ``epoch`` and ``recipe``."""
    base: TransformerConfig
    base_pairs: int
    """Pairs of 32 tokens in a step of the base model."""
    steps: int
    """Steps of a measured stretch of training."""
    stretches: int
    """Stretches of the first pass over the batches, and as many of the second."""
    rounds: int
    products: tuple[int, ...]
    """Rows and columns of the matrices."""
    lengths: tuple[int, ...]
    minutes: float
    """Training time of the part ``quality``."""


BASE = replace(TransformerConfig.base(), dropout=0.1, max_length=128)
TINY = replace(BASE, source_vocab=VOCAB, target_vocab=VOCAB, d_model=32, d_ff=32, n_heads=2)
TINY = replace(TINY, n_encoder=1, n_decoder=1)
A = replace(SETTINGS["A"].config(), dropout=0.1)
FULL = Sizes(None, A, BASE, 784, 20, 3, 6, (2048, 4096, 8192), (128, 512, 2048, 8192), 0.5)
SMOKE = Sizes(50, TINY, TINY, 2, 2, 1, 1, (32,), (16,), 0.01)


@dataclass(frozen=True)
class GPU:
    """Check and measure training and decoding on a GPU in about five minutes, and record it."""

    parts: tuple[Part, ...] = Part.__args__  # type: ignore[attr-defined]
    """What to do, in this order."""
    smoke: bool = False
    """Do all parts in small on a CPU, to check the command."""
    minutes: float = 8.0
    """No part starts later than this."""
    out: Path = record.FOLDER
    """The folder of the records, gpu-PART.json."""

    def __call__(self) -> None:
        """Check, measure and record.

        Raises:
            TfmrError: if there is no GPU, or a part failed; the other parts are recorded.
        """
        require(
            self.smoke or torch.cuda.is_available(),
            "expected a GPU, got none: try the command in small on a CPU with --smoke",
        )
        start = time.perf_counter()
        device, sizes = ("cpu", SMOKE) if self.smoke else ("cuda", FULL)
        metadata = record.collect_metadata(device)
        missing = []
        for part in self.parts:
            begin = time.perf_counter()
            if begin - start > self.minutes * 60:
                missing.append(f"{part} (no time left)")
                continue
            try:
                rows = list(PARTS[part](device, sizes))
                # Written with the time that the part took, so that the next run can be planned.
                settings = {"seed": 0, "device": device, "smoke": self.smoke, "part": part}
                settings["seconds"] = round(time.perf_counter() - begin, 1)
                path = self.out / f"gpu-{part}.json"
                record.write(path, "gpu", rows, settings=settings, metadata=metadata)
            except Exception as error:  # the other parts are still worth measuring
                traceback.print_exc()
                missing.append(f"{part} ({type(error).__name__})")
            if device == "cuda":
                torch.cuda.empty_cache()
        require(not missing, f"parts without a record: {', '.join(missing)}")


def check_correct(device: str, sizes: Sizes) -> Iterator[Row]:
    """The GPU against the CPU, and a resumed run against an uninterrupted one."""
    torch.manual_seed(0)
    config = replace(TINY, d_model=64, n_heads=4, d_ff=128, n_encoder=2, n_decoder=2, dropout=0.0)
    config = replace(config, source_vocab=60, target_vocab=60)
    ids = torch.randint(UNK + 1, config.source_vocab, (64, 2, 20)).tolist()
    pairs = [(s[: 1 + k % 19], t[: 1 + k * 7 % 19]) for k, (s, t) in enumerate(ids)]
    batch = collate(pairs)
    own = Transformer(config).eval()
    other = copy.deepcopy(own).to(device)
    moved = batch.to(device)

    logits, on_gpu = (m(b.source, b.target_in) for m, b in ((own, batch), (other, moved)))
    yield {"check": "logits, largest difference", "value": _distance(logits, on_gpu), "limit": 1e-4}
    for out, target in ((logits, batch.target_out), (on_gpu, moved.target_out)):
        cross_entropy(out, target, 0.1).backward()
    worst = max(
        _distance(p.grad, q.grad)
        for p, q in zip(own.parameters(), other.parameters(), strict=True)
        if p.grad is not None and q.grad is not None
    )
    yield {"check": "gradients, largest difference", "value": worst, "limit": 1e-4}

    for search in (greedy_search, beam_search):
        expected = search(own, batch.source)
        for dtype in (None, torch.float32, torch.bfloat16):
            model = other if dtype is None else prepare(other, dtype=dtype)
            found = search(model, moved.source)
            same = sum(a == b for a, b in zip(_ids(found), _ids(expected), strict=True))
            name = f"{search.__name__}, {dtype or 'as trained'}, sentences that differ"
            # bf16 has three digits, so some of an untrained model's nearly equal scores change.
            limit = 16 if dtype == torch.bfloat16 else 0
            yield {"check": name, "value": len(pairs) - same, "limit": limit}

    if device == "cuda":
        kept = _memory_kept(lambda: beam_search(other, moved.source))
        name = "memory reserved by 20 more beam searches, MiB"
        yield {"check": name, "value": kept, "limit": 0}

    def trainer() -> Trainer:
        torch.manual_seed(1)
        model = Transformer(replace(config, dropout=0.2)).to(device)
        return Trainer(model, Batches(pairs, 256, 0, 40), replace(TRAIN, ema_decay=0.9))

    straight, first, resumed, launched = (trainer() for _ in range(4))
    straight.run(steps=8)
    first.run(steps=4)
    resumed.load_state_dict(*first.state_dict())
    resumed.run(steps=8)
    states = (straight.state_dict()[0], resumed.state_dict()[0])
    different = sum(not torch.equal(states[1][name], x) for name, x in states[0].items())
    yield {"check": "tensors that differ after resuming", "value": different, "limit": 0}
    launched._recorded = None
    launched.run(steps=8)
    weights = launched.state_dict()[0]
    worst = max(_distance(x, weights[name]) for name, x in states[0].items())
    name = "weights, graphs against launched kernels, largest difference"
    yield {"check": name, "value": worst, "limit": 1e-5}


def _memory_kept(work: Callable[[], object]) -> float:
    """MiB that PyTorch reserves on the GPU while ``work`` is repeated, the first times excluded."""
    reserved = []
    for repeats in (3, 20):
        for _ in range(repeats):
            work()
        reserved.append(torch.cuda.memory_reserved())
    return (reserved[1] - reserved[0]) / 2**20


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a.detach().cpu() - b.detach().cpu()).abs().max())


def _ids(found: Sequence[Any]) -> list[list[int]]:
    return [each[0].ids if each and hasattr(each[0], "ids") else list(each) for each in found]


def measure_epoch(device: str, sizes: Sizes) -> Iterator[Row]:
    """Training on real lengths: batches of new shapes, and the same batches again."""
    batches = training_batches(
        SETTINGS["A"], generated_pairs()[: sizes.pairs], sizes.steps * sizes.stretches, seed=0
    )
    stretches = [batches[k : k + sizes.steps] for k in range(0, len(batches), sizes.steps)]
    for precision in _precisions(device):
        works: dict[str, Callable[[int], object]] = {
            "tfmr": partial(_own_steps, _trainer(sizes.small, device, precision), stretches)
        }
        for name in PEERS:
            peer = build(name, replace(sizes.small, dropout=0.0), 0.1).to(device)
            steps = training(peer, batches, TRAIN, precision)
            works[name] = partial(_peer_steps, steps, sizes.steps, len(batches))
        seconds = time_interleaved(
            works, rounds=2 * sizes.stretches, warmup=0, clock=device_clock(device)
        )
        for name, times in seconds.items():
            ms = [1000 * each / sizes.steps for each in times]
            halves = {"first": ms[: sizes.stretches], "second": ms[sizes.stretches :]}
            for label, part in halves.items():
                row = {"precision": precision, "system": name, "pass": label}
                yield {**row, **_milliseconds(part)}


def measure_base(device: str, sizes: Sizes) -> Iterator[Row]:
    """A step of the paper's base model on many pairs of 32 tokens."""
    config = sizes.base
    generator = torch.Generator().manual_seed(0)
    size = (2, 2, sizes.base_pairs, 32)
    drawn = torch.randint(UNK + 1, config.target_vocab, size, generator=generator).tolist()
    batches = [
        collate([(source, target[:31]) for source, target in zip(*sides, strict=True)])
        for sides in drawn
    ]
    flops = training_flops(config, batches[0])
    for precision in _precisions(device):
        works: dict[str, Callable[[int], object]] = {}
        gib: dict[str, float | None] = {}
        names = ["tfmr", *PEERS]
        # In fp32, the matmuls take most of the time, which compilation does not change.
        if device == "cuda" and precision == "bf16":
            names += [f"{name}{COMPILED}" for name in names]
        for name in names:
            plain = name.removesuffix(COMPILED)
            if plain in PEERS:
                model: Translator = build(plain, replace(config, dropout=0.0), 0.1)
            else:
                model = Transformer(config)
            train = replace(TRAIN, compile=name != plain)
            step = training(model.to(device), batches, train, precision)
            works[name] = partial(_alternate, step)
            gib[name] = _peak_gib(device, partial(step, 0))
        seconds = time_interleaved(works, rounds=sizes.rounds, clock=device_clock(device))
        for name, times in seconds.items():
            yield {
                **{"precision": precision, "system": name},
                **_milliseconds([1000 * each for each in times]),
                "tflops": round(flops / median(times) / 1e12, 1),
                "gib": gib[name],
            }


def measure_decoding(device: str, sizes: Sizes) -> Iterator[Row]:
    """Greedy, beam and one by one, as :mod:`benchmarks.speed` measures them."""
    small = device == "cpu"
    tasks: tuple[Task, ...] = ("single",) if small else ("greedy", "beam", "single")
    speed = Speed(
        peers=() if small else PEERS,
        precisions=_precisions(device),
        device=device,
        rounds=min(3, sizes.rounds),
    )
    for task in tasks:
        for row in speed.measure(task, generated_pairs()):
            if row["system"] == PEAK:  # the part "product" measures it at several sizes
                continue
            names = {name: row[name] for name in ("task", "precision", "system")}
            yield names | _milliseconds([1000 * each for each in row["seconds"]])


def measure_recipe(device: str, sizes: Sizes) -> Iterator[Row]:
    """Steps of the recipe ``multi30k``: at new shapes, and later."""
    recipe = find_recipe("multi30k")
    pairs = generated_pairs()[: sizes.pairs]
    config = recipe.model_config(VOCAB) if device == "cuda" else sizes.small
    torch.manual_seed(0)
    batches = Batches(pairs, recipe.batches.tokens_per_batch, 0, config.max_length)
    trainer = Trainer(build_model(config).to(device), batches, recipe.train)
    curve: list[StepRecord] = []
    steps = 4 * sizes.steps
    trainer.run(steps=steps, on_step=curve.append, needs_model=lambda: False)
    seconds = [b.seconds - a.seconds for a, b in pairwise(curve)]
    half = len(seconds) // 2
    for label, part in (("first half", seconds[:half]), ("second half", seconds[half:])):
        yield {"steps": label, **_milliseconds([1000 * each for each in part])}


def measure_quality(device: str, sizes: Sizes) -> Iterator[Row]:
    """A short training run, and its BLEU."""
    recipe_name, corpus = "multi30k", None
    if device == "cuda":
        try:
            corpus = corpora.load("multi30k", "de-en")
        except TfmrError:
            print("multi30k is not here: the pocket corpus is used", file=sys.stderr)
    if corpus is None:
        recipe_name, corpus = "pocket", corpora.load("pocket", "en-fr")
    first = slice(sizes.pairs)
    corpus = replace(corpus, valid=corpus.valid[first], test=corpus.test[first])
    recipe = replace(find_recipe(recipe_name), budget=Budget((sizes.minutes,), ()))
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run", corpus, recipe, world=World(device=torch.device(device)))
        for row in run.train(quiet=True):
            yield {"corpus": corpus.name, **row}


def measure_product(device: str, sizes: Sizes) -> Iterator[Row]:
    """Products of two square matrices: the highest rate that a step can reach."""
    units = find_units(torch.device(device))
    choices: tuple[TfmrPrecision, ...] = ("bf16", "tf32", "fp32")
    for precision in choices:
        if precision == "tf32" and not units.tf32:
            continue
        arithmetic = choose_arithmetic(precision, units)
        for n in sizes.products:
            a, b = torch.randn(2, n, n, device=device).to(arithmetic.dtype)
            with arithmetic.applied():
                times = _seconds(device, partial(torch.matmul, a, b), sizes.rounds)
            rate = round(2 * n**3 / median(times) / 1e12, 2)
            yield {"precision": precision, "size": n, "tflops": rate}


def measure_attention(device: str, sizes: Sizes) -> Iterator[Row]:
    """Forward and backward pass of attention, fused and with stored weights."""
    for n in sizes.lengths:
        q, k, v = (torch.randn(1, 8, n, 64, device=device, requires_grad=True) for _ in range(3))
        for kind in ("naive", "fused"):

            def work(kind: str = kind, q: Tensor = q, k: Tensor = k, v: Tensor = v) -> None:
                KINDS[kind](q, k, v).sum().backward()

            gib = _peak_gib(device, work)
            ms = [1000 * each for each in _seconds(device, work, sizes.rounds)]
            yield {"kind": kind, "length": n, **_milliseconds(ms), "gib": gib}


def measure_layers(device: str, sizes: Sizes) -> Iterator[Row]:
    """Forward and backward pass of recurrent layers, PyTorch's and ours, and of self-attention."""
    d = 512 if device == "cuda" else 64
    layers: dict[str, nn.Module] = {
        "torch.nn.RNN": nn.RNN(d, d, batch_first=True),
        "torch.nn.LSTM": nn.LSTM(d, d, batch_first=True),
        "tfmr RNN": RecurrentLayer(d, "rnn"),
        "tfmr LSTM": RecurrentLayer(d, "lstm"),
        "self-attention": SelfAttentionLayer(d, d // 64),
    }
    for n in sizes.lengths:
        if n > 2048:
            continue
        x = torch.randn(16, n, d, device=device)
        works: dict[str, Callable[[int], object]] = {}
        for name, layer in layers.items():
            layer.to(device)

            def work(_: int, layer: nn.Module = layer, x: Tensor = x) -> None:
                out = layer(x)
                (out[0] if isinstance(out, tuple) else out).sum().backward()

            works[name] = work
        seconds = time_interleaved(works, rounds=sizes.rounds, clock=device_clock(device))
        for name, times in seconds.items():
            ms = [1000 * each for each in times]
            yield {"layer": name, "length": n, **_milliseconds(ms)}


def _precisions(device: str) -> tuple[Precision, ...]:
    return ("bf16", "fp32") if device == "cuda" else ("fp32",)


def _trainer(config: TransformerConfig, device: str, precision: Precision) -> Trainer:
    torch.manual_seed(0)
    model = Transformer(config).to(device)
    return Trainer(model, PLACEHOLDER, replace(TRAIN, precision=precision))


def _own_steps(trainer: Trainer, stretches: Sequence[Sequence[Batch]], k: int) -> None:
    """Steps as in :meth:`Trainer.run`: the numbers of a step are read some steps later."""
    started: deque[Callable[[], StepRecord]] = deque()
    for batch in stretches[k % len(stretches)]:
        started.append(trainer.start_step(batch))
        if len(started) > STEPS_AHEAD:
            started.popleft()()
    while started:
        started.popleft()()


def _peer_steps(step: Callable[[int], object], steps: int, count: int, k: int) -> None:
    for index in range(k * steps, (k + 1) * steps):
        step(index % count)


def _alternate(step: Callable[[int], object], k: int) -> None:
    step(k % 2)


def _peak_gib(device: str, work: Callable[[], object]) -> float | None:
    """The memory that ``work`` takes in addition to what is allocated before; ``None`` on a CPU."""
    if device != "cuda":
        work()
        return None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    return round((torch.cuda.max_memory_allocated() - before) / 2**30, 2)


def _seconds(device: str, work: Callable[[], object], rounds: int) -> list[float]:
    clock = device_clock(device)
    return time_interleaved({"": lambda _: work()}, rounds=rounds, clock=clock)[""]


def _milliseconds(ms: Sequence[float]) -> Row:
    return {
        "ms": round(median(ms), 3),
        "ms_min": round(min(ms), 3),
        "ms_max": round(max(ms), 3),
    }


PARTS: dict[str, Callable[[str, Sizes], Iterator[Row]]] = {
    "correct": check_correct,
    "epoch": measure_epoch,
    "base": measure_base,
    "decoding": measure_decoding,
    "recipe": measure_recipe,
    "quality": measure_quality,
    "product": measure_product,
    "attention": measure_attention,
    "layers": measure_layers,
}


LEFT_OUT = ("signature", "model_step", "valid_sentences", "test_sentences", "minutes")
"""Columns of the part ``quality`` that its table does not need."""


def table(rows: list[Row], settings: Row) -> list[str]:
    """All rows; milliseconds as the median, with the lowest and the highest in parentheses."""
    rows = [_with_range(row) for row in rows]
    header = list(dict.fromkeys(name for row in rows for name in row if name not in LEFT_OUT))
    cells = [[_cell(row.get(name)) for name in header] for row in rows]
    return [f"Part *{settings['part']}*.", markdown(header, cells)]


def _with_range(row: Row) -> Row:
    row = dict(row)
    if "ms" in row:
        low, high = row.pop("ms_min"), row.pop("ms_max")
        row["ms"] = f"{row['ms']:.1f} ({low:.1f}–{high:.1f})"
    return row


def _cell(value: object) -> str:
    return (
        NOTHING
        if value is None
        else f"{value:.2g}"
        if isinstance(value, float) and 0 < abs(value) < 0.01
        else str(value)
    )


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of README.md and of chapters 14 and 16 about the record of a part."""
    part = settings["part"]
    if part == "correct":
        for row in rows:
            yield f"{row['check']}: {row['value']}", row["value"] <= row["limit"]
    elif part in ("epoch", "base", "decoding"):
        by = {"epoch": ("precision", "pass"), "base": ("precision",)}
        for group, own in grouped(rows, *by.get(part, ("task", "precision"))).items():
            ours = min(row["ms"] for row in own if row["system"].startswith("tfmr"))
            peers = [row["ms"] for row in own if not row["system"].startswith("tfmr")]
            yield f"tfmr is the fastest on a GPU, {part}, {group}", ours < min(peers)


if __name__ == "__main__":
    record.run(GPU)
