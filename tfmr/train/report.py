"""The page that a run leaves for people: what was trained, how well, and how to use it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfmr.train.folder import FILES

SHOWN = 5
"""Translations on the page."""


def report_text(
    folder: Path,
    facts: Mapping[str, Any],
    scores: Sequence[Mapping[str, Any]],
    samples: str,
    done: str,
) -> str:
    """The page in Markdown.

    Args:
        folder: the run's.
        facts: as in scores.json.
        scores: a row for each time the run was scored.
        samples: the text of samples.tsv, or nothing.
        done: how far the training has come, in words.
    """
    recipe = facts["recipe"]
    shown = [
        f"# {facts['corpus']} {facts['direction']}",
        f"A {recipe['model']['kind']} of {facts['parameters']:,} weights over "
        f"{facts['tokens']:,} tokens, trained on {facts['pairs'][0]:,} sentence pairs: {done}. "
        f"Seed {facts['seed']}; every setting is in [recipe.toml](recipe.toml).",
        _block(facts["command"]) if facts["command"] else "",
        "## Scores",
        _scores(scores),
        _samples(samples),
        "## Use it",
        _block(f'python -m tfmr translate --model {shlex.quote(str(folder))} "a sentence"'),
        "Go on with it, or after it was stopped at any moment (the same corpus, more time):",
        _block(f"{_again(facts)} --out {shlex.quote(str(folder))} --resume"),
        "## What is here",
        "\n".join(f"- `{n}`: {what}" for n, what in FILES.items() if (folder / n).exists()),
        "![The curve of the training](curve.png)" if (folder / "curve.png").exists() else "",
        "## Where it was made",
        _where(facts),
    ]
    return "\n\n".join(part for part in shown if part) + "\n"


def _again(facts: Mapping[str, Any]) -> str:
    """The command that trains on the same corpus, in as many processes."""
    one = facts["processes"] == 1
    program = "python -m" if one else f"torchrun --nproc-per-node {facts['processes']} -m"
    own = facts["corpus"] == "your files"
    data = "--files SOURCE TARGET" if own else f"--corpus {facts['corpus']}"
    return f"{program} tfmr train {data} --direction {facts['direction']}"


def _block(command: str) -> str:
    return f"```bash\n{command}\n```"


def _scores(scores: Sequence[Mapping[str, Any]]) -> str:
    """A table of the scores; what a beam found stands beside what the greedy search did."""
    if not scores:
        return "None yet."
    names = [name for name in scores[-1] if name not in ("signature", "epoch", "tokens")]
    head = [name.replace("_", " ").replace("bleu", "BLEU") for name in names]
    rows = [[_number(row.get(name)) for name in names] for row in scores]
    table = [head, ["---:"] * len(head), *rows]
    text = "\n".join("| " + " | ".join(row) + " |" for row in table)
    return (
        f"{text}\n\nBLEU is sacreBLEU's, `{scores[-1]['signature']}`; greedy, unless a beam is "
        "named. Exact is the share of sentences that are the reference to the letter."
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:g}"


def _samples(samples: str) -> str:
    """Some rows of samples.tsv, at even distances."""
    rows = [line.split("\t") for line in samples.splitlines()[1:]]
    if not rows:
        return ""
    parts = ["## Translations of the test part"]
    for source, wanted, said, _ in rows[:: max(1, len(rows) // SHOWN)][:SHOWN]:
        parts.append(f"> {source}\n>\n> wanted: {wanted}\n>\n> said: {said}")
    return "\n\n".join(parts)


def _where(facts: Mapping[str, Any]) -> str:
    machine = facts["hardware"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    commit = f", commit {facts['commit']}" if facts["commit"] else ""
    return (
        f"{machine['processor']}, {machine['threads']} threads, {machine['device']}; {versions}"
        f"{commit}. Corpus {facts['sentences']}, vocabulary {facts['vocabulary']}."
    )
