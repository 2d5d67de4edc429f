"""Figures of trained models show the values of every head and sublayer."""

import pytest
import torch
from matplotlib.colors import to_hex

from tfmr.errors import TfmrError
from tfmr.figures.analysis import (
    attention_maps,
    head_ablation,
    head_grid,
    lens_table,
    patching_effects,
    sublayer_ablation,
)
from tfmr.figures.palette import DECODER, ENCODER
from tfmr.figures.style import HEAT, ORANGE, contrast


def test_head_grid() -> None:
    weights = torch.rand(2, 3, 4, 5).softmax(dim=-1)
    figure = head_grid(weights, [["a", "b", "c"], ["d", "e", "f"]], attention="encoder attention")
    *maps, bar = figure.axes
    assert len(maps) == 6
    assert bar.get_ylabel() == "attention weight"
    for index, axes in enumerate(maps):
        drawn = torch.as_tensor(axes.images[0].get_array().tolist())
        assert torch.allclose(drawn, weights[index // 3, index % 3])
        assert axes.images[0].get_clim() == (0, 1)
        assert axes.get_title() == "abcdef"[index]
    assert [axes.get_ylabel() for axes in maps] == ["block 1", "", "", "block 2", "", ""]
    assert [axes.get_xlabel() for axes in maps][3:] == ["head 1", "head 2", "head 3"]
    assert "Maps of encoder attention" in figure.alt
    assert "Block 1, head 1: a; block 1, head 2: b" in figure.alt
    assert "block 2, head 3: f." in figure.alt
    figure = head_grid(torch.rand(1, 2, 3, 3))
    assert not any(axes.get_title() for axes in figure.axes)
    assert figure.alt.endswith("the square root of the weight, from 0 to 1.")


def test_head_grid_repeats_one_head_with_tokens() -> None:
    weights = torch.rand(2, 3, 2, 3).softmax(dim=-1)
    tokens = (["ein", "Hund"], ["a", "big", "dog"])
    figure = head_grid(weights, tokens=tokens, large=(1, 2))
    axes = figure.axes[-1]
    drawn = torch.as_tensor(axes.images[0].get_array().tolist())
    assert torch.allclose(drawn, weights[1, 2])
    assert [label.get_text() for label in axes.get_yticklabels()] == tokens[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == tokens[1]
    assert axes.get_title() == "block 2, head 3"
    assert "block 2, head 3 is repeated with the query tokens “ein Hund” and the key" in figure.alt
    with pytest.raises(TfmrError, match=r"2 queries.*3 keys.*got 3.*2"):
        head_grid(weights, tokens=(tokens[1], tokens[0]))


def test_uniform_attention_is_visible() -> None:
    figure = attention_maps({"uniform": torch.full((20, 20), 0.05)})
    (image,) = figure.axes[0].images
    assert max(image.cmap(image.norm(0.0))[:3]) == 1
    assert image.cmap(image.norm(0.05))[0] < 0.8


def test_attention_maps_share_one_scale() -> None:
    maps = {"original": torch.eye(4), "uniform": torch.full((4, 4), 0.25)}
    tokens = {"original": (list("abcd"), list("efgh")), "uniform": (list("abcd"), list("ijkl"))}
    figure = attention_maps(maps, tokens)
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == list(maps)
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "0.1", "0.25", "0.5", "1"]
    for axes, (name, weights) in zip(panels, maps.items(), strict=True):
        assert [label.get_text() for label in axes.get_yticklabels()] == tokens[name][0]
        assert [label.get_text() for label in axes.get_xticklabels()] == tokens[name][1]
        assert torch.equal(torch.as_tensor(axes.images[0].get_array().tolist()), weights)
        assert axes.images[0].get_clim() == (0, 1)
    assert "one column per key: original; uniform. The strength of the colour" in figure.alt


def test_head_ablation_shares_one_scale() -> None:
    figure = head_ablation({"encoder": [[0.04, -1.0], [2.0, -0.04]], "cross": [[4.0, 0.5]]}, "Loss")
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0", "−1.0", "2.0", "0.0"]
    assert {axes.images[0].get_clim() for axes in figure.axes} == {(-4.0, 4.0)}
    assert "Encoder: block 1: 0.0, −1.0; block 2: 2.0, 0.0. Cross: block 1: 4.0, 0.5" in figure.alt
    figure = head_ablation(
        {"encoder": [[4.0, -1.0]]},
        "Decrease in BLEU",
        half_widths={"encoder": [[0.5, 0.25]]},
        digits=2,
    )
    assert [text.get_text() for text in figure.axes[0].texts] == ["4.00\n±0.50", "−1.00\n±0.25"]
    assert figure.alt.startswith(
        "Decrease in BLEU when one head is ablated. Encoder: block 1: 4.00"
    )
    assert "block 1: 4.00 ±0.50, −1.00 ±0.25" in figure.alt


def test_sublayer_ablation_is_coloured_by_group() -> None:
    figure = sublayer_ablation(
        {"encoder": {"layer 1": 3.0, "layer 2": -0.5}, "decoder": {"layer 1": 6}}, "BLEU"
    )
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [3.0, -0.5, 6]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [
        ENCODER, ENCODER, DECODER,
    ]  # fmt: skip
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "encoder, layer 1",
        "encoder, layer 2",
        "decoder, layer 1",
    ]
    assert "encoder, layer 1: 3.0; encoder, layer 2: −0.5; decoder, layer 1: 6.0" in figure.alt
    assert all(text.get_position()[0] > 0 for text in axes.texts)
    assert "broken" not in figure.alt
    other = sublayer_ablation({"encoder": {"layer 1": 3.0}, "output": {"layer 1": 2.0}}, "BLEU")
    assert to_hex(other.axes[0].patches[1].get_facecolor()) == ORANGE


def test_sublayer_ablation_breaks_the_axis_for_one_long_bar() -> None:
    lost = {"encoder": {"layer 1": 3.0, "layer 2": -0.5, "layer 3": 28.5}}
    ranges = {"layer 1": (2.5, 3.5), "layer 2": (-1.0, 0.0), "layer 3": (27.0, 30.0)}
    figure = sublayer_ablation(lost, "BLEU", intervals={"encoder": ranges})
    axes, beyond = figure.axes
    assert 3.5 < axes.get_xlim()[1] < beyond.get_xlim()[0] < 27
    assert beyond.get_xlim()[1] > 30
    assert [text.get_text() for text in axes.texts] == ["3.0", "−0.5"]
    assert [text.get_text() for text in beyond.texts] == ["28.5"]
    drawn = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert all(interval in drawn for interval in ranges.values())
    assert "layer 3: 28.5 (from 27.0 to 30.0). The horizontal axis is broken" in figure.alt


def test_lens_table() -> None:
    predicted = [["a", "dog", "dog"], ["dog", "dog", "runs"]]
    probabilities = torch.tensor([[0.996, 0.25, 0.75], [1.0, 0.5, 0.125]])
    figure = lens_table(["a", "dog"], predicted, probabilities)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [
        "a  1.00", "dog  0.25", "dog  0.75", "dog  1.00", "dog  0.50", "runs  0.12",
    ]  # fmt: skip
    bold = [text.get_text().split()[0] for text in axes.texts if text.get_fontweight() == "bold"]
    assert bold == ["dog", "dog", "runs"]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["embeddings", "block 1", "block 2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "dog"]
    assert torch.equal(torch.tensor(axes.images[0].get_array().tolist()), probabilities)
    assert all(
        contrast(text.get_color(), HEAT(float(p))) >= 4.5
        for text, p in zip(axes.texts, probabilities.flatten(), strict=True)
    )
    assert "a: a 1.00, dog 0.25, dog 0.75; dog: dog 1.00, dog 0.50, runs 0.12." in figure.alt
    with pytest.raises(TfmrError, match=r"2.*3 depths.*got 1 input"):
        lens_table(["a"], predicted, probabilities)


def test_patching_effects() -> None:
    effects = {
        "encoder": torch.tensor([[0.0, 1.0], [-0.001, 0.99]]),
        "decoder": torch.tensor([[0.0], [-0.25], [1.0]]),
    }
    tokens = {"encoder": ["Ein", "Hund/Mann"], "decoder": ["A"]}
    figure = patching_effects(effects, tokens)
    encoder, decoder = figure.axes
    assert [axes.get_title() for axes in (encoder, decoder)] == ["encoder", "decoder"]
    assert [text.get_text() for text in encoder.texts] == ["0.00", "1.00", "0.00", "0.99"]
    assert [text.get_text() for text in decoder.texts] == ["0.00", "−0.25", "1.00"]
    assert [label.get_text() for label in encoder.get_yticklabels()] == ["embeddings", "block 1"]
    assert [label.get_text() for label in encoder.get_xticklabels()] == tokens["encoder"]
    assert {axes.images[0].get_clim() for axes in figure.axes} == {(0, 1)}
    assert "encoder, block 1: Ein 0.00, Hund/Mann 0.99; decoder, embeddings: A 0.00" in figure.alt
    with pytest.raises(TfmrError, match=r"'decoder'.*1\}.*got .*'decoder'.*2\}"):
        patching_effects(effects, tokens | {"decoder": ["A", "dog"]})
