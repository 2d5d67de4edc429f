"""A run and its folder: what is in it, that it goes on as if never stopped, and what it refuses."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

import tfmr
from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.train.checkpoint import named_weights
from tfmr.train.recipes import Recipe
from tfmr.train.run import Run, load_translator, read_curve
from tfmr.train.trainer import Step, Trainer

RECIPE = Recipe.from_tables(
    {
        "vocabulary": {"kind": "words"},
        "model": {
            **{"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1},
            **{"dropout": 0.15, "norm": "pre", "max_length": 16},
        },
        "batches": {"tokens_per_batch": 200},
        "train": {"warmup": 10},
    }
)
FILES = [
    *("README.md", "curve.csv", "model.safetensors", "recipe.toml", "samples.tsv", "scores.json"),
]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=800, valid=4, test=5)


def started(folder: Path, corpus: Corpus, steps: int = 4) -> Run:
    """A run of so many steps, saved."""
    run = Run(folder, corpus, RECIPE)
    run.trainer.run(steps=steps, on_step=run.curve.append)
    run.save()
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_leaves_a_folder_that_says_how_it_came_about(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path / "new" / "run", corpus, RECIPE)
    rows = run.train([0.01, 0.005], quiet=True)
    assert names(run.folder) == FILES

    facts = json.loads((run.folder / "scores.json").read_text())
    assert (facts["corpus"], facts["direction"]) == ("pocket", "en-fr")
    assert facts["recipe"]["train"]["warmup"] == 10
    assert facts["parameters"] == run.trainer.model.count_parameters()
    assert facts["vocabulary"] == run.tokenizer.fingerprint
    assert facts["versions"]["tfmr"] == tfmr.__version__
    assert torch.__version__.startswith(facts["versions"]["torch"])
    assert facts["hardware"]["threads"] == torch.get_num_threads()
    assert facts["hardware"]["processor"]
    assert facts["scores"] == rows == run.scores

    assert [row["minutes"] for row in rows] == [0.005, 0.01]
    assert rows[0]["step"] < rows[1]["step"] == len(run.curve)
    for row in rows:
        assert 0 < row["valid_loss"] < 2 * math.log(run.tokenizer.vocab_size)
        assert all(0 <= row[f"{part}_bleu"] <= 100 for part in ("valid", "test"))
        assert all(0 <= row[f"{part}_exact"] <= 1 for part in ("valid", "test"))
        assert "version:" in row["signature"]
    assert rows[1]["tokens"] == sum(step.tokens for step in run.curve)

    text = (run.folder / "samples.tsv").read_text()
    head, *samples = [line.split("\t") for line in text.splitlines()]
    assert head == ["source", "reference", "translation", "chrF"]
    assert [(source, reference) for source, reference, _, _ in samples] == corpus.test


def test_the_model_in_the_folder_is_the_average(tmp_path: Path, corpus: Corpus) -> None:
    run = started(tmp_path, corpus)
    for path in (tmp_path, tmp_path / "model.safetensors"):
        model, tokenizer = load_translator(path)
        assert tokenizer.to_json() == run.tokenizer.to_json()
        weights = named_weights(model)
        assert all(torch.equal(weights[name], mean) for name, mean in run.trainer.mean.items())
    with pytest.raises(TfmrError, match="no checkpoint at"):
        load_translator(tmp_path / "none")


def test_going_on_equals_never_having_stopped(tmp_path: Path, corpus: Corpus) -> None:
    straight = started(tmp_path / "straight", corpus, steps=9)
    started(tmp_path / "stopped", corpus, steps=4)
    torch.manual_seed(99)
    resumed = Run(tmp_path / "stopped", corpus, RECIPE, resume=True)
    assert len(resumed.curve) == 4
    resumed.trainer.run(steps=9, on_step=resumed.curve.append)
    resumed.save()

    weights = named_weights(resumed.trainer.model)
    for name, weight in named_weights(straight.trainer.model).items():
        assert torch.equal(weights[name], weight)
        assert torch.equal(resumed.trainer.mean[name], straight.trainer.mean[name])
    curves = [read_curve(tmp_path / name / "curve.csv") for name in ("straight", "stopped")]
    without_time = [[dataclasses.replace(s, seconds=0.0) for s in curve] for curve in curves]
    assert without_time[0] == without_time[1]
    assert [step.seconds for step in curves[1]] == sorted(step.seconds for step in curves[1])


def test_scores_go_on_too_and_a_time_that_is_past_is_not_trained_again(
    tmp_path: Path, corpus: Corpus
) -> None:
    first = Run(tmp_path, corpus, RECIPE)
    rows = list(first.train([0.003], quiet=True))
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    assert resumed.train([0.003], quiet=True) == rows
    assert resumed.trainer.steps_done == first.trainer.steps_done
    assert [row["minutes"] for row in resumed.train([0.003, 0.006], quiet=True)] == [0.003, 0.006]


def test_an_existing_run_is_not_overwritten(tmp_path: Path, corpus: Corpus) -> None:
    started(tmp_path, corpus)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(TfmrError, match="holds a run already: go on with it by --resume"):
        Run(tmp_path, corpus, RECIPE)
    assert (tmp_path / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "tatoeba"}, "with corpus pocket, now asked for tatoeba"),
        ({"target": "ko"}, "with direction en-fr, now asked for en-ko"),
        ({"test": [("a", "b")]}, r"with sentences [0-9a-f]{12}, now asked for [0-9a-f]{12}"),
        ({}, "with model.d_ff 16, now asked for 32"),
    ],
)
def test_another_corpus_or_recipe_does_not_go_on(
    tmp_path: Path, corpus: Corpus, changed: dict, message: str
) -> None:
    started(tmp_path, corpus)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    recipe = RECIPE if changed else RECIPE.having({"model.d_ff": 32})
    with pytest.raises(TfmrError, match=message) as error:
        Run(tmp_path, dataclasses.replace(corpus, **changed), recipe, resume=True)
    assert "resume with the same, or start anew" in str(error.value)
    assert "\n" not in str(error.value)
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_there_is_nothing_to_go_on_with(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(TfmrError, match="no checkpoint at"):
        Run(tmp_path, corpus, RECIPE, resume=True)
    assert names(tmp_path) == []


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, run: Run, step: int, error: BaseException
) -> None:
    plain = run.trainer.step

    def interrupted(*batches: object) -> Step:
        if run.trainer.steps_done == step:
            raise error
        return plain(*batches)

    monkeypatch.setattr(run.trainer, "step", interrupted)


def test_control_c_saves_and_says_how_to_go_on(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run", corpus, RECIPE)
    interrupt_at(monkeypatch, run, 4, KeyboardInterrupt())
    with pytest.raises(TfmrError, match=r"stopped at step 4, all of it saved in .*--resume"):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path / "run", corpus, RECIPE, resume=True)
    resumed.trainer.run(steps=9)
    straight = started(tmp_path / "straight", corpus, steps=9)
    weights = named_weights(resumed.trainer.model)
    for name, weight in named_weights(straight.trainer.model).items():
        assert torch.equal(weights[name], weight)


def test_a_stop_within_a_step_is_not_saved(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path / "run", corpus, steps=4)
    plain = run.trainer.optimizer.step

    def stop() -> None:
        plain()
        raise KeyboardInterrupt

    monkeypatch.setattr(run.trainer.optimizer, "step", stop)
    with pytest.raises(TfmrError, match="within a step; the checkpoint of step 4"):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path / "run", corpus, RECIPE, resume=True)
    resumed.trainer.run(steps=6)
    straight = started(tmp_path / "straight", corpus, steps=6)
    weights = named_weights(resumed.trainer.model)
    for name, weight in named_weights(straight.trainer.model).items():
        assert torch.equal(weights[name], weight)


def test_divergence_leaves_the_last_checkpoint(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(tmp_path, corpus)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    run = Run(tmp_path, corpus, RECIPE, resume=True)
    interrupt_at(monkeypatch, run, 6, TfmrError("training diverged"))
    with pytest.raises(TfmrError, match="diverged"):
        run.train([1.0], quiet=True)
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_a_long_run_is_saved_on_the_way(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = RECIPE.having({"checkpoints.seconds": 0})
    run = Run(tmp_path, corpus, recipe)
    interrupt_at(monkeypatch, run, 2, TfmrError("stop"))
    with pytest.raises(TfmrError, match="stop"):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    assert resumed.trainer.steps_done == len(resumed.curve) == 2


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"minutes": []}, "as long as its minutes or as its steps: give one of them"),
        ({"minutes": [1.0], "steps": [2]}, "give one of them, got .1.0. minutes and .2. steps"),
        ({"minutes": [0.0]}, "minutes to train must be positive"),
        ({"minutes": [-1.0, 1.0]}, "minutes to train must be positive"),
        ({"steps": [10, 0]}, "steps to train must be positive: got .10, 0."),
    ],
)
def test_the_time_must_be_positive(
    tmp_path: Path, corpus: Corpus, budget: dict, message: str
) -> None:
    with pytest.raises(TfmrError, match=message):
        Run(tmp_path / "run", corpus, RECIPE).train(**budget, quiet=True)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named_before_the_training(
    tmp_path: Path, corpus: Corpus
) -> None:
    (tmp_path / "file").write_text("")
    run = Run(tmp_path / "file" / "run", corpus, RECIPE)
    with pytest.raises(TfmrError, match=r"cannot write to .*name another by --out") as error:
        run.train([0.01], quiet=True)
    assert "\n" not in str(error.value)
    assert run.trainer.steps_done == 0


def test_a_write_that_fails_leaves_no_stray_file(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path, corpus)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    plain = Path.write_text

    def half(path: Path, text: str, **rest: str) -> None:
        plain(path, text[: len(text) // 2], **rest)
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(TfmrError, match=r"cannot save in .*disk full.*go on with --resume"):
        run.save()
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_a_sentence_that_could_not_be_scored_is_refused_before_the_training(
    tmp_path: Path, corpus: Corpus
) -> None:
    source, target = corpus.test[0]
    longer = dataclasses.replace(corpus, test=[(source, target), (source, f"{target} " * 60)])
    with pytest.raises(TfmrError, match=r"a sentence of the test part has \d+: shorten it"):
        Run(tmp_path, longer, RECIPE)
    strange = dataclasses.replace(corpus, valid=[("a dragon sleeps .", target)])
    with pytest.raises(TfmrError, match=r"a source of the valid part has a word .*\('a dragon"):
        Run(tmp_path, strange, RECIPE)
    Run(tmp_path, dataclasses.replace(corpus, valid=[(source, "un dragon .")]), RECIPE)


def test_a_run_that_was_stopped_while_it_was_scored_is_scored_when_it_goes_on(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, corpus, RECIPE)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "score", stop)
        with pytest.raises(TfmrError, match="go on with --resume"):
            run.train([0.005], quiet=True)
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    steps = resumed.trainer.steps_done
    assert [row["minutes"] for row in resumed.train([0.005], quiet=True)] == [0.005]
    assert resumed.trainer.steps_done == steps
    assert (tmp_path / "samples.tsv").exists()
    assert len(resumed.train([0.005], quiet=True)) == 1


def test_a_stop_before_the_first_step_leaves_nothing(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, corpus, RECIPE)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.trainer, "run", stop)
    (tmp_path / "tokens.safetensors").touch()  # of a large corpus
    with pytest.raises(TfmrError, match="nothing to save: start again"):
        run.train([0.005], quiet=True)
    assert names(tmp_path) == []


def test_a_curve_comes_back_from_its_file(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    run.curve = [
        Step(1, 5.25, 0.5, 12.5, 1e-3, 999, 0.125),
        Step(1_234_567, 1 / 3, 2.0, 1e4, 2e-5, 12, 86400.5),
    ]
    run.trainer.run(steps=1)  # Adam has no state before
    run.save()
    curve = read_curve(tmp_path / "curve.csv")
    for one, other in zip(curve, run.curve, strict=True):
        assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(other), rel=1e-5)
        assert isinstance(one.step, int)
    header = (tmp_path / "curve.csv").read_text().splitlines()[0]
    assert header == "step,loss,gradient_norm,weight_norm,rate,tokens,seconds"


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step,loss\n1,2\n", "step,tokens\nx,1\n"])
def test_a_curve_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.csv"
    with pytest.raises(TfmrError, match="no curve at"):
        read_curve(path)
    path.write_text(text)
    with pytest.raises(TfmrError, match="is no curve: expected the columns step, loss") as error:
        read_curve(path)
    assert "\n" not in str(error.value)


def test_the_seed_of_the_recipe_decides(tmp_path: Path, corpus: Corpus) -> None:
    runs: list[Trainer] = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        recipe = RECIPE.having({"train.seed": seed})
        runs.append(Run(tmp_path / name, corpus, recipe).trainer)
        runs[-1].run(steps=3)
    name = "target_embedding.weight"
    first, same, other = (named_weights(trainer.model)[name] for trainer in runs)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
