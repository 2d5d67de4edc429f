"""An untrained model, and fixtures that run commands."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tfmr import checkpoint
from tfmr.__main__ import main
from tfmr.checkpoint import Checkpoint, named_weights
from tfmr.config import TransformerConfig
from tfmr.data import pocket
from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer
from tfmr.special_tokens import EOS

Command = Callable[..., tuple[str, str]]
MAX_LENGTH = 20
SENTENCES = ["The owl sleeps.", "Two boxes are heavy.", "A queen buys three apples."]


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty working directory, no TFMR_DATA; commands keep the process-wide settings."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFMR_DATA", raising=False)
    yield
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of an untrained model, English to French."""
    texts = [text for pair in pocket.generate("en-fr", 400, 0) for text in pair]
    tokenizer = Tokenizer.words([*texts, *SENTENCES], form="pocket")
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder": 1, "n_decoder": 1}
    vocab = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    config = TransformerConfig(**vocab, **sizes, tie="none", max_length=MAX_LENGTH)
    transformer = Transformer(config).eval()
    with torch.no_grad():
        transformer.output.weight.mul_(4)
        transformer.output.weight[EOS].mul_(2)
    folder = tmp_path_factory.mktemp("models")
    saved = Checkpoint(
        config,
        tokenizer,
        named_weights(transformer),
        metadata={"corpus": "pocket", "direction": "en-fr"},
    )
    checkpoint.save(folder / "model.safetensors", saved)
    return folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command; returns its standard output and standard error."""

    def run(*arguments: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tfmr", *map(str, arguments)])
        main()
        out, err = capsys.readouterr()
        return out, err

    return run


@pytest.fixture
def rejected(command: Command, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must fail: no output, status 2; returns the message."""

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stop:
            command(*arguments)
        assert stop.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        last = err.splitlines()[-1]
        assert last.startswith("tfmr: ")
        return last

    return run
