"""T5: an encoder-decoder in which every task is to generate a text from a text."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.config import check_dropout, check_positive
from tfmr.family.blocks import Block, RelativeBias, RMSNorm, T5Attention
from tfmr.family.inputs import check_ids, key_mask
from tfmr.family.pretrained import Rename, copy_weights, expect, read_checkpoint
from tfmr.kv_cache import KVCache
from tfmr.layers import Dropout, FeedForward


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
        attention = partial(T5Attention, config.d_model, config.n_heads, config.d_k)
        make_norm = partial(RMSNorm, config.d_model, config.eps)
        self.blocks = nn.ModuleList(
            Block(
                config.d_model,
                attention(self.relative),
                _feed_forward(config),
                cross_attention=attention() if is_decoder else None,
                make_norm=make_norm,
                dropout=config.dropout,
            )
            for _ in range(n_layers)
        )
        self.norm = make_norm()
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        mask: Bool[Tensor, "batch 1 1 length"] | None = None,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        memory_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
        caches: list[tuple[KVCache, KVCache]] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply all blocks; ``caches`` holds those of self-attention and cross-attention."""
        x = self.dropout(x)
        for index, block in enumerate(self.blocks):
            cache, cross_cache = caches[index] if caches else (None, None)
            x = block(
                x,
                memory,
                mask=mask,
                is_causal=self.is_decoder,
                memory_mask=memory_mask,
                cache=cache,
                cross_cache=cross_cache,
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
            if isinstance(module, T5Attention):
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
        check_ids(source, self.config.vocab)
        out: Tensor = self.encoder(self.embedding(source), key_mask(source_mask, source))
        return out

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "batch source"] | None = None,
        caches: list[tuple[KVCache, KVCache]] | None = None,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each position of ``target``; see :meth:`scores`."""
        check_ids(target, self.config.vocab)
        mask = None if source_mask is None else source_mask[:, None, None]
        return self.scores(self.decoder(self.embedding(target), None, memory, mask, caches))

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

    def new_caches(self, target: int, source: int) -> list[tuple[KVCache, KVCache]]:
        """Empty caches of self-attention and cross-attention, one pair per decoder block."""
        return [(KVCache(target), KVCache(source)) for _ in self.decoder.blocks]

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "T5":
        """The model in a folder that ``T5ForConditionalGeneration.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a T5, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "t5")
        expect(config, feed_forward_proj="relu", tie_word_embeddings=True)
        model = cls(
            T5Config(
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
        )
        copy_weights(model, tensors, NAMES, folder)
        return model.eval()


def _feed_forward(config: T5Config) -> FeedForward:
    network = FeedForward(config.d_model, config.d_ff)
    for layer in (network.expand, network.contract):
        layer.register_parameter("bias", None)
    return network


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
