"""What every model checks of its arguments: ids, devices, lengths, numbers of tokens."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.errors import rejects
from tfmr.config import TransformerConfig
from tfmr.fast import prepare
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig

SIZES = {"source_vocab": 30, "target_vocab": 30, "max_length": 12}
TRANSFORMER = Transformer(TransformerConfig(8, 2, 8, n_encoder=1, n_decoder=1, **SIZES))
MODELS: dict[str, Any] = {
    "transformer": TRANSFORMER,
    "seq2seq": Seq2Seq(Seq2SeqConfig(d_model=8, **SIZES)),
    "fast": prepare(TRANSFORMER),
}
LONG = torch.full((40, 13), 4)
PADDED = LONG.where(torch.arange(13) < 3, 0)
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ([[4] * 13], [[1]], ["max_length=12 source", "got 13"]),
        ([[4]], [[1] * 13], ["max_length=12 target", "got 13"]),
        ([[4, 30]], [[1]], ["source ids", "0 and 29", "got 4 to 30"]),
        ([[4]], [[1, -1]], ["target ids", "0 and 29", "got -1 to 1"]),
        ([[4], [0]], [[1], [1]], ["row 1"]),
        ([4, 5], [[1]], ["source ids", "(batch, length)", "got (2,)", "single"]),
        ([[4]], [1], ["target ids", "(batch, length)", "got (1,)", "single"]),
        ([[4]], [[]], ["target ids", "got (1, 0)"]),
        ([[4], [5]], [[1]], ["2 sources (2, 1)", "1 targets (1, 1)"]),
        # Padding before a token would count as positions.
        ([[4, 5, 6], [0, 4, 5]], [[1], [1]], ["padded at the end", "got [0, 4, 5] in row 1"]),
        ([[4, 0, 5], [4, 5, 0]], [[1], [1]], ["padded at the end", "got [4, 0, 5] in row 0"]),
    ],
)
def test_ids_of_teacher_forcing(kind: str, source: list, target: list, words: list[str]) -> None:
    rejects(lambda: MODELS[kind](torch.tensor(source), torch.tensor(target).long()), *words)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (torch.tensor([4, 5]), {}, ["source ids", "(batch, length)", "got (2,)"]),
        (torch.zeros(0, 3).long(), {}, ["got (0, 3)"]),
        (torch.zeros(2, 0).long(), {}, ["got (2, 0)"]),
        (torch.zeros(2, 3), {}, ["source ids", "got torch.float32"]),
        (torch.ones(2, 3).bool(), {}, ["source ids", "got torch.bool"]),
        ([[4, 5]], {}, ["source ids", "got list"]),
        (LONG[:1], {}, ["max_length=12 source", "got 13"]),
        (PADDED, {}, ["max_length=12 source", "got 13"]),
        (torch.tensor([[0, 4, 5]]), {}, ["padded at the end", "[0, 4, 5] in row 0"]),
        (LONG[:, :3], {"max_new_tokens": 0}, ["max_new_tokens", "from 1 to", "=12", "got 0"]),
        (LONG[:, :3], {"max_new_tokens": 13}, ["max_new_tokens", "got 13"]),
        (LONG[:, :3], {"max_new_tokens": 2.0}, ["max_new_tokens", "got 2.0"]),
        (LONG[:, :3], {"max_new_tokens": True}, ["max_new_tokens", "got True"]),
        (LONG[:, :3], {"beam": 0}, ["beam", "got 0"]),
        (LONG[:, :3], {"beam": True}, ["beam", "got True"]),
        (LONG[:, :3], {"beam": None}, ["beam", "got None"]),
    ],
)
def test_arguments_of_start(kind: str, source: Any, options: dict, words: list[str]) -> None:
    rejects(lambda: MODELS[kind].start(source, **{"max_new_tokens": 5, **options}), *words)
    MODELS[kind].start(LONG[:, :12], 12, beam=1)
    MODELS[kind].start(LONG[:, :12], 1, beam=1)


def test_ids_on_another_device_than_the_model() -> None:
    """The device ``meta`` computes nothing, but exists on every machine."""
    ids, model = LONG[:, :3], Transformer(TRANSFORMER.config).to("meta")
    for use in (model.encode, lambda ids: model(ids, ids), lambda ids: model.start(ids, 2)):
        rejects(lambda use=use: use(ids), "source ids", "meta", "got cpu")
    rejects(lambda: model.decoder.blocks[0].feed_forward(torch.ones(1, 2, 8)), "x ", "meta", "cpu")
    state = model.start(ids.to("meta"), 2)
    rejects(lambda: model.step(ids[:, 0], state), "target ids", "meta", "got cpu")


def test_a_bare_list_of_ids() -> None:
    model, ids = TRANSFORMER, LONG[:, :3]
    memory, state = model.encode(ids), model.start(ids, 2)
    uses: list[Callable[[], object]] = [
        lambda: model([[4]], [[5]]),
        lambda: model.encode([[4]]),
        lambda: model.decode([[4]], *memory),
        lambda: model.step([4], state),
    ]
    for use in uses:
        rejects(use, "must be a tensor", "got list")
