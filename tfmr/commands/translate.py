"""``translate``: from sentences to sentences."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import torch
import tyro
from tqdm import tqdm

from tfmr.data import pocket
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import ALPHA, Sampling, Translation, align, translate_each
from tfmr.errors import TfmrError, require
from tfmr.train import checkpoint
from tfmr.translator import Translator

BEAM = 4
"""The paper's: it finds better sentences than greedy decoding at a cost that nobody notices."""
PIECE = 1 << 16
"""The most bytes taken from standard input before they are translated."""


@dataclass(frozen=True)
class Translate:
    """Translate sentences given as arguments, in a file, or on standard input, one per line.

    What arrives on standard input is translated as it arrives: a line that is typed is answered at
    once, the lines of a pipe go through the model together. The order is kept.
    """

    sentences: tyro.conf.Positional[tuple[str, ...]] = ()
    """The sentences, each in quotes; none reads --file or standard input."""
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""
    file: Path | None = None
    """Translate the lines of this file."""
    beam: int | None = None
    """How many hypotheses the search follows; 4 if not given, 1 is greedy."""
    alpha: float | None = None
    """Length penalty of the search: 0 favours short sentences; 0.6, the paper's, if not given."""
    sample: bool = False
    """Draw each next word by its probability instead of searching for the best."""
    temperature: float | None = None
    """With --sample: below 1 more careful, above 1 bolder."""
    top_k: int | None = None
    """With --sample: draw among this many of the likeliest tokens."""
    top_p: float | None = None
    """With --sample: draw among the likeliest tokens that make up this share of the probability."""
    seed: int | None = None
    """With --sample: another number, another translation; 0 if not given."""
    alignment: bool = False
    """Print a second line, which begins with a tab: for each word of the translation, the source
    word that the model looked at most, as source→target."""

    def __call__(self) -> None:
        """Translate, printing one line per sentence, in their order."""
        require(
            not (self.sentences and self.file),
            "give sentences or --file, not both: which should be translated?",
        )
        options = self._options()
        streams = not self.sentences and self.file is None
        typed = streams and sys.stdin is not None and sys.stdin.isatty()
        saved = checkpoint.load(checkpoint.find(self.model))
        model, tokenizer = saved.model(), saved.tokenizer
        of_pocket = saved.metadata.get("corpus") == "pocket"
        multiply_fast()
        if typed:
            print("one sentence per line; Ctrl-D ends", file=sys.stderr)
        first = 1
        # On a terminal the translations themselves show that it goes on.
        quiet = typed or sys.stdout.isatty()
        with tqdm(unit="sentence", delay=2, leave=False, disable=quiet) as bar:
            for lines in self._pieces():
                bar.total = None if streams else len(lines)
                if of_pocket:
                    lines = [pocket.tokenise(line) for line in lines]
                options |= {"first": first, "on_finished": bar.update}
                try:
                    for translation in translate_each(model, tokenizer, lines, **options):
                        text = translation.text
                        print(pocket.detokenise(text) if of_pocket else text, flush=True)
                        if self.alignment:
                            print("\t" + _alignment(model, tokenizer, translation), flush=True)
                except TfmrError as error:
                    if not typed:
                        raise
                    print(f"tfmr: {error}", file=sys.stderr)
                first += len(lines)
        require(first > 1 or typed, "standard input is empty: there is nothing to translate")

    def _options(self) -> dict[str, Any]:
        """What :func:`tfmr.decode.sentences.translate_each` is told."""
        of_search = {"--beam": self.beam, "--alpha": self.alpha}
        of_sampling = {
            "--temperature": self.temperature,
            "--top-k": self.top_k,
            "--top-p": self.top_p,
            "--seed": self.seed,
        }
        wrong = of_search if self.sample else of_sampling
        given = ", ".join(name for name, value in wrong.items() if value is not None)
        require(
            not given,
            f"{given} cannot go with --sample, which draws instead of searching"
            if self.sample
            else f"{given} says how to draw: add --sample",
        )
        if not self.sample:
            return search_options(self.beam, self.alpha)
        temperature = 1.0 if self.temperature is None else self.temperature
        return {
            "sampling": Sampling(temperature, self.top_k, self.top_p),
            "seed": self.seed or 0,
        }

    def _pieces(self) -> Iterable[list[str]]:
        """The sentences, in as many pieces as they arrive in."""
        if self.sentences:
            return [[_utf8(os.fsencode(sentence), "the sentence") for sentence in self.sentences]]
        if self.file is not None:
            try:
                return [_lines(self.file.read_bytes().removesuffix(b"\n"), self.file)]
            except OSError as error:
                raise TfmrError(f"cannot read {self.file}: {error}") from error
        require(
            sys.stdin is not None,
            "standard input is closed: give sentences as arguments, or --file",
        )
        return _arriving(cast(BufferedIOBase, sys.stdin.buffer))


def search_options(beam: int | None, alpha: float | None) -> dict[str, Any]:
    """The options of a search, those not given as in Vaswani et al. (2017), section 6.1.

    Raises:
        TfmrError: if there is a length penalty and nothing that it could choose among.
    """
    require(
        beam != 1 or alpha is None,
        "--alpha weighs the hypotheses of a beam, and --beam 1 has only one: leave one of them out",
    )
    return {
        "beam": BEAM if beam is None else beam,
        "alpha": ALPHA if alpha is None else alpha,
    }


def multiply_fast() -> None:
    """Choose the fast library for matrix products, as ``train`` does: its scores come out again."""
    torch.set_float32_matmul_precision("medium")


def _alignment(model: Translator, tokenizer: Tokenizer, translation: Translation) -> str:
    pairs = align(model, tokenizer, translation.source, translation.ids)
    return " ".join(f"{source}→{target}" for source, target in pairs)


def _arriving(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Lines, as many at once as have arrived by then."""
    rest = b""
    try:
        while piece := stream.read1(PIECE):
            *whole, rest = (rest + piece).split(b"\n")
            if whole:
                yield _lines(b"\n".join(whole), "standard input")
    except OSError as error:
        raise TfmrError(f"cannot read standard input: {error}") from error
    if rest:
        yield _lines(rest, "standard input")


def _lines(given: bytes, named: object) -> list[str]:
    return [line.strip() for line in _utf8(given, named).split("\n")]


def _utf8(given: bytes, named: object) -> str:
    """Decode what was given, with or without a byte order mark, or say that it is not UTF-8."""
    try:
        return given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TfmrError(f"cannot read {named} as UTF-8 text: {error}") from error
