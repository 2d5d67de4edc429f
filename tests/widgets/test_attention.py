"""AttentionFigure in Python: its weights, its synchronised traits and its errors."""

import math

import pytest
import torch

from tfmr.attention import causal_mask, scaled_dot_product_attention
from tfmr.errors import TfmrError
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
    figure.set_state({"selected": 2, "causal": True, "q": [[0.0, 0.0], *Q[1:]]})
    assert figure.selected == 2
    torch.testing.assert_close(figure.weights()[0], torch.tensor([1.0, 0.0, 0.0]))


def test_repr_is_the_stored_text() -> None:
    figure = AttentionFigure(TOKENS, Q, K, V)
    text = "Live figure: attention over “the dog ran”, step by step."
    assert repr(figure) == text
    data, _ = figure._repr_mimebundle_()
    assert data["text/plain"] == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "1 to 12.*got 0"),
        ({"selected": 3}, "0 to 2.*got 3"),
        ({"q": Q[:2]}, r"q.*row.*3.*\(2, 2\)"),
        ({"k": [[1.0], [2.0], [3.0]]}, "d_k.*got 2.*1"),
        ({"v": [[math.nan], [0.0], [0.0]]}, "v must be finite"),
        ({"v": [[1.0], [0.0, 2.0], [0.0]]}, "v.*row"),
    ],
)
def test_invalid_arguments_raise_tfmr_error(change: dict[str, object], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        AttentionFigure(**{"tokens": TOKENS, "q": Q, "k": K, "v": V} | change)


def test_given_dot_products_replace_those_of_the_vectors() -> None:
    figure = AttentionFigure(TOKENS, Q, K, V, causal=True)
    figure.dot_products = [[3.0, 0.0, 0.0], [1.0, -1.0, 5.0], [0.5, 0.0, 0.5]]
    scores = torch.tensor(figure.dot_products) / math.sqrt(2)
    expected = scores.masked_fill(~causal_mask(3), -math.inf).softmax(-1)
    torch.testing.assert_close(figure.weights(), expected)
    torch.testing.assert_close(figure.output(), expected @ torch.tensor(V))
