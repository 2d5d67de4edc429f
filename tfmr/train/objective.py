"""What a step makes smaller: the loss of a batch, in the precision that the device is fast in."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.data.batches import Batch
from tfmr.decoder import DecoderBlock
from tfmr.encoder import EncoderBlock
from tfmr.errors import require
from tfmr.train.loss import linear_cross_entropy
from tfmr.translator import Translator

Precision = Literal["auto", "fp32", "bf16"]
BACKEND = "inductor"
"""Of :func:`torch.compile`: what turns the traced operations into kernels."""


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to multiply matrices in bf16, numbers of two bytes with the range of fp32.

    ``"auto"`` does so where it is faster: on a GPU that has bf16, and on a CPU with instructions
    for it (AVX-512 BF16 or the matrix units of AMX). Micikevicius et al. (2018), section 3, keep
    what this keeps in fp32: the weights, the optimiser, and sums over many numbers. With the range
    of fp32 the loss need not be scaled.

    Raises:
        TfmrError: if bf16 is asked for and the device does not have it.
    """
    if precision == "fp32":
        return False
    if device.type == "cpu":
        able = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return precision == "bf16" or able
    able = torch.amp.is_autocast_available(device.type) and (
        device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
    )
    require(
        able or precision == "auto",
        f"bf16 needs a device that computes in it, and {device} does not: train with "
        'precision "fp32", or "auto"',
    )
    return able


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
        bf16: multiply matrices in bf16; see :func:`uses_bf16`.
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
