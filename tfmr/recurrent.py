"""Networks that read one step after another: RNN, LSTM and GRU, and truncated backpropagation.

A *cell* turns one input and the state before it into the state after it. A *stack* runs cells over
a whole sequence, the outputs of one layer being the inputs of the next. Vectors are rows: ``x_t``
is multiplied from the right, ``x_t W_x``, and ``nn.Linear`` keeps the transpose of ``W_x``.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.errors import TfmrError, require

Pair = tuple[Tensor, Tensor]
S = TypeVar("S", Tensor, Pair)
"""The state of one layer: a tensor ``h``, or for an LSTM the pair ``(h, c)``."""


class Cell(nn.Module, Generic[S]):
    """What all cells share: two matrices, one bias, and the order *project the input, then step*.

    Only the hidden state forces one step to wait for another. The product ``x W_x + b`` does not
    look at it: a stack computes that part for all steps at once and calls :meth:`step` in a loop.

    A cell has ``gates`` blocks of size ``d_hidden`` side by side in each matrix: one for an RNN,
    four for an LSTM, three for a GRU.
    """

    gates: ClassVar[int]
    parts: ClassVar[int] = 1  # of a state

    def __init__(self, d_in: int, d_hidden: int) -> None:
        super().__init__()
        require(
            d_in >= 1 and d_hidden >= 1,
            f"a recurrent cell needs d_in and d_hidden of at least 1, got {d_in} and {d_hidden}",
        )
        self.d_in = d_in
        self.d_hidden = d_hidden
        self.from_input = nn.Linear(d_in, self.gates * d_hidden)
        # One bias for the sum of both products: a second one could be added into it.
        self.from_hidden = nn.Linear(d_hidden, self.gates * d_hidden, bias=False)
        bound = 1 / math.sqrt(d_hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def start(self, batch: int) -> S:
        """The state before the first step: zeros, on the device and in the type of the weights."""
        zeros: object = self.from_hidden.weight.new_zeros(batch, self.d_hidden)
        return cast(S, zeros)

    def step(self, projected: Float[Tensor, "batch gates_d_hidden"], state: S) -> S:
        """The next state from ``projected`` = ``x W_x + b`` and the state before."""
        raise NotImplementedError

    def hidden(self, state: S) -> Float[Tensor, "batch d_hidden"]:
        """The part ``h`` of a state, which is the cell's output."""
        return state[0] if isinstance(state, tuple) else state

    def project(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... gates_d_hidden"]:
        """``x W_x + b`` for any number of steps at once.

        Raises:
            TfmrError: if the last axis of ``x`` is not ``d_in``.
        """
        require(
            x.shape[-1] == self.d_in,
            f"the cell reads inputs of d_in={self.d_in} numbers, got {x.shape[-1]} in the last axis"
            f" of {tuple(x.shape)}: check the embedding size, or the order of the axes",
        )
        return cast(Tensor, self.from_input(x))

    def check_state(self, state: S, batch: int) -> None:
        """Raise :class:`TfmrError` unless ``state`` has its parts, each ``(batch, d_hidden)``."""
        parts = state if isinstance(state, tuple) else (state,)
        require(
            len(parts) == self.parts,
            f"a {type(self).__name__}'s state has {self.parts} part(s): got {len(parts)}",
        )
        for part in parts:
            require(
                tuple(part.shape) == (batch, self.d_hidden),
                f"the state should be (batch, d_hidden) = {(batch, self.d_hidden)}, got"
                f" {tuple(part.shape)}: a state kept from another batch or another cell?",
            )

    def forward(self, x: Float[Tensor, "batch d_in"], state: S) -> S:
        """One step: the state after reading ``x``.

        Raises:
            TfmrError: if ``x`` or ``state`` has another size than the cell.
        """
        self.check_state(state, x.shape[0])
        return self.step(self.project(x), state)


class RNNCell(Cell[Tensor]):
    """The recurrent network of Elman (1990), with tanh: ``h_t = tanh(x_t W_x + h_{t-1} W_h + b)``.

    Has ``d_hidden · (d_in + d_hidden + 1)`` parameters.
    """

    gates = 1

    def step(
        self,
        projected: Float[Tensor, "batch d_hidden"],
        state: Float[Tensor, "batch d_hidden"],
    ) -> Float[Tensor, "batch d_hidden"]:
        """``tanh(projected + h_{t-1} W_h)``."""
        return torch.tanh(projected + self.from_hidden(state))


class LSTMCell(Cell[Pair]):
    """Long short-term memory, Hochreiter and Schmidhuber (1997), as Gers et al. (2000) write it.

    That is, with a forget gate::

        i, f, o = σ(x W_x + h_{t-1} W_h + b)      input, forget and output gate, each its own block
        g       = tanh(x W_x + h_{t-1} W_h + b)   the candidate
        c_t     = f ⊙ c_{t-1} + i ⊙ g
        h_t     = o ⊙ tanh(c_t)

    The blocks lie in the order i, f, g, o. The state is the pair ``(h, c)``, and the parameters are
    ``4 · d_hidden · (d_in + d_hidden + 1)``.

    ``forget_bias`` is where the bias of ``f`` starts: at 1 the gate starts near σ(1) ≈ 0.73, and
    the cell remembers before it has learnt what to remember (Gers et al., 2000; Jozefowicz et al.,
    2015). Larger values remember for longer.
    """

    gates = 4
    parts = 2

    def __init__(self, d_in: int, d_hidden: int, forget_bias: float = 1.0) -> None:
        super().__init__(d_in, d_hidden)
        with torch.no_grad():
            self.from_input.bias[d_hidden : 2 * d_hidden] = forget_bias

    def start(self, batch: int) -> Pair:
        """Zeros for ``h`` and for ``c``."""
        zeros = self.from_hidden.weight.new_zeros(batch, self.d_hidden)
        return zeros, zeros

    def step(self, projected: Float[Tensor, "batch four_d_hidden"], state: Pair) -> Pair:
        """The next ``(h, c)``."""
        h, c = state
        i, f, g, o = (projected + self.from_hidden(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRUCell(Cell[Tensor]):
    """The gated recurrent unit of Cho et al. (2014), section 2.3.

    It has one vector of state and two gates::

        r, z = σ(x W_x + h_{t-1} W_h + b)               reset and update gate, each its own block
        n    = tanh(x W_x + b + r ⊙ (h_{t-1} W_h + b'))  the candidate, with reset_after
        n    = tanh(x W_x + b + (r ⊙ h_{t-1}) W_h)       the candidate, as in the paper
        h_t  = (1 − z) ⊙ n + z ⊙ h_{t-1}

    The blocks lie in the order r, z, n. ``reset_after`` applies the reset gate after the matrix
    product, as ``torch.nn.GRU`` does: one product for all three blocks instead of two. Then the
    candidate has a second bias ``b'`` that cannot be added into ``b``, since ``r`` multiplies it.
    Chung et al. (2014) write z and 1 − z the other way round.

    Has ``3 · d_hidden · (d_in + d_hidden + 1)`` parameters; ``reset_after`` adds ``d_hidden``.
    """

    gates = 3

    def __init__(self, d_in: int, d_hidden: int, reset_after: bool = True) -> None:
        super().__init__(d_in, d_hidden)
        self.candidate_bias = nn.Parameter(torch.zeros(d_hidden)) if reset_after else None

    def step(
        self,
        projected: Float[Tensor, "batch three_d_hidden"],
        state: Float[Tensor, "batch d_hidden"],
    ) -> Float[Tensor, "batch d_hidden"]:
        """The next ``h``."""
        blocks = [2 * self.d_hidden]
        gates, candidate = projected.tensor_split(blocks, dim=-1)
        if self.candidate_bias is not None:
            from_gates, recurrent = self.from_hidden(state).tensor_split(blocks, dim=-1)
            r, z = torch.sigmoid(gates + from_gates).chunk(2, dim=-1)
            n = torch.tanh(candidate + r * (recurrent + self.candidate_bias))
        else:
            to_gates, to_candidate = self.from_hidden.weight.tensor_split(blocks, dim=0)
            r, z = torch.sigmoid(gates + state @ to_gates.T).chunk(2, dim=-1)
            n = torch.tanh(candidate + (r * state) @ to_candidate.T)
        return (1 - z) * n + z * state


class Stack(nn.Module, Generic[S]):
    """``layers`` cells of one kind over a sequence, with dropout between the layers.

    The first layer reads ``d_in`` numbers a step, each other layer the ``d_hidden`` of the one
    below. Dropout acts on what one layer hands to the next, never along time (Zaremba et al., 2014,
    section 3.2), so a single layer has none.
    """

    def __init__(self, cells: Iterable[Cell[S]], dropout: float) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        require(len(self.cells) >= 1, "a recurrent stack needs at least 1 layer, got layers=0")
        require(0 <= dropout < 1, f"dropout is a probability in [0, 1), got {dropout}")
        self.dropout = nn.Dropout(dropout)

    def start(self, batch: int) -> tuple[S, ...]:
        """The states before the first step, one per layer: zeros."""
        return tuple(cast(Cell[S], cell).start(batch) for cell in self.cells)

    def forward(
        self, x: Float[Tensor, "batch length d_in"], states: tuple[S, ...] | None = None
    ) -> tuple[Float[Tensor, "batch length d_hidden"], tuple[S, ...]]:
        """The top layer's ``h`` at every step, and the last state of every layer.

        ``states`` holds one state per layer, as a call before this one returned them; ``None``
        starts from zeros.

        Raises:
            TfmrError: if ``x`` has another size than the first layer, or no step, or if ``states``
                has another number of layers or another size.
        """
        require(
            x.ndim == 3 and x.shape[1] >= 1,
            f"a sequence should be (batch, length, d_in) with at least one step,"
            f" got {tuple(x.shape)}",
        )
        if states is None:
            states = self.start(x.shape[0])
        require(
            len(states) == len(self.cells),
            f"a stack of {len(self.cells)} layers needs one state per layer, got {len(states)}",
        )
        final = []
        for layer, (module, state) in enumerate(zip(self.cells, states, strict=True)):
            cell = cast(Cell[S], module)
            cell.check_state(state, x.shape[0])
            outputs = []
            # unbind and not projected[:, t]: the backward of one index writes zeros of the size of
            # the whole sequence, all of them together O(length²). That of unbind is one stack.
            for projected in cell.project(x if layer == 0 else self.dropout(x)).unbind(1):
                state = cell.step(projected, state)
                outputs.append(cell.hidden(state))
            x = torch.stack(outputs, dim=1)
            final.append(state)
        return x, tuple(final)


def _sizes(d_in: int, d_hidden: int, layers: int) -> list[tuple[int, int]]:
    return [(d_in if layer == 0 else d_hidden, d_hidden) for layer in range(layers)]


class RNN(Stack[Tensor]):
    """A stack of :class:`RNNCell`; equal to ``torch.nn.RNN(batch_first=True)``."""

    def __init__(self, d_in: int, d_hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__((RNNCell(*size) for size in _sizes(d_in, d_hidden, layers)), dropout)


class LSTM(Stack[Pair]):
    """A stack of :class:`LSTMCell`; equal to ``torch.nn.LSTM(batch_first=True)``."""

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        layers: int = 1,
        dropout: float = 0.0,
        forget_bias: float = 1.0,
    ) -> None:
        sizes = _sizes(d_in, d_hidden, layers)
        super().__init__((LSTMCell(*size, forget_bias=forget_bias) for size in sizes), dropout)


class GRU(Stack[Tensor]):
    """A stack of :class:`GRUCell`; ``reset_after`` equals ``torch.nn.GRU(batch_first=True)``."""

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        layers: int = 1,
        dropout: float = 0.0,
        reset_after: bool = True,
    ) -> None:
        sizes = _sizes(d_in, d_hidden, layers)
        super().__init__((GRUCell(*size, reset_after=reset_after) for size in sizes), dropout)


def parameter_count(gates: int, d_in: int, d_hidden: int, layers: int = 1) -> int:
    """Weights and biases of a stack: ``gates`` is 1 for an RNN, 4 for an LSTM, 3 for a GRU.

    The first layer has ``gates · d_hidden · (d_in + d_hidden + 1)``, each other layer
    ``gates · d_hidden · (2 · d_hidden + 1)``. A GRU with ``reset_after`` has ``d_hidden`` more in
    every layer; ``torch.nn`` has ``gates · d_hidden`` more in every layer, a second bias.
    """
    return sum(gates * size[1] * (size[0] + size[1] + 1) for size in _sizes(d_in, d_hidden, layers))


def copy_from_torch(stack: Stack[Any], module: nn.RNNBase) -> None:
    """Give ``stack`` the weights of a ``torch.nn.RNN``, ``LSTM`` or ``GRU`` of the same size.

    ``torch.nn`` keeps two biases, one for each product. Where they are only ever added, one holds
    their sum. In the GRU's candidate the reset gate stands between them, so they stay two.

    Raises:
        TfmrError: if ``module`` is not of the same kind, size, depth and tanh, one-way with biases.
    """
    kinds = ((RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU))
    weights = dict(module.named_parameters())
    same = any(isinstance(stack, own) and isinstance(module, torchs) for own, torchs in kinds)
    first = cast(Cell[Any], stack.cells[0])
    tanh = getattr(module, "nonlinearity", "tanh") == "tanh"
    ours = (first.d_in, first.d_hidden, len(stack.cells))
    theirs = (module.input_size, module.hidden_size, module.num_layers)
    require(
        same and tanh and ours == theirs and len(weights) == 4 * len(stack.cells),
        f"cannot copy torch's {module} into {type(stack).__name__} with (d_in, d_hidden, layers) ="
        f" {ours}: build both of the same kind and size, with tanh and biases and in one direction",
    )
    with torch.no_grad():
        for layer, cell in enumerate(cast(Iterable[Cell[Any]], stack.cells)):
            second = weights[f"bias_hh_l{layer}"].clone()
            if isinstance(cell, GRUCell):
                if cell.candidate_bias is None:
                    raise TfmrError("torch.nn.GRU resets after the product: use reset_after=True")
                cell.candidate_bias.copy_(second[2 * cell.d_hidden :])
                second[2 * cell.d_hidden :] = 0
            cell.from_input.weight.copy_(weights[f"weight_ih_l{layer}"])
            cell.from_hidden.weight.copy_(weights[f"weight_hh_l{layer}"])
            cell.from_input.bias.copy_(weights[f"bias_ih_l{layer}"] + second)


T = TypeVar("T")


def detach(states: T) -> T:
    """The same numbers cut off from the graph that made them; tuples are followed to any depth."""
    if isinstance(states, Tensor):
        return cast(T, states.detach())
    return cast(T, tuple(detach(part) for part in cast(tuple[Any, ...], states)))


def truncated_bptt(
    stack: Stack[S],
    chunks: Iterable[tuple[Float[Tensor, "batch _ d_in"], Tensor]],
    loss: Callable[[Tensor, Tensor], Float[Tensor, ""]],
    states: tuple[S, ...] | None = None,
) -> Iterator[Float[Tensor, ""]]:
    """Read a long sequence chunk by chunk and yield the loss of each: Williams and Peng (1990).

    ``chunks`` are consecutive pieces ``(inputs, targets)`` of the same sequences; ``loss`` takes
    the stack's outputs ``(batch, length, d_hidden)`` and the targets. The state flows on from chunk
    to chunk, the gradient does not: the last state of a chunk enters the next as a constant. Memory
    is that of one chunk, and no error is sent back beyond the beginning of its own chunk.

    Call ``backward`` on each loss as it comes. An optimiser step between two losses is fine: the
    next chunk is read with the new weights. With one chunk it is backpropagation through time.
    """
    for inputs, targets in chunks:
        outputs, states = stack(inputs, states)
        states = detach(states)
        yield loss(outputs, targets)


def state_jacobians(
    cell: Cell[S], x: Float[Tensor, "length d_in"], state: S | None = None
) -> Float[Tensor, "length d_state d_state"]:
    """How each state depends on the one before the first step: entry ``t`` is ``∂s_t/∂s_0``.

    It is the product ``J_t ⋯ J_1`` of the steps' own Jacobians; row i, column j is
    ``∂s_t[i]/∂s_0[j]``. The state ``s`` of an LSTM is ``h`` and ``c`` side by side, so ``d_state``
    is twice ``d_hidden``. ``state`` is of batch 1; ``None`` starts from zeros.
    """
    start = cell.start(1) if state is None else state
    cell.check_state(start, 1)
    flat = torch.cat(start, dim=1)[0] if isinstance(start, tuple) else start[0]
    product = torch.eye(flat.numel(), dtype=flat.dtype, device=flat.device)
    found = []

    def advance(before: Tensor, projected: Tensor) -> tuple[Tensor, Tensor]:
        pieces = tuple(before[None].chunk(cell.parts, dim=1))
        after = cell.step(projected[None], cast(S, pieces if cell.parts == 2 else pieces[0]))
        joined = torch.cat(after, dim=1)[0] if isinstance(after, tuple) else after[0]
        return joined, joined

    with torch.no_grad():
        for projected in cell.project(x):
            jacobian, flat = torch.func.jacrev(advance, has_aux=True)(flat, projected)
            product = jacobian @ product
            found.append(product)
    return torch.stack(found)
