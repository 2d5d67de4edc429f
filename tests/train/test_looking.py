"""A run that looks at its validation part: the best model is kept, and patience ends."""

import csv
import json
from pathlib import Path

import pytest
import torch
from tfmr.train.average import Kept, average_checkpoints
from tfmr.train.evaluate import mean_loss
from tfmr.train.exam import Exam
from tfmr.train.records import Look, best_look, looks_text

from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.train import average, checkpoint
from tfmr.train.checkpoint import load_translator, named_weights
from tfmr.train.recipes import Recipe
from tfmr.train.run import Run
from tfmr.translator import Translator

RECIPE = Recipe.from_tables(
    {
        "vocabulary": {"kind": "words"},
        "model": {
            **{"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1},
            **{"dropout": 0.15, "norm": "pre", "max_length": 16},
        },
        "batches": {"tokens_per_batch": 200},
        "train": {"warmup": 10, "ema_decay": 0.0},
        "score": {"beam": 1},
        "budget": {"steps": [20]},
    }
)
LOOKING = RECIPE.having({"evaluation.eval_every": 2, "evaluation.metric": "loss"})
KEEPING = RECIPE.having({"checkpoints.average": 3, "checkpoints.average_every": 2})


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=400, valid=4, test=5)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the looks are to find, one after the other."""
    found: list[float] = []

    def look(exam: Exam, model: Translator, step: int, seconds: float) -> Look:
        return Look(step, seconds, found[step // 2 - 1], None)

    monkeypatch.setattr(Exam, "look", look)
    return found


def test_the_best_of_looks() -> None:
    by_loss = [Look(1, 1.0, 3.0, None), Look(2, 2.0, 2.0, None), Look(3, 3.0, 2.0, None)]
    assert best_look([]) is None
    assert best_look(by_loss) == 1, "the first of equals"
    by_bleu = [Look(1, 1.0, 3.0, 20.0), Look(2, 2.0, 2.0, 19.0), Look(3, 3.0, 9.0, 20.5)]
    assert best_look(by_bleu) == 2, "the loss does not matter"
    assert best_look([*by_bleu, Look(4, 4.0, 8.9, 20.5)]) == 3, "unless BLEU is the same"
    rows = list(csv.DictReader(looks_text(by_bleu).splitlines()))
    assert [row["best"] for row in rows] == ["1", "0", "1"]
    assert [float(row["bleu"]) for row in rows] == [20.0, 19.0, 20.5]
    assert looks_text(by_loss).splitlines()[1] == "1,1,3.000000,,1"


def test_a_look_says_what_the_scores_say(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, RECIPE.having({"evaluation.eval_every": 10}))
    run.train(quiet=True)
    assert [look.step for look in run.looks] == [10, 20]
    [row] = run.scores
    best = run.looks[best_look(run.looks) or 0]
    assert (row["step"], row["model_step"]) == (20, best.step)
    assert (row["valid_bleu"], row["valid_loss"]) == (best.bleu, round(best.loss, 4))
    model, tokenizer = load_translator(tmp_path)
    valid = run.recipe.fill(corpus.valid, tokenizer)
    assert mean_loss(model, valid) == pytest.approx(best.loss, rel=1e-6)


def test_the_best_model_is_delivered_and_the_last_goes_on(
    tmp_path: Path, corpus: Corpus, losses: list[float]
) -> None:
    losses += [5.0, 3.0, 4.0, *[6.0] * 7]
    run = Run(tmp_path, corpus, LOOKING)
    run.train(quiet=True)
    straight = Run(tmp_path / "other", corpus, RECIPE)
    straight.trainer.run(steps=4)
    wanted = named_weights(straight.trainer.model)
    delivered = named_weights(load_translator(tmp_path)[0])
    assert all(torch.equal(wanted[name], delivered[name]) for name in wanted)
    assert checkpoint.load(tmp_path / "best.safetensors").facts["step"] == 4
    last = named_weights(checkpoint.load(tmp_path / "model.safetensors").model())
    now = named_weights(run.trainer.model)
    assert all(torch.equal(now[name], last[name]) for name in now)
    assert run.scores[0]["model_step"] == 4
    rows = list(csv.DictReader((tmp_path / "valid.csv").read_text("utf-8").splitlines()))
    assert [(row["step"], row["best"]) for row in rows[:4]] == [
        *(("2", "1"), ("4", "1"), ("6", "0"), ("8", "0"))
    ]
    assert "best.safetensors" in (tmp_path / "README.md").read_text("utf-8")


def test_patience_ends_the_training_and_the_run_is_scored_once(
    tmp_path: Path, corpus: Corpus, losses: list[float]
) -> None:
    losses += [5.0, 4.0, 4.5, 4.1, 4.2, 1.0]
    recipe = LOOKING.having({"evaluation.patience": 3})
    run = Run(tmp_path, corpus, recipe)
    rows = run.train(quiet=True)
    assert run.trainer.steps_done == 10, "the last of three looks after step 4"
    assert [(row["step"], row["model_step"]) for row in rows] == [(10, 4)]
    again = Run(tmp_path, corpus, recipe, resume=True)
    assert again.train(quiet=True) == rows
    assert again.trainer.steps_done == 10
    patient = Run(tmp_path, corpus, recipe.having({"evaluation.patience": 9}), resume=True)
    losses += [6.0] * 9
    assert patient.train(quiet=True)[-1]["step"] == 20, "patience may grow"
    assert patient.scores[-1]["model_step"] == 12


def test_the_looks_are_taken_up_again(tmp_path: Path, corpus: Corpus, losses: list[float]) -> None:
    losses += [5.0, 4.0, 4.5, 4.1, 4.2, 1.0, *[7.0] * 4]
    run = Run(tmp_path, corpus, LOOKING.having({"budget.steps": (5,)}))
    run.train(quiet=True)
    resumed = Run(tmp_path, corpus, LOOKING, resume=True)
    assert resumed.looks == run.looks
    resumed.train(quiet=True)
    assert [look.step for look in resumed.looks] == list(range(2, 21, 2))
    assert resumed.scores[-1]["model_step"] == 12
    with pytest.raises(TfmrError, match=r"with score\.every 2, now asked for 0"):
        Run(tmp_path, corpus, RECIPE, resume=True)


def test_the_test_part_chooses_nothing(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is translated at the marks that were asked for, and at no look."""
    parts = []
    plain = Exam._translate

    def noted(exam: Exam, model: Translator, part: str, beam: int = 1) -> list[str]:
        parts.append(part)
        return plain(exam, model, part, beam)

    monkeypatch.setattr(Exam, "_translate", noted)
    recipe = RECIPE.having({"evaluation.eval_every": 5, "budget.steps": (10, 20)})
    Run(tmp_path, corpus, recipe).train(quiet=True)
    assert parts == [*["valid"] * 3, "test", *["valid"] * 3, "test"]


def test_the_mean_of_the_last_checkpoints(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, KEEPING.having({"budget.steps": (9,)}))
    run.train(quiet=True)
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == [f"{step:08d}.safetensors" for step in (4, 6, 8)]
    wanted = []
    straight = Run(tmp_path / "other", corpus, RECIPE)
    for step in (4, 6, 8):
        straight.trainer.run(steps=step)
        wanted.append({n: w.clone() for n, w in named_weights(straight.trainer.model).items()})
    delivered = named_weights(load_translator(tmp_path)[0])
    for name, weight in delivered.items():
        mean = torch.stack([weights[name] for weights in wanted]).double().mean(dim=0)
        assert torch.equal(weight, mean.float())
    assert any(not torch.equal(wanted[-1][name], delivered[name]) for name in delivered)


def test_a_run_that_goes_on_leaves_its_lost_future_out_of_the_mean(
    tmp_path: Path, corpus: Corpus
) -> None:
    run = Run(tmp_path, corpus, KEEPING)
    run.trainer.run(steps=4, on_step=run.curve.append)
    run.save()
    run.trainer.run(steps=6)
    run._keep()
    resumed = Run(tmp_path, corpus, KEEPING, resume=True)
    assert resumed.kept.paths(resumed.trainer.steps_done) == []
    resumed.train(quiet=True)
    straight = Run(tmp_path / "straight", corpus, KEEPING)
    straight.train(quiet=True)
    ours, theirs = (named_weights(load_translator(r.folder)[0]) for r in (resumed, straight))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_kept_are_read_once_for_each_one_added(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    saved = run._to_translate(run.trainer.averaged())
    kept = Kept(tmp_path / "kept", 2)
    assert kept.mean(9) == {}
    read = []

    def counted(paths: list[Path]) -> checkpoint.Checkpoint:
        read.append([int(path.stem) for path in paths])
        return average_checkpoints(paths)

    monkeypatch.setattr(average, "average_checkpoints", counted)
    for step in (1, 2, 3):
        kept.add(step, saved)
        kept.mean(step)
        kept.mean(step)
    assert read == [[1], [1, 2], [2, 3]]
    assert [int(path.stem) for path in kept.paths(2)] == [2]


def test_only_checkpoints_of_one_run_have_a_mean(tmp_path: Path, corpus: Corpus) -> None:
    paths = []
    for width in (16, 32):
        run = Run(tmp_path / str(width), corpus, RECIPE.having({"model.d_ff": width}))
        paths.append(tmp_path / f"{width}.safetensors")
        checkpoint.save(paths[-1], run._to_translate(run.trainer.averaged()))
    with pytest.raises(TfmrError, match="holds another model or vocabulary than"):
        average_checkpoints(paths)
    with pytest.raises(TfmrError, match="one checkpoint at least: got none"):
        average_checkpoints([])


def test_steps_stop_exactly_and_each_is_scored_once(tmp_path: Path, corpus: Corpus) -> None:
    run = Run(tmp_path, corpus, RECIPE)
    rows = run.train(steps=[7, 3], quiet=True)
    assert [row["step"] for row in rows] == [3, 7]
    assert run.trainer.steps_done == len(run.curve) == 7
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == rows
    again = Run(tmp_path, corpus, RECIPE, resume=True)
    assert again.train(steps=[7, 3], quiet=True) == rows
    assert again.trainer.steps_done == 7
    assert [row["step"] for row in again.train(steps=[5, 8], quiet=True)] == [3, 7, 8]


def test_what_a_stop_came_before_is_done_when_it_goes_on(
    tmp_path: Path, corpus: Corpus, losses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses += [3.0, 2.0, 4.0]
    recipe = LOOKING.having({"budget.steps": [6]})
    run = Run(tmp_path, corpus, recipe)
    plain = run.look

    def stop() -> Look:
        if run.trainer.steps_done == 4:
            raise KeyboardInterrupt
        return plain()

    monkeypatch.setattr(run, "look", stop)
    with pytest.raises(TfmrError, match="stopped at step 4"):
        run.train(quiet=True)
    assert [look.step for look in run.looks] == [2]
    resumed = Run(tmp_path, corpus, recipe, resume=True)
    resumed.train(quiet=True)
    assert [look.step for look in resumed.looks] == [2, 4, 6]
    assert resumed.best()[1] == 4
