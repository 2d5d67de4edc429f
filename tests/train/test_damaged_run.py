"""A run whose files are damaged is not resumed, and the message names the file."""

import dataclasses
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.train.test_run import VALIDATING, contents
from tfmr import checkpoint, registry
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.train.metadata import RunState, differences, resume_key
from tfmr.train.report import readme_text
from tfmr.train.run import Run
from tfmr.train.trainer import Progress


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> Path:
    """A run directory with a validation, an evaluation and a checkpoint."""
    run = Run(tmp_path_factory.mktemp("runs") / "run", corpus, VALIDATING)
    run.train(steps=[2], quiet=True)
    return run.folder


def damaged(value: object) -> Iterator[object]:
    """Values of another type or with a part missing, changed or added."""
    wrong: list[object] = [None, -1, 1.5, "x", True, [], {}, ["x"], {"x": "x"}, math.nan]
    yield from (other for other in wrong if type(other) is not type(value))
    if isinstance(value, dict):
        for name in value:
            yield {key: item for key, item in value.items() if key != name}
            yield from ({**value, name: item} for item in damaged(value[name]))
    if isinstance(value, list) and value:
        yield from ([item, *value[1:]] for item in damaged(value[0]))


def test_damaged_metadata_is_an_error_of_one_line(complete: Path) -> None:
    metadata = checkpoint.load(complete / "model.safetensors").metadata
    assert all(metadata[name] for name in ("scores", "validations", "samples"))
    RunState.from_metadata(metadata, "it")
    messages = []
    for changed in filter(lambda value: isinstance(value, dict), damaged(metadata)):
        try:
            state = RunState.from_metadata(changed, "it")
            registry.structure(Progress, state.trainer, "it")
            resume_key(vars(state))
            readme_text("x", metadata, state.scores, state.samples, "")
            differences(vars(state), {"versions": {"x": 1}, "hardware": {"x": 1}})
        except TfmrError as error:
            messages.append(str(error))
    assert not [text for text in messages if not text.startswith("it") or "\n" in text]
    assert len(messages) > 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainer": {"step": 2}}, "epoch"),
        ({"trainer": None}, "trainer"),
        ({"recipe": []}, "recipe"),
        ({"scores": [{"step": 1}]}, "minutes"),
        ({"validations": [{"step": 1}]}, "validations"),
        ({"processes": "2"}, "processes"),
        ({"versions": 1}, "versions"),
    ],
)
def test_a_run_with_damaged_metadata_is_not_resumed(
    tmp_path: Path, complete: Path, corpus: Corpus, changes: dict, message: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(complete, folder)
    path = folder / "model.safetensors"
    saved = checkpoint.load(path, with_state=True)
    checkpoint.save(path, dataclasses.replace(saved, metadata=saved.metadata | changes))
    before = contents(folder)
    with pytest.raises(TfmrError, match=message) as error:
        Run(folder, corpus, VALIDATING, resume=True)
    assert "\n" not in str(error.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "text", ["", "step\n", "step,loss\n1,2\n", "\0\n", "\xff", "{header}\n{row}\n", "{header}\n"]
)
def test_a_run_with_a_damaged_curve_is_not_resumed(
    tmp_path: Path, complete: Path, corpus: Corpus, text: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(complete, folder)
    path = folder / "curve.csv"
    header, row, _ = path.read_text("utf-8").splitlines()
    path.write_bytes(text.format(header=header, row=row).encode("latin-1"))
    with pytest.raises(TfmrError, match=r"curve\.csv"):
        Run(folder, corpus, VALIDATING, resume=True)


@pytest.mark.parametrize("name", ["best.safetensors", "checkpoints/00000004.safetensors"])
def test_a_damaged_model_is_reported_before_the_training_goes_on(
    tmp_path: Path, corpus: Corpus, losses: list[float], name: str
) -> None:
    losses += [5.0, 3.0]
    averaging = {"checkpoints.average": 2, "checkpoints.average_every": 2}
    recipe = VALIDATING.with_overrides(averaging)
    Run(tmp_path, corpus, recipe).train(steps=[4], quiet=True)
    Run(tmp_path, corpus, recipe, resume=True)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TfmrError, match=path.name):
        Run(tmp_path, corpus, recipe, resume=True)


def test_a_resume_without_the_checkpoint_overwrites_nothing(
    tmp_path: Path, complete: Path, corpus: Corpus
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(complete, folder)
    (folder / "model.safetensors").unlink()
    before = contents(folder)
    with pytest.raises(TfmrError, match=r"run .*without .*model\.safetensors.*--out"):
        Run(folder, corpus, VALIDATING, resume=True)
    (folder / "recipe.toml").unlink()
    with pytest.raises(TfmrError, match=r"model\.safetensors.*--out"):
        Run(folder, corpus, VALIDATING, resume=True)
    assert contents(folder).items() <= before.items()
