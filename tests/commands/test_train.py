"""``train``, ``recipes`` and ``export``: what their options do, and what they refuse."""

import json
import sys
from pathlib import Path

import pytest
import torch

from tfmr.__main__ import main
from tfmr.data import corpora, pocket
from tfmr.train import checkpoint
from tfmr.train.recipes import RECIPES, read_recipe
from tfmr.train.run import read_curve

TINY = [
    *("model.d_model=16", "model.d_ff=16", "model.n_encoder=1", "model.n_decoder=1"),
    *("evaluation.beam=2", "batches.tokens_per_batch=256"),
]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder to work in, a small corpus, and torch as it was."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpora, "load", lambda _, direction: pocket.split(direction, 200, 4, 5))
    yield
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run ``train`` with a tiny model; its rows, and what it said beside them."""

    def run(*arguments: object, changes: tuple[str, ...] = ()) -> tuple[list[dict], str]:
        capsys.readouterr()
        command = ["tfmr", "train", *map(str, arguments), "--set", *TINY, *changes]
        monkeypatch.setattr(sys, "argv", command)
        main()
        out, err = capsys.readouterr()
        return [json.loads(line) for line in out.splitlines()], err

    return run


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command that must fail: exit status 2, and the one line that it says."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["tfmr", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert (stop.value.code, out) == (2, "")
        [line] = [line for line in err.splitlines() if line.startswith("tfmr: ")]
        return line

    return run


def test_steps_seed_and_threads(train, tmp_path: Path) -> None:
    rows, said = train("--steps", 4, 2, "--seed", 7, "--threads", 2, "--out", "a")
    assert [row["step"] for row in rows] == [2, 4]
    assert torch.get_num_threads() == 2
    recipe = read_recipe(Path("a/recipe.toml"))
    assert (recipe.train.seed, recipe.budget.steps, recipe.budget.minutes) == (7, (4, 2), ())
    assert recipe.architecture.d_model == 16
    facts = json.loads(Path("a/scores.json").read_text("utf-8"))
    assert facts["command"].startswith("python -m tfmr train --steps 4 2 --seed 7")
    assert facts["hardware"]["threads"] == 2
    assert Path("a/curve.png").read_bytes().startswith(b"\x89PNG")
    assert "curve.png" in Path("a/README.md").read_text("utf-8")
    assert "python -m tfmr translate --model a" in said
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["a"]


def test_the_same_seed_the_same_curve(train) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train("--steps", 2, "--seed", seed, "--out", name)
    a, b, c = ([s.loss for s in read_curve(Path(name) / "curve.csv")] for name in "abc")
    assert a == b
    assert a != c


def test_the_folder_is_called_like_the_recipe_and_resumed_with_its_own(train) -> None:
    Path("own.toml").write_text(RECIPES["pocket"].having({"train.warmup": 9}).to_toml())
    train("--recipe", "own.toml", "--steps", 2, "--direction", "en-ko")
    folder = Path("runs/own-en-ko")
    assert read_recipe(folder / "recipe.toml").train.warmup == 9
    changes = ("train.warmup=9",)
    rows, _ = train("--out", folder, "--direction", "en-ko", "--steps", 3, "--resume")
    assert [row["step"] for row in rows] == [2, 3]
    assert read_recipe(folder / "recipe.toml").train.warmup == 9
    train("--steps", 2, changes=changes)
    assert Path("runs/pocket-en-fr/recipe.toml").exists()


def test_the_corpus_and_the_direction_are_the_recipes(train, monkeypatch) -> None:
    asked = []

    def load(name: str, direction: str) -> object:
        asked.append((name, direction))
        return pocket.split("en-fr", 200, 4, 5)

    monkeypatch.setattr(corpora, "load", load)
    words = ("vocabulary.kind=words",)
    train("--recipe", "multi30k", "--steps", 1, "--out", "a", changes=words)
    train("--recipe", "multi30k", "--direction", "en-de", "--steps", 1, "--out", "b", changes=words)
    train("--corpus", "multi30k", "--steps", 1, "--out", "c")
    train("--recipe", "multi30k", "--corpus", "tatoeba", "--steps", 1, "--out", "d", changes=words)
    train("--steps", 1, "--out", "e")
    assert asked == [
        *(("multi30k", "de-en"), ("multi30k", "en-de"), ("multi30k", "de-en")),
        *(("tatoeba", "ko-en"), ("pocket", "en-fr")),
    ]


def test_patience(train) -> None:
    still = ("evaluation.eval_every=1", "evaluation.metric=loss", "train.peak_lr=1e-30")
    rows, _ = train("--steps", 50, "--patience", 2, changes=still)
    assert [row["step"] for row in rows] == [3]
    assert Path("runs/pocket-en-fr/valid.csv").read_text("utf-8").count("\n") == 4


def test_what_train_refuses(refused, monkeypatch) -> None:
    assert "no recipe is called 'wmt': there are multi30k" in refused("train", "--recipe", "wmt")
    line = refused("train", "--recipe", "wmt14-base")
    assert "for a corpus of your own: name it by --files SOURCE TARGET" in line
    assert "as in train.peak_lr=1e-3: got 'seed'" in refused("train", "--set", "seed")
    assert "[train] has no 'sed': did you mean seed?" in refused("train", "--set", "train.sed=1")
    assert "warmup must be a whole number: got 'x'" in refused("train", "--set", "train.warmup=x")
    assert "waits for looks at the validation part" in refused("train", "--patience", 3)
    assert "as its minutes or as its steps" in refused("train", "--minutes", 1, "--steps", 1)
    assert "expected --threads 1 or more, got 0" in refused("train", "--threads", 0)
    both = refused("train", "--corpus", "pocket", "--files", "a", "b")
    assert "give --corpus or --files, not both: got pocket and" in both
    assert "names two languages" in refused("train", "--files", "a", "b", "--direction", "en")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "--device cuda needs a GPU" in refused("train", "--device", "cuda")
    assert not Path("runs").exists()


def test_the_list_of_recipes(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["tfmr", "recipes"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    assert all(recipe.about in line for line, recipe in zip(lines, RECIPES.values(), strict=True))


def test_export(train, refused, monkeypatch, capsys) -> None:
    train("--steps", 2, "--out", "a")
    monkeypatch.setattr(sys, "argv", ["tfmr", "export", "--model", "a", "--out", "b.safetensors"])
    main()
    assert "cannot be resumed from" in capsys.readouterr().err
    whole, slim = Path("a/model.safetensors"), Path("b.safetensors")
    assert slim.stat().st_size < whole.stat().st_size / 4
    assert checkpoint.load(slim).state == {}
    monkeypatch.setattr(sys, "argv", ["tfmr", "translate", "--model", "b.safetensors", "the owl ."])
    main()
    assert len(capsys.readouterr().out.splitlines()) == 1

    line = refused("export", "--model", "a", "--out", "b.safetensors")
    assert "b.safetensors exists already: name another file" in line
    assert "no checkpoint at" in refused("export", "--model", "none", "--out", "c")
    Path("file").write_text("")
    assert "cannot write file/c" in refused("export", "--model", "a", "--out", "file/c")
