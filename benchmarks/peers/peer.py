"""The interface of a peer: it trains on the same batches and translates with its own search."""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.config import TransformerConfig
from tfmr.data.batches import Batch
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.translator import Translator

TOLERANCE = 1e-3
"""The largest difference, by rounding, of two systems' hidden states, whose values are about 1."""


class Peer(Translator):
    """Another implementation of one of tfmr's models, with its own initial weights.

    A subclass is constructed from ``(config, dropout)``. Embeddings and output projection share one
    matrix, positions are sinusoidal, and dropout is applied to the embeddings and to the output of
    every sublayer, all as in the paper.
    """

    title: ClassVar[str]
    """Its name in a table."""
    searches: ClassVar[tuple[str, ...]] = ()
    """Its own batched searches: ``"greedy"``, ``"beam"``. If empty, tfmr's searches are used."""
    bf16_weights: ClassVar[bool] = True
    """Whether it decodes in bf16 with its weights converted; otherwise under ``torch.autocast``."""
    config: TransformerConfig

    def count_parameters(self) -> int:
        """The number of trainable parameters, without fixed position tables."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def surplus(self) -> int:
        """Its number of parameters minus that of tfmr's model; a subclass gives the reason."""
        return 0

    def check_size(self) -> None:
        """Raise :class:`TfmrError` unless it has the expected number of parameters."""
        own = Transformer(self.config).count_parameters()
        expected, found = own + self.surplus(), self.count_parameters()
        require(
            found == expected,
            f"{self.title}: expected {expected} parameters (tfmr's {own} and {self.surplus():+d}), "
            f"got {found}: it is not the same model",
        )

    def load_weights(self, own: Transformer) -> Int[Tensor, "d_model"] | slice:
        """Copy the weights of an untrained ``own``, whose biases are 0 and norm weights are 1.

        Returns:
            For each dimension of the peer's hidden states, the dimension of ``own``.
        """
        raise NotImplementedError

    @torch.no_grad()
    def check_agreement(self, batch: Batch) -> None:
        """Raise :class:`TfmrError` unless it computes tfmr's hidden states from tfmr's weights.

        This overwrites the peer's weights.
        """
        own = Transformer(self.config).eval()
        order = self.load_weights(own)
        expected = own.hidden(batch.source, batch.target_in)[..., order]
        error = float((self.eval().hidden(batch.source, batch.target_in) - expected).abs().max())
        require(
            error < TOLERANCE,
            f"{self.title}: expected tfmr's hidden states from tfmr's weights, within {TOLERANCE}: "
            f"they differ by up to {error:.3g}",
        )

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """Generate exactly ``steps`` tokens per sentence with its own search, greedy if ``beam``
        is 1.
        """
        raise NotImplementedError


def selected_rows(sentences: Int[Tensor, "selected"], beam: int) -> Int[Tensor, "rows"]:
    """All rows of these sentences in a state with ``beam`` rows per sentence."""
    return parent_rows(
        torch.arange(beam, device=sentences.device).repeat(len(sentences), 1), sentences
    )


def parent_rows(
    parents: Int[Tensor, "sentences beam"], sentences: Int[Tensor, "sentences"] | None = None
) -> Int[Tensor, "rows"]:
    """The rows of the hypotheses ``parents``, which are counted within their sentence."""
    number, beam = parents.shape
    if sentences is None:
        sentences = torch.arange(number, device=parents.device)
    return (sentences[:, None] * beam + parents).flatten()


def attentions(block: Any) -> list[Any]:
    """The attention modules of one of tfmr's blocks, in the order of the forward pass."""
    names = ("attention", "self_attention", "cross_attention")
    return [getattr(block, name) for name in names if hasattr(block, name)]


@torch.no_grad()
def copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy the second tensor of each pair into the first."""
    for theirs, ours in pairs:
        theirs.copy_(ours)
