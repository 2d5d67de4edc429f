"""The gates of a trained LSTM and a trained GRU on a sequence, step by step."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor, nn

from tfmr.errors import require
from tfmr.recurrent import Cell, GRUCell, LSTMCell
from tfmr.widgets.figure import LiveFigure

CELLS = ("LSTM", "GRU")
DIGITS = 4
"""Decimals of the weights in the state."""
MOST_UNITS, MOST_TOKENS, LONGEST = 4, 8, 12

# A recurrent cell and the classifier of its hidden state.
Network = tuple[Cell[Any], nn.Linear]


class GatesFigure(LiveFigure):
    """Gates, states and predictions of two networks that recall the latest of some tokens.

    The input of a step is the one-hot vector of its token. Class i of a classifier is the i-th
    token of the vocabulary; the tokens without a class are noise. Weights are rounded to four
    decimals, and :meth:`trace` computes with the rounded ones, as the figure does.

    Args:
        lstm: an LSTM cell of at most 4 components, and the classifier of its hidden state.
        gru: a GRU cell with ``reset_after``, and its classifier.
        vocabulary: at most 8 tokens, as many as the cells have input components.
        sequence: 2 to 12 tokens of the vocabulary.
        cell: ``"LSTM"`` or ``"GRU"``.
        step: the step that is shown first, from 1.
        unit: the component whose arithmetic is shown first, from 1.

    Raises:
        TfmrError: if a cell is of another kind or size, or another argument is out of range.
    """

    vocabulary = traitlets.List(traitlets.Unicode()).tag(sync=True)
    weights = traitlets.Dict().tag(sync=True)
    """By cell: ``w_x``, ``w_h``, ``b``, ``w_o``, ``b_o``, and ``b_n``, the GRU's second bias.

    Rows of a matrix are inputs, columns outputs, as in the formulas.
    """
    sequence = traitlets.List(traitlets.Unicode()).tag(sync=True)
    cell = traitlets.Enum(CELLS).tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    unit = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        lstm: Network,
        gru: Network,
        *,
        vocabulary: Sequence[str],
        sequence: Sequence[str],
        cell: str = "LSTM",
        step: int = 1,
        unit: int = 1,
    ) -> None:
        tokens = list(vocabulary)
        require(
            2 <= len(tokens) <= MOST_TOKENS and len(set(tokens)) == len(tokens),
            f"the vocabulary must have 2 to {MOST_TOKENS} different tokens: got {tokens}",
        )
        require(
            2 <= len(sequence) <= LONGEST and set(sequence) <= set(tokens),
            f"the sequence must have 2 to {LONGEST} tokens of the vocabulary: got {sequence}",
        )
        require(cell in CELLS, f"cell must be one of {', '.join(CELLS)}: got {cell}")
        self._networks = {
            "LSTM": _rounded(lstm, LSTMCell, len(tokens)),
            "GRU": _rounded(gru, GRUCell, len(tokens)),
        }
        units = self._networks[cell][0].d_hidden
        for name, value, last in (("step", step, len(sequence)), ("unit", unit, units)):
            require(1 <= value <= last, f"{name} must be from 1 to {last}: got {value}")
        super().__init__(
            vocabulary=tokens,
            weights={name: _weights(*network) for name, network in self._networks.items()},
            sequence=list(sequence),
            cell=cell,
            step=step,
            unit=unit,
        )

    def trace(self) -> dict[str, list[list[float]]]:
        """What the selected cell computes, by step and component.

        The keys are ``i``, ``f``, ``g``, ``o``, ``c`` and ``h`` of the LSTM, or ``r``, ``z``, ``n``
        and ``h`` of the GRU, and ``p``, the predicted probabilities.
        """
        cell, classifier = self._networks[self.cell]
        ids = torch.tensor([self.vocabulary.index(token) for token in self.sequence])
        state = cell.initial_state(1)
        rows: list[dict[str, Tensor]] = []
        with torch.no_grad():
            for x in nn.functional.one_hot(ids, len(self.vocabulary)).double():
                row = _gates(cell, cell.project(x[None]), cell.hidden(state))
                state = cell(x[None], state)
                row["h"] = cell.hidden(state)
                row["p"] = classifier(row["h"]).softmax(-1)
                if isinstance(state, tuple):
                    row["c"] = state[1]
                rows.append(row)
        return {name: [row[name][0].tolist() for row in rows] for name in rows[0]}

    def summary(self) -> str:
        """The sequence, and the prediction of the selected cell at its end."""
        last = self.trace()["p"][-1]
        prediction = self.vocabulary[last.index(max(last))]
        return (
            f"gates of a trained LSTM and a trained GRU over “{' '.join(self.sequence)}”;"
            f" the {self.cell} predicts “{prediction}” at the end."
        )


def _gates(cell: Cell[Any], projected: Tensor, h: Tensor) -> dict[str, Tensor]:
    """The gates and the candidate of one step, by letter."""
    recurrent = cell.w_h(h)
    if isinstance(cell, LSTMCell):
        i, f, g, o = (projected + recurrent).chunk(4, dim=-1)
        return {"i": i.sigmoid(), "f": f.sigmoid(), "g": g.tanh(), "o": o.sigmoid()}
    (x_r, x_z, x_n), (h_r, h_z, h_n) = projected.chunk(3, dim=-1), recurrent.chunk(3, dim=-1)
    r = (x_r + h_r).sigmoid()
    n = (x_n + r * (h_n + cell.candidate_bias)).tanh()
    return {"r": r, "z": (x_z + h_z).sigmoid(), "n": n}


def _rounded(network: Network, kind: type[Cell[Any]], d_in: int) -> Network:
    """A copy of the network in double precision, with rounded weights."""
    cell, classifier = copy.deepcopy(network)
    require(isinstance(cell, kind), f"expected {kind.__name__}: got {type(cell).__name__}")
    require(
        cell.d_in == d_in and cell.d_hidden <= MOST_UNITS,
        f"the {kind.__name__} must have d_in={d_in}, the size of the vocabulary, and at most"
        f" {MOST_UNITS} components: got d_in={cell.d_in} and d_hidden={cell.d_hidden}",
    )
    require(
        not isinstance(cell, GRUCell) or cell.candidate_bias is not None,
        "the figure shows the GRU with the reset gate after the matrix multiplication: build the"
        " cell with reset_after=True",
    )
    require(
        classifier.in_features == cell.d_hidden and classifier.out_features <= d_in,
        f"the classifier must have d_in={cell.d_hidden} and at most {d_in} classes: got"
        f" {classifier.in_features} and {classifier.out_features}",
    )
    for module in (cell, classifier):
        module.double()
        for parameter in module.parameters():
            parameter.data = parameter.data.round(decimals=DIGITS)
    return cell, classifier


def _weights(cell: Cell[Any], classifier: nn.Linear) -> dict[str, Any]:
    """The weights as lists, as the formulas of the chapter name them."""
    tensors = {
        "w_x": cell.w_x.weight.T,
        "w_h": cell.w_h.weight.T,
        "b": cell.w_x.bias,
        "w_o": classifier.weight.T,
        "b_o": classifier.bias,
    }
    if isinstance(cell, GRUCell) and cell.candidate_bias is not None:
        tensors["b_n"] = cell.candidate_bias
    return {name: _lists(tensor.tolist()) for name, tensor in tensors.items()}


def _lists(value: Any) -> Any:
    """The numbers without the digits that rounding in binary leaves."""
    return [_lists(each) for each in value] if isinstance(value, list) else round(value, DIGITS)
