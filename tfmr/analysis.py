"""Analysis of models: attention weights, vector norms, and ablation of heads and sublayers."""

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
    """Record the attention weights of ``model`` within the ``with`` statement.

    Yields:
        For each multi-head attention, by its name in the model (such as
        ``"decoder.blocks.0.cross_attention"``), the weights ``(batch, heads, query, key)`` of each
        call, in order.

    Raises:
        TfmrError: if the model has no multi-head attention.

    >>> model = nn.ModuleDict({"attention": MultiHeadAttention(8, 2)})
    >>> with record_attention(model) as maps:
    ...     _ = model["attention"](torch.zeros(1, 3, 8))
    >>> [tuple(weights.shape) for weights in maps["attention"]]
    [(1, 2, 3, 3)]
    """
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    require(bool(attentions), f"a {type(model).__name__} has no multi-head attention to record")
    maps: dict[str, list[Tensor]] = {name: [] for name in attentions}
    before = {name: attention.recorded_weights for name, attention in attentions.items()}
    for name, attention in attentions.items():
        attention.recorded_weights = maps[name]
    try:
        yield maps
    finally:
        for name, attention in attentions.items():
            attention.recorded_weights = before[name]


@contextmanager
def record_norms(model: nn.Module, *kinds: type[nn.Module]) -> Iterator[dict[str, list[float]]]:
    """Record the norms of the outputs of all submodules of the given ``kinds``.

    Yields:
        For each such submodule, by its name in the model, the mean Euclidean norm over the last
        axis of the output of each of its calls within the ``with`` statement.
    """
    norms: dict[str, list[float]] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            norms[name] = []

            def hook(_: nn.Module, __: object, output: Tensor, name: str = name) -> None:
                norms[name].append(float(output.detach().norm(dim=-1).mean()))

            handles.append(module.register_forward_hook(hook))
    try:
        yield norms
    finally:
        for handle in handles:
            handle.remove()


def entropy(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """The entropy of attention weights in nats: 0 for a single key, log n if uniform over n keys.

    >>> entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([0.0000, 0.6931])
    """
    nats: Tensor = torch.special.entr(weights).sum(dim=-1)
    return nats


@contextmanager
def ablate_head(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Remove one head within the ``with`` statement: set its rows of :math:`W^O` to zero.

    A head has ``d_k`` rows of :math:`W^O` (columns of the matrix that :class:`torch.nn.Linear`
    stores). The output is then the sum over the other heads. Michel et al. (2019), section 2.3.

    Raises:
        TfmrError: if there is no such head.
    """
    columns = _head_slice(attention, head)
    with _zeroed(attention.w_o.weight[:, columns]):
        yield


@contextmanager
def uniform_attention(attention: MultiHeadAttention, head: int) -> Iterator[None]:
    """Make the attention weights of one head uniform within the ``with`` statement.

    The queries of the head are set to zero, so all its scores are zero and the softmax is uniform
    over the keys that the mask allows. Its values and its rows of :math:`W^O` are unchanged.

    Raises:
        TfmrError: if there is no such head.
    """
    rows = _head_slice(attention, head)
    with _zeroed(attention.w_q.weight[rows], attention.w_q.bias[rows]):
        yield


@contextmanager
def ablate_sublayer(sublayer: MultiHeadAttention | FeedForward) -> Iterator[None]:
    """Make the output of a sublayer zero within the ``with`` statement.

    Its last linear layer is set to zero, weights and bias; the residual connection remains.
    """
    last = sublayer.contract if isinstance(sublayer, FeedForward) else sublayer.w_o
    with _zeroed(last.weight, last.bias):
        yield


def _head_slice(attention: MultiHeadAttention, head: int) -> slice:
    """The dimensions of ``d_model`` that belong to one head."""
    require(
        0 <= head < attention.n_heads,
        f"head must be an index from 0 to {attention.n_heads - 1}: got {head}",
    )
    d_k = attention.d_model // attention.n_heads
    return slice(head * d_k, (head + 1) * d_k)


@contextmanager
def _zeroed(*parameters: Tensor) -> Iterator[None]:
    """Set parameters, or views of parameters, to zero, and restore them afterwards."""
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
