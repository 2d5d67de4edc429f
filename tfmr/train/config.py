"""Recipes: everything that defines a training run except its data, each a short TOML file.

A recipe has one table per dataclass of this module. Keys that a file leaves out take the defaults
documented here; unknown keys and values of a wrong type are errors. ``python -m tfmr recipes``
lists the recipes of the package, which are in the folder ``recipes``. Every run writes the recipe
that it used, with all values, to its run directory.

A recipe file is parsed when the recipe is used, not when the package is imported.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from tfmr import registry
from tfmr.config import TransformerConfig
from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.tokenfile import IdPair
from tfmr.data.tokenizer import Tokenizer
from tfmr.dtype import Precision
from tfmr.errors import TfmrError, require
from tfmr.translator import TranslatorConfig

RECIPE_DIR = Path(__file__).with_name("recipes")
"""The folder with the recipes of the package."""
UNKNOWN_VOCABULARY = {"source_vocab": 1, "target_vocab": 1}
"""Vocabulary sizes of a recipe's model until the tokenizer is known."""


@dataclass(frozen=True)
class VocabularyConfig:
    """The tokenizer: the table ``[vocabulary]``."""

    kind: Literal["words", "bpe"] = "bpe"
    """Whole words, or byte-pair encoding, shared by both languages."""
    size: int = 5000
    """Maximum number of BPE tokens. A word vocabulary has every word of the training set."""


@dataclass(frozen=True)
class BatchConfig:
    """The size of a batch: the table ``[batches]``."""

    tokens_per_batch: int = 2048
    """Maximum number of tokens, padding included, on the longer side of a batch."""


@dataclass(frozen=True)
class TrainConfig:
    """The optimisation: the table ``[train]``.

    The optimiser's constants are those of Vaswani et al. (2017), section 5.3.

    Raises:
        TfmrError: if a value is out of range.
    """

    peak_lr: float = 2e-3
    """Peak learning rate; see :func:`tfmr.train.schedule.learning_rate`."""
    warmup: int = 400
    """Warm-up steps, after which the learning rate is at its peak."""
    label_smoothing: float = 0.1
    """Probability mass spread uniformly over the vocabulary in the target distribution."""
    max_grad_norm: float = 1.0
    """Maximum Euclidean norm of the gradient; a larger gradient is scaled down to it."""
    ema_decay: float = 0.998
    """Decay of the exponential moving average of the weights, which is the run's model; 0 disables
    it."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates for the first and second moment."""
    eps: float = 1e-9
    """Adam's epsilon, added to the denominator."""
    seed: int = 0
    """Seed of the initial weights, dropout and the order of the batches."""
    grad_accum_steps: int = 1
    """Batches per process whose gradients are accumulated for one optimiser step."""
    precision: Precision = "fp32"
    """The arithmetic of matrix multiplications; ``"auto"`` selects bf16 where that is fast. See
    :data:`tfmr.dtype.Precision`."""
    compile: bool = False
    """Compile the Transformer blocks with :func:`torch.compile`. Compilation takes about a minute.
    It pays off on GPUs, not on CPUs."""
    fsdp: bool = False
    """With several processes, shard weights and optimiser state (FSDP) instead of replicating
    them."""

    def __post_init__(self) -> None:
        require(self.peak_lr > 0, f"peak_lr must be positive: got {self.peak_lr}")
        require(self.warmup >= 1, f"warmup must be at least 1 step: got {self.warmup}")
        require(self.max_grad_norm > 0, f"max_grad_norm must be positive: got {self.max_grad_norm}")
        require(
            self.grad_accum_steps >= 1,
            f"grad_accum_steps must be at least 1: got {self.grad_accum_steps}",
        )
        require(
            self.precision in get_args(Precision),
            f"precision must be one of {', '.join(get_args(Precision))}: got {self.precision!r}",
        )
        require(
            not (self.compile and self.fsdp),
            "compile and fsdp cannot be combined: set one of them to false",
        )
        require(
            all(0 <= beta < 1 for beta in self.betas),
            f"betas must be in [0, 1): got {list(self.betas)}",
        )
        require(self.eps >= 0, f"eps must not be negative: got {self.eps}")
        require(0 <= self.seed < 2**63, f"seed must be between 0 and 2^63 - 1: got {self.seed}")
        for name in ("label_smoothing", "ema_decay"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} must be in [0, 1): got {value}")


@dataclass(frozen=True)
class CheckpointConfig:
    """When a run is saved, and how many checkpoints are averaged: the table ``[checkpoints]``.

    Raises:
        TfmrError: if a value is out of range, or ``average`` and ``average_every`` disagree.
    """

    seconds: float = 60.0
    """Training time between two saves of the run. Each save replaces the one before it."""
    steps: int = 0
    """Steps between two saves; 0 means that ``seconds`` applies."""
    average: int = 0
    """Number of checkpoints whose weights are averaged: the run's model is the mean of the last
    ones (Vaswani et al., 2017, section 6.1), which are kept in the folder ``checkpoints``. 0
    disables averaging. A run uses either this or ``train.ema_decay``."""
    average_every: int = 0
    """Steps between two checkpoints to be averaged."""

    def __post_init__(self) -> None:
        require(
            self.seconds >= 0 and min(self.steps, self.average, self.average_every) >= 0,
            "seconds, steps, average and average_every must not be negative: got "
            f"{self.seconds}, {self.steps}, {self.average} and {self.average_every}",
        )
        require(
            (self.average > 0) == (self.average_every > 0),
            "average and average_every must both be positive, or both 0: got "
            f"average={self.average}, average_every={self.average_every}",
        )


@dataclass(frozen=True)
class EvalConfig:
    """Validation during training and evaluation at its end: the table ``[evaluation]``.

    Raises:
        TfmrError: if a value is out of range, or ``patience`` is set without ``eval_every``.
    """

    eval_every: int = 0
    """Steps between two validations. The run's model is then the one with the best validation
    result. With 0 there is no validation, and the run's model is the last one."""
    metric: Literal["bleu", "loss"] = "bleu"
    """What a validation compares: BLEU of greedy translations, or the loss, which is faster."""
    patience: int = 0
    """Stop training after this many validations in a row without improvement; 0 means never."""
    beam: int = 4
    """Beam size for the evaluation, in addition to greedy decoding; 1 means greedy only."""

    def __post_init__(self) -> None:
        require(
            self.eval_every >= 0 and self.patience >= 0 and self.beam >= 1,
            "expected eval_every >= 0, patience >= 0 and beam >= 1: got "
            f"{self.eval_every}, {self.patience} and {self.beam}",
        )
        require(
            self.eval_every > 0 or self.patience == 0,
            f"patience={self.patience} needs validations: set evaluation.eval_every to the number "
            "of steps between two",
        )


@dataclass(frozen=True)
class Budget:
    """How long to train: the table ``[budget]``.

    Raises:
        TfmrError: unless either ``minutes`` or ``steps`` is given, with positive values.
    """

    minutes: tuple[float, ...] = ()
    """Training times in minutes. The model is evaluated after each; the run ends with the last."""
    steps: tuple[int, ...] = ()
    """Numbers of steps instead of minutes."""

    def __post_init__(self) -> None:
        require(
            bool(self.minutes) != bool(self.steps),
            f"a budget has either minutes or steps: got minutes={list(self.minutes)}, "
            f"steps={list(self.steps)}",
        )
        require(
            all(0 < minutes < 1e6 for minutes in self.minutes),
            f"minutes must be positive and less than a million: got {list(self.minutes)}",
        )
        require(all(steps > 0 for steps in self.steps), f"steps must be positive: got {self.steps}")


@dataclass(frozen=True)
class Recipe:
    """A tokenizer, a model and how to train it.

    Raises:
        TfmrError: if both ways of averaging the weights are enabled.
    """

    about: str = "a custom recipe"
    """A description in one line."""
    corpus: str = "your files"
    """The corpus that the recipe was made for."""
    directions: tuple[str, ...] = ("source-target",)
    """Language pairs of the corpus, the default first."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    model: TranslatorConfig = field(
        default_factory=lambda: TransformerConfig(source_vocab=1, target_vocab=1)
    )
    """The model's configuration: the table ``[model]``, without the sizes of the vocabularies."""
    batches: BatchConfig = field(default_factory=BatchConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    budget: Budget = field(default_factory=lambda: Budget(minutes=(1.0,)))

    def __post_init__(self) -> None:
        require(
            self.train.ema_decay == 0 or self.checkpoints.average == 0,
            "a run averages its weights either by EMA or over checkpoints: got train.ema_decay="
            f"{self.train.ema_decay} and checkpoints.average={self.checkpoints.average}; set one "
            "of them to 0",
        )

    def train_tokenizer(self, corpus: Corpus) -> Tokenizer:
        """One tokenizer for both languages, in the form of the corpus, from the training set."""
        texts = (text for pair in corpus.train for text in pair)
        if self.vocabulary.kind == "words":
            return Tokenizer.words(texts, corpus.form)
        return Tokenizer.train_bpe(texts, self.vocabulary.size, corpus.form)

    def model_config(self, vocab_size: int) -> TranslatorConfig:
        """The model's configuration with a vocabulary of ``vocab_size`` tokens on both sides."""
        values = registry.config_to_dict(self.model)
        sizes = dict.fromkeys(UNKNOWN_VOCABULARY, vocab_size)
        return registry.config_from_dict(values | sizes, "the recipe, [model]")

    def make_batches(self, pairs: Sequence[SentencePair], tokenizer: Tokenizer) -> Batches:
        """Tokenise sentence pairs and group them into batches."""
        sources = tokenizer.encode_batch([source for source, _ in pairs])
        targets = tokenizer.encode_batch([target for _, target in pairs])
        return self.make_batches_from_ids(list(zip(sources, targets, strict=True)))

    def make_batches_from_ids(self, pairs: Sequence[IdPair]) -> Batches:
        """Group pairs of token ids, from a list or a token file, into batches."""
        return Batches(pairs, self.batches.tokens_per_batch, self.train.seed, self.model.max_length)

    def to_dict(self) -> dict[str, Any]:
        """All values of the recipe, as in its TOML file."""
        values: dict[str, Any] = registry.unstructure(self)
        for name in UNKNOWN_VOCABULARY:
            del values["model"][name]
        return values

    def to_toml(self) -> str:
        """The recipe as the text of a TOML file, with all defaults written out."""
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the recipe") -> "Recipe":
        """The inverse of :meth:`to_dict`; missing values take their defaults.

        Args:
            values: the parsed TOML file. A ``model`` without ``kind`` is a Transformer.
            where: the origin of the values, for error messages.

        Raises:
            TfmrError: if a key is unknown or a value is invalid.
        """
        values = dict(values)
        if isinstance(model := values.get("model"), Mapping):
            for name in UNKNOWN_VOCABULARY:
                require(
                    name not in model,
                    f"{where}: model.{name} is set by the tokenizer: remove it",
                )
            values["model"] = {"kind": "transformer", **model, **UNKNOWN_VOCABULARY}
        return registry.structure(cls, values, where)

    def with_overrides(self, overrides: Mapping[str, Any]) -> "Recipe":
        """A copy with some values replaced, each named as in ``"train.seed"``.

        Raises:
            TfmrError: if there is no such value, or the new value is invalid.
        """
        values = self.to_dict()
        tables = [name for name, value in values.items() if isinstance(value, dict)]
        for name, value in overrides.items():
            table, _, key = name.partition(".")
            require(
                bool(key) and table in tables,
                f"a recipe has no value {name!r}: expected TABLE.NAME, as in train.peak_lr, with "
                f"one of the tables {', '.join(tables)}",
            )
            values[table][key] = value
        return Recipe.from_dict(values)

    def training_flops(self, parameters: int, steps: int) -> float:
        r"""Estimated floating-point operations of ``steps`` steps with full batches.

        :math:`6 \times` parameters :math:`\times` tokens of one side: every weight costs a
        multiplication and an addition per token in the forward pass, and twice as many operations
        in the backward pass. Encoder weights apply to source tokens, decoder and output weights to
        target tokens; a full batch has equally many of each. A three-way tied embedding is
        counted once, as the output projection. The products of queries and keys, and of attention
        weights and values, are left out.
        """
        tokens = self.batches.tokens_per_batch * self.train.grad_accum_steps
        return 6.0 * parameters * tokens * steps


def recipe_names() -> list[str]:
    """The names of the package's recipes. A corpus is trained with the recipe of its name."""
    return sorted(path.stem for path in RECIPE_DIR.glob("*.toml"))


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Parse the recipe in a TOML file.

    Raises:
        TfmrError: if the file cannot be read, is not valid TOML, or is not a valid recipe.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TfmrError(f"cannot read the recipe {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also from undecodable bytes, deep brackets
        raise TfmrError(f"the recipe {path} is not valid TOML: {error}") from error
    return Recipe.from_dict(values, where=path.name)


def find_recipe(name: str) -> Recipe:
    """The package's recipe of this name, or the recipe in the TOML file at this path.

    Raises:
        TfmrError: if there is neither, or the file is invalid.
    """
    names = recipe_names()
    if name in names:
        return read_recipe(RECIPE_DIR / f"{name}.toml")
    require(
        name.endswith(".toml") or Path(name).is_file(),
        f"no recipe named {name!r}: expected one of {', '.join(names)}, or the path of a TOML "
        "file, ending in .toml",
    )
    return read_recipe(name)
