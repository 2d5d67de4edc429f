"""The data of ViT and T5: the split of the digits, and the tasks that a prefix selects."""

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.family import digits, tasks
from tfmr.special_tokens import SPECIAL


def toy_digits(count: int = 620) -> tuple[torch.Tensor, torch.Tensor]:
    """The digit is half the row of the only bright pixels; a shift leaves it unambiguous."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (count,), generator=generator)
    images = torch.zeros(count, 8, 8)
    images[torch.arange(count), 2 * labels] = 16.0
    return images, labels


def test_the_split_keeps_every_image_once_with_its_label() -> None:
    images, labels = toy_digits()
    data = digits.split_digits(images, labels, seed=1)
    assert data.train_images.shape == (120, 1, 8, 8)
    assert data.test_images.shape == (500, 1, 8, 8)
    for part, expected in [
        (data.train_images, data.train_labels),
        (data.test_images, data.test_labels),
    ]:
        assert_close(part.mean(dim=-1)[:, 0].argmax(dim=1), 2 * expected)
        assert_close(part.min(), torch.tensor(-digits.MEAN / digits.STD))
    together = torch.cat([data.train_labels, data.test_labels])
    assert_close(together.bincount(), labels.bincount())
    other = digits.split_digits(images.flatten(1).numpy(), labels.numpy(), seed=2)
    assert not torch.equal(other.test_labels, data.test_labels)


def test_the_constants_standardise_the_digits_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    data = digits.split_digits(images, labels, seed=0)
    pixels = torch.cat([data.train_images, data.test_images])
    assert len(pixels) == 1797
    assert pixels.mean().item() == pytest.approx(0, abs=0.01)
    assert pixels.std().item() == pytest.approx(1, abs=0.01)


def test_images_are_shifted_by_one_pixel() -> None:
    image = torch.full((1, 1, 8, 8), -digits.MEAN / digits.STD)
    image[0, 0, 3, 4] = 1
    found = [tuple((each == 1).nonzero()[0, 2:].tolist()) for each in digits.shifted(image)]
    assert found == [(3, 4), (2, 4), (4, 4), (3, 3), (3, 5)]
    border = digits.shifted(image * 0 + 1)[1]
    assert border[0, 0, -1, 0].item() == pytest.approx(-digits.MEAN / digits.STD)


def test_vit_learns_a_position() -> None:
    images, labels = toy_digits()
    data = digits.split_digits(images, labels, seed=0)
    state = torch.get_rng_state()
    model = digits.train_vit(data, 200, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert (model(data.test_images).argmax(dim=1) == data.test_labels).float().mean() > 0.9


@pytest.mark.parametrize(("shifts", "lowest", "highest"), [(True, 0.4, 0.6), (False, 1.0, 1.0)])
def test_half_of_the_images_of_a_batch_are_shifted(
    shifts: bool, lowest: float, highest: float
) -> None:
    data = digits.split_digits(*toy_digits(), seed=0)
    original = {tuple(image.flatten().tolist()) for image in data.train_images}
    batches: list[torch.Tensor] = []

    class Remember(torch.nn.Linear):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            batches.append(images)
            return super().forward(images.flatten(1))

    digits.train_classifier(lambda: Remember(64, 10), data, 10, 0, 1e-3, shifts=shifts)
    rows = [tuple(image.flatten().tolist()) for images in batches for image in images]
    # A row of bright pixels that is shifted to the side keeps all but one of them.
    assert lowest <= sum(row in original for row in rows) / len(rows) <= highest


def test_too_few_digits_are_rejected() -> None:
    images, labels = toy_digits(500)
    with pytest.raises(TfmrError, match=r"more than 500 images.*got 500 images and 500 labels"):
        digits.split_digits(images, labels, seed=0)
    with pytest.raises(TfmrError, match="500 images and 499 labels"):
        digits.split_digits(images, labels[1:], seed=0)


def test_the_prefix_states_the_task() -> None:
    task, source, target = tasks.draw(300, torch.Generator().manual_seed(0))
    assert_close(source[:, 0], len(SPECIAL) + task)
    letters = source[:, 1:]
    assert letters.min() == tasks.FIRST_LETTER
    assert letters.max() == tasks.CONFIG.vocab - 1
    expected = [letters, letters.flip(1), letters.sort(dim=1).values]
    for k in range(3):
        assert_close(target[task == k], expected[k][task == k])
        assert (task == k).sum() > 60


def test_without_prefixes_only_the_first_token_differs() -> None:
    with_prefix, without = (
        tasks.draw(50, torch.Generator().manual_seed(0), prefix=prefix) for prefix in (True, False)
    )
    assert without[1][:, 0].unique().tolist() == [len(SPECIAL)]
    assert_close(without[1][:, 1:], with_prefix[1][:, 1:])
    assert_close(without[2], with_prefix[2])


def test_texts_of_tasks() -> None:
    ids = tasks.encode("reverse", "bad")
    assert tasks.decode(ids[0].tolist()) == "?bad"
    assert ids[0, 0] == len(SPECIAL) + 1
    for task, letters in [("square", "bad"), ("copy", "xyz"), ("copy", "")]:
        with pytest.raises(TfmrError, match="one of the tasks copy, reverse, sort and letters"):
            tasks.encode(task, letters)
    assert tasks.draw(1, torch.Generator())[0].shape == (1,)
    with pytest.raises(TfmrError, match="positive: got 0"):
        tasks.draw(0, torch.Generator())


def test_accuracy_counts_outputs_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(model: object, source: torch.Tensor, *args: object, **kwargs: object) -> object:
        return source[:, 1:].tolist()

    monkeypatch.setattr(tasks, "answer", answer)
    found = tasks.accuracy(tasks.T5(tasks.CONFIG), seed=0)
    assert found["copy"] == 1
    assert found["reverse"] < 0.1
    assert found["sort"] < 0.1


def test_training_on_tasks_reduces_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[float] = []
    train = tasks.train
    monkeypatch.setattr(tasks, "train", lambda *args: losses.extend(train(*args)))
    state = torch.get_rng_state()
    tasks.train_t5(12, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(losses) == 12
    assert losses[-1] < losses[0] - 0.5
