"""Translating with a recurrent network, as was done before the Transformer: with attention or not.

An encoder reads the source in both directions; a decoder says the target word by word. Attention
changes one thing only, which is what the decoder reads of the source before each word: without it
always the same one vector, with it a mixture of the vectors of all words, mixed anew each time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.additive_attention import AdditiveAttention
from tfmr.attention import padding_mask
from tfmr.errors import TfmrError, require
from tfmr.layers import Dropout
from tfmr.model import Tie
from tfmr.recurrent import GRU, LSTM, RNN, Cell, GRUCell, LSTMCell, Pair, RNNCell, Stack
from tfmr.translator import DecoderState, Translator, check_pairs, config_from_dict, embed

CellName = Literal["rnn", "lstm", "gru"]
STACKS: dict[CellName, Callable[[int, int], Stack[Any]]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
CELLS: dict[CellName, Callable[[int, int], Cell[Any]]] = {
    "rnn": RNNCell,
    "lstm": LSTMCell,
    "gru": GRUCell,
}


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Every choice that makes one recurrent translator differ from another.

    Raises:
        TfmrError: if a choice is out of range or two do not go together.
    """

    source_vocab: int
    """Number of source tokens, special ones included."""
    target_vocab: int
    """Number of target tokens, special ones included."""
    cell: CellName = "lstm"
    """The cells of encoder and decoder: ``"rnn"``, ``"lstm"`` or ``"gru"``."""
    attention: bool = True
    """Whether the decoder may look back at every source word, or is told one vector."""
    d_model: int = 256
    """Size of the embeddings, of the decoder's state, and of the encoder's two states together."""
    dropout: float = 0.2
    """Probability of a zero in the embeddings and in what the decoder predicts from."""
    tie: Tie = "three-way"
    """Which matrices are one: source embedding, target embedding and output projection
    (``"three-way"``), the last two (``"target"``), or none (``"none"``)."""
    max_length: int = 256
    """The longest sentence, source or target, in tokens."""

    def __post_init__(self) -> None:
        for name in ("source_vocab", "target_vocab", "d_model", "max_length"):
            value = getattr(self, name)
            require(
                isinstance(value, int) and value > 0,
                f"{name} must be a positive integer: got {value!r}",
            )
        require(
            self.d_model % 2 == 0,
            "d_model must be even, because each direction of the encoder has one half of it: got "
            f"{self.d_model}",
        )
        require(0 <= self.dropout < 1, f"a dropout probability lies in [0, 1): got {self.dropout}")
        require(
            isinstance(self.attention, bool),
            f"attention is there or not, True or False: got {self.attention!r}",
        )
        for name, choices in (("cell", get_args(CellName)), ("tie", get_args(Tie))):
            value = getattr(self, name)
            require(value in choices, f"{name} must be one of {', '.join(choices)}: got {value!r}")
        require(
            self.tie != "three-way" or self.source_vocab == self.target_vocab,
            "one matrix can serve both languages only if they share a vocabulary: got "
            f"source_vocab={self.source_vocab}, target_vocab={self.target_vocab}; use a joint "
            "vocabulary or tie='target'",
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Seq2SeqConfig":
        """The inverse of :func:`dataclasses.asdict`.

        Raises:
            TfmrError: if a name is unknown or a needed one is missing.
        """
        return config_from_dict(cls, values)


@dataclass
class Seq2SeqState:
    """What a recurrent decoder keeps between two words: a :class:`tfmr.translator.DecoderState`.

    The source is kept once per sentence, for all its hypotheses; the cell's state once per row.
    """

    memory: Float[Tensor, "sentences source d_model"]
    """What the decoder may read: a vector for each source word, or one for the whole sentence."""
    mask: Bool[Tensor, "sentences source"]
    """``True`` where ``memory`` belongs to a real token."""
    prepared: Float[Tensor, "sentences source d_prepared"]
    """``memory`` as the decoder needs it at every word: the keys of its attention, or what the one
    vector adds to each input of its cell."""
    cell: Tensor | Pair
    """The state of the cell for each row, ``(rows, d_model)``; for an LSTM the pair ``(h, c)``."""
    beam: int
    """Rows per sentence."""

    def select(self, sentences: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences only, in this order, all their hypotheses with them."""
        self.memory, self.mask = self.memory[sentences], self.mask[sentences]
        self.prepared = self.prepared[sentences]
        every = torch.arange(self.beam, device=sentences.device)
        self._select(sentences, every.expand(len(sentences), -1))

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Let hypothesis ``j`` of sentence ``i`` go on from the state of ``parents[i, j]``."""
        self._select(torch.arange(len(parents), device=parents.device), parents)

    def _select(
        self, sentences: Int[Tensor, "sentences"], hypotheses: Int[Tensor, "sentences beam"]
    ) -> None:
        rows = (sentences[:, None] * self.beam + hypotheses).flatten()
        if isinstance(self.cell, tuple):
            self.cell = self.cell[0][rows], self.cell[1][rows]
        else:
            self.cell = self.cell[rows]


def reverse(
    x: Float[Tensor, "batch length d_model"], n: Int[Tensor, "batch"]
) -> Float[Tensor, "batch length d_model"]:
    """Turn the first ``n`` vectors of each sentence round; its padding stays at the end.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
    >>> reverse(x[..., None], torch.tensor([3, 2]))[..., 0].int().tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = n[:, None] - 1 - position
    order = torch.where(mirrored >= 0, mirrored, position)
    return x.take_along_dim(order[..., None], dim=1)


class Seq2Seq(Translator):
    r"""A recurrent encoder and decoder, with additive attention between them or one vector.

    The encoder reads the source from left to right and from right to left; the two states at
    position :math:`j`, side by side, are the vector :math:`h_j` of word :math:`j`. The last state
    of either direction makes :math:`z`, the one vector that has seen the whole sentence. The
    decoder's state, the vector it predicts from, and its scores are

    .. math:: s_0 = \tanh(z W_0), \quad s_i = \mathrm{cell}([y_{i-1}; c_i], s_{i-1}), \quad
              t_i = \tanh([s_i; c_i; y_{i-1}] W_t), \quad \mathrm{scores}_i = t_i E^\top

    with :math:`y_{i-1}` the embedding of the word before. With attention :math:`c_i` is
    :class:`tfmr.additive_attention.AdditiveAttention` of :math:`s_{i-1}` over all :math:`h_j`: Bahdanau,
    Cho and Bengio (2015), section 3 and appendix A. Without it :math:`c_i = z` for all :math:`i`: the
    encoder-decoder of Cho et al. (2014), section 2.2.

    What differs from the papers, alike for all cells and with or without attention, so that one
    thing at a time is compared:

    - The cell may be an RNN, an LSTM or a GRU; the papers have a GRU, Sutskever et al. (2014) an
      LSTM. An LSTM also starts with :math:`c_0 = z W_0`, as if its output gate were open.
    - Without attention, too, the encoder reads both ways. Cho et al. read from left to right;
      Sutskever et al. from right to left, because the first words are then the last ones read.
      Both keep one layer here; Sutskever et al. have four, and hand over all their states.
    - :math:`t_i` is a tanh layer, as in Luong et al. (2015), equation 5, in place of the maxout
      layer of appendix A.2.2, and :math:`z` takes the last states of both directions.
    - Dropout acts on the embeddings and on :math:`t_i`, never along time (Zaremba et al., 2014),
      and the embeddings may be tied to each other and to the output (Press and Wolf, 2017).

    Args:
        config: its choices; see :class:`Seq2SeqConfig`.
    """

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.target_embedding = nn.Embedding(config.target_vocab, d_model)
        self.source_embedding = (
            self.target_embedding
            if config.tie == "three-way"
            else nn.Embedding(config.source_vocab, d_model)
        )
        self.output = nn.Linear(d_model, config.target_vocab, bias=False)
        self.dropout = Dropout(config.dropout)
        self.rightward = STACKS[config.cell](d_model, d_model // 2)
        self.leftward = STACKS[config.cell](d_model, d_model // 2)
        self.first = nn.Linear(d_model, d_model)
        self.cell = CELLS[config.cell](d_model, d_model)
        # The cell reads word and context side by side. Their products are kept apart, because that
        # of the words is computed for the whole sentence at once.
        self.from_context = nn.Linear(d_model, self.cell.gates * d_model, bias=False)
        self.attention = AdditiveAttention(d_model, d_model, d_model) if config.attention else None
        self.combine = nn.Linear(3 * d_model, d_model)
        self._initialise()
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight

    def _initialise(self) -> None:
        """Orthogonal recurrent matrices (Bahdanau et al., 2015, appendix B.1); the rest as usual.

        As usual: what a cell does with its inputs is its own affair, other maps are Glorot-uniform,
        and the embeddings have variance 1 / d_model, as those of :class:`tfmr.model.Transformer`.
        """
        for module in self.modules():
            if isinstance(module, Cell):
                for gate in module.from_hidden.weight.chunk(module.gates):
                    nn.init.orthogonal_(gate)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
        for linear in (self.first, self.from_context, self.combine, self.output):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The vector :math:`t` at each target position, from which it predicts the next token.

        Raises:
            TfmrError: if the batches differ, an id is outside its vocabulary, a sentence is empty
                or too long.
        """
        vectors, _ = self._follow(source, target)
        return vectors

    @torch.no_grad()
    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """How much each target position read of each source word before it was said.

        Raises:
            TfmrError: as :meth:`hidden`, or if the model has no attention.
        """
        require(
            self.attention is not None,
            "a model without attention reads the source as one vector, so its words are aligned "
            "with none: train one with attention=True",
        )
        _, weights = self._follow(source, target)
        return weights

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], Bool[Tensor, "batch source"]]:
        """The vector of each source word, and where there are words and not padding.

        Raises:
            TfmrError: if an id is outside the vocabulary, or a sentence is empty or too long.
        """
        mask = padding_mask(source)[:, 0, 0]
        n = mask.sum(dim=1)
        words = self._embed(self.source_embedding, source, "source")
        onward, _ = self.rightward(words)
        back, _ = self.leftward(reverse(words, n))
        return torch.cat((onward, reverse(back, n)), dim=-1), mask

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> Seq2SeqState:
        """Read the source; be ready to say at most ``max_new_tokens`` tokens of each hypothesis.

        What is kept does not grow with what is said, so ``max_new_tokens`` only has to be possible.

        Raises:
            TfmrError: if an id is outside the vocabulary, a sentence is empty or too long, or
                ``max_new_tokens`` or ``beam`` is out of range.
        """
        require(
            1 <= max_new_tokens <= self.config.max_length and beam >= 1,
            f"a translation has 1 to max_length={self.config.max_length} tokens and at least one "
            f"hypothesis: got max_new_tokens={max_new_tokens}, beam={beam}",
        )
        return self._begin(source, beam)

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Say ``tokens``, one per row of the ``state``; the scores of what may come next.

        Raises:
            TfmrError: if an id is outside the vocabulary, or the state is another model's.
        """
        if not isinstance(state, Seq2SeqState):
            raise TfmrError(
                "a recurrent translator goes on from what its own start() returned: got a "
                f"{type(state).__name__}"
            )
        words = self._embed(self.target_embedding, tokens[:, None], "target")[:, 0]
        h, context, _ = self._read_and_step(self.cell.project(words), state)
        return self.scores(self._predict_from(h, context, words))

    def _begin(self, source: Int[Tensor, "batch source"], beam: int = 1) -> Seq2SeqState:
        """Read the source; the state before the first word, ``beam`` times for each sentence."""
        memory, mask = self.encode(source)
        ends = mask.sum(dim=1) - 1
        half = self.config.d_model // 2
        read = memory[torch.arange(len(memory), device=memory.device), ends, :half]
        summary = torch.cat((read, memory[:, 0, half:]), dim=-1)
        if self.attention is None:
            memory, mask = summary[:, None], mask[:, :1]
            prepared = self.from_context(memory)
        else:
            prepared = self.attention.project(memory)
        c = self.first(summary).repeat_interleave(beam, dim=0)
        h = torch.tanh(c)
        lstm = self.config.cell == "lstm"
        return Seq2SeqState(memory, mask, prepared, (h, c) if lstm else h, beam)

    def _follow(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> tuple[Float[Tensor, "batch target d_model"], Float[Tensor, "batch target read"]]:
        """Say a given target: what each token is predicted from, and the weights of attention."""
        check_pairs(source, target)
        words = self._embed(self.target_embedding, target, "target")
        state = self._begin(source)
        steps = [self._read_and_step(x, state) for x in self.cell.project(words).unbind(1)]
        h, context, weights = (torch.stack(parts, dim=1) for parts in zip(*steps, strict=True))
        return self._predict_from(h, context, words), weights[:, :, 0]

    def _read_and_step(
        self, projected: Float[Tensor, "rows gates_d_model"], state: Seq2SeqState
    ) -> tuple[
        Float[Tensor, "rows d_model"],
        Float[Tensor, "rows d_model"],
        Float[Tensor, "sentences beam read"],
    ]:
        """Read the source, then the word: the cell's ``h``, the context, the weights it came by."""
        h = self.cell.hidden(state.cell).unflatten(0, (-1, state.beam))
        if self.attention is None:
            weights = state.mask[:, None].expand(-1, state.beam, -1).to(h.dtype)
            context = state.memory.expand(-1, state.beam, -1).flatten(0, 1)
            from_context = state.prepared.expand(-1, state.beam, -1).flatten(0, 1)
        else:
            read, weights = self.attention(h, state.prepared, state.memory, state.mask)
            context = read.flatten(0, 1)
            from_context = self.from_context(context)
        state.cell = self.cell.step(projected + from_context, state.cell)
        return self.cell.hidden(state.cell), context, weights

    def _predict_from(
        self,
        h: Float[Tensor, "*batch d_model"],
        context: Float[Tensor, "*batch d_model"],
        words: Float[Tensor, "*batch d_model"],
    ) -> Float[Tensor, "*batch d_model"]:
        r""":math:`t = \tanh([s; c; y] W_t)`, with dropout."""
        t: Tensor = self.dropout(torch.tanh(self.combine(torch.cat((h, context, words), dim=-1))))
        return t

    def _embed(
        self, embedding: nn.Embedding, ids: Int[Tensor, "batch length"], side: str
    ) -> Float[Tensor, "batch length d_model"]:
        """Look up, scale to numbers of size one, drop out."""
        x = embed(embedding, ids, side, ids.shape[1], self.config.max_length)
        dropped: Tensor = self.dropout(x * math.sqrt(self.config.d_model))
        return dropped
