"""x-transformers: one Transformer with a switch for almost every idea since."""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from x_transformers import XTransformer

from benchmarks.peers.peer import Peer, Sites, attentions, copy
from tfmr.errors import require
from tfmr.model import Transformer, TransformerConfig
from tfmr.special_tokens import BOS, PAD


class XTransformers(Peer):
    """``XTransformer`` switched to the paper's model, with its fused attention.

    Its attention has no biases, its norms have a gain only, and its sinusoids a learned scale. Its
    beam search repeats the rows of the target and not those of the source, so it is none for
    several sentences at once.
    """

    title: ClassVar[str] = "x-transformers"
    searches: ClassVar[tuple[str, ...]] = ("greedy",)

    def __init__(self, config: TransformerConfig, dropout: float, sites: Sites) -> None:
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
        }
        places = ("sublayer_dropout",) if sites == "paper" else ("dropout",)
        for place in places:
            switches |= {f"attn_{place}": dropout, f"ff_{place}": dropout}
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
        """Without biases in attention and norms, with a scale for the positions of either side."""
        c = self.config
        attentions = c.n_encoder + 2 * c.n_decoder
        norms = 2 * c.n_encoder + 3 * c.n_decoder + (2 if c.norm == "pre" else 0)
        return 2 - (4 * attentions + norms) * c.d_model

    def adopt(self, own: Transformer) -> Int[Tensor, "d_model"]:
        """All weights, their columns in another order: its positions are all sines, then all
        cosines. Where tfmr scales an embedding by √d_model, it holds the scaled one.
        """
        d_model = self.config.d_model
        order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
        theirs = (self.translator.encoder, self.translator.decoder.net)
        scaled = own.target_embedding.weight[:, order] * math.sqrt(d_model)
        pairs = [(side.token_emb.emb.weight, scaled) for side in theirs]
        pairs += [(side.pos_emb.scale, torch.ones(1)) for side in theirs]
        stacks: tuple[Any, Any] = (own.encoder, own.decoder)
        for side, ours in zip(theirs, stacks, strict=True):
            layers = iter(side.attn_layers.layers)
            for block in ours.blocks:
                for attention in attentions(block):
                    _, reader, _ = next(layers)
                    for letter in "qkv":
                        projection = getattr(attention, f"w_{letter}").weight
                        pairs.append((getattr(reader, f"to_{letter}").weight, projection[:, order]))
                    pairs.append((reader.to_out.weight, attention.w_o.weight[order]))
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
        """The decoder's vectors."""
        keep = source != PAD
        memory = self.translator.encoder(source, mask=keep, return_embeddings=True)
        hidden: Tensor = self.translator.decoder.net(
            target, context=memory, context_mask=keep, return_embeddings=True
        )
        return hidden

    def search(
        self, source: Int[Tensor, "batch source"], steps: int, beam: int
    ) -> Int[Tensor, "batch steps"]:
        """By its own ``generate``, which goes on for as long as it is told."""
        require(beam == 1, "x-transformers has a beam for one sentence at a time only")
        begin = torch.full((len(source), 1), BOS, device=source.device)
        said: Tensor = self.translator.generate(
            source, begin, steps, mask=source != PAD, temperature=0.0, cache_kv=True
        )
        return said
