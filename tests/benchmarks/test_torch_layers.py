"""The recurrent layers of torch.nn compute what those of the book compute."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from benchmarks.torch_layers import TorchRecurrentLayer
from tfmr.recurrent import copy_from_torch
from tfmr.sequence_layers import RecurrentLayer


@pytest.mark.parametrize(("kind", "cell"), [(nn.RNN, "rnn"), (nn.LSTM, "lstm")])
def test_the_layers_agree_with_the_same_weights(kind: Any, cell: Any) -> None:
    torch.manual_seed(0)
    layer, own = TorchRecurrentLayer(6, kind), RecurrentLayer(6, cell)
    copy_from_torch(own.stack, layer.module)
    x = torch.randn(2, 5, 6)
    assert_close(layer(x), own(x))


def test_the_forget_bias_is_one() -> None:
    module = TorchRecurrentLayer(4, nn.LSTM).module
    assert_close(module.bias_ih_l0[4:8] + module.bias_hh_l0[4:8], torch.ones(4))
