"""``translate``: translate sentences from arguments, a file or standard input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import tyro
from tqdm import tqdm

from tfmr.commands.decoding import BATCH_SIZE, Decoding
from tfmr.data.lines import read_lines
from tfmr.errors import TfmrError, require

if TYPE_CHECKING:
    from tfmr.data.tokenizer import Tokenizer
    from tfmr.decode import Candidate, Translation
    from tfmr.translator import IncrementalTranslator

READ_SIZE = 1 << 16
"""Maximum number of bytes that are read from standard input before they are translated."""


@dataclass(frozen=True)
class Translate:
    """Translate sentences given as arguments, in a file, or on standard input, one per line.

    Prints one line per sentence, in order. Lines on standard input are translated as they arrive:
    a typed line at once, the lines of a pipe in batches. An empty line gives an empty line. A
    sentence that cannot be translated gives an empty line and a message on standard error; the
    exit status is then 1.
    """

    decoding: Annotated[Decoding, tyro.conf.arg(name="")]
    sentences: tyro.conf.Positional[tuple[str, ...]] = ()
    """Sentences, each in quotes. If none is given: the lines of --file or of standard input."""
    file: Path | None = None
    """Translate the lines of this file, plain or gzipped. Only a line feed ends a line."""
    sample: bool = False
    """Sample each token from the distribution that the model predicts, instead of searching."""
    temperature: float | None = None
    """With --sample: divides the scores, 1 if not given. Lower values make probable tokens more
    probable."""
    top_k: int | None = None
    """With --sample: sample from this many of the most probable tokens only."""
    top_p: float | None = None
    """With --sample: sample from the smallest set of the most probable tokens whose probabilities
    sum to at least this value (nucleus sampling)."""
    seed: int | None = None
    """With --sample: random seed, 0 if not given."""
    alignment: bool = False
    """Print a second line, starting with a tab, that pairs each word of the translation with the
    source word that has the largest attention weight, as source→target."""

    n_best: int | None = None
    """Print this many translations of each sentence, at most --beam, the best first. Each line
    starts with the number of the sentence and a tab."""
    scores: bool = False
    """Print the score before each translation, with a tab: its log-probability divided by the
    length penalty, by which the search ranks translations."""
    stream: bool = False
    """Print each word as soon as it is generated, one sentence at a time. Needs --beam 1 or
    --sample, because a beam search may still change its words."""

    def __call__(self) -> None:
        """Translate, and print one line per sentence in order."""
        from tfmr.decode import translate_each
        from tfmr.decode.streaming import StreamDecoder, Watched
        from tfmr.fast import cpu_matmul_settings

        require(
            not (self.sentences and self.file),
            "expected sentences or --file, got both; omit one of them",
        )
        options = self._options()
        from_stdin = not self.sentences and self.file is None
        interactive = from_stdin and sys.stdin is not None and sys.stdin.isatty()
        model, tokenizer, _ = self.decoding.load()
        if interactive:
            print("Enter one sentence per line; Ctrl-D ends.", file=sys.stderr)
        count, number, failed = 0, 0, False

        def report(_: int, error: TfmrError) -> None:
            nonlocal failed
            failed = True
            print(f"tfmr: {error}", file=sys.stderr)

        words = StreamDecoder(tokenizer)
        if self.stream:
            model = cast(
                "IncrementalTranslator",
                Watched(model, lambda id: print(words.add(id), end="", flush=True)),
            )
        # On a terminal, the printed translations show the progress.
        quiet = interactive or sys.stdout.isatty() or self.stream or None
        with tqdm(unit="sentence", delay=2, leave=False, disable=quiet) as bar:
            for lines in self._one_by_one() if self.stream else self._chunks():
                bar.total = None if from_stdin else len(lines)
                translations = translate_each(
                    model,
                    tokenizer,
                    lines,
                    **options,
                    batch_size=BATCH_SIZE,
                    first_number=count + 1,
                    on_finished=bar.update,
                    on_error=report,
                )
                rows = min(len(lines), BATCH_SIZE) * options.get("beam", 1)
                with cpu_matmul_settings(model, rows):
                    for translation in translations:
                        if "n_best" in options:
                            number += 1
                            self._print_candidates(number, translation)
                        else:
                            print(translation.text.removeprefix(words.shown), flush=True)
                        words = StreamDecoder(tokenizer)
                        if self.alignment:
                            print("\t" + _alignment(model, tokenizer, translation), flush=True)
                count += len(lines)
        where = "on standard input" if from_stdin else f"in {self.file}"
        require(count > 0 or interactive, f"expected sentences {where}, got none")
        if failed:
            sys.exit(1)

    def _print_candidates(self, number: int, translation: "Translation") -> None:
        """Print the best translations of a sentence, or one empty line if there are none."""
        candidates: Sequence[Candidate | None] = translation.n_best or [None]
        for candidate in candidates:
            cells = [str(number)] if self.n_best is not None else []
            if self.scores:
                cells.append("" if candidate is None else f"{candidate.score:.4f}")
            print("\t".join([*cells, candidate.text if candidate else ""]), flush=True)

    def _one_by_one(self) -> Iterator[list[str]]:
        return ([line] for lines in self._chunks() for line in lines)

    def _options(self) -> dict[str, Any]:
        """The search or sampling arguments of :func:`tfmr.decode.sentences.translate_each`."""
        search = {"--beam": self.decoding.beam, "--alpha": self.decoding.alpha}
        sampling = {
            "--temperature": self.temperature,
            "--top-k": self.top_k,
            "--top-p": self.top_p,
            "--seed": self.seed,
        }
        excluded = search if self.sample else sampling
        given = ", ".join(name for name, value in excluded.items() if value is not None)
        require(
            not given,
            f"expected search or sampling options, got {given} with --sample; omit one of them"
            if self.sample
            else f"expected --sample with {given}, for sampling only; add --sample",
        )
        require(
            not self.stream or self.sample or self.decoding.beam == 1,
            "expected --beam 1 or --sample with --stream, got a beam search; add one of them",
        )
        lists = self.n_best is not None or self.scores
        for name, excluding in (("--sample", self.sample), ("--stream", self.stream)):
            require(
                not (lists and excluding),
                f"expected --n-best and --scores with a search, got {name}; omit one of them",
            )
        require(
            self.n_best is None or self.n_best >= 1,
            f"expected --n-best of at least 1 translation, got {self.n_best}",
        )
        if not self.sample:
            n_best = {"n_best": self.n_best or 1} if lists else {}
            return self.decoding.search_options() | n_best
        from tfmr.decode import Sampling

        temperature = 1.0 if self.temperature is None else self.temperature
        return {
            "sampling": Sampling(temperature, self.top_k, self.top_p),
            "seed": self.seed or 0,
        }

    def _chunks(self) -> Iterable[list[str]]:
        """The sentences; those of standard input in chunks as they arrive."""
        if self.sentences:
            return [list(self.sentences)]
        if self.file is not None:
            lines = [_decode(line) for line in read_lines(self.file)]
            return [lines] if lines else []
        require(
            sys.stdin is not None,
            "standard input is closed: give sentences as arguments, or --file",
        )
        return _read_chunks(cast(BufferedIOBase, sys.stdin.buffer))


def _alignment(
    model: "IncrementalTranslator", tokenizer: "Tokenizer", translation: "Translation"
) -> str:
    from tfmr.decode import align

    if not translation.source:
        return ""
    pairs = align(model, tokenizer, translation.source, translation.ids)
    return " ".join(f"{source}→{target}" for source, target in pairs)


def _read_chunks(stream: BufferedIOBase) -> Iterator[list[str]]:
    """The lines of a stream; each chunk has the complete lines that have arrived."""
    rest = b""
    try:
        while received := stream.read1(READ_SIZE):
            *complete, rest = (rest + received).split(b"\n")
            if complete:
                yield [_decode(line) for line in complete]
    except OSError as error:
        raise TfmrError(f"cannot read standard input: {error}") from error
    if rest:
        yield [_decode(rest)]


def _decode(line: bytes) -> str:
    """Decode UTF-8; a byte that is not UTF-8 makes only its own sentence fail.

    :func:`tfmr.data.text.canonical` reports it.
    """
    return line.decode("utf-8", "surrogateescape")
