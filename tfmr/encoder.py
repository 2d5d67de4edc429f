"""The encoder: blocks in which every source position attends to every source position."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, Rotary
from tfmr.config import BlockConfig
from tfmr.layers import FeedForward, Residual, final_norm


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection.

    Vaswani et al. (2017), section 3.1 and the left half of figure 1.

    Args:
        config: sizes, dropout, norm and activation.
        rotary: rotary positions for the self-attention.
    """

    def __init__(self, config: BlockConfig, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.n_heads, rotary=rotary)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.residuals = nn.ModuleList(
            Residual(config.d_model, config.dropout, config.norm, config.eps) for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Apply both sublayers; ``mask`` hides the padding of the source."""
        attention_residual, feed_forward_residual = self.residuals
        x = attention_residual(x, lambda y: self.attention(y, mask=mask))
        x = feed_forward_residual(x, self.feed_forward)
        return x


class Encoder(nn.Module):
    """A stack of encoder blocks, with a final layer norm if the blocks are pre-norm.

    Args:
        config: the hyperparameters of every block.
        n_layers: number of blocks, six in the paper.
        rotary: rotary positions for the self-attention of every block.
    """

    def __init__(self, config: BlockConfig, n_layers: int, *, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(config, rotary=rotary) for _ in range(n_layers))
        self.norm = final_norm(config.d_model, config.norm, config.eps)

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Map embeddings with positions to the encoder output (``memory``)."""
        for block in self.blocks:
            x = block(x, mask)
        memory: Tensor = self.norm(x)
        return memory
