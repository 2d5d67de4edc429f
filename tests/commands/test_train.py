"""``train``: the effect of each option, and what is rejected."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tfmr import checkpoint, registry
from tfmr.commands.train import Train
from tfmr.data import corpora, pocket
from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.train.config import Recipe, find_recipe, read_recipe
from tfmr.train.run_dir import read_curve
from tfmr.train.trainer import StepRecord, Trainer

TINY = [
    *("model.d_model=16", "model.d_ff=16", "model.n_encoder=1", "model.n_decoder=1"),
    *("model.max_length=32", "evaluation.beam=2", "batches.tokens_per_batch=256"),
]


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch):
    """A small corpus under every name, and PyTorch's number of threads restored."""
    threads = torch.get_num_threads()
    monkeypatch.setattr(corpora, "load", lambda _, direction: pocket.split(direction, 200, 4, 5))
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def train(command):
    """Train a tiny model: the rows of scores, and the text on standard error."""

    def run(*arguments: object, overrides: tuple[str, ...] = ()) -> tuple[list[dict], str]:
        out, err = command("train", *arguments, "--set", *TINY, *overrides)
        return [json.loads(line) for line in out.splitlines()], err

    return run


def test_steps_seed_and_threads(train, tmp_path: Path) -> None:
    rows, err = train("--steps", 4, 2, "--seed", 7, "--threads", 2, "--out", "a")
    assert [row["step"] for row in rows] == [2, 4]
    assert torch.get_num_threads() == 2
    recipe = read_recipe("a/recipe.toml")
    assert (recipe.train.seed, recipe.budget.steps, recipe.budget.minutes) == (7, (4, 2), ())
    assert recipe.model.d_model == 16
    results = json.loads(Path("a/scores.json").read_text("utf-8"))
    assert results["command"].startswith("python -m tfmr train --steps 4 2 --seed 7")
    assert results["hardware"]["threads"] == 2
    assert Path("a/curve.png").read_bytes().startswith(b"\x89PNG")
    assert "curve.png" in Path("a/README.md").read_text("utf-8")
    assert f"{results['parameters']:,} parameters, {results['vocab_size']:,} tokens" in err
    assert "python -m tfmr translate --model a" in err
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_repeated_options_add_up(monkeypatch: pytest.MonkeyPatch, command) -> None:
    recipes: list[Recipe] = []
    monkeypatch.setattr(
        Train, "_run", lambda _, folder, corpus, recipe, *more: recipes.append(recipe)
    )
    command("train", "--set", "model.d_model=32", "model.n_heads=2", "--set", "model.d_ff=48",
            "--steps", 4, "--steps", 2, 8, "--set", "train.seed=5", "train.seed=6")  # fmt: skip
    command("train", "--minutes", 1, "--minutes", 0.5)
    [first, second] = recipes
    model = registry.config_to_dict(first.model)
    assert (model["d_model"], model["n_heads"], model["d_ff"]) == (32, 2, 48)
    assert first.budget.steps == (4, 2, 8)
    assert first.train.seed == 6, "of one value given twice, the last is used"
    assert second.budget.minutes == (1.0, 0.5)


def test_the_seed_determines_the_curve(train) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train("--steps", 2, "--seed", seed, "--out", name)
    a, b, c = ([s.loss for s in read_curve(Path(name) / "curve.csv")] for name in "abc")
    assert a == b
    assert a != c


def test_pairs_that_are_too_long_are_reported_at_the_start(train) -> None:
    corpus = pocket.split("en-fr", 200, 4, 5)
    longest = max(len(text.split()) for pair in corpus.valid + corpus.test for text in pair) + 1
    dropped = sum(
        max(len(source.split()), len(target.split()) + 1) > longest
        for source, target in corpus.train
    )
    assert dropped > 0
    _, err = train("--steps", 1, overrides=(f"model.max_length={longest}",))
    assert f"{dropped} of 200 training pairs are not used: a sentence has more than" in err
    results = json.loads(Path("runs/pocket-en-fr/scores.json").read_text("utf-8"))
    assert results["dropped_pairs"] == dropped


def test_separate_files_are_kept_in_the_run_directory(train, command) -> None:
    pairs = pocket.generate("en-fr", 60, 0)
    for name, part in {
        "train.tsv": pairs[:50],
        "dev.csv": pairs[50:54],
        "t.tsv": pairs[54:],
    }.items():
        comma = "," if name.endswith("csv") else "\t"
        rows = ["fr" + comma + "en", *(comma.join(pair[::-1]) for pair in part)]
        Path(name).write_text("\n".join(rows), encoding="utf-8")
    with Path("t.tsv").open("a", encoding="utf-8") as file:
        file.write(f"\n\n{'trop ' * 200}\ttoo long\n")
    given = ("--files", "train.tsv", "--valid", "dev.csv", "--test", "t.tsv", "--header")
    [row], err = train(*given, "--direction", "en-fr", "--steps", 1, "--out", "a")
    assert "test: 1 not used, empty: a sentence is missing (t.tsv:8)" in err
    assert (
        "test: 1 not used, too long: a sentence has more than 32 tokens (model.max_length) " in err
    )
    assert "(t.tsv:9)" in err
    assert Path("a/lengths.png").read_bytes().startswith(b"\x89PNG")
    assert "(lengths.png)" in Path("a/README.md").read_text("utf-8")
    kept = [Path("a", name).read_text("utf-8").splitlines() for name in
            ("validation-set.tsv", "test-set.tsv")]  # fmt: skip
    assert kept == [["\t".join(pair) for pair in part] for part in (pairs[50:54], pairs[54:])]
    assert row["test_sentences"] == 6
    out, _ = command("evaluate", "--model", "a", "--beam", 1)
    scores = json.loads(out)
    assert (scores["sentences"], scores["bleu"]) == (6, row["test_bleu"])
    trained = json.loads(Path("a/scores.json").read_text("utf-8"))
    assert trained["sentence_pairs"] == {"train": 50, "valid": 4, "test": 6}


def test_the_held_out_sentences_are_those_that_evaluate_scores(train, command) -> None:
    pairs = pocket.generate("en-fr", 80, 0)
    for side, name in enumerate("ab"):
        lines = ["" if side and n == 3 else pair[side] for n, pair in enumerate(pairs)]
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    [row], err = train("--files", "a", "b", "--steps", 1)
    assert "train: 1 not used, empty: a sentence is missing (b:4)" in err
    folder = Path("runs/your-files-source-target")
    sources = [line.split("\t")[0] for line in (folder / "test-set.tsv").read_text().splitlines()]
    assert len(sources) == 4
    Path("a").unlink()
    out, _ = command("evaluate", "--model", folder, "--beam", 2)
    assert json.loads(out)["bleu"] == row["test_bleu_beam2"]
    assert json.loads(out)["sentences"] == 4


def test_a_resume_needs_only_the_folder(train, command, monkeypatch) -> None:
    """Also from another working directory, and for a corpus of the package."""
    pairs = pocket.generate("en-fr", 60, 0)
    for name, part in {"a.csv": pairs[:50], "v.csv": pairs[50:55], "t.csv": pairs[55:]}.items():
        rows = ["fr,en", *(f"{target},{source}" for source, target in part)]
        Path(name).write_text("\n".join(rows), encoding="utf-8")
    given = ("--files", "a.csv", "--valid", "v.csv", "--test", "t.csv", "--header")
    train(*given, "--direction", "en-fr", "--max-ratio", 1.2, "--steps", 1, "--out", "own")
    train("--corpus", "pocket", "--direction", "en-ko", "--steps", 1, "--out", "ko")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for name, direction in (("own", "en-fr"), ("ko", "en-ko")):
        folder = Path("..", name)
        out, err = command("train", "--resume", "--out", folder, "--steps", 2)
        assert [json.loads(row)["step"] for row in out.splitlines()] == [1, 2]
        assert direction in err
        assert f"train --resume --out {folder}" in (folder / "README.md").read_text("utf-8")
    recorded = json.loads(Path("../own/scores.json").read_text("utf-8"))["data"]
    assert (recorded["header"], recorded["max_ratio"]) == (True, 1.2)
    assert [Path(file).name for file in recorded["valid"]] == ["v.csv"]


def test_a_resume_does_not_choose_another_corpus(train, rejected) -> None:
    pairs = pocket.generate("en-fr", 60, 0)
    Path("b.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    train("--files", "b.tsv", "--steps", 1, "--out", "a")
    saved = checkpoint.load("a/model.safetensors", with_state=True)
    del saved.metadata["data"]
    checkpoint.save("a/model.safetensors", saved)
    resume = ("train", "--resume", "--out", "a", "--steps", 2)
    assert "does not state the files that the run was trained on: add --files" in rejected(*resume)
    for name in ("model.safetensors", "README.md"):  # as if killed before the first checkpoint
        Path("a", name).unlink()
    assert "needs your own corpus: add --files SOURCE TARGET" in rejected(*resume)


def test_a_given_tokenizer_is_used_and_kept(train, command, rejected) -> None:
    pairs = pocket.generate("en-fr", 60, 0)
    Path("b.tsv").write_text("".join(f"{s}!\t{t}!\n" for s, t in pairs), encoding="utf-8")
    tokenizer = Tokenizer.train_bpe([text for pair in pairs for text in pair], 300)
    tokenizer.save("t.json")
    given = ("--files", "b.tsv", "--tokenizer", "t.json", "--out", "a")
    train = partial(train, overrides=("model.max_length=128",))  # no pair is too long
    _, err = train(*given, "--steps", 1)
    unseen = "! (120)"  # among the characters that the tokenizer has not seen
    assert unseen in err
    saved = checkpoint.load("a/model.safetensors")
    assert saved.tokenizer.to_json() == tokenizer.to_json()
    assert vars(read_recipe("a/recipe.toml").vocabulary) == {"kind": "bpe", "size": 300}
    assert "The tokenizer was given" in Path("a/README.md").read_text("utf-8")
    rows, err = train("--out", "a", "--resume", "--steps", 2)
    assert unseen in err, "also when the run is resumed without the option"
    assert rows[-1]["step"] == 2
    train(*given, "--resume", "--steps", 3)
    out, _ = command("data", "--files", "b.tsv", "--tokenizer", "t.json")
    assert unseen in out

    Tokenizer.words(["a"]).save("w.json")
    Tokenizer.train_bpe(["a b"], 262, "pocket").save("p.json")
    for arguments, message in {
        ("--tokenizer", "w.json", "--resume", "--out", "a"): "got another one: omit --tokenizer",
        ("--tokenizer", "w.json", "--from", "a", "--files", "b.tsv"): "got another one",
        (
            "--tokenizer",
            "p.json",
            "--files",
            "b.tsv",
        ): "form 'plain' of the corpus, got one for 'pocket'",
        ("--tokenizer", "b.tsv", "--files", "b.tsv"): "expected b.tsv to be a tokenizer in JSON",
        ("--tokenizer", "none", "--files", "b.tsv"): "expected a tokenizer in none, but cannot",
        (*given[:4], "--set", "vocabulary.size=400"): "--tokenizer or settings of [vocabulary]",
    }.items():
        assert message in rejected("train", *arguments, "--steps", 4)
    assert "--from or --tokenizer, got both" in rejected(
        "data", "--files", "b.tsv", "--tokenizer", "t.json", "--from", "a"
    )
    assert not Path("runs").exists()


def test_a_trained_model_is_fine_tuned(train, rejected) -> None:
    train("--steps", 3, "--out", "a")
    pairs = pocket.generate("en-fr", 60, 9)
    Path("b.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    given = ("train", "--from", "a", "--files", "b.tsv", "--set", "evaluation.beam=1")
    rows, _ = train(*given[1:-2], "--steps", 2, "--out", "c", overrides=("model.dropout=0.3",))
    assert [row["step"] for row in rows] == [2]
    results = json.loads(Path("c/scores.json").read_text("utf-8"))
    assert results["direction"] == "en-fr"
    assert (results["base"]["model"], results["base"]["corpus"]) == ("a", "pocket")
    assert read_recipe("c/recipe.toml").model.d_model == 16
    assert read_recipe("c/recipe.toml").vocabulary.kind == "words"
    message = rejected(*given, "model.d_ff=32", "--out", "d")
    assert "model.d_ff is 16 in a, from which the run starts, and cannot be 32" in message
    message = rejected(*given, "vocabulary.size=400", "--out", "d")
    assert "vocabulary.size is" in message
    assert not Path("d").exists()


def test_the_folder_is_named_like_the_recipe_which_a_resume_reads(train, rejected) -> None:
    Path("own.toml").write_text(find_recipe("pocket").with_overrides({"train.warmup": 9}).to_toml())
    train("--recipe", "own.toml", "--steps", 2, "--direction", "en-ko")
    folder = Path("runs/own-en-ko")
    assert read_recipe(folder / "recipe.toml").train.warmup == 9
    rows, _ = train("--out", folder, "--direction", "en-ko", "--steps", 3, "--resume")
    assert [row["step"] for row in rows] == [2, 3]
    assert read_recipe(folder / "recipe.toml").train.warmup == 9
    (folder / "recipe.toml").unlink()
    message = rejected("train", "--out", folder, "--steps", 4, "--resume")
    assert str(folder / "recipe.toml") in message
    assert "--recipe" in message
    train("--steps", 2, overrides=("train.warmup=9",))
    assert Path("runs/pocket-en-fr/recipe.toml").exists()


def test_the_recipe_determines_corpus_and_direction(train, monkeypatch) -> None:
    class Loaded(Exception):  # noqa: N818 -- ends the command: the training is not tested here
        pass

    loaded = []

    def load(name: str, direction: str) -> Corpus:
        loaded.append((name, direction))
        raise Loaded

    monkeypatch.setattr(corpora, "load", load)
    for name, options in (
        ("a", ("--recipe", "multi30k")),
        ("b", ("--recipe", "multi30k", "--direction", "en-de")),
        ("c", ("--corpus", "multi30k")),
        ("d", ("--recipe", "multi30k", "--corpus", "tatoeba")),
        ("e", ()),
    ):
        with pytest.raises(SystemExit) as stop:
            train(*options, "--steps", 1, "--out", name)
        assert isinstance(stop.value.__context__, Loaded)
    assert loaded == [
        *(("multi30k", "de-en"), ("multi30k", "en-de"), ("multi30k", "de-en")),
        *(("tatoeba", "ko-en"), ("pocket", "en-fr")),
    ]


def test_ctrl_c_ends_with_status_130_and_states_what_was_saved(train, monkeypatch, capsys) -> None:
    start_step = Trainer.start_step

    def stop_after_two(trainer: Trainer, *batches: Any) -> Callable[[], StepRecord]:
        if trainer.steps_done == 2:
            raise KeyboardInterrupt
        return start_step(trainer, *batches)

    monkeypatch.setattr(Trainer, "start_step", stop_after_two)
    with pytest.raises(SystemExit) as stop:
        train("--steps", 9, "--out", "a")
    assert stop.value.code == 130
    message = capsys.readouterr().err.splitlines()[-1]
    assert all(part in message for part in ("tfmr: ", "step 2 ", " a: ", "--resume"))
    assert len(read_curve("a/curve.csv")) == 2


def test_rows_appear_as_they_arise(train, monkeypatch, capsys) -> None:
    take_step = Trainer.start_step

    def stop_after_three(trainer: Trainer, *batches: object) -> object:
        if trainer.steps_done == 3:
            raise KeyboardInterrupt
        return take_step(trainer, *batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "start_step", stop_after_three)
        with pytest.raises(SystemExit):
            train("--steps", 2, 4, "--out", "a")
    [row] = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["step"] == 2
    rows, err = train("--steps", 2, 4, "--out", "a", "--resume")
    assert [row["step"] for row in rows] == [2, 4]
    assert "nothing was trained" not in err
    rows, err = train("--steps", 2, 4, "--out", "a", "--resume")
    assert [row["step"] for row in rows] == [2, 4]
    assert "reached its budget, 4 steps, and nothing was trained" in err


def test_a_time_budget_that_ends_early_is_reported(train) -> None:
    rows, err = train("--minutes", 0.002, "--out", "a")
    remark = f"time budget ended after {rows[0]['step']} steps"
    assert remark in err
    readme = Path("a/README.md").read_text("utf-8")
    assert remark in readme
    assert "target tokens per second" in readme
    _, err = train("--steps", 2, "--out", "c")
    assert "budget ended" not in err


def test_threads_are_measured_once_and_kept(train, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    measured: list[list[int]] = []

    def measure(step, candidates: list[int]) -> dict[int, float]:
        step()
        measured.append(candidates)
        return {1: 0.1, 2: 0.5}

    monkeypatch.setattr("tfmr.train.run.measure_threads", measure)
    # Short: with two threads, models as small as these are slow.
    train = partial(train, overrides=("evaluation.beam=1", "model.max_length=16"))
    torch.set_num_threads(2)
    _, err = train("--steps", 2, "--out", "a")
    assert (torch.get_num_threads(), measured) == (1, [[1, 2]])
    assert "1 CPU thread; measured steps per second: 10 with 1, 2 with 2" in err
    assert json.loads(Path("a/scores.json").read_text("utf-8"))["hardware"]["threads"] == 1
    torch.set_num_threads(2)
    _, err = train("--steps", 4, "--out", "a", "--resume")
    assert torch.get_num_threads() == 1, "the number of threads can change the rounding"
    assert "environment has changed" not in err
    train("--steps", 4, "--out", "b", "--threads", 1)
    losses = [[step.loss for step in read_curve(f"{name}/curve.csv")] for name in "ab"]
    assert losses[0] == losses[1], "the measurement does not change the run"
    train("--steps", 1, "--out", "c", "--threads", 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    train("--steps", 1, "--out", "d")
    assert torch.get_num_threads() == 2
    assert measured == [[1, 2]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_saves_the_run(train, monkeypatch, capsys, number: signal.Signals) -> None:
    start_step = Trainer.start_step

    def receive_at_two(trainer: Trainer, *batches: Any) -> Callable[[], StepRecord]:
        if trainer.steps_done == 1:
            os.kill(os.getpid(), number)
        return start_step(trainer, *batches)

    before = signal.getsignal(number)
    monkeypatch.setattr(Trainer, "start_step", receive_at_two)
    with pytest.raises(SystemExit):
        train("--steps", 9, "--out", "a")
    assert signal.getsignal(number) is before
    assert "step 2 " in capsys.readouterr().err.splitlines()[-1]
    assert len(read_curve("a/curve.csv")) == 2
    monkeypatch.setattr(Trainer, "start_step", start_step)
    rows, _ = train("--steps", 3, "--out", "a", "--resume")
    assert [row["step"] for row in rows] == [3]


def test_patience(train) -> None:
    constant = ("evaluation.eval_every=1", "evaluation.metric=loss", "train.peak_lr=1e-30")
    rows, _ = train("--steps", 50, "--patience", 2, overrides=constant)
    assert [row["step"] for row in rows] == [3]
    assert Path("runs/pocket-en-fr/valid.csv").read_text("utf-8").count("\n") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recipe", "wmt14-base"), "--files SOURCE TARGET"),
        (("--corpus", "pocket", "--files", "a", "b"), "--corpus or --files"),
        (("--valid", "a.tsv"), "expected --valid and --test with your own training files"),
        (("--files", "a", "--direction", "de-en"), "one file that ends in .tsv or .csv, got a"),
        (("--files", "a", "b", "--direction", "en"), "got 'en'"),
        (("--recipe", "wmt"), "no recipe named 'wmt': expected one of multi30k"),
        (("--set", "seed"), "--set expects TABLE.NAME=VALUE, as in train.peak_lr=1e-3: got 'seed'"),
        (("--set", "train.sed=1"), "train: unknown key sed, did you mean seed?"),
        (("--set", "train.warmup=x"), "train.warmup: expected an integer, got 'x'"),
        (("--patience", 3), "patience=3 needs validations: set evaluation.eval_every"),
        (("--minutes", 1, "--steps", 1), "a budget has either minutes or steps"),
        (("--threads", 0), "expected --threads from 1 to"),
        (("--threads", 10**8), "got 100000000"),
        (("--device", "cuda"), "--device cuda needs a GPU"),
    ],
)
def test_what_train_refuses(rejected, monkeypatch, arguments: tuple, message: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert message in rejected("train", *arguments)
    assert not os.path.exists("runs")


def test_every_option_of_train_is_explained(command, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        command("train", "--help")
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in (
        "Name of a recipe (see `python -m tfmr recipes`) or path of a TOML file.",
        "--set TABLE.NAME=VALUE",
        "Run directory. (default: runs/RECIPE-DIRECTION)",
        "Continue the run in the run directory",
    ):
        assert part in text
