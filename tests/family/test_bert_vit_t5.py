"""Masked tokens, segments and padding of BERT; patches of ViT; the cache of T5."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tfmr.analysis import record_attention
from tfmr.errors import TfmrError
from tfmr.family import T5, Bert, BertConfig, T5Config, ViT, ViTConfig
from tfmr.family.bert import IGNORED, mask_tokens

SMALL = BertConfig(16, 2, 24, vocab=20, n_layers=2, max_length=10)


def test_which_tokens_are_masked() -> None:
    ids = torch.randint(0, 200, (100, 1000), generator=torch.Generator().manual_seed(0))
    special = ids < 5
    hidden, labels = mask_tokens(
        ids, mask_id=4, first_word=5, vocab=200, generator=torch.Generator().manual_seed(1)
    )
    chosen = labels != IGNORED
    assert_close(labels[chosen], ids[chosen])
    assert_close(hidden[~chosen], ids[~chosen])
    assert not chosen[special].any()
    n = chosen.sum()
    assert n / (~special).sum() == pytest.approx(0.15, abs=0.003)
    assert (hidden[chosen] == 4).sum() / n == pytest.approx(0.8, abs=0.01)
    # One in 195 random tokens is the original one.
    assert (hidden[chosen] == ids[chosen]).sum() / n == pytest.approx(0.1 + 0.1 / 195, abs=0.01)
    assert ((hidden[chosen] >= 5) | (hidden[chosen] == 4)).all()


@pytest.mark.parametrize("arguments", [{"p": 0.0}, {"p": 1.5}, {"mask_id": 7}, {"vocab": 5}])
def test_masking_rejects_bad_arguments(arguments) -> None:
    good = {"mask_id": 4, "first_word": 5, "vocab": 20, "generator": torch.Generator()}
    with pytest.raises(TfmrError, match=r"p must be|mask_id must be"):
        mask_tokens(torch.ones(1, 3, dtype=torch.long), **(good | arguments))


def test_bert_attends_to_both_sides_and_not_to_padding() -> None:
    torch.manual_seed(0)
    model = Bert(SMALL).eval()
    ids, mask = torch.randint(5, 20, (1, 6)), torch.tensor([[1, 1, 1, 1, 0, 0]]).bool()
    with record_attention(model) as maps:
        model(ids, mask)
    for [weights] in maps.values():
        assert (weights[..., :4] > 0).all()
        assert (weights[..., 4:] == 0).all()
    other = ids.clone()
    other[0, 4:] = 5
    assert_close(model(ids, mask)[mask], model(other, mask)[mask])


def test_padding_before_a_text_does_not_change_it() -> None:
    torch.manual_seed(0)
    model, ids = Bert(SMALL).eval(), torch.randint(5, 20, (1, 4))
    padded = F.pad(ids, (2, 0))
    mask = torch.arange(6)[None] >= 2
    assert_close(model(padded, mask)[:, 2:], model(ids))


def test_the_defaults_are_those_of_the_papers() -> None:
    """BERT-base (Devlin et al., 2019, section 3) and ViT-B/16 (Dosovitskiy et al., 2021)."""
    bert, vit = BertConfig(), ViTConfig()
    sizes = ("d_model", "n_heads", "d_ff", "n_layers", "eps", "activation")
    for config in (bert, vit):
        found = [getattr(config, name) for name in sizes]
        assert found == [768, 12, 3072, 12, 1e-12, "gelu"]
    assert (bert.vocab, bert.max_length, bert.n_segments, bert.norm) == (30522, 512, 2, "post")
    assert (vit.image_size, vit.patch_size, vit.channels, vit.n_classes) == (224, 16, 3, 1000)
    assert (bert.dropout, vit.dropout, vit.norm) == (0.1, 0.0, "pre")


def test_segments_change_the_prediction() -> None:
    torch.manual_seed(0)
    model, ids = Bert(SMALL).eval(), torch.randint(5, 20, (1, 6))
    first, second = (model(ids, segments=torch.full((1, 6), value)) for value in (0, 1))
    assert not torch.allclose(first, second)
    assert_close(first, model(ids))


@pytest.mark.usefixtures("unchecked")
def test_bert_rejects_bad_input() -> None:
    model = Bert(SMALL)
    with pytest.raises(TfmrError, match=r"max_length=10.*got 11"):
        model(torch.ones(1, 11, dtype=torch.long))
    with pytest.raises(TfmrError, match="segment ids must lie between 0 and 1"):
        model(torch.ones(1, 3, dtype=torch.long), segments=torch.full((1, 3), 2))


def test_patches_are_cut_row_by_row() -> None:
    """As a convolution whose stride is its size."""
    torch.manual_seed(0)
    model = ViT(ViTConfig(16, 2, 24, n_layers=1, image_size=6, patch_size=2, channels=3))
    images = torch.randn(2, 3, 6, 6)
    kernel = model.patch_embedding.weight.view(16, 3, 2, 2)
    expected = F.conv2d(images, kernel, model.patch_embedding.bias, stride=2)
    assert_close(model.patch_embedding(model.patches(images)), expected.flatten(2).transpose(1, 2))
    assert model.config.n_patches == 9


@pytest.mark.usefixtures("unchecked")
def test_vit_rejects_bad_input() -> None:
    with pytest.raises(TfmrError, match=r"image_size=7, patch_size=2"):
        ViTConfig(image_size=7, patch_size=2)
    model = ViT(ViTConfig(16, 2, 24, n_layers=1, image_size=6, patch_size=2, channels=1))
    with pytest.raises(TfmrError, match=r"\(batch, 1, 6, 6\).*got \(1, 3, 6, 6\)"):
        model(torch.randn(1, 3, 6, 6))
    with pytest.raises(TfmrError, match=r"got \(6, 6\)"):
        model(torch.randn(6, 6))


def test_t5_decodes_incrementally() -> None:
    torch.manual_seed(0)
    model = T5(T5Config(20, 16, 4, 24, 2, 3, 2, n_buckets=8, max_distance=9)).eval()
    source, target = torch.randint(0, 20, (2, 7)), torch.randint(0, 20, (2, 6))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3]).bool()
    caches, memory = model.new_caches(6, 7), model.encode(source, mask)
    parts = [model.decode(part, memory, mask, caches) for part in target.split([3, 1, 2], dim=1)]
    assert_close(torch.cat(parts, dim=1), model(source, target, mask))
