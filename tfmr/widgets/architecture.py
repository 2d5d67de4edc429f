"""The whole architecture as a map: shapes, parameters and FLOPs of every part."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import torch
import traitlets
from torch.utils.flop_counter import FlopCounterMode

from tfmr.config import TransformerConfig
from tfmr.errors import require
from tfmr.figures.map import ARROWS, GENERATED, LABELS, MEMORY, PARTS, RESIDUALS, TIED, VIEW
from tfmr.model import Transformer
from tfmr.widgets.figure import LiveFigure

LONGEST = 128
COLOURS = ("side", "parameters", "FLOPs")
SOURCES = {
    "embedding": "tfmr.model.Transformer",
    "positional encoding": "tfmr.position.SinusoidalPosition",
    "N × encoder block": "tfmr.encoder.EncoderBlock",
    "N × decoder block": "tfmr.decoder.DecoderBlock",
    "multi-head": "tfmr.attention.MultiHeadAttention",
    "self-attention": "tfmr.attention.scaled_dot_product_attention",
    "masked self-attention": "tfmr.attention.causal_mask",
    "cross-attention": "tfmr.attention.scaled_dot_product_attention",
    "add & norm": "tfmr.layers.Residual",
    "feed-forward": "tfmr.layers.FeedForward",
    "output projection": "tfmr.model.Transformer",
    "softmax": "tfmr.model.Transformer",
    "loss": "tfmr.train.loss.cross_entropy",
    "decoding": "tfmr.decode.beam.beam_search",
}
"""The code of each block of the map."""
KINDS = (
    "embedding", "position", "encoder", "encoder-heads", "encoder-attention", "encoder-norm",
    "encoder-feed-forward", "encoder-norm", "embedding", "position", "decoder", "decoder-heads",
    "decoder-attention", "decoder-norm", "cross-heads", "cross-attention", "decoder-norm",
    "decoder-feed-forward", "decoder-norm", "output", "softmax", "loss", "decoding",
)  # fmt: skip
"""What each block of the map computes; equal blocks have one name."""
MODULES = {
    "encoder": ("encoder", ""),
    "encoder-heads": ("encoder", ".attention"),
    "encoder-norm": ("encoder", ".residuals.0.norm"),
    "encoder-feed-forward": ("encoder", ".feed_forward"),
    "decoder": ("decoder", ""),
    "decoder-heads": ("decoder", ".self_attention"),
    "cross-heads": ("decoder", ".cross_attention"),
    "decoder-norm": ("decoder", ".residuals.0.norm"),
    "decoder-feed-forward": ("decoder", ".feed_forward"),
}
"""The stack of each kind, and the path of its module in a block."""
ATTENTION = {
    "encoder-heads": "encoder-attention",
    "decoder-heads": "decoder-attention",
    "cross-heads": "cross-attention",
}
"""The modules whose matrix products without parameters are a part of the map of their own."""


class ArchitectureFigure(LiveFigure):
    """The map of the Transformer with the costs of every block, for models and lengths to choose.

    Args:
        models: configurations by name, with sinusoidal positions, post-norm and three-way tying.
        model: the name of the model that is shown first.
        source_length: number of source tokens, at most 128.
        target_length: number of target tokens, at most 128.
        part: index of the block that is selected first, in the order of
            :data:`tfmr.figures.map.PARTS`.

    Raises:
        TfmrError: if an argument is out of range or a configuration is of another kind.
    """

    models = traitlets.List(traitlets.Dict()).tag(sync=True)
    """Name and sizes of each model; a stored dictionary would lose their order."""
    drawing = traitlets.Dict().tag(sync=True)
    """The geometry of the map, from :mod:`tfmr.figures.map`."""
    model_name = traitlets.Unicode().tag(sync=True)
    source_length = traitlets.Int().tag(sync=True)
    target_length = traitlets.Int().tag(sync=True)
    part = traitlets.Int().tag(sync=True)
    colour = traitlets.Enum(COLOURS).tag(sync=True)

    def __init__(
        self,
        models: Mapping[str, TransformerConfig],
        model: str,
        *,
        source_length: int = 24,
        target_length: int = 24,
        part: int = 3,
    ) -> None:
        require(model in models, f"model must be one of {', '.join(models)}: got {model}")
        for name, config in models.items():
            kind = (config.position, config.norm, config.tie)
            require(
                kind == ("sinusoidal", "post", "three-way"),
                "the map shows models with sinusoidal positions, post-norm and three-way tying: "
                f"got {', '.join(kind)} for {name}",
            )
        for name, value, low, high in (
            ("source_length", source_length, 1, LONGEST),
            ("target_length", target_length, 1, LONGEST),
            ("part", part, 0, len(PARTS) - 1),
        ):
            require(low <= value <= high, f"{name} must be {low} to {high}: got {value}")
        super().__init__(
            models=[{"name": name, **_sizes(config)} for name, config in models.items()],
            drawing=_drawing(),
            model_name=model,
            source_length=source_length,
            target_length=target_length,
            part=part,
            colour="side",
        )

    def measured(self) -> dict[str, tuple[int, int]]:
        """Parameters and FLOPs of each kind of block, counted in the package's model.

        The FLOPs are those of the matrix multiplications of one forward pass of one sentence pair,
        two for each multiply-add. Both numbers are those of all blocks of a stack; ``"total"`` is
        the whole model.
        """
        [sizes] = (each for each in self.models if each["name"] == self.model_name)
        rest = {key: size for key, size in sizes.items() if key not in ("name", "vocab")}
        vocab = sizes["vocab"]
        config = TransformerConfig(source_vocab=vocab, target_vocab=vocab, **rest)
        with torch.device("meta"):  # shapes without memory
            model = Transformer(config).eval()
            source = torch.ones(1, self.source_length, dtype=torch.long)
            target = torch.ones(1, self.target_length, dtype=torch.long)
        with torch.no_grad(), FlopCounterMode(display=False, depth=9) as counter:
            model(source, target)
        flops = {
            name: {str(operation): count for operation, count in operations.items()}
            for name, operations in counter.get_flop_counts().items()
        }
        found = {"total": (_count(model), sum(flops["Global"].values()))}
        found["embedding"] = (_count(model.target_embedding), 0)
        found["position"] = (_count(model.position) if model.position else 0, 0)
        found["output"] = (_count(model.output), flops["Global"]["aten.mm"])
        for kind, (stack, path) in MODULES.items():
            names = [f"{stack}.blocks.{i}{path}" for i in range(len(getattr(model, stack).blocks))]
            counts = [flops.get(f"Transformer.{name}", {}) for name in names]
            everything = sum(sum(count.values()) for count in counts)
            if kind in ATTENTION:
                products = sum(count["aten.bmm"] for count in counts)
                found[ATTENTION[kind]] = (0, products)
                everything -= products
            found[kind] = (sum(_count(model.get_submodule(name)) for name in names), everything)
        return found

    def summary(self) -> str:
        """The sentence that it shows."""
        names = ", ".join(each["name"] for each in self.models)
        return (
            f"the map of the Transformer, with shapes, parameters and FLOPs of {len(PARTS)} parts,"
            f" for the models {names}."
        )


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _sizes(config: TransformerConfig) -> dict[str, int]:
    return {
        "d_model": config.d_model,
        "n_heads": config.n_heads,
        "d_ff": config.d_ff,
        "n_encoder": config.n_encoder,
        "n_decoder": config.n_decoder,
        "vocab": config.target_vocab,
    }


def _drawing() -> dict[str, Any]:
    """The map as data: the view, the blocks with the lines of their names, and all lines."""
    return {
        "view": list(VIEW),
        "blocks": [
            {
                "name": block.name,
                "kind": kind,
                "lines": wrap(block.name[0].upper() + block.name[1:], 19, break_on_hyphens=False),
                "chapter": block.chapter,
                "file": block.file,
                "side": block.side,
                "place": list(block.place),
                "frame": block.frame,
                "source": SOURCES[block.name],
            }
            for block, kind in zip(PARTS, KINDS, strict=True)
        ],
        "arrows": [
            {"kind": kind, "points": [list(point) for point in points]}
            for kind, group in (
                ("line", ARROWS),
                ("residual", RESIDUALS),
                ("memory", [MEMORY]),
                ("generated", [GENERATED]),
                ("tied", TIED),
            )
            for points in group
        ],
        "labels": [list(label) for label in LABELS],
    }
