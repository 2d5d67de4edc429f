"""Diagrams of the architecture contain every part, and their alternative text describes it."""

from collections import Counter

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Annotation, Text

from tfmr.errors import TfmrError
from tfmr.figures.architecture import (
    BOX_WIDTH,
    decoder_block,
    encoder_block,
    encoder_decoder_stacks,
    growing_cache,
    input_influence,
    right_shift,
)
from tfmr.figures.attention import query_key_value
from tfmr.figures.layers import norm_placement
from tfmr.figures.model import transformer_shapes
from tfmr.figures.palette import INK, ROLES
from tfmr.figures.position import rotary_angles
from tfmr.figures.seq2seq import fixed_context_vs_attention
from tfmr.figures.style import Figure


def texts(figure: Figure) -> Counter[str]:
    return Counter(text.get_text() for text in figure.findobj(Text) if text.get_text())


def boxes(figure: Figure) -> int:
    return sum(isinstance(patch, FancyBboxPatch) for axes in figure.axes for patch in axes.patches)


def test_encoder_block_parts() -> None:
    drawn = texts(encoder_block())
    assert drawn["self-attention"] == drawn["feed-forward"] == 2
    assert drawn["layer norm"] == drawn["+"] == 4
    assert drawn["(n, d)"] == 4


def heights(figure: Figure, name: str, left: bool) -> list[float]:
    found = [text.get_position() for text in figure.findobj(Text) if text.get_text() == name]
    return sorted(float(y) for x, y in found if (float(x) < 5) == left)


def test_encoder_block_norm_placement() -> None:
    drawn = encoder_block()
    attention, plus, norm = (
        heights(drawn, name, True)[0] for name in ("self-attention", "+", "layer norm")
    )
    assert attention < plus < norm
    attention, plus, norm = (
        heights(drawn, name, False)[0] for name in ("self-attention", "+", "layer norm")
    )
    assert norm < attention < plus


def test_decoder_block_cross_attention() -> None:
    drawn = decoder_block()
    counted = texts(drawn)
    assert counted["layer norm"] == counted["+"] == 3
    places = {text.get_text(): text.get_position() for text in drawn.findobj(Text)}
    sublayers = ("masked self-attention", "cross-attention", "feed-forward")
    order = [places[name][1] for name in sublayers]
    assert order == sorted(order)
    across = places["cross-attention"][1]
    assert places["encoder\noutput"][1] == across
    assert places["cross-attention"][0] < places["K"][0] < places["encoder\noutput"][0]
    assert places["masked self-attention"][1] < places["Q"][1] < across


def test_decoder_block_mask_is_connected_to_the_masked_self_attention() -> None:
    (axes,) = decoder_block().axes
    (name,) = (text for text in axes.texts if text.get_text() == "masked self-attention")
    x, y = name.get_position()
    tiles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(tiles) == 9
    left = min(tile.get_x() for tile in tiles)
    low, high = min(t.get_y() for t in tiles), max(t.get_y() + t.get_height() for t in tiles)
    assert low < y < high
    arrows = [text for text in axes.texts if isinstance(text, Annotation)]
    assert [(left, y)] == [a.xyann for a in arrows if a.xy == (x + BOX_WIDTH / 2, y)]


@pytest.mark.parametrize("n_layers", [1, 2, 6])
def test_encoder_decoder_stacks_has_n_layers_blocks(n_layers: int) -> None:
    drawn = encoder_decoder_stacks(n_layers)
    assert boxes(drawn) == 2 * n_layers
    assert f"each of the {n_layers} decoder blocks" in drawn.alt


def test_right_shift_pairs_each_input_with_the_next_token() -> None:
    drawn = right_shift(["<bos>", "so", "it", "is", "<eos>"])
    assert "<bos> to so, so to it, it to is, is to <eos>" in drawn.alt
    places = [
        (text.get_text(), *text.get_position())
        for text in drawn.findobj(Text)
        if text.get_text() in ("<bos>", "so", "it", "is", "<eos>")
    ]
    low, high = min(y for _, _, y in places), max(y for _, _, y in places)
    inputs = [word for word, _, y in sorted(places, key=lambda place: place[1]) if y == low]
    labels = [word for word, _, y in sorted(places, key=lambda place: place[1]) if y == high]
    assert inputs == ["<bos>", "so", "it", "is", "<eos>"]
    assert labels == ["so", "it", "is", "<eos>"]


def test_input_influence_counts_nonzero_pairs() -> None:
    drawn = input_influence({"none": torch.zeros(2, 3), "lower": torch.ones(3, 3).tril()})
    assert "none, 0 of 6; lower, 6 of 9" in drawn.alt
    assert len(drawn.axes) == 2
    with pytest.raises(TfmrError, match="at least one matrix"):
        input_influence({})


def text_colours(figure: Figure) -> dict[str, str]:
    return {text.get_text(): to_hex(text.get_color()) for text in figure.findobj(Text)}


def edge_colours(figure: Figure) -> dict[str, str]:
    """The colour of the patch that was drawn around the centre of each text."""
    found = {}
    for axes in figure.axes:
        for text in axes.texts:
            for patch in axes.patches:
                box = patch.get_window_extent()
                if box.contains(*text.get_transform().transform(text.get_position())):
                    found[text.get_text()] = to_hex(patch.get_edgecolor())
    return found


def test_queries_keys_and_values_have_their_colours() -> None:
    query, key, value = (ROLES[role] for role in ("query", "key", "value"))
    found = edge_colours(query_key_value())
    for name, colour in (("Q", query), ("K", key), ("V", value)):
        assert found[f"$W^{name}$"] == found[f"${name}$"] == colour
    assert found["$Z$"] == value
    for name, colour in (("q", query), ("k", key)):
        assert text_colours(rotary_angles([(0, 1)], 0.5))[name] == colour
    shown = text_colours(decoder_block())
    assert (shown["Q"], shown["K"], shown["V"]) == (query, key, value)


def test_encoder_and_decoder_have_their_colours() -> None:
    encoder, decoder = ROLES["encoder"], ROLES["decoder"]
    assert edge_colours(decoder_block())["encoder\noutput"] == encoder
    stacks = encoder_decoder_stacks(2)
    found = edge_colours(stacks)
    assert text_colours(stacks)["encoder output"] == encoder
    assert found["encoder block 2"] == encoder
    assert found["decoder block 1"] == decoder
    found = edge_colours(fixed_context_vs_attention(["a", "b"], ["c", "d"], 0, [0.5, 0.5]))
    assert (found["a"], found["c"]) == (encoder, decoder)
    stages = [("embedding", (1,)), ("encoder", (2,))], [("embedding", (1,)), ("decoder", (3,))]
    shapes = transformer_shapes(*stages)
    found = edge_colours(shapes)
    assert (found["N × encoder block"], found["N × decoder block"]) == (encoder, decoder)
    assert text_colours(shapes)["encoder\noutput"] == encoder


def test_sublayers_have_the_colour_of_their_stack() -> None:
    for drawn, own in ((encoder_block(), "encoder"), (decoder_block(), "decoder")):
        found = edge_colours(drawn)
        neutral = found.pop("layer norm")
        others = {found.pop("encoder\noutput", ROLES["encoder"])}
        assert others == {ROLES["encoder"]}
        assert set(found.values()) == {ROLES[own]}
        assert neutral not in ROLES.values()
    assert set(edge_colours(norm_placement()).values()).isdisjoint(ROLES.values())
    assert edge_colours(right_shift(["<bos>", "a", "<eos>"]))["decoder"] == ROLES["decoder"]


def test_residual_connections_have_the_colour_of_no_role() -> None:
    for drawn in (encoder_block(), decoder_block(), norm_placement()):
        lines = [line for axes in drawn.axes for line in axes.lines if line.get_ls() == "-"]
        colours = [to_hex(line.get_color()) for line in lines if len(line.get_xdata()) > 1]
        assert INK in colours
        assert set(colours).isdisjoint(ROLES.values())


def test_growing_cache_adds_one_position_per_step_and_all_source_positions_once() -> None:
    drawn = growing_cache(["<bos>", "le", "chat"], source=4)
    new = [patch for patch in drawn.axes[0].patches if patch.get_alpha() > 0.5]
    assert (len(drawn.axes[0].patches), len(new)) == (1 + 2 + 3 + 3 * 4, 3 + 4)
    assert "from 1 to 3" in drawn.alt
    assert "has 4 positions" in drawn.alt
