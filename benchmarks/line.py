"""``python -m benchmarks.line``: the measured line, recurrent → attention → Transformer.

Every system has the same bitext, vocabulary, batches, time and number of threads, and is scored by
the same search and the same sacreBLEU. A run that is already in the folder of runs is not repeated,
so the line can be interrupted, and lengthened by a seed or a system.
"""

import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks import record
from tfmr.commands.memory import keep_freed_memory
from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.train.checkpoint import load_translator
from tfmr.train.config import find_recipe
from tfmr.train.evaluation import bleu
from tfmr.train.run import Run

SYSTEMS = {
    "RNN": "multi30k-rnn",
    "GRU": "multi30k-gru",
    "LSTM": "multi30k-lstm",
    "LSTM with attention": "multi30k-lstm-attention",
    "Transformer": "multi30k",
}
"""The recipes of the line, in the order of history."""
LENGTHS = (1, 8, 10, 12, 15)
"""Where the classes of sentences begin, in words of the source."""


@dataclass(frozen=True)
class Line:
    """Train every system with every seed for the same time, and record what it reaches.

    Both parts are scored at every time, and nothing is chosen by the test part. Measure on a
    machine that does nothing else.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    """Of weights, batches and dropout."""
    minutes: tuple[float, ...] = (2.5, 5.0)
    """Training time at which every system is scored."""
    systems: tuple[str, ...] = tuple(SYSTEMS)
    """Which of the systems."""
    direction: str = "de-en"
    """Source and target language."""
    threads: int = 1
    """Of every run."""
    jobs: int = 1
    """Runs at once; as many as the machine has cores, divided by ``threads``, at most."""
    runs: Path = Path("runs/line")
    """The folders of the runs."""
    out: Path = record.FOLDER / "line.json"
    """The record."""

    def __call__(self) -> None:
        """Train what is missing, and record all."""
        about = record.facts()
        names = [(system, seed) for seed in self.seeds for system in self.systems]
        # A process of its own for each: threads are set before the first product of matrices.
        context = multiprocessing.get_context("spawn")
        rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
        with (
            ProcessPoolExecutor(self.jobs, context, max_tasks_per_child=1) as pool,
            tqdm(total=len(names), unit=" runs") as bar,
        ):
            waiting = {pool.submit(measure, self, *name): name for name in names}
            for done in as_completed(waiting):
                rows[waiting[done]] = done.result()
                bar.update()
        settings = {
            "corpus": "multi30k",
            **{name: getattr(self, name) for name in ("direction", "threads", "jobs")},
            "minutes": list(self.minutes),
            "seeds": list(self.seeds),
            "lengths": list(LENGTHS),
        }
        record.write(
            self.out,
            "line",
            (row for name in names for row in rows[name]),
            settings=settings,
            about=about,
        )
        print(f"wrote {self.out}; now: python -m benchmarks.tables")


def measure(line: Line, system: str, seed: int) -> list[dict[str, Any]]:
    """One run of the line: a row for each of its minutes, the last with BLEU by length."""
    keep_freed_memory()
    torch.set_num_threads(line.threads)
    torch.set_float32_matmul_precision("medium")
    corpus = corpora.load("multi30k", line.direction)
    recipe = find_recipe(SYSTEMS[system]).with_overrides({"train.seed": seed})
    folder = line.runs / f"{line.direction}-{SYSTEMS[system]}-{seed}"
    begun = (folder / "recipe.toml").exists()
    run = Run(folder, corpus, recipe, resume=begun)
    scores = run.train(line.minutes, quiet=True)
    require(
        {row["minutes"] for row in scores} == set(line.minutes),
        f"{folder} was scored after {[row['minutes'] for row in scores]} minutes, now asked for "
        f"{list(line.minutes)}: ask for the same, or name another folder by --runs",
    )
    facts = json.loads((folder / "scores.json").read_text("utf-8"))
    ran = {
        "system": system,
        "seed": seed,
        "parameters": run.parameters,
        "commit": facts["commit"],
        "threads": facts["hardware"]["threads"],
    }
    rows = [ran | row for row in scores]
    rows[-1] |= dict(by_length(folder, corpus))
    return rows


def by_length(folder: Path, corpus: Corpus) -> Iterator[tuple[str, Any]]:
    """BLEU of the test part, greedy, for each class of :data:`LENGTHS`."""
    model, tokenizer = load_translator(folder)
    outputs = translate(model, tokenizer, [source for source, _ in corpus.test])
    classes: list[list[int]] = [[] for _ in LENGTHS]
    for index, (source, _) in enumerate(corpus.test):
        length = len(source.split())
        classes[sum(length >= start for start in LENGTHS) - 1].append(index)
    yield "sentences_by_length", [len(rows) for rows in classes]
    yield (
        "bleu_by_length",
        [
            bleu([outputs[i] for i in rows], [corpus.test[i][1] for i in rows]).score
            for rows in classes
        ],
    )


if __name__ == "__main__":
    try:
        tyro.cli(Line, prog="python -m benchmarks.line")()
    except TfmrError as error:
        sys.exit(f"benchmarks.line: {error}")
