"""AttentionFigure in Python: its weights, its synchronised traits and its errors."""

import math

import pytest
import torch

from tfmr.attention import causal_mask, scaled_dot_product_attention
from tfmr.widgets import AttentionFigure

TOKENS = ["the", "dog", "ran"]
Q = [[1.0, 0.0], [0.5, -1.0], [2.0, 1.5]]
K = [[0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]]
V = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("causal", [False, True])
def test_weights_equal_the_package(causal: bool) -> None:
    figure = AttentionFigure(TOKENS, torch.tensor(Q), torch.tensor(K), V, causal=causal)
    mask = causal_mask(3) if causal else None
    expected = scaled_dot_product_attention(
        torch.tensor(Q), torch.tensor(K), torch.tensor(V), mask
    )[1]
    torch.testing.assert_close(figure.weights(), expected)


def test_without_scaling_the_scores_are_the_dot_products() -> None:
    figure = AttentionFigure(TOKENS, Q, K, V, scaled=False)
    torch.testing.assert_close(figure.weights(), (torch.tensor(Q) @ torch.tensor(K).T).softmax(-1))
    figure.scaled = True
    expected = (torch.tensor(Q) @ torch.tensor(K).T / math.sqrt(2)).softmax(-1)
    torch.testing.assert_close(figure.weights(), expected)


def test_traits_are_synchronised() -> None:
    figure = AttentionFigure(TOKENS, Q, K, V)
    assert "“the dog ran”" in repr(figure)
    figure.set_state({"selected": 2, "causal": True, "q": [[0.0, 0.0], *Q[1:]]})
    assert figure.selected == 2
    torch.testing.assert_close(figure.weights()[0], torch.tensor([1.0, 0.0, 0.0]))


def test_given_dot_products_replace_those_of_the_vectors() -> None:
    figure = AttentionFigure(TOKENS, Q, K, V, causal=True)
    figure.dot_products = [[3.0, 0.0, 0.0], [1.0, -1.0, 5.0], [0.5, 0.0, 0.5]]
    scores = torch.tensor(figure.dot_products) / math.sqrt(2)
    expected = scores.masked_fill(~causal_mask(3), -math.inf).softmax(-1)
    torch.testing.assert_close(figure.weights(), expected)
    torch.testing.assert_close(figure.output(), expected @ torch.tensor(V))
