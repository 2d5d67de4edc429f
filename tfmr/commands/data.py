"""Options of the commands that read a corpus."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tfmr.data import corpora
from tfmr.data.corpus import Corpus
from tfmr.errors import require
from tfmr.train.config import Recipe, find_recipe, recipe_names


@dataclass(frozen=True)
class Data:
    """The corpus and the translation direction."""

    corpus: str | None = None
    """pocket (generated, needs no download), multi30k or tatoeba (from the folder TFMR_DATA, or
    downloaded). If not given: the corpus of the recipe, or pocket."""
    direction: str | None = None
    """Source and target language, such as de-en. If not given: the first of the recipe."""
    files: tuple[Path, Path] | None = None
    """Your own corpus: a source and a target file, aligned, with one sentence per line. train
    holds out 5 % of the sentences for validation and 5 % for the test (of 200,000 pairs or more,
    about 2,000 each); evaluate scores every line."""

    def load(
        self, recipe: Recipe | None = None, *, quiet: bool = False, only_test: bool = False
    ) -> Corpus:
        """Load the corpus; by default that of ``recipe``. Print its licence to standard error.

        With ``only_test``, all lines of your own files are in the test set.
        """
        require(
            not (self.corpus and self.files),
            f"expected --corpus or --files, got both: {self.corpus} and {self.files}; omit one",
        )
        corpus = self._load_files(only_test) if self.files else self._load_by_name(recipe)
        if not quiet:
            direction = f"{corpus.source}-{corpus.target}"
            print(f"{corpus.name} {direction}: {corpus.licence}", file=sys.stderr)
        return corpus

    def _load_files(self, only_test: bool) -> Corpus:
        assert self.files is not None
        languages = (self.direction or "source-target").split("-")
        require(
            len(languages) == 2 and all(languages),
            f"expected two languages in --direction, such as de-en, got {self.direction!r}",
        )
        load = corpora.load_test_files if only_test else corpora.load_files
        return load(*self.files, *languages)

    def _load_by_name(self, recipe: Recipe | None) -> Corpus:
        name = self.corpus or (recipe.corpus if recipe else "pocket")
        require(
            name != "your files",
            "this recipe needs your own corpus: add --files SOURCE TARGET",
        )
        if (recipe is None or recipe.corpus != name) and name in recipe_names():
            recipe = find_recipe(name)
        default = recipe.directions[0] if recipe and recipe.corpus == name else ""
        return corpora.load(name, self.direction or default)
