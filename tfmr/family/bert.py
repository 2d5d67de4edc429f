"""BERT: an encoder that predicts masked tokens from the tokens on both sides."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.checks import embed
from tfmr.config import Activation, BlockConfig, check_positive
from tfmr.encoder import Encoder
from tfmr.errors import TfmrError, require
from tfmr.family.blocks import key_mask
from tfmr.family.language_model import positions
from tfmr.family.pretrained import Rename, copy_weights, read_checkpoint
from tfmr.layers import Dropout, LayerNorm

IGNORED = -100
"""The label of a position that is not predicted, as in PyTorch's cross-entropy."""


@dataclass(frozen=True)
class BertConfig(BlockConfig):
    """The hyperparameters of :class:`Bert`; the defaults are those of BERT-base.

    Devlin et al. (2019), section 3.
    """

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    activation: Activation = "gelu"
    eps: float = 1e-12
    vocab: int = 30522
    """Number of tokens, special tokens included."""
    n_layers: int = 12
    """Number of encoder blocks."""
    max_length: int = 512
    """Maximum number of tokens of a text or a pair of texts."""
    n_segments: int = 2
    """Number of segments: the first and the second text of a pair."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "vocab", "n_layers", "max_length", "n_segments")


class Bert(nn.Module):
    """The encoder of chapter 8 with learned positions, segments, and a head for masked tokens.

    Its blocks are those of Vaswani et al. (2017), post-norm, with GELU. Devlin et al. (2019).

    Args:
        config: the hyperparameters.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d_model)
        self.position = nn.Embedding(config.max_length, config.d_model)
        self.segment = nn.Embedding(config.n_segments, config.d_model)
        self.embedding_norm = LayerNorm(config.d_model, config.eps)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, config.n_layers)
        self.head = nn.Linear(config.d_model, config.d_model)
        self.head_norm = LayerNorm(config.d_model, config.eps)
        self.output = nn.Linear(config.d_model, config.vocab)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        self.output.weight = self.embedding.weight

    def hidden(
        self,
        ids: Int[Tensor, "batch length"],
        attention_mask: Bool[Tensor, "batch length"] | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length d_model"]:
        """The encoder output at every position.

        Args:
            ids: token ids.
            attention_mask: ``True`` for real tokens, ``False`` for padding; ``None``: all real.
                Positions count from the first real token.
            segments: 0 for the first text, 1 for the second; ``None``: all 0.

        Raises:
            TfmrError: if an id is outside the vocabulary, a text is empty or too long, or the mask
                does not fit.
        """
        x = embed(self.embedding, ids, "", self.config.max_length)
        mask = key_mask(attention_mask, ids.shape)
        segments = torch.zeros_like(ids) if segments is None else segments
        x = x + embed(self.segment, segments, "segment")
        x = x + self.position(positions(ids, attention_mask))
        out: Tensor = self.encoder(self.dropout(self.embedding_norm(x)), mask)
        return out

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        attention_mask: Bool[Tensor, "batch length"] | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length vocab"]:
        """Logits of the token at every position; the arguments are those of :meth:`hidden`."""
        return self.scores(self.hidden(ids, attention_mask, segments))

    @property
    def final_stack(self) -> Encoder:
        """The stack whose output :meth:`scores` maps to logits."""
        return self.encoder

    def scores(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """One logit per token."""
        logits: Tensor = self.output(self.head_norm(F.gelu(self.head(x))))
        return logits

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Bert":
        """The model in a folder that ``BertForMaskedLM.save_pretrained`` wrote.

        Raises:
            TfmrError: if a file is missing, is not a safetensors checkpoint of a BERT, or does not
                fit its configuration.
        """
        config, tensors = read_checkpoint(folder, "bert")
        config.expect(
            hidden_act="gelu",
            tie_word_embeddings=True,
            position_embedding_type="absolute",
            is_decoder=False,
            is_encoder_decoder=False,
            add_cross_attention=False,
        )
        settings = BertConfig(
            d_model=config["hidden_size"],
            n_heads=config["num_attention_heads"],
            d_ff=config["intermediate_size"],
            dropout=config["hidden_dropout_prob"],
            vocab=config["vocab_size"],
            n_layers=config["num_hidden_layers"],
            max_length=config["max_position_embeddings"],
            n_segments=config["type_vocab_size"],
            eps=config["layer_norm_eps"],
        )
        config.finish(
            "directionality",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        )
        return copy_weights(cls(settings), tensors, NAMES, folder)


NAMES = [
    # The names in the checkpoints that the authors published.
    Rename(r"LayerNorm\.gamma$", "LayerNorm.weight"),
    Rename(r"LayerNorm\.beta$", "LayerNorm.bias"),
    Rename(r"bert\.embeddings\.word_embeddings", "embedding"),
    Rename(r"bert\.embeddings\.position_embeddings", "position"),
    Rename(r"bert\.embeddings\.token_type_embeddings", "segment"),
    Rename(r"bert\.embeddings\.LayerNorm", "embedding_norm"),
    Rename(r"bert\.encoder\.layer", "encoder.blocks"),
    Rename(r"attention\.self\.query", "attention.w_q"),
    Rename(r"attention\.self\.key", "attention.w_k"),
    Rename(r"attention\.self\.value", "attention.w_v"),
    Rename(r"attention\.output\.dense", "attention.w_o"),
    Rename(r"attention\.output\.LayerNorm", "residuals.0.norm"),
    Rename(r"intermediate\.dense", "feed_forward.expand"),
    Rename(r"output\.dense", "feed_forward.contract"),
    Rename(r"output\.LayerNorm", "residuals.1.norm"),
    Rename(r"cls\.predictions\.transform\.dense", "head"),
    Rename(r"cls\.predictions\.transform\.LayerNorm", "head_norm"),
    Rename(r"cls\.predictions\.bias", "output.bias"),
]
"""Names of weights in the checkpoints of Hugging Face, and here."""


def mask_tokens(
    ids: Int[Tensor, "batch length"],
    *,
    mask_id: int,
    first_word: int,
    vocab: int,
    generator: torch.Generator,
    p: float = 0.15,
) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
    """Choose tokens to predict, and replace most of them: masked language modelling.

    Of the chosen tokens, 80 % are replaced by the mask token and 10 % by a random token; 10 % are
    kept. The model must therefore predict tokens at positions without a mask token, too. Devlin et
    al. (2019), section 3.1.

    Args:
        ids: token ids; special tokens, whose ids are below ``first_word``, are never chosen.
        mask_id: id of the mask token.
        first_word: the lowest id that is not a special token.
        vocab: number of tokens.
        generator: source of random numbers.
        p: probability that a token is chosen.

    Returns:
        The ids with hidden tokens, and the labels: the original id where a token was chosen,
        :data:`IGNORED` elsewhere.

    Raises:
        TfmrError: if ``p`` is not in (0, 1] or the ids of the special tokens do not fit.
    """
    require(0 < p <= 1, f"p must be a probability in (0, 1]: got {p}")
    if not 0 <= mask_id < first_word < vocab:
        raise TfmrError(
            "mask_id must be a special token, so 0 <= mask_id < first_word < vocab: got "
            f"mask_id={mask_id}, first_word={first_word}, vocab={vocab}"
        )
    chosen = (torch.rand(ids.shape, generator=generator) < p) & (ids >= first_word)
    action = torch.rand(ids.shape, generator=generator)
    random = torch.randint(first_word, vocab, ids.shape, generator=generator)
    hidden = torch.where(chosen & (action < 0.8), mask_id, ids)
    hidden = torch.where(chosen & (action >= 0.9), random, hidden)
    return hidden, ids.masked_fill(~chosen, IGNORED)
