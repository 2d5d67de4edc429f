"""``export``: a small checkpoint for inference only."""

from pathlib import Path

import torch

from tfmr import checkpoint


def test_the_exported_file_is_small_and_translates(command, model: Path) -> None:
    whole = checkpoint.load(model / "model.safetensors")
    _, err = command("export", "--model", model, "--out", "small.safetensors")
    assert err.startswith("wrote small.safetensors: ")
    assert "for inference only" in err
    exported = checkpoint.load("small.safetensors", with_state=True)
    assert exported.state == {}
    assert exported.config == whole.config
    assert {weight.dtype for weight in exported.weights.values()} == {torch.float16}
    size = (model / "model.safetensors").stat().st_size
    assert Path("small.safetensors").stat().st_size < 0.75 * size
    out, _ = command("translate", "--model", "small.safetensors", "the owl .")
    assert len(out.splitlines()) == 1


def test_a_file_that_exists_or_cannot_be_written_is_refused(rejected, model: Path) -> None:
    Path("file").write_text("")
    assert "file already exists: choose another file" in rejected(
        "export", "--model", model, "--out", "file"
    )
    assert "no checkpoint at" in rejected("export", "--model", "none", "--out", "c")
    assert "cannot write file/c" in rejected("export", "--model", model, "--out", "file/c")
