r"""The memory of the activations of the family, predicted by formulas.

As in :mod:`tfmr.training_memory`, the formulas are exact for training in fp32 on a CPU, with the
cross-entropy of all logits and without padding. ``batch`` is the number of texts or images.
"""

from dataclasses import replace

from tfmr.attention import SHORT
from tfmr.family.bert import BertConfig
from tfmr.family.gpt import GPTConfig
from tfmr.family.llama import LlamaConfig
from tfmr.family.t5 import T5Config
from tfmr.family.vit import ViTConfig
from tfmr.training_memory import (
    FLOAT,
    ID,
    attention_weights_formula,
    encoder_block_formula,
    feed_forward_formula,
    norm_formula,
    output_formula,
    self_attention_formula,
)


def gpt_formula(config: GPTConfig, batch: int, length: int) -> int:
    """The ids of tokens and positions, the blocks, the final norm and the logits."""
    c, positions = config, batch * length
    block = encoder_block_formula(replace(c, activation="gelu"), batch, length)
    return (
        ID * (positions + length)
        + _dropped(positions, c.d_model, c.dropout)
        + c.n_layers * block
        + norm_formula(batch, length, c.d_model)
        + output_formula(batch, length, c.d_model, c.vocab)
    )


def bert_formula(config: BertConfig, batch: int, length: int) -> int:
    """The ids of tokens, positions and segments, the blocks, two norms, the head and the logits."""
    c, positions = config, batch * length
    head = 2 * FLOAT * positions * c.d_model  # the inputs of its linear layer and of GELU
    return (
        ID * (2 * positions + length)
        + _dropped(positions, c.d_model, c.dropout)
        + c.n_layers * encoder_block_formula(c, batch, length)
        + head
        + 2 * norm_formula(batch, length, c.d_model)
        + output_formula(batch, length, c.d_model, c.vocab)
    )


def vit_formula(config: ViTConfig, batch: int) -> int:
    """The patches, the blocks, the final norm with its output, and the logits.

    Only the first vector of the output is used, but all of them are kept, in one storage.
    """
    c, length = config, config.n_patches + 1
    return (
        FLOAT * batch * c.channels * c.image_size**2
        + _dropped(batch * length, c.d_model, c.dropout)
        + c.n_layers * encoder_block_formula(c, batch, length)
        + norm_formula(batch, length, c.d_model)
        + FLOAT * batch * (length - 1) * c.d_model
        + output_formula(batch, 1, c.d_model, c.n_classes)
    )


def t5_formula(config: T5Config, batch: int, source: int, target: int) -> int:
    """Both stacks, the encoder output and the logits.

    Self-attention has no fused kernel, because its bias is learned. Each stack keeps the index of
    the range of each distance.
    """
    c = config
    encoder = (
        _t5_attention(c, batch, source, source)
        + FLOAT * batch * c.n_heads * source**2
        + _t5_sublayers(c, batch, source, sublayers=2)
    )
    decoder = (
        _t5_attention(c, batch, target, target)
        + FLOAT * batch * c.n_heads * target**2
        + _t5_attention(c, batch, target, source)
        + attention_weights_formula(batch, c.n_heads, target, source)
        + _t5_sublayers(c, batch, target, sublayers=3)
    )
    total = c.n_encoder * encoder + c.n_decoder * decoder
    for length in (source, target):
        total += ID * length**2
        total += ID * batch * length + rms_norm_formula(batch, length, c.d_model)
        total += 2 * _dropped(batch * length, c.d_model, c.dropout)
    total += FLOAT * batch * source * c.d_model  # the encoder output
    return total + output_formula(batch, target, c.d_model, c.vocab)


def _t5_attention(config: T5Config, batch: int, query: int, key: int) -> int:
    """Queries, keys, values and the concatenated heads."""
    return FLOAT * batch * config.n_heads * (2 * query + 2 * key) * config.d_k


def _t5_sublayers(config: T5Config, batch: int, length: int, *, sublayers: int) -> int:
    """The norm, its output and the dropout of each sublayer, and the feed-forward network."""
    c, positions = config, batch * length
    sublayer = rms_norm_formula(batch, length, c.d_model) + FLOAT * positions * c.d_model
    sublayer += _dropped(positions, c.d_model, c.dropout)
    return sublayers * sublayer + FLOAT * positions * c.d_ff


def llama_formula(config: LlamaConfig, batch: int, length: int) -> int:
    """The ids, the blocks, the final norm and the logits, for each combination of the changes."""
    c, positions = config, batch * length
    norm = (rms_norm_formula if c.norm_kind == "rms" else norm_formula)(batch, length, c.d_model)
    network = (
        swiglu_formula(batch, length, c.d_model, c.d_ff)
        if c.inner == "swiglu"
        else feed_forward_formula(batch, length, c.d_model, c.d_ff, c.inner)
    )
    dropped = _dropped(positions, c.d_model, c.dropout)
    attention = _grouped_query_attention(c, batch, length)
    return (
        ID * (positions + length * (c.position == "learned"))
        + dropped
        + c.n_layers * (attention + network + 2 * (norm + dropped))
        + norm * (c.norm == "pre")
        + output_formula(batch, length, c.d_model, c.vocab)
    )


def _grouped_query_attention(config: LlamaConfig, batch: int, length: int) -> int:
    """As multi-head attention, because each key head is copied for its group of query heads."""
    c = config
    total = self_attention_formula(batch, length, c.d_model, c.n_heads)
    if length > SHORT:
        vectors = FLOAT * batch * length * c.d_model
        if c.position == "rotary" and c.n_heads > 1:
            # The output of the fused kernel has the memory layout of the rotated queries, and the
            # concatenation of the heads is a copy of it.
            total += vectors
        if c.n_kv_heads == 1:
            # The kernel needs no copies of a single key head and a single value head.
            total -= 2 * (vectors - vectors // c.n_heads)
    return total


def rms_norm_formula(batch: int, length: int, d_model: int) -> int:
    """The input of an RMSNorm, a scale per position, and the normalised vectors."""
    return FLOAT * batch * length * (2 * d_model + 1)


def swiglu_formula(batch: int, length: int, d_model: int, d_ff: int) -> int:
    """Its input, the input and output of swish, the other factor, and their product."""
    return FLOAT * batch * length * (d_model + 4 * d_ff)


def _dropped(positions: int, d_model: int, dropout: float) -> int:
    """One byte per number for dropout, if there is any."""
    return positions * d_model * (dropout > 0)
