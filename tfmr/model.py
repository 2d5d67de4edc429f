"""The Transformer: embeddings, encoder, decoder, and one matrix from words to vectors and back."""

import math
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import causal_mask, padding_mask
from tfmr.decoder import BlockCache, Decoder, DecoderBlock
from tfmr.encoder import Encoder
from tfmr.errors import TfmrError, require
from tfmr.layers import Activation, Dropout, Norm
from tfmr.position import LearnedPosition, RotaryPosition, SinusoidalPosition
from tfmr.step import StepState, in_groups, reading
from tfmr.translator import DecoderState, Translator, check_pairs, config_from_dict, embed

Position = Literal["sinusoidal", "learned", "rotary"]
Tie = Literal["three-way", "target", "none"]


@dataclass(frozen=True)
class TransformerConfig:
    """Every choice that makes one Transformer differ from another.

    The defaults are those of the paper's base model (Vaswani et al., 2017, table 3).

    Raises:
        TfmrError: if a choice is out of range or two do not go together.
    """

    source_vocab: int
    """Number of source tokens, special ones included."""
    target_vocab: int
    """Number of target tokens, special ones included."""
    d_model: int = 512
    """Size of the vectors of the residual stream."""
    n_heads: int = 8
    """Attention heads; each works in ``d_model / n_heads`` dimensions."""
    d_ff: int = 2048
    """Inner size of the feed-forward networks."""
    n_encoder: int = 6
    """Encoder blocks."""
    n_decoder: int = 6
    """Decoder blocks."""
    dropout: float = 0.1
    """Probability of a zero in every sublayer's output and in the embeddings."""
    norm: Norm = "post"
    """Where the norms stand: ``"post"`` as in the paper, or ``"pre"``."""
    activation: Activation = "relu"
    """Of the feed-forward networks: ``"relu"`` as in the paper, or ``"gelu"``."""
    position: Position = "sinusoidal"
    """How positions are told: ``"sinusoidal"`` as in the paper, ``"learned"`` or ``"rotary"``."""
    tie: Tie = "three-way"
    """Which matrices are one: source embedding, target embedding and output projection
    (``"three-way"``, as in the paper), the last two (``"target"``), or none (``"none"``)."""
    max_length: int = 256
    """The longest sentence, source or target, in tokens."""

    def __post_init__(self) -> None:
        for name in (
            *("source_vocab", "target_vocab", "d_model", "n_heads", "d_ff"),
            *("n_encoder", "n_decoder", "max_length"),
        ):
            value = getattr(self, name)
            require(
                isinstance(value, int) and value > 0,
                f"{name} must be a positive integer: got {value!r}",
            )
        require(
            self.d_model % self.n_heads == 0,
            "d_model must be divisible by n_heads, because each head works in d_model / n_heads "
            f"dimensions: got d_model={self.d_model}, n_heads={self.n_heads}",
        )
        width = self.d_model // self.n_heads if self.position == "rotary" else self.d_model
        require(
            self.position == "learned" or width % 2 == 0,
            "positions are written into pairs of dimensions: sinusoidal ones need an even d_model, "
            f"rotary ones an even d_model / n_heads; got d_model={self.d_model}, "
            f"n_heads={self.n_heads}, position={self.position!r}",
        )
        require(0 <= self.dropout < 1, f"a dropout probability lies in [0, 1): got {self.dropout}")
        for name, choices in (
            ("norm", get_args(Norm)),
            ("activation", get_args(Activation)),
            ("position", get_args(Position)),
            ("tie", get_args(Tie)),
        ):
            value = getattr(self, name)
            require(value in choices, f"{name} must be one of {', '.join(choices)}: got {value!r}")
        require(
            self.tie != "three-way" or self.source_vocab == self.target_vocab,
            "one matrix can serve both languages only if they share a vocabulary: got "
            f"source_vocab={self.source_vocab}, target_vocab={self.target_vocab}; use a joint "
            "vocabulary or tie='target'",
        )

    @classmethod
    def base(cls, vocab: int = 37000) -> "TransformerConfig":
        """The paper's base model (table 3), with the size of its vocabulary (section 5.1)."""
        return cls(source_vocab=vocab, target_vocab=vocab)

    @classmethod
    def big(cls, vocab: int = 37000) -> "TransformerConfig":
        """The paper's big model (table 3, last row)."""
        return cls(
            source_vocab=vocab, target_vocab=vocab, d_model=1024, n_heads=16, d_ff=4096, dropout=0.3
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TransformerConfig":
        """The inverse of :func:`dataclasses.asdict`.

        Raises:
            TfmrError: if a name is unknown or a needed one is missing.
        """
        return config_from_dict(cls, values)


class Transformer(Translator):
    """The encoder-decoder of Vaswani et al. (2017), figure 1: from ids to next-token scores.

    Args:
        config: its choices; see :class:`TransformerConfig`.
    """

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        rotate = None
        if config.position == "rotary":
            rotate = RotaryPosition(d_model // config.n_heads, config.max_length)
        block: dict[str, Any] = {
            "dropout": config.dropout,
            "norm": config.norm,
            "activation": config.activation,
            "rotate": rotate,
        }
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
        self.encoder = Encoder(config.n_encoder, d_model, config.n_heads, config.d_ff, **block)
        self.decoder = Decoder(config.n_decoder, d_model, config.n_heads, config.d_ff, **block)
        self._initialise()
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight

    def _initialise(self) -> None:
        """Glorot-uniform maps and zero biases; embeddings of variance 1 / d_model.

        The paper does not say; these are the choices of its authors' own code. With the
        variance 1 / d_model an embedding scaled by √d_model has numbers of size one, as the
        position that is added to it, and the tied output projection starts with scores of size one.
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
        """The decoder's vector at each target position, from which it predicts the next token.

        Raises:
            TfmrError: if the batches differ, an id is outside its vocabulary, a sentence is empty
                or too long.
        """
        check_pairs(source, target)
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], Bool[Tensor, "batch 1 1 source"]]:
        """What the decoder reads: the memory, and the mask that hides its padding.

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
        """The vectors that predict the token after each position of ``target``.

        With ``caches`` (see :meth:`tfmr.decoder.Decoder.new_caches`), ``target`` holds only the
        positions that they do not hold yet.

        Raises:
            TfmrError: if an id is outside the vocabulary or the target is too long.
        """
        start = caches[0].target.length if caches else 0
        n = target.shape[1]
        mask = causal_mask(n, start + n, device=target.device)
        x = self._embed(self.target_embedding, target, "target", start)
        out: Tensor = self.decoder(x, memory, mask=mask, memory_mask=memory_mask, caches=caches)
        return out

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """Read the source; be ready to say at most ``max_new_tokens`` tokens of each hypothesis.

        Raises:
            TfmrError: if an id is outside the vocabulary, or a sentence is empty or too long.
        """
        with reading(self.decoder, self.output):
            memory, mask = in_groups(self.encode, source)
            return StepState(self.decoder, self.output, memory, mask, max_new_tokens, beam)

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Say ``tokens``, one per row of the ``state``; the scores of what may come next.

        Raises:
            TfmrError: if the state is another model's, or it has as many tokens as were asked for.
        """
        if not isinstance(state, StepState):
            raise TfmrError(
                f"a Transformer goes on from a StepState, which its start() returns: got "
                f"{type(state).__name__}"
            )
        position = state.position
        x = self._embed(self.target_embedding, tokens.unsqueeze(1), "target", position).squeeze(1)
        return state.advance(x)

    @torch.no_grad()
    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """How much of each source token the model reads to predict the token after each of
        ``target``: the weights of the last decoder block's cross-attention, averaged over heads.

        Each row sums to one. Attention is where a model looks, which often is the word that it
        translates, but need not be (Jain and Wallace, 2019).

        Raises:
            TfmrError: as :meth:`hidden`.
        """
        last = cast(DecoderBlock, self.decoder.blocks[-1]).cross_attention
        before, last.recorded = last.recorded, []
        try:
            self.hidden(source, target)
            [weights] = last.recorded
        finally:
            last.recorded = before
        mean: Tensor = weights.mean(dim=1)
        return mean

    def _embed(
        self, embedding: nn.Embedding, ids: Int[Tensor, "batch length"], side: str, start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Look up, scale by √d_model (section 3.4), add positions (3.5), drop out (5.4)."""
        end = start + ids.shape[1]
        x = embed(embedding, ids, side, end, self.config.max_length)
        x = x * math.sqrt(self.config.d_model)
        if self.position is not None:
            x = self.position(x, start)
        dropped: Tensor = self.dropout(x)
        return dropped
