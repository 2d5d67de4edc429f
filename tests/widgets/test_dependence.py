"""DependenceFigure in Python: its masks and dependences are those of models of the package."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tfmr.family import GPT, T5, Bert, BertConfig, GPTConfig, T5Config
from tfmr.local_attention import local_attention_naive
from tfmr.widgets import DependenceFigure
from tfmr.widgets.dependence import BLOCKS, FAMILIES, RADIUS, SOURCE, TOKENS

SIZES = {"vocab": 16, "d_model": 16, "n_heads": 2, "d_ff": 32}
IDS = torch.arange(4, 4 + len(TOKENS))[None]


def encoder_decoder(blocks: int) -> Callable[[Tensor], Tensor]:
    """The encoder output and the logits of the target, one after the other."""
    model = T5(T5Config(16, 16, 8, 32, n_encoder=blocks, n_decoder=blocks, n_heads=2)).eval()

    def outputs(ids: Tensor) -> Tensor:
        source, target = ids[:, :SOURCE], ids[:, SOURCE:]
        return torch.cat([model.encode(source), model(source, target)], dim=1)

    return outputs


def local_decoder(blocks: int) -> Callable[[Tensor], Tensor]:
    """Layers of local attention alone."""
    vectors = torch.randn(16, 16)

    def outputs(ids: Tensor) -> Tensor:
        x = vectors[ids][:, None]
        for _ in range(blocks):
            x = local_attention_naive(x, x, x, RADIUS, causal=True)
        return x[:, 0]

    return outputs


MODELS: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {
    "encoder only": lambda blocks: Bert(BertConfig(**SIZES, n_layers=blocks)).eval(),
    "decoder only": lambda blocks: GPT(GPTConfig(**SIZES, n_layers=blocks)).eval(),
    "encoder–decoder": encoder_decoder,
    "local decoder": local_decoder,
}


@pytest.mark.parametrize("blocks", range(1, BLOCKS + 1))
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_the_outputs_of_a_model_change_with_the_tokens_they_depend_on(
    family: str, blocks: int
) -> None:
    torch.manual_seed(0)
    model = MODELS[family](blocks)
    before = model(IDS)
    for token in range(len(TOKENS)):
        ids = IDS.clone()
        ids[0, token] = 15
        differs = (model(ids) - before)[0].norm(dim=-1) > 1e-6
        figures = [DependenceFigure(family=family, position=i) for i in range(len(TOKENS))]
        depends = [bool(figure.depends()[blocks - 1, token]) for figure in figures]
        assert differs.tolist() == depends, TOKENS[token]


def test_the_masks_are_those_of_the_chapter() -> None:
    figure = DependenceFigure()
    counts = [sum(map(sum, figure.masks[family])) for family in FAMILIES]
    assert counts == [36, 21, 24, 11]


def test_the_summary_states_the_dependence() -> None:
    assert DependenceFigure(family="local decoder").summary() == (
        "the tokens on which an output can depend, given the mask of a model and the number of"
        " blocks. The mask “local decoder” permits 11 of 36 pairs; through 1 block, the output at"
        " y depends on x y; through 4, on a b c x y."
    )
