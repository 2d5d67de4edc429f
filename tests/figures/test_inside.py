"""The figures of a trained model draw every head and part in its place, and say what each lost."""

import pytest
import torch
from matplotlib.colors import to_hex

from tfmr.errors import TfmrError
from tfmr.figures.inside import head_grid, removed, removed_heads, side_by_side, stream
from tfmr.figures.style import BLUE, ORANGE, Figure


def small(figure: Figure) -> bool:
    return len(figure._repr_png_()[0]) < 60_000


def test_heads_stand_layer_by_layer() -> None:
    weights = torch.rand(2, 3, 4, 5).softmax(dim=-1)
    figure = head_grid(weights, [["a", "b", "c"], ["d", "e", "f"]], what="each encoder head")
    assert len(figure.axes) == 6
    for index, axes in enumerate(figure.axes):
        drawn = torch.as_tensor(axes.images[0].get_array().tolist())
        assert torch.allclose(drawn, weights[index // 3, index % 3])
        assert axes.images[0].get_clim() == (0, 1)
        assert axes.get_title() == "abcdef"[index]
    assert [axes.get_ylabel() for axes in figure.axes] == ["layer 1", "", "", "layer 2", "", ""]
    assert [axes.get_xlabel() for axes in figure.axes][3:] == ["head 1", "head 2", "head 3"]
    assert "what each encoder head reads" in figure.alt
    assert "Layer 1 head 1 a, layer 1 head 2 b" in figure.alt
    assert "layer 2 head 3 f." in figure.alt
    assert small(figure)


def test_heads_need_no_names() -> None:
    figure = head_grid(torch.rand(1, 2, 3, 3))
    assert not any(axes.get_title() for axes in figure.axes)
    assert figure.alt.endswith("the darker, the more.")


def test_maps_stand_side_by_side_on_one_scale() -> None:
    maps = {"as it is": torch.eye(4), "even": torch.full((4, 4), 0.25)}
    figure = side_by_side(maps)
    assert [axes.get_title() for axes in figure.axes] == list(maps)
    for axes, weights in zip(figure.axes, maps.values(), strict=True):
        assert torch.equal(torch.as_tensor(axes.images[0].get_array().tolist()), weights)
        assert axes.images[0].get_clim() == (0, 1)
    assert figure.alt.endswith("the more: as it is, even.")
    assert small(figure)


def test_removed_heads_are_told_by_sign_and_share_one_scale() -> None:
    figure = removed_heads({"encoder": [[0.04, -1.0], [2.0, -0.04]], "cross": [[4.0, 0.5]]}, "BLEU")
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0", "−1.0", "2.0", "0.0"]
    assert {axes.images[0].get_clim() for axes in figure.axes} == {(-4.0, 4.0)}
    assert "encoder: layer 1 0.0 −1.0, layer 2 2.0 0.0; cross: layer 1 4.0 0.5" in figure.alt
    assert small(figure)


def test_removed_parts_are_coloured_by_group() -> None:
    figure = removed(
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


def test_the_stream_stands_over_what_was_added() -> None:
    figure = stream(["attention", "feed-forward"], [10, 11, 14.5], [3, 6.25])
    (axes,) = figure.axes
    assert list(axes.lines[0].get_ydata()) == [10, 11, 14.5]
    assert [bar.get_height() for bar in axes.patches] == [3, 6.25]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    assert middles == pytest.approx([1, 2])
    assert "10.0 at the embedding; attention adds 3.0 and leaves 11.0" in figure.alt
    assert small(figure)
    with pytest.raises(TfmrError, match=r"2 sublayers leave 3 norms .* got 2 and 2"):
        stream(["attention", "feed-forward"], [10, 11], [3, 6])
