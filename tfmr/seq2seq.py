"""Recurrent encoder-decoder translation models, with or without additive attention.

A bidirectional encoder maps the source to one vector per position; a recurrent decoder predicts the
target from left to right. Without attention the decoder conditions on one vector for the whole
source at every step; with attention, on a new weighted sum of the encoder outputs at each step.
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
from tfmr.checks import check_pairs, check_start, check_state, check_tensor, embed
from tfmr.config import Tie, check_choice, check_dropout, check_positive, check_tie
from tfmr.errors import TfmrError, require
from tfmr.layers import Dropout
from tfmr.recurrent import GRU, LSTM, RNN, Cell, GRUCell, LSTMCell, LSTMState, RNNCell, Stack
from tfmr.translator import DecoderState, RowState, Translator

CellName = Literal["rnn", "lstm", "gru"]
STACKS: dict[CellName, Callable[[int, int], Stack[Any]]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
CELLS: dict[CellName, Callable[[int, int], Cell[Any]]] = {
    "rnn": RNNCell,
    "lstm": LSTMCell,
    "gru": GRUCell,
}


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """The hyperparameters of a recurrent translation model.

    Raises:
        TfmrError: if a value is out of range or two values are incompatible.
    """

    source_vocab: int
    """Number of source tokens, special tokens included."""
    target_vocab: int
    """Number of target tokens, special tokens included."""
    cell: CellName = "lstm"
    """Cell of encoder and decoder: ``"rnn"``, ``"lstm"`` or ``"gru"``."""
    attention: bool = True
    """Whether the decoder attends to all encoder outputs or conditions on one vector."""
    d_model: int = 256
    """Size of the embeddings, the decoder state, and the concatenated encoder states."""
    dropout: float = 0.2
    """Dropout probability of the embeddings and of the input of the output projection."""
    tie: Tie = "three-way"
    """Which matrices are shared: source embedding, target embedding and output projection
    (``"three-way"``), the latter two (``"target"``), or none (``"none"``)."""
    max_length: int = 256
    """Maximum length of a source or target sentence, in tokens."""

    def __post_init__(self) -> None:
        check_positive(self, "source_vocab", "target_vocab", "d_model", "max_length")
        require(
            self.d_model % 2 == 0,
            "d_model must be even, because each direction of the encoder has d_model / 2 units: "
            f"got {self.d_model}",
        )
        require(
            isinstance(self.attention, bool),
            f"attention must be True or False: got {self.attention!r}",
        )
        check_dropout(self.dropout)
        check_choice("cell", self.cell, get_args(CellName))
        check_tie(self.tie, self.source_vocab, self.target_vocab)


@dataclass
class Seq2SeqState(RowState):
    """State of incremental decoding.

    The encoder outputs are stored once per sentence, the state of the RNN cell once per row (that
    is, per hypothesis).
    """

    memory: Float[Tensor, "sentences source d_model"]
    """The encoder outputs; without attention, one vector per sentence."""
    mask: Bool[Tensor, "sentences source"]
    """``True`` where ``memory`` belongs to a real token."""
    keys: Float[Tensor, "sentences source d_model"] | None
    """The attention keys of ``memory``; ``None`` without attention."""
    rnn_state: Tensor | LSTMState
    """The state of the RNN cell, ``(rows, d_model)``; for an LSTM ``(h, c)``."""
    beam: int
    """Rows per sentence."""

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Keep only these sentences, in this order, with all their hypotheses."""
        self.memory, self.mask = self.memory[sentences], self.mask[sentences]
        if self.keys is not None:
            self.keys = self.keys[sentences]
        super().select(sentences)

    def select_rows(self, rows: Int[Tensor, "rows"]) -> None:
        """See :meth:`tfmr.translator.RowState.select_rows`."""
        if isinstance(self.rnn_state, tuple):
            self.rnn_state = self.rnn_state[0][rows], self.rnn_state[1][rows]
        else:
            self.rnn_state = self.rnn_state[rows]


def reverse(
    x: Float[Tensor, "batch length d_model"], n: Int[Tensor, "batch"]
) -> Float[Tensor, "batch length d_model"]:
    """Reverse the first ``n`` vectors of each sentence; padding stays at the end.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
    >>> reverse(x[..., None], torch.tensor([3, 2]))[..., 0].int().tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = n[:, None] - 1 - position
    order = torch.where(mirrored >= 0, mirrored, position)
    return x.take_along_dim(order[..., None], dim=1)


class Seq2Seq(Translator):
    r"""A recurrent encoder-decoder, with additive attention or with one vector for the source.

    A forward and a backward RNN encode the source; the concatenation of their states at position
    :math:`j` is the encoder output :math:`h_j`. Their final states, concatenated, are :math:`z`, a
    single vector that depends on the whole sentence. The decoder computes

    .. math:: s_0 = \tanh(z W_0), \quad s_i = \mathrm{cell}([y_{i-1}; c_i], s_{i-1}), \quad
              t_i = \tanh([s_i; c_i; y_{i-1}] W_t), \quad \mathrm{scores}_i = t_i E^\top

    where :math:`y_{i-1}` is the embedding of the previous token. With attention, the context
    :math:`c_i` is the result of :class:`tfmr.additive_attention.AdditiveAttention` for the query
    :math:`s_{i-1}` over all :math:`h_j`: Bahdanau, Cho and Bengio (2015), section 3 and appendix A.
    Without attention, :math:`c_i = z` for all :math:`i`: Cho et al. (2014), section 2.2.

    Differences from the papers, the same for all variants so that variants differ in one respect
    only:

    - The cell may be an RNN, an LSTM or a GRU. The two papers use a GRU; Sutskever et al. (2014)
      use an LSTM. The initial cell state of an LSTM is :math:`c_0 = z W_0`.
    - The encoder is bidirectional without attention, too. Cho et al. encode from left to right;
      Sutskever et al. from right to left, so that the first words are the most recent inputs.
    - There is one layer. Sutskever et al. have four and initialise the decoder with the final
      states of all of them.
    - :math:`t_i` is a tanh layer as in Luong et al. (2015), equation 5, not the maxout layer of
      appendix A.2.2; :math:`z` includes the final states of both directions.
    - Dropout applies to the embeddings and to :math:`t_i`, never between time steps (Zaremba et
      al., 2014). The embeddings may be tied to each other and to the output projection (Press and
      Wolf, 2017).

    Args:
        config: the hyperparameters.
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
        self.forward_rnn = STACKS[config.cell](d_model, d_model // 2)
        self.backward_rnn = STACKS[config.cell](d_model, d_model // 2)
        self.bridge = nn.Linear(d_model, d_model)
        # The cell's input is [y; c]. W_x is split into two matrices, one for y and one for c, so
        # that the projections of all target embeddings are computed at once in teacher forcing.
        self.decoder_cell = CELLS[config.cell](d_model, d_model)
        self.w_context = nn.Linear(d_model, self.decoder_cell.gates * d_model, bias=False)
        self.attention = AdditiveAttention(d_model, d_model, d_model) if config.attention else None
        self.combine = nn.Linear(3 * d_model, d_model)
        self._initialise()
        if config.tie != "none":
            self.output.weight = self.target_embedding.weight

    def _initialise(self) -> None:
        """Orthogonal recurrent matrices (Bahdanau et al., 2015, appendix B.1).

        The other matrices are Glorot-uniform, except the input projections of the cells, which
        keep the initialisation of :class:`tfmr.recurrent.Cell`. Embeddings have variance
        1 / d_model, as in :class:`tfmr.model.Transformer`.
        """
        for module in self.modules():
            if isinstance(module, Cell):
                for gate in module.w_h.weight.chunk(module.gates):
                    nn.init.orthogonal_(gate)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
        for linear in (self.bridge, self.w_context, self.combine, self.output):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def hidden(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The vectors :math:`t_i` from which :meth:`scores` predicts the next token.

        Raises:
            TfmrError: if the batches differ, an id is outside its vocabulary, or a sentence is
                empty or longer than ``max_length``.
        """
        vectors, _ = self._teacher_forcing(source, target)
        return vectors

    @torch.no_grad()
    def alignment(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target source"]:
        """The attention weights used to predict the token after each position of ``target``.

        Raises:
            TfmrError: as :meth:`hidden`, or if the model has no attention.
        """
        require(
            self.attention is not None,
            "a model without attention has no attention weights to align words with: train one "
            "with attention=True",
        )
        _, weights = self._teacher_forcing(source, target)
        return weights

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source d_model"], Bool[Tensor, "batch source"]]:
        """The encoder outputs, and a mask that is ``True`` at real tokens.

        Raises:
            TfmrError: if an id is outside the vocabulary, or a sentence is empty or longer than
                ``max_length``.
        """
        mask = padding_mask(source)[:, 0, 0]
        n = mask.sum(dim=1)
        embedded = self._embed(self.source_embedding, source, "source")
        forward_states, _ = self.forward_rnn(embedded)
        backward_states, _ = self.backward_rnn(reverse(embedded, n))
        return torch.cat((forward_states, reverse(backward_states, n)), dim=-1), mask

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> Seq2SeqState:
        """Encode the source and return the initial decoder state, ``beam`` rows per sentence.

        ``max_new_tokens`` is only checked: the size of the state does not depend on it.

        Raises:
            TfmrError: if ``source`` is not a batch of sentences, an id is outside the vocabulary, a
                sentence is empty or too long, or ``max_new_tokens`` or ``beam`` is out of range.
        """
        check_start(self.config.max_length, source, max_new_tokens, beam)
        return self._initial_state(source, beam)

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """Append ``tokens``, one per row of ``state``; return the scores of the next token.

        Raises:
            TfmrError: if an id is outside the vocabulary, there is not one token per row, or
                ``state`` comes from another kind of model.
        """
        state = check_state(state, Seq2SeqState)
        check_tensor(tokens, "tokens")
        if tokens.shape != (len(state.memory) * state.beam,):
            raise TfmrError(
                f"step() needs one token for each of {len(state.memory)} sentences x {state.beam} "
                f"hypotheses: got shape {tuple(tokens.shape)}"
            )
        embedded = self._embed(self.target_embedding, tokens[:, None], "target")[:, 0]
        h, context, _ = self._decoder_step(self.decoder_cell.project(embedded), state)
        return self.scores(self._combine(h, context, embedded))

    def _initial_state(self, source: Int[Tensor, "batch source"], beam: int = 1) -> Seq2SeqState:
        """Encode the source; :math:`s_0` for ``beam`` rows per sentence."""
        memory, mask = self.encode(source)
        half = self.config.d_model // 2
        last = mask.sum(dim=1) - 1
        forward_final = memory[torch.arange(len(memory), device=memory.device), last, :half]
        backward_final = memory[:, 0, half:]
        z = torch.cat((forward_final, backward_final), dim=-1)
        if self.attention is None:
            memory, mask, keys = z[:, None], mask[:, :1], None
        else:
            keys = self.attention.project_keys(memory)
        c = self.bridge(z).repeat_interleave(beam, dim=0)
        h = torch.tanh(c)
        return Seq2SeqState(memory, mask, keys, (h, c) if self.config.cell == "lstm" else h, beam)

    def _teacher_forcing(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
    ) -> tuple[Float[Tensor, "batch target d_model"], Float[Tensor, "batch target memory"]]:
        """:math:`t_i` and the attention weights at every position of a given target."""
        check_pairs(source, target)
        state = self._initial_state(source)
        embedded = self._embed(self.target_embedding, target, "target")
        projected = self.decoder_cell.project(embedded)
        steps = [self._decoder_step(projected_i, state) for projected_i in projected.unbind(1)]
        h, context, weights = (torch.stack(tensors, dim=1) for tensors in zip(*steps, strict=True))
        return self._combine(h, context, embedded), weights[:, :, 0]

    def _decoder_step(
        self, projected: Float[Tensor, "rows gates_d_model"], state: Seq2SeqState
    ) -> tuple[
        Float[Tensor, "rows d_model"],
        Float[Tensor, "rows d_model"],
        Float[Tensor, "sentences beam memory"],
    ]:
        """Attend, then update the RNN state: :math:`s_i`, :math:`c_i` and the attention weights.

        ``projected`` is the input projection of the previous token's embedding.
        """
        context, weights = self._attend(self.decoder_cell.hidden(state.rnn_state), state)
        state.rnn_state = self.decoder_cell.step(
            projected + self.w_context(context), state.rnn_state
        )
        return self.decoder_cell.hidden(state.rnn_state), context, weights

    def _attend(
        self, h: Float[Tensor, "rows d_model"], state: Seq2SeqState
    ) -> tuple[Float[Tensor, "rows d_model"], Float[Tensor, "sentences beam memory"]]:
        """The context of each row and its weights; without attention :math:`z`, with weight 1."""
        queries = h.unflatten(0, (-1, state.beam))  # (sentences, beam, d_model)
        if self.attention is None or state.keys is None:
            context = state.memory.expand(-1, state.beam, -1)
            weights = queries.new_ones(*queries.shape[:2], 1)
        else:
            context, weights = self.attention(queries, state.keys, state.memory, state.mask)
        return context.flatten(0, 1), weights

    def _combine(
        self,
        h: Float[Tensor, "*batch d_model"],
        context: Float[Tensor, "*batch d_model"],
        embedded: Float[Tensor, "*batch d_model"],
    ) -> Float[Tensor, "*batch d_model"]:
        r""":math:`t_i = \tanh([s_i; c_i; y_{i-1}] W_t)`, with dropout."""
        t: Tensor = torch.tanh(self.combine(torch.cat((h, context, embedded), dim=-1)))
        dropped: Tensor = self.dropout(t)
        return dropped

    def _embed(
        self, embedding: nn.Embedding, ids: Int[Tensor, "batch length"], side: str
    ) -> Float[Tensor, "batch length d_model"]:
        """Embeddings times √d_model, so that their entries have variance 1; with dropout."""
        x = embed(embedding, ids, side, self.config.max_length) * math.sqrt(self.config.d_model)
        dropped: Tensor = self.dropout(x)
        return dropped


def encode_naive(
    model: Seq2Seq, source: Int[Tensor, "source"]
) -> tuple[Float[Tensor, "source d_model"], Float[Tensor, "d_model"]]:
    """The encoder outputs and the vector :math:`z` of one sentence, without dropout."""
    x = model.source_embedding(source) * math.sqrt(model.config.d_model)
    forward, _ = model.forward_rnn(x[None])  # a batch of one
    backward, _ = model.backward_rnn(x.flip(0)[None])
    memory = torch.cat((forward[0], backward[0].flip(0)), dim=-1)
    z = torch.cat((forward[0, -1], backward[0, -1]))
    return memory, z


def decode_naive(
    model: Seq2Seq,
    z: Float[Tensor, "d_model"],
    context: Callable[[Float[Tensor, "d_model"]], Float[Tensor, "d_model"]],
    target: Int[Tensor, "target"],
) -> Float[Tensor, "target vocab"]:
    """The logits of the next token after each token of ``target``.

    Dropout is not applied.

    Args:
        model: a model with RNN or GRU cells.
        z: the vector of the source sentence.
        context: computes :math:`c_i` from :math:`s_{i-1}`.
        target: the previous tokens, from the beginning-of-sentence token on.
    """
    cell, logits = model.decoder_cell, []
    s = torch.tanh(model.bridge(z))
    for y in model.target_embedding(target) * math.sqrt(model.config.d_model):
        c = context(s)
        projected = cell.project(y) + model.w_context(c)
        s = cell.step(projected[None], s[None])[0]  # a batch of one
        t = torch.tanh(model.combine(torch.cat((s, c, y))))
        logits.append(model.output(t))
    return torch.stack(logits)
