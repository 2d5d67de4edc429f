"""What a run does with a user's own data: the sets that it keeps, and what it reports."""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.train.test_run import FILES, RECIPE, names
from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.data.own_files import load_files
from tfmr.errors import TfmrError
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
