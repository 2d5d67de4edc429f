"""The peers are the same model as tfmr's and translate in the same way.

Only ``torch.nn.Transformer`` is tested here; the other peers need optional libraries. They must
pass ``check_size`` and ``check_agreement`` before each measurement.
"""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.peers import build
from benchmarks.peers.peer import Peer, parent_rows, selected_rows
from benchmarks.peers.torch_nn import TorchNN
from benchmarks.systems import Precision, decoding, training
from tfmr.config import TransformerConfig
from tfmr.data.batches import collate
from tfmr.decode import beam_search, greedy_search
from tfmr.dtype import Arithmetic
from tfmr.errors import TfmrError
from tfmr.fast import prepare
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train.config import TrainConfig
from tfmr.translator import IncrementalTranslator

CONFIG = TransformerConfig(
    source_vocab=30, target_vocab=30, d_model=16, n_heads=2, d_ff=32, n_encoder=2, n_decoder=2,
    dropout=0.0, max_length=24,
)  # fmt: skip
BATCH = collate([([5, 6, 7, 8], [9, 10, 11]), ([12, 13], [14, 15, 16, 17, 18])])
SOURCE = torch.tensor([[5, 6, 7, 8], [12, 13, PAD, PAD], [20, 21, 22, PAD]])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def pair(**changes: object) -> tuple[Transformer, Peer]:
    """A model of tfmr with random weights, and ``torch.nn.Transformer`` with the same weights."""
    config = dataclasses.replace(CONFIG, **changes)
    own, peer = Transformer(config).eval(), build("torch", config, 0.0).eval()
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.normal_(std=0.5)
    peer.load_weights(own)
    return own, peer


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equal_weights_give_equal_logits(norm: str) -> None:
    build("torch", dataclasses.replace(CONFIG, norm=norm), 0.1).check_agreement(BATCH)
    own, peer = pair(norm=norm)
    expected = own(BATCH.source, BATCH.target_in)
    torch.testing.assert_close(peer(BATCH.source, BATCH.target_in), expected, rtol=1e-4, atol=1e-4)


def test_another_model_raises() -> None:
    peer = build("torch", CONFIG, 0.0)
    assert isinstance(peer, TorchNN)
    for layer in peer.stacks.decoder.layers:
        layer.activation = nn.functional.gelu
    with pytest.raises(TfmrError, match=r"torch\.nn\.Transformer.*tfmr's hidden states"):
        peer.check_agreement(BATCH)
    peer.config = dataclasses.replace(CONFIG, d_ff=33)
    with pytest.raises(TfmrError, match="it is not the same model"):
        peer.check_size()
    with pytest.raises(TfmrError, match=r"peers torch, marian.*got 'fairseq'"):
        build("fairseq", CONFIG, 0.1)


def test_dropout_is_applied_where_the_paper_has_it() -> None:
    """To the embeddings of both sides, and to the output of every sublayer."""
    peer = build("torch", CONFIG, 0.1).train()
    calls: list[str] = []
    for name, module in peer.named_modules():
        if isinstance(module, nn.Dropout) and module.p > 0:
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    peer(BATCH.source, BATCH.target_in)
    assert len(calls) == 2 + 2 * 2 + 3 * 2
    assert {m.dropout for m in peer.modules() if isinstance(m, nn.MultiheadAttention)} == {0.0}


def test_equal_weights_give_equal_translations() -> None:
    own, peer = pair()
    assert greedy_search(peer, SOURCE) == greedy_search(own, SOURCE)
    found = beam_search(peer, SOURCE, 3)
    assert [h[0].ids for h in found] == [h[0].ids for h in beam_search(own, SOURCE, 3)]


def test_the_state_selects_sentences_and_reorders_hypotheses() -> None:
    states = []
    own, peer = pair()
    for model in (own, peer):
        state = model.start(SOURCE, 8, beam=2)
        model.step(torch.tensor([1, 1, 1, 1, 1, 1]), state)
        model.step(torch.tensor([9, 10, 11, 12, 13, 14]), state)
        state.select(torch.tensor([2, 0]))
        model.step(torch.tensor([15, 16, 17, 18]), state)
        state.reorder(torch.tensor([[1, 1], [1, 0]]))
        states.append(model.step(torch.tensor([19, 20, 19, 20]), state))
    torch.testing.assert_close(states[1], states[0], rtol=1e-3, atol=1e-3)


def test_rows_of_hypotheses() -> None:
    assert parent_rows(torch.tensor([[2, 0, 0], [1, 1, 2]])).tolist() == [2, 0, 0, 4, 4, 5]
    assert selected_rows(torch.tensor([3, 0]), 2).tolist() == [6, 7, 0, 1]


def test_a_training_step_gives_equal_weights() -> None:
    own, peer = pair()
    before = own(BATCH.source, BATCH.target_in)
    for model in (own, peer):
        config = TrainConfig(peak_lr=1e-2, warmup=1, max_grad_norm=0.05)
        training(model, [BATCH], config, "fp32")(0)
        model.eval()
        # Adam is invariant to the scale of a gradient, so clipping is checked on the gradients.
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        assert float(norm) == pytest.approx(0.05, rel=1e-3)
    after = own(BATCH.source, BATCH.target_in)
    theirs = peer(BATCH.source, BATCH.target_in)
    torch.testing.assert_close(theirs, after, rtol=1e-3, atol=1e-3)
    assert (after - before).abs().max() > 0.1


def test_model_and_loss_of_a_peer_are_compiled_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def compiled(function: Any) -> Any:
        return lambda *tensors: (calls.append(tensors), function(*tensors))[1]

    monkeypatch.setattr(torch, "compile", compiled)
    for compile_peer in (False, True):
        training(pair()[1], [BATCH], TrainConfig(compile=compile_peer), "fp32")(0)
        assert len(calls) == compile_peer


@pytest.mark.parametrize("beam", [1, 3])
def test_all_systems_generate_the_given_number_of_tokens(beam: int) -> None:
    steps, few = 8, SOURCE.clamp(max=8)
    for seed in range(100):  # until one model predicts EOS
        torch.manual_seed(seed)
        own, peer = pair(max_length=steps, source_vocab=9, target_vocab=9)
        if min(len(ids) for ids in greedy_search(own, few)) < steps:
            break
    for model in (own, peer):
        assert min(len(ids) for ids in greedy_search(model, few)) < steps
        work = decoding(model, [[few], [few[:1], few[1:2, :2]]], steps, beam, "fp32")
        assert work is not None
        work(0)
        work(1)


def test_too_few_tokens_raise() -> None:
    own, _ = pair(max_length=8)
    work = decoding(own, [[SOURCE]], 9, 1, "fp32")
    assert work is not None
    with pytest.raises(TfmrError, match=r"9.*Transformer.*\[8, 8, 8\]"):
        work(0)


class Searching(Peer):
    """A peer that has its own greedy search and no beam search."""

    title = "searching"
    searches = ("greedy",)

    def search(self, source: torch.Tensor, steps: int, beam: int) -> torch.Tensor:
        return torch.full((len(source), steps), 7)


def test_a_peer_uses_its_own_search_or_none() -> None:
    peer = Searching()
    work = decoding(peer, [[SOURCE]], 5, 1, "fp32")
    assert work is not None
    work(0)
    assert decoding(peer, [[SOURCE]], 5, 4, "fp32") is None


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_peer_decodes_in_the_given_precision(precision: Precision) -> None:
    _, peer = pair(max_length=8)
    work = decoding(peer, [[SOURCE]], 8, 1, precision)
    seen: set[torch.dtype] = set()
    original = nn.Embedding.forward

    def forward(module: nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
        seen.add(module.weight.dtype)
        return original(module, ids)

    assert work is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Embedding, "forward", forward)
        work(0)
    assert seen == {Arithmetic(precision).dtype}
    assert peer.output.weight.dtype == torch.float32


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_tfmr_decodes_with_a_snapshot_in_the_given_precision(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _ = pair(max_length=8)
    calls: list[torch.dtype] = []

    def recording(model: Transformer, dtype: torch.dtype) -> IncrementalTranslator:
        calls.append(dtype)
        return prepare(model, dtype=dtype)

    monkeypatch.setattr("benchmarks.systems.prepare", recording)
    work = decoding(own, [[SOURCE], [SOURCE]], 8, 1, precision)
    assert work is not None
    work(0)
    work(1)
    assert calls == [Arithmetic(precision).dtype]
