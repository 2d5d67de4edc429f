"""Logits and gradients equal those of Hugging Face's classes, padded batches included.

All parameters and gradients are in double precision, and the bounds are absolute. BERT, GPT-2 and
ViT differ by rounding only. T5 and Llama differ by more, because the classes of Hugging Face
compute the mean square of RMSNorm, and the angles of rotary positions, in single precision for
every type of the weights.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.family.models import OWN, VOCAB, make_pair
from tfmr.errors import TfmrError
from tfmr.family import Llama
from tfmr.family.llama import RopeScaling
from tfmr.position import frequencies

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
    segments = (torch.arange(9) > 3).long().expand(3, 9)
    if own:
        return model(ids, MASK, *([segments] if kind == "bert" else []))[MASK]
    extra = {"token_type_ids": segments} if kind == "bert" else {}
    return model(input_ids=ids, attention_mask=MASK.long(), **extra).logits[MASK]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", OWN)
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
    gradients = dict(OWN[kind].from_pretrained(tmp_path / "gradients").named_parameters())
    for name, parameter in own.named_parameters():
        assert parameter.grad is not None, name
        assert_close(parameter.grad, gradients[name].detach(), **bound)


@pytest.mark.parametrize("kind", OWN)
def test_logits_in_single_precision_equal_those_of_hugging_face(kind: str, tmp_path: Path) -> None:
    own, theirs = make_pair(kind, tmp_path)
    with torch.no_grad():
        assert_close(
            logits(kind, own, own=True), logits(kind, theirs, own=False), rtol=1e-5, atol=3e-5
        )


LONG = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 40,
}
"""Of the 8 frequencies of a head with 16 dimensions, some are kept, some divided, some between."""


@pytest.mark.parametrize("older", [False, True])
def test_the_rotary_positions_of_llama_3_1(older: bool, tmp_path: Path) -> None:
    """``rope_type: llama3``, also with the names of older configurations."""
    settings = {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3}
    sizes = {"head_dim": 16, "max_position_embeddings": 320, "rope_parameters": LONG}
    own, theirs = make_pair("llama", tmp_path, **settings, **sizes)
    if older:
        path = tmp_path / "config.json"
        config = json.loads(path.read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        path.write_text(json.dumps(config | {"rope_scaling": rope}))
        own = Llama.from_pretrained(tmp_path)
    omega = frequencies(16, 500.0)
    assert_close(own.config.rope_scaling(omega).float(), theirs.model.rotary_emb.inv_freq)
    assert 0 < sum(own.config.rope_scaling(omega) == omega) < 7
    ids = torch.randint(1, VOCAB, (2, 300), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_close(own(ids), theirs(input_ids=ids).logits, rtol=1e-4, atol=1e-3)
        plain = Llama(replace(own.config, rope_scaling=None)).eval()
        plain.load_state_dict(own.state_dict())
        assert (plain(ids) - own(ids)).abs().max() > 0.1


@pytest.mark.parametrize(
    "values", [{"factor": 0.5}, {"low_freq_factor": 4.0}, {"original_max_length": 0}]
)
def test_rotary_scaling_out_of_range(values: dict[str, float]) -> None:
    with pytest.raises(TfmrError, match=r"got (factor=0\.5|.*low_freq_factor=4\.0|0)"):
        RopeScaling(**values)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_padding_before_a_text_equals_hugging_face(kind: str, tmp_path: Path) -> None:
    """Padding on the left, with the positions that ``generate`` of Hugging Face counts."""
    own, theirs = make_pair(kind, tmp_path)
    ids = torch.randint(1, VOCAB, (3, 9))
    mask = MASK.flip(1)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    expected = theirs(input_ids=ids, attention_mask=mask.long(), position_ids=positions).logits
    assert_close(own(ids, mask)[mask], expected[mask], rtol=0, atol=1e-5)
