"""README.md shows the records, and a record or a text that was changed alone is reported."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ablations, depth, heads, layer_cost, speed, tables
from benchmarks.record import Record, read_all
from tfmr.errors import TfmrError
from tfmr.records import FOLDER

RECORDS = read_all()
RENDERED = "README.md is up to date: run python -m benchmarks.tables"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The committed records, to be changed; the model is not read."""
    (tmp_path / "cost").mkdir()
    for name in RECORDS:
        shutil.copy(FOLDER / f"{name}.json", tmp_path / f"{name}.json")
    shutil.copy(tables.README, tmp_path)
    monkeypatch.delattr(heads, "claims")
    return tmp_path


def changed(folder: Path, name: str, change: Any) -> list[str]:
    """What is reported after ``change`` has been called with the record ``name``."""
    path = folder / f"{name}.json"
    record = json.loads(path.read_text("utf-8"))
    change(record)
    path.write_text(json.dumps(record), "utf-8")
    return tables.check(folder, folder / "README.md")


def test_every_statement_holds_for_the_records() -> None:
    assert tables.check() == []


def test_a_number_in_the_readme_is_reported(copied: Path) -> None:
    readme = copied / "README.md"
    readme.write_text(readme.read_text("utf-8").replace("GFLOP/s.", "GFLOPS.", 1), "utf-8")
    assert tables.check(copied, readme) == [RENDERED]
    with pytest.raises(TfmrError, match=r"records: 1$"):
        tables.Tables(check=True, folder=copied, readme=readme)()
    tables.Tables(folder=copied, readme=readme)()
    tables.Tables(check=True, folder=copied, readme=readme)()
    assert readme.read_text("utf-8") == tables.README.read_text("utf-8")


@pytest.mark.parametrize("name", RECORDS)
def test_the_numbers_of_every_record_are_in_the_readme(name: str) -> None:
    def other(value: Any) -> Any:
        if isinstance(value, list):
            return [other(item) for item in value]
        if isinstance(value, float):
            return 3 * value + 0.125
        if value == "named rightly":
            return "not named"
        return 3 * value if isinstance(value, int) and value > 10**6 else value

    chosen = {"peak_lr", "label_smoothing"}
    rows = [
        {key: value if key in chosen else other(value) for key, value in row.items()}
        for row in RECORDS[name]["rows"]
    ]
    changed: Record = {**RECORDS[name], "rows": rows}
    assert tables.section(name, RECORDS[name]) in tables.README.read_text("utf-8")
    assert tables.section(name, changed) not in tables.README.read_text("utf-8")


CLAIMS: list[tuple[str, int, str, object, str]] = [
    ("speed", 2, "seconds", [1e-4] * 5, "tfmr is the fastest system in PyTorch in train A"),
    ("profile", -1, "share", 0.9, "matrix multiplication takes the largest share of single"),
    ("versus", 0, "ratio", 1.06, "train A, fp32 is at most 5 % slower: 1.06"),
    ("quality", 0, "steps", 1, "torch.nn.Transformer after 2.5 minutes has taken fewer steps"),
    ("recall", -1, "accuracy", 0.5, "GRU, update bias 5 at distance 60"),
    ("recall-rates", -1, "accuracy", 1.0, "no LSTM with a forget bias of 1 learns the task"),
    ("recall-seeds", 0, "accuracy", 1.0, "RNN: 2 of 20 seeds learn the task"),
    ("recall-seeds", 40, "accuracy", 1.0, "RNN, radius 1: 13 of 20 seeds learn the task"),
    ("recall-seeds", 120, "accuracy", 1.0, "LSTM, forget bias 5, constant gates: 15 of 20 seeds"),
    ("copying", -1, "accuracy", [0.0] * 7, "attention repeats more of 6 digits than one"),
    ("positions", -1, "beyond", 0.9, "none, two layers, 600 steps, beyond: not solved"),
    ("relations", -1, "accuracy", [0.5], "block, four heads, no $W^O$: solved only with four"),
    ("distance", -1, "accuracy", [0.5] * 6, "self-attention, seed 4: at least 0.99"),
    ("distance-alone", -1, "accuracy", [0.5], "self-attention, seed 4: at least 0.99"),
    ("distance-alone", 17, "accuracy", [0.5], "recurrent (LSTM), seed 4: below 0.4"),
    ("associative", -1, "accuracy", [0.5] * 5, "self-attention, seed 4: at least 0.99"),
    ("layer-length", -1, "seconds", [9.0] * 9, "the parts of a block cross"),
    ("layer-parallelism", -1, "seconds", [1e-9] * 9, "with 256 sentences, it is faster"),
    ("copying-long", -1, "accuracy", [1.0] * 7, "attention repeats more of 8 digits than one vec"),
    ("cost/training", -1, "valid_loss", 9.0, "and is level from there"),
    ("cost/decoding", -1, "seconds", 9.0, "the cache saves more on longer sentences"),
    ("cost/attention", -1, "seconds", 9.0, "the fit"),
    ("inside", -1, "difference_interval", [-1, 1], "beam search is ahead of greedy"),
    ("inside", -1, "bleu", 12.0, "repetition is more than two thirds of the BLEU lost"),
    ("depth-encoder", -1, "learned_at", None, "pre-norm, warm-up 100: [5, 5, 4] runs"),
    ("depth-final-norm", 0, "learned_at", 9, "residual, final norm, warm-up 0: [1, 5, 5, 5, 0, 0]"),
    ("depth-feed-forward", -1, "learned_at", None, "pre-norm, warm-up 0: [0, 5, 5, 5, 5, 4] runs"),
    ("beams", 3, "length", 0.9, "and shorter ones"),
    ("previous-token", -1, "lead_zero_interval", [-1, 1], "its removal costs more"),
    (
        "marks",
        1,
        "loss_increase_interval",
        [-0.01, 0.05],
        "all weight on the previous token costs less than a",
    ),
    ("marks", 6, "loss_increase", 0.01, "the cost of keys is that of previous-token.json"),
    ("marks", 9, "loss_increase", 0.05, "a rotated change costs less than a fifth"),
    ("marks", -1, "gain_interval", [-1, 1], "cross-attention follows the marks in every block"),
    ("ablations", -1, "diverged", True, "no run diverged"),
    ("sick-runs", 0, "valid_exact", 0.0, "healthy: most translations are exact"),
    ("sick-runs", 32, "train_loss", 9.0, "200 pairs: the training loss"),
    ("tying", 0, "valid_loss", 0.0, "0.003, 100 steps, usual logits: separate has the lower"),
    (
        "tying-logits",
        0,
        "valid_loss",
        0.0,
        "0.003, 100 steps, small logits: separate has the lower",
    ),
    (
        "tying-logits",
        -1,
        "valid_loss",
        9.0,
        "0.01, 400 steps, large logits: separate has the lower",
    ),
    ("tying", -1, "valid_loss", 0.0, "0.01, 400 steps: the loss without the factor"),
    ("division", 17, "valid_loss", 9.0, "800 steps: the small start is between the others"),
    ("division", 22, "valid_loss", 1.0, "240 steps: with the division, every seed has a lower"),
    ("family-digits", -1, "accuracy", 0.5, "ViT, shifted images is ahead of logistic regression"),
    ("family-digits", -2, "accuracy", 0.5, "CNN, shifted images is ahead of ViT, shifted images"),
    ("family-digits", 32, "accuracy", 0.984, "ViT, shifted images and MLP, shifted images: undec"),
    ("family-gpt-pocket", -1, "ahead_of_best_n_gram_nats", [-1, 1], "GPT is ahead"),
    ("family-llama-multi30k", -1, "ahead_of_best_n_gram_nats", [-1, 1], "Llama is ahead"),
    ("family-bert-pocket", -1, "ahead_of_n_gram_nats", [-1, 1], "BERT is ahead"),
    ("family-bert-multi30k-baselines", -1, "perplexity", 5.0, "BERT is ahead of every baseline"),
    ("family-changes", -1, "loss", 9.0, "all changes"),
    ("family-tasks", -1, "copy", 0.999, "the prefix improves copy"),
    ("family-t5-multi30k", -1, "french", 99.0, "the prefix improves french"),
    ("parallel", -1, "weights", [1, 2], "FSDP, 4 processes, 1 batches: bytes stored"),
    ("parallel", -1, "losses", [6.0] * 10, "FSDP, 4 processes, 1 batches: the losses"),
    ("parallel", -1, "bytes", [2000], "FSDP, 4 processes, 1 batches: bytes of collec"),
    ("parallel", -1, "sent", [4_000_000], "FSDP, 4 processes, 1 batches: bytes sent"),
    ("scaling-law", -1, "loss", 9.0, "the loss falls with the tokens, width 96"),
    ("step-memory", -1, "gradients_kept", 10, "ViT-B/16"),
    ("utilisation", -1, "share_of_peak", 1.2, "no step reaches the peak"),
    ("speed-ctranslate2", 0, "seconds", [9.0] * 11, "README.md states the time of CTranslate2, gr"),
    ("multi30k", 12, "step", 9999, "README.md contains"),
    ("multi30k", 0, "step", 9999, "multi30k-de-en is the first run"),
    ("ruler", -1, "test_bleu_beam5", 50.0, "README.md or benchmarks/README.md contains"),
    ("ruler", -1, "test_bleu_lowercase", 50.0, "no run reaches the published score, 41.02"),
    ("ruler", -1, "test_bleu", 99.0, "test: 40.04 with the default"),
    ("translator-page", 0, "probability_of_95_percent", 0.45, "multi30k-de-en: 95 % reach more"),
]
"""Record, index of a row with the column, the column, its new value, and what is reported."""


@pytest.mark.parametrize(("name", "index", "column", "value", "claim"), CLAIMS)
def test_a_changed_value_is_reported(
    copied: Path, name: str, index: int, column: str, value: object, claim: str
) -> None:
    def change(record: Record) -> None:
        rows = [row for row in record["rows"] if column in row and row.get("system") != "peak"]
        rows[index][column] = value

    found = changed(copied, name, change)
    assert any(problem.startswith(f"{name}: {claim}") for problem in found), found


def test_a_changed_score_of_english_to_german_is_reported(copied: Path) -> None:
    def change(record: Record) -> None:
        for row in tables.select(record["rows"], direction="en-de"):
            row["test_bleu_beam4"] += 1

    found = changed(copied, "multi30k", change)
    assert any("English to German" in claim and "(0, 5059, 38.0)" in claim for claim in found)


def test_fewer_steps_than_in_the_longer_measurement_are_reported(copied: Path) -> None:
    def change(record: Record) -> None:
        tables.only(record["rows"], system="tfmr", minutes=5.0)["steps"] = 9999

    found = changed(copied, "quality", change)
    assert any(claim.startswith("quality: after 5 minutes, fewer steps") for claim in found)


def test_a_record_without_seeds_or_commit_is_reported(copied: Path) -> None:
    def change(record: Record) -> None:
        del record["settings"]["seed"]
        record["metadata"]["commit"] = None

    found = changed(copied, "replay", change)
    assert found == [
        RENDERED,
        "replay: the metadata name commit and processor",
        "replay: the record has its seeds",
    ]


@pytest.mark.parametrize("command", ["python -m benchmarks.weather", "python -m tfmr train"])
def test_a_record_of_an_unknown_command_raises(command: str) -> None:
    record = RECORDS["replay"]
    record = {**record, "metadata": record["metadata"] | {"command": command}}
    with pytest.raises(TfmrError, match=rf"x\.json: .*'{command}'"):
        tables.section("x", record)


def test_only_text_between_the_marks_changes() -> None:
    text = f"above\n\n{tables.BEGIN}\nold\n{tables.END}\n\nbelow\n"
    once = tables.render(text, {"replay": RECORDS["replay"]})
    assert once.startswith(f"above\n\n{tables.BEGIN}\n\n### replay.json")
    assert once.endswith(f"{tables.END}\n\nbelow\n")
    assert "old" not in once
    assert tables.render(once, {"replay": RECORDS["replay"]}) == once
    assert "There are no records yet." in tables.render(text, {})
    with pytest.raises(TfmrError, match="exactly once"):
        tables.render(f"{tables.BEGIN} {tables.BEGIN} {tables.END}", {})


@pytest.mark.parametrize(
    ("rows", "settings", "threads"),
    [
        ([], {}, "2 threads"),
        ([], {"threads": 1}, "1 thread"),
        ([{"threads": 4}, {"threads": 1}], {}, "1 or 4 threads"),
    ],
)
def test_the_provenance(rows: list[Any], settings: dict[str, Any], threads: str) -> None:
    metadata = {
        **{"command": "python -m benchmarks.speed", "date": "2026-01-02", "commit": None},
        "hardware": {"processor": "Z80", "threads": 2, "device": "cpu"},
        "versions": {"torch": "2.0", "tfmr": "0.1"},
    }
    record: Record = {"kind": "x", "metadata": metadata, "settings": settings, "rows": rows}
    start = "`python -m benchmarks.speed` on 2026-01-02, commit unknown"
    assert tables.provenance(record) == f"{start}: Z80, {threads}; torch 2.0, tfmr 0.1."


def test_rows_are_selected_and_grouped() -> None:
    one, two, three = rows = [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}]
    assert tables.grouped(rows, "a") == {1: [one, three], 2: [two]}
    assert tables.grouped(rows, "b", "a") == {(1, 1): [one], (1, 2): [two], (2, 1): [three]}
    assert tables.select(rows, a=1) == [one, three]
    assert tables.only(rows, a=1, b=2) == three
    with pytest.raises(ValueError, match="too many values"):
        tables.only(rows, a=1)


def test_cells_by_hand() -> None:
    assert tables.markdown(["", "a"], [["x", "1"]]) == "|  | a |\n|---|--:|\n| x | 1 |"
    assert tables.spread([1.0, 2.0, 6.0]) == "3.0 (1.0–6.0)"
    assert tables.spread([1.0, 2.0, 6.0], ".2f", max) == "6.00 (1.00–6.00)"
    assert (tables.spread([1.25], ".2f"), tables.spread([])) == ("1.25", tables.NOTHING)
    assert (tables.count(1, "seed"), tables.count(2, "seed")) == ("1 seed", "2 seeds")


def test_systems_are_compared_at_equal_precision() -> None:
    def row(system: str, precision: str, task: str, *seconds: float) -> dict[str, Any]:
        about = {"task": task, "system": system, "precision": precision, "seconds": seconds}
        return about | {"tokens_per_second": 100 / seconds[0], "share_of_peak": 0.5}

    peak = {"task": "train A", "system": "peak", "precision": "fp32", "gflops": 123.0}
    rows = [
        row("tfmr", "fp32", "train A", 2.5, 2.5, 2.5),
        row("tfmr", "fp32", "train A", 2.0, 2.0, 2.0),
        row("tfmr", "bf16", "train A", 1.0, 1.0, 1.0),
        row("peer", "fp32", "train A", 3.0, 3.2, 2.8),
        row("peer", "fp32", "train A", 9.0, 9.0, 9.0),
        row("peer", "bf16", "train A", 4.0, 4.0, 5.0),
        row("tfmr", "fp32", "greedy", 0.5),
        *(peak, {**peak, "task": "greedy", "gflops": 456.0}),
    ]
    text = "\n".join(speed.table(rows, {}))
    fp32, bf16, mixed = text.split("**")[2::2]
    assert "Peak: 123 to 456 GFLOP/s." in fp32
    assert "|  | train A | greedy |\n|---|--:|--:|\n| tfmr, tokens/s | 50 | 200 |" in fp32
    assert "| peer | 1.50 (1.40–1.60) | – |" in fp32
    assert "| tfmr, share of the peak | 50% | 50% |" in fp32
    assert "The peak was not measured." in bf16
    assert "| tfmr, tokens/s | 100 |\n| peer | 4.00 (4.00–5.00) |" in bf16
    assert "| tfmr, tokens/s | 100, bf16 | 200, fp32 |" in mixed
    assert "| peer | 3.00 (2.80–3.20), fp32 | – |" in mixed


def test_runs_that_have_not_learned_have_no_steps() -> None:
    common = {"stack": "a", "warmup": 100, "peak_lr": 1e-3, "stream": 2.0, "last_grad": 2.0}
    rows = [common | {"first_grad": 3.0 * k, "learned_at": (40, None, 20)[k]} for k in range(3)]
    rows += [row | {"peak_lr": 1e-2, "learned_at": None} for row in rows]
    settings = {"experiment": "encoder", "seeds": [1, 2, 3], "steps": 7, "uniform_loss": 2.7726}
    settings |= {"blocks": 6, "learned_below": 0.5, "mean_of_last_steps": 2}
    text = depth.table(rows, settings)[-1]
    assert text.endswith("| a | 100 | 2 | 1.5 | 2 (20–40) | 0 |")


def test_ablations_show_paired_differences() -> None:
    def row(seed: int, loss: float, **changes: Any) -> dict[str, Any]:
        recipe = {"norm": "pre", "label_smoothing": 0.1, "peak_lr": 0.003, "warmup": True}
        values = {"valid_exact": 0.5, "correct": 0.75, "confidence": 0.875, "accuracy": 1.0}
        return recipe | {"seed": seed, "diverged": False, "valid_loss": loss} | values | changes

    rows = [row(seed, 0.5 + seed) for seed in range(3)]
    rows += [row(seed, 0.25 + seed, label_smoothing=0.0, correct=1.0) for seed in range(3)]
    rows += [row(seed, 1.0 + 1.5 * seed, warmup=False) for seed in range(3)]
    rows += [row(seed, 2.0, norm="post") for seed in range(3)]
    rows += [row(seed, 2.0, norm="post", warmup=False, diverged=seed == 2) for seed in range(3)]
    settings = {"recipe": "pocket", "direction": "en-fr", "steps": 4, "seeds": [0, 1, 2]}
    settings |= {"sentences": 9, "split": "validation", "train.warmup": 2, "recipe_lr": 0.003}
    text = "\n".join(ablations.table(rows, settings))
    assert "| with | 1.500 | 0.500 | 0.750 | 0.875 | 1.000 |" in text
    assert "| without | 1.250 | 0.500 | 1.000 | 0.875 | 1.000 |" in text
    assert "| difference | +0.250 (+0.250 to +0.250) | +0.000 (+0.000 to +0.000) |" in text
    # Differences of -0.5, -1 and -1.5: the standard deviation is 0.5, the margin 1.242.
    assert "| pre-norm, 0.003 | 1.500 | 2.500 | -1.000 (-2.242 to +0.242) | 0.500 |" in text
    assert "| post-norm, 0.003 | 2.000 | 1 diverged | – | 0.500 | 1 diverged | – |" in text


def test_layers_are_compared_with_the_first() -> None:
    case = {"d_model": 64, "threads": 1, "batch": 1, "length": 8}
    rows = [
        case | {"layer": layer, "mode": mode, "bytes": size * 2**19, "seconds": seconds}
        for layer, mode, size, seconds in (
            ("RNN", "training", 3, [1.0, 2.0, 1.0]),
            ("attention", "training", 4, [4.0, 4.0, 3.0]),
            ("RNN", "forward", 1, [9.0]),
            ("attention", "forward", 2, [9.0]),
        )
    ]
    settings = {"part": "length", "precision": "fp32", "rounds": 3, "load_average": [1.5, 0.5]}
    about, _, times, _, forward, _, training = layer_cost.table(rows, settings)
    assert "at most 1.5." in about
    assert times.endswith("| RNN | 1.00 |\n| attention | 3.00 |")
    assert forward.endswith("| RNN | 0.50 |\n| attention | 1.00 |")
    assert training.endswith("| RNN | 1.50 |\n| attention | 2.00 |")
    by_batch = layer_cost.table(rows, settings | {"part": "parallelism"})
    assert len(by_batch) == 3
    assert by_batch[1].endswith("d_model 64, length 8, by batch size:")
