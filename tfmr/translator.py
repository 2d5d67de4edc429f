"""The interface of translation models, shared by the Transformer and the recurrent models."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

TRAINING_STATE = "state."
"""In a checkpoint file, the prefix of the names of tensors that only training needs."""


@runtime_checkable
class TranslatorConfig(Protocol):
    """The hyperparameters that every translation model has."""

    @property
    def source_vocab(self) -> int:
        """Number of source tokens, special tokens included."""

    @property
    def target_vocab(self) -> int:
        """Number of target tokens, special tokens included."""

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a sentence, source or target."""


@runtime_checkable
class DecoderState(Protocol):
    """The state of incremental decoding between two steps.

    It has one row per hypothesis: ``beam`` rows for the first sentence, then ``beam`` rows for the
    second, and so on. Without a beam there is one row per sentence.
    """

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences only, in this order, with all their hypotheses."""

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Continue hypothesis ``j`` of sentence ``i`` from its hypothesis ``parents[i, j]``.

        ``parents`` counts from 0 to ``beam - 1`` within the sentence.
        """


class RowState:
    """A :class:`DecoderState` in which every hypothesis has its own row in every tensor."""

    beam: int
    """Rows per sentence."""

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """See :meth:`DecoderState.select`."""
        hypotheses = torch.arange(self.beam, device=sentences.device)
        self.select_rows((sentences[:, None] * self.beam + hypotheses).flatten())

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """See :meth:`DecoderState.reorder`."""
        sentences = torch.arange(len(parents), device=parents.device)
        self.select_rows((sentences[:, None] * self.beam + parents).flatten())

    def select_rows(self, rows: Int[Tensor, "rows"]) -> None:
        """Replace the rows of every tensor by these, in this order; a row may be repeated."""
        raise NotImplementedError


@runtime_checkable
class IncrementalModel(Protocol):
    """A model that decodes one token per step: what all searches of ``tfmr.decode`` need.

    Every :class:`Translator` implements it, and so do the result of
    :func:`tfmr.fast.decoder.prepare`, :class:`tfmr.family.t5.T5` and
    :class:`tfmr.family.language_model.LanguageModel`.
    """

    training: bool
    """Whether the model is in training mode; searches need evaluation mode."""

    @property
    def device(self) -> torch.device:
        """The device on which the model computes, and on which ids must be."""

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """See :meth:`Translator.start`."""

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """See :meth:`Translator.step`."""


@runtime_checkable
class IncrementalTranslator(IncrementalModel, Protocol):
    """An :class:`IncrementalModel` that translates sentences of limited length."""

    @property
    def config(self) -> TranslatorConfig:
        """The hyperparameters."""

    def alignment(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target source"]:
        """See :meth:`Translator.alignment`."""

    def count_parameters(self) -> int:
        """The number of trained parameters; a tied matrix counts once."""


class Translator(nn.Module):
    """A model that predicts each next token of a translation.

    A subclass has ``config`` and the ``output`` projection from its hidden vectors to logits, and
    defines the methods that raise :class:`NotImplementedError` here.
    """

    config: TranslatorConfig
    output: nn.Linear

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.output.weight.device

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The hidden vector at each target position, which :meth:`scores` maps to logits.

        Args:
            source: ids of the source sentence, padded with ``PAD``.
            target: ids of its translation, shifted right: ``BOS`` first, the last token omitted.

        Raises:
            TfmrError: if the batch sizes differ, an id is outside its vocabulary, or a sentence is
                empty or too long.
        """
        raise NotImplementedError

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """Encode the source for incremental decoding of up to ``max_new_tokens`` tokens.

        Raises:
            TfmrError: if an argument has the wrong shape or is out of range, an id is outside the
                vocabulary, or a sentence is empty or too long.
        """
        raise NotImplementedError

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append one token to each row of ``state``; return the logits of the next token.

        The caller owns the logits and may change them in place. They may be in half precision.
        """
        raise NotImplementedError

    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """The attention weight of each source token in the prediction after each target token.

        Raises:
            TfmrError: as :meth:`hidden`, or if the model has no cross-attention.
        """
        raise NotImplementedError

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each position of ``target`` (teacher forcing).

        Raises:
            TfmrError: as :meth:`hidden`.
        """
        return self.scores(self.hidden(source, target))

    def scores(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """One logit per token of the target vocabulary; their softmax is the prediction."""
        logits: Tensor = self.output(x)
        return logits

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As :meth:`torch.nn.Module.load_state_dict`, also for the tensors of a checkpoint file.

        A file has a tied matrix under one of its names only; the others are filled in. If it has
        the state of a training run (:data:`TRAINING_STATE`), that part is not used.
        """
        tensors = {n: t for n, t in state_dict.items() if not n.startswith(TRAINING_STATE)}
        names: dict[nn.Parameter, list[str]] = {}
        for name, parameter in self.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        for tied in names.values():
            given = [tensors[name] for name in tied if name in tensors]
            tensors |= dict.fromkeys(set(tied) - set(tensors), given[0]) if given else {}
        return super().load_state_dict(tensors, strict, assign)

    def count_parameters(self) -> int:
        """The number of trained parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
