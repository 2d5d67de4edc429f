"""What a peer must do to be compared: train on our batches, translate by its own means."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.data.batches import Batch
from tfmr.errors import require
from tfmr.model import Transformer, TransformerConfig
from tfmr.translator import Translator

CLOSE = 1e-3
"""How far two systems' vectors, whose numbers are of size one, may differ by rounding."""

Sites = Literal["paper", "own"]
"""Where dropout stands: where the paper has it, the embeddings and the output of every sublayer;
or wherever a system puts it when it is asked for dropout and nothing more is said."""


class Peer(Translator):
    """Another system in the sizes of one of tfmr's models, its weights those of its own start.

    A subclass builds itself from ``(config, dropout, sites)``. All embeddings are one matrix with
    the output projection, and positions are sinusoids, as in the paper.
    """

    title: ClassVar[str]
    """What it is called in a table."""
    searches: ClassVar[tuple[str, ...]] = ()
    """Which searches it has of its own for many sentences at once: ``"greedy"``, ``"beam"``."""
    config: TransformerConfig

    def count_parameters(self) -> int:
        """The number of trained numbers; a table of positions that stays as it is has none."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def surplus(self) -> int:
        """How many parameters more than tfmr's own model it has, for a reason said there."""
        return 0

    def check_size(self) -> None:
        """Raise :class:`TfmrError` unless it is the same model, down to the last parameter."""
        own = Transformer(self.config).count_parameters()
        expected, found = own + self.surplus(), self.count_parameters()
        require(
            found == expected,
            f"{self.title} should have {expected} parameters, tfmr's {own} and {self.surplus():+d}:"
            f" it has {found}, so it is not the same model",
        )

    def adopt(self, own: Transformer) -> Int[Tensor, "d_model"] | slice:
        """Take the weights of a freshly made ``own``, whose biases are zeros and gains ones.

        Returns:
            Which dimension of ``own`` each of the peer's is.
        """
        raise NotImplementedError

    @torch.no_grad()
    def check_agreement(self, batch: Batch) -> None:
        """Raise :class:`TfmrError` unless it computes what tfmr does, given tfmr's weights.

        It keeps the weights, so this is for a peer that is not needed afterwards.
        """
        own = Transformer(self.config).eval()
        order = self.adopt(own)
        expected = own.hidden(batch.source, batch.target_in)[..., order]
        far = float((self.eval().hidden(batch.source, batch.target_in) - expected).abs().max())
        require(
            far < CLOSE,
            f"{self.title} computes something else: with tfmr's weights its vectors are up to "
            f"{far:.3g} away from tfmr's, and {CLOSE} is allowed",
        )

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """Say exactly ``steps`` tokens of each translation by its own means, greedy if ``beam`` is
        1.
        """
        raise NotImplementedError


def rows_kept(sentences: Int[Tensor, "kept"], beam: int) -> Int[Tensor, "rows"]:
    """All rows of these sentences, in a state that has ``beam`` of them for each."""
    return rows_of(torch.arange(beam, device=sentences.device).repeat(len(sentences), 1), sentences)


def rows_of(
    parents: Int[Tensor, "sentences beam"], sentences: Int[Tensor, "sentences"] | None = None
) -> Int[Tensor, "rows"]:
    """The rows of the hypotheses ``parents``, each counted within its sentence."""
    number, beam = parents.shape
    if sentences is None:
        sentences = torch.arange(number, device=parents.device)
    return (sentences[:, None] * beam + parents).flatten()


def attentions(block: Any) -> list[Any]:
    """The attentions of one of tfmr's blocks, in the order in which they are read."""
    names = ("attention", "self_attention", "cross_attention")
    return [getattr(block, name) for name in names if hasattr(block, name)]


@torch.no_grad()
def copy(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy the second tensor of every pair into the first."""
    for theirs, ours in pairs:
        theirs.copy_(ours)
