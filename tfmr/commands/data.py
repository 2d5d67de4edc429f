"""What every command is told about its data."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tfmr.data import corpora
from tfmr.data.corpus import Corpus


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
