"""T5: an encoder-decoder in which every task is to generate a text from a text."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, padding_mask
from tfmr.checks import check_sizes, check_state, embed
from tfmr.config import check_dropout, check_positive
from tfmr.errors import require
from tfmr.family.blocks import Block, key_mask
from tfmr.family.pretrained import Rename, copy_weights, read_checkpoint
from tfmr.kv_cache import BlockCache, new_caches
from tfmr.layers import Dropout, FeedForward, RMSNorm
from tfmr.model import TransformerState
from tfmr.translator import DecoderState


@dataclass(frozen=True)
class T5Config:
    """The hyperparameters of :class:`T5`; the defaults are those of T5-small.

    Raffel et al. (2020), section 3.7.

    Raises:
        TfmrError: if a value is out of range.
    """

    vocab: int = 32128
    """Number of tokens, special tokens included."""
    d_model: int = 512
    """Size of the vectors of the residual stream."""
    d_k: int = 64
    """Size of queries, keys and values of one head."""
    d_ff: int = 2048
    """Inner size of the feed-forward networks."""
    n_encoder: int = 6
    """Number of encoder blocks."""
    n_decoder: int = 6
    """Number of decoder blocks."""
    n_heads: int = 8
    """Number of heads."""
    dropout: float = 0.1
    """Dropout probability, for the output of every sublayer and for the embeddings."""
    n_buckets: int = 32
    """Number of ranges of distances."""
    max_distance: int = 128
    """Distances from here on share one range."""
    eps: float = 1e-6
    """Added to the mean square in every norm."""

    def __post_init__(self) -> None:
        names = ("vocab", "d_model", "d_k", "d_ff", "n_encoder", "n_decoder", "n_heads")
        check_positive(self, *names, "n_buckets", "max_distance")
        check_dropout(self.dropout)


class RelativeBias(nn.Module):
    """A learned number per head and range of distances, added to the attention scores.

    Half of the ``n_buckets`` ranges hold one distance each; the others grow logarithmically up to
    ``max_distance``, and all greater distances share the last one. Raffel et al. (2020),
    section 2.1.

    Args:
        n_heads: number of heads.
        bidirectional: use half of the ranges for keys after the query; otherwise all such keys
            count as distance 0, for attention with a causal mask.
        n_buckets: number of ranges.
        max_distance: distances from here on share one range.

    Raises:
        TfmrError: if there are too few ranges, or ``max_distance`` is in the half with one distance
            each.
    """

    starts: Tensor

    def __init__(
        self, n_heads: int, *, bidirectional: bool, n_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        check_sizes(n_heads=n_heads, n_buckets=n_buckets, max_distance=max_distance)
        self.bidirectional = bidirectional
        self.one_way = n_buckets // 2 if bidirectional else n_buckets
        exact = self.one_way // 2
        require(
            0 < exact < max_distance,
            f"n_buckets must be at least {4 if bidirectional else 2}, and max_distance greater "
            f"than the {exact} distances with a range each: got n_buckets={n_buckets}, "
            f"max_distance={max_distance}",
        )
        self.bias = nn.Embedding(n_buckets, n_heads)
        # Range exact + j starts at the distance exact * (max_distance / exact) ** (j / wide). Whole
        # numbers are compared, because a rounded logarithm can miss a start by one.
        wide = self.one_way - exact
        starts, distance = list(range(1, exact + 1)), exact
        for j in range(1, wide):
            while distance**wide * exact**j < max_distance**j * exact**wide:
                distance += 1
            starts.append(distance)
        self.register_buffer("starts", torch.tensor(starts), persistent=False)

    def bucket(self, offset: Int[Tensor, "query key"]) -> Int[Tensor, "query key"]:
        """The range of each offset (position of the key minus position of the query)."""
        distance = offset.abs() if self.bidirectional else (-offset).clamp(min=0)
        after = (offset > 0) * self.one_way if self.bidirectional else 0
        return torch.bucketize(distance, self.starts, right=True) + after

    def forward(self, query: int, key: int) -> Float[Tensor, "heads query key"]:
        """The bias for the last ``query`` of ``key`` positions."""
        position = torch.arange(key, device=self.starts.device)
        offset = position - position[key - query :, None]
        bias: Tensor = self.bias(self.bucket(offset)).permute(2, 0, 1)
        return bias


class T5Stack(nn.Module):
    """The encoder or the decoder: blocks that share one relative bias, and a final norm.

    Args:
        config: the hyperparameters.
        n_layers: number of blocks.
        is_decoder: with a causal mask and cross-attention.
    """

    def __init__(self, config: T5Config, n_layers: int, *, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.relative = RelativeBias(
            config.n_heads,
            bidirectional=not is_decoder,
            n_buckets=config.n_buckets,
            max_distance=config.max_distance,
        )
        # The factor 1/√d_k is part of the initial weights of the queries instead.
        attention = partial(
            MultiHeadAttention,
            config.d_model,
            config.n_heads,
            d_k=config.d_k,
            bias=False,
            scale=1.0,
        )
        self.blocks = nn.ModuleList(
            Block(
                attention(),
                FeedForward(config.d_model, config.d_ff, bias=False),
                cross_attention=attention() if is_decoder else None,
                dropout=config.dropout,
                eps=config.eps,
                norm_class=RMSNorm,
            )
            for _ in range(n_layers)
        )
        self.norm = RMSNorm(config.d_model, config.eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        mask: Bool[Tensor, "batch 1 1 length"] | None = None,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        memory_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply all blocks; the arguments are those of :class:`tfmr.decoder.Decoder`."""
        x = self.dropout(x)
        length = x.shape[1]
        bias = self.relative(length, length + (caches[0].self_attention.length if caches else 0))
        for index, block in enumerate(self.blocks):
            x = block(
                x,
                memory,
                mask=mask,
                bias=bias,
                is_causal=self.is_decoder,
                memory_mask=memory_mask,
                cache=caches[index] if caches else None,
            )
        out: Tensor = self.dropout(self.norm(x))
        return out


class T5(nn.Module):
    """The Transformer of chapter 10 with pre-norm, RMSNorm, a relative bias and no biases.

    Raffel et al. (2020), section 2.1.

    Args:
        config: the hyperparameters.
    """

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.encoder = T5Stack(config, config.n_encoder, is_decoder=False)
        self.decoder = T5Stack(config, config.n_decoder, is_decoder=True)
        self._initialise()

    def _initialise(self) -> None:
        """Unit variance of embeddings and activations; queries include the factor 1/√d_k."""
        c = self.config
        nn.init.normal_(self.embedding.weight)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                nn.init.normal_(module.w_q.weight, std=(c.d_model * c.d_k) ** -0.5)
                nn.init.normal_(module.w_k.weight, std=c.d_model**-0.5)
                nn.init.normal_(module.w_v.weight, std=c.d_model**-0.5)
                nn.init.normal_(module.w_o.weight, std=(c.n_heads * c.d_k) ** -0.5)
            elif isinstance(module, FeedForward):
                nn.init.normal_(module.expand.weight, std=c.d_model**-0.5)
                nn.init.normal_(module.contract.weight, std=c.d_ff**-0.5)
            elif isinstance(module, RelativeBias):
                nn.init.normal_(module.bias.weight, std=c.d_model**-0.5)

    def encode(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch source d_model"]:
        """The encoder output."""
        x = embed(self.embedding, source, "source")
        out: Tensor = self.encoder(x, key_mask(source_mask, source.shape))
        return out

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "batch source"] | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each position of ``target``; see :meth:`scores`."""
        x = embed(self.embedding, target, "target")
        mask = key_mask(source_mask, memory.shape[:2])
        return self.scores(self.decoder(x, None, memory, mask, caches))

    @property
    def final_stack(self) -> T5Stack:
        """The stack whose output :meth:`scores` maps to logits."""
        return self.decoder

    def scores(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        r"""One logit per token.

        The decoder output is scaled by :math:`1/\sqrt{d_{model}}` and multiplied by the transposed
        embedding.
        """
        logits: Tensor = x * self.config.d_model**-0.5 @ self.embedding.weight.T
        return logits

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_mask: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each position of ``target`` (teacher forcing).

        Args:
            source: ids of the input text.
            target: ids of the output text, shifted right.
            source_mask: ``True`` for real tokens of the source, ``False`` for padding.

        Raises:
            TfmrError: if an id is outside the vocabulary, a text is empty, or the mask does not
                fit.
        """
        return self.decode(target, self.encode(source, source_mask), source_mask)

    def new_caches(self, target: int, source: int) -> list[BlockCache]:
        """Empty caches, one per decoder block, for at most ``target`` and ``source`` positions."""
        return new_caches(len(self.decoder.blocks), target, source)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.weight.device

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> TransformerState:
        """Encode the source, padded with ``PAD``, for incremental decoding.

        Raises:
            TfmrError: if an id is outside the vocabulary, a text is empty, or ``max_new_tokens`` or
                ``beam`` is not positive.
        """
        check_sizes(max_new_tokens=max_new_tokens, beam=beam)
        mask = padding_mask(source)
        memory = self.encode(source, mask[:, 0, 0])
        return TransformerState(
            memory.repeat_interleave(beam, dim=0),
            mask.repeat_interleave(beam, dim=0),
            self.new_caches(max_new_tokens, source.shape[1]),
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
        x = embed(self.embedding, tokens.unsqueeze(1), "target")
        out = self.decoder(x, None, state.memory, state.memory_mask, state.caches)
        return self.scores(out[:, 0])

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "T5":
        """The model in a folder that ``T5ForConditionalGeneration.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a T5, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "t5")
        config.expect(
            feed_forward_proj="relu",
            dense_act_fn="relu",
            is_gated_act=False,
            tie_word_embeddings=True,
            scale_decoder_outputs=True,
            is_decoder=False,
            is_encoder_decoder=True,
        )
        settings = T5Config(
            vocab=config["vocab_size"],
            d_model=config["d_model"],
            d_k=config["d_kv"],
            d_ff=config["d_ff"],
            n_encoder=config["num_layers"],
            n_decoder=config.get("num_decoder_layers") or config["num_layers"],
            n_heads=config["num_heads"],
            dropout=config["dropout_rate"],
            n_buckets=config["relative_attention_num_buckets"],
            max_distance=config.get("relative_attention_max_distance", 128),
            eps=config["layer_norm_epsilon"],
        )
        config.finish("n_positions")
        return copy_weights(cls(settings), tensors, NAMES, folder)


NAMES = [
    Rename(r"^shared", "embedding"),
    Rename(r"block\.0\.layer\.0\.SelfAttention\.relative_attention_bias", "relative.bias"),
    Rename(r"block\.", "blocks."),
    Rename(r"SelfAttention\.(.)\.", r"attention.w_\1."),
    Rename(r"EncDecAttention\.(.)\.", r"cross_attention.w_\1."),
    Rename(r"DenseReluDense\.wi", "feed_forward.expand"),
    Rename(r"DenseReluDense\.wo", "feed_forward.contract"),
    Rename(r"layer\.(\d)\.layer_norm", r"residuals.\1.norm"),
    Rename(r"layer\.\d\.", ""),
    Rename(r"final_layer_norm", "norm"),
]
"""Names of weights in the checkpoints of Hugging Face, and here."""
