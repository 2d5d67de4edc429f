"""Compare statements in prose with the committed records: ``python -m tools.claims``.

Checks the README and chapter 11 here, and calls :func:`benchmarks.claims.check` for the statements
about the benchmarks. A failure means that a record or a sentence was changed without the other; it
is not an error in the code, so ``make check`` runs it and the tests do not.
"""

import json
import sys
from collections.abc import Iterator
from statistics import mean
from typing import Any

from benchmarks import claims as benchmark_claims
from tfmr.records import record_path
from tfmr.train.config import find_recipe
from tools import ROOT

Claims = Iterator[tuple[str, bool]]
"""Statements, and whether they are true."""


def check() -> list[str]:
    """The statements that are not true."""
    own = [*readme(), *early_stopping(), *recorded_run()]
    return [claim for claim, holds in own if not holds] + benchmark_claims.check()


def readme() -> Claims:
    """The section *Measured results* of the README."""
    record = _read("multi30k.json")
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    rows: list[dict[str, Any]] = record["rows"]
    *_, last = minutes = record["settings"]["minutes"]

    def score(recipe: str, direction: str, after: float | None = None) -> str:
        scores = [
            row["test_bleu_beam4"]
            for row in rows
            if (row["recipe"], row["direction"]) == (recipe, direction)
            and after in (None, row["minutes"])
        ]
        return f"{mean(scores):.1f}"

    [parameters] = {row["parameters"] for row in rows if row["direction"] == "de-en"}
    [signature] = {row["signature"] for row in rows}
    [step] = [row["step"] for row in rows if row["recipe"] == "multi30k-patient"]
    runs = {1: "one run", 2: "the means over the two runs", 3: "the means over the three runs"}
    quotes = [
        f"{parameters / 1e6:.2f} million parameters",
        signature,
        *(f"{score('multi30k', 'de-en', after)} after {after:g}" for after in minutes),
        runs[record["settings"]["seeds"]["de-en"]],
        f"After {last:g} minutes, a single run for English to German reached "
        + score("multi30k", "en-de", last),
        f"English to French reached {score('multi30k', 'en-fr', last)}",
        f"{score('multi30k-patient', 'de-en')} for German to English after {step:,} steps",
        *(
            f"{row['test_bleu_beam4']:.1f} ({row['step']:,} steps)"
            for row in rows
            if (row["recipe"], row["direction"]) == ("multi30k", "de-en")
        ),
        f"--direction de-en --minutes {' '.join(f'{after:g}' for after in minutes)}",
    ]
    for quote in quotes:
        yield f"README.md contains: {quote}", quote in text


def early_stopping() -> Claims:
    """What chapter 11 states about the recipe ``multi30k-patient``."""
    patient, plain = find_recipe("multi30k-patient"), find_recipe("multi30k")
    text = (ROOT / "book" / "11-training.ipynb").read_text("utf-8")
    steps = f"{patient.budget.steps[-1]:,}"
    yield f"chapter 11 contains the step limit of multi30k-patient: {steps}", steps in text
    yield "multi30k-patient stops after ten validations", patient.evaluation.patience == 10
    dropout: list[float] = [getattr(recipe.model, "dropout", 0.0) for recipe in (patient, plain)]
    yield f"multi30k-patient has more dropout than multi30k: {dropout}", dropout[0] > dropout[1]
    decay = [recipe.train.ema_decay for recipe in (patient, plain)]
    yield f"multi30k-patient has a slower EMA than multi30k: {decay}", decay[0] > decay[1]


def recorded_run() -> Claims:
    """The run directory that the book uses is the first run of the record."""
    rows = _read("multi30k.json")["rows"]
    run = _read("multi30k-de-en/scores.json")
    common = {"recipe": "multi30k", "direction": "de-en", "seed": 0}
    first = [row for row in rows if common.items() <= row.items()]
    common |= {"parameters": run["parameters"], "commit": run["commit"]}
    common |= {"threads": run["hardware"]["threads"]}
    same = [common | row for row in run["scores"]] == first
    yield "multi30k-de-en is the first run in multi30k.json", same


def _read(name: str) -> Any:
    return json.loads(record_path(name).read_text("utf-8"))


def main() -> int:
    """Print the statements that are not true; the exit status is 1 if there are any."""
    failed = check()
    for claim in failed:
        print(f"claims: not true: {claim}", file=sys.stderr)
    print(f"claims: {len(failed)} statements differ from the records")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
