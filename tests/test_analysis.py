"""Recording changes no output; ablation removes exactly one part and restores it."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.analysis import (
    ablate_head,
    ablate_sublayer,
    entropy,
    logit_lens,
    patch_head,
    patch_residual_stream,
    record_attention,
    record_heads,
    record_norms,
    record_residual_stream,
    uniform_attention,
)
from tfmr.attention import MultiHeadAttention
from tfmr.config import BlockConfig, Norm, TransformerConfig
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.encoder import EncoderBlock
from tfmr.errors import TfmrError
from tfmr.layers import LayerNorm
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, PAD

SOURCE = torch.tensor([[4, 5, 6, 7], [8, 9, PAD, PAD]])
OTHER_SOURCE = torch.tensor([[4, 14, 6, 7], [8, 15, PAD, PAD]])
TARGET = torch.tensor([[BOS, 10, 11], [BOS, 12, 13]])


def transformer(norm: Norm) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab=20, target_vocab=20, d_model=16, n_heads=2, d_ff=32, n_encoder=2, n_decoder=2,
        dropout=0.0, norm=norm, max_length=12,
    )  # fmt: skip
    return Transformer(config).eval()


@pytest.fixture
def model() -> Transformer:
    return transformer("post")


def test_record_attention_returns_the_weights_of_every_attention(model: Transformer) -> None:
    scores = model(SOURCE, TARGET)
    with record_attention(model) as maps:
        assert_close(model(SOURCE, TARGET), scores)
    shapes = {name: [tuple(weights.shape) for weights in calls] for name, calls in maps.items()}
    assert shapes == {
        **{f"encoder.blocks.{n}.attention": [(2, 2, 4, 4)] for n in range(2)},
        **{f"decoder.blocks.{n}.self_attention": [(2, 2, 3, 3)] for n in range(2)},
        **{f"decoder.blocks.{n}.cross_attention": [(2, 2, 3, 4)] for n in range(2)},
    }
    for name, (weights,) in maps.items():
        assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        assert not weights.requires_grad
        if "self" in name:
            assert torch.equal(weights, weights.tril())
        else:
            assert not weights[1, :, :, 2:].any()  # the padding


def test_recording_stops_after_an_error(model: Transformer) -> None:
    with pytest.raises(TfmrError, match="target ids"), record_attention(model) as maps:
        model(SOURCE, model(SOURCE, TARGET).argmax(dim=-1) + 20)
    model(SOURCE, TARGET)
    assert [len(calls) for calls in maps.values()] == [2, 2, 1, 1, 1, 1]


def test_greedy_search_records_one_map_per_step(model: Transformer) -> None:
    with record_attention(model) as maps:
        (tokens,) = greedy_search(model, SOURCE[:1])
    calls = maps["decoder.blocks.0.self_attention"]
    assert [weights.shape[-1] for weights in calls] == list(range(1, len(calls) + 1))
    assert len(calls) in (len(tokens), len(tokens) + 1)


def test_record_norms(model: Transformer) -> None:
    with record_norms(model, EncoderBlock, LayerNorm) as norms:
        memory, _ = model.encode(SOURCE)
    assert norms["encoder.blocks.1"] == [pytest.approx(memory.detach().norm(dim=-1).mean().item())]
    assert norms["encoder.blocks.0.residuals.1.norm"] == norms["encoder.blocks.0"]
    assert norms["decoder.blocks.0.residuals.0.norm"] == []
    model.encode(SOURCE)
    assert len(norms["encoder.blocks.1"]) == 1


def test_threads_do_not_see_the_recordings_of_each_other(model: Transformer) -> None:
    sources = [SOURCE.roll(step, dims=0) for step in range(4)]
    expected = [logit_lens(model, source, TARGET) for source in sources]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda source: logit_lens(model, source, TARGET), sources))
    assert_close(found, expected)

    def forward() -> None:
        model(SOURCE, TARGET)

    with (
        record_norms(model, LayerNorm) as norms,
        record_residual_stream(model.encoder) as stream,
        record_heads(model.encoder.blocks[0].attention) as heads,
        record_attention(model) as maps,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(forward).result()
        assert not any([*norms.values(), stream, heads, *maps.values()])
        forward()
    assert all([*norms.values(), stream, heads, *maps.values()])


def test_entropy() -> None:
    weights = torch.stack([torch.eye(5)[2], torch.full((5,), 0.2)])
    assert_close(entropy(weights), torch.tensor([0.0, math.log(5)]))
    assert_close(entropy(torch.tensor([[0.5, 0.25, 0.25]])), torch.tensor([1.5 * math.log(2)]))


def test_a_model_without_attention_raises_tfmr_error() -> None:
    with (
        pytest.raises(TfmrError, match="a Linear has no multi-head attention"),
        record_attention(nn.Linear(2, 2)),
    ):
        pass


@pytest.fixture
def attention() -> MultiHeadAttention:
    torch.manual_seed(1)
    attention = MultiHeadAttention(12, 3)
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    return attention


@pytest.mark.parametrize("head", range(3))
def test_ablate_head_removes_the_contribution_of_one_head(
    attention: MultiHeadAttention, head: int
) -> None:
    x = torch.randn(2, 5, 12)
    heads: list[torch.Tensor] = []  # the concatenated outputs of all heads
    handle = attention.w_o.register_forward_pre_hook(lambda _, args: heads.append(args[0].clone()))
    before = attention(x)
    handle.remove()
    heads[0][..., 4 * head : 4 * head + 4] = 0
    expected = attention.w_o(heads[0])
    with ablate_head(attention, head):
        assert_close(attention(x), expected)
    assert not torch.allclose(expected, before)
    assert torch.equal(attention(x), before)


@pytest.mark.parametrize("head", range(3))
def test_uniform_attention_changes_one_head(attention: MultiHeadAttention, head: int) -> None:
    x = torch.randn(2, 4, 12)
    mask = torch.ones(4, 4).tril().bool()
    with record_attention(attention) as maps:
        output = attention(x, mask=mask)
        with uniform_attention(attention, head):
            attention(x, mask=mask)
    before, after = maps[""]
    uniform = mask / mask.sum(dim=-1, keepdim=True)
    assert_close(after[:, head], uniform.expand(2, 4, 4))
    others = [k for k in range(3) if k != head]
    assert torch.equal(after[:, others], before[:, others])
    assert_close(attention(x, mask=mask), output)


def test_ablate_sublayer_leaves_the_residual_connection() -> None:
    block = EncoderBlock(BlockConfig(d_model=12, n_heads=3, d_ff=24, dropout=0.0, norm="pre"))
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 5, 12)
    before = block(x)
    with ablate_sublayer(block.attention):
        assert_close(block(x), block.residuals[1](x, block.feed_forward))
    with ablate_sublayer(block.feed_forward):
        assert_close(block(x), block.residuals[0](x, block.attention))
        with ablate_sublayer(block.attention):
            assert torch.equal(block(x), x)
    assert torch.equal(block(x), before)


def test_ablation_applies_to_incremental_decoding(model: Transformer) -> None:
    blocks = model.decoder.blocks
    with ablate_sublayer(blocks[0].cross_attention), ablate_head(blocks[1].self_attention, 1):
        assert greedy_search(model, SOURCE[:1])[0] == greedy_search_naive(model, SOURCE[:1])


def test_weights_are_restored_after_an_error(attention: MultiHeadAttention) -> None:
    before = {name: weight.clone() for name, weight in attention.state_dict().items()}
    with pytest.raises(KeyError), ablate_sublayer(attention):
        raise KeyError
    assert all(torch.equal(w, before[n]) for n, w in attention.state_dict().items())


@pytest.mark.parametrize(
    "change", [ablate_head, uniform_attention, partial(patch_head, values=torch.zeros(2, 5, 4))]
)
@pytest.mark.parametrize("head", [3, -1])
def test_an_invalid_head_raises_tfmr_error(attention: MultiHeadAttention, change, head) -> None:
    with pytest.raises(TfmrError, match=f"from 0 to 2: got {head}"), change(attention, head):
        pass


def test_nested_recording_restores_the_outer_one(model: Transformer) -> None:
    with record_attention(model) as outer:
        with record_attention(model.encoder) as inner:
            model(SOURCE, TARGET)
        model(SOURCE, TARGET)
    assert [len(calls) for calls in inner.values()] == [1, 1]
    assert len(outer["encoder.blocks.0.attention"]) == 1
    assert len(outer["decoder.blocks.0.self_attention"]) == 2
    model(SOURCE, TARGET)
    assert len(outer["encoder.blocks.0.attention"]) == 1


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_lens_at_the_last_block_shows_the_logits(norm: Norm) -> None:
    model = transformer(norm)
    logits = model(SOURCE, TARGET)
    lens = logit_lens(model, SOURCE, TARGET)
    assert lens.shape == (3, *logits.shape)
    assert_close(lens[-1], logits.detach())
    assert not lens.requires_grad
    assert not torch.allclose(lens[1], lens[2])


def test_the_lens_at_depth_0_depends_on_the_input_token_and_its_position_only() -> None:
    model = transformer("pre")
    embedded = model._embed(model.target_embedding, TARGET, "target")
    assert_close(logit_lens(model, SOURCE, TARGET)[0], model.scores(model.decoder.norm(embedded)))
    assert_close(logit_lens(model, SOURCE, TARGET)[0], logit_lens(model, OTHER_SOURCE, TARGET)[0])


def test_the_lens_between_the_blocks_is_a_shorter_model() -> None:
    model = transformer("pre")
    lens = logit_lens(model, SOURCE, TARGET)
    model.decoder.blocks = model.decoder.blocks[:1]
    assert_close(lens[1], model(SOURCE, TARGET).detach())


def test_record_residual_stream_stops_after_an_error(model: Transformer) -> None:
    with pytest.raises(KeyError), record_residual_stream(model.encoder) as stream:
        raise KeyError
    model(SOURCE, TARGET)
    assert stream == []


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_patching_the_whole_stream_gives_the_other_output(side: str, depth: int) -> None:
    model = transformer("pre")
    stack = getattr(model, side)
    with record_residual_stream(stack) as stream:
        other = model(OTHER_SOURCE, TARGET)
    before = model(SOURCE, TARGET)
    with patch_residual_stream(stack, depth, stream[depth]):
        patched = model(SOURCE, TARGET)
    if side == "encoder" or depth == 2:  # below, cross-attention still sees the first source
        assert_close(patched, other)
    assert not torch.allclose(other, before)
    assert torch.equal(model(SOURCE, TARGET), before)


def test_the_stream_is_patched_at_the_given_positions_only() -> None:
    model = transformer("pre")
    with record_residual_stream(model.encoder) as stream:
        other = model(OTHER_SOURCE, TARGET)
    before = model(SOURCE, TARGET)
    with patch_residual_stream(model.encoder, 0, stream[0], [1]):  # the only differing position
        assert_close(model(SOURCE, TARGET), other)
    with patch_residual_stream(model.encoder, 0, stream[0], [0, 2, 3]):
        assert torch.equal(model(SOURCE, TARGET), before)
    with record_residual_stream(model.encoder) as unpatched:
        model(SOURCE, TARGET)
    with (
        patch_residual_stream(model.encoder, 1, stream[1], [2]),
        record_residual_stream(model.encoder) as patched,
    ):
        model(SOURCE, TARGET)
    changed = (patched[1] != unpatched[1]).any(dim=-1)  # (batch, source)
    assert changed.any(dim=0).tolist() == [False, False, True, False]
    with patch_residual_stream(model.encoder, 2, stream[2], []):
        assert torch.equal(model(SOURCE, TARGET), before)


@pytest.mark.parametrize("depth", [-1, 3])
def test_an_invalid_depth_raises_tfmr_error(model: Transformer, depth: int) -> None:
    with (
        pytest.raises(TfmrError, match=rf"from 0 \(embeddings\) to 2 \(last block\): got {depth}"),
        patch_residual_stream(model.encoder, depth, torch.zeros(2, 4, 16)),
    ):
        pass


@pytest.mark.parametrize(
    ("length", "positions", "message"),
    [
        (3, None, r"got \(2, 4, 16\).*\(2, 3, 16\)"),
        (4, [0, 4], r"positions.*from 0 to 3.*got \[4\]"),
        (4, [-1], r"positions.*from 0 to 3.*got \[-1\]"),
    ],
)
def test_a_patch_that_does_not_fit_raises_tfmr_error(
    model: Transformer, length: int, positions: list[int] | None, message: str
) -> None:
    values = torch.zeros(2, length, 16)
    with (
        pytest.raises(TfmrError, match=message),
        patch_residual_stream(model.encoder, 1, values, positions),
    ):
        model(SOURCE, TARGET)
    model(SOURCE, TARGET)  # the patch is undone


def test_record_heads_returns_what_the_projection_receives(attention: MultiHeadAttention) -> None:
    x = torch.randn(2, 5, 12)
    with record_heads(attention) as outputs:
        out = attention(x)
    attention(x)
    (heads,) = outputs
    assert heads.shape == (2, 3, 5, 4)
    assert_close(attention.w_o(heads.transpose(1, 2).flatten(2)), out)


def test_patching_all_heads_gives_the_other_output(attention: MultiHeadAttention) -> None:
    x, other = torch.randn(2, 5, 12), torch.randn(2, 5, 12)
    before = attention(x)
    with record_heads(attention) as outputs:
        expected = attention(other)
    (heads,) = outputs
    with ExitStack() as stack:
        for head in range(3):
            stack.enter_context(patch_head(attention, head, heads[:, head]))
        assert_close(attention(x), expected)
    with patch_head(attention, 1, heads[:, 1], [0, 3]), record_heads(attention) as patched:
        attention(x)
    with patch_head(attention, 0, heads[:, 0], []):
        assert torch.equal(attention(x), before)
    assert torch.equal(attention(x), before)
    changed = (patched[0] == heads).all(dim=-1)  # (batch, heads, query)
    assert changed.nonzero()[:, 1:].unique(dim=0).tolist() == [[1, 0], [1, 3]]
