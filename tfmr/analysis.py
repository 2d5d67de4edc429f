"""Analysis of models: attention weights, norms, ablation, logit lens, activation patching.

Recording and patching apply only to the forward passes of the same thread. An ablation changes
weights, so it applies to all threads.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, recording
from tfmr.checks import check_floating
from tfmr.errors import TfmrError, require


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
    with recording(*attentions.values()) as weights:
        yield {name: weights[attention] for name, attention in attentions.items()}


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

            handles.append(module.register_forward_hook(_in_this_thread(hook)))
    try:
        yield norms
    finally:
        for handle in handles:
            handle.remove()


def entropy(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """The entropy of attention weights in nats: 0 for a single key, log n if uniform over n keys.

    Raises:
        TfmrError: if ``weights`` is not a floating-point tensor.

    >>> entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    tensor([0.0000, 0.6931])
    """
    check_floating(weights, "weights")
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

    The queries of the head and the bias of its scores, if there is one, are set to zero, so all its
    scores are zero and the softmax is uniform over the keys that the mask allows. Its values and
    its rows of :math:`W^O` are unchanged.

    Raises:
        TfmrError: if there is no such head.
    """
    rows = _head_slice(attention, head)
    q_bias = attention.w_q.bias

    def without_bias(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if kwargs.get("bias") is not None:
            bias = kwargs["bias"].clone()
            bias[head] = 0
            kwargs = kwargs | {"bias": bias}
        return args, kwargs

    with _zeroed(attention.w_q.weight[rows], None if q_bias is None else q_bias[rows]):
        handle = attention.register_forward_pre_hook(without_bias, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()


@contextmanager
def ablate_sublayer(sublayer: nn.Module) -> Iterator[None]:
    """Make the output of a sublayer zero within the ``with`` statement.

    Its last linear layer is set to zero, weights and bias; the residual connection remains.

    Args:
        sublayer: a multi-head attention or a feed-forward network.

    Raises:
        TfmrError: if it is neither.
    """
    last = getattr(sublayer, "w_o", None) or getattr(sublayer, "contract", None)
    if not isinstance(last, nn.Linear):
        raise TfmrError(
            "expected a multi-head attention or a feed-forward network, got a "
            f"{type(sublayer).__name__}"
        )
    with _zeroed(last.weight, last.bias):
        yield


@contextmanager
def record_residual_stream(stack: nn.Module) -> Iterator[list[Tensor]]:
    """Record the residual stream of one forward pass within the ``with`` statement.

    Args:
        stack: a module with ``blocks``: an encoder, a decoder, or a decoder-only language model.

    Yields:
        The input of the first block, then the output of each block: ``n_layers + 1`` tensors
        ``(batch, length, d_model)``. In a pre-norm stack they are not normalised.

    Raises:
        TfmrError: if ``stack`` has no blocks.
    """
    blocks = _blocks(stack)
    stream: list[Tensor] = []

    def record_input(_: nn.Module, args: tuple[Any, ...]) -> None:
        stream.append(args[0].detach())

    def record_output(_: nn.Module, __: object, output: Tensor) -> None:
        stream.append(output.detach())

    handles = [blocks[0].register_forward_pre_hook(_in_this_thread(record_input))]
    handles += [block.register_forward_hook(_in_this_thread(record_output)) for block in blocks]
    try:
        yield stream
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def logit_lens(model: nn.Module, *inputs: Tensor | None) -> Float[Tensor, "depth *logits"]:
    """The logits that the model would predict if it ended after each of its blocks.

    The final norm and the output projection are applied to the residual stream: at depth 0 to the
    embeddings with positions, at depth ``n`` to the output of block ``n``. The logits at the
    largest depth are those of the model. nostalgebraist (2020).

    Args:
        model: a model with a ``final_stack``, whose blocks compute the input of its ``scores``:
            :class:`tfmr.model.Transformer` or, for example, :class:`tfmr.family.gpt.GPT`.
        inputs: the arguments of its forward pass, for a Transformer source and target.

    Raises:
        TfmrError: if the model has no ``final_stack``, or as its forward pass.
    """
    stack = getattr(model, "final_stack", None)
    if not isinstance(stack, nn.Module):
        raise TfmrError(f"expected a model with a final_stack, got a {type(model).__name__}")
    with record_residual_stream(stack) as stream:
        model(*inputs)
    norm, scores = cast(Callable[[Tensor], Tensor], stack.norm), cast(Any, model).scores
    return torch.stack([scores(norm(x)) for x in stream])


@contextmanager
def patch_residual_stream(
    stack: nn.Module,
    depth: int,
    values: Float[Tensor, "batch length d_model"],
    positions: Sequence[int] | None = None,
) -> Iterator[None]:
    """Replace the residual stream at some positions within the ``with`` statement.

    This is activation patching (Vig et al., 2020; Meng et al., 2022, section 2.1): a model that
    processes one sentence receives a part of its internal state for another sentence.

    Args:
        stack: as in :func:`record_residual_stream`.
        depth: 0 for the input of the first block, ``n`` for the output of block ``n``.
        values: the stream of another forward pass at this depth, of the same shape, for example
            from :func:`record_residual_stream`.
        positions: the positions to replace in every sentence, from 0; ``None`` for all.

    Raises:
        TfmrError: if the stack has no blocks or no such depth, or, in the forward pass, if the
            shapes differ or a position is outside the sentence.
    """
    blocks = _blocks(stack)
    n_layers = len(blocks)
    require(
        0 <= depth <= n_layers,
        f"depth must be from 0 (embeddings) to {n_layers} (last block): got {depth}",
    )

    def patch_input(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return _replaced(args[0], values, positions), *args[1:]

    def patch_output(_: nn.Module, __: object, output: Tensor) -> Tensor:
        return _replaced(output, values, positions)

    if depth == 0:
        handle = blocks[0].register_forward_pre_hook(_in_this_thread(patch_input))
    else:
        handle = blocks[depth - 1].register_forward_hook(_in_this_thread(patch_output))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def record_heads(attention: MultiHeadAttention) -> Iterator[list[Tensor]]:
    """Record the outputs of the heads before :math:`W^O`.

    Yields:
        One tensor ``(batch, heads, query, d_k)`` for each call within the ``with`` statement.
    """
    outputs: list[Tensor] = []

    def record(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        split = "batch query (heads d_k) -> batch heads query d_k"
        outputs.append(rearrange(args[0].detach(), split, heads=attention.n_heads))

    handle = attention.w_o.register_forward_pre_hook(_in_this_thread(record))
    try:
        yield outputs
    finally:
        handle.remove()


@contextmanager
def patch_head(
    attention: MultiHeadAttention,
    head: int,
    values: Float[Tensor, "batch query d_k"],
    positions: Sequence[int] | None = None,
) -> Iterator[None]:
    """Replace the output of one head at some query positions within the ``with`` statement.

    As :func:`patch_residual_stream`, for a single head: ``values`` is its output in another forward
    pass, from :func:`record_heads`.

    Raises:
        TfmrError: if there is no such head, or, in the forward pass, if the shapes differ or a
            position is outside the sentence.
    """
    columns = _head_slice(attention, head)

    def patch(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        joined = args[0].clone()
        joined[..., columns] = _replaced(joined[..., columns], values, positions)
        return (joined,)

    handle = attention.w_o.register_forward_pre_hook(_in_this_thread(patch))
    try:
        yield
    finally:
        handle.remove()


def _replaced(x: Tensor, values: Tensor, positions: Sequence[int] | None) -> Tensor:
    """``x`` with ``values`` at some positions of its second axis."""
    require(
        x.shape == values.shape,
        "the patched pass and the recorded one must have the same shape (batch, length, size): got "
        f"{tuple(x.shape)} and {tuple(values.shape)}; use sentences with equally many tokens",
    )
    if positions is None:
        return values
    length = x.shape[1]
    outside = [position for position in positions if not 0 <= position < length]
    require(not outside, f"positions must be from 0 to {length - 1}: got {outside}")
    patched = x.clone()
    patched[:, list(positions)] = values[:, list(positions)]
    return patched


def _in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``hook``, restricted to this thread: in other threads it changes and records nothing."""
    owner = threading.get_ident()

    def own(*args: Any) -> Any:
        return hook(*args) if threading.get_ident() == owner else None

    return own


def _head_slice(attention: MultiHeadAttention, head: int) -> slice:
    """The dimensions that belong to one head, of the queries and of the input of W^O."""
    require(
        0 <= head < attention.n_heads,
        f"head must be an index from 0 to {attention.n_heads - 1}: got {head}",
    )
    return slice(head * attention.d_k, (head + 1) * attention.d_k)


def _blocks(stack: nn.Module) -> nn.ModuleList:
    """The blocks of ``stack``."""
    blocks = getattr(stack, "blocks", None)
    if not isinstance(blocks, nn.ModuleList):
        raise TfmrError(
            f"expected a module with blocks, such as model.encoder, got a {type(stack).__name__}"
        )
    return blocks


@contextmanager
def _zeroed(*parameters: Tensor | None) -> Iterator[None]:
    """Set parameters, or views of parameters, to zero, and restore them afterwards."""
    present = [parameter for parameter in parameters if parameter is not None]
    before = [parameter.detach().clone() for parameter in present]
    try:
        with torch.no_grad():
            for parameter in present:
                parameter.zero_()
        yield
    finally:
        with torch.no_grad():
            for parameter, values in zip(present, before, strict=True):
                parameter.copy_(values)
