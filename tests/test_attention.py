"""Masks, attention by hand and fused, single heads, parity with torch.nn."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from tfmr.attention import (
    SHORT,
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    fused_attention,
    mask_to_bias,
    padding_mask,
    recording,
    scaled_dot_product_attention,
    unfused_attention,
)
from tfmr.errors import TfmrError
from tfmr.kv_cache import KVCache
from tfmr.position import RotaryPosition
from tfmr.tiled_attention import tiled_attention

BATCH, HEADS, QUERY, KEY, D_K, D_V = 2, 3, 4, 6, 5, 7
IDS = torch.tensor([[4, 5, 6, 7, 8, 9], [4, 5, 6, 0, 0, 0]])
MASKS = {
    "none": None,
    "causal": causal_mask(QUERY, KEY),
    "padding": padding_mask(IDS),
    "both": combine_masks(causal_mask(QUERY, KEY), padding_mask(IDS)),
}


def qkv(*leading: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = [(QUERY, D_K), (KEY, D_K), (KEY, D_V)]
    return [
        torch.randn(*leading, *size, generator=generator, dtype=torch.double).requires_grad_()
        for size in sizes
    ]


@given(st.integers(1, 8), st.integers(0, 8))
def test_a_causal_mask_shows_each_query_its_prefix(query: int, before: int) -> None:
    mask = causal_mask(query, before + query)
    for row in range(query):
        assert mask[row].tolist() == [key <= before + row for key in range(before + query)]


def test_a_padding_mask_shows_the_real_tokens() -> None:
    mask = padding_mask(IDS)
    assert mask.shape == (2, 1, 1, KEY)
    assert mask.flatten(1).tolist() == [[True] * 6, [True] * 3 + [False] * 3]


def test_masks_combine_to_what_all_of_them_allow() -> None:
    both = combine_masks(None, causal_mask(KEY), padding_mask(IDS))
    for row, ids in enumerate(IDS):
        for query in range(KEY):
            expected = [key <= query and int(ids[key]) != 0 for key in range(KEY)]
            assert both[row, 0, query].tolist() == expected
    assert combine_masks(None, None) is None


def test_attention_by_hand() -> None:
    q = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    k = torch.tensor([[math.log(3), 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    v = torch.tensor([[1.0], [5.0]])
    out, weights = scaled_dot_product_attention(q, k, v)  # scores 2 ln 3 / √4 = ln 3, and 0
    assert_close(weights, torch.tensor([[0.75, 0.25]]))
    assert_close(out, torch.tensor([[2.0]]))


@pytest.mark.parametrize("kind", MASKS)
def test_readable_fused_and_torch_agree_forward_and_gradient(kind: str) -> None:
    mask = MASKS[kind]
    results = []
    for attend in (
        lambda *args: scaled_dot_product_attention(*args)[0],
        fused_attention,
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    ):
        inputs = qkv(BATCH, HEADS)
        out = attend(*inputs, mask)
        out.square().sum().backward()
        results.append([out.detach(), *(x.grad for x in inputs)])
    assert_close(results[0], results[2])
    assert_close(results[1], results[2])


@pytest.mark.parametrize("length", [SHORT, SHORT + 1])
def test_short_and_long_texts_agree(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, length, 8, dtype=torch.double)
    expected, _ = scaled_dot_product_attention(q, k, v, causal_mask(length))
    assert_close(fused_attention(q, k, v, causal_mask(length)), expected)
    assert_close(fused_attention(q, k, v, is_causal=True), expected)
    last = q[:, :, -3:]
    assert_close(fused_attention(last, k, v, is_causal=True), expected[:, :, -3:])
    assert_close(fused_attention(last[:, :, 2:], k, v, is_causal=True), expected[:, :, -1:])
    padding = padding_mask(torch.tensor([[5] * (length - 2) + [0] * 2]))
    both, _ = scaled_dot_product_attention(q, k, v, combine_masks(padding, causal_mask(length)))
    assert_close(fused_attention(q, k, v, padding, is_causal=True), both)


def test_the_fused_kernel_has_no_second_derivative() -> None:
    torch.manual_seed(0)

    def second_derivative(attend, length: int) -> torch.Tensor:
        q = x[:, :, :length].clone().requires_grad_()
        gradient = torch.autograd.grad(attend(q, q, q).square().sum(), q, create_graph=True)[0]
        return torch.autograd.grad(gradient.square().sum(), q)[0]

    x = torch.randn(1, 1, SHORT + 1, 8, dtype=torch.double)
    expected = second_derivative(lambda *x: scaled_dot_product_attention(*x)[0], SHORT)
    assert_close(second_derivative(fused_attention, SHORT), expected)
    with pytest.raises(RuntimeError, match="derivative"):
        second_derivative(fused_attention, SHORT + 1)


@pytest.mark.parametrize("padded", [SHORT, SHORT + 1])
def test_padding_changes_a_sentence_by_rounding_only(padded: int) -> None:
    """Also where it changes the kernel, because the padded length exceeds SHORT."""
    torch.manual_seed(0)
    module, x = MultiHeadAttention(12, 3), torch.randn(1, padded, 12)
    alone = module(x[:, : SHORT - 1])
    mask = padding_mask(torch.tensor([[5] * (SHORT - 1) + [0] * (padded - SHORT + 1)]))
    in_batch = module(x, mask=mask)[:, : SHORT - 1]
    assert_close(in_batch, alone, rtol=0, atol=1e-6)
    results = [torch.autograd.grad(out.sum(), module.w_q.weight)[0] for out in (in_batch, alone)]
    assert_close(*results, rtol=0, atol=1e-4)


@pytest.mark.parametrize("length", [SHORT, SHORT + 1])
def test_a_fully_masked_query_gets_zero_and_no_gradient(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, length, 8, dtype=torch.double)
    q.requires_grad_()
    mask = causal_mask(length).clone()
    mask[3] = False
    out = fused_attention(q, k, v, mask)
    out.square().sum().backward()
    assert not out[:, :, 3].any()
    assert not q.grad[:, :, 3].any()
    rows = [row for row in range(length) if row != 3]
    expected, _ = scaled_dot_product_attention(q[:, :, rows], k, v, mask[rows])
    assert_close(out[:, :, rows], expected)


def test_a_purely_causal_mask_uses_the_causal_mode_of_the_kernel(monkeypatch) -> None:
    given = []

    def kernel(q, k, v, **options):
        given.append(options)
        return v

    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    x = torch.randn(1, 2, SHORT + 1, 8)
    fused_attention(x, x, x, is_causal=True)
    fused_attention(x, x, x)
    assert given == [{"is_causal": True, "scale": None}, {"scale": None}]


@pytest.mark.parametrize("length", [5, SHORT + 1])
def test_on_a_cpu_attention_is_computed_in_fp32_under_autocast(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, length, 8)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = fused_attention(q.bfloat16(), k.bfloat16(), v.bfloat16())
        exact = fused_attention(q, k, v)
    assert rounded.dtype == torch.float32
    assert_close(exact, fused_attention(q, k, v))


@pytest.mark.parametrize("kind", MASKS)
def test_attention_weights_sum_to_one_and_are_zero_at_hidden_keys(kind: str) -> None:
    mask = MASKS[kind]
    _, weights = scaled_dot_product_attention(*qkv(BATCH, HEADS), mask)
    assert_close(weights.sum(dim=-1), torch.ones(BATCH, HEADS, QUERY, dtype=torch.double))
    if mask is not None:
        assert not weights[~mask.expand_as(weights)].any()


@pytest.mark.parametrize("memory_given", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("masked", [False, True])
def test_equal_to_torch(assert_parity, memory_given: bool, masked: bool) -> None:
    torch.manual_seed(0)
    own, theirs = MultiHeadAttention(12, 3), nn.MultiheadAttention(12, 3, batch_first=True)
    x, memory = torch.randn(BATCH, QUERY, 12), torch.randn(BATCH, KEY, 12)
    key = KEY if memory_given else QUERY
    ids = IDS[:, :key]
    causal = causal_mask(QUERY, key)
    mask = combine_masks(causal, padding_mask(ids)) if masked else None
    # nn.MultiheadAttention has the opposite convention: True hides.
    opposite = {"attn_mask": ~causal, "key_padding_mask": ids == 0} if masked else {}

    def run(module, x, memory=None):
        return module(x, memory, mask=mask)

    def other(module, x, memory=None):
        source = x if memory is None else memory
        return module(x, source, source, need_weights=False, **opposite)[0]

    assert_parity(own, theirs, [x, memory] if memory_given else [x], run, other)

    with recording(own) as recorded:
        run(own, x.double(), memory.double() if memory_given else None)
    source = (memory if memory_given else x).double()
    _, weights = theirs(x.double(), source, source, average_attn_weights=False, **opposite)
    assert_close(recorded[own][0], weights)


def test_equal_to_a_loop_over_heads_and_to_a_sum_over_slices_of_the_output() -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 3).double()
    x = torch.randn(BATCH, QUERY, 12, dtype=torch.double)
    mask = causal_mask(QUERY)
    heads, total = [], module.w_o.bias.expand(BATCH, QUERY, 12)
    for i in range(3):
        own = slice(4 * i, 4 * i + 4)
        q, k, v = (x @ w.weight[own].T + w.bias[own] for w in (module.w_q, module.w_k, module.w_v))
        scores = q @ k.transpose(1, 2) / 2
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        heads.append(weights @ v)
        total = total + heads[-1] @ module.w_o.weight[:, own].T
    out = module(x, mask=mask)
    assert_close(torch.cat(heads, dim=-1) @ module.w_o.weight.T + module.w_o.bias, out)
    assert_close(total, out)


def test_recording_does_not_change_the_output() -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 3).double()
    x = torch.randn(BATCH, QUERY, 12, dtype=torch.double)
    fused = module(x, is_causal=True)
    with recording(module) as weights:
        assert_close(module(x, is_causal=True), fused)
    assert [each.shape for each in weights[module]] == [(BATCH, 3, QUERY, QUERY)]


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("pieces", [(1,) * 6, (3, 1, 2), (6,)])
def test_self_attention_with_a_cache_equals_without(pieces: tuple[int, ...], rotary: bool) -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 3, rotary=RotaryPosition(4, KEY) if rotary else None).double()
    x = torch.randn(BATCH, KEY, 12, dtype=torch.double)
    cache, outs = KVCache(KEY), []
    for piece in x.split(pieces, dim=1):
        outs.append(module(piece, is_causal=True, cache=cache))
    assert cache.length == KEY
    assert_close(torch.cat(outs, dim=1), module(x, mask=causal_mask(KEY)))


@pytest.mark.parametrize("key", [1, KEY])
def test_cross_attention_projects_the_memory_once(key: int) -> None:
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 3)
    x, memory = torch.randn(BATCH, QUERY, 12), torch.randn(BATCH, key, 12)
    cache, calls = KVCache(key), []
    module.w_k.register_forward_hook(lambda *_: calls.append(1))
    outs = [module(word, memory, cache=cache) for word in x.split(1, dim=1)]
    assert len(calls) == 1
    assert_close(torch.cat(outs, dim=1), module(x, memory))


@pytest.mark.parametrize(("query", "key"), [(0, 1), (3, 2)])
def test_a_causal_mask_with_more_queries_than_keys(query: int, key: int) -> None:
    with pytest.raises(TfmrError, match=rf"0 < query <= key.*got query={query}, key={key}"):
        causal_mask(query, key)


def test_a_sentence_of_padding_alone() -> None:
    with pytest.raises(TfmrError, match=r"row 1 of 2 has none; remove empty lines"):
        padding_mask(torch.tensor([[4, 5], [0, 0]]))


def test_the_readable_version_rejects_a_fully_masked_query() -> None:
    q = torch.zeros(2, 4)
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(TfmrError, match="hides a whole row"):
        scaled_dot_product_attention(q, q, q, mask)


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention, tiled_attention])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": torch.zeros(KEY, 3)}, r"d_k.*got q \(4, 5\).*k \(6, 3\)"),
        ({"k": torch.zeros(D_K)}, r"k.*\(..., length, d\).*got \(5,\)"),
        ({"q": torch.zeros(QUERY, D_K).long()}, r"q.*floating-point.*got torch.int64"),
        ({"v": torch.zeros(KEY, D_V).double()}, r"dtype.*got torch.float32.*torch.float64"),
        ({"v": torch.zeros(2, D_V)}, r"got 6 keys \(6, 5\).*2.*\(2, 7\)"),
        ({"mask": torch.zeros(QUERY, KEY)}, r"boolean.*got torch.float32.*convert.*additive mask"),
        ({"mask": torch.ones(KEY, QUERY).bool()}, r"broadcast to.*scores \(4, 6\).*got \(6, 4\)"),
        ({"mask": torch.ones(1, 1, QUERY, KEY).bool()}, r"broadcast to.*scores \(4, 6\)"),
        ({"q": torch.ones(QUERY, 0), "k": torch.ones(KEY, 0)}, r"d_k.*1.*\(4, 0\)"),
        ({"k": torch.ones(0, D_K), "v": torch.ones(0, D_V)}, "got 0 keys"),
    ],
)
def test_invalid_arguments(unchecked, attend, changed: dict, message: str) -> None:
    q, k, v = (x.detach().float() for x in qkv())
    with pytest.raises(TfmrError, match=message):
        attend(**({"q": q, "k": k, "v": v} | changed))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_heads": 5}, "divisible.*got d_model=12, n_heads=5"),
        ({"n_heads": 0}, r"n_heads.*got 0"),
        ({"d_model": 0}, r"d_model.*got 0"),
        ({"n_heads": True}, r"n_heads.*got True"),
        ({"d_k": 0}, r"d_k.*got 0"),
        ({"n_heads": 6, "n_kv_heads": 4}, "n_heads=6, n_kv_heads=4"),
        ({"n_kv_heads": 0}, r"n_kv_heads.*got 0"),
    ],
)
def test_invalid_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        MultiHeadAttention(**({"d_model": 12, "n_heads": 3} | sizes))


def test_the_head_size_is_free() -> None:
    """d_k need not be d_model / n_heads: the formula with 3 heads of 2 dimensions of 8."""
    torch.manual_seed(0)
    module, x = MultiHeadAttention(8, 3, d_k=2, bias=False, scale=0.7), torch.randn(1, 5, 8)
    q, k, v = (
        (x @ w.weight.T).view(1, 5, 3, 2).transpose(1, 2)
        for w in (module.w_q, module.w_k, module.w_v)
    )
    bias = torch.randn(3, 5, 5)
    for added in (None, bias):
        scores = q @ k.mT * 0.7 + (0 if added is None else added)
        heads = scores.masked_fill(~causal_mask(5), -math.inf).softmax(-1) @ v
        expected = heads.transpose(1, 2).reshape(1, 5, 6) @ module.w_o.weight.T
        assert_close(module(x, is_causal=True, bias=added), expected)


def test_a_group_of_query_heads_shares_a_key_head() -> None:
    """Equal to multi-head attention whose key and value matrices repeat those of the groups."""
    torch.manual_seed(0)
    grouped, plain = MultiHeadAttention(12, 6, n_kv_heads=2), MultiHeadAttention(12, 6)
    assert grouped.w_k.weight.shape == grouped.w_v.weight.shape == (4, 12)
    with torch.no_grad():
        for name, parameter in grouped.named_parameters():
            if name.startswith(("w_k", "w_v")):
                heads = parameter.view(2, 2, -1).repeat_interleave(3, dim=0)
                parameter = heads.reshape(12, *parameter.shape[1:])
            plain.get_parameter(name).copy_(parameter)
    x = torch.randn(2, 5, 12)
    assert_close(grouped(x, is_causal=True), plain(x, is_causal=True))
    cache = KVCache(5)
    grouped(x, is_causal=True, cache=cache)
    assert cache.read()[0].shape == (2, 2, 5, 2)  # two heads instead of six


def test_threads_do_not_see_the_recordings_of_each_other() -> None:
    torch.manual_seed(0)
    module, inputs = MultiHeadAttention(12, 3), torch.randn(8, 1, 4, 12)
    with recording(module) as expected:
        for x in inputs:
            module(x)
    ready = threading.Barrier(4)

    def record(start: int) -> list[torch.Tensor]:
        ready.wait(timeout=30)
        if start % 2:  # every second thread only computes
            return [module(x) for x in inputs[:0]]
        with recording(module) as weights:
            for _ in range(20):
                for x in inputs[start : start + 2]:
                    module(x)
        return weights[module]

    with recording(module) as outer, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(record, range(4)))
    assert outer[module] == []
    assert [len(weights) for weights in found] == [40, 0, 40, 0]
    for start in (0, 2):
        assert_close(found[start][-2:], expected[module][start : start + 2])


def test_recording_a_query_without_a_key() -> None:
    """Its weights and its output are zero, as without the recording."""
    torch.manual_seed(0)
    module, x = MultiHeadAttention(12, 3), torch.randn(1, 3, 12)
    mask = torch.tensor([[False, True, True]])[:, None, None]  # padding before the text
    plain = module(x, mask=mask, is_causal=True)
    with recording(module) as weights:
        assert_close(module(x, mask=mask, is_causal=True), plain)
    assert not weights[module][0][:, :, 0].any()


ATTENTIONS = {
    "readable": lambda *args, **options: scaled_dot_product_attention(*args, **options)[0],
    "unfused": lambda *args, **options: unfused_attention(*args, **options)[0],
    "fused": fused_attention,
    "tiled": tiled_attention,
}


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("length", [4, SHORT + 16])
@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.float16, 40), (torch.float16, 200), (torch.bfloat16, 40)]
)
def test_half_precision_does_not_overflow(attend, length: int, dtype, value: int) -> None:
    """The dot products exceed 65504, the largest number in fp16; equal keys have equal weights."""
    q, v = (
        torch.full((1, 1, length, 64), float(value), dtype=dtype),
        torch.ones(1, 1, length, 64, dtype=dtype),
    )
    out = attend(q, q, v, causal_mask(length))
    assert out.dtype == dtype
    assert_close(out, v)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, length, 8, dtype=torch.float64)
    half = attend(q.to(dtype), k.to(dtype), v.to(dtype))
    assert_close(half.double(), attend(q, k, v), atol=0.03, rtol=0)


@pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("length", [4, SHORT + 16])
def test_batch_axes_broadcast(unchecked, attend, length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 1, 3, 8), torch.randn(3, length, 8), torch.randn(1, 3, length, 5)
    for mask in (None, torch.rand(2, 3, 1, length) < 0.8):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        out = attend(*inputs, mask)
        full = [x.clone().expand(2, 3, *x.shape[-2:]) for x in (q, k, v)]
        assert_close(out, scaled_dot_product_attention(*full, mask)[0])
        out.square().sum().backward()
        assert [x.grad.shape for x in inputs] == [x.shape for x in (q, k, v)]


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention, tiled_attention])
@pytest.mark.parametrize("changed", [{"q": 2}, {"k": 2}, {"v": 2}, {"mask": 2}])
def test_mismatched_batch_axes(unchecked, attend, changed: dict[str, int]) -> None:
    sizes = {"q": 3, "k": 3, "v": 3} | changed
    inputs = {name: torch.ones(size, 4, 4) for name, size in sizes.items()}
    if "mask" in inputs:
        inputs["mask"] = inputs["mask"].bool()
    with pytest.raises(TfmrError, match=r"broadcast.*\(2, 4, 4\)"):
        attend(**inputs)


def test_mismatched_batches_of_multi_head_attention(unchecked) -> None:
    module = MultiHeadAttention(12, 3)
    with pytest.raises(TfmrError, match="2 rows of x and 3 rows of memory"):
        module(torch.ones(2, 4, 12), torch.ones(3, 5, 12))
    cache = KVCache(5)
    module(torch.ones(3, 1, 12), torch.ones(3, 5, 12), cache=cache)
    with pytest.raises(TfmrError, match="1 rows of x and 3 rows of memory or cache"):
        module(torch.ones(1, 1, 12), torch.ones(3, 5, 12), cache=cache)


@pytest.mark.parametrize("name", ["k", "v", "mask"])
def test_another_device(unchecked, name: str) -> None:
    """The device ``meta`` computes nothing, but exists on every machine."""
    inputs = {key: torch.ones(2, 2) for key in "qkv"} | {"mask": torch.ones(2, 2).bool()}
    inputs[name] = inputs[name].to("meta")
    with pytest.raises(TfmrError, match=f"{name} must be .* cpu: got meta"):
        fused_attention(**inputs)


@pytest.mark.parametrize("name", ["x", "memory"])
def test_a_wrong_shape(unchecked, name: str) -> None:
    given = {"x": torch.zeros(1, 2, 12), "memory": torch.zeros(1, 2, 12)}
    for wrong in ((1, 2, 5), (2, 12)):
        given[name] = torch.zeros(*wrong)
        with pytest.raises(TfmrError, match=rf"{name} must be .*d_model=12.*got ") as error:
            MultiHeadAttention(12, 3)(**given)
        assert str(wrong) in str(error.value)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.zeros(5, 5), r"boolean.*got torch.float32.*convert.*additive mask"),
        (torch.ones(5, 5).long(), "boolean.*got torch.int64"),
        ([1, 2], r"mask.*got list"),
    ],
)
def test_a_mask_of_another_type_is_rejected(unchecked, mask: object, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        combine_masks(causal_mask(5), mask)
    with pytest.raises(TfmrError, match=message):
        mask_to_bias(mask, torch.float32)


def test_masks_that_do_not_combine(unchecked) -> None:
    with pytest.raises(TfmrError, match=r"shape.*got \(2, 1, 1, 6\), \(4, 5\).*padding"):
        combine_masks(padding_mask(IDS), torch.ones(4, 5).bool())
