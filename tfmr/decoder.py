"""The decoder: causal self-attention, cross-attention to the encoder output, feed-forward."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, Rotary
from tfmr.config import BlockConfig
from tfmr.kv_cache import BlockCache, new_caches
from tfmr.layers import FeedForward, Residual, final_norm


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention and a feed-forward network, each with a residual
    connection.

    Vaswani et al. (2017), section 3.1 and the right half of figure 1.

    Args:
        config: sizes, dropout, norm and activation.
        rotary: rotary positions for the self-attention.
    """

    def __init__(self, config: BlockConfig, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads, rotary=rotary)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(
            Residual(config.d_model, config.dropout, config.norm, config.eps) for _ in range(3)
        )

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Apply the three sublayers.

        Args:
            x: the target positions, or with a ``cache`` the positions after the cached ones.
            memory: the encoder output, which the cross-attention projects to keys and values.
            mask: for the self-attention, ``True`` where a position may attend.
            is_causal: hide later positions from the self-attention without building a mask.
            memory_mask: for the cross-attention, hides the padding of the source.
            cache: the keys and values of earlier steps.
        """
        self_cache = None if cache is None else cache.self_attention
        cross_cache = None if cache is None else cache.cross_attention
        self_residual, cross_residual, feed_forward_residual = self.residuals
        x = self_residual(
            x, lambda y: self.self_attention(y, mask=mask, is_causal=is_causal, cache=self_cache)
        )
        x = cross_residual(
            x, lambda y: self.cross_attention(y, memory, mask=memory_mask, cache=cross_cache)
        )
        x = feed_forward_residual(x, self.feed_forward)
        return x


class Decoder(nn.Module):
    """A stack of decoder blocks, with a final layer norm if the blocks are pre-norm.

    Args:
        config: the hyperparameters of every block.
        n_layers: number of blocks, six in the paper.
        rotary: rotary positions for the self-attention of every block.
    """

    def __init__(self, config: BlockConfig, n_layers: int, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(DecoderBlock(config, rotary=rotary) for _ in range(n_layers))
        self.norm = final_norm(config.d_model, config.norm, config.eps)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Map embeddings with positions to the vectors from which the next tokens are predicted.

        The arguments are those of :meth:`DecoderBlock.forward`; ``caches`` has one per block.
        """
        for index, block in enumerate(self.blocks):
            x = block(
                x,
                memory,
                mask=mask,
                is_causal=is_causal,
                memory_mask=memory_mask,
                cache=None if caches is None else caches[index],
            )
        out: Tensor = self.norm(x)
        return out

    def new_caches(self, target: int, source: int) -> list[BlockCache]:
        """Empty caches, one per block, for at most ``target`` and ``source`` positions."""
        return new_caches(len(self.blocks), target, source)
