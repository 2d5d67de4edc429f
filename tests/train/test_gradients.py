"""Gradients by recorded work: without a GPU, the work is repeated, with the same tensors."""

from itertools import islice

import pytest
import torch
from torch.testing import assert_close

from tests.train.test_trainer import MODEL, PAIRS, make_trainer
from tfmr.data.batches import Batches
from tfmr.dtype import Arithmetic
from tfmr.model import Transformer
from tfmr.train import gradients
from tfmr.train.gradients import RecordedGradients
from tfmr.train.loss import LossModule


def test_gradients_of_several_batches_are_added() -> None:
    model = Transformer(MODEL).eval()
    loss = LossModule(model, 0.1, Arithmetic("fp32"))
    recorded = RecordedGradients(loss, list(model.parameters()), torch.device("cpu"))
    for _ in range(2):  # the second time with shapes that are known
        batches = list(islice(Batches(PAIRS, 12, 0, 12).epoch(0), 4))
        model.zero_grad()
        losses = [loss(batch) * share for share, batch in enumerate(batches)]
        sum(losses).backward()
        expected = [parameter.grad for parameter in model.parameters()]
        recorded.clear()
        found = [recorded(batch, float(share)) for share, batch in enumerate(batches)]
        assert torch.equal(torch.stack(found), torch.stack(losses).detach())
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            assert_close(parameter.grad, gradient)
    shapes = {(batch.source.shape, batch.target_in.shape) for batch in batches}
    assert recorded._recorded.keys() == shapes


@pytest.mark.parametrize("max_graphs", [0, 256])
def test_training_is_the_same(monkeypatch: pytest.MonkeyPatch, max_graphs: int) -> None:
    """With batches whose shape is rounded up."""
    monkeypatch.setattr(gradients, "MAX_GRAPHS", max_graphs)
    plain, recorded = make_trainer(dropout=0.0), make_trainer(dropout=0.0)
    parameters = list(recorded.model.parameters())
    recorded._recorded = RecordedGradients(recorded.loss_module, parameters, torch.device("cpu"))
    curve = recorded.run(steps=10)
    assert bool(recorded._recorded._recorded) == bool(max_graphs)
    for own, other in zip(curve, plain.run(steps=10), strict=True):
        assert own.step == other.step
        for name in ("loss", "grad_norm", "weight_norm"):
            assert getattr(own, name) == pytest.approx(getattr(other, name), rel=1e-4)
