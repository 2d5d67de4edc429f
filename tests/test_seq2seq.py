"""Seq2Seq compared with torch.nn, incremental decoding with teacher forcing, and its errors."""

import dataclasses
import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.additive_attention import additive_attention_naive
from tfmr.errors import TfmrError
from tfmr.recurrent import GRUCell
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig, decode_naive, encode_naive, reverse
from tfmr.special_tokens import BOS, PAD

VOCAB = 30
D_MODEL = 8
TINY = Seq2SeqConfig(
    source_vocab=VOCAB, target_vocab=VOCAB, d_model=D_MODEL, dropout=0.0, max_length=12
)
KINDS = list(product(["rnn", "lstm", "gru"], [False, True]))
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14, PAD, PAD, PAD], [15, *[PAD] * 6]])
TARGET = torch.tensor(
    [[BOS, 15, 16, 17, 18, 19], [BOS, 20, 21, 22, 23, 24], [BOS, 25, 26, 27, PAD, PAD]]
)


def build(cell: str = "lstm", attention: bool = True, tie: str = "three-way") -> Seq2Seq:
    """A model in double precision with random weights, so that no weight of 0 hides a fault."""
    torch.manual_seed(0)
    model = Seq2Seq(dataclasses.replace(TINY, cell=cell, attention=attention, tie=tie)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model.eval()


class TorchSeq2Seq(nn.Module):
    """The same model built from torch.nn modules."""

    def __init__(self, cell: str, attention: bool) -> None:
        super().__init__()
        stack = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
        decoder_cell = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}[cell]
        self.embedding = nn.Embedding(VOCAB, D_MODEL)
        self.encoder = stack(D_MODEL, D_MODEL // 2, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(D_MODEL, D_MODEL)
        self.decoder = decoder_cell(2 * D_MODEL, D_MODEL)
        self.combine = nn.Linear(3 * D_MODEL, D_MODEL)
        if attention:
            self.attention_hidden = nn.Linear(2 * D_MODEL, D_MODEL, bias=False)
            self.attention_score = nn.Linear(D_MODEL, 1, bias=False)
        self.attention = attention
        self.double()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        n = (source != PAD).sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source) * math.sqrt(D_MODEL), n, batch_first=True, enforce_sorted=False
        )
        out, final = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        z = torch.cat(tuple(final[0] if isinstance(final, tuple) else final), dim=-1)
        state = c = self.bridge(z)
        state = (c.tanh(), c) if isinstance(final, tuple) else c.tanh()
        scores = []
        for y in (self.embedding(target) * math.sqrt(D_MODEL)).unbind(1):
            context = z
            if self.attention:
                s = state[0] if isinstance(state, tuple) else state
                pairs = torch.cat((s[:, None].expand_as(memory), memory), dim=-1)
                e = self.attention_score(self.attention_hidden(pairs).tanh())[..., 0]
                weights = e.masked_fill(source == PAD, -math.inf).softmax(dim=-1)
                context = torch.einsum("bk,bkd->bd", weights, memory)
            state = self.decoder(torch.cat((y, context), dim=-1), state)
            s = state[0] if isinstance(state, tuple) else state
            scores.append(self.combine(torch.cat((s, context, y), dim=-1)).tanh())
        return torch.stack(scores, dim=1) @ self.embedding.weight.T


def torch_names(model: Seq2Seq, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters or gradients with the names and in the layout of :class:`TorchSeq2Seq`."""
    renamed = {
        name.replace("target_embedding", "embedding"): tensor
        for name, tensor in tensors.items()
        if name.split(".")[0] in ("target_embedding", "bridge", "combine")
    }
    cells = [
        ("forward_rnn.cells.0", "encoder.{}_l0"),
        ("backward_rnn.cells.0", "encoder.{}_l0_reverse"),
        ("decoder_cell", "decoder.{}"),
    ]
    for ours, theirs in cells:
        w_x = tensors[f"{ours}.w_x.weight"]
        if ours == "decoder_cell":
            w_x = torch.cat((w_x, tensors["w_context.weight"]), dim=1)
        renamed[theirs.format("weight_ih")] = w_x
        renamed[theirs.format("weight_hh")] = tensors[f"{ours}.w_h.weight"]
        bias = renamed[theirs.format("bias_ih")] = tensors[f"{ours}.w_x.bias"]
        if isinstance(model.decoder_cell, GRUCell):
            candidate = tensors[f"{ours}.candidate_bias"]
            # bias_hh of r and z has no counterpart: it is only added to bias_ih.
            renamed[theirs.format("bias_hh")] = F.pad(candidate, (len(bias) - len(candidate), 0))
        else:
            renamed[theirs.format("bias_hh")] = torch.zeros_like(bias)
    if model.attention is not None:
        w_and_u = [tensors[f"attention.{name}.weight"] for name in "wu"]
        renamed["attention_hidden.weight"] = torch.cat(w_and_u, dim=1)
        renamed["attention_score.weight"] = tensors["attention.v"][None]
    return renamed


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_scores_and_gradients_equal_torch(cell: str, attention: bool) -> None:
    model, module = build(cell, attention), TorchSeq2Seq(cell, attention)
    module.load_state_dict(torch_names(model, dict(model.named_parameters())))
    scores, expected = model(SOURCE, TARGET), module(SOURCE, TARGET)
    assert_close(scores, expected)
    direction = torch.randn_like(expected)
    (scores * direction).sum().backward()
    (expected * direction).sum().backward()
    gradients = torch_names(model, {name: p.grad for name, p in model.named_parameters()})
    torch_gradients = {name: p.grad for name, p in module.named_parameters()}
    assert gradients.keys() == torch_gradients.keys()
    for name, gradient in gradients.items():
        if "bias_hh" not in name:
            assert gradient.abs().max() > 0
            assert_close(gradient, torch_gradients[name])
        elif cell == "gru":  # of bias_hh, only the part of the candidate is a parameter of ours
            candidate = len(gradient) * 2 // 3
            assert_close(gradient[candidate:], torch_gradients[name][candidate:])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_encode_naive_equals_the_encoder(cell: str) -> None:
    model = build(cell, attention=False, tie="none")
    memory, _ = model.encode(SOURCE)
    vectors = model.start(SOURCE, 5).memory[:, 0]
    for row, n in enumerate((7, 4, 1)):
        outputs, z = encode_naive(model, SOURCE[row, :n])
        assert_close(outputs, memory[row, :n])
        assert_close(z, vectors[row])


@pytest.mark.parametrize("cell", ["rnn", "gru"])
@pytest.mark.parametrize("attention", [False, True])
def test_naive_functions_equal_the_model(cell: str, attention: bool) -> None:
    model = build(cell, attention)
    scores = model(SOURCE, TARGET)
    for row, n in enumerate((7, 4, 1)):
        memory, z = encode_naive(model, SOURCE[row, :n])

        def context(s: Tensor, memory: Tensor = memory, z: Tensor = z) -> Tensor:
            if model.attention is None:
                return z
            mask = torch.ones(1, len(memory), dtype=torch.bool)
            c, _ = additive_attention_naive(model.attention, s[None, None], memory[None], mask)
            return c[0, 0]

        assert_close(decode_naive(model, z, context, TARGET[row]), scores[row])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
@pytest.mark.parametrize("beam", [1, 2])
def test_incremental_decoding_equals_teacher_forcing(cell: str, attention: bool, beam: int) -> None:
    model = build(cell, attention)
    targets = [TARGET, TARGET.flip(0)][:beam]
    with torch.no_grad():
        expected = [model(SOURCE, target) for target in targets]
        state = model.start(SOURCE, TARGET.shape[1], beam)
        for t in range(TARGET.shape[1]):
            tokens = torch.stack([target[:, t] for target in targets], dim=1).flatten()
            scores = model.step(tokens, state).unflatten(0, (-1, beam))
            for j in range(beam):
                assert_close(scores[:, j], expected[j][:, t])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_reorder_and_select(cell: str, attention: bool) -> None:
    model = build(cell, attention)
    tokens = torch.randint(
        4, VOCAB, (len(SOURCE), 3, 4), generator=torch.Generator().manual_seed(1)
    )
    tokens[:, :, 0] = BOS
    parents = torch.tensor([[2, 0, 0], [1, 1, 2], [0, 2, 1]])
    selected = torch.tensor([2, 0])
    with torch.no_grad():
        state = model.start(SOURCE, 9, beam=3)
        for t in range(2):
            model.step(tokens[:, :, t].flatten(), state)
        state.reorder(parents)
        model.step(tokens[:, :, 2].flatten(), state)
        state.select(selected)
        scores = model.step(tokens[selected, :, 3].flatten(), state).unflatten(0, (-1, 3))
        assert len(state.memory) == 2
        prefixes = tokens[:, :, :2].take_along_dim(parents[..., None], dim=1)
        for i, sentence in enumerate(selected.tolist()):
            for j in range(3):
                target = torch.cat((prefixes[sentence, j], tokens[sentence, j, 2:]))
                expected = model(SOURCE[sentence : sentence + 1], target[None])
                assert_close(scores[i, j], expected[0, -1])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_scores_depend_on_the_whole_source_and_on_the_prefix_only(
    cell: str, attention: bool
) -> None:
    model = build(cell, attention, "none")  # all ids differ, so an embedding row is a position
    for row, t in product(range(2), range(TARGET.shape[1])):
        model.zero_grad()
        model(SOURCE, TARGET)[row, t].square().sum().backward()
        used = model.target_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert used.nonzero().flatten().tolist() == sorted(TARGET[row, : t + 1].tolist())
        used = model.source_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert used.nonzero().flatten().tolist() == SOURCE[row][SOURCE[row] != PAD].tolist()


def test_alignment_returns_the_attention_weights() -> None:
    model = build()
    weights = model.alignment(SOURCE, TARGET)
    assert_close(weights.sum(dim=-1), torch.ones(3, 6, dtype=torch.double))
    assert torch.equal(weights > 0, (SOURCE != PAD)[:, None].expand(-1, 6, -1))
    state, attention = model.start(SOURCE, 6), model.attention
    assert attention is not None
    _, first = attention(state.rnn_state[0][:, None], state.keys, state.memory, state.mask)
    assert_close(weights[:, 0], first[:, 0])
    with pytest.raises(TfmrError, match=r"train.*attention=True"):
        build(attention=False).alignment(SOURCE, TARGET)


@pytest.mark.parametrize("length", [1, 4])
def test_reverse(length: int) -> None:
    x, n = torch.randn(3, length, 2), torch.tensor([length, 1, max(1, length - 1)])
    reversed_x = reverse(x, n)
    for row, real in enumerate(n.tolist()):
        assert torch.equal(reversed_x[row, :real], x[row, :real].flip(0))
        assert torch.equal(reversed_x[row, real:], x[row, real:])


@pytest.mark.parametrize(("tie", "matrices"), [("three-way", 1), ("target", 2), ("none", 3)])
def test_tied_matrices_share_storage(tie: str, matrices: int) -> None:
    model = build(tie=tie)
    weights = [model.source_embedding.weight, model.target_embedding.weight, model.output.weight]
    assert len({weight.data_ptr() for weight in weights}) == matrices
    assert (weights[1] is weights[2]) == (tie != "none")


@pytest.mark.parametrize(
    ("cell", "attention", "millions"),
    [("rnn", False, 1.84), ("lstm", False, 2.72), ("gru", False, 2.43), ("lstm", True, 2.86)],
)
def test_number_of_parameters(cell: str, attention: bool, millions: float) -> None:
    d, gates = 256, {"rnn": 1, "lstm": 4, "gru": 3}[cell]
    config = Seq2SeqConfig(
        source_vocab=5000, target_vocab=5000, cell=cell, attention=attention, d_model=d
    )
    with torch.device("meta"):
        model = Seq2Seq(config)
    expected = (
        5000 * d  # one matrix: both embeddings and the output projection
        + 2 * gates * (d // 2) * (d + d // 2 + 1)  # the two directions of the encoder
        + gates * d * (d + d + d + 1)  # the decoder cell: embedding, context, state, bias
        + (d + 1) * d  # bridge
        + (3 * d + 1) * d  # combine
        + (2 * d * d + d if attention else 0)
        + (2 * d if cell == "gru" else 0)  # second biases of the candidates
    )
    assert model.count_parameters() == expected
    assert expected / 1e6 == pytest.approx(millions, abs=0.005)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_initialisation(cell: str) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(source_vocab=2000, target_vocab=2000, cell=cell, d_model=64))
    for rnn_cell in (model.decoder_cell, model.forward_rnn.cells[0], model.backward_rnn.cells[0]):
        for gate in rnn_cell.w_h.weight.chunk(rnn_cell.gates):
            assert_close(gate @ gate.T, torch.eye(rnn_cell.d_hidden), atol=1e-5, rtol=0)
    if cell == "lstm":
        assert (model.decoder_cell.w_x.bias[64:128] == 1).all()
    assert model.output.weight.detach().std().item() == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize("attention", [False, True])
def test_dropout_acts_on_embeddings_and_before_the_output_in_training_only(
    attention: bool,
) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(dataclasses.replace(TINY, attention=attention, dropout=0.5))
    outputs: list[Tensor] = []
    model.dropout.register_forward_hook(lambda _, args, out: outputs.append(out))
    vectors = model.hidden(SOURCE, TARGET)
    assert sorted(out.shape for out in outputs) == [(3, 6, 8), (3, 6, 8), (3, 7, 8)]
    assert outputs[-1] is vectors
    for out in outputs:
        assert (out == 0).float().mean().item() == pytest.approx(0.5, abs=0.15)
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d_model": 9}, "d_model.*even.*got 9"),
        ({"d_model": 0}, "d_model.*got 0"),
        ({"max_length": 2.5}, "max_length.*got 2.5"),
        ({"dropout": 1.0}, r"\[0, 1\).*got 1.0"),
        ({"cell": "mgu"}, "cell.*rnn, lstm, gru.*got 'mgu'"),
        ({"attention": "additive"}, "True.*False.*got 'additive'"),
        ({"tie": "all"}, "tie.*three-way, target, none.*got 'all'"),
        ({"target_vocab": 40}, "source_vocab=30, target_vocab=40.*joint vocabulary"),
    ],
)
def test_invalid_config_raises_tfmr_error(unchecked, changed: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        dataclasses.replace(TINY, **changed)


def test_step_rejects_tokens_that_do_not_fit(unchecked) -> None:
    model = build()
    for tokens in (torch.tensor([BOS] * 3), torch.tensor([[BOS] * 6])):
        with pytest.raises(TfmrError, match=r"3.*x 2 hypotheses.*got shape"):
            model.step(tokens, model.start(SOURCE, 5, beam=2))
