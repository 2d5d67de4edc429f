"""What tfmr is compared with is the same model, and translates as it does.

Only PyTorch's own is tested here. The other peers are libraries that the tests do without; they
must pass the same checks before they are measured (``check_size``, ``check_agreement``).
"""

import dataclasses

import pytest
import torch
from torch import nn

from benchmarks.contenders import decoding, training
from benchmarks.peers import build
from benchmarks.peers.peer import Peer, rows_kept, rows_of
from benchmarks.peers.torch_nn import TorchNN
from tfmr.data.batches import collate
from tfmr.decode import beam_search, greedy_search
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.special_tokens import PAD
from tfmr.train.config import TrainConfig

CONFIG = TransformerConfig(30, 30, 16, 2, 32, 2, 2, dropout=0.0, max_length=24)
BATCH = collate([([5, 6, 7, 8], [9, 10, 11]), ([12, 13], [14, 15, 16, 17, 18])])
SOURCE = torch.tensor([[5, 6, 7, 8], [12, 13, PAD, PAD], [20, 21, 22, PAD]])


@pytest.fixture(autouse=True)
def precision():
    before = torch.get_float32_matmul_precision()
    torch.manual_seed(0)
    yield
    torch.set_float32_matmul_precision(before)


def pair(**changes: object) -> tuple[Transformer, Peer]:
    """A model of tfmr's with telling weights, and PyTorch's with the same."""
    config = dataclasses.replace(CONFIG, **changes)
    own, peer = Transformer(config).eval(), build("torch", config, 0.0, "paper").eval()
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.normal_(std=0.5)
    peer.adopt(own)
    return own, peer


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_pytorchs_computes_the_same_with_the_same_weights(norm: str) -> None:
    build("torch", dataclasses.replace(CONFIG, norm=norm), 0.1, "own").check_agreement(BATCH)
    own, peer = pair(norm=norm)
    expected = own(BATCH.source, BATCH.target_in)
    torch.testing.assert_close(peer(BATCH.source, BATCH.target_in), expected, rtol=1e-4, atol=1e-4)


def test_another_function_is_noticed() -> None:
    peer = build("torch", CONFIG, 0.0, "paper")
    assert isinstance(peer, TorchNN)
    for layer in peer.stacks.decoder.layers:
        layer.activation = nn.functional.gelu
    with pytest.raises(TfmrError, match=r"torch\.nn\.Transformer computes something else"):
        peer.check_agreement(BATCH)


def test_another_size_is_noticed() -> None:
    peer = build("torch", CONFIG, 0.0, "paper")
    peer.config = dataclasses.replace(CONFIG, d_ff=33)
    with pytest.raises(TfmrError, match="so it is not the same model"):
        peer.check_size()


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(TfmrError, match="among torch, marian, x-transformers, got 'fairseq'"):
        build("fairseq", CONFIG, 0.1, "paper")


def test_dropout_stands_where_the_paper_has_it() -> None:
    """Counted by watching: the embeddings of either side, and every sublayer's output."""
    for sites, expected in (("paper", 2 + 2 * 2 + 3 * 2), ("own", 2 + 3 * 2 + 4 * 2)):
        peer = build("torch", CONFIG, 0.1, sites).train()
        seen: list[str] = []
        for name, module in peer.named_modules():
            if isinstance(module, nn.Dropout) and module.p > 0:
                module.register_forward_hook(lambda *_, name=name, seen=seen: seen.append(name))
        peer(BATCH.source, BATCH.target_in)
        assert len(seen) == expected
        inside = {m.dropout for m in peer.modules() if isinstance(m, nn.MultiheadAttention)}
        assert inside == ({0.0} if sites == "paper" else {0.1})


def test_pytorchs_translates_as_tfmr_does() -> None:
    own, peer = pair()
    assert greedy_search(peer, SOURCE) == greedy_search(own, SOURCE)
    found = beam_search(peer, SOURCE, 3)
    assert [h[0].ids for h in found] == [h[0].ids for h in beam_search(own, SOURCE, 3)]


def test_its_state_leaves_sentences_out_and_lets_hypotheses_continue_others() -> None:
    states = []
    own, peer = pair()
    for model in (own, peer):
        state = model.start(SOURCE, 8, beam=2)
        model.step(torch.tensor([1, 1, 1, 1, 1, 1]), state)
        model.step(torch.tensor([9, 10, 11, 12, 13, 14]), state)
        state.keep(torch.tensor([2, 0]))
        model.step(torch.tensor([15, 16, 17, 18]), state)
        state.reorder(torch.tensor([[1, 1], [1, 0]]))
        states.append(model.step(torch.tensor([19, 20, 19, 20]), state))
    torch.testing.assert_close(states[1], states[0], rtol=1e-3, atol=1e-3)


def test_rows_of_hypotheses() -> None:
    assert rows_of(torch.tensor([[2, 0, 0], [1, 1, 2]])).tolist() == [2, 0, 0, 4, 4, 5]
    assert rows_kept(torch.tensor([3, 0]), 2).tolist() == [6, 7, 0, 1]


def test_a_step_is_the_same_for_a_peer_as_for_tfmr() -> None:
    """The same weights and the same batch lead to the same weights."""
    own, peer = pair()
    before = own(BATCH.source, BATCH.target_in)
    for model in (own, peer):
        training(model, [BATCH], TrainConfig(peak_lr=1e-2, warmup=1, max_grad_norm=0.05))(0)
        model.eval()
        # Adam does not mind the length of a gradient, so this is where clipping shows.
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        assert float(norm) == pytest.approx(0.05, rel=1e-3)
    after = own(BATCH.source, BATCH.target_in)
    theirs = peer(BATCH.source, BATCH.target_in)
    torch.testing.assert_close(theirs, after, rtol=1e-3, atol=1e-3)
    assert (after - before).abs().max() > 0.1


@pytest.mark.parametrize("beam", [1, 3])
def test_all_say_as_many_tokens_as_asked(beam: int) -> None:
    steps, few = 8, SOURCE.clamp(max=8)
    for seed in range(100):  # until there is one that would say the end
        torch.manual_seed(seed)
        own, peer = pair(max_length=steps, source_vocab=9, target_vocab=9)
        if min(len(ids) for ids in greedy_search(own, few)) < steps:
            break
    for model in (own, peer):
        assert min(len(ids) for ids in greedy_search(model, few)) < steps
        work = decoding(model, [[few], [few[:1], few[1:2, :2]]], steps, beam)
        assert work is not None
        work(0)
        work(1)


def test_who_stops_early_is_not_timed() -> None:
    own, _ = pair(max_length=8)
    work = decoding(own, [[SOURCE]], 9, 1)
    assert work is not None
    with pytest.raises(TfmrError, match="did not say 9 tokens of each of 3 translations"):
        work(0)


class Searching(Peer):
    """A peer that has a greedy search of its own and no beam."""

    title = "searching"
    searches = ("greedy",)

    def search(self, source: torch.Tensor, steps: int, beam: int) -> torch.Tensor:
        return torch.full((len(source), steps), 7)


def test_a_peer_searches_by_its_own_means_or_not_at_all() -> None:
    peer = Searching()
    work = decoding(peer, [[SOURCE]], 5, 1)
    assert work is not None
    work(0)
    assert decoding(peer, [[SOURCE]], 5, 4) is None
