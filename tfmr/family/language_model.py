"""The decoder-only language model that GPT and its successors share."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.checks import check_ids, check_sizes, check_state, embed
from tfmr.errors import require
from tfmr.family.blocks import Block, key_mask
from tfmr.kv_cache import BlockCache, new_caches
from tfmr.layers import Dropout
from tfmr.translator import DecoderState, RowState


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
        attention_mask: Bool[Tensor, "batch key"] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch length vocab"]:
        """Logits of the token after each position.

        Args:
            ids: token ids; with ``caches``, only those after the cached positions.
            attention_mask: ``True`` for real tokens, those before ``ids`` included. Padding after a
                text needs no mask, because the causal mask already hides it from the text.
                Positions count from the first real token, so padding before a text does not change
                its logits.
            caches: one per block, from :meth:`new_caches`.

        Raises:
            TfmrError: if an id is outside the vocabulary, a text is empty or too long, or the mask
                does not fit.
        """
        check_ids(ids)
        start = caches[0].self_attention.length if caches else 0
        mask = key_mask(attention_mask, (len(ids), start + ids.shape[1]))
        return self.scores(self._hidden(ids, mask, caches))

    def _hidden(
        self,
        ids: Int[Tensor, "batch length"],
        mask: Bool[Tensor, "batch 1 1 key"] | None,
        caches: list[BlockCache] | None,
    ) -> Float[Tensor, "batch length d_model"]:
        """The vectors that :meth:`scores` maps to logits."""
        start = caches[0].self_attention.length if caches else 0
        x = embed(self.embedding, ids, "", self.max_length, start)
        if self.position is not None:
            x = x + self.position(positions(ids, None if mask is None else mask[:, 0, 0], start))
        x = self.dropout(x)
        for index, block in enumerate(self.blocks):
            x = block(x, mask=mask, is_causal=True, cache=caches[index] if caches else None)
        out: Tensor = self.norm(x)
        return out

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.weight.device

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> "LanguageModelState":
        """Process all tokens of each prompt except the last, which :meth:`step` takes first.

        Args:
            source: ids of the prompts, padded with -1 on the right.
            max_new_tokens: maximum number of tokens to add to each prompt.
            beam: rows per prompt.

        Raises:
            TfmrError: if a prompt is empty, an id is outside the vocabulary, or prompt and
                continuation are longer than the model's ``max_length``.
        """
        check_ids(source, "prompts")
        check_sizes(max_new_tokens=max_new_tokens, beam=beam)
        lengths = (source >= 0).sum(dim=1).tolist()
        longest = max(lengths)
        require(min(lengths) > 0, f"expected prompts of at least one token: got {lengths} tokens")
        require(
            longest + max_new_tokens <= self.max_length,
            f"the model has {self.max_length} positions, but the longest prompt and its "
            f"continuation have {longest} + {max_new_tokens}; shorten one of them",
        )
        # Move the padding before the prompts, so that all continuations begin at one position.
        shifts = torch.tensor(lengths, device=source.device)[:, None] - longest
        index = torch.arange(longest, device=source.device) + shifts
        mask = F.pad(index >= 0, (0, max_new_tokens - 1), value=True)[:, None, None]
        caches = self.new_caches(longest + max_new_tokens - 1)
        state = LanguageModelState(None if min(lengths) == longest else mask, caches, beam)
        ids = source.gather(1, index.clamp(min=0))[:, :-1]
        if ids.shape[1] > 0:
            self._hidden(ids, state.next_mask(longest - 1), caches)
        state.select_rows(torch.arange(len(source), device=source.device).repeat_interleave(beam))
        return state

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append one token to each row of ``state``; return the logits of the next token.

        Raises:
            TfmrError: if the state belongs to another kind of model, an id is outside the
                vocabulary, or ``max_new_tokens`` is exceeded.
        """
        state = check_state(state, LanguageModelState)
        out = self._hidden(tokens.unsqueeze(1), state.next_mask(1), state.caches)
        return self.scores(out[:, 0])

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


@dataclass
class LanguageModelState(RowState):
    """State of incremental decoding."""

    mask: Bool[Tensor, "rows 1 1 capacity"] | None
    """Hides the padding before the shorter prompts; ``None`` if all are equally long."""
    caches: list[BlockCache]
    beam: int

    def next_mask(self, n: int) -> Bool[Tensor, "rows 1 1 key"] | None:
        """The mask for the next ``n`` positions, up to the last of them."""
        if self.mask is None:
            return None
        return self.mask[..., : self.caches[0].self_attention.length + n]

    def select_rows(self, rows: Int[Tensor, "rows"]) -> None:
        """See :meth:`tfmr.translator.RowState.select_rows`."""
        if self.mask is not None:
            self.mask = self.mask[rows]
        for cache in self.caches:
            cache.select(rows)


def positions(
    ids: Int[Tensor, "batch length"],
    attention_mask: Bool[Tensor, "batch key"] | None = None,
    start: int = 0,
) -> Int[Tensor, "rows length"]:
    """The position of each token: the number of tokens before it in its text.

    ``start`` is the number of cached tokens, padding included. Padding before a text has position
    0; its output is not used.
    """
    position = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
    if attention_mask is None:
        return position
    padding = attention_mask.int().argmax(dim=1, keepdim=True)
    return (position - padding).clamp(min=0)
