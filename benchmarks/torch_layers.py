"""The recurrent layers of ``torch.nn`` with the interface of :mod:`tfmr.sequence_layers`.

The recurrent layers of the book run a Python loop over the time steps; these do not.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.sequence_layers import SequenceLayer


class TorchRecurrentLayer(SequenceLayer):
    """``nn.RNN`` or ``nn.LSTM``; an LSTM starts with a forget bias of 1, as in the book."""

    def __init__(self, d_model: int, kind: type[nn.RNN] | type[nn.LSTM]) -> None:
        super().__init__(d_model, causal=True)
        self.module = kind(d_model, d_model, batch_first=True)
        if isinstance(self.module, nn.LSTM):
            with torch.no_grad():
                # The gates are in the order i, f, g, o, and the two biases are added.
                cast(Tensor, self.module.bias_ih_l0)[d_model : 2 * d_model] = 1
                cast(Tensor, self.module.bias_hh_l0)[d_model : 2 * d_model] = 0

    def transform(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """The hidden states of all time steps."""
        outputs: Tensor = self.module(x)[0]
        return outputs
