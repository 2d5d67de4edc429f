"""``python -m tfmr``: train a model, translate with it, score it."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

# Read when torch is imported. Threads that wait for one another without ever letting go of their
# core, the default, lose most of their time as soon as another program wants it; on a laptop one
# always does. This many turns of waiting, then sleep, costs nothing when the machine is free.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import torch
import tyro
from tqdm import tqdm

from tfmr.data import corpora, pocket
from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import TfmrError, require
from tfmr.model import Transformer
from tfmr.train.evaluate import bleu, exact_match
from tfmr.train.recipes import RECIPES
from tfmr.train.run import Run, load_translator


@dataclass(frozen=True)
class Data:
    """Which sentences."""

    corpus: str = "pocket"
    """pocket (made by the package), multi30k or tatoeba (from TFMR_DATA, else downloaded)."""
    direction: str = "en-fr"
    """Source and target language, as in de-en."""
    files: tuple[Path, Path] | None = None
    """Your own corpus instead: a source file and a target file, one sentence per line."""

    def load(self) -> Corpus:
        """The corpus; its licence goes to standard error."""
        corpus = (
            corpora.load_files(*self.files)
            if self.files
            else corpora.load(self.corpus, self.direction)
        )
        print(f"{corpus.name} {corpus.source}-{corpus.target}: {corpus.licence}", file=sys.stderr)
        return corpus


@dataclass(frozen=True)
class Train:
    """Train a model on a corpus and score it; leaves a folder with model, curve and scores.

    Example: python -m tfmr train --corpus multi30k --direction de-en --minutes 5 10
    """

    data: Annotated[Data, tyro.conf.arg(name="")]
    minutes: tuple[float, ...] = (1.0,)
    """Train this long and score; several numbers score at each. Scoring does not count."""
    out: Path | None = None
    """The folder to write to; runs/CORPUS-DIRECTION if not given."""
    resume: bool = False
    """Go on with the run in the folder."""

    def __call__(self) -> None:
        """Train, printing one line of JSON per score."""
        corpus = self.data.load()
        name = f"{corpus.name}-{corpus.source}-{corpus.target}".replace(" ", "-")
        folder = self.out or Path("runs") / name
        # On CPUs whose vendor the default library does not favour, "medium" picks one that
        # multiplies more than twice as fast, and in the same precision unless the CPU has bf16
        # matrix units.
        torch.set_float32_matmul_precision("medium")
        run = Run(folder, corpus, RECIPES[corpus.name], resume=self.resume)
        parameters = run.trainer.model.count_parameters()
        print(
            f"{parameters:,} parameters, {run.tokenizer.vocab_size} tokens, {folder}",
            file=sys.stderr,
        )
        for row in run.train(self.minutes):
            print(json.dumps(row))
        print(f"now try: python -m tfmr translate --model {folder} 'a sentence'", file=sys.stderr)


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


@dataclass(frozen=True)
class Evaluate:
    """Score a model on the test part of a corpus: BLEU, its signature, and exact matches."""

    data: Annotated[Data, tyro.conf.arg(name="")]
    model: Path = Path("runs/pocket-en-fr")
    """A run's folder or its model.safetensors."""

    def __call__(self) -> None:
        """Score, printing one line of JSON."""
        corpus = self.data.load()
        model, tokenizer = load_translator(self.model)
        references = [target for _, target in corpus.test]
        outputs = progress_translate(model, tokenizer, [source for source, _ in corpus.test])
        result = bleu(outputs, references)
        scores = {
            "bleu": result.score,
            "exact": round(exact_match(outputs, references), 4),
            "signature": result.signature,
        }
        print(json.dumps(scores))


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


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit status 2."""
    command = tyro.extras.subcommand_cli_from_dict(
        {"train": Train, "translate": Translate, "evaluate": Evaluate},
        prog="python -m tfmr",
        description="Train a Transformer, translate with it, score it.",
    )
    try:
        command()
        sys.stdout.flush()
    except TfmrError as error:
        print(f"tfmr: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("tfmr: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever reads the output, head for example, has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
