"""Marian, the translation model of Hugging Face's ``transformers``."""

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import MarianConfig, MarianMTModel
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from benchmarks.peers.peer import Peer, attentions, copy, parent_rows, selected_rows
from tfmr.config import TransformerConfig
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import DecoderState


@dataclass
class Cached:
    """The library's own cache, and the encoder output."""

    memory: Float[Tensor, "rows source d_model"]
    keep_mask: Bool[Tensor, "rows source"]
    cache: Any
    beam: int

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences only."""
        rows = selected_rows(sentences, self.beam)
        self.memory, self.keep_mask = self.memory[rows], self.keep_mask[rows]
        self.cache.batch_select_indices(rows)

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Replace each hypothesis by its parent."""
        self.cache.reorder_cache(parent_rows(parents))


class Marian(Peer):
    """``MarianMTModel`` with its fused attention; it decodes with its own ``generate`` and cache.

    It supports post-norm only.
    """

    title: ClassVar[str] = "Hugging Face Marian"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")

    def __init__(self, config: TransformerConfig, dropout: float) -> None:
        super().__init__()
        require(config.norm == "post", "Marian supports norm='post' only, got norm='pre'")
        self.config = config
        self.translator = MarianMTModel(
            MarianConfig(
                vocab_size=config.target_vocab,
                d_model=config.d_model,
                encoder_layers=config.n_encoder,
                decoder_layers=config.n_decoder,
                encoder_attention_heads=config.n_heads,
                decoder_attention_heads=config.n_heads,
                encoder_ffn_dim=config.d_ff,
                decoder_ffn_dim=config.d_ff,
                max_position_embeddings=config.max_length,
                activation_function=config.activation,
                scale_embedding=True,
                dropout=dropout,
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                forced_eos_token_id=None,
                decoder_start_token_id=BOS,
                attn_implementation="sdpa",
                activation_dropout=0.0,
                attention_dropout=0.0,
            )
        )
        self.output = self.translator.lm_head

    def load_weights(self, own: Transformer) -> slice:
        """All weights, and the position table, whose sines precede its cosines."""
        theirs = self.translator.model
        assert own.position is not None
        table: Any = own.position.table
        pairs: list[tuple[Any, Any]] = [
            (theirs.shared.weight, own.target_embedding.weight),
            (theirs.encoder.embed_positions.weight, table),
            (theirs.decoder.embed_positions.weight, table),
        ]
        stacks: list[tuple[Any, Any]]
        stacks = [(theirs.encoder, own.encoder), (theirs.decoder, own.decoder)]
        for stack, ours in stacks:
            for layer, block in zip(stack.layers, ours.blocks, strict=True):
                modules = [getattr(layer, name, None) for name in ("self_attn", "encoder_attn")]
                for module, attention in zip(filter(None, modules), attentions(block), strict=True):
                    for letter in "qkv":
                        projection = getattr(attention, f"w_{letter}")
                        pairs.append((getattr(module, f"{letter}_proj").weight, projection.weight))
                    pairs.append((module.out_proj.weight, attention.w_o.weight))
                pairs.append((layer.fc1.weight, block.feed_forward.expand.weight))
                pairs.append((layer.fc2.weight, block.feed_forward.contract.weight))
        copy(pairs)
        return slice(None)

    def hidden(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder output. The bias that Marian adds to the logits is zero and not trained."""
        keep = (source != PAD).long()
        hidden: Tensor = self.translator.model(
            input_ids=source, attention_mask=keep, decoder_input_ids=target, use_cache=False
        ).last_hidden_state
        return hidden

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits, computed as a user of the library does."""
        keep = (source != PAD).long()
        logits: Tensor = self.translator(
            input_ids=source, attention_mask=keep, decoder_input_ids=target, use_cache=False
        ).logits
        return logits

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> Cached:
        """Encode the source."""
        keep = source != PAD
        memory = self.translator.model.encoder(
            input_ids=source, attention_mask=keep.long()
        ).last_hidden_state
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        memory, keep = memory.repeat_interleave(beam, 0), keep.repeat_interleave(beam, 0)
        return Cached(memory, keep, cache, beam)

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append ``tokens`` to the prefixes; the logits of the next token."""
        assert isinstance(state, Cached)
        logits: Tensor = self.translator(
            attention_mask=state.keep_mask.long(),
            encoder_outputs=BaseModelOutput(last_hidden_state=state.memory),
            decoder_input_ids=tokens[:, None],
            past_key_values=state.cache,
            use_cache=True,
        ).logits
        return logits[:, -1]

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """With ``generate``, given minimum and maximum length."""
        ids: Tensor = self.translator.generate(
            source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=steps,
            max_new_tokens=steps,
        )
        return ids[:, 1:]
