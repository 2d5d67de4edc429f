"""ViT on the digits of scikit-learn, beside other networks and baselines without hidden layers.

``python -m benchmarks.family digits`` measures and records. All networks have about as many weights
and are trained by the same code, with and without shifted images.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks.record import Row
from tfmr.family.digits import CONFIG as VIT
from tfmr.family.digits import Digits, make_vit, shifted, split_digits, train_classifier

PEAK_LRS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""The peak learning rates from which that of each network is selected."""
VALIDATION = 297
"""Training images that are held out for this selection."""
SHIFTED = ", shifted images"
"""The ending of the names of models that are trained on shifted images, too."""


def make_mlp() -> nn.Module:
    """A multi-layer perceptron on the pixels, with about as many weights as the ViT."""
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(64, 102), nn.ReLU(), nn.Dropout(VIT.dropout)),
        *(nn.Linear(102, 102), nn.ReLU(), nn.Dropout(VIT.dropout)),
        nn.Linear(102, VIT.n_classes),
    )


def make_cnn() -> nn.Module:
    """A convolutional network with about as many weights as the ViT."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(VIT.dropout), nn.Linear(160, VIT.n_classes)),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"MLP": make_mlp, "CNN": make_cnn, "ViT": make_vit}


@torch.no_grad()
def validation_nats(model: nn.Module, data: Digits) -> float:
    """The mean cross-entropy of the held-out images."""
    return F.cross_entropy(model(data.test_images), data.test_labels).item()


def rows(seeds: Sequence[int], steps: int) -> Iterator[Row]:
    """Accuracy by model and split: baselines without hidden layers, then the networks.

    The peak learning rate of a network is the one with the smallest cross-entropy on
    :data:`VALIDATION` training images; with it, the network is trained on all training images.
    """
    images, targets = load_digits(return_X_y=True)
    for seed in tqdm(seeds, unit=" splits"):
        data = split_digits(images, targets, seed)
        x, y = data.train_images, data.train_labels
        flat, labels = x.flatten(1).numpy(), y.numpy()
        test, expected = data.test_images.flatten(1).numpy(), data.test_labels.numpy()
        majority = (expected == np.bincount(labels).argmax()).mean()
        yield {"model": "most frequent digit", "seed": seed, "accuracy": round(majority, 4)}
        # The networks are trained on the shifted images, too: half of the images in a batch.
        moved = shifted(x).flatten(0, 1).flatten(1).numpy()
        shares = np.repeat([1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8], len(labels))
        held = VALIDATION
        selection = Digits(x[held:], y[held:], x[:held], y[:held])
        for suffix, pixels, digit, weight in (
            ("", flat, labels, None),
            (SHIFTED, moved, np.tile(labels, 5), shares),
        ):
            linear = LogisticRegression(max_iter=1000).fit(pixels, digit, weight)
            nearest = KNeighborsClassifier(n_neighbors=1).fit(pixels, digit)
            for name, classifier in (
                ("logistic regression", linear),
                ("nearest neighbour", nearest),
            ):
                score = round(classifier.score(test, expected), 4)
                yield {"model": name + suffix, "seed": seed, "accuracy": score}
            for name, make in NETWORKS.items():
                fit = partial(train_classifier, make, steps=steps, seed=seed, shifts=bool(suffix))
                nats = [
                    validation_nats(fit(selection, peak_lr=peak_lr), selection)
                    for peak_lr in PEAK_LRS
                ]
                best = PEAK_LRS[int(np.argmin(nats))]
                network = fit(data, peak_lr=best)
                with torch.no_grad():
                    correct = network(data.test_images).argmax(dim=1) == data.test_labels
                yield {
                    "model": name + suffix,
                    "seed": seed,
                    "steps": steps,
                    "parameters": sum(parameter.numel() for parameter in network.parameters()),
                    "peak_lr": best,
                    "validation_nats": [round(value, 4) for value in nats],
                    "accuracy": round(correct.float().mean().item(), 4),
                }


def settings() -> Row:
    """What the record states beside the seeds."""
    return {"peak_lrs": list(PEAK_LRS), "validation": VALIDATION, **asdict(VIT)}
