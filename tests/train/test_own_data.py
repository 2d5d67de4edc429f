"""What a run does with a user's own data: the sets that it keeps, and what it reports."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from tests.train.test_run import FILES, RECIPE, names
from tfmr import checkpoint
from tfmr.checkpoint import named_weights
from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.data.own_files import load_files
from tfmr.errors import TfmrError
from tfmr.train.fine_tuning import Base
from tfmr.train.metadata import corpus_fingerprint
from tfmr.train.run import Run


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=400, valid=4, test=5)


def test_test_pairs_that_are_too_long_are_left_out_and_reported(
    tmp_path: Path, corpus: Corpus
) -> None:
    source, target = corpus.test[0]
    longer = dataclasses.replace(corpus, test=[(source, target), (source, f"{target} " * 60)])
    run = Run(tmp_path, longer, RECIPE)
    [warning] = run.warnings
    assert all(part in warning for part in ("test: 1 not used", "16 tokens (model.max_length)"))
    assert "pair 2 of the test set" in warning
    run.train(steps=[1], quiet=True)
    assert run.metadata()["sentence_pairs"]["test"] == 1
    resumed = Run(tmp_path, longer, RECIPE, resume=True)
    assert resumed.corpus_fingerprint == corpus_fingerprint(longer)
    with pytest.raises(TfmrError, match="test pair of at most 16 tokens"):
        Run(tmp_path / "b", dataclasses.replace(longer, test=longer.test[1:]), RECIPE)
    assert names(tmp_path) == FILES


def test_the_report_is_kept_and_is_in_the_readme(tmp_path: Path) -> None:
    pairs = pocket.generate("en-fr", 80, 0)
    rows = [*pairs, ("", "*x*"), ("sans traduction", "sans traduction")]
    path = tmp_path / "my_corpus.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    corpus = load_files([path], "en", "fr")
    folder = tmp_path / "run"
    run = Run(folder, corpus, RECIPE)
    [text] = run.warnings
    assert f"train: 1 not used, empty: a sentence is missing ({path}:81)" in text
    run.train(steps=[1], quiet=True)
    report = json.loads((folder / "data.json").read_text("utf-8"))
    assert report["read"] == {"train": 82}
    assert sum(report["used"].values()) == 81 - len(
        [f for f in report["findings"] if f["kind"] in ("too long", "unknown word")]
    )
    readme = (folder / "README.md").read_text("utf-8")
    section = readme[readme.index("## Data") : readme.index("## Use")]
    assert "| train | 82 | " in section
    assert "my\\_corpus.tsv:81" in section
    assert "- `test-set.tsv`: " in readme
    assert not [name for name in names(folder) if name.startswith(".")]


def test_fine_tuning_starts_from_the_weights_with_a_new_optimiser(
    tmp_path: Path, corpus: Corpus
) -> None:
    first = Run(tmp_path / "a", corpus, RECIPE)
    first.train(steps=[6], quiet=True)
    other = pocket.split("en-fr", train=100, valid=3, test=3)
    base = Base.load(tmp_path / "a")
    recipe = base.adapt(RECIPE.with_overrides({"train.seed": 5}))
    run = Run(tmp_path / "b", other, recipe, base=base)
    assert run.tokenizer.to_json() == first.tokenizer.to_json()
    saved = checkpoint.load(tmp_path / "a" / "model.safetensors")
    for name, weight in named_weights(run.trainer.model).items():
        assert torch.equal(weight, saved.weights[name])
    assert run.trainer.steps_done == 0
    assert not run.trainer.optimizer.state_dict()["state"]
    run.train(steps=[1], quiet=True)
    assert run.curve[0].learning_rate == first.curve[0].learning_rate
    metadata = checkpoint.load(tmp_path / "b" / "model.safetensors").metadata
    assert metadata["base"] == base.describe()
    assert metadata["base"]["model"] == str(tmp_path / "a")
    readme = (tmp_path / "b" / "README.md").read_text("utf-8")
    assert "The run started from the weights of " in readme
    assert base.describe()["weights_fingerprint"] in readme
    assert "started anew" in readme
    assert "started from" not in (tmp_path / "a" / "README.md").read_text("utf-8")


def test_a_fine_tuned_run_is_resumed_without_the_model_it_started_from(
    tmp_path: Path, corpus: Corpus
) -> None:
    Run(tmp_path / "a", corpus, RECIPE).train(steps=[2], quiet=True)
    base = Base.load(tmp_path / "a")
    recipe = base.adapt(RECIPE)
    Run(tmp_path / "whole", corpus, recipe, base=base).train(steps=[4], quiet=True)
    Run(tmp_path / "b", corpus, recipe, base=base).train(steps=[2], quiet=True)
    resumed = Run(tmp_path / "b", corpus, recipe, resume=True)
    assert resumed.base == base.describe()
    resumed.train(steps=[4], quiet=True)
    a, b = (checkpoint.load(tmp_path / name / "model.safetensors") for name in ("whole", "b"))
    for name, weight in a.weights.items():
        assert torch.equal(weight, b.weights[name])
    Run(tmp_path / "b", corpus, recipe, base=base, resume=True)
    with pytest.raises(TfmrError, match="was trained with --from"):
        Run(tmp_path / "b", corpus, recipe, base=Base.load(tmp_path / "b"), resume=True)
    with pytest.raises(TfmrError, match="was trained with"):
        Run(tmp_path / "a", corpus, recipe, base=base, resume=True)


def test_targets_in_another_form_than_the_model_generates_are_refused(
    tmp_path: Path, corpus: Corpus
) -> None:
    Run(tmp_path / "a", corpus, RECIPE).train(steps=[1], quiet=True)
    base = Base.load(tmp_path / "a")
    other = dataclasses.replace(corpus, test=[(corpus.test[0][0], "L'ours dort.")], form="plain")
    with pytest.raises(TfmrError, match=r"is not in this form: .*L'ours dort"):
        Run(tmp_path / "b", other, base.adapt(RECIPE), base=base)
