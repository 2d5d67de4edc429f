"""Recipes: a vocabulary, a model, and a way to train it, each a short TOML file beside this one.

A file has the tables of :class:`Recipe`. What it leaves out has the default that is documented
there; what it misspells is an error. ``python -m tfmr recipes`` lists them, and every run keeps the
one it used, written out in full.
"""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tfmr import registry
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, PairSource
from tfmr.data.tokenfile import IdPair
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError, require
from tfmr.model import TransformerConfig
from tfmr.train.config import TrainConfig
from tfmr.train.tables import check_names, fill, to_toml
from tfmr.translator import TranslatorConfig

FOLDER = Path(__file__).parent
"""Where the package keeps its recipes."""


@dataclass(frozen=True)
class Vocabulary:
    """How text is cut into tokens: the table ``[vocabulary]``."""

    kind: Literal["words", "bpe"] = "bpe"
    """Whole words, or byte-pair pieces shared by both languages."""
    size: int = 5000
    """Number of byte-pair tokens at most; words take what they need."""


@dataclass(frozen=True)
class BatchConfig:
    """How batches are filled: the table ``[batches]``."""

    tokens_per_batch: int = 2048
    """Padded tokens of the longer side in a batch, at most."""


@dataclass(frozen=True)
class Budget:
    """How long to train: the table ``[budget]``.

    Raises:
        TfmrError: unless there are minutes or steps, not both, all of them positive.
    """

    minutes: tuple[float, ...] = ()
    """The run is scored after each of these minutes and ends with the last."""
    steps: tuple[int, ...] = ()
    """Instead of minutes: it is scored after each of these steps."""

    def __post_init__(self) -> None:
        require(
            bool(self.minutes) != bool(self.steps),
            "a run is as long as its minutes or as its steps: give one of them, got "
            f"{list(self.minutes)} minutes and {list(self.steps)} steps",
        )
        require(
            all(0 < mark < 1e6 for mark in self.minutes),
            "the minutes to train must be positive and less than a million: got "
            f"{list(self.minutes)}",
        )
        require(
            all(mark > 0 for mark in self.steps),
            f"the steps to train must be positive: got {list(self.steps)}",
        )


@dataclass(frozen=True)
class EvalConfig:
    """How a model is judged on the way and in the end: the table ``[evaluation]``.

    Raises:
        TfmrError: if a number is out of range, or patience waits for looks that are never taken.
    """

    eval_every: int = 0
    """Steps between two looks at the validation part. The run's model is then the one that did
    best in them; with 0 there are none, and it is the last."""
    metric: Literal["bleu", "loss"] = "bleu"
    """What is looked at: BLEU of greedy translations, or the loss, which is quicker."""
    patience: int = 0
    """End the training after so many looks in a row that found nothing better; 0 never does."""
    beam: int = 4
    """Hypotheses of the beam search that scores in the end, beside the greedy translations."""

    def __post_init__(self) -> None:
        require(
            self.eval_every >= 0 and self.patience >= 0 and self.beam >= 1,
            "expected eval_every >= 0, patience >= 0 and beam >= 1: got "
            f"{self.eval_every}, {self.patience} and {self.beam}",
        )
        require(
            self.eval_every > 0 or self.patience == 0,
            f"patience={self.patience} waits for looks at the validation part and eval_every=0 "
            "takes none: set eval_every to the steps between two",
        )


@dataclass(frozen=True)
class CheckpointConfig:
    """When the run is written to disk: the table ``[checkpoints]``.

    Raises:
        TfmrError: if a number is out of range or two do not go together.
    """

    seconds: float = 60.0
    """Training time between two writes of the run, which overwrite each other."""
    steps: int = 0
    """Steps between two of them instead; 0 leaves it to the clock."""
    average: int = 0
    """The weights of so many last checkpoints are kept apart, and their mean is the run's model
    (Vaswani et al., 2017, section 6.1); 0 keeps none. The running average of the weights is
    ``average`` in the table ``[train]``: a run has one or the other."""
    average_every: int = 0
    """Steps between two checkpoints of that mean."""

    def __post_init__(self) -> None:
        require(
            self.seconds >= 0 and min(self.steps, self.average, self.average_every) >= 0,
            "expected seconds, steps, average and average_every of at least 0: got "
            f"{self.seconds}, {self.steps}, {self.average} and {self.average_every}",
        )
        require(
            (self.average > 0) == (self.average_every > 0),
            "the mean of the last checkpoints needs their number, average, and the steps between "
            f"two, average_every: got average={self.average}, average_every={self.average_every}",
        )


@dataclass(frozen=True)
class Recipe:
    """A vocabulary, a model, and a way to train it.

    Raises:
        TfmrError: if two averages of the weights are asked for.
    """

    about: str = "a recipe of your own"
    """One line for those who choose."""
    corpus: str = "your files"
    """The corpus it was made for."""
    directions: tuple[str, ...] = ("source-target",)
    """And the languages, the usual direction first."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    architecture: TranslatorConfig = field(default_factory=lambda: TransformerConfig(1, 1))
    """The model's choices, the table ``[model]``; the vocabularies are those of no corpus yet."""
    batches: BatchConfig = field(default_factory=BatchConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    budget: Budget = field(default_factory=lambda: Budget(minutes=(1.0,)))

    def __post_init__(self) -> None:
        require(
            self.train.ema_decay == 0 or self.checkpoints.average == 0,
            "the run's model is the running average of the weights or the mean of its last "
            f"checkpoints: got train.ema_decay={self.train.ema_decay} and checkpoints.average="
            f"{self.checkpoints.average}, set one of them to 0",
        )

    def tokenizer(self, corpus: Corpus) -> Tokenizer:
        """One vocabulary for both languages, learnt from the training part."""
        texts = (text for pair in corpus.train for text in pair)
        if self.vocabulary.kind == "words":
            return Tokenizer.words(texts)
        return Tokenizer.train_bpe(texts, self.vocabulary.size)

    def model(self, vocab: int) -> TranslatorConfig:
        """The model's choices, for a vocabulary of ``vocab`` tokens."""
        choices = registry.to_dict(self.architecture)
        return registry.from_dict(
            choices | {"source_vocab": vocab, "target_vocab": vocab}, "a recipe"
        )

    def fill(self, pairs: PairSource, tokenizer: Tokenizer) -> Batches:
        """Sentence pairs as batches of ids."""
        sources = tokenizer.encode_batch([source for source, _ in pairs])
        targets = tokenizer.encode_batch([target for _, target in pairs])
        return self.fill_with(list(zip(sources, targets, strict=True)))

    def fill_with(self, pairs: Sequence[IdPair]) -> Batches:
        """Pairs of ids, in a list or in a token file, as batches."""
        longest = self.architecture.max_length
        return Batches(pairs, self.batches.tokens_per_batch, self.train.seed, longest)

    def tables(self) -> dict[str, Any]:
        """Every value of the recipe, as its file would have them."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        model = registry.to_dict(values.pop("architecture"))
        for name in ("source_vocab", "target_vocab"):
            del model[name]
        plain = {
            name: dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]
            for name, value in values.items()
        }
        about = {name: plain.pop(name) for name in ("about", "corpus", "directions")}
        return {**about, "vocabulary": plain.pop("vocabulary"), "model": model, **plain}

    def to_toml(self) -> str:
        """The file that says all of it."""
        return to_toml(self.tables())

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], where: str = "the recipe") -> "Recipe":
        """The inverse of :meth:`tables`; what is left out has its default.

        Raises:
            TfmrError: if a name is unknown or a value is wrong; ``where`` says whose.
        """
        inner = {
            "vocabulary": Vocabulary,
            "batches": BatchConfig,
            "train": TrainConfig,
            "checkpoints": CheckpointConfig,
            "evaluation": EvalConfig,
            "budget": Budget,
        }
        plain = ("about", "corpus", "directions")
        check_names(tables, [*plain, "model", *inner], where)
        for name in ("model", *inner):
            require(
                isinstance(tables.get(name, {}), Mapping),
                f"{where}: {name} must be a table, [{name}] and lines below it: got "
                f"{tables.get(name)!r}",
            )
        parts: dict[str, Any] = {
            name: fill(kind, tables[name], f"{where}, [{name}]")
            for name, kind in inner.items()
            if name in tables
        }
        if "model" in tables:
            choices = dict(tables["model"])
            kind = choices.pop("kind", "transformer")
            require(
                kind in registry.KINDS,
                f"{where}, [model]: kind must be one of {', '.join(registry.KINDS)}: got {kind!r}",
            )
            vocabularies = {"source_vocab": 1, "target_vocab": 1}
            parts["architecture"] = fill(
                registry.KINDS[kind].config, choices, f"{where}, [model]", vocabularies
            )
        about = {name: tables[name] for name in plain if name in tables}
        return fill(cls, about, where, parts)

    def having(self, changes: Mapping[str, Any]) -> "Recipe":
        """The same recipe with some values changed, each named as in ``"train.seed"``.

        Raises:
            TfmrError: if there is no such value or it cannot be that.
        """
        tables = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self.tables().items()
        }
        for place, value in changes.items():
            table, _, name = place.partition(".")
            require(
                bool(name) and isinstance(tables.get(table), dict),
                f"a recipe has no {place!r}: name the table and the value, as in train.peak_lr; "
                f"the tables are {', '.join(n for n, v in tables.items() if isinstance(v, dict))}",
            )
            tables[table][name] = value
        return Recipe.from_tables(tables, "the changed recipe")

    def training_flops(self, parameters: int, steps: int) -> float:
        """Floating-point operations of ``steps`` full batches, worked out on paper.

        A weight multiplies and adds once for each token that passes it, and twice more going
        back: 6 operations. The encoder's see the source tokens, the decoder's and the output's
        the target tokens, as many of each in a full batch, and a three-way tied embedding is
        the output: so 6 × parameters × tokens of one side. The products of queries and keys,
        which no weight takes part in, are left out.
        """
        tokens = self.batches.tokens_per_batch * self.train.grad_accum_steps
        return 6.0 * parameters * tokens * steps


def read_recipe(path: Path) -> Recipe:
    """The recipe in a TOML file.

    Raises:
        TfmrError: if it cannot be read, is no TOML, or says something that no recipe has.
    """
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TfmrError(f"cannot read the recipe {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TfmrError(f"the recipe {path} is no TOML: {error}") from error
    return Recipe.from_tables(tables, str(path.name))


def find_recipe(name: str) -> Recipe:
    """The package's recipe of this name, or the one in the TOML file at this path.

    Raises:
        TfmrError: if there is neither, or the file is wrong.
    """
    if name in RECIPES:
        return RECIPES[name]
    require(
        name.endswith(".toml") or Path(name).is_file(),
        f"no recipe is called {name!r}: there are {', '.join(RECIPES)}; a file of your own is "
        "named by its path, ending in .toml",
    )
    return read_recipe(Path(name))


RECIPES: dict[str, Recipe] = {
    path.stem: read_recipe(path)
    for path in sorted(FOLDER.glob("*.toml"), key=lambda path: path.stem)
}
"""The recipes of the package by name. A corpus is trained with the one that is called like it."""
