"""Rendering of records into README.md."""

import copy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.markdown import markdown
from benchmarks.record import Record
from benchmarks.tables import BEGIN, END, Tables, provenance, render, section
from tfmr.errors import TfmrError

METADATA = {
    "command": "python -m benchmarks.speed",
    "date": "2026-01-02",
    "commit": "0123456789ab",
    "hardware": {"processor": "Z80", "threads": 2, "device": "cpu"},
    "versions": {"torch": "2.0", "tfmr": "0.1"},
}


def speed_row(system: str, precision: str, setting: str, seconds: list[float]) -> dict[str, Any]:
    return {
        **{"task": "train A", "system": system, "precision": precision},
        **{"float32_matmul_precision": setting, "seconds": seconds},
        **{"tokens_per_second": 100 / seconds[0], "share_of_peak": 0.5},
    }


def peak_row(precision: str, gflops: float) -> dict[str, Any]:
    return {"task": "train A", "system": "peak", "precision": precision, "gflops": gflops}


SPEED: Record = {
    "kind": "speed",
    "metadata": METADATA,
    "settings": {"seed": 0},
    "rows": [
        speed_row("tfmr", "fp32", "highest", [2.5, 2.5, 2.5]),
        speed_row("tfmr", "fp32", "medium", [2.0, 2.0, 2.0]),
        speed_row("tfmr", "bf16", "medium", [1.0, 1.0, 1.0]),
        speed_row("peer", "fp32", "highest", [3.0, 3.2, 2.8]),
        speed_row("peer", "fp32", "medium", [9.0, 9.0, 9.0]),
        speed_row("peer", "bf16", "medium", [4.0, 4.0, 5.0]),
        peak_row("fp32", 123.0),
        peak_row("bf16", 456.0),
        {**speed_row("tfmr", "fp32", "medium", [0.5]), "task": "greedy"},
    ],
}
SCORES: Record = {
    "kind": "scores",
    "metadata": METADATA,
    "settings": {"corpus": "multi30k", "direction": "de-en"},
    "rows": [
        {"system": "a", "seed": seed, "parameters": 1234, "minutes": 5.0, "test_bleu_beam4": bleu}
        | {"signature": "s"}
        for seed, bleu in ((0, 30.0), (1, 31.0), (2, 33.5))
    ]
    + [{"system": "b", "seed": 0, "parameters": 9, "minutes": 2.5, "valid_bleu": 20.04}],
}


def test_systems_are_compared_at_equal_precision() -> None:
    fp32, bf16 = section("speed", SPEED).split("**All systems in ")[1:]
    assert fp32.startswith("fp32.** Peak: 123 GFLOP/s.")
    assert "|  | train A | greedy |\n|---|--:|--:|\n| tfmr, tokens/s | 50 | 200 |" in fp32
    assert "| peer | 1.50 (1.40–1.60) | – |" in fp32
    assert "| tfmr, share of the peak | 50% | 50% |" in fp32
    assert bf16.startswith("bf16.** Peak: 456 GFLOP/s.")
    assert "| tfmr, tokens/s | 100 |\n| peer | 4.00 (4.00–5.00) |" in bf16


def test_a_table_without_peers_states_it() -> None:
    rows = [row for row in SPEED["rows"] if row["system"] != "peer" or row["precision"] != "bf16"]
    text = section("speed", {**SPEED, "rows": rows})
    assert "**All systems in fp32.**" in text
    assert "**Only tfmr in bf16.**" in text


def test_the_mixed_table_has_the_faster_precision_of_each_system() -> None:
    text = section("speed", SPEED).split("**Mixed")[1]
    assert "| tfmr, tokens/s | 100, bf16 | 200, fp32 |" in text
    assert "| peer | 3.00 (2.80–3.20), fp32 | – |" in text


def test_a_record_of_one_precision_has_no_mixed_table() -> None:
    rows = [row for row in SPEED["rows"] if row["precision"] == "fp32"]
    text = section("speed", {**SPEED, "rows": rows})
    assert "bf16" not in text
    assert "Mixed" not in text


def test_provenance() -> None:
    text = section("speed", SPEED)
    assert text.startswith(
        "### speed.json\n\n`python -m benchmarks.speed` on 2026-01-02, commit 01"
    )
    assert "Z80, 2 threads; torch 2.0, tfmr 0.1." in text


def test_scores_show_mean_and_range_of_the_seeds() -> None:
    text = section("quality", SCORES)
    assert "|  | parameters | test, beam 4, 5 min | validation, 2.5 min |" in text
    assert "Scores without “beam 4” are from greedy decoding." in text
    beam = [row for row in SCORES["rows"] if row["system"] == "a"]
    assert "All scores are from beam search." in section("scores", {**SCORES, "rows": beam})
    assert "| a | 1,234 | 31.5 (30.0–33.5) | – |" in text
    assert "| b | 9 | – | 20.0 |" in text
    assert "3 seeds" in text
    assert "`s`" in text


def test_multi30k_groups_by_direction_in_rising_time() -> None:
    def row(direction: str, recipe: str, minutes: float, bleu: float) -> dict[str, Any]:
        about = {"direction": direction, "recipe": recipe, "minutes": minutes, "parameters": 1234}
        return about | {"signature": "s", "test_bleu_beam4": bleu}

    rows = [
        row("de-en", "multi30k", 5.0, 30.0),
        row("de-en", "multi30k", 20.0, 39.0),
        row("en-de", "multi30k", 5.0, 25.0),
        row("de-en", "multi30k", 5.0, 32.0),
        {**row("de-en", "multi30k-patient", 63.4, 40.0), "until": "until converged"},
    ]
    text = section("multi30k", {**SPEED, "kind": "multi30k", "rows": rows})
    assert text.endswith(
        "|  | recipe | training | seeds | test, beam 4 |\n|---|--:|--:|--:|--:|\n"
        "| de-en | multi30k | 5 minutes | 2 | 31.0 (30.0–32.0) |\n"
        "| de-en | multi30k | 20 minutes | 1 | 39.0 |\n"
        "| de-en | multi30k-patient | until converged | 1 | 40.0 |\n"
        "| en-de | multi30k | 5 minutes | 1 | 25.0 |\n"
    )


def test_scaling_shows_its_fits() -> None:
    rows = [{"what": "point", "size": 1}, {"what": "fit", "quantity": "seconds", "exponent": 2.01}]
    text = section("cost/attention", {**SPEED, "kind": "scaling", "rows": rows})
    assert "| quantity | exponent |\n|---|--:|\n| seconds | 2.01 |\n" in text


def test_heads_are_columns_of_their_sublayer() -> None:
    attention = {"stack": "encoder", "sublayer": "self-attention", "layer": 1}
    rows = [
        {"ablated": "nothing", "valid_loss": 1.5, "valid_bleu": 36.0},
        {"ablated": "sublayer", **attention, "valid_loss": 1.75, "valid_bleu": 30.0},
        {"ablated": "head", **attention, "head": 1, "valid_loss": 1.625, "valid_bleu": 36.5},
        {"ablated": "head", **attention, "head": 2, "valid_loss": 1.5, "valid_bleu": 34.0},
        {"ablated": "sublayer", **attention, "sublayer": "feed-forward"}
        | {"valid_loss": 2.0, "valid_bleu": 20.0},
    ]
    settings = {"corpus": "c", "direction": "de-en", "split": "validation", "sentences": 7}
    text = section("heads", {**SPEED, "kind": "heads", "rows": rows, "settings": settings})
    assert "on the 7 sentences of the validation set of c de-en" in text
    assert "36.0 BLEU (greedy decoding) and a cross-entropy of 1.500" in text
    assert "|  | sublayer | head 1 | head 2 |" in text
    assert "| encoder self-attention 1 | 6.0 / 0.250 | -0.5 / 0.125 | 2.0 / 0.000 |" in text
    assert "| encoder feed-forward 1 | 16.0 / 0.500 | – | – |" in text


def test_recall_shows_median_and_range_of_the_seeds() -> None:
    rows = [
        {"network": network, "parameters": 1234, "distance": distance, "seed": seed}
        | {"accuracy": accuracy}
        for network, distance, accuracies in (
            ("RNN", 5, (1.0, 0.99, 0.98)),
            ("RNN", 60, (0.26, 0.75, 0.24)),
            ("LSTM", 5, (1.0, 1.0, 1.0)),
            ("LSTM", 60, (0.5, 0.25, 1.0)),
        )
        for seed, accuracy in enumerate(accuracies)
    ]
    settings = {"steps": 250, "seeds": [0, 1, 2], "chance": 0.25}
    text = section("recall", {**SPEED, "kind": "recall", "rows": rows, "settings": settings})
    assert "after 250 training steps, 3 seeds" in text
    assert "|  | parameters | 5 | 60 |" in text
    assert "| RNN | 1,234 | 0.99 (0.98–1.00) | 0.26 (0.24–0.75) |" in text
    assert "| LSTM | 1,234 | 1.00 (1.00–1.00) | 0.50 (0.25–1.00) |" in text


def test_each_analysis_has_a_table_with_intervals() -> None:
    patch = {"analysis": "patching", "pairs": 3, "effect_interval": [0.25, 0.75]}
    rows = [
        {**patch, "part": "encoder stream", "depth": 1, "positions": "noun", "effect": 0.5},
        {**patch, "part": "head", "layer": 2, "head": 3, "effect": 0.6},
        {"analysis": "minimal pair", "source": "Ein Hund."},
        {"analysis": "decoding", "split": "test", "greedy": 39.27, "beam4": 40.03}
        | {"difference": 0.76, "greedy_interval": [38.0, 41.0], "beam4_interval": [39.0, 42.0]}
        | {"difference_interval": [-0.1, 1.5]},
    ]
    settings = {"corpus": "c", "direction": "de-en"}
    text = section("inside", {**SPEED, "kind": "inside", "rows": rows, "settings": settings})
    assert "| encoder stream, depth 1, noun | 0.500 (0.250 to 0.750) |" in text
    assert "| head, block 2, head 3 | 0.600 (0.250 to 0.750) |" in text
    assert "| test | 39.3 (38.0 to 41.0) | 40.0 (39.0 to 42.0) | 0.8 (-0.1 to 1.5) |" in text
    assert "Logit lens" not in text
    assert "Ein Hund" not in text


def test_depth_shows_median_and_range_of_the_seeds() -> None:
    def row(rate: float, seed: int, loss: float | None) -> dict[str, Any]:
        state = {"stream": 2.0, "cosine": 0.25, "first_grad": 3.0 * seed, "last_grad": 2.0}
        about = {"stack": "post-norm", "blocks": 6, "warmup": 100}
        return about | state | {"peak_lr": rate, "seed": seed, "loss": loss}

    rows = [row(1e-3, 1, 0.5), row(1e-3, 2, 2.75), row(1e-3, 3, 1.25)]
    rows += [row(1e-2, 1, 0.5), row(1e-2, 2, None), row(1e-2, 3, None)]
    settings = {"experiment": "warm-up", "seeds": [1, 2, 3], "steps": 7}
    settings |= {"mean_of_last_steps": 2, "uniform_loss": 2.7726}
    text = section("depth", {**SPEED, "kind": "depth", "rows": rows, "settings": settings})
    assert "in the number of blocks and in the warm-up. *Stream*" in text
    assert "Scaled" not in text
    assert "the training loss, in nats, averaged over the last 2 of 7 steps:" in text
    assert "A uniform prediction has a loss of 2.77." in text
    assert "|  | blocks | warm-up | stream | cosine | gradient | 0.001 | 0.01 |" in text
    assert "| post-norm | 6 | 100 | 2 | 0.25 | 3 | 1.25 (0.5–2.75) | inf (0.5–inf) |" in text


def test_stream_shows_growth_gradient_and_loss_before_and_after_training() -> None:
    def row(step: int, stream: list[float], gradient: list[float], loss: float) -> dict[str, Any]:
        about = {"stack": "pre-norm", "blocks": 2, "step": step}
        return about | {"stream": stream, "gradient": gradient, "loss": loss}

    rows = [row(0, [2.0, 3.0, 5.0], [4.0, 8.0], 2.75), row(5, [2.0, 3.0, 3.0], [9.0, 3.0], 0.125)]
    settings = {"steps": [0, 5], "uniform_loss": 2.7726, "peak_lr": 1e-3}
    text = section("depth-stream", {**SPEED, "kind": "stream", "rows": rows, "settings": settings})
    assert "after 5 training steps with a learning rate of 0.001" in text
    assert "| pre-norm | 2 | 2.5 | 1.5 | 0.5 | 3 | 2.75 | 0.125 |" in text


def test_replay_shows_each_step() -> None:
    row = {
        "step": 1500,
        "train_loss": 0.5,
        "valid_loss": 0.75,
        "entropy": 1.25,
        "output": "la reine",
    }
    settings = {"recipe": "pocket", "direction": "en-fr", "sentences": 9, "block": 0}
    settings |= {"source": "the queen", "reference": "la reine"}
    text = section("replay", {**SPEED, "kind": "replay", "rows": [row], "settings": settings})
    assert "weights of decoder block 1, averaged over the heads, in nats" in text
    assert "the sentence “the queen” and its reference “la reine”." in text
    assert "| 1,500 | 0.500 | 0.750 | 1.250 | la reine |" in text


def test_ablations_show_paired_differences() -> None:
    def row(seed: int, loss: float, **changes: Any) -> dict[str, Any]:
        recipe = {"norm": "pre", "label_smoothing": 0.1, "peak_lr": 0.003, "warmup": True}
        values = {"valid_exact": 0.5, "correct": 0.75, "confidence": 0.875, "accuracy": 1.0}
        return recipe | {"seed": seed, "diverged": False, "valid_loss": loss} | values | changes

    rows = [row(seed, 0.5 + seed) for seed in range(3)]
    rows += [row(seed, 0.25 + seed, label_smoothing=0.0, correct=1.0) for seed in range(3)]
    rows += [row(seed, 1.0 + 1.5 * seed, warmup=False) for seed in range(3)]
    rows += [row(seed, 2.0, norm="post") for seed in range(3)]
    rows += [row(seed, 2.0, norm="post", warmup=False) for seed in range(2)]
    rows += [{**row(2, 2.0, norm="post", warmup=False), "diverged": True}]
    settings = {"recipe": "pocket", "direction": "en-fr", "steps": 4, "seeds": [0, 1, 2]}
    settings |= {"sentences": 9, "split": "validation", "train.warmup": 2, "recipe_lr": 0.003}
    record: Record = {**SPEED, "kind": "ablations", "rows": rows, "settings": settings}
    text = section("ablations", record)
    assert "4 steps, evaluated on 9 sentences of the validation set: means of 3 seeds" in text
    assert "| with | 1.500 | 0.500 | 0.750 | 0.875 | 1.000 |" in text
    assert "| without | 1.250 | 0.500 | 1.000 | 0.875 | 1.000 |" in text
    assert "| difference | +0.250 (+0.250 to +0.250) | +0.000 (+0.000 to +0.000) |" in text
    # Differences of -0.5, -1 and -1.5: the standard deviation is 0.5, the margin 1.242.
    assert "| pre-norm, 0.003 | 1.500 | 2.500 | -1.000 (-2.242 to +0.242) | 0.500 |" in text
    assert "| post-norm, 0.003 | 2.000 | 1 diverged | – | 0.500 | 1 diverged | – |" in text


def test_copying_shows_mean_and_range_by_length() -> None:
    rows = [
        {"variant": "one", "seed": seed, "steps": 1200, "parameters": 1234, "accuracy": accuracy}
        for seed, accuracy in enumerate([[1.0, 0.25], [1.0, 0.5]])
    ]
    settings = {"seeds": [0, 1], "lengths": [2, 9], "sequences": 1000}
    text = section("copying", {**SPEED, "kind": "copying", "rows": rows, "settings": settings})
    assert "of 1,000 random digit sequences" in text
    assert "2 seeds" in text
    assert "|  | parameters | steps | 2 digits | 9 digits |" in text
    assert "| one | 1,234 | 1,200 | 1.000 (1.000–1.000) | 0.375 (0.250–0.500) |" in text


def test_the_scaling_law_shows_the_loss_by_weights_and_steps() -> None:
    rows = [
        {"width": width, "weights": 1000 * width, "steps": steps, "seed": seed, "loss": loss + seed}
        for width, steps, loss in ((16, 10, 5.0), (16, 5, 6.0), (32, 10, 3.0), (32, 5, 4.0))
        for seed in (0, 1)
    ]
    settings = {"corpus": "x", "n_layers": 2, "batch": 8, "seeds": [0, 1]}
    text = section("x", {**SPEED, "kind": "scaling law", "rows": rows, "settings": settings})
    assert "| d_model | weights | 5 steps | 10 steps |" in text
    assert "| 32 | 32,000 | 4.500 (4.000–5.000) | 3.500 (3.000–4.000) |" in text


def test_the_utilisation_names_the_rate_of_the_peak() -> None:
    rows = [
        {"model": "matrix product", "flops": 4e9, "seconds": [0.1, 0.2, 0.1]},
        {"model": "GPT", "parameters": 1234, "tokens": 512, "flops": 5e8, "share_of_peak": 0.25},
    ]
    settings = {"precision": "fp32", "peak_size": 2048, "rounds": 3, "load_average": 0.5}
    text = section("x", {**SPEED, "kind": "utilisation", "rows": rows, "settings": settings})
    assert "The peak rate, 40 GFLOP/s, is reached by a multiplication of two 2,048 × 2,048" in text
    assert "| GPT | 1,234 | 512 | 0.50 | 0.25 |" in text


def test_step_memory_shows_the_prediction_beside_both_peaks() -> None:
    row = {
        "model": "GPT",
        "parameters": 1234,
        "predicted": 2_000_000_000,
        "gradients_kept": 2_250_000_000,
        "gradients_released": 1_500_000_000,
    }
    settings = {"precision": "fp32", "batch": 8, "length": 64}
    text = section("x", {**SPEED, "kind": "step memory", "rows": [row], "settings": settings})
    assert "64 tokens" in text
    assert "| GPT | 1,234 | 2.00 | 2.25 | 1.50 |" in text


def test_family_shows_mean_and_range_by_model() -> None:
    rows = [
        {"model": "majority", "accuracy": 0.1},
        {"model": "ViT", "seed": 0, "steps": 800, "parameters": 1234, "accuracy": 0.5},
        {"model": "ViT", "seed": 1, "steps": 800, "parameters": 1234, "accuracy": 0.75},
    ]
    settings = {"seeds": [0, 1], "experiment": "digits"}
    text = section("x", {**SPEED, "kind": "family", "rows": rows, "settings": settings})
    assert "The experiment `digits`, evaluated on the test data, 2 seeds" in text
    assert "|  | steps | parameters | accuracy |" in text
    assert "| majority | – | – | 0.1000 |" in text
    assert "| ViT | 800 | 1,234 | 0.6250 (0.5000–0.7500) |" in text


def test_an_unknown_kind_raises() -> None:
    with pytest.raises(TfmrError, match="has the kind 'weather': expected one of speed"):
        section("x", {**SPEED, "kind": "weather"})


def test_only_text_between_the_marks_changes() -> None:
    text = f"above\n\n{BEGIN}\nold\n{END}\n\nbelow\n"
    once = render(text, {"speed": SPEED})
    assert once.startswith(f"above\n\n{BEGIN}\n\n### speed.json")
    assert once.endswith(f"{END}\n\nbelow\n")
    assert "old" not in once
    assert render(once, {"speed": SPEED}) == once
    assert "There are no records yet." in render(text, {})


def test_missing_marks_raise() -> None:
    with pytest.raises(TfmrError, match="each of these lines exactly once"):
        render(f"{BEGIN} {BEGIN} {END}", {})


def test_check_reports_a_changed_file(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"{BEGIN}{END}", "utf-8")
    Tables(folder=tmp_path, readme=tmp_path / "README.md")()
    Tables(check=True, folder=tmp_path, readme=tmp_path / "README.md")()
    text = (tmp_path / "README.md").read_text("utf-8")
    (tmp_path / "README.md").write_text(text.replace("no records", "few records"), "utf-8")
    with pytest.raises(TfmrError, match="differs from its records"):
        Tables(check=True, folder=tmp_path, readme=tmp_path / "README.md")()


def test_a_retyped_number_differs_from_the_rendering() -> None:
    retyped = copy.deepcopy(SPEED)
    retyped["rows"][3]["seconds"] = [3.5] * 3
    assert section("speed", retyped) != section("speed", SPEED)


def test_markdown() -> None:
    assert markdown(["", "a"], [["x", "1"]]) == "|  | a |\n|---|--:|\n| x | 1 |"


def test_distance_shows_reach_mean_and_range() -> None:
    rows = [
        {"layer": name, "parameters": 41999, "reach": reach, "seed": seed, "accuracy": scores}
        for name, reach in (("convolution", 16), ("self-attention", None))
        for seed, scores in ((0, [1.0, 0.25]), (1, [0.5, 0.35]))
    ]
    settings = {"distances": [4, 512], "steps": 9, "seeds": [0, 1], "blocks": 4, "chance": 0.25}
    text = section("distance", {**SPEED, "kind": "distance", "rows": rows, "settings": settings})
    assert "9 training steps, 2 seeds" in text
    assert "| convolution | 16 | 41,999 | 0.75 (0.50–1.00) | 0.30 (0.25–0.35) |" in text
    assert "| self-attention | – | 41,999 |" in text


def layer_cost_row(layer: str, axis: dict[str, int], seconds: list[float]) -> dict[str, Any]:
    case = {"layer": layer, "mode": "training", "d_model": 64, "threads": 1}
    return {"batch": 1, "length": 8, **case, **axis, "bytes": 3 * 2**19, "seconds": seconds}


def test_layer_cost_shows_ratios_to_the_first_layer_and_memory() -> None:
    rows = [
        layer_cost_row("RNN", {"length": 8}, [1.0, 2.0, 1.0]),
        layer_cost_row("attention", {"length": 8}, [4.0, 4.0, 3.0]),
        *(
            {**layer_cost_row(layer, {"length": 8}, [9.0]), "mode": "forward", "bytes": 2**19}
            for layer in ("RNN", "attention")
        ),
    ]
    settings = {"part": "length", "precision": "fp32", "rounds": 3, "load_average": [1.5, 0.5]}
    text = section("cost", {**SPEED, "kind": "layer cost", "rows": rows, "settings": settings})
    assert "the machine was at most 1.5." in text
    assert "Training time relative to the RNN, d_model 64, batch size 1, 1 thread, by" in text
    assert "by length:\n\n|  | 8 |\n|---|--:|\n| RNN | 1.00 |\n| attention | 3.00 |" in text
    where = "in MiB, d_model 64, batch size 1, by length:\n\n|  | 8 |\n|---|--:|\n| RNN |"
    assert f"Peak memory of the forward pass {where} 0.50 |\n| attention | 0.50 |" in text
    assert f"Peak memory of training {where} 1.50 |\n| attention | 1.50 |" in text


def test_layer_cost_by_batch_has_no_memory() -> None:
    rows = [
        layer_cost_row("RNN", {"batch": 2}, [1.0, 1.0, 1.0]),
        layer_cost_row("attention", {"batch": 2}, [0.5, 0.5, 0.5]),
    ]
    settings = {"part": "parallelism", "precision": "fp32", "rounds": 3, "load_average": [1.0]}
    text = section("cost", {**SPEED, "kind": "layer cost", "rows": rows, "settings": settings})
    assert "d_model 64, length 8, 1 thread, by batch size:" in text
    assert "by batch size:\n\n|  | 2 |\n|---|--:|\n| RNN | 1.00 |\n| attention | 0.50 |" in text
    assert "MiB" not in text


@pytest.mark.parametrize(
    ("rows", "settings", "threads"),
    [
        ([], {}, "2 threads"),
        ([], {"threads": 1}, "1 thread"),
        ([{"threads": 4}, {"threads": 1}], {}, "1 or 4 threads"),
    ],
)
def test_the_number_of_threads_is_that_of_the_measurement(
    rows: list[dict[str, Any]], settings: dict[str, Any], threads: str
) -> None:
    assert f": Z80, {threads};" in provenance({**SPEED, "rows": rows, "settings": settings})
