"""What every command is told about its data."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.data.large import load_any
from tfmr.errors import require
from tfmr.train.config import Recipe, find_recipe, recipe_names


@dataclass(frozen=True)
class Data:
    """Which sentences."""

    corpus: str | None = None
    """pocket (made by the package, and meant if none is named), multi30k or tatoeba (from
    TFMR_DATA, else downloaded)."""
    direction: str | None = None
    """Source and target language, as in de-en; if not given, the first that the recipe names."""
    files: tuple[Path, Path] | None = None
    """Your own corpus instead: a source file and a target file, one sentence per line."""

    def load(self, recipe: Recipe | None = None, *, quiet: bool = False) -> Corpus:
        """The corpus, or the one of the ``recipe``; its licence goes to standard error."""
        require(
            not (self.corpus and self.files),
            f"give --corpus or --files, not both: got {self.corpus} and {self.files}",
        )
        corpus = self._own() if self.files else self._by_name(recipe)
        if not quiet:
            line = f"{corpus.name} {corpus.source}-{corpus.target}: {corpus.licence}"
            print(line, file=sys.stderr)
        return corpus

    def _own(self) -> Corpus:
        """The files, their languages called as --direction says."""
        assert self.files is not None
        languages = (self.direction or "source-target").split("-")
        require(
            len(languages) == 2 and all(languages),
            f"--direction names two languages, as in de-en: got {self.direction!r}",
        )
        return load_any(*self.files, *languages)

    def _by_name(self, recipe: Recipe | None) -> Corpus:
        name = self.corpus or (recipe.corpus if recipe else "pocket")
        require(
            name != "your files",
            "this recipe is for a corpus of your own: name it by --files SOURCE TARGET",
        )
        usual = recipe if recipe and recipe.corpus == name else None
        if usual is None and name in recipe_names():
            usual = find_recipe(name)
        return corpora.load(name, self.direction or (usual.directions[0] if usual else ""))
