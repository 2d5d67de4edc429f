"""Recurrent translators: against torch.nn, against themselves step by step, and refusals."""

import dataclasses
import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.recurrent import GRUCell
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig, Seq2SeqState, reverse
from tfmr.special_tokens import BOS, PAD

VOCAB = 30
D_MODEL = 8
TINY = Seq2SeqConfig(VOCAB, VOCAB, d_model=D_MODEL, dropout=0.0, max_length=12)
KINDS = list(product(["rnn", "lstm", "gru"], [False, True]))
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14, PAD, PAD, PAD], [15, *[PAD] * 6]])
TARGET = torch.tensor(
    [[BOS, 15, 16, 17, 18, 19], [BOS, 20, 21, 22, 23, 24], [BOS, 25, 26, 27, PAD, PAD]]
)


def build(cell: str = "lstm", attention: bool = True, tie: str = "three-way") -> Seq2Seq:
    """A model in double precision, none of whose weights is at a value that hides a fault."""
    torch.manual_seed(0)
    model = Seq2Seq(dataclasses.replace(TINY, cell=cell, attention=attention, tie=tie)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model.eval()


class InTorch(nn.Module):
    """The same translator of torch.nn's modules, which know nothing of ours."""

    def __init__(self, cell: str, attention: bool) -> None:
        super().__init__()
        stack = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
        one = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}[cell]
        self.embedding = nn.Embedding(VOCAB, D_MODEL)
        self.encoder = stack(D_MODEL, D_MODEL // 2, bidirectional=True, batch_first=True)
        self.first = nn.Linear(D_MODEL, D_MODEL)
        self.decoder = one(2 * D_MODEL, D_MODEL)
        self.combine = nn.Linear(3 * D_MODEL, D_MODEL)
        if attention:
            self.on_both = nn.Linear(2 * D_MODEL, D_MODEL, bias=False)
            self.to_score = nn.Linear(D_MODEL, 1, bias=False)
        self.attention = attention
        self.double()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        n = (source != PAD).sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(source) * math.sqrt(D_MODEL), n, batch_first=True, enforce_sorted=False
        )
        out, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        z = torch.cat(tuple(last[0] if isinstance(last, tuple) else last), dim=-1)
        state = c = self.first(z)
        state = (c.tanh(), c) if isinstance(last, tuple) else c.tanh()
        scores = []
        for y in (self.embedding(target) * math.sqrt(D_MODEL)).unbind(1):
            context = z
            if self.attention:
                s = state[0] if isinstance(state, tuple) else state
                both = torch.cat((s[:, None].expand_as(memory), memory), dim=-1)
                e = self.to_score(self.on_both(both).tanh())[..., 0]
                weights = e.masked_fill(source == PAD, -math.inf).softmax(dim=-1)
                context = torch.einsum("bk,bkd->bd", weights, memory)
            state = self.decoder(torch.cat((y, context), dim=-1), state)
            s = state[0] if isinstance(state, tuple) else state
            scores.append(self.combine(torch.cat((s, context, y), dim=-1)).tanh())
        return torch.stack(scores, dim=1) @ self.embedding.weight.T


def in_torch(model: Seq2Seq, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters, or their gradients, by the names of :class:`InTorch` and in its layout."""
    renamed = {
        name.replace("target_embedding", "embedding"): tensor
        for name, tensor in tensors.items()
        if name.split(".")[0] in ("target_embedding", "first", "combine")
    }
    cells = [
        ("rightward.cells.0", "encoder.{}_l0"),
        ("leftward.cells.0", "encoder.{}_l0_reverse"),
        ("cell", "decoder.{}"),
    ]
    for ours, theirs in cells:
        from_input = tensors[f"{ours}.from_input.weight"]
        if ours == "cell":
            from_input = torch.cat((from_input, tensors["from_context.weight"]), dim=1)
        renamed[theirs.format("weight_ih")] = from_input
        renamed[theirs.format("weight_hh")] = tensors[f"{ours}.from_hidden.weight"]
        bias = renamed[theirs.format("bias_ih")] = tensors[f"{ours}.from_input.bias"]
        if isinstance(model.cell, GRUCell):
            candidate = tensors[f"{ours}.candidate_bias"]
            # Its other two thirds are added to the first bias: they have no counterpart.
            renamed[theirs.format("bias_hh")] = F.pad(candidate, (len(bias) - len(candidate), 0))
        else:
            renamed[theirs.format("bias_hh")] = torch.zeros_like(bias)
    if model.attention is not None:
        both = [tensors[f"attention.{name}.weight"] for name in "wu"]
        renamed["on_both.weight"] = torch.cat(both, dim=1)
        renamed["to_score.weight"] = tensors["attention.v"][None]
    return renamed


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_equal_to_torch_from_ids_to_scores(cell: str, attention: bool) -> None:
    own, theirs = build(cell, attention), InTorch(cell, attention)
    theirs.load_state_dict(in_torch(own, dict(own.named_parameters())))
    scores, expected = own(SOURCE, TARGET), theirs(SOURCE, TARGET)
    assert_close(scores, expected)
    direction = torch.randn_like(expected)
    (scores * direction).sum().backward()
    (expected * direction).sum().backward()
    gradients = in_torch(own, {name: p.grad for name, p in own.named_parameters()})
    others = {name: p.grad for name, p in theirs.named_parameters()}
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0 or "bias_hh" in name
        if "bias_hh" not in name:
            assert_close(gradient, others[name])
        elif cell == "gru":  # the candidate's second bias, which the reset gate multiplies
            third = len(gradient) * 2 // 3
            assert_close(gradient[third:], others[name][third:])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
@pytest.mark.parametrize("beam", [1, 2])
def test_step_by_step_it_says_what_it_scores_all_at_once(
    cell: str, attention: bool, beam: int
) -> None:
    model = build(cell, attention)
    with torch.no_grad():
        expected = model(SOURCE, TARGET)
        others = model(SOURCE, TARGET.flip(0))
        state = model.start(SOURCE, TARGET.shape[1], beam)
        for t in range(TARGET.shape[1]):
            tokens = torch.stack((TARGET[:, t], TARGET.flip(0)[:, t])[:beam], dim=1).flatten()
            scores = model.step(tokens, state).unflatten(0, (-1, beam))
            assert_close(scores[:, 0], expected[:, t])
            assert_close(scores[:, -1], (others if beam == 2 else expected)[:, t])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_a_hypothesis_goes_on_from_its_parent_and_a_sentence_that_ended_is_left_out(
    cell: str, attention: bool
) -> None:
    model = build(cell, attention)
    said = torch.randint(4, VOCAB, (len(SOURCE), 3, 4), generator=torch.Generator().manual_seed(1))
    said[:, :, 0] = BOS

    def read(state: Seq2SeqState, tokens: Tensor) -> Tensor:
        return model.step(tokens.flatten(), state).unflatten(0, (-1, 3))

    with torch.no_grad():
        state = model.start(SOURCE, 9, beam=3)
        for t in range(2):
            read(state, said[:, :, t])
        parents = torch.tensor([[2, 0, 0], [1, 1, 2], [0, 2, 1]])
        state.reorder(parents)
        prefix = said[:, :, :2].take_along_dim(parents[..., None], dim=1)
        read(state, said[:, :, 2])
        kept = torch.tensor([2, 0])
        state.keep(kept)
        scores = read(state, said[kept, :, 3])
        assert state.memory.shape[0] == 2
        for i, sentence in enumerate(kept.tolist()):
            for j in range(3):
                whole = torch.cat((prefix[sentence, j], said[sentence, j, 2:]))
                alone = model(SOURCE[sentence : sentence + 1], whole[None])
                assert_close(scores[i, j], alone[0, -1])


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_padding_changes_no_score_of_a_real_token(cell: str, attention: bool) -> None:
    model = build(cell, attention, tie="none")
    with torch.no_grad():
        scores = model(SOURCE, TARGET)
        for row, n in enumerate((7, 4, 1)):
            assert_close(
                model(SOURCE[row : row + 1, :n], TARGET[row : row + 1]), scores[row : row + 1]
            )
        model.source_embedding.weight[PAD] = 50.0
        assert_close(model(F.pad(SOURCE, (0, 3)), F.pad(TARGET, (0, 2)))[:, :-2], scores)


@pytest.mark.parametrize(("cell", "attention"), KINDS)
def test_a_score_knows_all_source_words_and_the_target_words_before_it(
    cell: str, attention: bool
) -> None:
    model = build(cell, attention, "none")  # all ids differ, so a row of a matrix is a position
    for row, t in product(range(2), range(TARGET.shape[1])):
        model.zero_grad()
        model(SOURCE, TARGET)[row, t].square().sum().backward()
        seen = model.target_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert seen.nonzero().flatten().tolist() == sorted(TARGET[row, : t + 1].tolist())
        heard = model.source_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert heard.nonzero().flatten().tolist() == SOURCE[row][SOURCE[row] != PAD].tolist()


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_without_attention_one_vector_holds_the_source(cell: str) -> None:
    model = build(cell, attention=False)
    state = model.start(SOURCE, 5)
    vectors, _ = model.encode(SOURCE)
    assert state.memory.shape == (3, 1, D_MODEL)
    for row, n in enumerate((7, 4, 1)):
        assert_close(state.memory[row, 0, : D_MODEL // 2], vectors[row, n - 1, : D_MODEL // 2])
        assert_close(state.memory[row, 0, D_MODEL // 2 :], vectors[row, 0, D_MODEL // 2 :])


def test_the_alignment_is_what_the_decoder_read() -> None:
    model = build()
    weights = model.alignment(SOURCE, TARGET)
    assert weights.shape == (3, 6, 7)
    assert_close(weights.sum(dim=-1), torch.ones(3, 6, dtype=torch.double))
    assert (weights[:, :, :] > 0).equal((SOURCE != PAD)[:, None].expand(-1, 6, -1))
    state, attention = model.start(SOURCE, 6), model.attention
    assert attention is not None
    _, first = attention(state.cell[0][:, None], state.prepared, state.memory, state.mask)
    assert_close(weights[:, 0], first[:, 0])


def test_without_attention_there_is_no_alignment() -> None:
    with pytest.raises(TfmrError, match="aligned with none: train one with attention=True"):
        build(attention=False).alignment(SOURCE, TARGET)


@pytest.mark.parametrize("length", [1, 4])
def test_reversing_twice_changes_nothing(length: int) -> None:
    x, n = torch.randn(3, length, 2), torch.tensor([length, 1, max(1, length - 1)])
    turned = reverse(x, n)
    assert torch.equal(reverse(turned, n), x)
    for row, real in enumerate(n.tolist()):
        assert torch.equal(turned[row, :real], x[row, :real].flip(0))
        assert torch.equal(turned[row, real:], x[row, real:])


@pytest.mark.parametrize(("tie", "matrices"), [("three-way", 1), ("target", 2), ("none", 3)])
def test_tied_matrices_share_their_storage_and_others_do_not(tie: str, matrices: int) -> None:
    model = build(tie=tie)
    weights = [model.source_embedding.weight, model.target_embedding.weight, model.output.weight]
    assert len({weight.data_ptr() for weight in weights}) == matrices
    assert (weights[1] is weights[2]) == (tie != "none")


@pytest.mark.parametrize(
    ("cell", "attention", "millions"),
    [("rnn", False, 1.84), ("lstm", False, 2.72), ("gru", False, 2.43), ("lstm", True, 2.86)],
)
def test_the_sizes_are_those_of_the_formulas(cell: str, attention: bool, millions: float) -> None:
    d, gates = 256, {"rnn": 1, "lstm": 4, "gru": 3}[cell]
    with torch.device("meta"):
        model = Seq2Seq(Seq2SeqConfig(5000, 5000, cell, attention, d))
    by_hand = (
        5000 * d  # one matrix: both embeddings and the output projection
        + 2 * gates * (d // 2) * (d + d // 2 + 1)  # the encoder's two directions
        + gates * d * (d + d + d + 1)  # the decoder: word, context, state, bias
        + (d + 1) * d  # its first state
        + (3 * d + 1) * d  # what it predicts from
        + (2 * d * d + d if attention else 0)
        + (2 * d if cell == "gru" else 0)  # second biases of the candidates
    )
    assert model.count_parameters() == by_hand
    assert by_hand / 1e6 == pytest.approx(millions, abs=0.005)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_matrices_start_orthogonal_and_the_forget_gate_open(cell: str) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(2000, 2000, cell=cell, d_model=64))
    for one in (model.cell, model.rightward.cells[0], model.leftward.cells[0]):
        for gate in one.from_hidden.weight.chunk(one.gates):
            assert_close(gate @ gate.T, torch.eye(one.d_hidden), atol=1e-5, rtol=0)
    if cell == "lstm":
        assert (model.cell.from_input.bias[64:128] == 1).all()
    assert model.output.weight.detach().std().item() == pytest.approx(1 / 8, rel=0.02)


@pytest.mark.parametrize("attention", [False, True])
def test_dropout_acts_on_both_embeddings_and_before_the_output_in_training_only(
    attention: bool,
) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(dataclasses.replace(TINY, attention=attention, dropout=0.5))
    seen: list[Tensor] = []
    model.dropout.register_forward_hook(lambda _, given, out: seen.append(out))
    vectors = model.hidden(SOURCE, TARGET)
    assert sorted(out.shape for out in seen) == [(3, 6, 8), (3, 6, 8), (3, 7, 8)]
    assert seen[-1] is vectors
    for out in seen:
        assert (out == 0).float().mean().item() == pytest.approx(0.5, abs=0.15)
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


def test_a_configuration_survives_a_dictionary() -> None:
    config = dataclasses.replace(TINY, cell="gru", attention=False)
    assert Seq2SeqConfig.from_dict(dataclasses.asdict(config)) == config
    with pytest.raises(TfmrError, match=r"unknown \['depth'\], missing \['target_vocab'\]"):
        Seq2SeqConfig.from_dict({"source_vocab": 5, "depth": 3})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"d_model": 9}, "d_model must be even.*: got 9"),
        ({"d_model": 0}, "d_model must be a positive integer: got 0"),
        ({"max_length": 2.5}, "max_length must be a positive integer: got 2.5"),
        ({"dropout": 1.0}, r"lies in \[0, 1\): got 1.0"),
        ({"cell": "mgu"}, "cell must be one of rnn, lstm, gru: got 'mgu'"),
        ({"attention": "additive"}, "True or False: got 'additive'"),
        ({"tie": "all"}, "tie must be one of three-way, target, none: got 'all'"),
        ({"target_vocab": 40}, "source_vocab=30, target_vocab=40; use a joint vocabulary"),
    ],
)
def test_a_choice_out_of_range(unchecked, changed: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message) as error:
        dataclasses.replace(TINY, **changed)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([[4] * 13], [[1]], "at most max_length=12 source tokens: got 13; shorten"),
        ([[4]], [[1] * 13], "at most max_length=12 target tokens: got 13; shorten"),
        ([[4, 30]], [[1]], r"source ids must lie in 0\.\.29: got 4\.\.30; was the text encoded"),
        ([[4]], [[1, -1]], r"target ids must lie in 0\.\.29: got -1\.\.1"),
        ([[4], [0]], [[1], [1]], r"row \[1\] of 2 has none"),
        ([[4], [5]], [[1]], r"got 2 sources \(2, 1\) and 1 targets \(1, 1\)"),
    ],
)
def test_what_the_model_cannot_read(unchecked, source: list, target: list, message: str) -> None:
    with pytest.raises(TfmrError, match=message) as error:
        build()(torch.tensor(source), torch.tensor(target))
    assert "\n" not in str(error.value)


def test_a_translation_that_cannot_be_started_or_gone_on_with() -> None:
    model = build()
    for longest, beam in ((13, 1), (0, 1), (5, 0)):
        with pytest.raises(TfmrError, match=f"got longest={longest}, beam={beam}"):
            model.start(SOURCE, longest, beam)

    class Foreign:
        def keep(self, sentences: Tensor) -> None: ...
        def reorder(self, parents: Tensor) -> None: ...

    with pytest.raises(TfmrError, match=r"what its own start\(\) returned: got a Foreign"):
        model.step(torch.tensor([BOS]), Foreign())
