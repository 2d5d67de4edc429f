"""The tools of tfmr.analysis work for every model of the family."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.analysis import (
    ablate_head,
    ablate_sublayer,
    logit_lens,
    patch_residual_stream,
    record_attention,
    record_heads,
    record_norms,
    record_residual_stream,
    uniform_attention,
)
from tfmr.attention import MultiHeadAttention
from tfmr.errors import TfmrError
from tfmr.family import (
    GPT,
    T5,
    Bert,
    BertConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    T5Config,
    ViT,
    ViTConfig,
)

SIZES = {"d_model": 16, "n_heads": 4, "d_ff": 24, "n_layers": 2}
IDS = torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(0))
OTHER = IDS.flip(1)


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = {
        "bert": lambda: Bert(BertConfig(vocab=20, max_length=9, **SIZES)),
        "gpt": lambda: GPT(GPTConfig(vocab=20, max_length=9, **SIZES)),
        "t5": lambda: T5(T5Config(20, 16, 5, 24, 2, 2, 4, n_buckets=8, max_distance=9)),
        "vit": lambda: ViT(ViTConfig(image_size=4, patch_size=2, channels=1, **SIZES)),
        "llama": lambda: Llama(LlamaConfig(vocab=20, max_length=9, n_kv_heads=2, **SIZES)),
    }[kind]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


def inputs(kind: str, ids: Tensor = IDS) -> tuple[Tensor, ...]:
    if kind == "vit":
        return (torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(int(ids[0, 0]))),)
    return (ids, ids) if kind == "t5" else (ids,)


KINDS = ["bert", "gpt", "t5", "vit", "llama"]
Case = tuple[nn.Module, tuple[Tensor, ...], tuple[Tensor, ...]]


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    kind = request.param
    return make(kind), inputs(kind), inputs(kind, OTHER)


def test_recording_attention_changes_no_output(case: Case) -> None:
    model, given, _ = case
    expected = model(*given)
    with record_attention(model) as maps:
        assert_close(model(*given), expected)
    for [weights] in maps.values():
        assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        assert weights.shape[1] == 4


def test_the_lens_at_the_last_block_shows_the_logits(case: Case) -> None:
    model, given, _ = case
    lens = logit_lens(model, *given)
    assert len(lens) == 3
    assert_close(lens[-1], model(*given).detach())
    assert not torch.allclose(lens[0], lens[-1])


def test_patching_the_last_block_gives_the_other_output(case: Case) -> None:
    model, given, other = case
    with record_residual_stream(model.final_stack) as stream:
        expected = model(*other)
    before = model(*given)
    with patch_residual_stream(model.final_stack, 2, stream[2]):
        assert_close(model(*given), expected)
    assert not torch.allclose(before, expected)
    assert torch.equal(model(*given), before)


def test_the_norms_of_the_blocks_are_recorded(case: Case) -> None:
    model, given, _ = case
    stack = model.final_stack
    kind = type(stack.blocks[0])
    with record_residual_stream(stack) as stream, record_norms(stack, kind) as norms:
        model(*given)
    assert list(norms) == ["blocks.0", "blocks.1"]
    expected = [x.norm(dim=-1).mean().item() for x in stream[1:]]
    assert [found for [found] in norms.values()] == pytest.approx(expected)


def test_ablating_every_head_is_ablating_the_attention(case: Case) -> None:
    """Up to the bias of the output projection, which a head does not have."""
    model, given, _ = case
    attention = model.final_stack.blocks[0].attention
    if attention.w_o.bias is not None:
        nn.init.zeros_(attention.w_o.bias)
    before = model(*given)
    with ablate_sublayer(attention):
        expected = model(*given)
    with ablate_head(attention, 0), ablate_head(attention, 1):
        assert not torch.allclose(model(*given), expected)
        with ablate_head(attention, 2), ablate_head(attention, 3), record_heads(attention) as out:
            assert_close(model(*given), expected)
    assert out[0].shape[1] == 4
    assert torch.equal(model(*given), before)


def test_uniform_attention(case: Case) -> None:
    model, given, _ = case
    attention = model.final_stack.blocks[0].attention
    before = model(*given)
    with record_attention(attention) as maps, uniform_attention(attention, 1):
        changed = model(*given)
        with uniform_attention(attention, 2):
            model(*given)
    for weights, uniform, other in zip(maps[""], [(1,), (1, 2)], [2, 3], strict=True):
        mask = weights[:, 0] > 0
        for head in uniform:
            assert_close(weights[:, head], mask / mask.sum(dim=-1, keepdim=True))
        assert not torch.allclose(weights[:, other], weights[:, 1])
    assert not torch.allclose(changed, before)
    assert torch.equal(model(*given), before)


def test_uniform_attention_changes_the_bias_of_one_block() -> None:
    model, given = make("t5"), inputs("t5")
    first, second = (block.attention for block in model.decoder.blocks)
    with torch.no_grad():
        first.w_o.weight.zero_()  # the second block receives the same input in both passes
    with record_attention(second) as maps:
        model(*given)
        with uniform_attention(first, 1):
            model(*given)
    plain, ablated = maps[""]
    assert torch.equal(plain, ablated)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: logit_lens(nn.Linear(2, 2), torch.ones(2)), r"final_stack.*Linear"),
        (lambda: record_residual_stream(nn.Linear(2, 2)).__enter__(), "with blocks.*got a Linear"),
        (lambda: ablate_sublayer(nn.Linear(2, 2)).__enter__(), "feed-forward network, got a Lin"),
    ],
)
def test_other_modules_are_rejected(use: Callable[[], object], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        use()


def test_every_attention_of_the_family_is_recorded() -> None:
    counts = {
        kind: sum(isinstance(m, MultiHeadAttention) for m in make(kind).modules()) for kind in KINDS
    }
    assert counts == {"bert": 2, "gpt": 2, "t5": 6, "vit": 2, "llama": 2}
