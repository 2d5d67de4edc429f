"""What stands around a run: facts, the page for people, TensorBoard, and what it must not touch."""

import dataclasses
import json
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tfmr.data import corpora, pocket
from tfmr.data.corpora import load_files
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.train import checkpoint
from tfmr.train.metadata import commit, differences, fingerprint, processor
from tfmr.train.recipes import Recipe, read_recipe
from tfmr.train.report import report_text
from tfmr.train.run import Run, read_curve

RECIPE = Recipe.from_tables(
    {
        "vocabulary": {"size": 300},
        "model": {
            **{"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1},
            **{"norm": "pre", "max_length": 60},
        },
        "batches": {"tokens_per_batch": 200},
        "train": {"warmup": 10},
        "evaluation": {"beam": 2, "eval_every": 4},
        "budget": {"steps": [8]},
    }
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=100, valid=4, test=5)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What was told to a TensorBoard that is none."""
    told: list[tuple] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            told.append(("open", Path(folder).name, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def close(self) -> None:
            told.append(("close",))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return told


def test_the_page_for_people(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path / "run", corpus, RECIPE, command="python -m tfmr train --steps 8")
    [row] = run.train(quiet=True)
    text = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert text.startswith("# pocket en-fr\n")
    for part in (
        f"{run.parameters:,} weights over {run.tokenizer.vocab_size:,} tokens",
        "on 100 sentence pairs: 8 steps in",
        "```bash\npython -m tfmr train --steps 8\n```",
        f"| {row['test_bleu']:g} |",
        f"| {row['test_bleu_beam2']:g} |",
        row["signature"],
        f'python -m tfmr translate --model {tmp_path / "run"} "',
        f"--corpus pocket --direction en-fr --out {tmp_path / 'run'} --resume",
        f"torch {torch.__version__.split('+')[0]}",
        "Seed 0;",
        run.tokenizer.fingerprint,
        *corpus.test[0],
    ):
        assert part in text
    assert text.count("> said: ") == 5
    named = {line.split("`")[1] for line in text.splitlines() if line.startswith("- `")}
    assert named == {path.name for path in (tmp_path / "run").iterdir()}
    assert read_recipe(tmp_path / "run" / "recipe.toml") == RECIPE


def test_the_command_to_go_on_is_the_runs_own(tmp_path: Path, corpus: Corpus) -> None:
    files = dataclasses.replace(corpus, name="your files", source="de", target="en")
    run = Run(tmp_path / "a run", files, RECIPE)
    run.world.size = 2
    text = report_text(run.folder, run.facts(), [], "", "")
    assert (
        "torchrun --nproc-per-node 2 -m tfmr train --files SOURCE TARGET --direction de-en "
        f"--out '{tmp_path / 'a run'}' --resume"
    ) in text
    assert f"translate --model '{tmp_path / 'a run'}' " in text


def test_facts_say_where_and_from_what(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path / "run", corpus, RECIPE, command="x")
    run.train(quiet=True)
    facts = json.loads((tmp_path / "run" / "scores.json").read_text("utf-8"))
    assert facts["pairs"] == [100, 4, 5]
    assert facts["hardware"]["device"] == "cpu"
    assert (facts["command"], facts["seed"], facts["processes"]) == ("x", 0, 1)
    assert facts["sentences"] == fingerprint(corpus)
    assert facts["commit"] == commit()
    saved = checkpoint.load(tmp_path / "run" / "model.safetensors").facts
    assert {name: saved[name] for name in facts if name != "date"} == {
        name: fact for name, fact in facts.items() if name != "date"
    }
    resumed = Run(tmp_path / "run", corpus, RECIPE, resume=True, command="y")
    assert resumed.facts()["command"] == "x", "the command that began it"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (
            "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: EPYC: two\n",
            "EPYC: two (family 26, model 2)",
        ),
        ("model name\t: ARMv7 rev 4\nBogoMIPS\t: 38\n", "ARMv7 rev 4"),
        ("BogoMIPS\t: 50\n", platform.machine()),
    ],
)
def test_the_processor_is_named_as_closely_as_the_system_does(
    said: str, name: str, tmp_path: Path
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(said, "utf-8")
    assert processor(info) == name
    assert processor(tmp_path / "none") == (platform.processor() or platform.machine())


def test_the_commit_is_that_of_the_file_and_says_what_is_not_in_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = [
            "git",
            "-C",
            str(tmp_path),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a",
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1")
    assert commit(tmp_path / "a") is None
    git("init", "--quiet")
    git("add", "a", "b")
    git("commit", "--quiet", "--message", "x", "--no-verify")
    assert commit(tmp_path / "b") == git("rev-parse", "HEAD")[:12]
    assert commit(tmp_path / "c") is None, "a file that the repository does not know"
    (tmp_path / "a").write_text("2")
    commit.cache_clear()
    assert commit(tmp_path / "b") == git("rev-parse", "HEAD")[:12] + "+"


def test_another_machine_goes_on_with_a_word_about_it(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run(tmp_path, corpus, RECIPE).train(quiet=True)
    assert Run(tmp_path, corpus, RECIPE, resume=True).notes == []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    [note] = Run(tmp_path, corpus, RECIPE, resume=True).notes
    assert "begun with threads 1, now 7: it goes on, but its numbers may not be" in note
    assert "\n" not in note
    then = {"versions": {"torch": "2.5"}, "hardware": {"processor": "a"}}
    now = {"versions": {"torch": "2.6"}, "hardware": {"processor": "a"}}
    assert differences(then, now) == ["torch 2.5, now 2.6"]


@pytest.mark.parametrize("name", ["scores.json", "README.md", "curve.csv", "best.safetensors"])
def test_a_file_that_is_not_of_a_run_is_not_written_over(
    tmp_path: Path, corpus: Corpus, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(TfmrError, match=f"{name} belongs to no run and would be overwritten"):
        Run(tmp_path, corpus, RECIPE)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_run_killed_before_its_first_checkpoint_begins_again(
    tmp_path: Path, corpus: Corpus
) -> None:
    Run(tmp_path, corpus, RECIPE)._open()
    (tmp_path / ".curve.csv.123").write_text("half")
    with pytest.raises(TfmrError, match="holds a run already: go on with it by --resume"):
        Run(tmp_path, corpus, RECIPE)
    run = Run(tmp_path, corpus, RECIPE, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]
    assert run.train(quiet=True)[0]["step"] == 8


def test_an_unfinished_token_file_does_not_stand_in_the_way(tmp_path: Path, corpus: Corpus) -> None:
    Run(tmp_path, corpus, RECIPE).train(quiet=True)
    (tmp_path / ".tokens.safetensors.1ab.writing").mkdir()
    (tmp_path / ".model.safetensors.12").touch()
    Run(tmp_path, corpus, RECIPE, resume=True)
    assert not (tmp_path / ".model.safetensors.12").exists()


def test_a_model_to_translate_with_is_not_gone_on_with(tmp_path: Path, corpus: Corpus) -> None:
    Run(tmp_path, corpus, RECIPE).train(quiet=True)
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, checkpoint.slim(checkpoint.load(path)))
    with pytest.raises(TfmrError, match="made to translate with, not to resume from"):
        Run(tmp_path, corpus, RECIPE, resume=True)


def test_tensorboard_hears_of_every_step_and_look(
    tmp_path: Path, corpus: Corpus, board: list[tuple]
) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    run.train(steps=[5], quiet=True)
    assert board[0] == ("open", "tensorboard", 1)
    assert board[-1] == ("close",)
    for name in ("loss", "gradient_norm", "weight_norm", "rate"):
        told = [(value, step) for tag, value, step in board[1:-1] if tag == f"train/{name}"]
        assert told == [(getattr(step, name), step.step) for step in run.curve]
    [look] = run.looks
    assert ("valid/loss", look.loss, 4) in board
    assert ("valid/bleu", look.bleu, 4) in board
    board.clear()
    Run(tmp_path, corpus, RECIPE, resume=True).train(quiet=True)
    assert board[0] == ("open", "tensorboard", 6), "what came after step 5 is void"


def test_without_tensorboard_nothing_is_missed(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    Run(tmp_path, corpus, RECIPE).train(quiet=True)
    assert not (tmp_path / "tensorboard").exists()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two hundred pairs in two files."""
    pairs = pocket.generate("en-fr", 200, 0)
    for side, name in enumerate(("a.en", "a.fr")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.fr"


def test_a_large_corpus_is_streamed_and_gives_the_same_run(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "STREAM_FROM", 200)
    monkeypatch.setattr(corpora, "HELD_OUT", 8)
    streamed = load_files(*files, "en", "fr")
    assert streamed.is_streamed
    pairs = list(streamed.train)
    held = Corpus("your files", "en", "fr", pairs, streamed.valid, streamed.test, "")
    assert fingerprint(held) == fingerprint(streamed)
    Run(tmp_path / "held", held, RECIPE).train(quiet=True)
    run = Run(tmp_path / "run", streamed, RECIPE)
    tokens = tmp_path / "run" / "tokens" / "ids.npy"
    written = tokens.stat().st_mtime_ns
    run.train(steps=[5], quiet=True)
    Run(tmp_path / "run", streamed, RECIPE, resume=True).train(quiet=True)
    assert tokens.stat().st_mtime_ns == written, "encoded once"
    recipe = (tmp_path / "run" / "recipe.toml").read_text("utf-8")
    with pytest.raises(TfmrError, match="resume with the same, or start anew"):
        Run(tmp_path / "run", streamed, RECIPE.having({"train.peak_lr": 0.5}), resume=True)
    assert (tmp_path / "run" / "recipe.toml").read_text("utf-8") == recipe
    losses = [
        [step.loss for step in read_curve(tmp_path / name / "curve.csv")]
        for name in ("held", "run")
    ]
    assert losses[0] == losses[1]
    assert not (tmp_path / "held" / "tokens").exists()
