"""``python -m benchmarks.quality``: BLEU after some minutes, beside the peers in the same loop.

torch.nn.Transformer and Marian are trained by tfmr's own Trainer, with its batches, loss, schedule
and averaged weights, and translate by its beam search, so that what differs is the model: how fast
it is, and what it learns from a step. They take turns of a minute, so that whatever else the
machine does slows all alike.
"""

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from tqdm import tqdm

from benchmarks import record
from benchmarks.compare import best_precisions
from benchmarks.peers import Sites, build
from benchmarks.timing import take_turns
from tfmr.commands.memory import keep_freed_memory
from tfmr.data import corpora
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, Pair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer, TransformerConfig
from tfmr.train.config import TrainConfig, find_recipe
from tfmr.train.evaluation import bleu
from tfmr.train.trainer import StepRecord, Trainer
from tfmr.translator import Translator

OWN = "tfmr"
PRECISIONS = ("highest", "medium")
TURN = 60.0
"""Seconds of training before it is the next one's turn."""
TRIALS = 3
"""Steps at each precision of products, to see which suits a system."""


@dataclass(frozen=True)
class Quality:
    """Train tfmr, torch.nn.Transformer and Marian for some minutes each, and score them.

    Writes a record, which ``python -m benchmarks.tables`` renders. Takes as many times the longest
    of the minutes as there are systems and seeds, and the scoring.
    """

    minutes: tuple[float, ...] = (5.0, 10.0)
    """Score after each of these; scoring does not count."""
    systems: tuple[str, ...] = (OWN, "torch", "marian")
    """Whom to train."""
    seeds: tuple[int, ...] = (0,)
    """Of weights, batches and dropout; all systems are trained with each."""
    direction: str = "de-en"
    """Of Multi30k."""
    sites: Sites = "paper"
    """Where dropout stands: "paper", the same for all, or "own", where each puts it."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Highest learning rates other than the recipe's, by system, to suit one that needs it:
    --peaks marian 1e-3."""
    sentences: int | None = None
    """Score on the first so many sentences of a part only, to try this out."""
    out: Path = record.FOLDER / "quality.json"
    """The record."""

    def __call__(self) -> None:
        """Train, score and record."""
        keep_freed_memory()
        about = record.facts()
        require(
            len(self.minutes) > 0 and list(self.minutes) == sorted(self.minutes),
            f"the minutes to score at must rise: got {list(self.minutes)}",
        )
        corpus = corpora.load("multi30k", self.direction)
        recipe = find_recipe("multi30k")
        tokenizer = recipe.train_tokenizer(corpus)
        config = recipe.model_config(tokenizer.vocab_size)
        require(isinstance(config, TransformerConfig), "the recipe is for another kind of model")
        assert isinstance(config, TransformerConfig)
        rows: list[dict[str, Any]] = []
        for seed in self.seeds:
            learning = replace(recipe.train, seed=seed)
            batches = recipe.with_overrides({"train.seed": seed}).make_batches(
                list(corpus.train), tokenizer
            )
            pupils = [self._pupil(name, config, batches, learning) for name in self.systems]
            rows += self._train(pupils, corpus, tokenizer, seed)
        settings = {
            "corpus": corpus.name,
            "direction": self.direction,
            "recipe": recipe.to_dict(),
            "sites": self.sites,
            "peaks": self.peaks,
            "seeds": self.seeds,
            "minutes": self.minutes,
            "sentences": self.sentences,
        }
        record.write(self.out, "scores", rows, settings=settings, about=about)
        print(f"wrote {self.out}; now: python -m benchmarks.tables")

    def _pupil(
        self, name: str, config: TransformerConfig, batches: Batches, learning: TrainConfig
    ) -> "Pupil":
        torch.manual_seed(learning.seed)
        model: Translator
        if name == OWN:
            title, model = OWN, Transformer(config)
        else:
            norm = "post" if name == "marian" else config.norm
            plain = replace(config, norm=norm, position="sinusoidal", tie="three-way", dropout=0.0)
            model = build(name, plain, config.dropout, self.sites)
            title = model.title
        learning = replace(learning, peak_lr=self.peaks.get(name, learning.peak_lr))
        return Pupil(title, Trainer(model, batches, learning), suitable(model, batches, learning))

    def _train(
        self, pupils: Sequence["Pupil"], corpus: Corpus, tokenizer: Tokenizer, seed: int
    ) -> list[dict[str, Any]]:
        rows = []
        total = round(60 * self.minutes[-1] * len(pupils))
        with tqdm(total=total, unit="s", desc=f"seed {seed}", leave=False) as bar:
            for minutes in self.minutes:
                while any(pupil.trainer.seconds < 60 * minutes for pupil in pupils):
                    for pupil in pupils:
                        before = pupil.trainer.seconds
                        pupil.train(min(before + TURN, 60 * minutes))
                        bar.update(round(pupil.trainer.seconds - before))
                for pupil in pupils:
                    bar.set_postfix_str(f"scoring {pupil.title}")
                    row = {"minutes": minutes, "seed": seed}
                    rows.append(row | pupil.score(corpus, tokenizer, self.sentences))
        return rows


@dataclass
class Pupil:
    """A system on its way through the training."""

    title: str
    trainer: Trainer
    precision: str
    """Of products, whichever suits it better."""

    def train(self, seconds: float) -> list[StepRecord]:
        """Go on until it has been trained for so many seconds in all."""
        torch.set_float32_matmul_precision(self.precision)
        return self.trainer.run(seconds=seconds)

    def score(self, corpus: Corpus, tokenizer: Tokenizer, most: int | None) -> dict[str, Any]:
        """BLEU of the averaged weights by beam search, and how far the training has come."""
        torch.set_float32_matmul_precision(self.precision)
        model = self.trainer.averaged()

        def scored(pairs: Sequence[Pair]) -> Any:
            texts = translate(model, tokenizer, [source for source, _ in pairs], beam=4)
            return bleu(texts, [target for _, target in pairs])

        valid, test = scored(corpus.valid[:most]), scored(corpus.test[:most])
        return {
            "system": self.title,
            "parameters": model.count_parameters(),
            "precision": self.precision,
            "steps": self.trainer.steps_done,
            "epoch": self.trainer.epoch,
            "valid_bleu_beam4": valid.score,
            "test_bleu_beam4": test.score,
            "signature": test.signature,
        }


def suitable(model: Translator, batches: Batches, learning: TrainConfig) -> str:
    """The precision of products at which a copy of ``model`` trains faster."""
    some = [batch for batch, _ in zip(batches.epoch(0), range(TRIALS + 1), strict=False)]
    trainer = Trainer(copy.deepcopy(model), batches, learning)

    def at(precision: str) -> Any:
        def step(k: int) -> None:
            torch.set_float32_matmul_precision(precision)
            trainer.step(some[k % len(some)])

        return step

    seconds = take_turns({(OWN, name): at(name) for name in PRECISIONS}, rounds=TRIALS)
    return best_precisions(seconds)[OWN]


if __name__ == "__main__":
    try:
        tyro.cli(Quality, prog="python -m benchmarks.quality")()
    except (TfmrError, ImportError) as error:
        sys.exit(f"benchmarks.quality: {error}")
