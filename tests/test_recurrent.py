"""Cells and stacks against torch.nn, against formulas worked by hand, and against themselves."""

import math

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

KINDS = [(RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)]
BATCH, LENGTH, D_IN, D_HIDDEN = 3, 7, 4, 5


def tensors(states):
    """All tensors of a nested tuple, in order."""
    return [states] if isinstance(states, Tensor) else [t for part in states for t in tensors(part)]


def pair(own, torchs, layers):
    torch.manual_seed(0)
    stack = own(D_IN, D_HIDDEN, layers).double()
    module = torchs(D_IN, D_HIDDEN, layers, batch_first=True).double()
    copy_from_torch(stack, module)
    return stack, module


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(("own", "torchs"), KINDS)
def test_equal_to_torch_forward_and_gradient(own, torchs, layers):
    stack, module = pair(own, torchs, layers)
    x = torch.randn(BATCH, LENGTH, D_IN, dtype=torch.double)
    first = torch.randn(2, layers, BATCH, D_HIDDEN, dtype=torch.double)
    ours = [x.clone().requires_grad_(), first.clone().requires_grad_()]
    theirs = [x.clone().requires_grad_(), first.clone().requires_grad_()]
    is_lstm = own is LSTM
    states = tuple(zip(*ours[1], strict=True)) if is_lstm else tuple(ours[1][0])
    outputs, final = stack(ours[0], states)
    expected, last = module(theirs[0], (theirs[1][0], theirs[1][1]) if is_lstm else theirs[1][0])
    assert_close(outputs, expected)
    by_layer = list(zip(*last, strict=True)) if is_lstm else list(last)
    assert_close(tensors(final), tensors(tuple(by_layer)))

    direction = torch.randn_like(expected)
    for out, ends in ((outputs, final), (expected, last)):
        total = (out * direction).sum()
        for index, part in enumerate(tensors(ends) if ends is not final else torchs_order(ends)):
            total = total + (index + 2) * part.square().sum()
        total.backward()
    assert_close(ours[0].grad, theirs[0].grad)
    assert_close(ours[1].grad, theirs[1].grad)
    for layer, cell in enumerate(stack.cells):
        of = {name: getattr(module, f"{name}_l{layer}").grad for name in
              ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}  # fmt: skip
        assert_close(cell.from_input.weight.grad, of["weight_ih"])
        assert_close(cell.from_hidden.weight.grad, of["weight_hh"])
        assert_close(cell.from_input.bias.grad, of["bias_ih"])
        if own is GRU:
            assert_close(cell.candidate_bias.grad, of["bias_hh"][2 * D_HIDDEN :])
            assert not torch.allclose(cell.candidate_bias.grad, of["bias_ih"][2 * D_HIDDEN :])
        else:
            assert_close(cell.from_input.bias.grad, of["bias_hh"])


def torchs_order(final):
    """States by kind, then by layer, stacked as torch.nn returns them."""
    if isinstance(final[0], Tensor):
        return [torch.stack(final)]
    return [torch.stack(part) for part in zip(*final, strict=True)]


@pytest.mark.parametrize("make", [RNN, LSTM, GRU, lambda *a: GRU(*a, reset_after=False)])
def test_a_stack_is_the_cell_step_by_step(make):
    torch.manual_seed(1)
    stack = make(D_IN, D_HIDDEN, 2)
    x = torch.randn(BATCH, LENGTH, D_IN)
    outputs, final = stack(x)
    lower, upper = stack.start(BATCH)
    for t in range(LENGTH):
        lower = stack.cells[0](x[:, t], lower)
        upper = stack.cells[1](stack.cells[0].hidden(lower), upper)
        assert_close(outputs[:, t], stack.cells[1].hidden(upper))
    assert_close(tensors(final), tensors((lower, upper)))


def test_rnn_cell_is_the_formula():
    cell = RNNCell(2, 3)
    x, h = torch.randn(4, 2), torch.randn(4, 3)
    w_x, w_h = cell.from_input.weight.T, cell.from_hidden.weight.T
    assert_close(cell(x, h), torch.tanh(x @ w_x + h @ w_h + cell.from_input.bias))


def test_lstm_gates_open_and_close_as_their_names_say():
    cell = LSTMCell(1, 1)
    h, c = torch.tensor([[0.3]]), torch.tensor([[0.7]])
    with torch.no_grad():
        cell.from_input.weight.zero_()
        cell.from_hidden.weight.zero_()
        i, f, o = 0, 1, 3
        for opened, expected in (
            ([f, o], 0.7),
            ([i, o], math.tanh(0.5)),
            ([i, f, o], 0.7 + math.tanh(0.5)),
        ):
            bias = torch.full((4,), -50.0)
            bias[opened] = 50.0
            bias[2] = 0.5
            cell.from_input.bias.copy_(bias)
            after, memory = cell(torch.zeros(1, 1), (h, c))
            assert_close(memory.item(), expected)
            assert_close(after.item(), math.tanh(expected))
        cell.from_input.bias[o] = -50.0
        assert abs(cell(torch.zeros(1, 1), (h, c))[0].item()) < 1e-12


@pytest.mark.parametrize("forget_bias", [1.0, 3.0])
def test_forget_bias_starts_the_forget_gate_and_no_other(forget_bias):
    torch.manual_seed(2)
    plain = LSTMCell(D_IN, D_HIDDEN, forget_bias=0.0)
    torch.manual_seed(2)
    bias = LSTMCell(D_IN, D_HIDDEN, forget_bias=forget_bias).from_input.bias
    assert (bias[D_HIDDEN : 2 * D_HIDDEN] == forget_bias).all()
    rest = [*range(D_HIDDEN), *range(2 * D_HIDDEN, 4 * D_HIDDEN)]
    assert_close(bias[rest], plain.from_input.bias[rest])
    assert (
        LSTM(D_IN, D_HIDDEN, 2, forget_bias=forget_bias).cells[1].from_input.bias[5:10]
        == forget_bias
    ).all()


def test_gru_without_reset_after_is_the_papers_formula():
    torch.manual_seed(3)
    cell = GRUCell(2, 3, reset_after=False)
    x, h = torch.randn(4, 2), torch.randn(4, 3)
    (x_r, x_z, x_n), (w_r, w_z, w_n) = (
        cell.project(x).chunk(3, -1),
        cell.from_hidden.weight.chunk(3, 0),
    )
    r, z = torch.sigmoid(x_r + h @ w_r.T), torch.sigmoid(x_z + h @ w_z.T)
    expected = z * h + (1 - z) * torch.tanh(x_n + (r * h) @ w_n.T)
    assert_close(cell(x, h), expected)
    after = GRUCell(2, 3)
    after.load_state_dict({**cell.state_dict(), "candidate_bias": torch.zeros(3)})
    assert not torch.allclose(after(x, h), expected, atol=1e-4)


@pytest.mark.parametrize("layers", [1, 3])
def test_parameter_counts_are_the_formulas(layers):
    def count(module):
        return sum(p.numel() for p in module.parameters())

    for gates, own, torchs in ((1, RNN, nn.RNN), (4, LSTM, nn.LSTM)):
        expected = parameter_count(gates, D_IN, D_HIDDEN, layers)
        assert count(own(D_IN, D_HIDDEN, layers)) == expected
        assert count(torchs(D_IN, D_HIDDEN, layers)) == expected + layers * gates * D_HIDDEN
    expected = parameter_count(3, D_IN, D_HIDDEN, layers)
    assert count(GRU(D_IN, D_HIDDEN, layers, reset_after=False)) == expected
    assert count(GRU(D_IN, D_HIDDEN, layers)) == expected + layers * D_HIDDEN
    assert count(nn.GRU(D_IN, D_HIDDEN, layers)) == expected + layers * 3 * D_HIDDEN
    assert parameter_count(4, 100, 256) == 4 * (100 * 256 + 256 * 256 + 256)


def test_weights_start_within_one_over_root_d_hidden():
    for parameter in RNN(D_IN, 16, 2).parameters():
        assert parameter.abs().max() <= 1 / 4
        assert parameter.unique().numel() > 1


def test_dropout_acts_between_layers_only():
    torch.manual_seed(4)
    x = torch.randn(BATCH, LENGTH, D_IN)
    one, two = GRU(D_IN, 64, 1, dropout=0.5), GRU(D_IN, 64, 2, dropout=0.5)
    assert_close(one(x)[0], one.eval()(x)[0])
    noisy, states = two(x)
    clean, calm = two.eval()(x)
    assert not torch.allclose(noisy, clean)
    assert_close(states[0], calm[0])
    assert (noisy != 0).all()


def test_the_gradient_of_a_long_sequence_has_linearly_many_nodes():
    def nodes(length):
        outputs, _ = RNN(2, 3)(torch.randn(1, length, 2))
        seen, todo = set(), [outputs.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                todo += [parent for parent, _ in node.next_functions]
        return seen

    names = [node.name() for node in nodes(20)]
    assert "UnbindBackward0" in names
    assert "SelectBackward0" not in names
    assert len(nodes(40)) < 2 * len(nodes(20))


# ---- truncated backpropagation ---------------------------------------------------------------


def gradients(stack, losses):
    stack.zero_grad()
    for value in losses:
        value.backward()
    return [p.grad.clone() for p in stack.parameters()]


def chunked(x, y, length):
    return list(zip(x.split(length, dim=1), y.split(length, dim=1), strict=True))


def squared(outputs, targets):
    return (outputs - targets).square().sum()


@pytest.mark.parametrize("make", [RNN, LSTM, GRU])
def test_truncated_bptt_with_one_chunk_is_full_bptt(make):
    torch.manual_seed(5)
    stack = make(D_IN, D_HIDDEN, 2).double()
    x, y = torch.randn(BATCH, 12, D_IN).double(), torch.randn(BATCH, 12, D_HIDDEN).double()
    full = gradients(stack, [squared(stack(x)[0], y)])
    one = gradients(stack, truncated_bptt(stack, chunked(x, y, 12), squared))
    assert_close(one, full)

    parts = list(truncated_bptt(stack, chunked(x, y, 4), squared))
    assert len(parts) == 3
    assert_close(sum(parts), squared(stack(x)[0], y))
    cut = gradients(stack, truncated_bptt(stack, chunked(x, y, 4), squared))
    assert not torch.allclose(cut[1], full[1], rtol=1e-3)


def test_truncated_gradient_holds_the_entering_state_constant():
    torch.manual_seed(6)
    stack = RNN(1, 1).double()
    with torch.no_grad():
        stack.cells[0].from_hidden.weight.fill_(0.8)
    x, y = torch.randn(1, 3, 1).double(), torch.zeros(1, 3, 1).double()
    gradients(stack, truncated_bptt(stack, chunked(x, y, 1), lambda out, _: out.sum()))
    h = [0.0, *stack(x)[0].flatten().tolist()]
    predicted = sum((1 - h[t] ** 2) * h[t - 1] for t in (1, 2, 3))
    assert_close(stack.cells[0].from_hidden.weight.grad.item(), predicted)


def test_truncated_bptt_flows_on_from_given_states_and_through_steps_of_an_optimiser():
    torch.manual_seed(7)
    stack = LSTM(D_IN, D_HIDDEN)
    x, y = torch.randn(BATCH, 8, D_IN), torch.randn(BATCH, 8, D_HIDDEN)
    _, states = stack(x[:, :4])
    (value,) = truncated_bptt(stack, chunked(x[:, 4:], y[:, 4:], 4), squared, states)
    assert_close(value, squared(stack(x)[0][:, 4:], y[:, 4:]))
    optimiser = torch.optim.SGD(stack.parameters(), lr=0.01)
    for value in truncated_bptt(stack, chunked(x, y, 2), squared):
        optimiser.zero_grad()
        value.backward()
        optimiser.step()


def test_detach_keeps_numbers_and_drops_the_graph():
    h = torch.ones(2, requires_grad=True) * 2
    nested = detach(((h, h), h))
    assert all(not t.requires_grad for t in tensors(nested))
    assert_close(tensors(nested), [torch.full((2,), 2.0)] * 3)
    assert isinstance(nested[0], tuple)


# ---- Jacobians -------------------------------------------------------------------------------


def test_rnn_jacobians_are_the_product_in_the_formula():
    torch.manual_seed(8)
    cell = RNNCell(2, 3).double()
    x, h = torch.randn(5, 2).double(), torch.randn(1, 3).double()
    product = torch.eye(3).double()
    found = state_jacobians(cell, x, h)
    for t in range(5):
        h = cell(x[t : t + 1], h)
        product = torch.diag(1 - h[0] ** 2) @ cell.from_hidden.weight @ product
        assert_close(found[t], product.detach())


@pytest.mark.parametrize("make", [RNNCell, LSTMCell, GRUCell])
def test_jacobians_agree_with_autograd_through_the_whole_sequence(make):
    torch.manual_seed(9)
    cell = make(2, 3).double()
    x = torch.randn(4, 2).double()
    is_lstm = make is LSTMCell
    start = torch.randn(6 if is_lstm else 3).double()

    def run(flat):
        state = tuple(flat[None].chunk(2, dim=1)) if is_lstm else flat[None]
        for row in x:
            state = cell(row[None], state)
        return torch.cat(tensors(state), dim=1)[0]

    state = tuple(start[None].chunk(2, dim=1)) if is_lstm else start[None]
    expected = torch.autograd.functional.jacobian(run, start)
    assert_close(state_jacobians(cell, x, state)[-1], expected)
    assert state_jacobians(cell, x).shape == (4, *expected.shape)


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: RNNCell(0, 3), "d_in and d_hidden of at least 1, got 0 and 3"),
        (lambda: LSTM(2, 3, layers=0), "at least 1 layer"),
        (lambda: GRU(2, 3, 2, dropout=1.0), r"probability in \[0, 1\), got 1.0"),
        (lambda: RNNCell(2, 3)(torch.zeros(1, 5), torch.zeros(1, 3)), "d_in=2 numbers, got 5"),
        (lambda: RNNCell(2, 3)(torch.zeros(1, 2), torch.zeros(1, 4)), r"= \(1, 3\), got \(1, 4\)"),
        (lambda: LSTM(2, 3)(torch.zeros(4, 5, 3)), "d_in=2 numbers, got 3"),
        (lambda: LSTM(2, 3)(torch.zeros(4, 0, 2)), "at least one step"),
        (lambda: GRU(2, 3)(torch.zeros(4, 5, 2), (torch.zeros(1, 3),)), "kept from another batch"),
        (lambda: GRU(2, 3, 2)(torch.zeros(4, 5, 2), (torch.zeros(4, 3),)), "per layer, got 1"),
        (lambda: state_jacobians(RNNCell(2, 3), torch.zeros(4, 2), torch.zeros(2, 3)), "batch"),
        (lambda: copy_from_torch(RNN(2, 3), nn.GRU(2, 3)), "same kind and size"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 4)), "same kind and size"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, bidirectional=True)), "in one direction"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, bias=False)), "and biases"),
        (lambda: copy_from_torch(RNN(2, 3), nn.RNN(2, 3, nonlinearity="relu")), "with tanh"),
        (lambda: half_a_state(LSTMCell(2, 3)), r"2 part\(s\): got 1"),
        (lambda: copy_from_torch(GRU(2, 3, reset_after=False), nn.GRU(2, 3)), "reset_after=True"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_was_expected(wrong, message):
    with pytest.raises(TfmrError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def half_a_state(cell):
    check = type(cell).check_state
    getattr(check, "__wrapped__", check)(cell, (torch.zeros(2, 3),), 2)


def test_a_sequence_without_a_batch_axis_is_refused():
    forward = RNN.forward.__wrapped__
    with pytest.raises(TfmrError, match=r"\(batch, length, d_in\)"):
        forward(RNN(2, 3), torch.zeros(5, 2))
