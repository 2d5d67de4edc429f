"""A current decoder-only model: what changed in the Transformer since 2017."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention
from tfmr.config import Norm, check_choice, check_dropout, check_positive
from tfmr.errors import require
from tfmr.family.blocks import Block
from tfmr.family.language_model import LanguageModel
from tfmr.family.pretrained import Rename, Settings, copy_weights, read_checkpoint
from tfmr.layers import FeedForward, LayerNorm, RMSNorm, final_norm
from tfmr.position import RotaryPosition

NormKind = Literal["rms", "layer"]
Inner = Literal["swiglu", "gelu", "relu"]
Positions = Literal["rotary", "learned"]


@dataclass(frozen=True)
class RopeScaling:
    """Slower rotations of the low frequencies, for texts longer than those of the first training.

    Llama 3.1 to 3.3 extend their maximum length in this way, with the default values here.
    Frequencies with many rotations within ``original_max_length`` are kept, and those with few are
    divided by ``factor``. Those between are interpolated, as in the method NTK-by-parts of Peng et
    al. (2023), section 3.2.

    Raises:
        TfmrError: if a value is out of range.
    """

    factor: float = 8.0
    """Divisor of the low frequencies."""
    low_freq_factor: float = 1.0
    """A frequency with at most this many rotations within ``original_max_length`` is low."""
    high_freq_factor: float = 4.0
    """A frequency with at least this many rotations is kept."""
    original_max_length: int = 8192
    """Maximum number of tokens of the first training."""

    def __post_init__(self) -> None:
        check_positive(self, "original_max_length")
        require(
            self.factor >= 1 and 0 < self.low_freq_factor < self.high_freq_factor,
            "expected a factor of at least 1 and 0 < low_freq_factor < high_freq_factor, got "
            f"factor={self.factor}, low_freq_factor={self.low_freq_factor}, "
            f"high_freq_factor={self.high_freq_factor}",
        )

    def __call__(self, omega: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
        """The scaled frequencies, in radians per position."""
        rotations = self.original_max_length * omega / (2 * math.pi)
        width = self.high_freq_factor - self.low_freq_factor
        kept = ((rotations - self.low_freq_factor) / width).clamp(0, 1)
        return omega * (kept + (1 - kept) / self.factor)


@dataclass(frozen=True)
class LlamaConfig:
    """The hyperparameters of :class:`Llama`; every change since 2017 can be undone separately.

    The default sizes are those of Llama 3 with 8 billion parameters (Grattafiori et al., 2024,
    table 3); :meth:`original` undoes all changes.

    Raises:
        TfmrError: if a value is out of range or two values are incompatible.
    """

    vocab: int = 128256
    """Number of tokens, special tokens included."""
    d_model: int = 4096
    """Size of the vectors of the residual stream."""
    n_layers: int = 32
    """Number of blocks."""
    n_heads: int = 32
    """Number of query heads."""
    n_kv_heads: int = 8
    """Number of key heads and of value heads; ``n_heads`` for multi-head attention."""
    d_ff: int = 14336
    """Inner size of the feed-forward networks."""
    max_length: int = 8192
    """Maximum number of tokens of a text."""
    dropout: float = 0.0
    """Dropout probability."""
    norm: Norm = "pre"
    """Position of the norms: ``"post"`` in 2017."""
    norm_kind: NormKind = "rms"
    """Kind of the norms: ``"layer"`` in 2017."""
    inner: Inner = "swiglu"
    """Feed-forward network: ``"relu"`` in 2017."""
    position: Positions = "rotary"
    """Positional encoding: rotary or learned."""
    bias: bool = False
    """Whether the linear layers of the blocks have biases; in 2017, those of attention had none."""
    tied: bool = False
    """Whether the output projection is the transposed embedding: ``True`` in 2017."""
    rope_base: float = 500000.0
    """Base of the wavelengths of rotary positions."""
    rope_scaling: RopeScaling | None = None
    """Slower rotations for long texts; ``None`` for none."""
    eps: float = 1e-5
    """Added to the mean square or variance in every norm."""

    def __post_init__(self) -> None:
        names = ("vocab", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_length")
        check_positive(self, *names)
        check_dropout(self.dropout)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("norm_kind", self.norm_kind, get_args(NormKind))
        check_choice("inner", self.inner, get_args(Inner))
        check_choice("position", self.position, get_args(Positions))
        require(
            self.d_model % self.n_heads == 0 and self.n_heads % self.n_kv_heads == 0,
            "expected n_heads to divide d_model and n_kv_heads to divide n_heads, got "
            f"d_model={self.d_model}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}",
        )
        require(
            self.position != "rotary" or self.d_model % (2 * self.n_heads) == 0,
            "rotary positions need an even d_model / n_heads, because they act on pairs of "
            f"dimensions: got d_model={self.d_model}, n_heads={self.n_heads}",
        )

    def original(self) -> "LlamaConfig":
        """The same sizes with the block of 2017 and learned positions."""
        return replace(
            self,
            n_kv_heads=self.n_heads,
            norm="post",
            norm_kind="layer",
            inner="relu",
            position="learned",
            bias=True,
            tied=True,
        )


class Llama(LanguageModel):
    """RMSNorm, SwiGLU, rotary positions, grouped-query attention and no biases.

    Touvron et al. (2023), section 2.2, with the grouped-query attention of Ainslie et al. (2023).

    Args:
        config: the hyperparameters.
    """

    def __init__(self, config: LlamaConfig) -> None:
        rotary, position = None, None
        if config.position == "rotary":
            d_k = config.d_model // config.n_heads
            rotary = RotaryPosition(d_k, config.max_length, config.rope_base, config.rope_scaling)
        else:
            position = nn.Embedding(config.max_length, config.d_model)
        norm_class = RMSNorm if config.norm_kind == "rms" else LayerNorm
        gated = config.inner == "swiglu"

        def block() -> Block:
            return Block(
                MultiHeadAttention(
                    config.d_model,
                    config.n_heads,
                    n_kv_heads=config.n_kv_heads,
                    bias=config.bias,
                    rotary=rotary,
                ),
                FeedForward(
                    config.d_model,
                    config.d_ff,
                    F.silu if config.inner == "swiglu" else config.inner,
                    gated=gated,
                    bias=config.bias,
                ),
                dropout=config.dropout,
                norm=config.norm,
                eps=config.eps,
                norm_class=norm_class,
            )

        super().__init__(
            vocab=config.vocab,
            max_length=config.max_length,
            d_model=config.d_model,
            blocks=(block() for _ in range(config.n_layers)),
            norm=final_norm(config.d_model, config.norm, config.eps, norm_class),
            position=position,
            tied=config.tied,
            dropout=config.dropout,
        )
        self.config = config

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Llama":
        """The model in a folder that ``LlamaForCausalLM.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a Llama, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "llama")
        rope = Settings(
            {"rope_theta": config.get("rope_theta", 10000.0)}
            | config.get("rope_scaling", {})
            | config.get("rope_parameters", {})
        )
        d_model, n_heads = config["hidden_size"], config["num_attention_heads"]
        config.expect(
            hidden_act="silu",
            attention_bias=False,
            mlp_bias=False,
            head_dim=d_model // n_heads,
            is_encoder_decoder=False,
        )
        scaling = None
        if rope.get("rope_type", rope.get("type")) == "llama3":  # "type" in older configurations
            scaling = RopeScaling(
                factor=rope["factor"],
                low_freq_factor=rope["low_freq_factor"],
                high_freq_factor=rope["high_freq_factor"],
                original_max_length=rope["original_max_position_embeddings"],
            )
        else:
            rope.expect(rope_type="default", type="default")
        rope.expect(partial_rotary_factor=1.0)
        settings = LlamaConfig(
            vocab=config["vocab_size"],
            d_model=d_model,
            n_layers=config["num_hidden_layers"],
            n_heads=n_heads,
            n_kv_heads=config.get("num_key_value_heads") or n_heads,
            d_ff=config["intermediate_size"],
            max_length=config["max_position_embeddings"],
            tied=config["tie_word_embeddings"],
            rope_base=rope["rope_theta"],
            rope_scaling=scaling,
            eps=config["rms_norm_eps"],
        )
        rope.finish()
        config.finish("pretraining_tp")
        tensors = {
            name: interleave_pairs(tensor, d_model // n_heads) if _is_rotated(name) else tensor
            for name, tensor in tensors.items()
        }
        return copy_weights(cls(settings), tensors, NAMES, folder)


def _is_rotated(name: str) -> bool:
    """Whether ``name`` is the projection of queries or keys, whose outputs are rotated."""
    return name.endswith(("q_proj.weight", "k_proj.weight"))


def interleave_pairs(
    weight: Float[Tensor, "out d_model"], d_k: int
) -> Float[Tensor, "out d_model"]:
    """Reorder the rows of each head so that the two dimensions of a rotary pair are adjacent.

    Hugging Face pairs dimension ``i`` with ``i + d_k / 2``; :class:`tfmr.position.RotaryPosition`
    and the paper pair ``2i`` with ``2i + 1``. The order of the dimensions within a head does not
    change its dot products.
    """
    return rearrange(
        weight, "(heads two half) d_model -> (heads half two) d_model", two=2, half=d_k // 2
    )


NAMES = [
    Rename(r"^model\.", ""),
    Rename(r"^lm_head", "output"),
    Rename(r"^embed_tokens", "embedding"),
    Rename(r"^layers", "blocks"),
    Rename(r"self_attn\.(.)_proj", r"attention.w_\1"),
    Rename(r"mlp\.gate_proj", "feed_forward.gate"),
    Rename(r"mlp\.up_proj", "feed_forward.expand"),
    Rename(r"mlp\.down_proj", "feed_forward.contract"),
    Rename(r"input_layernorm", "residuals.0.norm"),
    Rename(r"post_attention_layernorm", "residuals.1.norm"),
]
"""Names of weights in the checkpoints of Hugging Face, and here."""
