"""The encoder: every source position reads every other, block after block."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, Rotation
from tfmr.layers import Activation, FeedForward, Norm, Residual, final_norm


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network, each beside a residual path.

    Vaswani et al. (2017), section 3.1 and the left half of figure 1.

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
        self.attention = MultiHeadAttention(d_model, n_heads, rotate=rotate)
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.residuals = nn.ModuleList(Residual(d_model, dropout, norm) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        """One round of reading and thinking; ``mask`` hides the padding of the source."""
        attend, feed = self.residuals
        x = attend(x, lambda y: self.attention(y, mask=mask))
        x = feed(x, self.feed_forward)
        return x


class Encoder(nn.Module):
    """A stack of ``n_layers`` encoder blocks, six in the paper, and a final norm if the blocks are
    pre-norm.

    Args:
        n_layers: number of blocks.
        d_model, n_heads, d_ff, dropout, norm, activation, rotate: see :class:`EncoderBlock`.
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
            EncoderBlock(
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
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        """From embeddings with positions to the memory that the decoder reads."""
        for block in self.blocks:
            x = block(x, mask)
        memory: Tensor = self.norm(x)
        return memory
