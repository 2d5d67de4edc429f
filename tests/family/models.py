"""Small models of the family and of Hugging Face with the same weights."""

from pathlib import Path

import torch
import transformers
from torch import nn

from tfmr.family import GPT, T5, Bert, Llama, ViT

VOCAB = 30
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}

PAIRS = {
    "bert": (
        Bert,
        transformers.BertForMaskedLM,
        transformers.BertConfig(
            vocab_size=VOCAB, intermediate_size=16, max_position_embeddings=12, **SIZES
        ),
    ),
    "gpt2": (
        GPT,
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(
            vocab_size=VOCAB, n_embd=12, n_layer=2, n_head=3, n_positions=12,
            bos_token_id=0, eos_token_id=0,
        ),
    ),
    "t5": (
        T5,
        transformers.T5ForConditionalGeneration,
        transformers.T5Config(
            vocab_size=VOCAB, d_model=12, d_kv=5, d_ff=16, num_layers=2, num_decoder_layers=3,
            num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=9,
        ),
    ),
    "vit": (
        ViT,
        transformers.ViTForImageClassification,
        transformers.ViTConfig(
            intermediate_size=16, image_size=8, patch_size=2, num_channels=2, num_labels=5, **SIZES
        ),
    ),
    "llama": (
        Llama,
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
            num_key_value_heads=2, intermediate_size=16, max_position_embeddings=12,
        ),
    ),
}  # fmt: skip
"""For each model type: our class, that of Hugging Face, and a small configuration of it."""


def make_pair(kind: str, folder: Path, **settings: object) -> tuple[nn.Module, nn.Module]:
    """A model of Hugging Face with random weights, and ours read from the folder it was saved to.

    ``settings`` replace those of the configuration in :data:`PAIRS`.
    Biases of 0 and weights of 1 would hide faults, so every parameter is random.
    Parameters of the default floating-point type are saved and read without rounding.
    """
    own, theirs, config = PAIRS[kind]
    torch.manual_seed(0)
    other = theirs(type(config)(**config.to_dict() | settings)).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.normal_(std=0.3)
    other.save_pretrained(folder)
    return own.from_pretrained(folder), other
