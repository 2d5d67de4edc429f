"""``python -m benchmarks.architectures``: from the RNN to the Transformer.

All systems have the same training set, vocabulary, batches, training time and number of threads,
and are evaluated with the same search and sacreBLEU. A finished run in the folder of runs is not
repeated, so the benchmark can be interrupted and extended by seeds or systems.
"""

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.quality import table as table
from tfmr.checkpoint import load_translator
from tfmr.data import corpora
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.fast import cpu_matmul_settings, prepare
from tfmr.metrics import bleu
from tfmr.train.config import find_recipe
from tfmr.train.intervals import bleu_statistics, corpus_bleu, interval, resample
from tfmr.train.run import Run

SYSTEMS = {
    "RNN": "multi30k-rnn",
    "GRU": "multi30k-gru",
    "LSTM": "multi30k-lstm",
    "LSTM with attention": "multi30k-lstm-attention",
    "Transformer": "multi30k",
}
"""The recipe of each system, in historical order."""
LENGTHS = (1, 8, 10, 12, 15)
"""The lower bounds of the classes of source lengths, in words."""


@dataclass(frozen=True)
class Architectures:
    """Train every system with every seed for the same time, and record its scores.

    Validation and test set are evaluated after each training time; no setting is chosen on the test
    set. Run this on an otherwise idle machine.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of weights, batches and dropout."""
    minutes: tuple[float, ...] = (2.5, 5.0)
    """Training times at which every system is evaluated."""
    systems: tuple[str, ...] = tuple(SYSTEMS)
    """Systems to train."""
    direction: str = "de-en"
    """Source and target language."""
    threads: int = 1
    """CPU threads of each run."""
    jobs: int = 1
    """Parallel runs; at most the number of cores divided by ``threads``."""
    runs: Path = Path("runs/line")
    """The folders of the runs."""
    out: Path = record.FOLDER / "architectures.json"
    """The record."""

    def __call__(self) -> None:
        """Train the missing runs, and record all."""
        metadata = record.collect_metadata()
        names = [(system, seed) for seed in self.seeds for system in self.systems]
        # One process per run: the number of threads is set before the first multiplication.
        context = multiprocessing.get_context("spawn")
        rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
        outputs: dict[tuple[str, int], list[str]] = {}
        with (
            ProcessPoolExecutor(self.jobs, context, max_tasks_per_child=1) as pool,
            tqdm(total=len(names), unit=" runs") as bar,
        ):
            futures = {pool.submit(measure, self, *name): name for name in names}
            for done in as_completed(futures):
                rows[futures[done]], outputs[futures[done]] = done.result()
                bar.update()
        references = [target for _, target in corpora.load("multi30k", self.direction).test]
        for seed in self.seeds:
            found = differences({name: outputs[name, seed] for name in self.systems}, references)
            for system, columns in found.items():
                rows[system, seed][-1] |= columns
        settings = {
            "corpus": "multi30k",
            **{name: getattr(self, name) for name in ("direction", "threads", "jobs")},
            "minutes": list(self.minutes),
            "seeds": list(self.seeds),
            "lengths": list(LENGTHS),
        }
        record.write(
            self.out,
            "architectures",
            (row for name in names for row in rows[name]),
            settings=settings,
            metadata=metadata,
        )


def measure(
    options: Architectures, system: str, seed: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """One run: a row for each training time, and the greedy translations of the test set.

    The last row has BLEU by source length.
    """
    torch.set_num_threads(options.threads)
    corpus = corpora.load("multi30k", options.direction)
    recipe = find_recipe(SYSTEMS[system]).with_overrides({"train.seed": seed})
    folder = options.runs / f"{options.direction}-{SYSTEMS[system]}-{seed}"
    run = Run(folder, corpus, recipe, resume=(folder / "recipe.toml").exists())
    scores = run.train(options.minutes, quiet=True)
    require(
        {row["minutes"] for row in scores} == set(options.minutes),
        f"{folder} was evaluated after {[row['minutes'] for row in scores]} minutes, expected "
        f"{list(options.minutes)}: use the same --minutes, or another folder for --runs",
    )
    metadata = json.loads((folder / "scores.json").read_text("utf-8"))
    common = {
        "system": system,
        "seed": seed,
        "parameters": run.parameters,
        "commit": metadata["commit"],
        "threads": metadata["hardware"]["threads"],
    }
    rows = [common | row for row in scores]
    model, tokenizer = load_translator(folder)
    sources = [source for source, _ in corpus.test]
    prepared = prepare(model)
    with cpu_matmul_settings(prepared, rows=len(sources)):
        outputs = translate(prepared, tokenizer, sources, detokenise=False)
    rows[-1] |= by_length(outputs, corpus.test)
    return rows, outputs


def by_length(outputs: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """BLEU of ``outputs``, the translations of ``pairs``, for each class of :data:`LENGTHS`."""
    classes: list[list[int]] = [[] for _ in LENGTHS]
    for index, (source, _) in enumerate(pairs):
        length = len(source.split())
        classes[sum(length >= start for start in LENGTHS) - 1].append(index)
    return {
        "sentences_by_length": [len(rows) for rows in classes],
        "bleu_by_length": [
            bleu([outputs[i] for i in rows], [pairs[i][1] for i in rows]).score for rows in classes
        ],
    }


def differences(
    outputs: Mapping[str, Sequence[str]], references: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """BLEU of each system minus BLEU of each other, with 95 % paired bootstrap intervals.

    Args:
        outputs: the translations of each system.
        references: the references of these sentences.

    Returns:
        For each system the names of the others, the differences, and their intervals.
    """
    counts = np.vstack([np.ones(len(references), int), resample(len(references))])
    # The first score of each system is that of the sentences themselves, the others are resampled.
    scores = {n: corpus_bleu(bleu_statistics(o, references), counts) for n, o in outputs.items()}
    columns: dict[str, dict[str, Any]] = {}
    for system in scores:
        others = [other for other in scores if other != system]
        leads = [scores[system] - scores[other] for other in others]
        columns[system] = {
            "others": others,
            "lead": [round(float(lead[0]), 2) for lead in leads],
            "lead_interval": [interval(lead[1:], digits=2) for lead in leads],
        }
    return columns


if __name__ == "__main__":
    record.run(Architectures)
