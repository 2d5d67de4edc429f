"""``python -m benchmarks.ruler``: the recipe ``multi30k-best`` beside a published score.

The ruler is the BLEU of Transformer-Tiny in Wu et al. (2021) from English to German: 41.02,
computed on their own lower-case tokens. The record has the trials that led to the recipe, three
runs in each direction, and BLEU by length penalty, cased and lower-case, for English to German.
Every run is the command ``python -m tfmr train``, as in :mod:`benchmarks.multi30k`. The runs of the
stored record were started before the recipe had its name, with ``--recipe multi30k-patient`` and
the values of ``multi30k-best``; the trials were stopped after their first score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import sacrebleu
from tqdm import tqdm

from benchmarks import record
from benchmarks.multi30k import TrainingRun
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, RANGE, Claims, grouped, markdown, select, spread
from tfmr.checkpoint import load_translator
from tfmr.data import corpora
from tfmr.decode import translate
from tfmr.decode.beam import ALPHA
from tfmr.fast import cpu_matmul_settings, prepare

BEST = "multi30k-best"
"""The recipe."""
DIRECTION = "en-de"
"""The direction of the published score."""
PUBLISHED = 41.02
SMALL = ("model.n_encoder=3", "model.n_decoder=3", "model.d_ff=512")
"""The layers of the recipe ``multi30k``."""
WIDE = ("model.n_encoder=3", "model.n_decoder=3", "model.d_model=160", "model.d_ff=640")
TRIALS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (DIRECTION, ()),
    (DIRECTION, SMALL),
    (DIRECTION, (*SMALL, "model.dropout=0.2")),
    (DIRECTION, (*SMALL, "train.peak_lr=6e-3")),
    (DIRECTION, (*SMALL, "vocabulary.size=5000")),
    (DIRECTION, (*WIDE, "vocabulary.size=3000")),
    ("de-en", SMALL),
    ("de-en", (*SMALL, "vocabulary.size=5000")),
)
"""The direction of each trial, and what differs from the recipe."""
TRIAL_STEPS = 2500
BEAM = 5
ALPHAS = (ALPHA, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Length penalties, the default first."""


@dataclass(frozen=True)
class Ruler:
    """Train the trials and the runs that are missing, score them, and record all.

    If six runs share one H100, each takes three minutes; on two cores, a run takes hours. Of the
    trials, the record has the scores on the validation set only. The length penalty is selected
    there, too, for the direction of the published score.
    """

    seeds: int = 3
    """Runs in each direction."""
    directions: tuple[str, ...] = (DIRECTION, "de-en")
    alphas: tuple[float, ...] = ALPHAS
    runs: Path = Path("runs/ruler")
    """The folders of the runs."""
    out: Path = record.FOLDER / "ruler.json"
    """The record."""

    def __call__(self) -> None:
        """Train, score and record."""
        metadata = record.collect_metadata()
        rows = [self.trial(k) for k in range(len(TRIALS))]
        runs = [
            TrainingRun(BEST, direction, seed, (), self.runs)
            for direction in self.directions
            for seed in range(self.seeds)
        ]
        for run in tqdm(runs, unit=" runs"):
            rows += [{"part": "run", **row, **_machine(run)} for row in run.rows()]
        rows += self.penalties([run for run in runs if run.direction == DIRECTION])
        settings = {"corpus": "multi30k", "seeds": self.seeds, "beam": BEAM}
        record.write(self.out, "ruler", rows, settings=settings, metadata=metadata)

    def trial(self, k: int) -> Row:
        """The row of a trial: what differs from the recipe, and its score on the validation set."""
        direction, changes = TRIALS[k]
        overrides = (*changes, f"budget.steps=[{TRIAL_STEPS}]")
        run = TrainingRun(BEST, direction, 0, (), self.runs / f"trial-{k}", overrides)
        [row] = run.rows()
        kept = ("direction", "seed", "parameters", "commit", "step", "tokens", "valid_loss")
        scores = {name: row[name] for name in (*kept, f"valid_bleu_beam{BEAM}")}
        return {"part": "trial", "changes": list(changes), **scores, **_machine(run)}

    def penalties(self, runs: Sequence[TrainingRun]) -> Iterator[Row]:
        """BLEU of ``runs`` with each length penalty.

        The test set is only translated with the default, and with the penalty that has the highest
        mean on the validation set.
        """
        corpus = corpora.load("multi30k", DIRECTION)
        sets = {"valid": corpus.valid, "test": corpus.test}
        models = [load_translator(run.folder) for run in runs]

        def score(split: str, alpha: float) -> list[dict[str, float]]:
            sources, references = zip(*sets[split], strict=True)
            found = []
            for model, tokenizer in tqdm(models, desc=f"{split}, alpha {alpha:g}", leave=False):
                prepared = prepare(model)
                with cpu_matmul_settings(prepared, rows=BEAM * len(sources)):
                    texts = translate(
                        prepared, tokenizer, sources, beam=BEAM, alpha=alpha, detokenise=False
                    )
                found.append(
                    {
                        f"{split}_{name}": round(
                            sacrebleu.corpus_bleu(texts, [references], lowercase=lower).score, 2
                        )
                        for name, lower in (("bleu", False), ("bleu_lowercase", True))
                    }
                )
            return found

        valid = {alpha: score("valid", alpha) for alpha in self.alphas}
        best = max(self.alphas, key=lambda alpha: mean(each["valid_bleu"] for each in valid[alpha]))
        for alpha in self.alphas:
            test = score("test", alpha) if alpha in (ALPHA, best) else [{} for _ in runs]
            for run, own, held_out in zip(runs, valid[alpha], test, strict=True):
                name = {"part": "penalty", "direction": DIRECTION, "seed": run.seed, "alpha": alpha}
                yield {**name, **own, **held_out, "selected": alpha == best}


def _machine(run: TrainingRun) -> Row:
    hardware: dict[str, Any] = run.metadata()["hardware"]
    return {"device": hardware["device"], "precision": hardware["arithmetic"]}


def table(rows: list[Row], settings: Row) -> list[str]:
    """The trials, the runs, and the length penalties."""
    bleu = f"bleu_beam{settings['beam']}"
    trials = [
        [
            row["direction"],
            ", ".join(change.partition(".")[2].replace("=", " ") for change in row["changes"])
            or "none",
            f"{row['parameters']:,}",
            f"{row[f'valid_{bleu}']:.1f}",
        ]
        for row in select(rows, part="trial")
    ]
    runs = [
        [
            direction,
            f"{step:,}",
            f"{mean(row['tokens'] for row in own) / 1e6:.1f} million",
            str(len(own)),
            *(spread([row[f"{split}_{bleu}"] for row in own]) for split in ("valid", "test")),
        ]
        for (direction, step), own in grouped(select(rows, part="run"), "direction", "step").items()
    ]
    columns = ("valid_bleu", "test_bleu", "test_bleu_lowercase")
    penalties = [
        [
            f"{alpha:g}" + (" (selected)" if own[0]["selected"] else ""),
            *(
                spread([row[name] for row in own]) if name in own[0] else NOTHING
                for name in columns
            ),
        ]
        for alpha, own in grouped(select(rows, part="penalty"), "alpha").items()
    ]
    [parameters] = grouped(select(rows, part="run"), "parameters")
    devices = ", ".join(
        f"{device} ({precision})"
        for device, precision in grouped(select(rows, part="run"), "device", "precision")
    )
    return [
        f"The trials: what differs from the recipe, and BLEU on the validation set after "
        f"{TRIAL_STEPS:,} steps (seed 0, beam {settings['beam']}).",
        markdown(["", "changes", "parameters", "validation"], trials),
        f"The recipe ({parameters:,} parameters), trained on {devices}: BLEU with a beam of "
        f"{settings['beam']}, the mean over the seeds, {RANGE}.",
        markdown(["", "steps", "target tokens", "seeds", "validation", "test2016"], runs),
        f"From English to German, by length penalty: BLEU, the mean over the seeds, {RANGE}.",
        markdown(["alpha", "validation", "test2016", "test2016, lower-case"], penalties),
    ]


def quotes(rows: list[Row], settings: Row) -> Iterator[str]:
    """What README.md or benchmarks/README.md contains about the recipe."""
    runs = select(rows, part="run")
    last = max(row["step"] for row in runs)
    for _, own in grouped(select(runs, step=last), "direction").items():
        yield spread([row[f"test_bleu_beam{settings['beam']}"] for row in own])
    for alpha, own in grouped(select(rows, part="penalty"), "alpha").items():
        if "test_bleu" in own[0]:
            found = spread([row["test_bleu_lowercase"] for row in own])
            yield f"{found} with a length penalty of {alpha:g}"
    [parameters] = grouped(runs, "parameters")
    yield f"{parameters / 1e6:.2f} million parameters"


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """What README.md and benchmarks/README.md state about the recipe."""
    paths = (record.ROOT / "README.md", record.ROOT / "benchmarks" / "README.md")
    text = " ".join(" ".join(path.read_text("utf-8").split()) for path in paths)
    for quote in quotes(rows, settings):
        yield f"README.md or benchmarks/README.md contains: {quote}", quote in text
    scores = [row.get("test_bleu_lowercase", 0.0) for row in rows]
    yield f"no run reaches the published score, {PUBLISHED}", max(scores) < PUBLISHED
    ordered = sorted(select(rows, part="penalty"), key=lambda row: row["alpha"])
    tested = [own for own in grouped(ordered, "alpha").values() if "test_bleu" in own[0]]
    for split, sign in (("valid", 1), ("test", -1)):
        default, selected = (mean(row[f"{split}_bleu"] for row in own) for own in tested)
        claim = f"{split}: {default:.2f} with the default, {selected:.2f} with the selected penalty"
        yield claim, sign * (selected - default) > 0


if __name__ == "__main__":
    record.run(Ruler)
