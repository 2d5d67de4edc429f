"""Every corpus by its name: the pocket grammar, Multi30k, Tatoeba, and the reader's own files.

A real corpus is looked for in three places, in this order: the folder that the environment
variable ``TFMR_DATA`` names, laid out as in :data:`FILES`, plain or gzipped; the cache of an
earlier download; the network. Wherever it is found, its text must have the checksum recorded here.
"""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pooch

from tfmr.data import pocket
from tfmr.data.corpus import Corpus, Pair, divide
from tfmr.errors import TfmrError, require

__all__ = ["FILES", "Corpus", "load", "load_files", "stream_files", "tatoeba_rows"]

GZIP = b"\x1f\x8b"
"""How a gzipped file begins."""

_MULTI30K = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
_TATOEBA = (
    "https://raw.githubusercontent.com/okaybody10/Korea-University/"
    "c5142aaaa259a90a98aec0fa579b040cf46dad6f/kor-eng/kor.txt"
)

LICENCES = {
    "multi30k": (
        "Multi30k (Elliott et al., 2016, 2017): no licence is stated for the text; "
        "treat as non-commercial, for research and education only."
    ),
    "tatoeba": (
        "Tatoeba Korean-English (tatoeba.org, manythings.org/anki): CC BY 2.0 FR, "
        "each pair attributed to its authors."
    ),
    "your files": "your own files: their licence is yours to know.",
}
"""What may be done with the sentences of each corpus, in one line."""


class RemoteFile(NamedTuple):
    """Where a file of a corpus is published, and the SHA-256 of its text, uncompressed."""

    address: str
    sha256: str


FILES: dict[str, RemoteFile] = {
    f"multi30k/{name}": RemoteFile(f"{_MULTI30K}{name}.gz", sha256)
    for name, sha256 in {
        "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
        "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
        "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    }.items()
} | {
    "tatoeba-kor-eng/kor-eng.tsv": RemoteFile(
        _TATOEBA, "ec1922b95f57bdfd413532bdacb702ac9894f79e5e9041b33bcc1a8215d63914"
    )
}
"""Every file of a real corpus, by its path in the ``TFMR_DATA`` folder (there also with ".gz")."""


def load(name: str, direction: str) -> Corpus:
    """Load the corpus ``name`` for ``direction``, "source-target" in two-letter languages.

    ``"pocket"`` is written by the package, en-fr and en-ko (:mod:`tfmr.data.pocket`).
    ``"multi30k"`` has 29 000 image captions (Elliott et al., 2016, 2017) between any two of de,
    en and fr; its test part is test_2016_flickr. ``"tatoeba"`` has 3 833 spoken sentences, ko-en
    and en-ko, divided so that no English sentence is in two parts.

    Raises :class:`TfmrError` for an unknown name or direction, for a file that cannot be found
    or fetched, and for one whose checksum is wrong.
    """
    require(name in _LOADERS, f"expected a corpus among {', '.join(_LOADERS)}, got {name!r}")
    directions, read = _LOADERS[name]
    require(
        direction in directions,
        f"corpus {name!r} translates {', '.join(directions)}; got {direction!r}",
    )
    source, target = direction.split("-")
    return read(source, target)


def load_files(
    source_path: str | os.PathLike[str],
    target_path: str | os.PathLike[str],
    source: str = "source",
    target: str = "target",
) -> Corpus:
    """Load your own corpus: two UTF-8 text files, the lines of one translating those of the other.

    ``source`` and ``target`` name the languages. One source sentence in twenty goes to the
    validation part and one to the test part, all its translations with it.

    Raises :class:`TfmrError` if a file cannot be read, is empty, is not UTF-8 or has an empty
    line, if the files have different numbers of lines, or fewer than three different sentences.
    """
    pairs = list(stream_files(source_path, target_path))
    train, valid, test = divide(pairs, lambda pair: pair[0], str(source_path), 0.05, 0.05)
    return Corpus("your files", source, target, train, valid, test, LICENCES["your files"])


def stream_files(
    source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]
) -> Iterator[Pair]:
    """Yield the sentence pairs of two text files, plain or gzipped, holding one pair at a time.

    For files of millions of lines. What :func:`load_files` keeps in lists is then asked for again,
    :func:`~tfmr.data.corpus.part_of` says to which part a pair belongs, and the ids go into a token
    file (:func:`~tfmr.data.tokenfile.write_token_file`)::

        def train() -> Iterator[Pair]:
            for pair in stream_files("corpus.de", "corpus.en"):
                if part_of(pair[0], valid=0.001, test=0.001) == "train":
                    yield pair

        tokenizer = Tokenizer.train_bpe((text for pair in train() for text in pair), 37_000)
        tokens = write_token_file("corpus.tokens", train(), tokenizer)

    Raises :class:`TfmrError`, when it comes to the place, for what :func:`load_files` refuses.
    """
    sides = [_lines(_open(Path(path)), str(path)) for path in (source_path, target_path)]
    for pairs, (source, target) in enumerate(zip_longest(*sides)):
        if source is None or target is None:
            shorter, longer = pairs, pairs + 1 + sum(1 for side in sides for _ in side)
            counts = (shorter, longer) if source is None else (longer, shorter)
            raise TfmrError(
                f"expected one translation per line, but {source_path} has {counts[0]} lines "
                f"and {target_path} has {counts[1]}; align them first"
            )
        yield source, target


def tatoeba_rows() -> list[tuple[str, str, str]]:
    """The Tatoeba file as it came: English, Korean, and whom to attribute the pair to."""
    name = "tatoeba-kor-eng/kor-eng.tsv"
    rows = [line.split("\t") for line in _lines(io.BytesIO(_fetch(name)), name)]
    return [(english, korean, attribution) for english, korean, attribution in rows]


def _load_pocket(source: str, target: str) -> Corpus:
    return pocket.split(f"{source}-{target}")


def _load_multi30k(source: str, target: str) -> Corpus:
    parts: list[list[Pair]] = []
    for part in ("train", "val", "test_2016_flickr"):
        names = [f"multi30k/{part}.{language}" for language in (source, target)]
        sides = [_lines(io.BytesIO(_fetch(name)), name) for name in names]
        parts.append(list(zip(*sides, strict=True)))
    train, valid, test = parts
    return Corpus("multi30k", source, target, train, valid, test, LICENCES["multi30k"])


def _load_tatoeba(source: str, target: str) -> Corpus:
    english = 0 if source == "en" else 1
    pairs = [row[:2] if source == "en" else (row[1], row[0]) for row in tatoeba_rows()]
    train, valid, test = divide(pairs, lambda pair: _bare(pair[english]), "tatoeba", 0.05, 0.1)
    return Corpus("tatoeba", source, target, train, valid, test, LICENCES["tatoeba"])


def _bare(english: str) -> str:
    """Only the letters and digits, so that "Run!" and "Run." do not meet across the division."""
    return " ".join("".join(c if c.isalnum() else " " for c in english.casefold()).split())


_LOADERS: dict[str, tuple[tuple[str, ...], Callable[[str, str], Corpus]]] = {
    "pocket": (("en-fr", "en-ko"), _load_pocket),
    "multi30k": (("de-en", "de-fr", "en-de", "en-fr", "fr-de", "fr-en"), _load_multi30k),
    "tatoeba": (("en-ko", "ko-en"), _load_tatoeba),
}


def _fetch(name: str) -> bytes:
    """The text of the file ``name`` of :data:`FILES`, from the folder, the cache or the network."""
    folder = os.environ.get("TFMR_DATA")
    if folder:
        require(
            Path(folder).is_dir(),
            f"expected TFMR_DATA to name a folder, but {folder!r} is none; correct it or unset it",
        )
        for path in (Path(folder, name), Path(folder, f"{name}.gz")):
            if path.exists():
                content = _read(path)
                came = hashlib.sha256(content).hexdigest()
                require(
                    came == FILES[name].sha256,
                    f"{path} is not the published file: expected its text to have the SHA-256 "
                    f"{FILES[name].sha256[:12]}…, got {came[:12]}…; remove it, to download it",
                )
                return content
    try:
        return Path(_download(name)).read_bytes()
    except (OSError, EOFError, zlib.error, ValueError) as error:
        looked = f"it is not in TFMR_DATA={folder}" if folder else "TFMR_DATA is not set"
        why = " ".join(str(error).split())[:80]
        raise TfmrError(
            f"cannot get {name}: {looked}, and {FILES[name].address} failed with "
            f"{type(error).__name__} ({why}); set TFMR_DATA to a folder that holds {name} "
            f"or {name}.gz, or connect to the network and try again"
        ) from None


def _download(name: str) -> str:
    """Fetch ``name`` into pooch's cache, unless it is there already, and return its path.

    The file is unpacked before pooch compares checksums and moves it into place, because the
    recorded one is that of the text: another gzip may compress the same text otherwise.
    """
    address, sha256 = FILES[name]

    def unpacked(url: str, output_file: str, caller: Any) -> None:
        # Streaming, pooch's way, would leave the connection open behind a "not found".
        pooch.HTTPDownloader(timeout=30, stream=False)(url, output_file, caller)
        Path(output_file).write_bytes(_unpack(Path(output_file).read_bytes()))

    path = Path(pooch.os_cache("tfmr"), name)
    return str(
        pooch.retrieve(
            address, f"sha256:{sha256}", fname=path.name, path=path.parent, downloader=unpacked
        )
    )


def _read(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are gzipped."""
    return b"".join(_open(path))


def _open(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes, unpacked if they are gzipped, each with its line feed."""
    try:
        with path.open("rb") as file:
            if file.peek(2).startswith(GZIP):
                with gzip.open(file) as unpacked:
                    yield from unpacked
            else:
                yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise TfmrError(
            f"expected a text, plain or gzipped, but cannot read {path}: {error}"
        ) from None


def _unpack(content: bytes) -> bytes:
    """Undo gzip."""
    return gzip.decompress(content) if content.startswith(GZIP) else content


def _lines(content: Iterable[bytes], name: str) -> Iterator[str]:
    """The sentences of a UTF-8 text, one a line.

    Only the line feed ends a line: :meth:`str.splitlines` would also cut at the rarer separators
    that Unicode knows, and the two sides of a corpus would slip against each other.
    """
    number = 0
    for number, line in enumerate(content, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            sentence = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise TfmrError(
                f"line {number} of {name} is not UTF-8 ({error.reason}); convert the file to UTF-8"
            ) from None
        if not sentence and not line.endswith(b"\n"):
            number -= 1
            break  # white space after the last line is no line
        require(
            sentence != "",
            f"line {number} of {name} is empty; expected a sentence on every line, remove the pair",
        )
        yield sentence
    require(number > 0, f"{name} is empty; expected one sentence a line")
