"""Tables are rendered from records, and README.md has what is rendered."""

import copy
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import FOLDER, Record, records
from benchmarks.tables import BEGIN, END, Tables, markdown, rendered, section
from tfmr.errors import TfmrError

FACTS = {
    "command": "python -m benchmarks.speed",
    "date": "2026-01-02",
    "commit": "0123456789ab",
    "hardware": {"processor": "Z80", "threads": 2, "device": "cpu"},
    "versions": {"torch": "2.0", "tfmr": "0.1"},
}


def speed_row(system: str, precision: str, rate: float, times: float, best: bool) -> dict[str, Any]:
    return {
        "task": "train A",
        "dropout": "paper",
        "system": system,
        "precision": precision,
        "best": best,
        "seconds": [0.1] * 5,
        "tokens_per_second": rate,
        "times": times,
        "times_low": times - 0.1,
        "times_high": times + 0.1,
        "share_of_peak": 0.5,
    }


SPEED: Record = {
    "kind": "speed",
    "facts": FACTS,
    "settings": {"seed": 0},
    "rows": [
        speed_row("tfmr", "highest", 50.0, 2.0, False),
        speed_row("tfmr", "medium", 100.0, 1.0, True),
        speed_row("peer", "highest", 60.0, 1.6, True),
        speed_row("peer", "medium", 40.0, 2.5, False),
        {"task": "train A", "dropout": "paper", "system": "peak", "best": True, "gflops": 123.0},
        {**speed_row("tfmr", "medium", 700.0, 1.0, True), "task": "greedy", "dropout": None},
    ],
}
SCORES: Record = {
    "kind": "scores",
    "facts": FACTS,
    "settings": {"corpus": "multi30k", "direction": "de-en"},
    "rows": [
        {"system": "a", "seed": seed, "parameters": 1234, "minutes": 5.0, "test_bleu_beam4": bleu}
        | {"signature": "s"}
        for seed, bleu in ((0, 30.0), (1, 31.0), (2, 33.5))
    ]
    + [{"system": "b", "seed": 0, "parameters": 9, "minutes": 2.5, "valid_bleu": 20.04}],
}


def test_a_peer_is_shown_at_its_best_precision() -> None:
    text = section("speed", SPEED)
    assert "|  | train A | greedy |\n|---|--:|--:|\n| tfmr, tokens/s | 100 | 700 |" in text
    assert "| peer | 1.60 (1.50–1.70) | – |" in text
    assert "| tfmr, share of the peak | 50% | 50% |" in text


def test_both_precisions_are_shown() -> None:
    text = section("speed", SPEED)
    assert "| tfmr | 50 / 100 | 700 |" in text
    assert "| peer | 60 / 40 | – |" in text
    assert "123 to 123 GFLOP/s" in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Training multiplies in fp32."),
        ({"bf16": False, "own_bf16": True}, "fp32, but at its own defaults tfmr does so in bf16"),
        ({"bf16": True, "own_bf16": True}, "Training multiplies in bf16 throughout."),
        (
            {"own_bf16": True, "decoder": {"highest": "float32", "medium": "bfloat16"}},
            "tfmr does so in bf16. At medium it also translates so. Its share is always one of "
            "the peak in fp32.",
        ),
    ],
)
def test_in_what_numbers_are_multiplied_is_said(settings: dict[str, Any], said: str) -> None:
    assert said in section("speed", {**SPEED, "settings": settings})


def test_a_record_says_where_it_comes_from() -> None:
    text = section("speed", SPEED)
    assert text.startswith(
        "### speed.json\n\n`python -m benchmarks.speed` on 2026-01-02, commit 01"
    )
    assert "Z80, 2 threads; torch 2.0, tfmr 0.1." in text


def test_scores_show_mean_and_range_of_the_seeds() -> None:
    text = section("quality", SCORES)
    assert "|  | parameters | test, beam 4, 5 min | valid, 2.5 min |" in text
    assert "| a | 1,234 | 31.5 (30.0–33.5) | – |" in text
    assert "| b | 9 | – | 20.0 |" in text
    assert "3 seeds" in text
    assert "`s`" in text


def test_directions_stand_together_and_times_rise() -> None:
    def row(direction: str, recipe: str, minutes: float, bleu: float) -> dict[str, Any]:
        about = {"direction": direction, "recipe": recipe, "minutes": minutes, "parameters": 1234}
        return about | {"signature": "s", "test_bleu_beam4": bleu}

    rows = [
        row("de-en", "multi30k", 5.0, 30.0),
        row("de-en", "multi30k", 20.0, 39.0),
        row("en-de", "multi30k", 5.0, 25.0),
        row("de-en", "multi30k", 5.0, 32.0),
        {**row("de-en", "multi30k-patient", 63.4, 40.0), "until": "until no better"},
    ]
    text = section("multi30k", {**SPEED, "kind": "multi30k", "rows": rows})
    assert text.endswith(
        "|  | recipe | trained | seeds | test, beam 4 |\n|---|--:|--:|--:|--:|\n"
        "| de-en | multi30k | 5 minutes | 2 | 31.0 (30.0–32.0) |\n"
        "| de-en | multi30k | 20 minutes | 1 | 39.0 |\n"
        "| de-en | multi30k-patient | until no better | 1 | 40.0 |\n"
        "| en-de | multi30k | 5 minutes | 1 | 25.0 |\n"
    )


def test_growth_shows_its_fits() -> None:
    rows = [{"what": "point", "size": 1}, {"what": "fit", "of": "seconds", "exponent": 2.01}]
    text = section("cost/attention", {**SPEED, "kind": "growth", "rows": rows})
    assert "| of | exponent |\n|---|--:|\n| seconds | 2.01 |\n" in text


def test_heads_stand_beside_their_sublayer() -> None:
    attention = {"stack": "encoder", "sublayer": "self-attention", "layer": 1}
    rows = [
        {"removed": "nothing", "valid_loss": 1.5, "valid_bleu": 36.0},
        {"removed": "sublayer", **attention, "valid_loss": 1.75, "valid_bleu": 30.0},
        {"removed": "head", **attention, "head": 1, "valid_loss": 1.625, "valid_bleu": 36.5},
        {"removed": "head", **attention, "head": 2, "valid_loss": 1.5, "valid_bleu": 34.0},
        {"removed": "sublayer", **attention, "sublayer": "feed-forward"}
        | {"valid_loss": 2.0, "valid_bleu": 20.0},
    ]
    settings = {"corpus": "c", "direction": "de-en", "part": "valid", "sentences": 7}
    text = section("heads", {**SPEED, "kind": "heads", "rows": rows, "settings": settings})
    assert "on 7 sentences of the valid part of c de-en" in text
    assert "36.0 BLEU, greedy, and a loss of 1.500" in text
    assert "|  | whole | head 1 | head 2 |" in text
    assert "| encoder self-attention 1 | 6.0 / 0.250 | -0.5 / 0.125 | 2.0 / 0.000 |" in text
    assert "| encoder feed-forward 1 | 16.0 / 0.500 | – | – |" in text


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(TfmrError, match="is a record of 'weather': expected one of speed"):
        section("x", {**SPEED, "kind": "weather"})


def test_only_what_stands_between_the_marks_changes() -> None:
    text = f"above\n\n{BEGIN}\nold\n{END}\n\nbelow\n"
    once = rendered(text, {"speed": SPEED})
    assert once.startswith(f"above\n\n{BEGIN}\n\n### speed.json")
    assert once.endswith(f"{END}\n\nbelow\n")
    assert "old" not in once
    assert rendered(once, {"speed": SPEED}) == once
    assert "Nothing is recorded yet." in rendered(text, {})


def test_without_its_marks_a_file_is_refused() -> None:
    with pytest.raises(TfmrError, match="each of its marks once"):
        rendered(f"{BEGIN} {BEGIN} {END}", {})


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"{BEGIN}{END}", "utf-8")
    Tables(folder=tmp_path)()
    Tables(check=True, folder=tmp_path)()
    text = (tmp_path / "README.md").read_text("utf-8")
    (tmp_path / "README.md").write_text(text.replace("Nothing", "Little"), "utf-8")
    with pytest.raises(TfmrError, match="not what its records say"):
        Tables(check=True, folder=tmp_path)()


def test_a_retyped_number_differs_from_the_rendering() -> None:
    retyped = copy.deepcopy(SPEED)
    retyped["rows"][2]["times"] = 1.7
    assert section("speed", retyped) != section("speed", SPEED)


def test_a_table_by_hand() -> None:
    assert markdown(["", "a"], [["x", "1"]]) == "|  | a |\n|---|--:|\n| x | 1 |"


def test_the_readme_is_what_the_records_say() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    assert rendered(text, records()) == text, "run: python -m benchmarks.tables"
