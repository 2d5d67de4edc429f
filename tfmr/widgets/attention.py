"""Attention as a bench: change vectors or dot products, and observe every step."""

import math
from collections.abc import Sequence

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.attention import causal_mask, scaled_dot_product_attention
from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure


def _rows(name: str, matrix: Tensor | Sequence[Sequence[float]], length: int) -> list[list[float]]:
    """``matrix`` as lists, one row per token, rounded to three decimal places."""
    try:
        tensor = torch.as_tensor(matrix, dtype=torch.float64)
    except (TypeError, ValueError):
        tensor = torch.empty(0)
    require(
        tensor.dim() == 2 and tensor.shape[0] == length and tensor.shape[1] > 0,
        f"{name} must have one row for each of the {length} tokens, all of the same size: "
        f"got shape {tuple(tensor.shape)}",
    )
    require(bool(tensor.isfinite().all()), f"{name} must be finite: got inf or nan")
    rows: list[list[float]] = [[round(float(number), 3) for number in row] for row in tensor]
    return rows


class AttentionFigure(LiveFigure):
    r"""Scaled dot-product attention of a short sentence, with the arithmetic of every number.

    The figure shows the steps for the ``selected`` query (dot products, division by
    :math:`\sqrt{d_k}`, mask, softmax, weighted sum) and the attention weights of all queries. The
    traits ``selected``, ``causal``, ``scaled``, ``q``, ``k``, ``v`` and ``dot_products`` are
    synchronised with Python. If ``dot_products`` is not ``None``, it replaces the products of
    queries and keys. Vaswani et al. (2017), section 3.2.1.

    Args:
        tokens: at most 12 tokens.
        q: the queries ``(length, d_k)``, a tensor or lists.
        k: the keys ``(length, d_k)``.
        v: the values ``(length, d_v)``.
        selected: index of the token whose query is shown first.
        causal: whether the causal mask is applied.
        scaled: whether dot products are divided by :math:`\sqrt{d_k}`.

    Raises:
        TfmrError: if the sizes do not match, a number is not finite, or ``selected`` is out of
            range.
    """

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    q = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    k = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    v = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    dot_products = traitlets.List(
        traitlets.List(traitlets.Float()), allow_none=True, default_value=None
    )
    dot_products.tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    scaled = traitlets.Bool().tag(sync=True)
    selected = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        q: Tensor | Sequence[Sequence[float]],
        k: Tensor | Sequence[Sequence[float]],
        v: Tensor | Sequence[Sequence[float]],
        *,
        selected: int = 0,
        causal: bool = False,
        scaled: bool = True,
    ) -> None:
        length = len(tokens)
        require(0 < length <= 12, f"the figure takes 1 to 12 tokens: got {length}")
        require(
            0 <= selected < length,
            f"selected must be the index of a token, 0 to {length - 1}: got {selected}",
        )
        queries, keys = _rows("q", q, length), _rows("k", k, length)
        require(
            len(queries[0]) == len(keys[0]),
            f"queries and keys must have the same d_k: got {len(queries[0])} and {len(keys[0])}",
        )
        super().__init__(
            tokens=list(tokens),
            q=queries,
            k=keys,
            v=_rows("v", v, length),
            selected=selected,
            causal=causal,
            scaled=scaled,
        )

    def weights(self) -> Float[Tensor, "query key"]:
        """The current attention weights, computed by :mod:`tfmr.attention`."""
        q, k, v = (torch.tensor(rows) for rows in (self.q, self.k, self.v))
        mask = causal_mask(len(self.tokens)) if self.causal else None
        root = math.sqrt(q.shape[1])
        if self.dot_products is not None:
            # The identity as keys makes the rows of the dot products the queries.
            length = len(self.tokens)
            q = torch.tensor(self.dot_products) * (math.sqrt(length) / root)
            k = torch.eye(length)
        if not self.scaled:
            q = q * root
        return scaled_dot_product_attention(q, k, v, mask)[1]

    def output(self) -> Float[Tensor, "query d_v"]:
        """The current output: the weighted sums of the values."""
        return self.weights() @ torch.tensor(self.v)

    def summary(self) -> str:
        """The sentence that it shows."""
        return f"attention over “{' '.join(self.tokens)}”, step by step."
