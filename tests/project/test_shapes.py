"""The shapes of signatures are checked in enough calls of every test."""

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from tests import shapes
from tfmr.attention import causal_mask, scaled_dot_product_attention


def test_the_first_calls_of_a_test_are_checked_and_some_of_the_later_ones() -> None:
    found = [call for call in range(1, 200) if shapes.is_checked(call)]
    assert found == [*range(1, shapes.ALWAYS + 1), 32, 64, 128]


def test_a_wrong_shape_is_found_in_the_calls_that_are_checked() -> None:
    @shapes.often(typechecker=beartype)
    def double(x: Float[Tensor, "rows 2"]) -> Float[Tensor, "rows 2"]:
        return 2 * x

    for call in range(1, 70):
        if shapes.is_checked(call):
            with pytest.raises(jaxtyping.TypeCheckError):
                double(torch.ones(2, 3))
        else:
            assert double(torch.ones(2, 3)).shape == (2, 3)
    shapes.begin_test()
    with pytest.raises(jaxtyping.TypeCheckError):
        double(torch.ones(2, 3))


def test_an_inner_function_is_one_function_however_often_it_is_made() -> None:
    def double(x: Tensor) -> Tensor:
        @shapes.often(typechecker=beartype)
        def inner(x: Float[Tensor, "rows 2"]) -> Float[Tensor, "rows 2"]:
            return 2 * x

        return inner(x)

    for call in range(1, 70):
        if shapes.is_checked(call):
            with pytest.raises(jaxtyping.TypeCheckError):
                double(torch.ones(2, 3))
        else:
            assert double(torch.ones(2, 3)).shape == (2, 3)


def test_the_package_is_checked() -> None:
    q = torch.ones(1, 2, 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        scaled_dot_product_attention(q, q, torch.ones(2), causal_mask(2))
