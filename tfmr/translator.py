"""What training and decoding ask of a model, whatever is inside it: a Transformer or an RNN."""

import dataclasses
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from tfmr.errors import TfmrError, require


@runtime_checkable
class TranslatorConfig(Protocol):
    """The sizes that every translating model has."""

    @property
    def source_vocab(self) -> int:
        """Number of source tokens, special ones included."""

    @property
    def target_vocab(self) -> int:
        """Number of target tokens, special ones included."""

    @property
    def max_length(self) -> int:
        """The longest sentence, source or target, in tokens."""


@runtime_checkable
class DecoderState(Protocol):
    """What a model keeps between two tokens of a batch of translations.

    It has a row for each hypothesis: ``beam`` rows for the first sentence, then as many for the
    second, and so on. Without a beam that is one row per sentence.
    """

    def select(self, sentences: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences only, in this order, all their hypotheses with them."""

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Let hypothesis ``j`` of sentence ``i`` continue what its hypothesis ``parents[i, j]``
        has said; ``parents`` counts from 0 to ``beam - 1`` within the sentence.
        """


@runtime_checkable
class IncrementalTranslator(Protocol):
    """What every search takes: a model that scores one next token per hypothesis and step."""

    @property
    def config(self) -> TranslatorConfig:
        """Vocabulary sizes and maximum length."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """Encode the source and return the decoder state before the first token."""

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append ``tokens`` to the prefixes and return the scores of the next tokens."""

    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """The attention weight of each source token for each target token."""


class Translator(nn.Module):
    """A model that scores each next token of a translation.

    A subclass has ``config``, the ``output`` projection from its last vectors to scores, and the
    methods that raise :class:`NotImplementedError` here.
    """

    config: TranslatorConfig
    output: nn.Linear

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The vector at each target position that :meth:`scores` turns into next-token scores.

        Args:
            source: ids of the sentence to translate, padded with ``PAD``.
            target: ids of its translation, shifted right: ``BOS`` first, the last token left out.

        Raises:
            TfmrError: if the batches differ, an id is outside its vocabulary, a sentence is empty
                or too long.
        """
        raise NotImplementedError

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """Read the source; be ready to say at most ``max_new_tokens`` tokens of each hypothesis.

        Raises:
            TfmrError: if an id is outside the vocabulary, or a sentence is empty or too long.
        """
        raise NotImplementedError

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Say ``tokens``, one per row of the ``state``; the scores of what may come next.

        They are the caller's, who may write into them, and may be of half precision.
        """
        raise NotImplementedError

    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """How much of each source token is read to predict the token after each of ``target``.

        Raises:
            TfmrError: as :meth:`hidden`, or if the model does not look back at the source.
        """
        raise NotImplementedError

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Scores (logits) for the token after each position of ``target`` (teacher forcing).

        Raises:
            TfmrError: as :meth:`hidden`.
        """
        return self.scores(self.hidden(source, target))

    def scores(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """One score (logit) per target token; their softmax is the model's prediction."""
        logits: Tensor = self.output(x)
        return logits

    def count_parameters(self) -> int:
        """The number of trained numbers, a tied matrix counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


def check_pairs(source: Int[Tensor, "..."], target: Int[Tensor, "..."]) -> None:
    """Raise :class:`TfmrError` unless both are batches, with a target for each source."""
    for side, ids in (("source", source), ("target", target)):
        check_batch(ids, side)
    if len(source) != len(target):
        raise TfmrError(
            f"a batch pairs each source with its target: got {len(source)} sources "
            f"{tuple(source.shape)} and {len(target)} targets {tuple(target.shape)}"
        )


def check_batch(ids: Int[Tensor, "..."], side: str) -> None:
    """Raise :class:`TfmrError` unless ``ids`` are ``(batch, length)``; ``side`` names them."""
    require(
        ids.dim() == 2,
        f"a batch of {side} ids is (batch, length): got {tuple(ids.shape)}; a single sentence "
        "becomes one by ids.unsqueeze(0)",
    )


def embed(
    embedding: nn.Embedding, ids: Int[Tensor, "batch length"], side: str, end: int, longest: int
) -> Float[Tensor, "batch length d_model"]:
    """The vectors of ``ids``, or an error that says why there are none.

    Args:
        embedding: one row per token.
        ids: the tokens.
        side: ``"source"`` or ``"target"``, for the message.
        end: the position after the last of them.
        longest: the most positions that the model has.

    Raises:
        TfmrError: if ``end`` is greater than ``longest`` or an id has no row. (A GPU finds the
            latter itself, and says so in its own words: to ask first would mean to wait for it.)
    """
    require(
        end <= longest,
        f"the model reads at most max_length={longest} {side} tokens: got {end}; shorten the "
        "sentence or train with a larger max_length",
    )
    try:
        return F.embedding(ids, embedding.weight)
    except IndexError as error:
        raise TfmrError(
            f"{side} ids must lie in 0..{embedding.num_embeddings - 1}: got {int(ids.min())}.."
            f"{int(ids.max())}; was the text encoded with another vocabulary?"
        ) from error


C = TypeVar("C")


def config_from_dict(cls: type[C], values: dict[str, Any]) -> C:
    """The inverse of :func:`dataclasses.asdict` for the configuration ``cls`` of a model.

    Raises:
        TfmrError: if a name is unknown or a needed one is missing, or a value is out of range.
    """
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    missing = sorted({"source_vocab", "target_vocab"} - set(values))
    require(
        not unknown and not missing,
        f"a model's configuration has the names {', '.join(sorted(known))}: got unknown "
        f"{unknown}, missing {missing}; was it written by another version of tfmr?",
    )
    try:
        return cls(**values)
    except TypeError as error:
        raise TfmrError(f"a model's configuration has a value of a wrong type: {error}") from error
