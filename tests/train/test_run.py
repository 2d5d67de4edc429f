"""A run: its files, resuming it, validation and averaging, and what it refuses."""

import csv
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tfmr
from tfmr import checkpoint
from tfmr.checkpoint import load_translator, named_weights
from tfmr.data.corpus import Corpus, StreamedPairs
from tfmr.errors import TfmrError
from tfmr.train.config import Recipe, read_recipe
from tfmr.train.evaluation import Evaluator, best_validation, mean_loss
from tfmr.train.metadata import commit, corpus_fingerprint
from tfmr.train.run import Run
from tfmr.train.run_dir import curve_csv, locked, read_curve, write_text
from tfmr.train.trainer import StepRecord
from tfmr.translator import Translator

RECIPE = Recipe.from_dict(
    {
        "vocabulary": {"kind": "words"},
        "model": {
            **{"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1},
            **{"dropout": 0.15, "norm": "pre", "max_length": 16},
        },
        "batches": {"tokens_per_batch": 200},
        "train": {"warmup": 10},
        "evaluation": {"beam": 1},
        "budget": {"steps": [8]},
    }
)
WITHOUT_EMA = RECIPE.with_overrides({"train.ema_decay": 0.0, "budget.steps": (20,)})
VALIDATING = WITHOUT_EMA.with_overrides({"evaluation.eval_every": 2, "evaluation.metric": "loss"})
AVERAGING = WITHOUT_EMA.with_overrides(
    {"checkpoints.average": 3, "checkpoints.average_every": 2, "budget.steps": (9,)}
)
FILES = [
    *("README.md", "curve.csv", "model.safetensors", "recipe.toml", "samples.tsv", "scores.json"),
]


def start(folder: Path, corpus: Corpus, steps: int = 4, recipe: Recipe = RECIPE) -> Run:
    """A run that has taken and saved so many steps."""
    run = Run(folder, corpus, recipe)
    run.trainer.run(steps=steps, on_step=run.curve.append)
    run.save()
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def fail_at(monkeypatch: pytest.MonkeyPatch, run: Run, step: int, error: BaseException) -> None:
    """Let the trainer raise ``error`` instead of taking the step after ``step``."""
    start_step = run.trainer.start_step

    def failing(*batches: Any) -> Callable[[], StepRecord]:
        if run.trainer.steps_done == step:
            raise error
        return start_step(*batches)

    monkeypatch.setattr(run.trainer, "start_step", failing)


def assert_same_weights(first: Translator, second: Translator) -> None:
    weights = named_weights(second)
    for name, weight in named_weights(first).items():
        assert torch.equal(weights[name], weight)


def test_a_run_directory_describes_the_run(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(str(tmp_path / "new" / "run"), corpus, RECIPE, command="x")
    rows = run.train([0.01, 0.005], quiet=True)
    assert names(run.folder) == FILES

    results = json.loads((run.folder / "scores.json").read_text())
    assert (results["corpus"], results["direction"]) == ("pocket", "en-fr")
    assert results["sentence_pairs"] == {"train": 400, "valid": 4, "test": 5}
    assert results["dropped_pairs"] == 0
    assert results["recipe"] == run.recipe.to_dict()
    assert results["recipe"]["train"]["warmup"] == 10
    assert results["hardware"]["arithmetic"] == run.trainer.arithmetic.name == "fp32"
    saved = checkpoint.load(run.folder / "model.safetensors")
    assert saved.metadata["hardware"] == results["hardware"]
    assert results["parameters"] == run.trainer.model.count_parameters()
    assert results["vocab_size"] == run.tokenizer.vocab_size
    assert results["vocabulary_fingerprint"] == run.tokenizer.fingerprint
    assert results["corpus_fingerprint"] == corpus_fingerprint(corpus)
    assert (results["command"], results["processes"]) == ("x", 1)
    assert results["versions"]["tfmr"] == tfmr.__version__
    assert results["hardware"]["threads"] == torch.get_num_threads()
    assert results["commit"] == commit()
    assert results["scores"] == rows == run.scores
    saved = checkpoint.load(run.folder / "model.safetensors").metadata
    assert {name: saved[name] for name in results.keys() - {"date"}} == {
        name: value for name, value in results.items() if name != "date"
    }

    assert [row["minutes"] for row in rows] == [0.005, 0.01]
    assert rows[0]["step"] < rows[1]["step"] == len(run.curve)
    for row in rows:
        assert 0 < row["valid_loss"] < 2 * math.log(run.tokenizer.vocab_size)
        assert all(0 <= row[f"{split}_bleu"] <= 100 for split in ("valid", "test"))
        assert all(0 <= row[f"{split}_exact"] <= 1 for split in ("valid", "test"))
        assert "version:" in row["signature"]
    assert rows[1]["tokens"] == sum(record.tokens for record in run.curve)

    text = (run.folder / "samples.tsv").read_text()
    header, *samples = [line.split("\t") for line in text.splitlines()]
    assert header == ["source", "reference", "hypothesis", "chrF"]
    assert [(source, reference) for source, reference, _, _ in samples] == corpus.test
    readme = (run.folder / "README.md").read_text("utf-8")
    assert f"{run.parameters:,} parameters" in readme
    assert f"{rows[1]['step']:,} steps in" in readme
    assert corpus.test[0][1] in readme
    assert read_recipe(run.folder / "recipe.toml") == run.recipe


def test_pairs_that_are_too_long_are_counted_and_reported(tmp_path: Path, corpus: Corpus) -> None:
    source, target = corpus.train[0]
    long_pairs = [(source, f"{target} " * 9), (f"{source} " * 9, target)]
    longer = dataclasses.replace(corpus, train=[*corpus.train, *long_pairs])
    run = Run(tmp_path, longer, RECIPE)
    assert run.warnings == [
        "2 of 402 training pairs are not used: a sentence has more than 16 tokens "
        "(model.max_length)"
    ]
    run.train(quiet=True)
    assert json.loads((tmp_path / "scores.json").read_text())["dropped_pairs"] == 2
    assert "402 sentence pairs, of which 2 were not used" in (tmp_path / "README.md").read_text()


def test_the_initial_weights_depend_on_the_seed_only(tmp_path: Path, corpus: Corpus) -> None:
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(number)
        state = torch.get_rng_state()
        run = Run(tmp_path, corpus, RECIPE.with_overrides({"train.seed": seed}))
        assert torch.equal(torch.get_rng_state(), state), "the global generator is unchanged"
        weights.append(named_weights(run.trainer.model)["target_embedding.weight"])
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_saved_model_has_the_averaged_weights(tmp_path: Path, corpus: Corpus) -> None:
    run = start(tmp_path, corpus)
    for path in (tmp_path, str(tmp_path / "model.safetensors")):
        model, tokenizer = load_translator(path)
        assert tokenizer.to_json() == run.tokenizer.to_json()
        weights = named_weights(model)
        assert all(torch.equal(weights[name], ema) for name, ema in run.trainer.ema.items())


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, corpus: Corpus) -> None:
    straight = start(tmp_path / "straight", corpus, steps=9)
    start(tmp_path / "stopped", corpus, steps=4)
    torch.manual_seed(99)
    resumed = Run(tmp_path / "stopped", corpus, RECIPE, resume=True, command="y")
    assert len(resumed.curve) == 4
    resumed.trainer.run(steps=9, on_step=resumed.curve.append)
    resumed.save()

    assert_same_weights(straight.trainer.model, resumed.trainer.model)
    for name, ema in straight.trainer.ema.items():
        assert torch.equal(resumed.trainer.ema[name], ema)
    curves = [read_curve(tmp_path / name / "curve.csv") for name in ("straight", "stopped")]
    untimed = [[dataclasses.replace(r, seconds=0.0) for r in curve] for curve in curves]
    assert untimed[0] == untimed[1]
    assert [r.seconds for r in curves[1]] == sorted(r.seconds for r in curves[1])
    assert resumed.metadata()["command"] is None, "the command that started the run"


def test_rows_of_the_curve_after_the_checkpoint_are_dropped(tmp_path: Path, corpus: Corpus) -> None:
    """A process killed while it saves has written the curve but not the checkpoint."""
    run = start(tmp_path, corpus, steps=4)
    run.trainer.run(steps=6, on_step=run.curve.append)
    write_text(tmp_path / "curve.csv", curve_csv(run.curve))
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    assert [record.step for record in resumed.curve] == [1, 2, 3, 4]


def test_a_resumed_run_does_not_repeat_its_evaluations(tmp_path: Path, corpus: Corpus) -> None:
    first = Run(tmp_path, corpus, RECIPE)
    rows = list(first.train([0.003], quiet=True))
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    assert resumed.warnings == []
    assert resumed.train([0.003], quiet=True) == rows
    assert resumed.trainer.steps_done == first.trainer.steps_done
    assert [row["minutes"] for row in resumed.train([0.003, 0.006], quiet=True)] == [0.003, 0.006]


def test_training_stops_exactly_at_each_number_of_steps(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    rows = run.train(steps=[7, 3], quiet=True)
    assert [row["step"] for row in rows] == [3, 7]
    assert run.trainer.steps_done == len(run.curve) == 7
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == rows
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    assert resumed.train(steps=[7, 3], quiet=True) == rows
    assert resumed.trainer.steps_done == 7
    assert [row["step"] for row in resumed.train(steps=[5, 8], quiet=True)] == [3, 7, 8]


def test_an_existing_run_is_not_overwritten(tmp_path: Path, corpus: Corpus) -> None:
    start(tmp_path, corpus)
    before = contents(tmp_path)
    with pytest.raises(TfmrError, match="already holds a run: continue it with --resume"):
        Run(tmp_path, corpus, RECIPE)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "tatoeba"}, "was trained with corpus pocket, not tatoeba"),
        ({"target": "ko"}, "with direction en-fr, not en-ko"),
        ({"test": [("a", "b")]}, r"corpus_fingerprint [0-9a-f]{12}.*[0-9a-f]{12}"),
        ({}, r"model.d_ff 16.*32"),
    ],
)
def test_another_corpus_or_recipe_does_not_resume(
    tmp_path: Path, corpus: Corpus, change: dict, message: str
) -> None:
    start(tmp_path, corpus)
    before = contents(tmp_path)
    recipe = RECIPE if change else RECIPE.with_overrides({"model.d_ff": 32})
    with pytest.raises(TfmrError, match=message) as error:
        Run(tmp_path, dataclasses.replace(corpus, **change), recipe, resume=True)
    assert "resume with the same setting, or train in another folder" in str(error.value)
    assert "\n" not in str(error.value)
    assert contents(tmp_path) == before


def test_a_resume_without_a_run_starts_it(tmp_path: Path, corpus: Corpus) -> None:
    rows = Run(tmp_path / "new", corpus, RECIPE, resume=True).train(steps=[2], quiet=True)
    assert [row["step"] for row in rows] == [2]


def test_one_process_at_a_time_trains_in_a_folder(tmp_path: Path, corpus: Corpus) -> None:
    run = start(tmp_path, corpus, steps=2)
    other = Run(tmp_path, corpus, RECIPE, resume=True)
    temporary = tmp_path / ".model.safetensors.1"
    temporary.touch()
    with locked(tmp_path):
        for attempt in (
            lambda: Run(tmp_path, corpus, RECIPE, resume=True),
            lambda: other.train(steps=[3], quiet=True),
        ):
            with pytest.raises(TfmrError, match=f"another process trains in {tmp_path}"):
                attempt()
        assert temporary.exists(), "it belongs to the process that trains"
    assert len(run.train(steps=[3], quiet=True)) == 1


def test_an_inference_checkpoint_does_not_resume(tmp_path: Path, corpus: Corpus) -> None:
    start(tmp_path, corpus)
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, checkpoint.strip_for_inference(checkpoint.load(path)))
    with pytest.raises(TfmrError, match="for inference only and cannot be resumed"):
        Run(tmp_path, corpus, RECIPE, resume=True)


def test_a_changed_environment_is_reported(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path, corpus)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    [warning] = Run(tmp_path, corpus, RECIPE, resume=True).warnings
    assert "(threads 1, now 7): its numbers may differ" in warning


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    tmp_path: Path, corpus: Corpus
) -> None:
    Run(tmp_path, corpus, RECIPE)._write_recipe()
    (tmp_path / ".curve.csv.abcdefgh.writing").mkdir()
    with pytest.raises(TfmrError, match="already holds a run"):
        Run(tmp_path, corpus, RECIPE)
    run = Run(tmp_path, corpus, RECIPE, resume=True)
    assert run.train(quiet=True)[0]["step"] == 8
    assert names(tmp_path) == FILES


def test_ctrl_c_saves_the_run(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run", corpus, RECIPE)
    fail_at(monkeypatch, run, 4, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match=r"step 4 .*run.*--resume"):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path / "run", corpus, RECIPE, resume=True)
    resumed.trainer.run(steps=9)
    straight = start(tmp_path / "straight", corpus, steps=9)
    assert_same_weights(straight.trainer.model, resumed.trainer.model)


def test_a_stop_during_a_step_is_not_saved(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path / "run", corpus, steps=4)
    optimizer_step = run.trainer.optimizer.step

    def stop() -> None:
        optimizer_step()
        raise KeyboardInterrupt

    monkeypatch.setattr(run.trainer.optimizer, "step", stop)
    with pytest.raises(KeyboardInterrupt, match=r"during a step.* step 4 "):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path / "run", corpus, RECIPE, resume=True)
    resumed.trainer.run(steps=6)
    straight = start(tmp_path / "straight", corpus, steps=6)
    assert_same_weights(straight.trainer.model, resumed.trainer.model)


def test_a_stop_before_the_first_step_leaves_no_file(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    monkeypatch.setattr(run.trainer, "run", interrupt)
    (tmp_path / "tokens").mkdir()  # of a streamed corpus
    with pytest.raises(KeyboardInterrupt, match="nothing to save"):
        run.train([0.005], quiet=True)
    assert names(tmp_path) == []


def test_few_steps_of_a_time_budget_are_fewer_than_twice_the_warmup(
    tmp_path: Path, corpus: Corpus
) -> None:
    in_minutes = RECIPE.with_overrides({"budget.steps": (), "budget.minutes": (0.5, 1.0)})
    for recipe, seconds, steps, few in (
        (in_minutes, 60.0, 19, True),
        (in_minutes, 60.0, 20, False),
        (in_minutes, 59.9, 19, False),
        (RECIPE, 60.0, 19, False),
    ):
        run = Run(tmp_path, corpus, recipe)
        run.trainer.seconds, run.trainer.steps_done = seconds, steps
        assert (f"after {steps} steps" in run.few_steps) == few


def test_divergence_leaves_the_last_checkpoint(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path, corpus)
    before = contents(tmp_path)
    run = Run(tmp_path, corpus, RECIPE, resume=True)
    fail_at(monkeypatch, run, 6, TfmrError("training diverged"))
    with pytest.raises(TfmrError, match="diverged"):
        run.train(quiet=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("setting", ["seconds", "steps"])
def test_a_run_is_saved_at_intervals(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    interval = {"seconds": 0, "steps": 2}[setting]
    run = Run(tmp_path, corpus, RECIPE.with_overrides({f"checkpoints.{setting}": interval}))
    fail_at(monkeypatch, run, 3, TfmrError("stop"))
    with pytest.raises(TfmrError, match="stop"):
        run.train([1.0], quiet=True)
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    expected = {"seconds": 3, "steps": 2}[setting]
    assert resumed.trainer.steps_done == len(resumed.curve) == expected


def test_an_interrupted_evaluation_is_repeated(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    monkeypatch.setattr(run, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt, match="resume with --resume"):
        run.train([0.005], quiet=True)
    resumed = Run(tmp_path, corpus, RECIPE, resume=True)
    steps = resumed.trainer.steps_done
    assert [row["minutes"] for row in resumed.train([0.005], quiet=True)] == [0.005]
    assert resumed.trainer.steps_done == steps
    assert (tmp_path / "samples.tsv").exists()
    assert len(resumed.train([0.005], quiet=True)) == 1


@pytest.mark.parametrize("budget", [{"minutes": []}, {"minutes": [1.0], "steps": [2]}])
def test_an_invalid_budget_is_refused_before_the_training(
    tmp_path: Path, corpus: Corpus, budget: dict
) -> None:
    with pytest.raises(TfmrError, match="either minutes or steps"):
        Run(tmp_path / "run", corpus, RECIPE).train(**budget, quiet=True)
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_created_is_reported_before_the_training(
    tmp_path: Path, corpus: Corpus
) -> None:
    (tmp_path / "file").write_text("")
    run = Run(tmp_path / "file" / "run", corpus, RECIPE)
    with pytest.raises(TfmrError, match=r"cannot write to .*choose another folder") as error:
        run.train([0.01], quiet=True)
    assert "\n" not in str(error.value)
    assert run.trainer.steps_done == 0


def test_a_failed_save_leaves_the_previous_files(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path, corpus)
    before = contents(tmp_path)
    write_text = Path.write_text

    def write_half(path: Path, text: str, **options: str) -> None:
        write_text(path, text[: len(text) // 2], **options)
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(TfmrError, match=r"cannot save in .*disk full.*step 4 .*resume with"):
        run.save()
    assert contents(tmp_path) == before


def test_a_streamed_corpus_gives_the_same_run(
    tmp_path: Path, corpus: Corpus, streamed_corpus: Corpus
) -> None:
    Run(tmp_path / "listed", corpus, RECIPE).train(quiet=True)
    run = Run(tmp_path / "streamed", streamed_corpus, RECIPE)
    tokens = tmp_path / "streamed" / "tokens"
    written = tokens.stat().st_mtime_ns
    assert (tmp_path / "streamed" / "recipe.toml").exists()
    run.train(steps=[5], quiet=True)
    Run(tmp_path / "streamed", streamed_corpus, RECIPE, resume=True).train(quiet=True)
    assert tokens.stat().st_mtime_ns == written, "tokenised once"
    losses = [
        [record.loss for record in read_curve(tmp_path / name / "curve.csv")]
        for name in ("listed", "streamed")
    ]
    assert losses[0] == losses[1]
    assert not (tmp_path / "listed" / "tokens").exists()
    recipe = (tmp_path / "streamed" / "recipe.toml").read_text("utf-8")
    other = RECIPE.with_overrides({"train.peak_lr": 0.5})
    with pytest.raises(TfmrError, match="resume with the same setting"):
        Run(tmp_path / "streamed", streamed_corpus, other, resume=True)
    assert (tmp_path / "streamed" / "recipe.toml").read_text("utf-8") == recipe


@pytest.fixture
def streamed_corpus(corpus: Corpus) -> Corpus:
    """The corpus with its training set read again for every iteration."""
    pairs = list(corpus.train)
    return dataclasses.replace(corpus, train=StreamedPairs(lambda: iter(pairs), len(pairs)))


def test_validation_gives_the_scores_of_the_evaluation(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, WITHOUT_EMA.with_overrides({"evaluation.eval_every": 10}))
    [row] = run.train(quiet=True)
    assert [result.step for result in run.validations] == [10, 20]
    best = run.validations[best_validation(run.validations) or 0]
    assert (row["step"], row["model_step"]) == (20, best.step)
    assert (row["valid_bleu"], row["valid_loss"]) == (best.bleu, round(best.loss, 4))
    model, tokenizer = load_translator(tmp_path)
    batches = run.recipe.make_batches(corpus.valid, tokenizer)
    assert mean_loss(model, batches) == pytest.approx(best.loss, rel=1e-6)


def test_the_best_model_is_used_and_the_last_one_resumed(
    tmp_path: Path, corpus: Corpus, losses: list[float]
) -> None:
    losses += [5.0, 3.0, 4.0, *[6.0] * 7]
    run = Run(tmp_path, corpus, VALIDATING)
    [row] = run.train(quiet=True)
    assert row["model_step"] == 4
    assert checkpoint.load(tmp_path / "best.safetensors").metadata["step"] == 4
    at_step_4 = start(tmp_path / "other", corpus, 4, WITHOUT_EMA)
    assert_same_weights(at_step_4.trainer.model, load_translator(tmp_path)[0])
    last = checkpoint.load(tmp_path / "model.safetensors").model()
    assert_same_weights(run.trainer.model, last)
    rows = list(csv.DictReader((tmp_path / "valid.csv").read_text("utf-8").splitlines()))
    assert [(row["step"], row["best"]) for row in rows[:4]] == [
        *(("2", "1"), ("4", "1"), ("6", "0"), ("8", "0"))
    ]
    assert "best.safetensors" in (tmp_path / "README.md").read_text("utf-8")


def test_patience_ends_the_training(tmp_path: Path, corpus: Corpus, losses: list[float]) -> None:
    losses += [5.0, 4.0, 4.5, 4.1, 4.2, 1.0]
    recipe = VALIDATING.with_overrides({"evaluation.patience": 3})
    run = Run(tmp_path, corpus, recipe)
    rows = run.train(quiet=True)
    assert run.trainer.steps_done == 10, "three validations after step 4"
    assert [(row["step"], row["model_step"]) for row in rows] == [(10, 4)]
    resumed = Run(tmp_path, corpus, recipe, resume=True)
    assert resumed.train(quiet=True) == rows
    assert resumed.trainer.steps_done == 10
    recipe = recipe.with_overrides({"evaluation.patience": 9})
    losses += [6.0] * 9
    resumed = Run(tmp_path, corpus, recipe, resume=True)
    assert resumed.train(quiet=True)[-1]["step"] == 20, "with more patience"
    assert resumed.scores[-1]["model_step"] == 12


def test_validations_are_resumed(tmp_path: Path, corpus: Corpus, losses: list[float]) -> None:
    losses += [5.0, 4.0, 4.5, 4.1, 4.2, 1.0, *[7.0] * 4]
    run = Run(tmp_path, corpus, VALIDATING.with_overrides({"budget.steps": (5,)}))
    run.train(quiet=True)
    resumed = Run(tmp_path, corpus, VALIDATING, resume=True)
    assert resumed.validations == run.validations
    resumed.train(quiet=True)
    assert [result.step for result in resumed.validations] == list(range(2, 21, 2))
    assert resumed.scores[-1]["model_step"] == 12
    with pytest.raises(TfmrError, match=r"evaluation\.eval_every 2.*0"):
        Run(tmp_path, corpus, WITHOUT_EMA, resume=True)


def test_an_interrupted_validation_is_repeated(
    tmp_path: Path, corpus: Corpus, losses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses += [3.0, 2.0, 4.0]
    recipe = VALIDATING.with_overrides({"budget.steps": [6]})
    run = Run(tmp_path, corpus, recipe)
    validate = run.validate
    monkeypatch.setattr(
        run, "validate", lambda: interrupt() if run.trainer.steps_done == 4 else validate()
    )
    with pytest.raises(KeyboardInterrupt, match="step 4 "):
        run.train(quiet=True)
    assert [result.step for result in run.validations] == [2]
    resumed = Run(tmp_path, corpus, recipe, resume=True)
    resumed.train(quiet=True)
    assert [result.step for result in resumed.validations] == [2, 4, 6]
    assert resumed.best_model()[1] == 4


def test_the_test_set_is_not_used_for_validation(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = []
    translate = Evaluator._translate

    def recording(evaluator: Evaluator, model: Translator, split: str, beam: int = 1) -> list[str]:
        splits.append(split)
        return translate(evaluator, model, split, beam)

    monkeypatch.setattr(Evaluator, "_translate", recording)
    recipe = WITHOUT_EMA.with_overrides({"evaluation.eval_every": 5, "budget.steps": (10, 20)})
    Run(tmp_path, corpus, recipe).train(quiet=True)
    assert splits == [*["valid"] * 3, "test", *["valid"] * 3, "test"]


def test_the_last_checkpoints_are_averaged(tmp_path: Path, corpus: Corpus) -> None:
    Run(tmp_path, corpus, AVERAGING).train(quiet=True)
    assert names(tmp_path / "checkpoints") == [f"{step:08d}.safetensors" for step in (4, 6, 8)]
    weights = []
    straight = Run(tmp_path / "other", corpus, WITHOUT_EMA)
    for step in (4, 6, 8):
        straight.trainer.run(steps=step)
        weights.append({n: w.clone() for n, w in named_weights(straight.trainer.model).items()})
    for name, weight in named_weights(load_translator(tmp_path)[0]).items():
        mean = torch.stack([each[name] for each in weights]).double().mean(dim=0)
        assert torch.equal(weight, mean.float())


def test_checkpoints_of_later_steps_are_not_averaged(tmp_path: Path, corpus: Corpus) -> None:
    run = start(tmp_path, corpus, 4, AVERAGING)
    run.trainer.run(steps=6)
    run._add_to_average()
    resumed = Run(tmp_path, corpus, AVERAGING, resume=True)
    assert resumed.averager.paths(resumed.trainer.steps_done) == []
    resumed.train(quiet=True)
    straight = Run(tmp_path / "straight", corpus, AVERAGING)
    straight.train(quiet=True)
    models = (load_translator(run.folder)[0] for run in (resumed, straight))
    assert_same_weights(*models)
