"""``export``: a small checkpoint for inference only, and a page that translates."""

import dataclasses
import json
import re
from pathlib import Path

import torch

from tfmr import checkpoint
from tfmr.records import record_path
from tfmr.widgets.page_model import read_page_model, rounded


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


def test_a_page_has_the_model_and_examples_of_its_run(command, model: Path) -> None:
    """tests/pages/test_exported_page.py opens it in a browser."""
    _, err = command("export", "--model", "multi30k-de-en", "--page", "--out", "a.html")
    assert re.fullmatch(r"wrote a.html: 3.1 MB, open it in a browser\n", err)
    page = Path("a.html").read_text("utf-8")
    samples = (record_path("multi30k-de-en") / "samples.tsv").read_text("utf-8").splitlines()
    state = json.loads(between(page, 'id="state">', "</script>"))
    assert state["models"][0]["examples"] == [row.split("\t")[0] for row in samples[1:5]]
    assert "29,000 sentence pairs" in state["models"][0]["about"]
    read = read_page_model(between(page, 'id="model">', "</script>"))
    whole = checkpoint.load(record_path("multi30k-de-en") / "model.safetensors")
    assert read.tokenizer.to_json() == whole.tokenizer.to_json()
    for name, weight in rounded(whole).weights.items():
        assert torch.equal(read.weights[name], weight)

    command("export", "--model", model / "model.safetensors", "--page", "--out", "b.html")
    state = json.loads(between(Path("b.html").read_text("utf-8"), 'id="state">', "</script>"))
    assert (state["text"], state["models"][0]["examples"]) == ("", [])


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def test_a_page_that_cannot_compute_the_model_or_cannot_be_opened_is_refused(
    rejected, model: Path
) -> None:
    assert "--out with the ending .html" in rejected(
        "export", "--model", model, "--page", "--out", "page"
    )
    saved = checkpoint.load(model / "model.safetensors")
    config = dataclasses.replace(saved.config, activation="gelu")
    checkpoint.save("gelu", dataclasses.replace(saved, config=config))
    assert "the page computes Transformers with" in rejected(
        "export", "--model", "gelu", "--page", "--out", "page.html"
    )
    assert not Path("page.html").exists()


def test_a_file_that_exists_or_cannot_be_written_is_refused(rejected, model: Path) -> None:
    Path("file").write_text("")
    assert "file already exists: choose another file" in rejected(
        "export", "--model", model, "--out", "file"
    )
    assert "no checkpoint at" in rejected("export", "--model", "none", "--out", "c")
    assert "cannot write file/c" in rejected("export", "--model", model, "--out", "file/c")
