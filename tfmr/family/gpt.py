"""GPT: a decoder without an encoder that predicts the next token of a text."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch.nn.functional as F
from torch import nn

from tfmr.attention import MultiHeadAttention
from tfmr.config import BlockConfig, check_positive
from tfmr.family.blocks import Block
from tfmr.family.language_model import LanguageModel
from tfmr.family.pretrained import Rename, copy_weights, read_checkpoint, split_columns
from tfmr.layers import FeedForward, LayerNorm

GELU_TANH = partial(F.gelu, approximate="tanh")
"""GELU by its approximation with tanh."""


@dataclass(frozen=True)
class GPTConfig(BlockConfig):
    """The hyperparameters of :class:`GPT`; the defaults are those of the smallest GPT-2.

    Radford et al. (2019), table 2.
    """

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    vocab: int = 50257
    """Number of tokens, special tokens included."""
    n_layers: int = 12
    """Number of blocks."""
    max_length: int = 1024
    """Maximum number of tokens of a text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "vocab", "n_layers", "max_length")


class GPT(LanguageModel):
    """The decoder of chapter 9 without cross-attention, with pre-norm, GELU and learned positions.

    Radford et al. (2019), section 2.3, without its smaller initial weights of the residual layers.
    GELU is computed by its approximation with tanh, as in the authors' code.

    Args:
        config: the hyperparameters.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(
            vocab=config.vocab,
            max_length=config.max_length,
            d_model=config.d_model,
            blocks=(
                Block(
                    MultiHeadAttention(config.d_model, config.n_heads),
                    FeedForward(config.d_model, config.d_ff, GELU_TANH),
                    dropout=config.dropout,
                    eps=config.eps,
                )
                for _ in range(config.n_layers)
            ),
            norm=LayerNorm(config.d_model, config.eps),
            position=nn.Embedding(config.max_length, config.d_model),
            tied=True,
            dropout=config.dropout,
        )
        self.config = config

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "GPT":
        """The model in a folder that ``GPT2LMHeadModel.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a GPT-2, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "gpt2")
        config.expect(
            activation_function="gelu_new",
            scale_attn_weights=True,
            scale_attn_by_inverse_layer_idx=False,
            tie_word_embeddings=True,
            is_encoder_decoder=False,
            add_cross_attention=False,
        )
        d_model = config["n_embd"]
        settings = GPTConfig(
            d_model=d_model,
            n_heads=config["n_head"],
            d_ff=config.get("n_inner") or 4 * d_model,
            dropout=config["resid_pdrop"],
            vocab=config["vocab_size"],
            n_layers=config["n_layer"],
            max_length=config["n_positions"],
            eps=config["layer_norm_epsilon"],
        )
        config.finish(
            "n_ctx",
            "reorder_and_upcast_attn",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        )
        # Its linear layers store the transposed matrix, and one layer projects to q, k and v.
        tensors = {
            name: tensor.t() if ".attn.c_" in name or ".mlp.c_" in name else tensor
            for name, tensor in tensors.items()
        }
        tensors = split_columns(tensors, "attn.c_attn", ("attn.w_q", "attn.w_k", "attn.w_v"))
        return copy_weights(cls(settings), tensors, NAMES, folder)


NAMES = [
    Rename(r"^transformer\.", ""),
    Rename(r"^wte", "embedding"),
    Rename(r"^wpe", "position"),
    Rename(r"^ln_f", "norm"),
    Rename(r"^h\.", "blocks."),
    Rename(r"ln_1", "residuals.0.norm"),
    Rename(r"ln_2", "residuals.1.norm"),
    Rename(r"attn\.c_proj", "attention.w_o"),
    Rename(r"attn\.w_", "attention.w_"),
    Rename(r"mlp\.c_fc", "feed_forward.expand"),
    Rename(r"mlp\.c_proj", "feed_forward.contract"),
]
"""Names of weights in the checkpoints of Hugging Face, and here."""
