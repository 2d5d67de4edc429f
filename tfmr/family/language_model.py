"""The decoder-only language model that GPT and its successors share."""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.checks import embed
from tfmr.errors import require
from tfmr.family.blocks import Block, key_mask
from tfmr.kv_cache import BlockCache, new_caches
from tfmr.layers import Dropout


class LanguageModel(nn.Module):
    """Embeddings, blocks with a causal mask, a final norm and an output projection.

    Args:
        vocab: number of tokens.
        max_length: maximum number of tokens of a text.
        d_model: size of the vectors.
        blocks: the blocks.
        norm: the norm after the last block.
        position: learned positions; ``None`` if the blocks use rotary ones.
        tied: whether the output projection is the transposed embedding.
        dropout: dropout probability for the embeddings.
    """

    def __init__(
        self,
        *,
        vocab: int,
        max_length: int,
        d_model: int,
        blocks: Iterable[Block],
        norm: nn.Module,
        position: nn.Embedding | None,
        tied: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.embedding = nn.Embedding(vocab, d_model)
        self.position = position
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.output = nn.Linear(d_model, vocab, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        attention_mask: Bool[Tensor, "batch length"] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch length vocab"]:
        """Logits of the token after each position.

        Args:
            ids: token ids; with ``caches``, only those after the cached positions.
            attention_mask: ``True`` for real tokens. Padding after a text needs no mask, because
                the causal mask already hides it from the text. Positions count from the first real
                token, so padding before a text does not change its logits.
            caches: one per block, from :meth:`new_caches`.

        Raises:
            TfmrError: if an id is outside the vocabulary, a text is empty or too long, or the mask
                does not fit.
        """
        start = caches[0].self_attention.length if caches else 0
        x = embed(self.embedding, ids, "", self.max_length, start)
        require(
            attention_mask is None or caches is None,
            "incremental decoding takes no attention_mask: all rows must have equally many tokens; "
            "tfmr.family.generate handles prompts of different lengths",
        )
        mask = key_mask(attention_mask, ids.shape)
        if self.position is not None:
            x = x + self.position(positions(ids, attention_mask, start))
        x = self.dropout(x)
        for index, block in enumerate(self.blocks):
            x = block(x, mask=mask, is_causal=True, cache=caches[index] if caches else None)
        return self.scores(self.norm(x))

    @property
    def final_stack(self) -> "LanguageModel":
        """The stack whose output :meth:`scores` maps to logits: the model itself."""
        return self

    def scores(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """One logit per token."""
        logits: Tensor = self.output(x)
        return logits

    def new_caches(self, capacity: int) -> list[BlockCache]:
        """Empty caches, one per block, for at most ``capacity`` positions."""
        return new_caches(len(self.blocks), capacity)

    def count_parameters(self) -> int:
        """The number of trained parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


def positions(
    ids: Int[Tensor, "batch length"],
    attention_mask: Bool[Tensor, "batch length"] | None = None,
    start: int = 0,
) -> Int[Tensor, "rows length"]:
    """The position of each token: ``start`` for the first real one, one more for each next one.

    Padding before a text has the position of its first token, whose output is not used.
    """
    position = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
    if attention_mask is None:
        return position
    padding = attention_mask.int().argmax(dim=1, keepdim=True)
    return (position - padding).clamp(min=0)
