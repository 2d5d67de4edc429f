"""The networks for the digits, and the selection of their learning rates."""

import pytest
import torch
from torch import nn

from benchmarks import digits
from benchmarks.digits import NETWORKS, VALIDATION
from tfmr.family.digits import Digits


def test_the_networks_have_about_as_many_weights_as_the_vit() -> None:
    sizes = {
        name: sum(parameter.numel() for parameter in make().parameters())
        for name, make in NETWORKS.items()
    }
    for size in sizes.values():
        assert size == pytest.approx(sizes["ViT"], rel=0.02)
    for make in NETWORKS.values():
        assert make()(torch.randn(3, 1, 8, 8)).shape == (3, 10)


def test_the_rate_is_selected_without_test_images(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Digits, float, bool]] = []

    def train(
        make: object, data: Digits, steps: int, seed: int, peak_lr: float, shifts: bool
    ) -> nn.Module:
        """A model that predicts the class 1 with a margin; the second of three rates is best."""
        calls.append((data, peak_lr, shifts))
        torch.manual_seed(0)
        linear = nn.Linear(64, 10)
        nn.init.zeros_(linear.weight)
        nn.init.constant_(linear.bias, 0.0)
        linear.bias.data[1] = {0.1: 3.0, 0.2: 0.0, 0.3: 6.0}[peak_lr]
        return nn.Sequential(nn.Flatten(), linear)

    monkeypatch.setattr(digits, "train_classifier", train)
    monkeypatch.setattr(digits, "PEAK_LRS", (0.1, 0.2, 0.3))
    monkeypatch.setattr(digits, "NETWORKS", {"ViT": NETWORKS["ViT"]})
    rows = [row for row in digits.rows([5], steps=1) if "peak_lr" in row]
    assert [row["peak_lr"] for row in rows] == [0.2, 0.2]
    assert [row["validation_nats"].index(min(row["validation_nats"])) for row in rows] == [1, 1]
    assert [rate for _, rate, _ in calls] == [0.1, 0.2, 0.3, 0.2] * 2
    assert [shifts for _, _, shifts in calls] == [False] * 4 + [True] * 4
    final = calls[3][0]
    train_set, test_set = (
        {tuple(image.flatten().tolist()) for image in part}
        for part in (final.train_images, final.test_images)
    )
    for data, _, _ in (*calls[:3], *calls[4:7]):
        assert (len(data.train_images), len(data.test_images)) == (1297 - VALIDATION, VALIDATION)
        parts = [
            {tuple(image.flatten().tolist()) for image in part}
            for part in (data.train_images, data.test_images)
        ]
        assert parts[0] | parts[1] == train_set
        assert not parts[0] & parts[1]
        assert not parts[1] & test_set
