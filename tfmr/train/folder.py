"""The folder of a run: what is in it, and what must not be written over."""

from pathlib import Path

from tfmr.errors import require

FILES = {
    "README.md": "this page",
    "model.safetensors": "the model, its vocabulary, and all that is needed to go on",
    "best.safetensors": "the model that did best on the validation part: the one that translates",
    "recipe.toml": "the settings, written out in full",
    "curve.csv": "a row for each training step",
    "curve.png": "the same as a picture",
    "valid.csv": "a row for each look at the validation part",
    "scores.json": "the scores with all that belongs to them, for programs",
    "samples.tsv": "translations of the test part at even distances, each with its chrF",
    "tokens": "the training part as ids",
}
"""What each file is. Beside them there may be the folders ``kept``, the checkpoints of the mean,
and ``tensorboard``."""


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to begin a run where something is that it would write over.

    For a run that goes on, remove the unfinished files that a killed process has left.

    Raises:
        TfmrError: if the folder holds a run, or a file that is called like one of a run's.
    """
    if resume:
        for name in FILES:
            for beside in folder.glob(f".{name}.[0-9]*"):
                if beside.is_file():  # the folder of an unfinished token file is its writer's
                    beside.unlink()
        return
    begun = any((folder / name).exists() for name in ("model.safetensors", "recipe.toml"))
    require(
        not begun,
        f"{folder} holds a run already: go on with it by --resume, or name another folder by --out",
    )
    for name in FILES:
        require(
            not (folder / name).exists(),
            f"{folder / name} belongs to no run and would be overwritten: name another folder by "
            "--out",
        )
