"""Options of the commands that read a corpus."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from tfmr.data import corpora, own_files
from tfmr.data.corpus import Corpus
from tfmr.errors import require

if TYPE_CHECKING:
    from tfmr.train.config import Recipe
    from tfmr.train.metadata import DataOptions

# Two aligned text files, or one table.
Files = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE [FILE]")]


@dataclass(frozen=True)
class Data:
    """The corpus and the translation direction."""

    corpus: str | None = None
    """pocket (generated, needs no download), multi30k or tatoeba (from the folder TFMR_DATA, or
    downloaded). If not given: the corpus of the recipe, or pocket."""
    direction: str | None = None
    """Source and target language, such as de-en. If not given: the first of the recipe."""
    files: Files = ()
    """Your own corpus: a source and a target file, aligned, with one sentence per line; or one file
    that ends in .tsv or .csv, with two columns. Each may be gzipped."""
    header: bool = False
    """The first line of a TSV or CSV file has the names of its columns; the two that --direction
    names are read, such as de and en."""

    def load(self, recipe: "Recipe | None" = None, *, quiet: bool = False) -> Corpus:
        """Load the corpus; by default that of ``recipe``. Print its licence to standard error."""
        require(
            not (self.corpus and self.files),
            f"expected --corpus or --files, got both: {self.corpus} and "
            f"{' '.join(map(str, self.files))}; omit one",
        )
        corpus = self._load_files() if self.files else self._load_by_name(recipe)
        if not quiet:
            direction = f"{corpus.source}-{corpus.target}"
            print(f"{corpus.name} {direction}: {corpus.licence}", file=sys.stderr)
        return corpus

    def _load_files(self) -> Corpus:
        return own_files.load_test_files(self.files, *self._languages(), header=self.header)

    def _languages(self) -> tuple[str, str]:
        languages = (self.direction or "source-target").split("-")
        require(
            len(languages) == 2 and all(languages),
            f"expected two languages in --direction, such as de-en, got {self.direction!r}",
        )
        return languages[0], languages[1]

    def _load_by_name(self, recipe: "Recipe | None") -> Corpus:
        from tfmr.train.config import find_recipe, recipe_names

        name = self.corpus or (recipe.corpus if recipe else "pocket")
        require(
            name != "your files",
            "this recipe needs your own corpus: add --files SOURCE TARGET",
        )
        if (recipe is None or recipe.corpus != name) and name in recipe_names():
            recipe = find_recipe(name)
        default = recipe.directions[0] if recipe and recipe.corpus == name else ""
        return corpora.load(name, self.direction or default)


@dataclass(frozen=True)
class TrainingData(Data):
    """The corpus, the translation direction, and how your own files are split and filtered.

    Without --valid and --test, 5 % of the source sentences of --files, at most 2,000, are held out
    for each. Pairs with an empty side are not used, nor are training pairs that are repeated or
    whose source sentence is in the validation or test set. All are counted and reported.
    """

    valid: Files = ()
    """Your own validation set (development set), in the same format as --files."""
    test: Files = ()
    """Your own test set, in the same format as --files."""
    max_ratio: float = own_files.MAX_RATIO
    """Do not train on pairs of --files with more than this many times as many bytes on one side as
    on the other; 0 means no limit."""

    def of_run(self, folder: Path) -> "TrainingData":
        """The options with which the run in ``folder`` loaded its corpus.

        These options are returned if they select a corpus, or if there is no run that has been
        saved.
        """
        from tfmr import checkpoint
        from tfmr.train.metadata import RunState

        path = folder / "model.safetensors"
        selects = self.corpus or self.direction or self.files or self.valid or self.test
        if selects or not path.is_file():
            return self
        state = RunState.from_metadata(checkpoint.load(path).metadata, str(path))
        if state.data is None:
            require(
                state.corpus != own_files.NAME,
                f"{path} does not state the files that the run was trained on: add --files",
            )
            return replace(self, corpus=state.corpus, direction=state.direction)
        return TrainingData(
            corpus=state.data.corpus,
            direction=state.data.direction,
            files=tuple(map(Path, state.data.files)),
            header=state.data.header,
            valid=tuple(map(Path, state.data.valid)),
            test=tuple(map(Path, state.data.test)),
            max_ratio=state.data.max_ratio,
        )

    def record(self, corpus: Corpus) -> "DataOptions":
        """How ``corpus`` was loaded, for the metadata of a run; the inverse of :meth:`of_run`."""
        from tfmr.train.metadata import DataOptions

        return DataOptions(
            corpus=None if self.files else corpus.name,
            direction=f"{corpus.source}-{corpus.target}",
            files=_absolute(self.files),
            valid=_absolute(self.valid),
            test=_absolute(self.test),
            header=self.header,
            max_ratio=self.max_ratio,
        )

    def _load_files(self) -> Corpus:
        return own_files.load_files(
            self.files,
            *self._languages(),
            valid=self.valid,
            test=self.test,
            header=self.header,
            max_ratio=self.max_ratio,
        )

    def _load_by_name(self, recipe: "Recipe | None") -> Corpus:
        require(
            not (self.valid or self.test),
            "expected --valid and --test with your own training files, got no --files; add them, "
            "or omit the options",
        )
        return super()._load_by_name(recipe)


def _absolute(paths: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(str(path.absolute()) for path in paths)
