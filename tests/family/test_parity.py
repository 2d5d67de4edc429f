"""Logits and gradients equal those of Hugging Face's classes, padded batches included.

All parameters and gradients are in double precision, and the bounds are absolute. BERT, GPT-2 and
ViT differ by rounding only. T5 and Llama differ by more, because the classes of Hugging Face
compute the mean square of RMSNorm, and the angles of rotary positions, in single precision for
every type of the weights.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.family.models import PAIRS, VOCAB, make_pair

LENGTHS = torch.tensor([9, 6, 4])
MASK = torch.arange(9) < LENGTHS[:, None]
BOUNDS = {"bert": 1e-12, "gpt2": 1e-12, "t5": 1e-5, "vit": 1e-12, "llama": 1e-5}
"""The largest absolute difference of a logit or of a gradient, for gradients of up to 29."""


@pytest.fixture
def double() -> Iterator[None]:
    """Create parameters in double precision, so that no weight or gradient is rounded."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def logits(kind: str, model: nn.Module, *, own: bool) -> Tensor:
    """The logits of a batch at the positions that are not padding."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, VOCAB, (3, 9), generator=generator)
    if kind == "vit":
        images = torch.randn(3, 2, 8, 8, generator=generator)
        return model(images) if own else model(images).logits
    if kind == "t5":
        target = torch.randint(1, VOCAB, (3, 7), generator=generator)
        if own:
            return model(ids, target, MASK)
        return model(input_ids=ids, attention_mask=MASK.long(), decoder_input_ids=target).logits
    if kind == "bert":
        segments = (torch.arange(9) > 3).long().expand(3, 9)
        if own:
            return model(ids, MASK, segments)[MASK]
        extra = {"token_type_ids": segments}
    elif own:
        return model(ids, MASK)[MASK]
    else:
        extra = {}
    return model(input_ids=ids, attention_mask=MASK.long(), **extra).logits[MASK]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", PAIRS)
def test_logits_and_gradients_equal_those_of_hugging_face(kind: str, tmp_path: Path) -> None:
    # The buffers of rotary positions are in single precision, whatever the default type is.
    own, theirs = (model.double() for model in make_pair(kind, tmp_path / "weights"))
    bound = {"rtol": 0, "atol": BOUNDS[kind]}
    ours, expected = logits(kind, own, own=True), logits(kind, theirs, own=False)
    assert_close(ours, expected, **bound)

    direction = torch.randn(ours.shape)
    (ours * direction).sum().backward()
    (expected * direction).sum().backward()
    # The loader renames and reorders the gradients in the same way as the weights.
    with torch.no_grad():
        for parameter in theirs.parameters():
            grad = parameter.grad
            parameter.copy_(torch.zeros_like(parameter) if grad is None else grad)
    theirs.save_pretrained(tmp_path / "gradients")
    gradients = dict(PAIRS[kind][0].from_pretrained(tmp_path / "gradients").named_parameters())
    for name, parameter in own.named_parameters():
        assert parameter.grad is not None, name
        assert_close(parameter.grad, gradients[name].detach(), **bound)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_padding_before_a_text_equals_hugging_face(kind: str, tmp_path: Path) -> None:
    """Padding on the left, where only a mask can hide it."""
    own, theirs = make_pair(kind, tmp_path)
    ids = torch.randint(1, VOCAB, (3, 9))
    mask = MASK.flip(1)
    expected = theirs(
        input_ids=ids, attention_mask=mask.long(), position_ids=torch.arange(9).expand(3, 9)
    ).logits
    assert_close(own(ids, mask)[mask], expected[mask], rtol=0, atol=1e-5)
