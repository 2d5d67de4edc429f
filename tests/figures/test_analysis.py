"""Figures of trained models show the values of every head and sublayer."""

import pytest
import torch
from matplotlib.colors import to_hex

from tfmr.errors import TfmrError
from tfmr.figures.analysis import (
    attention_maps,
    head_ablation,
    head_grid,
    residual_stream_norms,
    sublayer_ablation,
)
from tfmr.figures.style import BLUE, ORANGE, Figure


def small(figure: Figure) -> bool:
    return len(figure._repr_png_()[0]) < 60_000


def test_head_grid() -> None:
    weights = torch.rand(2, 3, 4, 5).softmax(dim=-1)
    figure = head_grid(weights, [["a", "b", "c"], ["d", "e", "f"]], attention="encoder attention")
    assert len(figure.axes) == 6
    for index, axes in enumerate(figure.axes):
        drawn = torch.as_tensor(axes.images[0].get_array().tolist())
        assert torch.allclose(drawn, weights[index // 3, index % 3])
        assert axes.images[0].get_clim() == (0, 1)
        assert axes.get_title() == "abcdef"[index]
    assert [axes.get_ylabel() for axes in figure.axes] == ["layer 1", "", "", "layer 2", "", ""]
    assert [axes.get_xlabel() for axes in figure.axes][3:] == ["head 1", "head 2", "head 3"]
    assert "Maps of encoder attention" in figure.alt
    assert "Layer 1 head 1 a, layer 1 head 2 b" in figure.alt
    assert "layer 2 head 3 f." in figure.alt
    assert small(figure)


def test_head_grid_without_labels() -> None:
    figure = head_grid(torch.rand(1, 2, 3, 3))
    assert not any(axes.get_title() for axes in figure.axes)
    assert figure.alt.endswith("darker is a larger weight.")


def test_attention_maps_share_one_scale() -> None:
    maps = {"original": torch.eye(4), "uniform": torch.full((4, 4), 0.25)}
    figure = attention_maps(maps)
    assert [axes.get_title() for axes in figure.axes] == list(maps)
    for axes, weights in zip(figure.axes, maps.values(), strict=True):
        assert torch.equal(torch.as_tensor(axes.images[0].get_array().tolist()), weights)
        assert axes.images[0].get_clim() == (0, 1)
    assert figure.alt.endswith("larger weight: original, uniform.")
    assert small(figure)


def test_head_ablation_shares_one_scale() -> None:
    figure = head_ablation({"encoder": [[0.04, -1.0], [2.0, -0.04]], "cross": [[4.0, 0.5]]}, "BLEU")
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0", "−1.0", "2.0", "0.0"]
    assert {axes.images[0].get_clim() for axes in figure.axes} == {(-4.0, 4.0)}
    assert "encoder: layer 1 0.0 −1.0, layer 2 2.0 0.0; cross: layer 1 4.0 0.5" in figure.alt
    assert small(figure)


def test_sublayer_ablation_is_coloured_by_group() -> None:
    figure = sublayer_ablation(
        {"encoder": {"layer 1": 3.0, "layer 2": -0.5}, "decoder": {"layer 1": 9}}, "BLEU"
    )
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [3.0, -0.5, 9]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [BLUE, BLUE, ORANGE]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "encoder, layer 1",
        "encoder, layer 2",
        "decoder, layer 1",
    ]
    assert "encoder layer 1 3.0, encoder layer 2 −0.5, decoder layer 1 9.0" in figure.alt
    assert all(text.get_position()[0] > 0 for text in axes.texts)
    assert small(figure)


def test_residual_stream_norms() -> None:
    figure = residual_stream_norms(["attention", "feed-forward"], [10, 11, 14.5], [3, 6.25])
    (axes,) = figure.axes
    assert list(axes.lines[0].get_ydata()) == [10, 11, 14.5]
    assert [bar.get_height() for bar in axes.patches] == [3, 6.25]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    assert middles == pytest.approx([1, 2])
    assert "10.0 for the embedding; attention output 3.0, stream 11.0" in figure.alt
    assert small(figure)
    with pytest.raises(TfmrError, match=r"2 sublayers need 3 norms .* got 2 and 2"):
        residual_stream_norms(["attention", "feed-forward"], [10, 11], [3, 6])
