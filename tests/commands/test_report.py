"""``data``: the report on a user's files."""

import json
from pathlib import Path

from tests.commands.conftest import Command
from tfmr.data import pocket


def write_files() -> None:
    pairs = pocket.generate("en-fr", 60, 0)
    Path("a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[:50]), encoding="utf-8")
    rows = [*pairs[50:], pairs[0], ("", "x"), ("the owl ☃", "hibou"), ("сова", "le hibou")]
    Path("t.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")


def test_the_report_is_printed(command: Command) -> None:
    write_files()
    out, _ = command("data", "--files", "a.tsv", "--test", "t.tsv")
    for part in (
        "| train | 50 | 47 |",
        "| valid | of train | 2 |",
        "| test | 14 | 13 |",
        "train: 1 not used, held out: the source sentence is in the validation or the test set "
        "(a.tsv:1)",
        "test: 1 not used, empty: a sentence is missing (t.tsv:12)",
        "test: 1 used, source script: most letters of the source are not Latin",
        "☃ (1)",
    ):
        assert part in out


def test_the_report_as_json(command: Command, model: Path) -> None:
    write_files()
    out, _ = command("data", "--files", "a.tsv", "--test", "t.tsv", "--from", model, "--json")
    report = json.loads(out)
    assert report["used"]["test"] == 11, "three source sentences have unknown words"
    assert {f["kind"] for f in report["findings"] if f["dropped"]} >= {"unknown word", "held out"}
    assert report["unseen_characters"] == {}, "those of pairs that are not used do not count"


def test_the_recipe_sets_the_maximum_length(command: Command) -> None:
    write_files()
    with Path("a.tsv").open("a", encoding="utf-8") as file:
        file.write(f"a hen\t{'a b ' * 20}\n")
    given = ("data", "--files", "a.tsv", "--test", "t.tsv", "--max-ratio", 0)
    for length, reported in ((40, True), (41, False)):
        Path("own.toml").write_text(
            f'[model]\nmax_length = {length}\n[vocabulary]\nkind = "words"', encoding="utf-8"
        )
        out, _ = command(*given, "--recipe", "own.toml")
        assert (
            f"train: 1 not used, too long: a sentence has more than {length} " in out
        ) == reported


def test_the_lengths_are_drawn(command: Command, rejected) -> None:
    write_files()
    given = ("data", "--files", "a.tsv", "--test", "t.tsv", "--plot")
    command(*given, "lengths.svg")
    assert "<svg" in Path("lengths.svg").read_text("utf-8")
    assert "--plot with the ending .png" in rejected(*given, "lengths.txt")


def test_a_corpus_of_the_package(command: Command) -> None:
    out, _ = command("data", "--corpus", "pocket", "--direction", "en-ko")
    assert "| train | – | 8,000 |" in out
