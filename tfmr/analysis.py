"""Looking inside: attention maps of any model, the size of its gradients and activations, and what
it says when a part of it is taken away.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention
from tfmr.errors import require
from tfmr.layers import FeedForward


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record every attention map of ``model`` while the ``with`` block runs.

    Yields:
        For each multi-head attention, by its name in the model (such as
        ``"decoder.blocks.0.cross_attention"``), the maps ``(batch, heads, query, key)`` of its
        calls, in order.

    Raises:
        TfmrError: if the model has no multi-head attention.

    >>> block = MultiHeadAttention(8, 2)
    >>> with record_attention(nn.ModuleDict({"only": block})) as maps:
    ...     _ = block(torch.zeros(1, 3, 8))
    >>> [tuple(weights.shape) for weights in maps["only"]]
    [(1, 2, 3, 3)]
    """
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    require(
        bool(attentions), f"there is no multi-head attention in a {type(model).__name__} to record"
    )
    maps: dict[str, list[Tensor]] = {name: [] for name in attentions}
    before = {name: attention.recorded for name, attention in attentions.items()}
    for name, attention in attentions.items():
        attention.recorded = maps[name]
    try:
        yield maps
    finally:
        for name, attention in attentions.items():
            attention.recorded = before[name]


@contextmanager
def record_norms(model: nn.Module, *kinds: type[nn.Module]) -> Iterator[dict[str, list[float]]]:
    """Record how long the vectors are that leave every part of ``kinds`` in the ``with`` block.

    Yields:
        For each part, by name, the mean Euclidean norm over the last axis of the output of each of
        its calls.
    """
    norms: dict[str, list[float]] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            found = norms[name] = []

            def hook(_: nn.Module, __: object, output: Tensor, found: list[float] = found) -> None:
                found.append(float(output.detach().norm(dim=-1).mean()))

            handles.append(module.register_forward_hook(hook))
    try:
        yield norms
    finally:
        for handle in handles:
            handle.remove()


def entropy(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """How spread out attention is, in nats: 0 for one key, log n for n keys alike.

    >>> entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([0.0000, 0.6931])
    """
    nats: Tensor = torch.special.entr(weights).sum(dim=-1)
    return nats


@contextmanager
def ablate_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Let one head say nothing while the ``with`` block runs: its rows of :math:`W^O` are zero.

    Each head has ``d_k`` rows of :math:`W^O` (columns in the matrix that :class:`torch.nn.Linear`
    stores), so the output is the sum of the other heads' shares. Michel et al. (2019), section 2.3.

    Raises:
        TfmrError: if there is no such head.
    """
    own = _own(attention, head)
    with _zeroed(attention.w_o.weight[:, own]):
        yield


@contextmanager
def uniform_attention(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Let one head read all that its mask allows alike while the ``with`` block runs.

    Its queries are zero, so all its scores are, and their softmax is even. Its values and its share
    of :math:`W^O` stay.

    Raises:
        TfmrError: if there is no such head.
    """
    own = _own(attention, head)
    with _zeroed(attention.w_q.weight[own], attention.w_q.bias[own]):
        yield


@contextmanager
def ablate_sublayer(part: MultiHeadAttention | FeedForward) -> Iterator[None]:
    """Let a whole sublayer add nothing to the stream while the ``with`` block runs.

    Its last linear map is zero, weights and biases, and the residual path remains.
    """
    last = part.contract if isinstance(part, FeedForward) else part.w_o
    with _zeroed(last.weight, last.bias):
        yield


def _own(attention: MultiHeadAttention, head: int) -> slice:
    """The dimensions of ``d_model`` that one head works in."""
    require(
        0 <= head < attention.n_heads,
        f"this attention has the heads 0 to {attention.n_heads - 1}: got head {head}",
    )
    d_k = attention.d_model // attention.n_heads
    return slice(head * d_k, (head + 1) * d_k)


@contextmanager
def _zeroed(*parameters: Tensor) -> Iterator[None]:
    """Set parameters, or views of them, to zero, and put them back whatever happens."""
    before = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter in parameters:
                parameter.zero_()
        yield
    finally:
        with torch.no_grad():
            for parameter, values in zip(parameters, before, strict=True):
                parameter.copy_(values)
