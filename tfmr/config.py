"""The hyperparameters of a Transformer, checked when a configuration is made."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from tfmr.checks import check_sizes
from tfmr.errors import TfmrError

Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu"]
Position = Literal["sinusoidal", "learned", "rotary"]
Tie = Literal["three-way", "target", "none"]


@dataclass(frozen=True)
class BlockConfig:
    """The hyperparameters of an encoder or decoder block.

    The defaults are those of the paper's base model (Vaswani et al., 2017, table 3).

    Raises:
        TfmrError: if a value is out of range, or ``d_model`` is not divisible by ``n_heads``.
    """

    d_model: int = 512
    """Size of the vectors of the residual stream."""
    n_heads: int = 8
    """Attention heads; each has ``d_model / n_heads`` dimensions."""
    d_ff: int = 2048
    """Inner size of the feed-forward networks."""
    dropout: float = 0.1
    """Dropout probability, applied to the output of every sublayer and to the embeddings."""
    norm: Norm = "post"
    """Position of the layer norms: ``"post"`` as in the paper, or ``"pre"``."""
    activation: Activation = "relu"
    """Activation of the feed-forward networks: ``"relu"`` as in the paper, or ``"gelu"``."""
    eps: float = 1e-5
    """Added to the variance in every layer norm."""

    def __post_init__(self) -> None:
        check_positive(self, "d_model", "n_heads", "d_ff")
        if self.d_model % self.n_heads:
            raise TfmrError(
                "d_model must be divisible by n_heads, because each head has d_model / n_heads "
                f"dimensions: got d_model={self.d_model}, n_heads={self.n_heads}"
            )
        check_dropout(self.dropout)
        check_eps(self.eps)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("activation", self.activation, get_args(Activation))


@dataclass(frozen=True)
class TransformerConfig(BlockConfig):
    """All hyperparameters of a Transformer.

    The defaults are those of the paper's base model (Vaswani et al., 2017, table 3).

    Raises:
        TfmrError: if a value is out of range or two values are incompatible.
    """

    source_vocab: int = field(kw_only=True)
    """Number of source tokens, special tokens included."""
    target_vocab: int = field(kw_only=True)
    """Number of target tokens, special tokens included."""
    n_encoder: int = field(default=6, kw_only=True)
    """Number of encoder blocks."""
    n_decoder: int = field(default=6, kw_only=True)
    """Number of decoder blocks."""
    position: Position = field(default="sinusoidal", kw_only=True)
    """Positional encoding: ``"sinusoidal"`` as in the paper, ``"learned"`` or ``"rotary"``."""
    tie: Tie = field(default="three-way", kw_only=True)
    """Tied weights: source embedding, target embedding and output projection (``"three-way"``, as
    in the paper), only the last two (``"target"``), or none (``"none"``)."""
    max_length: int = field(default=256, kw_only=True)
    """Maximum number of tokens of a sentence, source or target."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "source_vocab", "target_vocab", "n_encoder", "n_decoder", "max_length")
        check_choice("position", self.position, get_args(Position))
        check_tie(self.tie, self.source_vocab, self.target_vocab)
        width = self.d_model // self.n_heads if self.position == "rotary" else self.d_model
        if self.position != "learned" and width % 2:
            raise TfmrError(
                "sinusoidal positions need an even d_model and rotary positions an even "
                "d_model / n_heads, because they act on pairs of dimensions: got "
                f"d_model={self.d_model}, n_heads={self.n_heads}, position={self.position!r}"
            )

    @classmethod
    def base(cls, vocab: int = 37000) -> "TransformerConfig":
        """The paper's base model (table 3) with its vocabulary size (section 5.1)."""
        return cls(source_vocab=vocab, target_vocab=vocab)

    @classmethod
    def big(cls, vocab: int = 37000) -> "TransformerConfig":
        """The paper's big model (table 3, last row)."""
        return cls(
            d_model=1024, n_heads=16, d_ff=4096, dropout=0.3, source_vocab=vocab, target_vocab=vocab
        )


def check_positive(config: object, *names: str) -> None:
    """Raise :class:`TfmrError` unless the named fields are positive integers."""
    check_sizes(**{name: getattr(config, name) for name in names})


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise :class:`TfmrError` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise TfmrError(f"{name} must be one of {', '.join(choices)}: got {value!r}")


def check_dropout(p: float) -> None:
    """Raise :class:`TfmrError` unless ``p`` is a dropout probability."""
    if not 0 <= p < 1:
        raise TfmrError(f"a dropout probability must lie in [0, 1): got {p}")


def check_eps(eps: float) -> None:
    """Raise :class:`TfmrError` unless ``eps`` is positive."""
    if not eps > 0:
        raise TfmrError(f"eps must be positive: got {eps}")


def check_tie(tie: str, source_vocab: int, target_vocab: int) -> None:
    """Raise :class:`TfmrError` unless ``tie`` is valid for vocabularies of these sizes."""
    check_choice("tie", tie, get_args(Tie))
    if tie == "three-way" and source_vocab != target_vocab:
        raise TfmrError(
            "tie='three-way' shares one matrix between both languages, which needs a joint "
            f"vocabulary: got source_vocab={source_vocab}, target_vocab={target_vocab}; use a "
            "joint vocabulary or tie='target'"
        )
