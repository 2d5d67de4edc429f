"""``python -m benchmarks.quality``: BLEU after a fixed training time, compared with the peers.

torch.nn.Transformer and Marian are trained by tfmr's Trainer with the same batches, loss, schedule
and weight averaging, and translate with tfmr's beam search, so only the model differs: its speed,
and what it learns per step. The systems train in turns of one minute, so that a disturbance of the
machine affects all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.peers import build
from benchmarks.record import Record, Row
from benchmarks.speed import OWN
from benchmarks.tables import RANGE, Claims, count, grouped, markdown, select, spread
from tfmr.config import TransformerConfig
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.fast import cpu_matmul_settings, prepare
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.train.config import TrainConfig, find_recipe
from tfmr.train.trainer import Trainer
from tfmr.translator import Translator

TURN = 60.0
"""Seconds of training per turn."""


@dataclass(frozen=True)
class Quality:
    """Train tfmr, torch.nn.Transformer and Marian for the same time, and compute BLEU.

    Writes a record; python -m benchmarks.tables renders it. It takes the longest training time,
    multiplied by the number of systems and of seeds, plus the time of the evaluation.
    """

    minutes: tuple[float, ...] = (5.0, 10.0)
    """Training times at which to evaluate; the time of the evaluation is not counted."""
    systems: tuple[str, ...] = (OWN, "torch", "marian")
    """Systems to train."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of weights, batches and dropout; all systems are trained with each of them."""
    direction: str = "de-en"
    """Direction of Multi30k."""
    peak_lrs: dict[str, float] = field(default_factory=dict)
    """Peak learning rates that differ from the recipe's, by system: --peak-lrs marian 1e-3."""
    sentences: int | None = None
    """Evaluate on this many sentences only, for a quick test."""
    out: Path = record.FOLDER / "quality.json"
    """The record."""

    def __call__(self) -> None:
        """Train, evaluate and record."""
        metadata = record.collect_metadata()
        require(
            len(self.minutes) > 0 and list(self.minutes) == sorted(self.minutes),
            f"expected --minutes in rising order, got {list(self.minutes)}",
        )
        corpus = corpora.load("multi30k", self.direction)
        recipe = find_recipe("multi30k")
        tokenizer = recipe.train_tokenizer(corpus)
        config = recipe.model_config(tokenizer.vocab_size)
        assert isinstance(config, TransformerConfig)
        rows: list[dict[str, Any]] = []
        for seed in self.seeds:
            train = replace(recipe.train, seed=seed)
            batches = recipe.with_overrides({"train.seed": seed}).make_batches(
                list(corpus.train), tokenizer
            )
            runs = [self._start(name, config, batches, train) for name in self.systems]
            rows += self._train(runs, corpus, tokenizer, seed)
        settings = {
            "corpus": corpus.name,
            "direction": self.direction,
            "recipe": recipe.to_dict(),
            "peak_lrs": self.peak_lrs,
            "seeds": self.seeds,
            "minutes": self.minutes,
            "sentences": self.sentences,
        }
        record.write(self.out, "scores", rows, settings=settings, metadata=metadata)

    def _start(
        self, name: str, config: TransformerConfig, batches: Batches, train: TrainConfig
    ) -> "SystemRun":
        torch.manual_seed(train.seed)
        model: Translator
        if name == OWN:
            title, model = OWN, Transformer(config)
        else:
            norm = "post" if name == "marian" else config.norm
            peer_config = replace(
                config, norm=norm, position="sinusoidal", tie="three-way", dropout=0.0
            )
            model = build(name, peer_config, config.dropout)
            title = model.title
        train = replace(train, peak_lr=self.peak_lrs.get(name, train.peak_lr))
        return SystemRun(title, Trainer(model, batches, train))

    def _train(
        self, runs: Sequence["SystemRun"], corpus: Corpus, tokenizer: Tokenizer, seed: int
    ) -> list[dict[str, Any]]:
        rows = []
        total = round(60 * self.minutes[-1] * len(runs))
        with tqdm(total=total, unit="s", desc=f"seed {seed}", leave=False) as bar:
            for minutes in self.minutes:
                while any(run.trainer.seconds < 60 * minutes for run in runs):
                    for run in runs:
                        before = run.trainer.seconds
                        run.trainer.run(seconds=min(before + TURN, 60 * minutes))
                        bar.update(round(run.trainer.seconds - before))
                for run in runs:
                    bar.set_postfix_str(f"evaluating {run.title}")
                    row = {"minutes": minutes, "seed": seed}
                    rows.append(row | run.evaluate(corpus, tokenizer, self.sentences))
        return rows


@dataclass
class SystemRun:
    """The training of one system."""

    title: str
    trainer: Trainer

    def evaluate(self, corpus: Corpus, tokenizer: Tokenizer, limit: int | None) -> dict[str, Any]:
        """BLEU of the averaged weights with beam search, and the number of steps."""
        model = self.trainer.averaged_model()
        prepared = prepare(model)

        def scored(pairs: Sequence[SentencePair]) -> Any:
            sources = [source for source, _ in pairs]
            with cpu_matmul_settings(prepared, rows=4 * len(sources)):
                texts = translate(prepared, tokenizer, sources, beam=4, detokenise=False)
            return bleu(texts, [target for _, target in pairs])

        valid, test = scored(corpus.valid[:limit]), scored(corpus.test[:limit])
        return {
            "system": self.title,
            "parameters": model.count_parameters(),
            "precision": self.trainer.arithmetic.name,
            "steps": self.trainer.steps_done,
            "epoch": self.trainer.epoch,
            "valid_bleu_beam4": valid.score,
            "test_bleu_beam4": test.score,
            "signature": test.signature,
        }


def scored(rows: Iterable[Row]) -> dict[str, str]:
    """The columns of BLEU and their titles; without "beam 4", decoding is greedy."""
    titles = {
        "valid_bleu": "validation",
        "valid_bleu_beam4": "validation, beam 4",
        "test_bleu": "test",
        "test_bleu_beam4": "test, beam 4",
    }
    return {part: title for part, title in titles.items() if any(part in row for row in rows)}


def about_search(rows: Iterable[Row]) -> str:
    """Which search the columns of BLEU come from."""
    if all(part.endswith("beam4") for part in scored(rows)):
        return "All scores are from beam search."
    return "Scores without “beam 4” are from greedy decoding."


def signatures(rows: Iterable[Row]) -> str:
    """How sacreBLEU computed the scores."""
    found = sorted({row["signature"] for row in rows if "signature" in row})
    return f"sacreBLEU `{'`, `'.join(found)}`."


def table(rows: list[Row], settings: Row) -> list[str]:
    """BLEU by system and training time: mean and range over the seeds."""
    parts = scored(rows)
    columns = [
        (part, minutes)
        for minutes, own in grouped(rows, "minutes").items()
        for part in parts
        if any(part in row for row in own)
    ]
    lines = []
    for system, own in grouped(rows, "system").items():
        cells = (
            spread([row[part] for row in select(own, minutes=minutes) if part in row])
            for part, minutes in columns
        )
        lines.append([system, f"{own[0]['parameters']:,}", *cells])
    seeds = len(grouped(rows, "seed"))
    return [
        f"BLEU on {settings['corpus']} {settings['direction']}, {count(seeds, 'seed')}"
        f"{f': the mean, {RANGE}' * (seeds > 1)}. {about_search(rows)} {signatures(rows)}",
        markdown(
            ["", "parameters", *(f"{parts[part]}, {minutes:g} min" for part, minutes in columns)],
            lines,
        ),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """More steps and a higher BLEU in the same time, and fewer steps than in multi30k.json."""
    yield "all systems use the recipe's learning rate", not settings["peak_lrs"]
    for own in select(rows, system=OWN):
        for row in select(rows, minutes=own["minutes"], seed=own["seed"]):
            if row["system"] != OWN:
                name = f"{row['system']} after {row['minutes']:g} minutes"
                yield f"{name} has taken fewer steps than tfmr", row["steps"] < own["steps"]
                lower = row["test_bleu_beam4"] < own["test_bleu_beam4"]
                yield f"{name} has a lower BLEU than tfmr", lower
        where = {"recipe": "multi30k", "direction": "de-en", "minutes": own["minutes"]}
        runs = {row["seed"]: row["step"] for row in select(records["multi30k"]["rows"], **where)}
        if runs:
            after = f"after {own['minutes']:g} minutes"
            claim = f"{after}, fewer steps than in multi30k.json"
            yield claim, own["steps"] < min(runs.values())
            fewest = runs[2] < min(runs[0], runs[1])
            yield f"{after}, seed 2 of multi30k.json has taken the fewest steps", fewest


if __name__ == "__main__":
    record.run(Quality)
