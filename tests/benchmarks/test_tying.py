"""Training with and without weight tying and the factor √d_model."""

import math

import torch

from benchmarks.tying import cancel_factor
from tfmr.config import TransformerConfig
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
