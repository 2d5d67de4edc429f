"""The training loop: its schedule, its clipping, and that it trains."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.family.training import initialise_small, train


def test_training_fits_a_line() -> None:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    x = torch.randn(64, 1)
    losses = train(model, lambda: (model(x) - 3 * x + 1).square().mean(), 300, 0.1)
    assert len(losses) == 300
    assert losses[-1] < 1e-3 < losses[0]
    assert not model.training


def test_the_learning_rate_rises_and_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.AdamW.step

    def record(self: torch.optim.AdamW, *args: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return step(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", record)
    model = nn.Linear(1, 1)
    train(model, lambda: model(torch.ones(1, 1)).sum(), 10, 8.0, warmup_ratio=0.2)
    assert_close(rates, [4.0, *(8.0 * left / 9 for left in range(9, 0, -1))])


def test_gradients_are_clipped() -> None:
    model = nn.Linear(1, 1)
    train(model, lambda: 1e6 * model(torch.ones(1, 1)).sum(), 1, 1e-3)
    norm = nn.utils.get_total_norm([model.weight.grad, model.bias.grad])
    assert_close(norm, torch.tensor(1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"steps": 0}, "steps must be positive"), ({"warmup_ratio": 1.0}, "a fraction.*got 1.0")],
)
def test_bad_arguments(arguments: dict[str, float], message: str) -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(TfmrError, match=message):
        train(
            model, lambda: model(torch.ones(1, 1)).sum(), **{"steps": 1, "peak_lr": 1.0} | arguments
        )


def test_small_layers_keep_the_variance_and_a_tied_matrix_is_not_changed() -> None:
    torch.manual_seed(0)
    embedding, tied = nn.Embedding(300, 64), nn.Linear(64, 300, bias=False)
    tied.weight = embedding.weight
    before = embedding.weight.clone()
    model = nn.Sequential(embedding, nn.Linear(64, 400), tied)
    initialise_small(model)
    assert torch.equal(embedding.weight, before)
    assert_close(model[1].weight.std().item(), 64**-0.5, rtol=0.02, atol=0.0)
