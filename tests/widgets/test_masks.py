"""MasksFigure in Python: its masks, what leaks, its synchronised traits and its errors."""

import pytest
import torch
from traitlets import TraitError

from tfmr.attention import causal_mask, scaled_dot_product_attention
from tfmr.widgets import MasksFigure

TOKENS = ["<bos>", "the", "cat", "eats", "<pad>", "<pad>"]


def changed(figure: MasksFigure) -> list[int]:
    return (figure.changes() > 1e-9).nonzero().flatten().tolist()


def test_right_masks_give_the_weights_of_the_package() -> None:
    figure = MasksFigure(TOKENS)
    q, k, v = (torch.tensor(figure.vectors[name])[:-1] for name in "qkv")
    mask = causal_mask(6) & torch.tensor([True] * 4 + [False] * 2)
    expected = scaled_dot_product_attention(q, k, v, mask)[1]
    torch.testing.assert_close(figure.weights().float(), expected)
    assert torch.equal(figure.mask(), mask)


@pytest.mark.parametrize(
    ("causal", "padding", "replaced", "expected"),
    [
        ("causal", "padding", 2, [2, 3, 4, 5]),
        ("off by one", "padding", 2, [1, 2, 3, 4, 5]),
        ("none", "padding", 2, [0, 1, 2, 3, 4, 5]),
        ("transposed", "padding", 2, [0, 1, 2]),
        ("causal", "padding", 4, [4]),
        ("causal", "none", 4, [4, 5]),
        ("none", "none", 4, [0, 1, 2, 3, 4, 5]),
        ("none", "opposite", 4, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_replaced_token_changes_the_outputs_that_may_attend_to_it(
    causal: str, padding: str, replaced: int, expected: list[int]
) -> None:
    figure = MasksFigure(TOKENS, causal=causal, padding=padding, replaced=replaced)
    assert changed(figure) == expected


def test_a_row_without_a_key_is_not_a_number() -> None:
    figure = MasksFigure(TOKENS, padding="opposite")
    assert figure.changes().isnan().tolist() == [True] * 4 + [False] * 2


def test_traits_are_synchronised_and_checked() -> None:
    figure = MasksFigure(TOKENS)
    figure.set_state({"causal": "none", "replaced": 3})
    assert changed(figure) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TraitError):
        figure.causal = "wrong"
