"""Training with and without the division by √d_k."""

import torch

from benchmarks.division import COMPARISON, DIVIDED, SMALL_START, UNDIVIDED
from tfmr.config import TransformerConfig
from tfmr.model import Transformer

SIZES = {"d_model": 16, "n_heads": 1, "d_ff": 16, "n_encoder": 1, "n_decoder": 1}


def test_only_the_small_start_has_the_initial_scores_of_the_divided_model() -> None:
    logits = {}
    for variant in COMPARISON.variants:
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(source_vocab=9, target_vocab=9, **SIZES)).eval()
        variant.change(model)
        ids = torch.tensor([[4, 5, 6]])
        logits[variant.name] = model(ids, ids)
    assert torch.allclose(logits[SMALL_START], logits[DIVIDED], atol=1e-5)
    assert not torch.allclose(logits[UNDIVIDED], logits[DIVIDED], atol=1e-5)
