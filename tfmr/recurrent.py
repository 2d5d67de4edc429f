"""Recurrent networks (RNN, LSTM, GRU) and truncated backpropagation through time.

A *cell* computes the next state from one input and the current state. A *stack* runs one cell per
layer over a whole sequence; the outputs of each layer are the inputs of the next. Vectors are rows,
so a matrix multiplies from the right, ``x_t W_x``; ``nn.Linear`` stores the transpose of ``W_x``.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.checks import check_sizes, check_tensor
from tfmr.errors import TfmrError, require

# Hidden state and cell state, ``(h, c)``.
LSTMState = tuple[Tensor, Tensor]
S = TypeVar("S", Tensor, LSTMState)
"""The state of one layer: the hidden state ``h``, or ``(h, c)`` for an LSTM."""


class Cell(nn.Module, Generic[S]):
    """Base class of the cells: an input projection, a recurrent projection, and :meth:`step`.

    The input projection ``x W_x + b`` does not depend on the state, so a stack computes it for all
    time steps in one matrix multiplication and calls only :meth:`step` in a loop.

    Each matrix has ``gates`` groups of ``d_hidden`` columns: 1 for an RNN, 4 for an LSTM and 3 for
    a GRU, the candidate included.
    """

    gates: ClassVar[int]
    state_tensors: ClassVar[int] = 1

    def __init__(self, d_in: int, d_hidden: int) -> None:
        super().__init__()
        check_sizes(d_in=d_in, d_hidden=d_hidden)
        self.d_in = d_in
        self.d_hidden = d_hidden
        self.w_x = nn.Linear(d_in, self.gates * d_hidden)
        # One bias is enough: torch.nn has two, which are only ever added.
        self.w_h = nn.Linear(d_hidden, self.gates * d_hidden, bias=False)
        bound = 1 / math.sqrt(d_hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def initial_state(self, batch: int) -> S:
        """A state of zeros, with the device and the dtype of the weights."""
        zeros: object = self.w_h.weight.new_zeros(batch, self.d_hidden)
        return cast(S, zeros)

    def step(self, projected: Float[Tensor, "batch gates_d_hidden"], state: S) -> S:
        """The next state from ``projected`` = ``x W_x + b`` and the current state."""
        raise NotImplementedError

    def hidden(self, state: S) -> Float[Tensor, "batch d_hidden"]:
        """The hidden state ``h``, which is the output of the cell."""
        return state[0] if isinstance(state, tuple) else state

    def project(self, x: Float[Tensor, "... d_in"]) -> Float[Tensor, "... gates_d_hidden"]:
        """The input projection ``x W_x + b``, for any number of time steps at once.

        Raises:
            TfmrError: if the last axis of ``x`` is not ``d_in``.
        """
        check_tensor(x, "x", self.w_x.weight)
        if x.dim() == 0 or x.shape[-1] != self.d_in:
            raise TfmrError(
                f"the input must have d_in={self.d_in} features in its last axis: got shape "
                f"{tuple(x.shape)}; check the embedding size and the order of the axes"
            )
        return cast(Tensor, self.w_x(x))

    def check_state(self, state: S, batch: int) -> None:
        """Raise :class:`TfmrError` unless ``state`` holds tensors of ``(batch, d_hidden)``."""
        tensors = state if isinstance(state, tuple) else (state,)
        if len(tensors) != self.state_tensors:
            raise TfmrError(
                f"the state of a {type(self).__name__} consists of {self.state_tensors} tensor(s): "
                f"got {len(tensors)}"
            )
        for tensor in tensors:
            if tensor.shape != (batch, self.d_hidden):
                raise TfmrError(
                    f"the state must be (batch, d_hidden) = {(batch, self.d_hidden)}: got "
                    f"{tuple(tensor.shape)}; does it belong to another batch or another cell?"
                )

    def forward(self, x: Float[Tensor, "batch d_in"], state: S) -> S:
        """One time step: the state after the input ``x``.

        Raises:
            TfmrError: if ``x`` or ``state`` does not have the shape that the cell expects.
        """
        check_tensor(x, "x", self.w_x.weight)
        if x.dim() != 2:
            raise TfmrError(
                f"the input of one step must be (batch, d_in={self.d_in}): got {tuple(x.shape)}; "
                "add a batch axis with x.unsqueeze(0)"
            )
        self.check_state(state, x.shape[0])
        return self.step(self.project(x), state)


class RNNCell(Cell[Tensor]):
    """The Elman (1990) network with tanh: ``h_t = tanh(x_t W_x + h_{t-1} W_h + b)``.

    It has ``d_hidden · (d_in + d_hidden + 1)`` parameters.
    """

    gates = 1

    def step(
        self,
        projected: Float[Tensor, "batch d_hidden"],
        state: Float[Tensor, "batch d_hidden"],
    ) -> Float[Tensor, "batch d_hidden"]:
        """``tanh(projected + h_{t-1} W_h)``."""
        return torch.tanh(projected + self.w_h(state))


class LSTMCell(Cell[LSTMState]):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with a forget gate.

    As in Gers et al. (2000):

    .. code-block:: text

        i, f, o = σ(x W_x + h_{t-1} W_h + b)      input, forget and output gate (own columns each)
        g       = tanh(x W_x + h_{t-1} W_h + b)   the candidate
        c_t     = f ⊙ c_{t-1} + i ⊙ g
        h_t     = o ⊙ tanh(c_t)

    The columns of the matrices are in the order i, f, g, o. The state is ``(h, c)``, and the cell
    has ``4 · d_hidden · (d_in + d_hidden + 1)`` parameters.

    ``forget_bias`` is the initial bias of ``f``. At 1 the gate starts near σ(1) ≈ 0.73, so that the
    cell state and its gradient persist early in training (Gers et al., 2000; Jozefowicz et al.,
    2015); with larger values they persist for more steps.
    """

    gates = 4
    state_tensors = 2

    def __init__(self, d_in: int, d_hidden: int, forget_bias: float = 1.0) -> None:
        super().__init__(d_in, d_hidden)
        with torch.no_grad():
            self.w_x.bias[d_hidden : 2 * d_hidden] = forget_bias

    def initial_state(self, batch: int) -> LSTMState:
        """Zeros for ``h`` and ``c``."""
        zeros = self.w_h.weight.new_zeros(batch, self.d_hidden)
        return zeros, zeros

    def step(self, projected: Float[Tensor, "batch four_d_hidden"], state: LSTMState) -> LSTMState:
        """The next ``(h, c)``."""
        h, c = state
        i, f, g, o = (projected + self.w_h(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRUCell(Cell[Tensor]):
    """The gated recurrent unit of Cho et al. (2014), section 2.3.

    It has two gates and one state vector:

    .. code-block:: text

        r, z = σ(x W_x + h_{t-1} W_h + b)                reset and update gate (own columns each)
        n    = tanh(x W_x + b + r ⊙ (h_{t-1} W_h + b'))  the candidate, with reset_after
        n    = tanh(x W_x + b + (r ⊙ h_{t-1}) W_h)       the candidate in the paper
        h_t  = (1 − z) ⊙ n + z ⊙ h_{t-1}

    The columns of the matrices are in the order r, z, n. With ``reset_after`` the reset gate is
    applied after the matrix multiplication, as in ``torch.nn.GRU``, so that one multiplication
    serves r, z and n. The candidate then has a second bias ``b'``, which cannot be merged into
    ``b`` because ``r`` multiplies it. Chung et al. (2014) exchange z and 1 − z.

    The cell has ``3 · d_hidden · (d_in + d_hidden + 1)`` parameters; ``reset_after`` adds
    ``d_hidden``.
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
        split = [2 * self.d_hidden]  # r and z | n
        x_rz, x_n = projected.tensor_split(split, dim=-1)
        if self.candidate_bias is not None:
            h_rz, h_n = self.w_h(state).tensor_split(split, dim=-1)
            r, z = torch.sigmoid(x_rz + h_rz).chunk(2, dim=-1)
            n = torch.tanh(x_n + r * (h_n + self.candidate_bias))
        else:
            w_rz, w_n = self.w_h.weight.tensor_split(split, dim=0)
            r, z = torch.sigmoid(x_rz + state @ w_rz.T).chunk(2, dim=-1)
            n = torch.tanh(x_n + (r * state) @ w_n.T)
        return (1 - z) * n + z * state


class Stack(nn.Module, Generic[S]):
    """``n_layers`` cells of one kind over a sequence, with dropout between the layers.

    The first layer has ``d_in`` input features, every other layer ``d_hidden``. Dropout applies to
    the outputs of all layers but the last and never between time steps (Zaremba et al., 2014,
    section 3.2).
    """

    def __init__(self, cells: Iterable[Cell[S]], dropout: float) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        require(len(self.cells) >= 1, "a recurrent stack needs at least one layer: got n_layers=0")
        require(0 <= dropout < 1, f"dropout must be a probability in [0, 1): got {dropout}")
        self.dropout = nn.Dropout(dropout)

    def initial_state(self, batch: int) -> tuple[S, ...]:
        """Zeros, one state per layer."""
        return tuple(cast(Cell[S], cell).initial_state(batch) for cell in self.cells)

    def forward(
        self, x: Float[Tensor, "batch length d_in"], states: tuple[S, ...] | None = None
    ) -> tuple[Float[Tensor, "batch length d_hidden"], tuple[S, ...]]:
        """The last layer's ``h`` at every time step, and the final state of every layer.

        ``states`` holds one initial state per layer, for example the final states of an earlier
        call; ``None`` means zeros.

        Raises:
            TfmrError: if ``x`` is not ``(batch, length, d_in)`` with at least one time step, or
                ``states`` does not fit the layers or the batch.
        """
        check_tensor(x, "x")
        require(
            x.ndim == 3 and x.shape[1] >= 1,
            "a sequence must be (batch, length, d_in) with at least one time step: got "
            f"{tuple(x.shape)}",
        )
        if states is None:
            states = self.initial_state(x.shape[0])
        require(
            len(states) == len(self.cells),
            f"a stack of {len(self.cells)} layers needs one state per layer: got {len(states)}",
        )
        final = []
        for layer, (module, state) in enumerate(zip(self.cells, states, strict=True)):
            cell = cast(Cell[S], module)
            cell.check_state(state, x.shape[0])
            projected = cell.project(x if layer == 0 else self.dropout(x))
            outputs = []
            # unbind(1) instead of projected[:, t]: the backward pass of each index operation would
            # allocate zeros of the size of the whole sequence, O(length²) in total.
            for projected_t in projected.unbind(1):
                state = cell.step(projected_t, state)
                outputs.append(cell.hidden(state))
            x = torch.stack(outputs, dim=1)
            final.append(state)
        return x, tuple(final)


def _layer_sizes(d_in: int, d_hidden: int, n_layers: int) -> list[tuple[int, int]]:
    return [(d_in if layer == 0 else d_hidden, d_hidden) for layer in range(n_layers)]


class RNN(Stack[Tensor]):
    """A stack of :class:`RNNCell`; equal to ``torch.nn.RNN(batch_first=True)``."""

    def __init__(self, d_in: int, d_hidden: int, n_layers: int = 1, dropout: float = 0.0) -> None:
        sizes = _layer_sizes(d_in, d_hidden, n_layers)
        super().__init__((RNNCell(*size) for size in sizes), dropout)


class LSTM(Stack[LSTMState]):
    """A stack of :class:`LSTMCell`; equal to ``torch.nn.LSTM(batch_first=True)``."""

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        n_layers: int = 1,
        dropout: float = 0.0,
        forget_bias: float = 1.0,
    ) -> None:
        sizes = _layer_sizes(d_in, d_hidden, n_layers)
        super().__init__((LSTMCell(*size, forget_bias=forget_bias) for size in sizes), dropout)


class GRU(Stack[Tensor]):
    """A stack of :class:`GRUCell`; with ``reset_after``, ``torch.nn.GRU(batch_first=True)``."""

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        n_layers: int = 1,
        dropout: float = 0.0,
        reset_after: bool = True,
    ) -> None:
        sizes = _layer_sizes(d_in, d_hidden, n_layers)
        super().__init__((GRUCell(*size, reset_after=reset_after) for size in sizes), dropout)


def parameter_count(gates: int, d_in: int, d_hidden: int, n_layers: int = 1) -> int:
    """Number of parameters of a stack; ``gates`` is 1 for an RNN, 4 for an LSTM, 3 for a GRU.

    The first layer has ``gates · d_hidden · (d_in + d_hidden + 1)`` parameters, every other layer
    ``gates · d_hidden · (2 · d_hidden + 1)``. A GRU with ``reset_after`` has ``d_hidden`` more per
    layer. ``torch.nn`` has a second bias: ``gates · d_hidden`` more per layer.
    """
    return sum(
        gates * hidden * (features + hidden + 1)
        for features, hidden in _layer_sizes(d_in, d_hidden, n_layers)
    )


def copy_from_torch(stack: Stack[Any], module: nn.RNNBase) -> None:
    """Copy the weights of a ``torch.nn.RNN``, ``LSTM`` or ``GRU`` of the same size into ``stack``.

    ``torch.nn`` has two biases per layer, ``bias_ih`` and ``bias_hh``; ``stack`` stores their sum.
    In the candidate of a GRU the reset gate multiplies ``bias_hh``, so both are kept.

    Raises:
        TfmrError: if ``module`` differs in kind, size or depth, is bidirectional, has no biases,
            or is not a tanh network.
    """
    kinds = ((RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU))
    same_kind = any(isinstance(stack, a) and isinstance(module, b) for a, b in kinds)
    tanh = getattr(module, "nonlinearity", "tanh") == "tanh"
    weights = dict(module.named_parameters())
    first = cast(Cell[Any], stack.cells[0])
    sizes = (first.d_in, first.d_hidden, len(stack.cells))
    torch_sizes = (module.input_size, module.hidden_size, module.num_layers)
    require(
        same_kind and tanh and sizes == torch_sizes and len(weights) == 4 * len(stack.cells),
        f"cannot copy {module} into {type(stack).__name__} with (d_in, d_hidden, n_layers) ="
        f" {sizes}: both must have the same kind and size; the torch.nn module must be"
        " unidirectional, with tanh and biases",
    )
    with torch.no_grad():
        for layer, cell in enumerate(cast(Iterable[Cell[Any]], stack.cells)):
            bias_hh = weights[f"bias_hh_l{layer}"].clone()
            if isinstance(cell, GRUCell):
                if cell.candidate_bias is None:
                    raise TfmrError(
                        "torch.nn.GRU applies the reset gate after the matrix multiplication:"
                        " build the GRU with reset_after=True"
                    )
                cell.candidate_bias.copy_(bias_hh[2 * cell.d_hidden :])
                bias_hh[2 * cell.d_hidden :] = 0
            cell.w_x.weight.copy_(weights[f"weight_ih_l{layer}"])
            cell.w_h.weight.copy_(weights[f"weight_hh_l{layer}"])
            cell.w_x.bias.copy_(weights[f"bias_ih_l{layer}"] + bias_hh)


T = TypeVar("T")


def detach(states: T) -> T:
    """``states`` without their autograd graph: a tensor, or tuples of tensors of any depth."""
    if isinstance(states, Tensor):
        return cast(T, states.detach())
    return cast(T, tuple(detach(state) for state in cast(tuple[Any, ...], states)))


def truncated_bptt(
    stack: Stack[S],
    chunks: Iterable[tuple[Float[Tensor, "batch _ d_in"], Tensor]],
    loss: Callable[[Tensor, Tensor], Float[Tensor, ""]],
    states: tuple[S, ...] | None = None,
) -> Iterator[Float[Tensor, ""]]:
    """Process a long sequence in chunks and yield the loss of each (Williams and Peng, 1990).

    ``chunks`` are consecutive ``(inputs, targets)`` of the same sequences; ``loss`` takes the
    outputs of the stack, ``(batch, length, d_hidden)``, and the targets. The final state of each
    chunk is the initial state of the next, detached from the graph: gradients stop at the start of
    a chunk, and the graph of only one chunk is in memory.

    Call ``backward`` on each loss when it is yielded. An optimiser may step between two losses; the
    next chunk then uses the new weights. A single chunk gives full backpropagation through time.
    """
    for inputs, targets in chunks:
        outputs, states = stack(inputs, states)
        states = detach(states)
        yield loss(outputs, targets)


def state_jacobians(
    cell: Cell[S], x: Float[Tensor, "length d_in"], state: S | None = None
) -> Float[Tensor, "length d_state d_state"]:
    """Jacobians of every state with respect to the initial one: entry ``t`` is ``∂s_t/∂s_0``.

    Each is the product ``J_t ⋯ J_1`` of the Jacobians of single steps; row i, column j is
    ``∂s_t[i]/∂s_0[j]``. The state ``s`` of an LSTM is the concatenation of ``h`` and ``c``, so
    ``d_state`` is twice ``d_hidden``. ``state`` has batch size 1; ``None`` means zeros.

    Raises:
        TfmrError: if ``x`` is not ``(length, d_in)`` with at least one time step, or ``state`` does
            not have batch size 1.
    """
    require(
        x.ndim == 2 and len(x) >= 1,
        "state_jacobians takes one sequence, (length, d_in), of at least one time step: got "
        f"{tuple(x.shape)}",
    )
    initial = cell.initial_state(1) if state is None else state
    cell.check_state(initial, 1)

    def flatten(state: S) -> Float[Tensor, "d_state"]:
        return torch.cat(state, dim=1)[0] if isinstance(state, tuple) else state[0]

    def step(flat: Tensor, projected: Tensor) -> Tensor:
        tensors = flat[None].chunk(cell.state_tensors, dim=1)
        state = tensors if cell.state_tensors > 1 else tensors[0]
        return flatten(cell.step(projected[None], cast(S, state)))

    with torch.no_grad():
        steps = cell.project(x)
        states = [flatten(initial)]
        for projected in steps[:-1]:
            states.append(step(states[-1], projected))
        # Given the states, the Jacobians of all steps are independent: one batched call.
        single = torch.func.vmap(torch.func.jacrev(step))(torch.stack(states), steps)
        product = torch.eye(len(states[0]), dtype=single.dtype, device=single.device)
        jacobians = []
        for jacobian in single:
            product = jacobian @ product
            jacobians.append(product)
    return torch.stack(jacobians)
