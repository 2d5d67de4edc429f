"""The block of the family's models, assembled from attention and a feed-forward network."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, check_mask, padding_mask
from tfmr.config import Norm
from tfmr.errors import require
from tfmr.kv_cache import BlockCache
from tfmr.layers import FeedForward, LayerNorm, Residual, RMSNorm


def key_mask(
    attention_mask: Bool[Tensor, "batch length"] | None, shape: tuple[int, ...]
) -> Bool[Tensor, "batch 1 1 length"] | None:
    """``attention_mask``, ``True`` for real tokens, in the shape that :func:`padding_mask` returns.

    ``None`` hides nothing. The family marks padding in this way, because its vocabularies have
    different ids for it.

    Raises:
        TfmrError: if the mask is not boolean, has another ``shape`` than the ids, or (on a CPU)
            has a row without a real token.
    """
    if attention_mask is None:
        return None
    check_mask(attention_mask)
    require(
        attention_mask.shape == shape,
        f"attention_mask must be {tuple(shape)}, like the ids: got {tuple(attention_mask.shape)}",
    )
    return padding_mask(attention_mask.long())


class Block(nn.Module):
    """Self-attention, cross-attention if given, and a feed-forward network.

    Args:
        attention: the self-attention.
        feed_forward: the feed-forward network.
        cross_attention: the attention to an encoder output.
        dropout, norm, eps, norm_class: those of :class:`tfmr.layers.Residual`.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        *,
        cross_attention: MultiHeadAttention | None = None,
        dropout: float = 0.0,
        norm: Norm = "pre",
        eps: float = 1e-5,
        norm_class: type[LayerNorm | RMSNorm] = LayerNorm,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.residuals = nn.ModuleList(
            Residual(attention.d_model, dropout, norm, eps, norm_class)
            for _ in range(2 if cross_attention is None else 3)
        )

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        memory: Float[Tensor, "batch source d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "heads length key"] | None = None,
        is_causal: bool = False,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply the sublayers; the arguments are those of :class:`tfmr.decoder.DecoderBlock`.

        ``bias`` is added to the scores of the self-attention.
        """
        own = None if cache is None else cache.self_attention
        x = self.residuals[0](
            x, lambda y: self.attention(y, mask=mask, bias=bias, is_causal=is_causal, cache=own)
        )
        if self.cross_attention is not None:
            cross, cross_cache = self.cross_attention, cache and cache.cross_attention
            x = self.residuals[1](
                x, lambda y: cross(y, memory, mask=memory_mask, cache=cross_cache)
            )
        out: Tensor = self.residuals[-1](x, self.feed_forward)
        return out
