r"""The complexity of the layers of :mod:`tfmr.sequence_layers`, by formula and measured.

Table 1 of Vaswani et al. (2017) compares the layers in three respects:

Complexity per layer
    The ``*_flops`` functions are exact formulas; :func:`counted_flops` counts. The unit is the
    floating-point operation (FLOP) of PyTorch's counter: in a matrix multiplication, each
    multiplication and each addition is one. Elementwise operations are not counted.
Sequential operations
    :func:`longest_chain` measures the longest chain of dependent operations.
Maximum path length
    :func:`contiguous_path_length` and :func:`dilated_path_length` are the formulas;
    :func:`layers_to_connect` and :func:`steps_to_connect` measure by perturbation.
"""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakTensorKeyDictionary

from tfmr.config import TransformerConfig
from tfmr.errors import require
from tfmr.local_attention import MIN_CHUNK
from tfmr.sequence_layers import RecurrentLayer, SequenceLayer

Function = Callable[[Tensor], Tensor]

COPIES = {"_to_copy", "_unsafe_view", "cat", "clone", "constant_pad_nd", "copy_", "stack"}
"""ATen operations that only copy numbers. :func:`longest_chain` counts neither them nor views."""


def recurrent_flops(length: int, d_model: int, gates: int = 1) -> int:
    r""":math:`4\, g\, n\, d^2`: two :math:`d \times d` matrices per step and gate.

    ``gates`` is :math:`g`, 1 for an RNN, 4 for an LSTM and 3 for a GRU.
    """
    return 4 * gates * length * d_model**2


def convolution_flops(length: int, d_model: int, kernel: int) -> int:
    r""":math:`2\, k\, n\, d^2`: ``kernel`` = :math:`k` matrices per position."""
    return 2 * kernel * length * d_model**2


def projection_flops(length: int, d_model: int) -> int:
    r""":math:`8\, n\, d^2`: the projections to queries, keys and values, and the output one."""
    return 8 * length * d_model**2


def attention_flops(length: int, d_model: int) -> int:
    r""":math:`4\, n^2 d`: the scores and the weighted sums, without the projections.

    The number of heads makes no difference. A causal mask does not reduce the number.
    """
    return 4 * length**2 * d_model


def local_attention_flops(length: int, d_model: int, radius: int, *, causal: bool = False) -> int:
    r""":math:`4\, d` per score that :func:`~tfmr.local_attention.local_attention` computes.

    It computes more scores than the :func:`window_scores`, because all queries of a chunk have the
    same keys: about :math:`3 r` per query for large ``radius`` = :math:`r`, instead of
    :math:`2 r + 1`. For small ``radius`` the chunks have a fixed size.
    """
    chunk = min(max(radius, MIN_CHUNK), length)
    queries = -(-length // chunk) * chunk
    keys = chunk + radius + (0 if causal else radius)
    return 4 * queries * keys * d_model


def window_scores(length: int, radius: int, *, causal: bool = False) -> int:
    """The number of pairs (query, key) that local attention allows.

    >>> window_scores(4, 1), window_scores(4, 1, causal=True)
    (10, 7)
    """
    sides = 1 if causal else 2
    reach = min(radius, length - 1)
    return length + sides * (length * reach - reach * (reach + 1) // 2)


def feed_forward_flops(length: int, d_model: int, d_ff: int) -> int:
    r""":math:`4\, n\, d\, d_{ff}`: the two matrices of a feed-forward network."""
    return 4 * length * d_model * d_ff


def transformer_flops(config: TransformerConfig, source: int, target: int) -> int:
    """The FLOPs of the forward pass of the encoder-decoder and its logits for one sentence pair.

    The backward pass has twice as many: each product of two matrices has two gradients, and each
    of them is a product of the same size.
    """
    d = config.d_model
    networks = feed_forward_flops(1, d, config.d_ff)
    encoder = projection_flops(source, d) + attention_flops(source, d) + source * networks
    decoder = projection_flops(target, d) + attention_flops(target, d) + target * networks
    # The target is projected to queries and outputs, the source to keys and values.
    cross = (projection_flops(target, d) + projection_flops(source, d)) // 2
    cross += 4 * target * source * d
    output = 2 * target * d * config.target_vocab
    return config.n_encoder * encoder + config.n_decoder * (decoder + cross) + output


def counted_training_flops(loss: Callable[[], Tensor]) -> int:
    """The FLOPs of ``loss()`` and of its backward pass, counted as by :func:`counted_flops`.

    The gradients are added to those of the parameters, as in every backward pass.
    """
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        loss().backward()
    return int(counter.get_total_flops())


@torch.no_grad()
def counted_flops(function: Function, x: Tensor) -> int:
    """The FLOPs of ``function(x)``, counted by PyTorch.

    The counter does not see into the fused attention kernel of a CPU, so attention runs unfused.
    """
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        function(x)
    return int(counter.get_total_flops())


def saved_bytes(function: Callable[[], object], exclude: Iterable[Tensor] = ()) -> int:
    """The bytes of all tensors that autograd keeps for the backward pass of ``function()``.

    Tensors that share their storage, such as views, count once. What the backward pass allocates
    is not counted.

    Args:
        function: computes a result from which the backward pass can start.
        exclude: tensors that do not count, for example parameters.
    """
    excluded = {tensor.untyped_storage().data_ptr() for tensor in exclude}
    storages: dict[int, Tensor] = {}  # keeps the tensors alive, so that no address is used twice

    def keep(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in excluded:
            storages.setdefault(address, tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        function()
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


@torch.no_grad()
def longest_chain(function: Function, x: Tensor) -> int:
    """The length of the longest chain of dependent operations from ``x`` to ``function(x)``.

    The chain is a path in the graph of executed ATen operations. Each operation that computes
    counts as 1, whatever its size: one matrix multiplication, softmax, addition and so on. Views
    and :data:`COPIES` count as 0. Attention runs unfused, as in :func:`counted_flops`.

    Raises:
        TfmrError: if the result does not depend on ``x``.

    >>> longest_chain(lambda x: x.exp() + (2 * x + 1).sin(), torch.zeros(3))
    4
    """
    with _Depths() as depths, sdpa_kernel(SDPBackend.MATH):
        depths.of[x] = 0
        y = function(x)
    require(
        y in depths.of,
        "longest_chain needs a function whose result depends on x: this one does not",
    )
    return int(depths.of[y])


class _Depths(TorchDispatchMode):
    """Records, for every tensor that depends on the start, its depth in the graph."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of: MutableMapping[Tensor, int] = WeakTensorKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        depths = [self.of[x] for x in inputs if x in self.of]
        if depths:
            moves = func.is_view or func.overloadpacket.__name__ in COPIES
            for y in tree_leaves(result):
                if isinstance(y, Tensor):
                    self.of[y] = max(depths) + (0 if moves else 1)
        return result


def contiguous_path_length(length: int, reach: int) -> int:
    r""":math:`\lceil (n - 1) / \mathrm{reach} \rceil` layers from the first to the last position.

    ``reach`` is the largest distance that one layer connects: :math:`(k - 1) / 2` for a kernel
    :math:`k`, :math:`k - 1` if it is causal, and :math:`r` for local attention of radius :math:`r`.

    Raises:
        TfmrError: if the reach is below 1.

    >>> contiguous_path_length(27, reach=2)
    13
    """
    require(reach >= 1, f"a layer must connect neighbours, so reach must be 1 or more: got {reach}")
    return -(-(length - 1) // reach)


def dilated_path_length(length: int, kernel: int) -> int:
    r""":math:`\lceil \log_k n \rceil` causal layers with the dilations :math:`1, k, k^2, …`.

    :math:`L` such layers connect each position to the :math:`k^L - 1` positions before it.

    Raises:
        TfmrError: if the kernel is below 2.

    >>> dilated_path_length(27, kernel=3), dilated_path_length(28, kernel=3)
    (3, 4)
    """
    require(kernel >= 2, f"a kernel of 1 connects no positions: got kernel={kernel}")
    layers, span = 0, 1
    while span < length:
        layers, span = layers + 1, span * kernel
    return layers


@torch.no_grad()
def layers_to_connect(make_layer: Callable[[int], SequenceLayer], length: int) -> int:
    """The number of stacked layers until a change at the first position reaches the last one.

    ``make_layer(depth)`` makes the layer at a depth, from 0. Each layer receives two sequences that
    differ only at the positions that the change has reached; the positions at which its two outputs
    differ are those that the change reaches next. The inputs are new random numbers at every depth,
    because a change that really passed through hundreds of layers would vanish or overflow.

    Raises:
        TfmrError: if a layer does not move the change towards the last position.
    """
    reached = torch.arange(length) == 0
    depth = 0
    while not reached[-1]:
        layer = make_layer(depth).double()
        x = torch.randn(1, length, layer.d_model, dtype=torch.double)
        changed = torch.where(reached[:, None], torch.randn_like(x), x)
        now = (layer(x) != layer(changed)).any(dim=-1)[0]
        require(
            bool((now & ~reached).any()),
            f"layer {depth + 1} does not move the change beyond {int(reached.sum())} of {length} "
            "positions: each layer must pass the change on to at least one new position",
        )
        reached, depth = now, depth + 1
    return depth


@torch.no_grad()
def steps_to_connect(layer: RecurrentLayer, length: int) -> int:
    """The number of steps of a recurrent layer until the first input reaches the last output.

    As in :func:`layers_to_connect`, each step receives two states that differ if the change has
    reached the state before.

    Raises:
        TfmrError: if the change does not pass through a step.
    """
    cell: Any = layer.double().stack.cells[0]
    state, other = cell.initial_state(1), cell.initial_state(1)
    for step in range(length):
        x = torch.randn(1, cell.d_in, dtype=torch.double)
        x_other = torch.randn_like(x) if step == 0 else x
        h, h_other = cell(x, state), cell(x_other, other)
        require(
            bool((cell.hidden(h) != cell.hidden(h_other)).any()),
            f"the change does not pass through step {step + 1}: the state does not depend on it",
        )
        state, other = _random_like(h), _random_like(h)
    return length


def _random_like(state: Any) -> Any:
    """A random state of the same form."""
    return tree_map(torch.randn_like, state)
