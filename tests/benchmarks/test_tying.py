"""Training with and without weight tying and the factor √d_model."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from benchmarks.tying import cancel_factor, enlarge_logits, shrink_logits
from tfmr.config import Tie, TransformerConfig
from tfmr.model import Transformer

SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}


def test_without_the_factor_only_the_embeddings_are_smaller() -> None:
    model = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **SIZES)).eval()
    ids = torch.tensor([[4, 5, 6]])
    assert model.position is not None
    zeros = torch.zeros(1, 3, 16)
    positions = model.position(zeros, 0)
    embedded = model._embed(model.target_embedding, ids, "target") - positions
    cancel_factor(model)
    smaller = model._embed(model.target_embedding, ids, "target") - positions
    assert torch.allclose(smaller * math.sqrt(16), embedded, atol=1e-5)
    assert torch.allclose(smaller, model.target_embedding(ids), atol=1e-5)


def test_the_initial_logits_can_have_the_scale_of_the_other_model() -> None:
    def logits(tie: Tie, change: Callable[[Transformer], None] = lambda model: None) -> Tensor:
        torch.manual_seed(0)
        config = TransformerConfig(source_vocab=500, target_vocab=500, tie=tie, norm="pre", **SIZES)
        model = Transformer(config).eval()
        change(model)
        with torch.no_grad():
            logits: Tensor = model(torch.tensor([[4, 5, 6]]), torch.tensor([[1, 7, 8, 9]]))
        return logits

    tied, separate = logits("three-way"), logits("none")
    small, large = logits("three-way", shrink_logits), logits("none", enlarge_logits)
    scale = math.sqrt(16 * 2 / 516)
    assert torch.allclose(small, tied * scale, atol=1e-5)
    assert torch.allclose(large * scale, separate, atol=1e-5)
    assert large.std() == pytest.approx(tied.std().item(), rel=0.1)
    assert small.std() == pytest.approx(separate.std().item(), rel=0.1)
