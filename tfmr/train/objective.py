"""What a step makes smaller: the loss of a batch, in the precision that the device is fast in."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.data.batches import Batch
from tfmr.decoder import DecoderBlock
from tfmr.encoder import EncoderBlock
from tfmr.errors import require
from tfmr.train.loss import linear_cross_entropy
from tfmr.translator import Translator

BACKEND = "inductor"
"""Of :func:`torch.compile`: what turns the traced operations into kernels."""


def blocks(model: nn.Module) -> list[nn.Module]:
    """The encoder's and the decoder's blocks: what repeats in a Transformer."""
    return [part for part in model.modules() if isinstance(part, EncoderBlock | DecoderBlock)]


def compile_blocks(model: Translator) -> None:
    """Let :func:`torch.compile` make one kernel for all encoder blocks, one for all decoder blocks.

    The rest of a model is no faster compiled. A copy of the model is not compiled.

    Raises:
        TfmrError: if the model has no such blocks.
    """
    parts = blocks(model)
    require(
        bool(parts),
        f"compile works on the blocks of a Transformer and a {type(model).__name__} has none: "
        "train it without",
    )
    for part in parts:
        part.compile(backend=BACKEND, dynamic=True)


class Objective(nn.Module):
    """A model and its loss as one module, the unit that is spread over processes.

    Args:
        model: predicts.
        smoothing: of the labels.
        bf16: multiply matrices in bf16; see :func:`tfmr.dtype.uses_bf16`.
    """

    def __init__(self, model: Translator, smoothing: float, bf16: bool = False) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.bf16 = bf16

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        """The smoothed cross-entropy of the batch, in nats per real target token."""
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=self.bf16):
            hidden = self.model.hidden(batch.source, batch.target_in)
            return linear_cross_entropy(
                hidden, self.model.output.weight, batch.target_out, self.smoothing
            )
