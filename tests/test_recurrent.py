"""Cells and stacks compared with torch.nn, with their formulas and with autograd."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    RNNCell,
    copy_from_torch,
    detach,
    parameter_count,
    state_jacobians,
    truncated_bptt,
)

BATCH, LENGTH, D_IN, D_HIDDEN = 3, 7, 4, 5


def tensors(states):
    """All tensors of nested tuples, in order."""
    return [states] if isinstance(states, Tensor) else [t for part in states for t in tensors(part)]


def weighted_sum(outputs, direction, states):
    """A scalar that depends on every output and, differently, on every state."""
    return (outputs * direction).sum() + sum(
        (i + 2) * state.square().sum() for i, state in enumerate(states)
    )


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize(
    ("stack_class", "torch_class"), [(RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)]
)
def test_outputs_and_gradients_equal_torch(stack_class, torch_class, n_layers):
    torch.manual_seed(0)
    stack = stack_class(D_IN, D_HIDDEN, n_layers).double()
    module = torch_class(D_IN, D_HIDDEN, n_layers, batch_first=True).double()
    copy_from_torch(stack, module)
    x = torch.randn(BATCH, LENGTH, D_IN).double()
    # Per layer for the stack; (h, c), each stacked by layer, for torch.nn.
    initial = torch.randn(2, n_layers, BATCH, D_HIDDEN).double()
    ours = [x.clone().requires_grad_(), initial.clone().requires_grad_()]
    theirs = [x.clone().requires_grad_(), initial.clone().requires_grad_()]
    if stack_class is LSTM:
        outputs, final = stack(ours[0], tuple(zip(*ours[1], strict=True)))
        expected, last = module(theirs[0], tuple(theirs[1]))
        final = [torch.stack(states) for states in zip(*final, strict=True)]
    else:
        outputs, final = stack(ours[0], tuple(ours[1][0]))
        expected, last = module(theirs[0], theirs[1][0])
        final = [torch.stack(final)]
    assert_close(outputs, expected)
    assert_close(final, tensors(last))

    direction = torch.randn_like(expected)
    weighted_sum(outputs, direction, final).backward()
    weighted_sum(expected, direction, tensors(last)).backward()
    assert_close([x.grad for x in ours], [x.grad for x in theirs])
    for layer, cell in enumerate(stack.cells):
        gradients = {
            name: getattr(module, f"{name}_l{layer}").grad
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        assert_close(cell.w_x.weight.grad, gradients["weight_ih"])
        assert_close(cell.w_h.weight.grad, gradients["weight_hh"])
        assert_close(cell.w_x.bias.grad, gradients["bias_ih"])
        if stack_class is GRU:
            assert_close(cell.candidate_bias.grad, gradients["bias_hh"][2 * D_HIDDEN :])


@pytest.mark.parametrize("make", [RNN, LSTM, GRU, lambda *a: GRU(*a, reset_after=False)])
def test_stack_equals_its_cells_step_by_step(make):
    torch.manual_seed(1)
    stack = make(D_IN, D_HIDDEN, 2)
    x = torch.randn(BATCH, LENGTH, D_IN)
    outputs, final = stack(x)
    lower, upper = stack.initial_state(BATCH)
    for t in range(LENGTH):
        lower = stack.cells[0](x[:, t], lower)
        upper = stack.cells[1](stack.cells[0].hidden(lower), upper)
        assert_close(outputs[:, t], stack.cells[1].hidden(upper))
    assert_close(tensors(final), tensors((lower, upper)))


def test_forget_bias_sets_the_bias_of_the_forget_gate_only():
    torch.manual_seed(2)
    default = LSTMCell(D_IN, D_HIDDEN).w_x.bias
    torch.manual_seed(2)
    stack = LSTM(D_IN, D_HIDDEN, 2, forget_bias=3.0)
    forget = slice(D_HIDDEN, 2 * D_HIDDEN)
    assert (default[forget] == 1).all()
    assert all((cell.w_x.bias[forget] == 3).all() for cell in stack.cells)
    others = [*range(D_HIDDEN), *range(2 * D_HIDDEN, 4 * D_HIDDEN)]
    assert_close(stack.cells[0].w_x.bias[others], default[others])


def test_gru_without_reset_after_equals_the_formula_of_the_paper():
    torch.manual_seed(3)
    cell = GRUCell(2, 3, reset_after=False)
    x, h = torch.randn(4, 2), torch.randn(4, 3)
    x_r, x_z, x_n = cell.project(x).chunk(3, -1)
    w_r, w_z, w_n = cell.w_h.weight.chunk(3, 0)
    r, z = torch.sigmoid(x_r + h @ w_r.T), torch.sigmoid(x_z + h @ w_z.T)
    expected = z * h + (1 - z) * torch.tanh(x_n + (r * h) @ w_n.T)
    assert_close(cell(x, h), expected)
    after = GRUCell(2, 3)
    after.load_state_dict({**cell.state_dict(), "candidate_bias": torch.zeros(3)})
    assert not torch.allclose(after(x, h), expected, atol=1e-4)


@pytest.mark.parametrize("n_layers", [1, 3])
def test_parameter_count(n_layers):
    def count(module):
        return sum(p.numel() for p in module.parameters())

    for gates, stack_class, torch_class in ((1, RNN, nn.RNN), (4, LSTM, nn.LSTM), (3, GRU, nn.GRU)):
        expected = parameter_count(gates, D_IN, D_HIDDEN, n_layers)
        assert (
            count(torch_class(D_IN, D_HIDDEN, n_layers)) == expected + n_layers * gates * D_HIDDEN
        )
        second_bias = n_layers * D_HIDDEN if stack_class is GRU else 0
        assert count(stack_class(D_IN, D_HIDDEN, n_layers)) == expected + second_bias
    assert count(GRU(D_IN, D_HIDDEN, n_layers, reset_after=False)) == expected
    assert parameter_count(4, 100, 256) == 4 * (100 * 256 + 256 * 256 + 256)


def test_initial_weights_are_within_one_over_root_d_hidden():
    for parameter in RNN(D_IN, 16, 2).parameters():
        assert parameter.abs().max() <= 1 / 4
        assert parameter.unique().numel() > 1


def test_dropout_acts_between_layers_only():
    torch.manual_seed(4)
    x = torch.randn(BATCH, LENGTH, D_IN)
    one, two = GRU(D_IN, 64, 1, dropout=0.5), GRU(D_IN, 64, 2, dropout=0.5)
    assert_close(one(x)[0], one.eval()(x)[0])
    outputs, states = two(x)
    outputs_eval, states_eval = two.eval()(x)
    assert not torch.allclose(outputs, outputs_eval)
    assert_close(states[0], states_eval[0])
    assert (outputs != 0).all()


def test_autograd_graph_grows_linearly_with_the_length():
    def nodes(length):
        outputs, _ = RNN(2, 3)(torch.randn(1, length, 2))
        found, todo = set(), [outputs.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in found:
                found.add(node)
                todo += [parent for parent, _ in node.next_functions]
        return found

    names = [node.name() for node in nodes(20)]
    assert "UnbindBackward0" in names
    assert "SelectBackward0" not in names
    assert len(nodes(40)) < 2 * len(nodes(20))


def gradients(stack, losses):
    stack.zero_grad()
    for loss in losses:
        loss.backward()
    return [p.grad.clone() for p in stack.parameters()]


def chunks(x, y, length):
    return list(zip(x.split(length, dim=1), y.split(length, dim=1), strict=True))


def squared_error(outputs, targets):
    return (outputs - targets).square().sum()


@pytest.mark.parametrize("make", [RNN, LSTM, GRU])
def test_truncated_bptt_with_one_chunk_is_full_bptt(make):
    torch.manual_seed(5)
    stack = make(D_IN, D_HIDDEN, 2).double()
    x, y = torch.randn(BATCH, 12, D_IN).double(), torch.randn(BATCH, 12, D_HIDDEN).double()
    full = gradients(stack, [squared_error(stack(x)[0], y)])
    assert_close(gradients(stack, truncated_bptt(stack, chunks(x, y, 12), squared_error)), full)

    losses = list(truncated_bptt(stack, chunks(x, y, 4), squared_error))
    assert len(losses) == 3
    assert_close(sum(losses), squared_error(stack(x)[0], y))
    truncated = gradients(stack, truncated_bptt(stack, chunks(x, y, 4), squared_error))
    assert not torch.allclose(truncated[1], full[1], rtol=1e-3)


def test_truncated_gradient_treats_the_initial_state_of_a_chunk_as_constant():
    torch.manual_seed(6)
    stack = RNN(1, 1).double()
    with torch.no_grad():
        stack.cells[0].w_h.weight.fill_(0.8)
    x, y = torch.randn(1, 3, 1).double(), torch.zeros(1, 3, 1).double()
    gradients(stack, truncated_bptt(stack, chunks(x, y, 1), lambda out, _: out.sum()))
    h = [0.0, *stack(x)[0].flatten().tolist()]
    expected = sum((1 - h[t] ** 2) * h[t - 1] for t in (1, 2, 3))
    assert_close(stack.cells[0].w_h.weight.grad.item(), expected)


def test_truncated_bptt_continues_from_given_states_and_with_updated_weights():
    torch.manual_seed(7)
    stack = LSTM(D_IN, D_HIDDEN)
    x, y = torch.randn(BATCH, 8, D_IN), torch.randn(BATCH, 8, D_HIDDEN)
    _, states = stack(x[:, :4])
    (loss,) = truncated_bptt(stack, chunks(x[:, 4:], y[:, 4:], 4), squared_error, states)
    assert_close(loss, squared_error(stack(x)[0][:, 4:], y[:, 4:]))
    optimizer = torch.optim.SGD(stack.parameters(), lr=0.01)
    for loss in truncated_bptt(stack, chunks(x, y, 2), squared_error):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_detach_keeps_values_and_structure():
    h = torch.ones(2, requires_grad=True) * 2
    nested = detach(((h, h), h))
    assert all(not t.requires_grad for t in tensors(nested))
    assert_close(tensors(nested), [torch.full((2,), 2.0)] * 3)
    assert isinstance(nested[0], tuple)


@pytest.mark.parametrize("make", [RNNCell, LSTMCell, GRUCell])
def test_jacobians_equal_autograd(make):
    torch.manual_seed(9)
    cell = make(2, 3).double()
    x = torch.randn(4, 2).double()

    def state_of(flat):
        return tuple(flat[None].chunk(2, dim=1)) if make is LSTMCell else flat[None]

    initial = torch.randn(6 if make is LSTMCell else 3).double()
    jacobians = state_jacobians(cell, x, state_of(initial))
    for length in range(1, 5):

        def run(flat, length=length):
            state = state_of(flat)
            for row in x[:length]:
                state = cell(row[None], state)
            return torch.cat(tensors(state), dim=1)[0]

        expected = torch.autograd.functional.jacobian(run, initial)
        assert_close(jacobians[length - 1], expected)
    assert_close(state_jacobians(cell, x), state_jacobians(cell, x, state_of(0 * initial)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RNNCell(0, 3), "d_in.*positive.*got 0"),
        (lambda: LSTM(2, 3, n_layers=0), "at least one layer"),
        (lambda: GRU(2, 3, 2, dropout=1.0), r"\[0, 1\).*got 1.0"),
        (lambda: RNNCell(2, 3).project(torch.tensor(1.0)), r"got shape \(\)"),
        (lambda: RNNCell(2, 3)(torch.zeros(2), torch.zeros(1, 3)), r"d_in=2\).*got \(2,\)"),
        (lambda: RNNCell(2, 3)(torch.zeros(1, 5), torch.zeros(1, 3)), r"d_in=2.*shape \(1, 5"),
        (lambda: RNNCell(2, 3)(torch.zeros(1, 2), torch.zeros(1, 4)), r"= \(1, 3\).*got \(1, 4\)"),
        (lambda: RNN(2, 3)(torch.zeros(5, 2)), r"\(batch, length, d_in\).*got \(5, 2\)"),
        (lambda: LSTM(2, 3)(torch.zeros(4, 5, 3)), r"d_in=2.*got shape \(4, 5, 3\)"),
        (lambda: LSTM(2, 3)(torch.zeros(4, 0, 2)), "time step"),
        (lambda: LSTMCell(2, 3).check_state((torch.zeros(2, 3),), 2), r"2 tensor\(s\).*got 1"),
        (lambda: GRU(2, 3)(torch.zeros(4, 5, 2), (torch.zeros(1, 3),)), "another batch"),
        (lambda: GRU(2, 3, 2)(torch.zeros(4, 5, 2), (torch.zeros(4, 3),)), "layer.*got 1"),
        (lambda: state_jacobians(RNNCell(2, 3), torch.zeros(4, 2), torch.zeros(2, 3)), "batch"),
        (lambda: state_jacobians(RNNCell(2, 3), torch.zeros(0, 2)), "time step"),
        (lambda: copy_from_torch(RNN(2, 3), nn.GRU(2, 3)), "same kind and size"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 4)), "same kind and size"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, bidirectional=True)), "unidirectional"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, bias=False)), "and biases"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, nonlinearity="relu")), "with tanh"),
        (lambda: copy_from_torch(GRU(2, 3, reset_after=False), nn.GRU(2, 3)), "reset_after=True"),
    ],
)  # fmt: skip
def test_invalid_arguments_raise_tfmr_error(unchecked, call, message):
    with pytest.raises(TfmrError, match=message):
        call()
