"""The Transformer: embeddings, encoder, decoder and output projection."""

import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import padding_mask, recording
from tfmr.checks import check_ids, check_pairs, check_start, check_state, embed
from tfmr.config import TransformerConfig
from tfmr.decoder import Decoder, DecoderBlock
from tfmr.encoder import Encoder
from tfmr.kv_cache import BlockCache
from tfmr.layers import Dropout
from tfmr.position import LearnedPosition, RotaryPosition, SinusoidalPosition
from tfmr.translator import DecoderState, RowState, Translator


@dataclass
class TransformerState(RowState):
    """State of incremental decoding; the encoder output of a sentence is stored ``beam`` times."""

    memory: Float[Tensor, "rows source d_model"]
    memory_mask: Bool[Tensor, "rows 1 1 source"]
    caches: list[BlockCache]
    beam: int

    def select_rows(self, rows: Int[Tensor, "rows"]) -> None:
        """See :meth:`tfmr.translator.RowState.select_rows`."""
        self.memory, self.memory_mask = self.memory[rows], self.memory_mask[rows]
        for cache in self.caches:
            cache.select(rows)


class Transformer(Translator):
    """The encoder-decoder of Vaswani et al. (2017), figure 1: from token ids to logits.

    Args:
        config: the hyperparameters.
    """

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        rotary = None
        if config.position == "rotary":
            rotary = RotaryPosition(d_model // config.n_heads, config.max_length)
        self.target_embedding = nn.Embedding(config.target_vocab, d_model)
        self.source_embedding = (
            self.target_embedding
            if config.tie == "three-way"
            else nn.Embedding(config.source_vocab, d_model)
        )
        self.output = nn.Linear(d_model, config.target_vocab, bias=False)
        self.position: nn.Module | None = None
        if config.position == "sinusoidal":
            self.position = SinusoidalPosition(d_model, config.max_length)
        elif config.position == "learned":
            self.position = LearnedPosition(d_model, config.max_length)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, config.n_encoder, rotary=rotary)
        self.decoder = Decoder(config, config.n_decoder, rotary=rotary)
        self._initialise()
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight

    @property
    def final_stack(self) -> Decoder:
        """The stack whose output :meth:`scores` maps to logits."""
        return self.decoder

    def _initialise(self) -> None:
        """Glorot-uniform weights, zero biases, and embeddings with variance 1 / d_model.

        The paper does not specify the initialisation; this is the one of its authors' code.
        Embeddings with variance 1 / d_model have unit variance after the scaling by √d_model, and
        the tied output projection starts with logits of unit variance.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder output at each target position, which predicts the next token.

        Raises:
            TfmrError: if the batch sizes differ, an id is outside its vocabulary, or a sentence is
                empty or too long.
        """
        check_pairs(source, target)
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], Bool[Tensor, "batch 1 1 source"]]:
        """The encoder output (``memory``) and the mask that hides its padding.

        Raises:
            TfmrError: if an id is outside the vocabulary, or a sentence is empty or too long.
        """
        mask = padding_mask(source)
        memory: Tensor = self.encoder(self._embed(self.source_embedding, source, "source"), mask)
        return memory, mask

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 source"],
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder output at each position of ``target``.

        With ``caches`` (see :meth:`tfmr.decoder.Decoder.new_caches`), ``target`` holds only the
        positions after the cached ones.

        Raises:
            TfmrError: if an id is outside the vocabulary or the target is too long.
        """
        start = caches[0].self_attention.length if caches else 0
        x = self._embed(self.target_embedding, target, "target", start)
        out: Tensor = self.decoder(
            x, memory, is_causal=True, memory_mask=memory_mask, caches=caches
        )
        return out

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> TransformerState:
        """Encode the source for incremental decoding of up to ``max_new_tokens`` tokens.

        Raises:
            TfmrError: if an argument has the wrong shape or is out of range, an id is outside the
                vocabulary, or a sentence is empty or too long.
        """
        check_start(self.config.max_length, source, max_new_tokens, beam)
        memory, mask = self.encode(source)
        return TransformerState(
            memory.repeat_interleave(beam, dim=0),
            mask.repeat_interleave(beam, dim=0),
            self.decoder.new_caches(max_new_tokens, source.shape[1]),
            beam,
        )

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append one token to each row of ``state``; return the logits of the next token.

        Raises:
            TfmrError: if the state belongs to another kind of model, an id is outside the
                vocabulary, or ``max_new_tokens`` is exceeded.
        """
        state = check_state(state, TransformerState)
        check_ids(tokens, "tokens", "rows")
        out = self.decode(tokens.unsqueeze(1), state.memory, state.memory_mask, state.caches)
        return self.scores(out.squeeze(1))

    @torch.no_grad()
    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """The cross-attention weights of the last decoder block, averaged over its heads.

        Row ``t`` belongs to the prediction of the token after position ``t`` of ``target`` and sums
        to one. Attention weights often point to the word that is being translated, but need not
        (Jain and Wallace, 2019).

        Raises:
            TfmrError: as :meth:`hidden`.
        """
        last = cast(DecoderBlock, self.decoder.blocks[-1]).cross_attention
        with recording(last) as weights:
            self.hidden(source, target)
        return weights[last][0].mean(dim=1)

    def _embed(
        self, embedding: nn.Embedding, ids: Int[Tensor, "batch length"], side: str, start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Embed, scale (section 3.4), add positional encodings (3.5), and apply dropout (5.4)."""
        x = embed(embedding, ids, side, self.config.max_length, start)
        x = x * math.sqrt(self.config.d_model)
        if self.position is not None:
            x = self.position(x, start)
        dropped: Tensor = self.dropout(x)
        return dropped
