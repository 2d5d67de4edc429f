"""A Transformer prepared for fast decoding, in fp32 or bf16.

In fp32 the logits are those of the readable decoder up to rounding; in bf16 they have 8 bits of
mantissa.

Compared with :meth:`tfmr.model.Transformer.step`:

- The hypotheses of a sentence are parallel queries, ``(sentences, heads, beam, d_k)``. The keys and
  values of the encoder output are stored once per sentence, for any beam size.
- When hypotheses are dropped and others branch, no key or value is copied. Every key stays in its
  slot, and a mask, the *ancestry*, hides the slots that are not in the prefix of a hypothesis.
- The weights are prepacked (:mod:`tfmr.fast.prepack`), and multiplied in bf16 where that is faster.
- Sentences are encoded in buckets of similar length, which contain little padding.
"""

import copy
import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.attention import (
    MultiHeadAttention,
    fused_attention,
    mask_to_bias,
    padding_mask,
    unfused_attention,
)
from tfmr.checks import check_ids, check_start, check_state, embed
from tfmr.config import TransformerConfig
from tfmr.decoder import DecoderBlock
from tfmr.dtype import find_units
from tfmr.encoder import EncoderBlock
from tfmr.fast.graph_state import Buffers, GraphDecoder, GraphState
from tfmr.fast.prepack import concatenated, prepacked_linear
from tfmr.fast.settings import SMALL_MODEL
from tfmr.kv_cache import BlockCache, KVCache
from tfmr.layers import FeedForward, LayerNorm, Residual
from tfmr.model import Transformer
from tfmr.translator import DecoderState, IncrementalTranslator, Translator

BUCKET = 32
"""Sentences that are encoded together: few enough to have similar lengths."""


def prepare(model: Translator, dtype: torch.dtype | None = None) -> IncrementalTranslator:
    """A snapshot of ``model`` for fast decoding; later changes of the model do not affect it.

    Only a :class:`tfmr.model.Transformer` has a faster form. Any other model is copied.

    Args:
        model: a trained model; the snapshot is in evaluation mode.
        dtype: that of matrix multiplications. If not given, the dtype of the weights, or bf16 for
            a Transformer with more than :data:`tfmr.fast.settings.SMALL_MODEL` fp32 weights on a
            CPU with bf16 instructions. For a smaller one, the conversion takes as long as it saves.
    """
    weight = model.output.weight
    if not isinstance(model, Transformer):
        return copy.deepcopy(model).eval().requires_grad_(False).to(dtype or weight.dtype)
    if dtype is None:
        dtype = weight.dtype
        large = model.count_parameters() > SMALL_MODEL
        if weight.device.type == "cpu" and dtype == torch.float32 and large:
            dtype = torch.bfloat16 if find_units(weight.device).bf16 else dtype
    return FastTransformer(model, dtype)


class FastTransformer:
    """An :class:`tfmr.translator.IncrementalTranslator` made from a Transformer by :func:`prepare`.

    Args:
        model: the model, which is copied.
        dtype: that of matrix multiplications. The residual stream, attention scores, softmax and
            layer norms stay in the dtype of the weights.
    """

    training = False

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self._model = copy.deepcopy(model).eval().requires_grad_(False)
        self.dtype = dtype
        decoder = self._model.decoder
        blocks = cast(list[DecoderBlock], list(decoder.blocks))
        self._encoder_blocks = [
            _FastEncoderBlock(cast(EncoderBlock, block), dtype)
            for block in self._model.encoder.blocks
        ]
        self._decoder_blocks = [_FastDecoderBlock(block, dtype) for block in blocks]
        self._project_memory = concatenated(
            [w for b in blocks for w in (b.cross_attention.w_k, b.cross_attention.w_v)], dtype
        )
        self._output = prepacked_linear(self._model.output.weight, self._model.output.bias, dtype)
        self._graphs: GraphDecoder | None = None
        if self.device.type == "cuda":
            logits = self._model.output.weight[:, 0].to(dtype)
            self._graphs = GraphDecoder(self._next, logits)

    @property
    def config(self) -> TransformerConfig:
        """The hyperparameters of the model."""
        return self._model.config

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self._model.device

    def count_parameters(self) -> int:
        """The number of parameters of the model; a tied matrix counts once."""
        return self._model.count_parameters()

    def alignment(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target source"]:
        """See :meth:`tfmr.model.Transformer.alignment`."""
        return self._model.alignment(source, target)

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> "FastState | GraphState":
        """See :meth:`tfmr.model.Transformer.start`."""
        check_start(self.config.max_length, source, max_new_tokens, beam)
        memory, mask = encode_bucketed(self._encode, source)
        cross = self._project_memory_kv(memory)
        if self._graphs is not None:
            return self._graphs.start(cross, mask, max_new_tokens, beam)
        caches = [BlockCache(KVCache(max_new_tokens * beam), _filled(k, v)) for k, v in cross]
        return FastState(caches, mask, memory.dtype, beam)

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """See :meth:`tfmr.model.Transformer.step`; the logits are in :attr:`dtype`.

        On a GPU, the next step overwrites the logits.
        """
        check_ids(tokens, "tokens", "rows")
        if self._graphs is not None:
            return check_state(state, GraphState).step(tokens)
        return self._next(tokens, check_state(state, FastState))

    def _next(
        self, tokens: Int[Tensor, "rows"], state: "FastState | Buffers"
    ) -> Float[Tensor, "rows vocab"]:
        model = self._model
        x = embed(model.target_embedding, tokens.unsqueeze(1), "target")
        x = x * math.sqrt(self.config.d_model)
        if model.position is not None:
            x = model.position(x, state.position)
        x = x.squeeze(1)
        state.append_position(len(tokens))
        for block, cache in zip(self._decoder_blocks, state.caches, strict=True):
            x = block(x, cache, state)
        state.position += 1
        return self._output(model.decoder.norm(x))

    def _encode(
        self, source: Int[Tensor, "sentences source"]
    ) -> tuple[Float[Tensor, "sentences source d_model"], Bool[Tensor, "sentences 1 1 source"]]:
        mask = padding_mask(source)
        x = self._model._embed(self._model.source_embedding, source, "source")
        for block in self._encoder_blocks:
            x = block(x, mask)
        memory: Tensor = self._model.encoder.norm(x)
        return memory, mask

    def _project_memory_kv(
        self, memory: Float[Tensor, "sentences source d_model"]
    ) -> Float[Tensor, "block kv sentences heads source d_k"]:
        """The keys and values of the encoder output for every block, from one matmul."""
        return rearrange(
            self._project_memory(memory).to(memory.dtype),
            "sentences source (block kv heads d_k) -> block kv sentences heads source d_k",
            block=len(self._decoder_blocks),
            kv=2,
            heads=self.config.n_heads,
        )


class FastState:
    """The state of incremental decoding: a :class:`tfmr.translator.DecoderState`.

    Args:
        caches: of every block. Those of the cross-attention are filled; those of the self-attention
            have ``beam`` slots per position, one for each hypothesis of a sentence.
        mask: hides the padding of the encoder output.
        dtype: of the attention scores.
        beam: hypotheses per sentence.
    """

    def __init__(
        self,
        caches: list[BlockCache],
        mask: Bool[Tensor, "sentences 1 1 source"],
        dtype: torch.dtype,
        beam: int,
    ) -> None:
        self.caches = caches
        self.beam = beam
        self.position = 0
        self.padding: Float[Tensor, "sentences 1 1 source"] | None = None
        """Bias of the cross-attention scores: -inf at padding."""
        if mask.device.type != "cpu" or not mask.all():
            self.padding = mask_to_bias(mask, dtype)
        self.ancestry: Float[Tensor, "sentences 1 beam slot"] | None = None
        """Bias of the self-attention scores: -inf at slots outside the prefix of a hypothesis. A
        single hypothesis attends to every slot and needs none."""
        own_slot = torch.eye(beam, dtype=torch.bool, device=mask.device)
        self._own_slot = mask_to_bias(own_slot, dtype)

    def append_position(self, rows: int) -> None:
        """Let each hypothesis attend to its own slot of the position that is decoded next."""
        if self.beam == 1:
            return
        own = self._own_slot.expand(rows // self.beam, 1, -1, -1)
        self.ancestry = own if self.ancestry is None else torch.cat([self.ancestry, own], dim=-1)

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences only, in this order, with all their hypotheses."""
        for cache in self.caches:
            cache.select(sentences)
        if self.padding is not None:
            self.padding = self.padding[sentences]
        if self.ancestry is not None:
            self.ancestry = self.ancestry[sentences]

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Continue hypothesis ``j`` of sentence ``i`` from its hypothesis ``parents[i, j]``."""
        if self.ancestry is not None:
            self.ancestry = self.ancestry.take_along_dim(parents[:, None, :, None], dim=2)


class _FastFeedForward:
    def __init__(self, feed_forward: FeedForward, dtype: torch.dtype) -> None:
        self._activation = feed_forward.activation
        self._expand = prepacked_linear(feed_forward.expand.weight, feed_forward.expand.bias, dtype)
        self._contract = prepacked_linear(
            feed_forward.contract.weight, feed_forward.contract.bias, dtype
        )

    def __call__(self, x: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        return self._contract(self._activation(self._expand(x)))


class _FastEncoderBlock:
    """:class:`tfmr.encoder.EncoderBlock` with prepacked weights."""

    def __init__(self, block: EncoderBlock, dtype: torch.dtype) -> None:
        attention = block.attention
        self._residuals = cast(list[Residual], list(block.residuals))
        self._heads, self._rotary = attention.n_heads, attention.rotary
        self._project = concatenated([attention.w_q, attention.w_k, attention.w_v], dtype)
        self._join = prepacked_linear(attention.w_o.weight, attention.w_o.bias, dtype)
        self._feed_forward = _FastFeedForward(block.feed_forward, dtype)

    def __call__(
        self,
        x: Float[Tensor, "sentences source d_model"],
        mask: Bool[Tensor, "sentences 1 1 source"],
    ) -> Float[Tensor, "sentences source d_model"]:
        attention_residual, feed_forward_residual = self._residuals
        x = _with_residual(attention_residual, x, lambda y: self._attend(y, mask))
        return _with_residual(feed_forward_residual, x, self._feed_forward)

    def _attend(
        self,
        x: Float[Tensor, "sentences source d_model"],
        mask: Bool[Tensor, "sentences 1 1 source"],
    ) -> Float[Tensor, "sentences source d_model"]:
        q, k, v = rearrange(
            self._project(x).to(x.dtype),
            "sentences source (qkv heads d_k) -> qkv sentences heads source d_k",
            qkv=3,
            heads=self._heads,
        )
        if self._rotary is not None:
            q, k = self._rotary(q, 0), self._rotary(k, 0)
        heads = fused_attention(q, k, v, mask)
        return self._join(
            rearrange(heads, "sentences heads source d_k -> sentences source (heads d_k)")
        )


class _FastDecoderBlock:
    """:class:`tfmr.decoder.DecoderBlock` with prepacked weights, for one position per step."""

    def __init__(self, block: DecoderBlock, dtype: torch.dtype) -> None:
        own, cross = block.self_attention, block.cross_attention
        self._residuals = cast(list[Residual], list(block.residuals))
        self._heads = _head_shape(own)
        self._rotary = own.rotary
        self._project_self = concatenated([own.w_q, own.w_k, own.w_v], dtype)
        self._join_self = prepacked_linear(own.w_o.weight, own.w_o.bias, dtype)
        self._project_query = prepacked_linear(cross.w_q.weight, cross.w_q.bias, dtype)
        self._join_cross = prepacked_linear(cross.w_o.weight, cross.w_o.bias, dtype)
        self._feed_forward = _FastFeedForward(block.feed_forward, dtype)

    def __call__(
        self, x: Float[Tensor, "rows d_model"], cache: BlockCache, state: FastState | Buffers
    ) -> Float[Tensor, "rows d_model"]:
        self_residual, cross_residual, feed_forward_residual = self._residuals
        x = _with_residual(self_residual, x, lambda y: self._self_attention(y, cache, state))
        x = _with_residual(cross_residual, x, lambda y: self._cross_attention(y, cache, state))
        return _with_residual(feed_forward_residual, x, self._feed_forward)

    def _self_attention(
        self, x: Float[Tensor, "rows d_model"], cache: BlockCache, state: FastState | Buffers
    ) -> Float[Tensor, "rows d_model"]:
        projected = self._project_self(x).to(x.dtype).view(-1, state.beam, 3, *self._heads)
        q, k, v = projected.permute(2, 0, 3, 1, 4).unbind()
        if self._rotary is not None:
            # The hypotheses of a sentence are parallel queries at one position.
            q = self._rotary(q.unsqueeze(3), state.position).squeeze(3)
            k = self._rotary(k.unsqueeze(3), state.position).squeeze(3)
        heads = _attend(q, *cache.self_attention.extend(k, v), state.ancestry)
        return self._join_self(heads.transpose(1, 2).reshape(x.shape))

    def _cross_attention(
        self, x: Float[Tensor, "rows d_model"], cache: BlockCache, state: FastState | Buffers
    ) -> Float[Tensor, "rows d_model"]:
        projected = self._project_query(x).to(x.dtype).view(-1, state.beam, *self._heads)
        heads = _attend(projected.transpose(1, 2), *cache.cross_attention.read(), state.padding)
        return self._join_cross(heads.transpose(1, 2).reshape(x.shape))


def encode_bucketed(
    encode: Callable[[Tensor], tuple[Tensor, Tensor]],
    source: Int[Tensor, "sentences source"],
) -> tuple[Float[Tensor, "sentences source d_model"], Bool[Tensor, "sentences 1 1 source"]]:
    """The encoder output and its mask, computed on a CPU in buckets of similar length.

    Each bucket of :data:`BUCKET` sentences is cut to its longest one, so that less padding is
    encoded. The encoder output at padding is zero; no query attends to it.
    """
    if len(source) <= BUCKET or source.device.type != "cpu":
        return encode(source)
    mask = padding_mask(source)
    lengths = (mask.flatten(1) * torch.arange(1, source.shape[1] + 1)).amax(dim=1)
    buckets = lengths.argsort(descending=True, stable=True).split(BUCKET)
    encoded = [encode(source[rows, : lengths[rows[0]]])[0] for rows in buckets]
    memory = encoded[0].new_zeros(*source.shape, encoded[0].shape[2])
    for rows, part in zip(buckets, encoded, strict=True):
        memory[rows, : part.shape[1]] = part
    return memory, mask


def _attend(
    q: Float[Tensor, "sentences heads query d_k"],
    k: Float[Tensor, "sentences heads key d_k"],
    v: Float[Tensor, "sentences heads key d_k"],
    bias: Float[Tensor, "sentences 1 _ key"] | None,
) -> Float[Tensor, "sentences heads query d_k"]:
    """Attention of a few queries.

    On a CPU the fused kernel takes up to ten times as long as separate matmuls, except for
    one query of one sentence.
    """
    single_query = len(q) == q.shape[2] == 1
    if single_query or q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return unfused_attention(q, k, v, bias=bias)[0]


def _with_residual(
    residual: Residual,
    x: Float[Tensor, "*rows d_model"],
    sublayer: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*rows d_model"]:
    """:meth:`tfmr.layers.Residual.forward` without dropout, hooks and the cost of module calls."""
    norm = cast(LayerNorm, residual.norm)
    if residual.pre_norm:
        return x + sublayer(_layer_norm(norm, x))
    return _layer_norm(norm, x + sublayer(x))


def _layer_norm(
    norm: LayerNorm, x: Float[Tensor, "*rows d_model"]
) -> Float[Tensor, "*rows d_model"]:
    return F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, norm.eps)


def _filled(
    k: Float[Tensor, "sentences heads source d_k"], v: Float[Tensor, "sentences heads source d_k"]
) -> KVCache:
    cache = KVCache(k.shape[2])
    cache.extend(k, v)
    return cache


def _head_shape(attention: MultiHeadAttention) -> tuple[int, int]:
    return attention.n_heads, attention.d_model // attention.n_heads
