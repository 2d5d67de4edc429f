"""Which tokens an output depends on: the masks of the families, and paths through blocks."""

import torch
import traitlets
from jaxtyping import Bool
from torch import Tensor

from tfmr.attention import causal_mask
from tfmr.errors import require
from tfmr.local_attention import local_attention_mask
from tfmr.widgets.figure import LiveFigure

TOKENS = ("a", "b", "c", "x", "y", "z")
SOURCE = 3
"""How many of the tokens are the source text of the encoder–decoder; the others are its target."""
RADIUS = 1
"""In the local decoder, a token attends to itself and to this many tokens before it."""
BLOCKS = 4
"""The largest number of blocks."""


def family_masks() -> dict[str, Bool[Tensor, "query key"]]:
    """The attention mask of each family over the tokens.

    The mask of the encoder–decoder consists of the self-attention of the encoder (upper left), the
    cross-attention (lower left) and the self-attention of the decoder (lower right).
    """
    length = len(TOKENS)
    both = causal_mask(length)
    both[:, :SOURCE] = True
    return {
        "encoder only": torch.ones(length, length, dtype=torch.bool),
        "decoder only": causal_mask(length),
        "encoder–decoder": both,
        "local decoder": local_attention_mask(length, RADIUS, causal=True),
    }


FAMILIES = tuple(family_masks())


class DependenceFigure(LiveFigure):
    """The mask of a family, and the tokens that an output depends on through 1 to 4 blocks.

    Args:
        family: one of :data:`FAMILIES`.
        position: of the output, from 0.

    Raises:
        TfmrError: if an argument is out of range.
    """

    tokens = traitlets.List(traitlets.Unicode(), list(TOKENS)).tag(sync=True)
    masks = traitlets.Dict().tag(sync=True)
    """The :func:`family_masks` as rows of 0 and 1."""
    blocks = traitlets.Int(BLOCKS).tag(sync=True)
    family = traitlets.Enum(FAMILIES).tag(sync=True)
    position = traitlets.Int().tag(sync=True)

    def __init__(self, *, family: str = "decoder only", position: int = 4) -> None:
        require(family in FAMILIES, f"family must be one of {', '.join(FAMILIES)}: got {family}")
        masks = {name: mask.int().tolist() for name, mask in family_masks().items()}
        super().__init__(masks=masks, family=family, position=position)

    @traitlets.validate("position")
    def _check_position(self, proposal: traitlets.Bunch) -> int:
        position: int = proposal["value"]
        require(
            0 <= position < len(TOKENS),
            f"position must be from 0 to {len(TOKENS) - 1}: got {position}",
        )
        return position

    def depends(self) -> Bool[Tensor, "block key"]:
        """Whether the output depends on each token, through one block, two, and so on.

        A path through two blocks leads from the output to a token that the mask permits, and from
        there to another.
        """
        mask = family_masks()[self.family].int()
        found = [mask[self.position]]
        while len(found) < BLOCKS:
            found.append((found[-1] @ mask).clamp(max=1))
        return torch.stack(found).bool()

    def summary(self) -> str:
        """The tokens that the output depends on, through one block and through all."""
        first, *_, last = (
            " ".join(token for token, use in zip(TOKENS, row, strict=True) if use)
            for row in self.depends().tolist()
        )
        permitted = int(family_masks()[self.family].sum())
        return (
            "the tokens on which an output can depend, given the mask of a model and the number of"
            f" blocks. The mask “{self.family}” permits {permitted} of {len(TOKENS) ** 2} pairs;"
            f" through 1 block, the output at {TOKENS[self.position]} depends on {first}; through"
            f" {BLOCKS}, on {last}."
        )
