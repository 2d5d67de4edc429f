"""x-transformers, a Transformer with many optional variants."""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from x_transformers import XTransformer

from benchmarks.peers.peer import Peer, attentions, copy
from tfmr.config import TransformerConfig
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, PAD


class XTransformers(Peer):
    """``XTransformer`` configured as the paper's model, with its fused attention.

    Its attention and its layer norms have no biases, and its sinusoidal positions have a learned
    scale. Its beam search does not repeat the rows of the source, so it accepts only one sentence
    at a time and is not used here.
    """

    title: ClassVar[str] = "x-transformers"
    searches: ClassVar[tuple[str, ...]] = ("greedy",)
    bf16_weights: ClassVar[bool] = False

    def __init__(self, config: TransformerConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        switches = {
            "num_tokens": config.target_vocab,
            "max_seq_len": config.max_length,
            "heads": config.n_heads,
            "attn_dim_head": config.d_model // config.n_heads,
            "ff_mult": config.d_ff / config.d_model,
            "ff_custom_activation": nn.ReLU() if config.activation == "relu" else nn.GELU(),
            "pre_norm": config.norm == "pre",
            "attn_flash": True,
            "scaled_sinu_pos_emb": True,
            "emb_dropout": dropout,
            "attn_sublayer_dropout": dropout,
            "ff_sublayer_dropout": dropout,
        }
        self.translator = XTransformer(
            dim=config.d_model,
            tie_token_emb=True,
            pad_value=PAD,
            enc_depth=config.n_encoder,
            dec_depth=config.n_decoder,
            **{f"enc_{name}": value for name, value in switches.items()},
            **{f"dec_{name}": value for name, value in switches.items()},
        )
        self.output = self.translator.decoder.net.to_logits
        self.output.weight = self.translator.decoder.net.token_emb.emb.weight

    def surplus(self) -> int:
        """No biases in attention and layer norms; a scale for the positions of each stack."""
        c = self.config
        attentions = c.n_encoder + 2 * c.n_decoder
        norms = 2 * c.n_encoder + 3 * c.n_decoder + (2 if c.norm == "pre" else 0)
        return 2 - (4 * attentions + norms) * c.d_model

    def load_weights(self, own: Transformer) -> Int[Tensor, "d_model"]:
        """All weights, with permuted columns: its positions are all sines, then all cosines.

        tfmr multiplies embeddings by √d_model; x-transformers stores the product.
        """
        d_model = self.config.d_model
        order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
        theirs = (self.translator.encoder, self.translator.decoder.net)
        scaled = own.target_embedding.weight[:, order] * math.sqrt(d_model)
        pairs = [(stack.token_emb.emb.weight, scaled) for stack in theirs]
        pairs += [(stack.pos_emb.scale, torch.ones(1)) for stack in theirs]
        stacks: tuple[Any, Any] = (own.encoder, own.decoder)
        for stack, ours in zip(theirs, stacks, strict=True):
            layers = iter(stack.attn_layers.layers)
            for block in ours.blocks:
                for attention in attentions(block):
                    _, module, _ = next(layers)
                    for letter in "qkv":
                        projection = getattr(attention, f"w_{letter}").weight
                        pairs.append((getattr(module, f"to_{letter}").weight, projection[:, order]))
                    pairs.append((module.to_out.weight, attention.w_o.weight[order]))
                _, feed, _ = next(layers)
                first, last = (m for m in feed.modules() if isinstance(m, nn.Linear))
                pairs.append((first.weight, block.feed_forward.expand.weight[:, order]))
                pairs.append((last.weight, block.feed_forward.contract.weight[order]))
                pairs += [(linear.bias, torch.zeros(())) for linear in (first, last)]
        copy(pairs)
        return order

    def hidden(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder output."""
        keep = source != PAD
        memory = self.translator.encoder(source, mask=keep, return_embeddings=True)
        hidden: Tensor = self.translator.decoder.net(
            target, context=memory, context_mask=keep, return_embeddings=True
        )
        return hidden

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """With its own ``generate``, which produces the given number of tokens."""
        require(
            beam == 1, f"x-transformers has no batched beam search: expected beam=1, got {beam}"
        )
        start = torch.full((len(source), 1), BOS, device=source.device)
        ids: Tensor = self.translator.generate(
            source, start, steps, mask=source != PAD, temperature=0.0, cache_kv=True
        )
        return ids
