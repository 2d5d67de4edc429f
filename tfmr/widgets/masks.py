"""Masks: which keys a query may attend to, and which outputs leak when a mask is wrong."""

import math
from collections.abc import Sequence

import torch
import traitlets
from jaxtyping import Bool, Float
from torch import Tensor

from tfmr.attention import causal_mask, combine_masks, padding_mask
from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure

PAD_TOKEN = "<pad>"
CAUSAL = ("none", "causal", "off by one", "transposed")
PADDING = ("none", "padding", "opposite")
STACKS = ("encoder", "decoder")
D_K = 4


class MasksFigure(LiveFigure):
    """Self-attention with correct and wrong masks, and a test for leaks.

    One token is replaced by another, and the figure shows which outputs change. In a decoder, only
    the outputs at this and later positions may change. If the token is padding, no output of a real
    token may change in either stack. Queries, keys and values are random numbers. Vaswani et al.
    (2017), section 3.2.3.

    Args:
        tokens: 3 to 8 tokens; the last ones may be ``"<pad>"``.
        stack: ``"encoder"`` or ``"decoder"``.
        causal: ``"none"``, ``"causal"``, or a wrong mask: ``"off by one"`` or ``"transposed"``.
        padding: ``"none"``, ``"padding"``, or the wrong convention, ``"opposite"``.
        replaced: position of the token that is replaced.
        seed: of the random numbers.

    Raises:
        TfmrError: if an argument is out of range, or padding stands before a token.
    """

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    stack = traitlets.Enum(STACKS).tag(sync=True)
    causal = traitlets.Enum(CAUSAL).tag(sync=True)
    padding = traitlets.Enum(PADDING).tag(sync=True)
    replaced = traitlets.Int().tag(sync=True)
    vectors = traitlets.Dict().tag(sync=True)
    """The lists ``q``, ``k`` and ``v``, a row per token and one more for the replacement."""

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        stack: str = "decoder",
        causal: str = "causal",
        padding: str = "padding",
        replaced: int = 2,
        seed: int = 0,
    ) -> None:
        length = len(tokens)
        real = sum(token != PAD_TOKEN for token in tokens)
        require(3 <= length <= 8, f"the figure takes 3 to 8 tokens: got {length}")
        require(
            real > 0 and PAD_TOKEN not in tokens[:real],
            f"{PAD_TOKEN} must come after all other tokens: got {' '.join(tokens)}",
        )
        require(
            0 <= replaced < length,
            f"replaced must be a position, 0 to {length - 1}: got {replaced}",
        )
        for name, value, allowed in (
            ("stack", stack, STACKS), ("causal", causal, CAUSAL), ("padding", padding, PADDING),
        ):  # fmt: skip
            require(value in allowed, f"{name} must be one of {', '.join(allowed)}: got {value}")
        random = torch.randn(3, length + 1, D_K, generator=torch.Generator().manual_seed(seed))
        rows = [[[round(float(n), 2) for n in row] for row in matrix] for matrix in random]
        super().__init__(
            tokens=list(tokens), stack=stack, causal=causal, padding=padding, replaced=replaced,
            vectors=dict(zip("qkv", rows, strict=True)),
        )  # fmt: skip

    def mask(self) -> Bool[Tensor, "query key"]:
        """The current mask, which may be wrong."""
        length = len(self.tokens)
        ones = torch.ones(length, length, dtype=torch.bool)
        ids = torch.tensor([[int(token != PAD_TOKEN) for token in self.tokens]])
        keep = padding_mask(ids)[0, 0]
        causal = {
            "none": ones,
            "causal": causal_mask(length),
            "off by one": ones.tril(diagonal=1),
            "transposed": causal_mask(length).T,
        }[self.causal]
        padding = {"none": ones, "padding": keep, "opposite": ~keep}[self.padding]
        combined = combine_masks(causal, padding)
        assert combined is not None
        return combined

    def weights(self, *, replace: bool = False) -> Float[Tensor, "query key"]:
        """The attention weights; a row in which every key is hidden is NaN."""
        q, k = self._matrix("q", replace), self._matrix("k", replace)
        scores = (q @ k.T / math.sqrt(D_K)).masked_fill(~self.mask(), -math.inf)
        return scores.softmax(dim=-1)

    def changes(self) -> Float[Tensor, " query"]:
        """The distance that each output moves when the token is replaced."""
        before = self.weights() @ self._matrix("v", False)
        after = self.weights(replace=True) @ self._matrix("v", True)
        moved: Tensor = (after - before).norm(dim=-1)
        return moved

    def _matrix(self, name: str, replace: bool) -> Float[Tensor, "token d_k"]:
        rows: Tensor = torch.tensor(self.vectors[name], dtype=torch.float64)
        if replace:
            rows[self.replaced] = rows[-1]
        return rows[: len(self.tokens)]

    def summary(self) -> str:
        """The sentence that it shows."""
        return f"masks in self-attention over “{' '.join(self.tokens)}”, and what leaks."
