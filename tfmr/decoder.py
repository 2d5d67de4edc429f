"""The decoder: every target position reads those before it, then the source; then it predicts."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import KVCache, MultiHeadAttention, Rotation
from tfmr.layers import Activation, FeedForward, Norm, Residual, final_norm


@dataclass(frozen=True)
class BlockCache:
    """What one decoder block keeps between the steps of a translation."""

    target: KVCache
    """Keys and values of the words already said; one more each step."""
    source: KVCache
    """Keys and values of the memory; filled at the first step."""

    def keep(self, rows: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences of the batch only, in this order."""
        self.target.keep(rows)
        self.source.keep(rows)


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the memory, a feed-forward network; each beside a
    residual path.

    Vaswani et al. (2017), section 3.1 and the right half of figure 1.

    Args:
        d_model: size of the vectors that go in and come out.
        n_heads: number of attention heads.
        d_ff: inner size of the feed-forward network.
        dropout: probability of a zero in each sublayer's output.
        norm: where the norms stand, ``"post"`` (the paper) or ``"pre"``.
        activation: of the feed-forward network.
        rotate: rotary positions for the self-attention.

    Raises:
        TfmrError: if a size or a name does not fit (see the parts).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.1,
        norm: Norm = "post",
        activation: Activation = "relu",
        rotate: Rotation | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, rotate=rotate)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Read the target so far, then the source; ``mask`` hides the future, ``memory_mask`` the
        padding.

        Queries of the cross-attention come from the decoder, keys and values from the encoder's
        memory.
        """
        said = cache.target if cache is not None else None
        heard = cache.source if cache is not None else None
        look_back, look_across, feed = self.residuals
        x = look_back(x, lambda y: self.self_attention(y, mask=mask, cache=said))
        x = look_across(x, lambda y: self.cross_attention(y, memory, mask=memory_mask, cache=heard))
        x = feed(x, self.feed_forward)
        return x


class Decoder(nn.Module):
    """A stack of ``n_layers`` decoder blocks, six in the paper, and a final norm if the blocks are
    pre-norm.

    Args:
        n_layers: number of blocks.
        d_model, n_heads, d_ff, dropout, norm, activation, rotate: see :class:`DecoderBlock`.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.1,
        norm: Norm = "post",
        activation: Activation = "relu",
        rotate: Rotation | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DecoderBlock(
                d_model,
                n_heads,
                d_ff,
                dropout=dropout,
                norm=norm,
                activation=activation,
                rotate=rotate,
            )
            for _ in range(n_layers)
        )
        self.norm = final_norm(d_model, norm)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """From embeddings with positions to the vectors that predict the next word."""
        for index, block in enumerate(self.blocks):
            cache = caches[index] if caches is not None else None
            x = block(x, memory, mask=mask, memory_mask=memory_mask, cache=cache)
        out: Tensor = self.norm(x)
        return out

    def new_caches(self, target: int, source: int) -> list[BlockCache]:
        """Empty caches for at most ``target`` words to say about ``source`` words heard, one per
        block.
        """
        return [BlockCache(KVCache(target), KVCache(source)) for _ in self.blocks]
