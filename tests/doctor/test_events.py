"""Curves in TensorBoard's event files. PyTorch and TensorBoard 2.21 wrote ``curve.tfevents``."""

import shutil
from pathlib import Path

import pytest

from tfmr.doctor import diagnose, read_tensorboard
from tfmr.doctor.events import read_events
from tfmr.errors import TfmrError

WRITTEN = Path(__file__).parent / "curve.tfevents"


def test_the_scalars_of_a_file_that_tensorboard_wrote() -> None:
    scalars = read_events(WRITTEN)
    assert sorted(scalars) == ["eval/loss", "train/learning_rate", "train/loss"]
    assert scalars["train/loss"] == {
        100 * k: pytest.approx(6 - 0.4 * k, abs=1e-6) for k in range(1, 11)
    }
    assert scalars["eval/loss"] == {500: 4.25, 1000: 2.5}


def test_a_curve_has_the_losses_and_the_learning_rates() -> None:
    curve = read_tensorboard(WRITTEN)
    assert list(curve.step) == list(range(100, 1001, 100))
    assert curve.valid_loss == [(500, 4.25), (1000, 2.5)]
    assert curve.learning_rate == pytest.approx([min(k, 4) / 4e3 for k in range(1, 11)])
    assert diagnose(curve)["no warm-up"].verdict == "ok"


def test_a_folder_joins_the_files_of_a_resumed_run(tmp_path: Path) -> None:
    shutil.copy(WRITTEN, tmp_path / "events.out.tfevents.2.host")
    data = WRITTEN.read_bytes()
    first = data.replace(b"train/loss", b"other/loss")
    (tmp_path / "events.out.tfevents.1.host").write_bytes(first)
    assert sorted(read_events(tmp_path)) == [
        *("eval/loss", "other/loss", "train/learning_rate", "train/loss")
    ]


def test_a_file_that_is_still_written_ends_before_its_last_record(tmp_path: Path) -> None:
    path = tmp_path / "tfevents"
    path.write_bytes(WRITTEN.read_bytes()[:-3])
    whole, cut = read_events(WRITTEN), read_events(path)
    assert sum(map(len, whole.values())) - sum(map(len, cut.values())) in (0, 1)
    for length in range(96, WRITTEN.stat().st_size, 7):
        path.write_bytes(WRITTEN.read_bytes()[:length])
        assert read_events(path).keys() <= whole.keys()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"step,loss\n" * 9, ["does not begin like one"]),
        (b"", ["does not begin like one"]),
        (
            WRITTEN.read_bytes().replace(b"\n\ntrain/loss", b"\n\xfftrain/loss"),
            ["cannot read"],
        ),
    ],
)
def test_a_file_without_events(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(content)
    with pytest.raises(TfmrError) as error:
        read_events(path)
    assert all(word in str(error.value) for word in [*words, path.name])


def test_events_without_a_training_loss(tmp_path: Path) -> None:
    path = tmp_path / "tfevents"
    path.write_bytes(WRITTEN.read_bytes().replace(b"train/loss", b"other/loss"))
    with pytest.raises(TfmrError, match=r"train/loss.*other/loss"):
        read_tensorboard(path)
    with pytest.raises(TfmrError, match="found none"):
        read_tensorboard(tmp_path.parent)
