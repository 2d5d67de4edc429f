"""``torch.nn.Transformer``, with embeddings, positions and output projection added."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmarks.peers.peer import Peer, attentions, copy, parent_rows, selected_rows
from tfmr.config import TransformerConfig
from tfmr.model import Transformer
from tfmr.position import sinusoidal
from tfmr.special_tokens import PAD
from tfmr.translator import DecoderState


@dataclass
class Prefix:
    """The encoder output and the prefixes: PyTorch's decoder has no cache."""

    memory: Float[Tensor, "rows source d_model"]
    padding: Bool[Tensor, "rows source"]
    prefix: Int[Tensor, "rows target"]
    beam: int

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences only."""
        rows = selected_rows(sentences, self.beam)
        self.memory, self.padding = self.memory[rows], self.padding[rows]
        self.prefix = self.prefix[rows]

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Replace each hypothesis by its parent."""
        self.prefix = self.prefix[parent_rows(parents)]


class TorchNN(Peer):
    """PyTorch's own encoder and decoder.

    PyTorch provides neither a search nor a cache, so tfmr's searches are used, and the decoder
    processes the whole prefix for every generated token.
    """

    title: ClassVar[str] = "torch.nn.Transformer"
    table: Tensor

    def __init__(self, config: TransformerConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        with warnings.catch_warnings():  # a warning that the fast path cannot be used
            warnings.simplefilter("ignore")
            self.stacks = nn.Transformer(
                config.d_model,
                config.n_heads,
                config.n_encoder,
                config.n_decoder,
                config.d_ff,
                dropout,
                norm_first=config.norm == "pre",
                batch_first=True,
            )
        if config.norm == "post":
            # PyTorch adds a layer norm after each stack, the paper (figure 1) does not.
            self.stacks.encoder.norm = self.stacks.decoder.norm = None
        # PyTorch also drops attention weights and activations of the feed-forward network.
        for module in self.stacks.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0
        self.embedding = nn.Embedding(config.target_vocab, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.output = nn.Linear(config.d_model, config.target_vocab, bias=False)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", sinusoidal(config.max_length, config.d_model), False)

    def load_weights(self, own: Transformer) -> slice:
        """All weights; query, key and value projections form one matrix."""
        pairs = [(self.embedding.weight, own.target_embedding.weight)]
        stacks: list[tuple[Any, Any]]
        stacks = [(self.stacks.encoder, own.encoder), (self.stacks.decoder, own.decoder)]
        for theirs, ours in stacks:
            for layer, block in zip(theirs.layers, ours.blocks, strict=True):
                modules = [layer.self_attn, *_cross(layer)]
                for module, attention in zip(modules, attentions(block), strict=True):
                    three = [attention.w_q, attention.w_k, attention.w_v]
                    pairs += [
                        (module.in_proj_weight, torch.cat([linear.weight for linear in three])),
                        (module.in_proj_bias, torch.cat([linear.bias for linear in three])),
                        *_weight_and_bias(module.out_proj, attention.w_o),
                    ]
                pairs += _weight_and_bias(layer.linear1, block.feed_forward.expand)
                pairs += _weight_and_bias(layer.linear2, block.feed_forward.contract)
                for number, residual in enumerate(block.residuals, start=1):
                    norm = getattr(layer, f"norm{number}")
                    pairs += [(norm.weight, residual.norm.weight), (norm.bias, residual.norm.bias)]
            if self.config.norm == "pre":
                pairs += [
                    (theirs.norm.weight, ours.norm.weight),
                    (theirs.norm.bias, ours.norm.bias),
                ]
        copy(pairs)
        return slice(None)

    def hidden(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder output. Target padding comes last, so the causal mask excludes it."""
        padding = source == PAD
        return self._decode(target, self._encode(source, padding), padding)

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> Prefix:
        """Encode the source."""
        padding = source == PAD
        memory = self._encode(source, padding).repeat_interleave(beam, 0)
        padding = padding.repeat_interleave(beam, 0)
        return Prefix(memory, padding, source.new_empty(len(memory), 0), beam)

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append ``tokens`` to the prefixes; the logits of the next token."""
        assert isinstance(state, Prefix)
        state.prefix = torch.cat([state.prefix, tokens[:, None]], dim=1)
        return self.scores(self._decode(state.prefix, state.memory, state.padding)[:, -1])

    def _encode(
        self, source: Int[Tensor, "batch source"], padding: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        with warnings.catch_warnings():  # a warning that the fast path is a prototype
            warnings.simplefilter("ignore")
            memory: Tensor = self.stacks.encoder(self._embed(source), src_key_padding_mask=padding)
        return memory

    def _decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        padding: Bool[Tensor, "batch source"],
    ) -> Float[Tensor, "batch target d_model"]:
        n = target.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)
        hidden: Tensor = self.stacks.decoder(
            self._embed(target),
            memory,
            tgt_mask=future,
            tgt_is_causal=True,
            memory_key_padding_mask=padding,
        )
        return hidden

    def _embed(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        x = self.embedding(ids) * math.sqrt(self.config.d_model) + self.table[: ids.shape[1]]
        dropped: Tensor = self.dropout(x)
        return dropped


def _cross(layer: nn.Module) -> list[nn.Module]:
    """The cross-attention of a decoder layer; an encoder layer has none."""
    return [layer.multihead_attn] if isinstance(layer, nn.TransformerDecoderLayer) else []


def _weight_and_bias(theirs: nn.Linear, ours: nn.Linear) -> list[tuple[Tensor, Tensor]]:
    return [(theirs.weight, ours.weight), (theirs.bias, ours.bias)]
