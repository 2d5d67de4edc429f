r"""The memory of a training step: weights, gradients, optimiser state and activations.

:func:`state_bytes` counts the tensors that remain from step to step, and :func:`activation_bytes`
counts those that autograd stores between the forward and the backward pass. The ``*_formula``
functions predict the second number exactly, for fp32 on a CPU, from the operations of each layer:
every operation stores the tensors from which it computes its gradients. :mod:`tfmr.family.memory`
has those of the model family.

With vectors of :math:`d` components and feed-forward networks of width :math:`d_{ff}` with ReLU, an
encoder block stores per position

.. math:: \underbrace{20\,d}_{\text{attention}} +
          \underbrace{4\,d + 4\,d_{ff}}_{\text{feed-forward network}} +
          \underbrace{2\,(4\,d + 8)}_{\text{layer norm}} + \underbrace{2\,d}_{\text{dropout}}

bytes, and in addition the attention weights.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from tfmr.attention import SHORT
from tfmr.complexity import saved_bytes
from tfmr.config import Activation, BlockConfig, TransformerConfig

FLOAT = 4
"""Bytes of a number in fp32."""
ID = 8
"""Bytes of a token id."""


def state_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """The bytes of weights, gradients and optimiser state, as they are at this moment.

    Before the first step there are no gradients, and an optimiser such as Adam has no state.

    >>> model = nn.Linear(10, 10)
    >>> adam = torch.optim.Adam(model.parameters())
    >>> state_bytes(model, adam)
    {'weights': 440, 'gradients': 0, 'optimiser': 0}
    """
    weights = list(model.parameters())
    state = [
        value
        for weight in weights
        for value in optimizer.state.get(weight, {}).values()
        if isinstance(value, Tensor) and value.dim() > 0
    ]
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return {
        "weights": _bytes(weights),
        "gradients": _bytes(gradients),
        "optimiser": _bytes(state),
    }


def activation_bytes(loss: Callable[[], object], model: nn.Module) -> int:
    """The bytes that autograd stores while ``loss()`` runs, without parameters and buffers.

    Each storage counts once, even if several operations store it. Parameters and buffers of
    ``model`` do not count. Casts of parameters, which autocast makes, do.
    """
    return saved_bytes(loss, exclude=[*model.parameters(), *model.buffers()])


def _bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes of the storages of ``tensors``, which must be different."""
    return sum(x.untyped_storage().nbytes() for x in tensors)


def self_attention_formula(batch: int, length: int, d_model: int, n_heads: int) -> int:
    """The input, queries, keys, values, the concatenated heads, and the attention weights."""
    vectors = 5 * FLOAT * batch * length * d_model
    return vectors + attention_weights_formula(batch, n_heads, length, length)


def cross_attention_formula(batch: int, query: int, key: int, d_model: int, n_heads: int) -> int:
    """As :func:`self_attention_formula`, without the encoder output, which all blocks share."""
    vectors = FLOAT * batch * (3 * query + 2 * key) * d_model
    return vectors + attention_weights_formula(batch, n_heads, query, key)


def attention_weights_formula(batch: int, n_heads: int, query: int, key: int) -> int:
    """Bytes of one number per head, query and key; with the fused kernel, per head and query.

    On a CPU, the package uses the fused kernel for more than :data:`tfmr.attention.SHORT` keys.
    """
    return FLOAT * batch * n_heads * query * (1 if key > SHORT else key)


def feed_forward_formula(
    batch: int, length: int, d_model: int, d_ff: int, activation: Activation = "relu"
) -> int:
    """The inputs of both linear layers; for GELU, the input of GELU as well.

    The gradient of ReLU needs only its output, which is the input of the second layer.
    """
    inner = 1 if activation == "relu" else 2
    return FLOAT * batch * length * (d_model + inner * d_ff)


def residual_formula(batch: int, length: int, d_model: int, *, dropout: bool = True) -> int:
    """What the layer norm stores and, with dropout, one byte per number."""
    return norm_formula(batch, length, d_model) + dropout * batch * length * d_model


def norm_formula(batch: int, length: int, d_model: int) -> int:
    """The input of a layer norm, and a mean and a scale per position."""
    return FLOAT * batch * length * (d_model + 2)


def encoder_block_formula(config: BlockConfig, batch: int, length: int) -> int:
    """A block with self-attention; also one of GPT, BERT or ViT."""
    c = config
    activation: Activation = c.activation
    return (
        self_attention_formula(batch, length, c.d_model, c.n_heads)
        + feed_forward_formula(batch, length, c.d_model, c.d_ff, activation)
        + 2 * residual_formula(batch, length, c.d_model, dropout=c.dropout > 0)
    )


def decoder_block_formula(config: BlockConfig, batch: int, target: int, source: int) -> int:
    """A block with self-attention and cross-attention."""
    return (
        encoder_block_formula(config, batch, target)
        + cross_attention_formula(batch, target, source, config.d_model, config.n_heads)
        + residual_formula(batch, target, config.d_model, dropout=config.dropout > 0)
    )


def output_formula(batch: int, length: int, d_model: int, vocab: int) -> int:
    """The input of the output projection, ``vocab`` log-probabilities per position, and labels."""
    return batch * length * (FLOAT * (d_model + vocab) + ID) + FLOAT


def transformer_formula(config: TransformerConfig, batch: int, source: int, target: int) -> int:
    """The encoder-decoder with its embeddings and with the cross-entropy of all logits."""
    c = config
    positions = batch * (source + target)
    total = positions * (ID + c.d_model * (c.dropout > 0))
    total += c.n_encoder * encoder_block_formula(c, batch, source)
    total += FLOAT * batch * source * c.d_model  # the encoder output
    total += c.n_decoder * decoder_block_formula(c, batch, target, source)
    if source > SHORT:  # the padding mask, which the fused kernel stores as numbers
        total += (c.n_encoder + c.n_decoder) * FLOAT * batch * source
    if c.norm == "pre":
        total += norm_formula(batch, source + target, c.d_model)
    return total + output_formula(batch, target, c.d_model, c.target_vocab)
