"""Matrices arranged once: the products they stand for, as long as nobody has changed a weight."""

import copy
import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.analysis import ablate_head
from tfmr.arranged import arranged, product
from tfmr.data.batches import pad
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.dtype import uses_bf16
from tfmr.model import Transformer, TransformerConfig

SOURCE = pad([[4, 5, 6, 7], [8, 9], [10, 11, 12]])
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder": 1, "n_decoder": 2}


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(30, 30, **SIZES, max_length=12)).eval()


def first_scores(model: Transformer) -> tuple[Tensor, Tensor]:
    """Of the word after the first, by a step and by the whole model."""
    words = torch.tensor([5, 6, 7])
    with torch.no_grad():
        return model.step(words, model.start(SOURCE, 2)), model(SOURCE, words.unsqueeze(1))[:, 0]


def kept(model: Transformer) -> object:
    return arranged(model.decoder, model.output)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("light", [True, False])
@pytest.mark.parametrize("shape", [(1, 6), (2, 6), (70, 6), (1, 5, 6), (3, 5, 6)])
def test_a_product_is_the_linear_map(shape: tuple[int, ...], light: bool, bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(6, 8, bias=bias).requires_grad_(False), torch.randn(shape)
    assert_close(product(linear.weight, linear.bias, light)(x), linear(x))


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize("rows", [1, 3])
def test_bf16_is_taken_where_it_is_fast(rows: int) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(6, 8).requires_grad_(False), torch.randn(rows, 6)
    fast = torch.bfloat16 if uses_bf16("auto", x.device) else torch.float32
    for light, kind in ((False, fast), (True, torch.float32)):
        y = product(linear.weight, linear.bias, light)(x)
        assert y.dtype == kind
        assert_close(y, linear(x).to(kind), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("missing", ["_reorder_linear_weight", "_linear_pointwise"])
def test_without_the_operations_the_plain_function_does_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = torch.ops.mkldnn

    class Without:
        def __getattr__(self, name: str) -> object:
            if name == missing:
                raise AttributeError(name)
            return getattr(has, name)

    monkeypatch.setattr(torch.ops, "mkldnn", Without())
    torch.manual_seed(0)
    linear, x = nn.Linear(6, 8).requires_grad_(False), torch.randn(3, 6)
    assert torch.equal(product(linear.weight, linear.bias, light=False)(x), linear(x))


def test_what_has_not_changed_is_not_arranged_again(model: Transformer) -> None:
    first = kept(model)
    greedy_search(model, SOURCE)
    first_scores(model)
    assert kept(model) is first
    other = copy.deepcopy(model)
    assert kept(other) is not first
    assert kept(model) is first


def in_place(weight: nn.Parameter) -> None:
    weight.mul_(2)


def through_data(weight: nn.Parameter) -> None:
    weight.data.mul_(2)


def in_another_order(weight: nn.Parameter) -> None:
    """Their sum is what it was."""
    weight.copy_(weight.flip(0).clone())


def by_new_numbers(weight: nn.Parameter) -> None:
    weight.data = weight.data.flip(0)


@torch.inference_mode()
def in_inference_mode(weight: nn.Parameter) -> None:
    weight.mul_(2)


NAMES = [
    "decoder.blocks.1.cross_attention.w_v.weight",
    "decoder.blocks.0.self_attention.w_v.bias",
    "decoder.blocks.1.feed_forward.contract.weight",
    "output.weight",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change", [in_place, through_data, in_another_order, by_new_numbers, in_inference_mode]
)
@torch.no_grad()
def test_a_weight_that_changes_is_seen(
    change: Callable[[nn.Parameter], None], name: str, model: Transformer
) -> None:
    model.get_parameter(name).normal_()
    before, whole = first_scores(model)
    assert_close(before, whole)
    change(model.get_parameter(name))
    after, whole = first_scores(model)
    assert_close(after, whole)
    assert not torch.allclose(after, before)


def test_every_way_to_other_weights(model: Transformer) -> None:
    torch.manual_seed(1)
    other = Transformer(model.config)

    def learn() -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
        model(SOURCE, SOURCE).square().mean().backward()
        optimizer.step()

    def replace() -> None:
        model.output = nn.Linear(16, 30, bias=False)

    for change in (lambda: model.load_state_dict(other.state_dict()), learn, replace):
        before = first_scores(model)[0]
        change()
        after, whole = first_scores(model)
        assert_close(after, whole)
        assert not torch.allclose(after, before)


def test_a_head_is_silent_while_it_is_and_no_longer(model: Transformer) -> None:
    before = first_scores(model)[0]
    with ablate_head(model.decoder.blocks[0].cross_attention, 1):  # type: ignore[union-attr]
        without, whole = first_scores(model)
        assert_close(without, whole)
        assert not torch.allclose(without, before)
    assert torch.equal(first_scores(model)[0], before)


@pytest.mark.usefixtures("medium")
def test_other_precisions_are_arranged_apart(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = kept(model)
    monkeypatch.setattr("tfmr.arranged.LIGHT", 0)
    heavy = kept(model)
    assert heavy is not light
    torch.set_float32_matmul_precision("highest")
    same = not uses_bf16("auto", torch.device("cpu"))
    assert (kept(model) is heavy) == same
    assert_close(*first_scores(model))
    torch.set_float32_matmul_precision("medium")


def test_other_numbers_are_taken_as_they_are(model: Transformer) -> None:
    double = model.double()
    assert kept(double) is not kept(double)
    assert_close(*first_scores(double))
    assert greedy_search(double, SOURCE[:1]) == [greedy_search_naive(double, SOURCE[:1])]


def test_nothing_keeps_a_decoder_alive(model: Transformer) -> None:
    short_lived = copy.deepcopy(model)
    greedy_search(short_lived, SOURCE)
    matrices = weakref.ref(kept(short_lived))
    assert matrices() is not None
    del short_lived
    gc.collect()
    assert matrices() is None
