"""Handwritten digits for ViT: standardised images, a random split, and training.

The images are not part of the package: ``sklearn.datasets.load_digits`` returns 1,797 images of
8 × 8 pixels with values from 0 to 16 (Alpaydin and Kaynak, 1998).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from tfmr.errors import require
from tfmr.family.training import initialise_small, train
from tfmr.family.vit import ViT, ViTConfig

Model = TypeVar("Model", bound=nn.Module)

MEAN, STD = 4.88, 6.02
"""Mean and standard deviation of the pixels."""
HELD_OUT = 500
"""Number of test images."""
CONFIG = ViTConfig(
    d_model=32,
    n_heads=4,
    d_ff=64,
    dropout=0.1,
    n_layers=2,
    image_size=8,
    patch_size=2,
    channels=1,
    n_classes=10,
)
"""A ViT with 16 patches of 2 × 2 pixels and 18,218 parameters."""
BATCH, PEAK_LR = 64, 1e-2


@dataclass(frozen=True)
class Digits:
    """Images ``(image, 1, 8, 8)`` with mean 0 and variance 1, and their digits."""

    train_images: Float[Tensor, "train 1 8 8"]
    train_labels: Int[Tensor, "train"]
    test_images: Float[Tensor, "test 1 8 8"]
    test_labels: Int[Tensor, "test"]


def split_digits(images: Any, labels: Any, seed: int) -> Digits:
    """Split the arrays of ``load_digits``, ``images`` and ``target``, at random.

    Args:
        images: ``(image, 8, 8)`` or ``(image, 64)``, from 0 to 16.
        labels: the digits.
        seed: determines the :data:`HELD_OUT` test images.

    Raises:
        TfmrError: if there are not more images than the test set needs, or not one label for each.
    """
    require(
        len(images) == len(labels) > HELD_OUT,
        f"expected more than {HELD_OUT} images with a label each, got {len(images)} images and "
        f"{len(labels)} labels",
    )
    x = ((torch.as_tensor(images, dtype=torch.float32) - MEAN) / STD).view(-1, 1, 8, 8)
    y = torch.as_tensor(labels, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    test, rest = order[:HELD_OUT], order[HELD_OUT:]
    return Digits(x[rest], y[rest], x[test], y[test])


def shifted(images: Float[Tensor, "image 1 8 8"]) -> Float[Tensor, "direction image 1 8 8"]:
    """The images, and the images moved up, down, left and right by one pixel."""
    around = F.pad(images, (1, 1, 1, 1), value=-MEAN / STD)
    corners = ((1, 1), (2, 1), (0, 1), (1, 2), (1, 0))
    return torch.stack([around[..., y : y + 8, x : x + 8] for y, x in corners])


def train_vit(digits: Digits, steps: int, seed: int) -> ViT:
    """Train a ViT with :data:`CONFIG` on random batches, in which half of the images are shifted.

    A convolution treats an object in the same way at each position; a ViT has to learn it from
    images.
    """
    return train_classifier(make_vit, digits, steps, seed, PEAK_LR)


def make_vit() -> ViT:
    """An untrained ViT with :data:`CONFIG`."""
    model = ViT(CONFIG)
    initialise_small(model)
    return model


def train_classifier(
    make: Callable[[], Model],
    digits: Digits,
    steps: int,
    seed: int,
    peak_lr: float,
    *,
    shifts: bool = True,
) -> Model:
    """Train a classifier that maps images ``(batch, 1, 8, 8)`` to one logit per digit.

    Args:
        make: returns the untrained model.
        digits: the images.
        steps: number of random batches of :data:`BATCH` images.
        seed: determines the weights and the batches.
        peak_lr: the largest learning rate.
        shifts: shift half of the images of a batch by one pixel.
    """
    generator = torch.Generator().manual_seed(seed)
    x = digits.train_images
    directions = shifted(x) if shifts else x.expand(5, *x.shape)

    def loss() -> Tensor:
        batch = torch.randint(len(digits.train_labels), (BATCH,), generator=generator)
        # From 0 to 3 the image itself, as 0; then one of the four directions.
        direction = (torch.randint(8, (BATCH,), generator=generator) - 3).clamp(min=0)
        return F.cross_entropy(model(directions[direction, batch]), digits.train_labels[batch])

    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = make()
        train(model, loss, steps, peak_lr)
    return model
