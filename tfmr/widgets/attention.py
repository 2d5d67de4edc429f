"""Self-attention to touch: pick a query, change its numbers, and see the weights move."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.attention import causal_mask, scaled_dot_product_attention
from tfmr.errors import require

HERE = Path(__file__).parent


def _rows(name: str, matrix: Tensor | Sequence[Sequence[float]], length: int) -> list[list[float]]:
    """``matrix`` as lists, one row a token, rounded to thousandths."""
    try:
        given = torch.as_tensor(matrix, dtype=torch.float64)
    except (TypeError, ValueError):
        given = torch.empty(0)
    require(
        given.dim() == 2 and given.shape[0] == length and given.shape[1] > 0,
        f"{name} must have one row for each of the {length} tokens, all of one width: "
        f"got shape {tuple(given.shape)}",
    )
    require(bool(given.isfinite().all()), f"{name} must hold finite numbers only: found inf or nan")
    rows: list[list[float]] = [[round(float(number), 3) for number in row] for row in given]
    return rows


class AttentionFigure(anywidget.AnyWidget):
    r"""Scaled dot-product attention of a short sentence, one query at a time.

    The figure shows the four steps for the ``selected`` query (dot products, division by
    :math:`\sqrt{d_k}`, softmax, weighted sum) and the weights of all queries beside it. What a
    reader changes is seen in Python: ``selected``, ``causal``, ``scaled``, ``q`` and ``k`` are
    synchronised. Vaswani et al. (2017), section 3.2.1.

    Args:
        tokens: the words, at most 12.
        q: the queries ``(length, d_k)``, a tensor or lists.
        k: the keys ``(length, d_k)``.
        v: the values ``(length, d_v)``.
        selected: the token whose query is shown first.
        causal: whether a query may read its own and earlier tokens only.
        scaled: whether scores are divided by :math:`\sqrt{d_k}`.

    Raises:
        TfmrError: if the sizes do not fit each other, a number is not finite, or ``selected`` is
            no token.
    """

    _esm = HERE / "attention.js"
    _css = HERE / "attention.css"

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    q = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    k = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    v = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    d_k = traitlets.Int().tag(sync=True)
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
        require(0 < length <= 12, f"the figure has room for 1 to 12 tokens: got {length}")
        require(
            0 <= selected < length,
            f"selected is the position of a token, counted from 0, so below {length}: "
            f"got {selected}",
        )
        queries, keys = _rows("q", q, length), _rows("k", k, length)
        d_k = len(queries[0])
        require(
            d_k == len(keys[0]),
            f"a query is compared with a key, so both need the same d_k: "
            f"got {d_k} and {len(keys[0])}",
        )
        super().__init__(
            tokens=list(tokens),
            q=queries,
            k=keys,
            v=_rows("v", v, length),
            d_k=d_k,
            selected=selected,
            causal=causal,
            scaled=scaled,
        )

    def weights(self) -> Float[Tensor, "query key"]:
        """The weights ``(query, key)`` of the figure as it stands, computed by the package."""
        q, k, v = (torch.tensor(rows) for rows in (self.q, self.k, self.v))
        mask = causal_mask(len(self.tokens)) if self.causal else None
        if not self.scaled:
            q = q * math.sqrt(self.d_k)
        return scaled_dot_product_attention(q, k, v, mask)[1]

    def __repr__(self) -> str:
        sentence = " ".join(self.tokens)
        return f"A live figure: self-attention over “{sentence}”, one query at a time."

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """What a notebook stores: the view, and a sentence for who cannot run it."""
        made = super()._repr_mimebundle_(**kwargs)
        data, metadata = made if isinstance(made, tuple) else (made, {})
        return {**(data or {}), "text/plain": repr(self)}, metadata
