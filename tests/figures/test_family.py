"""Figures of the family: every number that can be compared is in the alternative text."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.text import Annotation, Text
from torch import nn

from tfmr.config import TransformerConfig
from tfmr.family import (
    GPT,
    T5,
    Bert,
    BertConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    T5Config,
    ViT,
    ViTConfig,
)
from tfmr.family.t5 import RelativeBias
from tfmr.figures.family import (
    FAMILY,
    NOTE,
    Architecture,
    change_effects,
    distance_ranges,
    family_blocks,
)
from tfmr.figures.style import BLUE, GREY, GRID, MUTED, ORANGE, Figure
from tfmr.layers import LayerNorm, RMSNorm
from tfmr.model import Transformer
from tfmr.position import SinusoidalPosition


def test_distance_ranges() -> None:
    fig = distance_ranges(torch.tensor([[0, 3, 4], [1, 0, 3]]))
    assert "each of 2 queries to each of 3 keys" in fig.alt
    assert "First query: 0, 3, 4. Last query: 1, 0, 3." in fig.alt
    assert [text.get_text() for text in fig.axes[0].texts] == ["0", "3", "4", "1", "0", "3"]


def test_the_colour_of_an_effect_is_its_sign_unless_it_is_undecided() -> None:
    effects = {"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15), "z": (0.01, -0.02, 0.04)}
    fig = change_effects(effects, "the block of 2017")
    dots = fig.axes[0].lines[2::2]
    assert [to_hex(dot.get_color()) for dot in dots] == [BLUE, ORANGE, GREY]
    assert "x −0.200 [−0.300, −0.100]; y +0.100 [+0.050, +0.150]; z" in fig.alt
    assert fig.alt.endswith("z +0.010 [−0.020, +0.040] (undecided).")


def test_the_narrow_layout_has_the_name_of_a_change_above_its_interval() -> None:
    fig = change_effects({"x": (-0.2, -0.3, -0.1), "y": (0.1, 0.05, 0.15)}, "2017").narrow
    assert fig is not None
    (axes,) = fig.axes
    assert [text.get_text() for text in axes.texts] == ["x", "y"]
    assert [text.get_position()[1] for text in axes.texts] == pytest.approx([-0.22, 0.78])
    assert axes.yaxis_inverted()
    assert [list(line.get_ydata()) for line in axes.lines[1::2]] == [[0, 0], [1, 1]]


SIZES: Any = {"d_model": 8, "n_heads": 2, "d_ff": 16}
IMAGES: Any = {"image_size": 8, "patch_size": 4, "channels": 1, "n_classes": 3}
LAYERS: Any = {"n_encoder": 1, "n_decoder": 1}
MODELS = {
    "Transformer": lambda: Transformer(
        TransformerConfig(source_vocab=9, target_vocab=9, **SIZES, **LAYERS)
    ),
    "BERT": lambda: Bert(BertConfig(vocab=9, n_layers=1, **SIZES)),
    "GPT-2": lambda: GPT(GPTConfig(vocab=9, n_layers=1, **SIZES)),
    "T5": lambda: T5(T5Config(vocab=9, d_k=4, **SIZES, **LAYERS)),
    "ViT": lambda: ViT(ViTConfig(n_layers=1, **SIZES, **IMAGES)),
    "LLaMA": lambda: Llama(LlamaConfig(vocab=9, n_layers=1, n_kv_heads=2, **SIZES)),
}


def inputs_of(model: Any) -> Iterator[str]:
    yield "patches" if hasattr(model, "patch_embedding") else "tokens"
    if hasattr(model, "class_token"):
        yield "+ class token"
    position = getattr(model, "position", None)
    learned = isinstance(position, nn.Embedding | nn.Parameter)
    assert learned or position is None or isinstance(position, SinusoidalPosition)
    kind = "no positions added" if position is None else "+ sinusoidal positions"
    yield "+ learned positions" if learned else kind
    if hasattr(model, "segment"):
        yield "+ segments"


def activation_of(feed_forward: Any) -> str:
    x = torch.linspace(-3, 3, 61)
    y = feed_forward.activation(x)
    gated = feed_forward.gate is not None
    known = (("ReLU", False, F.relu), ("GELU", False, F.gelu), ("SwiGLU", True, F.silu))
    # GPT-2 approximates GELU.
    [name] = [
        name
        for name, is_gated, function in known
        if is_gated == gated and torch.allclose(y, function(x), rtol=0, atol=1e-3)
    ]
    return name


def mask_of(model: Any) -> str:
    """By whether the output at the first position depends on the last input."""
    has_encoder = hasattr(model, "encoder")
    inputs = torch.randn(1, 4, 8) if has_encoder else torch.tensor([[1, 2, 3, 4]])
    changed = inputs.clone()
    changed[0, -1] = inputs[0, 1]
    run = model.encoder if has_encoder else model
    before, after = run(inputs)[0], run(changed)[0]
    assert not torch.allclose(before[-1], after[-1])
    return "causal" if torch.equal(before[0], after[0]) else "all"


@pytest.mark.parametrize("drawn", FAMILY, ids=lambda drawn: drawn.name)
def test_an_architecture_is_that_of_the_model(drawn: Architecture) -> None:
    torch.manual_seed(0)
    model: Any = MODELS[drawn.name]().eval()
    stack = getattr(model, "encoder", model)
    [block] = stack.blocks
    norm_class = {"layer norm": LayerNorm, "RMSNorm": RMSNorm}[drawn.norm_kind]
    assert {type(residual.norm) for residual in block.residuals} == {norm_class}
    assert type(stack.norm) is (norm_class if drawn.norm == "pre" else nn.Identity)
    [pre] = {residual.pre_norm for residual in block.residuals}
    extras = {
        "rotary positions": block.attention.rotary is not None,
        "relative bias": any(isinstance(module, RelativeBias) for module in stack.modules()),
    }
    if hasattr(model, "decoder"):
        stacks = "encoder–decoder"
        assert model.decoder.blocks[0].cross_attention is not None
    else:
        stacks = "encoder" if hasattr(model, "encoder") else "decoder"
    assert getattr(block, "cross_attention", None) is None
    facts: Any = {
        "stacks": stacks,
        "inputs": tuple(inputs_of(model)),
        "norm": "pre" if pre else "post",
        "mask": mask_of(model),
        "activation": activation_of(block.feed_forward),
        "extra": " ".join(name for name, present in extras.items() if present),
        "embedding_norm": hasattr(model, "embedding_norm"),
    }
    assert drawn == replace(drawn, **facts)


Lines = list[tuple[str, bool]]


def expected_parts(model: Architecture) -> list[Lines]:
    """What the column of a model shows above its inputs, from bottom to top, and what is new."""
    first, kind = FAMILY[0], model.norm_kind
    norm = [(kind, (model.norm, kind) != (first.norm, first.norm_kind))]
    attention = [("attention", False), (model.mask, model.mask != first.mask)]
    attention += [(word, True) for word in model.extra.split()]
    activation = (model.activation, model.activation != first.activation)
    parts: list[Lines] = [[(kind, True)]] if model.embedding_norm else []
    for sublayer in (attention, [("feed-forward", False), activation]):
        order = [norm, sublayer, [("+", False)]]
        parts += order if model.norm == "pre" else order[1:] + order[:1]
    parts += [[(kind, True)]] if model.norm == "pre" else []
    parts += [[("decoder*", False)]] if model.stacks == "encoder–decoder" else []
    parts += [[(model.output, model is not first)]]
    return [*parts, [(model.stacks, model.stacks != first.stacks)]]


class Column:
    """What is drawn of one model."""

    def __init__(self, fig: Figure, name: str) -> None:
        (axes,) = fig.axes
        texts = [text for text in axes.texts if not isinstance(text, Annotation)]
        titles = {t.get_text(): t.get_position() for t in texts if t.get_fontsize() == 10}
        assert list(titles) == [model.name for model in FAMILY]
        x, top = titles[name]
        low = max((y for _, y in titles.values() if y < top), default=0.0)

        def within(place: tuple[float, float]) -> bool:
            return abs(place[0] - x) < 0.5 and low < place[1] < top

        others = ("× N", NOTE)
        self.texts = [t for t in texts if within(t.get_position()) and t.get_text() not in others]
        patches = [p for p in axes.patches if within((p.get_x() + p.get_width() / 2, p.get_y()))]
        self.boxes = [patch for patch in patches if isinstance(patch, FancyBboxPatch)]
        self.tiles = [p for p in patches if isinstance(p, Rectangle) and p.get_width() < 0.2]
        self.residuals = [
            sorted(set(line.get_ydata()))
            for line in axes.lines
            if len(line.get_xdata()) == 3 and within((line.get_xdata()[0], line.get_ydata()[0]))
        ]

    def parts(self) -> list[tuple[float, Lines]]:
        """Height and text of every part, from bottom to top."""
        parts = {box.get_y() + box.get_height() / 2: box for box in self.boxes}
        found = {y: [t for t in self.texts if encloses(box, t)] for y, box in parts.items()}
        inside = [text for texts in found.values() for text in texts]
        found |= {t.get_position()[1]: [t] for t in self.texts if t not in inside}
        return [(y, [(t.get_text(), is_new(t)) for t in found[y]]) for y in sorted(found)]


def encloses(box: FancyBboxPatch, text: Text) -> bool:
    return bool(box.get_y() < text.get_position()[1] < box.get_y() + box.get_height())


def is_new(text: Text) -> bool:
    """Whether a text is marked as new, by its colour and its weight."""
    new = text.get_color() == ORANGE
    assert new == (text.get_weight() == "bold")
    return new


@pytest.fixture(scope="module")
def blocks() -> Figure:
    return family_blocks()


@pytest.fixture(params=["wide", "narrow"])
def layout(request: pytest.FixtureRequest, blocks: Figure) -> Figure:
    shown = blocks if request.param == "wide" else blocks.narrow
    assert shown is not None
    return shown


@pytest.mark.parametrize("model", FAMILY, ids=lambda model: model.name)
def test_a_column_shows_the_architecture_and_marks_what_is_new(
    layout: Figure, model: Architecture
) -> None:
    column = Column(layout, model.name)
    lines = column.parts()
    parts = expected_parts(model)
    assert [shown for _, shown in lines[-len(parts) :]] == parts
    inputs = [shown[0] for _, shown in reversed(lines[: -len(parts)])]
    assert " ".join(text for text, _ in inputs) == " ".join(model.inputs)
    new = " ".join(text for text, new in inputs if new)
    assert new == " ".join(text for text in model.inputs if text not in FAMILY[0].inputs)
    for box in column.boxes:
        marked = any(is_new(text) for text in column.texts if encloses(box, text))
        assert to_hex(box.get_edgecolor()) == (ORANGE if marked else MUTED)
    for low, high in column.residuals:
        around = [shown[0][0] for y, shown in lines if low < y < high]
        sublayer = around.pop()
        assert sublayer in ("attention", "feed-forward")
        assert around == ([model.norm_kind] if model.norm == "pre" else [])
        assert (high, [("+", False)]) in lines
    assert len(column.residuals) == 2
    places = {t.get_xy(): to_hex(t.get_facecolor()) for t in column.tiles}
    keys, queries = (sorted({place[axis] for place in places}) for axis in (0, 1))
    assert (len(places), len(keys), len(queries)) == (16, 4, 4)
    for (x, y), colour in places.items():
        after = keys.index(x) > 3 - queries.index(y)
        masked = model.mask == "causal" and after
        assert colour == (GRID if masked else ORANGE if model.mask != FAMILY[0].mask else MUTED)


def test_the_alternative_text_describes_each_block_from_bottom_to_top(blocks: Figure) -> None:
    assert (
        "BERT, encoder: tokens, learned positions, segments; layer norm; N blocks of attention"
        " (mask: all), addition, layer norm, feed-forward (GELU), addition, layer norm; masked"
        " tokens. "
    ) in blocks.alt
    assert (
        "T5, encoder–decoder: tokens, no positions added; N blocks of RMSNorm, attention (mask:"
        " all, relative bias), addition, RMSNorm, feed-forward (ReLU), addition; RMSNorm; decoder;"
        " removed spans. "
    ) in blocks.alt
    for model in FAMILY:
        assert model.name in blocks.alt


def test_the_narrow_layout_has_two_rows(blocks: Figure) -> None:
    assert blocks.narrow is not None
    names = {model.name for model in FAMILY}
    for layout, rows in ((blocks, 1), (blocks.narrow, 2)):
        titles = [text for text in layout.axes[0].texts if text.get_text() in names]
        assert len(titles) == len(FAMILY)
        assert len({text.get_position()[1] for text in titles}) == rows
