"""``translate``: from sentences to sentences."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from tfmr.data import pocket
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.train.run import load_translator


@dataclass(frozen=True)
class Translate:
    """Translate sentences given as arguments, in a file, or on standard input, one per line."""

    sentences: tyro.conf.Positional[tuple[str, ...]] = ()
    """The sentences, each in quotes; none reads --file or standard input."""
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""
    file: Path | None = None
    """Translate the lines of this file."""

    def __call__(self) -> None:
        """Translate, printing one line per sentence, in their order."""
        require(
            not (self.sentences and self.file),
            "give sentences or --file, not both: which should be translated?",
        )
        model, tokenizer = load_translator(self.model)
        lines = self._lines()
        if tokenizer.kind == "words":
            lines = [pocket.tokenise(line) for line in lines]
        for line in progress_translate(model, tokenizer, lines):
            print(pocket.detokenise(line) if tokenizer.kind == "words" else line)

    def _lines(self) -> list[str]:
        if self.sentences:
            return [_utf8(os.fsencode(sentence), "the sentence") for sentence in self.sentences]
        require(
            self.file is not None or sys.stdin is not None,
            "standard input is closed: give sentences as arguments, or --file",
        )
        named = self.file or "standard input"
        try:
            given = self.file.read_bytes() if self.file else sys.stdin.buffer.read()
        except OSError as error:
            raise TfmrError(f"cannot read {named}: {error}") from error
        return [line.strip() for line in _utf8(given, named).removesuffix("\n").split("\n")]


def _utf8(given: bytes, named: object) -> str:
    """Decode what was given, with or without a byte order mark, or say that it is not UTF-8."""
    try:
        return given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TfmrError(f"cannot read {named} as UTF-8 text: {error}") from error


def progress_translate(model: Transformer, tokenizer: Tokenizer, lines: list[str]) -> list[str]:
    """Translate with a bar on standard error when it takes long."""
    with tqdm(total=len(lines), unit="sentence", delay=2, leave=False) as bar:
        return translate(model, tokenizer, lines, on_finished=bar.update)
