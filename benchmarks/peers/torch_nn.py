"""``torch.nn.Transformer`` with the embeddings, positions and projection that it leaves out."""

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmarks.peers.peer import Peer, Sites, attentions, copy, rows_kept, rows_of
from tfmr.model import Transformer, TransformerConfig
from tfmr.position import sinusoidal
from tfmr.special_tokens import PAD
from tfmr.translator import DecoderState


@dataclass
class Prefix:
    """All that was read and said: PyTorch's decoder keeps nothing between two tokens."""

    memory: Float[Tensor, "rows source d_model"]
    padding: Bool[Tensor, "rows source"]
    said: Int[Tensor, "rows target"]
    beam: int

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences only."""
        rows = rows_kept(sentences, self.beam)
        self.memory, self.padding = self.memory[rows], self.padding[rows]
        self.said = self.said[rows]

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Let each hypothesis continue its parent."""
        self.said = self.said[rows_of(parents)]


class TorchNN(Peer):
    """PyTorch's own encoder and decoder.

    It has no translation of its own, no cache and no beam, so tfmr's searches drive it, and it
    reads the whole prefix anew for every token: there is no other way to use it.
    """

    title: ClassVar[str] = "torch.nn.Transformer"
    table: Tensor

    def __init__(self, config: TransformerConfig, dropout: float, sites: Sites) -> None:
        super().__init__()
        self.config = config
        with warnings.catch_warnings():  # it says of a fast path that it cannot take it
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
            # It normalises once more at the end of either stack; the paper's figure 1 does not.
            self.stacks.encoder.norm = self.stacks.decoder.norm = None
        if sites == "paper":
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

    def adopt(self, own: Transformer) -> slice:
        """All weights, which it holds in the same order, the three projections in one matrix."""
        pairs = [(self.embedding.weight, own.target_embedding.weight)]
        stacks: list[tuple[Any, Any]]
        stacks = [(self.stacks.encoder, own.encoder), (self.stacks.decoder, own.decoder)]
        for theirs, ours in stacks:
            for layer, block in zip(theirs.layers, ours.blocks, strict=True):
                readers = [layer.self_attn, *_cross(layer)]
                for reader, attention in zip(readers, attentions(block), strict=True):
                    three = [attention.w_q, attention.w_k, attention.w_v]
                    pairs += [
                        (reader.in_proj_weight, torch.cat([linear.weight for linear in three])),
                        (reader.in_proj_bias, torch.cat([linear.bias for linear in three])),
                        *_same(reader.out_proj, attention.w_o),
                    ]
                pairs += _same(layer.linear1, block.feed_forward.expand)
                pairs += _same(layer.linear2, block.feed_forward.contract)
                for number, residual in enumerate(block.residuals, start=1):
                    norm = getattr(layer, f"norm{number}")
                    pairs += [(norm.weight, residual.norm.gain), (norm.bias, residual.norm.bias)]
            if self.config.norm == "pre":
                pairs += [(theirs.norm.weight, ours.norm.gain), (theirs.norm.bias, ours.norm.bias)]
        copy(pairs)
        return slice(None)

    def hidden(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's vectors. Padding of the target comes last, so causality hides it."""
        padding = source == PAD
        return self._decode(target, self._encode(source, padding), padding)

    def start(self, source: Int[Tensor, "batch source"], longest: int, beam: int = 1) -> Prefix:
        """Read the source."""
        padding = source == PAD
        memory = self._encode(source, padding).repeat_interleave(beam, 0)
        padding = padding.repeat_interleave(beam, 0)
        return Prefix(memory, padding, source.new_empty(len(memory), 0), beam)

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Say ``tokens``; the scores of what may come next."""
        assert isinstance(state, Prefix)
        state.said = torch.cat([state.said, tokens[:, None]], dim=1)
        return self.scores(self._decode(state.said, state.memory, state.padding)[:, -1])

    def _encode(
        self, source: Int[Tensor, "batch source"], padding: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source d_model"]:
        with warnings.catch_warnings():  # in evaluation it says that its fast path is a prototype
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
    """The cross-attention of a decoder's layer, none of an encoder's."""
    return [layer.multihead_attn] if isinstance(layer, nn.TransformerDecoderLayer) else []


def _same(theirs: nn.Linear, ours: nn.Linear) -> list[tuple[Tensor, Tensor]]:
    return [(theirs.weight, ours.weight), (theirs.bias, ours.bias)]
