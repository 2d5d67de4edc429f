"""``benchmarks.claims`` reports every record and README that does not match."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import claims
from benchmarks.tables import README
from tfmr.records import FOLDER


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The committed records, to be changed; the model is not read."""
    (tmp_path / "cost").mkdir()
    for path in [*FOLDER.glob("*.json"), *FOLDER.glob("cost/*.json")]:
        shutil.copy(path, tmp_path / path.relative_to(FOLDER))
    shutil.copy(README, tmp_path)
    monkeypatch.setattr(claims, "heads", lambda record: [])
    return tmp_path


def test_unchanged_records_have_no_problems(copied: Path) -> None:
    assert claims.check(copied, copied / "README.md") == []


def test_a_changed_readme_is_reported(copied: Path) -> None:
    text = (copied / "README.md").read_text("utf-8")
    (copied / "README.md").write_text(text.replace("GFLOP/s.", "GFLOPS.", 1), "utf-8")
    [problem] = claims.check(copied, copied / "README.md")
    assert problem == "README.md is up to date: run python -m benchmarks.tables"


@pytest.mark.parametrize(
    ("name", "column", "value", "problem"),
    [
        ("speed", "seconds", [1e-4] * 5, "speed: tfmr is the fastest system in train A"),
        ("quality", "steps", 1, "quality: tfmr"),
        ("multi30k", "step", 9999, "multi30k: seed 2 took the fewest steps in 5 minutes"),
        ("recall", "accuracy", 0.5, "recall: GRU, update bias 5 at distance 60"),
        ("copying", "accuracy", [0.0] * 7, "copying: attention repeats more of 6 digits than one"),
        (
            "distance",
            "accuracy",
            [0.5] * 8,
            "distance: local self-attention, seed 2: at least 0.99",
        ),
        ("layer-length", "seconds", [9.0] * 5, "layer-length: d 128: the parts of a block cross"),
        (
            "layer-length",
            "bytes",
            1,
            "layer-length: {'mode': 'training', 'd_model': 128, 'length': 1024}: the RNN needs the",
        ),
        (
            "layer-parallelism",
            "seconds",
            [9.0] * 5,
            "layer-parallelism: 256 sentences: two threads favour self-attention",
        ),
        ("cost/training", "valid_loss", 9.0, "cost/training"),
        ("cost/attention", "seconds", 9.0, "cost/attention: the fit"),
        ("inside", "difference_interval", [-1, 1], "inside: beam search is ahead of greedy"),
        ("inside", "bleu", 12.0, "inside: repetition is more than two thirds of the BLEU lost"),
        ("depth-feed-forward", "loss", 0.6, "depth-feed-forward: pre-norm, 32 networks: [5, 5, 4]"),
        ("depth-encoder", "loss", 1.2, "depth-encoder: pre-norm learns"),
        ("depth-warm-up", "loss", 9.0, "depth-warm-up: post-norm, 12 blocks, 0.001: warm-up helps"),
        ("ablations", "diverged", True, "ablations: no run diverged"),
        ("family-digits", "accuracy", 0.5, "family-digits: ViT is ahead of logistic regression"),
        ("family-gpt-pocket", "ahead_of_best_n_gram_nats", [-1, 1], "family-gpt-pocket: GPT is"),
        (
            "family-llama-multi30k",
            "ahead_of_best_n_gram_nats",
            [-1, 1],
            "family-llama-multi30k: Llama is ahead of the n-gram model",
        ),
        ("family-bert-pocket", "ahead_of_n_gram_nats", [-1, 1], "family-bert-pocket: BERT is"),
        ("family-changes", "loss", 9.0, "family-changes: all changes"),
        ("family-tasks", "copy", 0.99, "family-tasks: the prefix improves copy"),
        ("parallel", "weights", [1, 2], "parallel: FSDP, 4 processes, 1 batches: bytes stored"),
        ("parallel", "losses", [6.0] * 10, "parallel: FSDP, 4 processes, 1 batches: the losses"),
        ("parallel", "bytes", [2000], "parallel: FSDP, 4 processes, 1 batches: bytes of collec"),
        ("parallel", "sent", [4_000_000], "parallel: FSDP, 4 processes, 1 batches: bytes sent"),
        ("scaling-law", "loss", 9.0, "scaling-law: the loss falls with the tokens, width 96"),
        ("family-t5-multi30k", "french", 99.0, "family-t5-multi30k: the prefix improves french"),
        ("step-memory", "gradients_kept", 10, "step-memory: ViT-B/16"),
        ("utilisation", "share_of_peak", 1.2, "utilisation: no step reaches the peak"),
    ],
)
def test_a_changed_value_is_reported(
    copied: Path, name: str, column: str, value: object, problem: str
) -> None:
    path = copied / f"{name}.json"
    record = json.loads(path.read_text("utf-8"))
    # A peer of speed, tfmr in quality, seed 2 after 5 minutes in multi30k, 12 post-norm blocks with
    # warm-up in depth-warm-up, local attention for the memory of the layers, elsewhere the last
    # row.
    rows = [row for row in record["rows"] if column in row and row.get("system") != "peak"]
    index = {"speed": 2, "quality": 0, "multi30k": 12, "depth-warm-up": 54}.get(name, -1)
    index = -3 if (name, column) == ("layer-length", "bytes") else index
    rows[index][column] = value
    path.write_text(json.dumps(record), "utf-8")
    found = claims.check(copied, copied / "README.md")
    if name == "quality":
        problem = "quality: torch.nn.Transformer after 2.5 minutes has taken fewer steps than tfmr"
    assert any(claim.startswith(problem) for claim in found), found


def test_a_changed_score_of_english_to_german_is_reported(copied: Path) -> None:
    path = copied / "multi30k.json"
    record = json.loads(path.read_text("utf-8"))
    for row in record["rows"]:
        if row["direction"] == "en-de":
            row["test_bleu_beam4"] += 1
    path.write_text(json.dumps(record), "utf-8")
    claim = "multi30k: English to German, seed, steps and BLEU after 20 minutes: (0, 5059, 38.0)"
    assert claim in claims.check(copied, copied / "README.md")
