"""Small models of the family and of Hugging Face with the same weights."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tfmr.family import GPT, T5, Bert, Llama, ViT

VOCAB = 30
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}

OWN = {"bert": Bert, "gpt2": GPT, "t5": T5, "vit": ViT, "llama": Llama}
"""Our class for each model type."""
THEIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", {
        **SIZES, "vocab_size": VOCAB, "intermediate_size": 16, "max_position_embeddings": 12,
    }),
    "gpt2": ("GPT2LMHeadModel", {
        "vocab_size": VOCAB, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 12,
        "bos_token_id": 0, "eos_token_id": 0,
    }),
    "t5": ("T5ForConditionalGeneration", {
        "vocab_size": VOCAB, "d_model": 12, "d_kv": 5, "d_ff": 16, "num_layers": 2,
        "num_decoder_layers": 3, "num_heads": 3, "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 9,
    }),
    "vit": ("ViTForImageClassification", {
        **SIZES, "intermediate_size": 16, "image_size": 8, "patch_size": 2, "num_channels": 2,
        "num_labels": 5,
    }),
    "llama": ("LlamaForCausalLM", {
        "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 16, "max_position_embeddings": 12,
    }),
}  # fmt: skip
"""The class of Hugging Face for each model type, and the settings of a small model."""


def theirs(kind: str, name: str = "", **settings: Any) -> Any:
    """An untrained model of Hugging Face, of the class ``name`` if it is given.

    ``settings`` replace those of :data:`THEIRS`. The library is imported here, because each process
    of the tests imports this module, and few use it.
    """
    import transformers

    own_name, sizes = THEIRS[kind]
    model = getattr(transformers, name or own_name)
    return model(model.config_class(**sizes | settings)).eval()


def make_pair(kind: str, folder: Path, **settings: Any) -> tuple[nn.Module, Any]:
    """A model of Hugging Face with random weights, and ours read from the folder it was saved to.

    Biases of 0 and weights of 1 would hide faults, so every parameter is random.
    Parameters of the default floating-point type are saved and read without rounding.
    """
    torch.manual_seed(0)
    other = theirs(kind, **settings)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.normal_(std=0.3)
    other.save_pretrained(folder)
    return OWN[kind].from_pretrained(folder), other
