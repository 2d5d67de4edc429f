"""Figures of attention show the values that they are given."""

from collections import Counter

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from tfmr.attention import causal_mask
from tfmr.figures import attention
from tfmr.figures.palette import KEY, QUERY, VALUE
from tfmr.figures.style import CONTRAST, HEAT, SIGNED, Figure, contrast

WORDS = ["I", "am", "good"]
A = torch.tensor([[0.14, 0.28, 0.58], [0.40, 0.20, 0.40], [0.58, 0.14, 0.28]])


def test_attention_arcs_have_the_width_of_their_weights() -> None:
    figure = attention.attention_arcs(WORDS, A[0], query=0)
    assert "from the word “I”" in figure.alt
    assert "I 0.14, am 0.28, good 0.58" in figure.alt
    thin, thick = (line.get_linewidth() for line in figure.axes[0].lines)
    assert abs(thick - thin - 7 * float(A[0, 2] - A[0, 1])) < 1e-5


def test_attention_steps_shows_four_matrices() -> None:
    figure = attention.attention_steps(WORDS, A * 5, A * 3, A, A[:, :2])
    assert len(figure.axes) == 4
    assert [len(axes.texts) for axes in figure.axes] == [9, 9, 9, 6]
    assert "good (0.58, 0.14, 0.28)" in figure.alt
    negative = A[:, :2] * -7
    limit = float(negative.abs().max())
    figure = attention.attention_steps(WORDS, A * 5, A * 3, A, negative)
    dots, scores, weights, outputs = (axes.images[0] for axes in figure.axes)
    assert dots.get_cmap() == scores.get_cmap() == outputs.get_cmap() == SIGNED
    limits = {image.get_clim() for image in (dots, scores, outputs)}
    assert limits == {(-limit, limit)}
    assert (weights.get_cmap(), weights.get_clim()) == (HEAT, (0.0, 1.0))
    assert "from −4.1 (orange) through 0 (background) to 4.1 (blue)" in figure.alt
    assert "weights: from 0 (background) to 1" in figure.alt


def sizes(figure: Figure, cell: float) -> Counter[tuple[int, int]]:
    """Rows and columns of the matrices of a diagram."""
    return Counter(
        (round(patch.get_height() / cell), round(patch.get_width() / cell))
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle)
    )


def test_query_key_value_draws_every_matrix_with_its_shape() -> None:
    n, d_model, d_k, d_v = 3, 6, 2, 4
    figure = attention.query_key_value(n, d_model, d_k, d_v)
    tiles = {(1, 1): n * (n - 1)}
    inputs = {(n, d_model): 1, (d_model, d_k): 2, (d_model, d_v): 1}
    assert sizes(figure, 0.4) == tiles | inputs | {(n, d_k): 2, (n, d_v): 2, (n, n): 3}
    drawn = Counter(text.get_text() for text in figure.axes[0].texts)
    assert {"$X$", "$W^Q$", "$W^K$", "$W^V$", "$Q$", "$K$", "$V$", "$Z$"} <= set(drawn)
    assert drawn["−∞"] == drawn["0"] == n * (n - 1) / 2
    assert drawn["$(n, n)$"] == 3
    assert drawn["$(n, d_k)$"] == drawn["$(n, d_v)$"] == 2
    assert drawn[r"$(d_{\mathrm{model}}, d_k)$"] == 2
    assert f"n = {n}, d_model = {d_model}, d_k = {d_k}, d_v = {d_v}" in figure.alt


def test_multi_head_attention_includes_values_concatenation_and_output_projection() -> None:
    figure = attention.multi_head_attention()
    heads = {(8, 2): 6, (4, 2): 4}
    assert sizes(figure, 0.3) == heads | {(4, 8): 2, (4, 4): 1, (8, 8): 1}
    drawn = {text.get_text() for text in figure.axes[0].texts}
    for i in "1h":
        assert {f"$W_{i}^{name}$" for name in "QKV"} <= drawn
        assert {f"$Q_{i}$", f"$K_{i}$", f"$V_{i}$", f"head$_{i}$"} <= drawn
    assert {"$W^O$", "concat\n$(n, h d_v)$", r"$(h d_v, d_{\mathrm{model}})$"} <= drawn
    assert figure.narrow is not None
    assert sizes(figure.narrow, 0.15) == sizes(figure, 0.3)
    for part in ("W_i^V (d_model, d_v)", "concatenation (n, h d_v)", "W^O (h d_v, d_model)"):
        assert part in figure.alt


def test_the_matrices_of_every_head_have_the_hues_of_queries_keys_and_values() -> None:
    figure = attention.multi_head_attention()
    for layout in (figure, figure.narrow):
        assert layout is not None
        (axes,) = layout.axes
        texts = {text.get_text(): text.get_position() for text in axes.texts}
        for name, hue in (("Q", QUERY), ("K", KEY), ("V", VALUE)):
            for head in "1h":
                at = axes.transData.transform(texts[f"$W_{head}^{name}$"])
                around = [p for p in axes.patches if p.get_window_extent().contains(*at)]
                assert [to_hex(patch.get_edgecolor()) for patch in around] == [hue]
        left, right = (texts[f"$W_{head}^Q$"][0] for head in "1h")
        assert left < right


def test_the_arcs_of_the_narrow_layout_join_the_same_words() -> None:
    figure = attention.attention_arcs(WORDS, A[0], query=0).narrow
    assert figure is not None
    (axes,) = figure.axes
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert places["I"][1] > places["am"][1] > places["good"][1]
    for line, word in zip(axes.lines, ("am", "good"), strict=True):
        assert line.get_ydata()[[0, -1]] == pytest.approx([places["I"][1], places[word][1]])
        assert min(line.get_xdata()) > places["I"][0]
    assert [text for text in places if text[0].isdigit()] == ["0.14", "0.28", "0.58"]


def test_attention_rows_lists_all_weights() -> None:
    figure = attention.attention_rows(WORDS, {"first": A[0], "second": A[1]})
    assert "second: 0.40, 0.20, 0.40" in figure.alt
    assert len(figure.axes[0].texts) == 6


def test_softmax_saturation_describes_both_curves() -> None:
    curves = {"divided": [2.0, 1.9], "not": [1.5, 0.0]}
    figure = attention.softmax_saturation(
        [4, 512], curves, {"divided": [0.3, 0.3], "not": [0.3, 0.001]}, keys=10
    )
    assert "Entropy in nats: divided, from 2.0 to 1.9; not, from 1.5 to 0.0." in figure.alt
    assert "10 keys" in figure.alt


def test_mask_panels_mark_masked_pairs() -> None:
    figure = attention.mask_panels(WORDS, WORDS, {"causal": causal_mask(3)})
    assert "causal 6 of 9" in figure.alt
    hidden = sorted(
        (int(t.get_position()[1]), int(t.get_position()[0])) for t in figure.axes[0].texts
    )
    assert hidden == [(0, 1), (0, 2), (1, 2)]


def test_head_matrices() -> None:
    heads = torch.stack([A, A.flip(1)])
    narrow = A[:, :2].expand(2, 3, 2)
    figure = attention.head_matrices(WORDS, narrow, narrow, narrow, heads, narrow)
    assert "in head 1 “I” attends most to “good”" in figure.alt
    assert "in head 2 “I” attends most to “I”" in figure.alt


def test_numbers_contrast_with_their_tiles() -> None:
    heads = torch.stack([A, A.flip(1)])
    narrow = A[:, :2].expand(2, 3, 2) * 3 - 1
    for figure in (
        attention.attention_steps(WORDS, A * 5 - 2, A * 3 - 1, A, A[:, :2]),
        attention.attention_rows(WORDS, {"first": A[0], "half": torch.tensor([0.5, 0.45, 0.05])}),
        attention.head_matrices(WORDS, narrow, -narrow, narrow, heads, narrow),
    ):
        for axes in figure.axes:
            (image,) = axes.images
            values = image.get_array().flatten().tolist()
            for text, value in zip(axes.texts, values, strict=True):
                assert contrast(text.get_color(), image.to_rgba(value)[:3]) >= CONTRAST


def test_names_contrast_with_their_tokens() -> None:
    names = list("abcdef")
    split = torch.arange(6)[None, :, None]
    (axes,) = attention.head_splits(names, {"all colours": split}).axes
    colours = [tile.get_facecolor()[0][:3] for tile in axes.collections]
    assert len(set(map(tuple, colours))) == 6
    for text, colour in zip(axes.texts, colours, strict=True):
        assert contrast(text.get_color(), colour) >= CONTRAST


def test_head_splits_lists_the_tokens_of_each_row() -> None:
    token = torch.arange(3)[:, None].expand(3, 4)
    right = token.reshape(3, 2, 2).transpose(0, 1)
    wrong = token.reshape(2, 3, 2)
    figure = attention.head_splits(WORDS, {"right": right, "wrong": wrong})
    assert "right: head 1: I, am, good; head 2: I, am, good" in figure.alt
    assert "wrong: head 1: I, I, am; head 2: am, good, good" in figure.alt
