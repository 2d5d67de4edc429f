"""What all searches share: valid tokens only, maximum lengths, and checked arguments."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.decode.models import (
    MAX_LENGTH,
    SENTENCES,
    Table,
    TableConfig,
    TableState,
    add_bias,
    recurrent,
    transformer,
)
from tfmr.data.batches import pad
from tfmr.decode import (
    EXTRA_LENGTH,
    Sampling,
    beam_search,
    beam_search_naive,
    greedy_search,
    greedy_search_naive,
    max_output_lengths,
    sample,
)
from tfmr.decode.generate import GenerationConfig, compact_rows
from tfmr.decode.search import search as choose
from tfmr.errors import TfmrError
from tfmr.family import GPT, T5, GPTConfig, T5Config
from tfmr.fast import prepare
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import IncrementalModel, Translator

Search = Callable[[Translator, Tensor], list[list[int]]]
BATCHED: dict[str, Search] = {
    "greedy": greedy_search,
    "beam": lambda model, source: [h.ids for [h] in beam_search(model, source, 3)],
    "sample": lambda model, source: sample(model, source, seeds=range(len(source))),
}
NAIVE: dict[str, Search] = {
    "greedy naive": lambda model, source: [greedy_search_naive(model, source)],
    "beam naive": lambda model, source: [beam_search_naive(model, source, 2)[0].ids],
}
SEARCHES = BATCHED | NAIVE


@pytest.mark.parametrize("search", SEARCHES)
def test_pad_and_bos_are_never_generated(search: str) -> None:
    model = transformer()
    add_bias(model, {PAD: 1e3, BOS: 1e3})
    outputs = SEARCHES[search](model, pad(SENTENCES if search in BATCHED else SENTENCES[:1]))
    assert any(outputs)
    assert all(not {PAD, BOS, EOS} & set(output) for output in outputs)


@pytest.mark.parametrize("max_length", [8, 60])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_translation_without_eos_stops_at_its_own_maximum_length(
    search: str, max_length: int
) -> None:
    model = transformer(max_length=max_length)
    add_bias(model, {EOS: -1e9})
    sentences = SENTENCES if search in BATCHED else SENTENCES[1:2]
    expected = [min(len(ids) + EXTRA_LENGTH, max_length) for ids in sentences]
    assert max_output_lengths(model, pad(sentences)) == expected
    assert [len(output) for output in SEARCHES[search](model, pad(sentences))] == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.tensor([4, 5]), r"source ids.*\(batch, length\).*got \(2,\)"),
        (torch.zeros(0, 3, dtype=torch.int64), r"got \(0, 3\)"),
        (torch.zeros(1, 0, dtype=torch.int64), r"got \(1, 0\)"),
        (torch.tensor([[4, 5], [PAD, PAD]]), "at least one token: got only padding in row 1"),
        (torch.tensor([[4.0, 5.0]]), "got torch.float32"),
        (torch.tensor([[True, True]]), "got torch.bool"),
    ],
    ids=["1-D", "empty batch", "empty sentence", "only padding", "float", "bool"],
)
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.usefixtures("unchecked")
def test_invalid_source(search: str, source: Tensor, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        SEARCHES[search](transformer(), source)


def test_a_search_cannot_also_sample() -> None:
    with pytest.raises(TfmrError, match=r"exclude each other: got beam=3 and sampling"):
        choose(transformer(), torch.tensor([[4, 5]]), beam=3, sampling=Sampling(), seeds=[0])


@pytest.mark.parametrize("number", [0, 2.0])
@pytest.mark.usefixtures("unchecked")
def test_a_number_of_tokens_is_positive(number: Any) -> None:
    with pytest.raises(TfmrError, match=rf"max_new_tokens.*got {number}"):
        GenerationConfig(max_new_tokens=number)


@pytest.mark.parametrize("search", BATCHED)
def test_training_mode_is_rejected(search: str) -> None:
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        BATCHED[search](transformer().train(), pad(SENTENCES))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (transformer, "TransformerState"),
        (recurrent, "Seq2SeqState"),
        (lambda: prepare(transformer()), "FastState"),
        (lambda: T5(T5Config(30, 16, 8, 16, 1, 1, 2)), "TransformerState"),
        (lambda: GPT(GPTConfig(d_model=16, n_heads=2, d_ff=16, vocab=30)), "LanguageModelState"),
    ],
)
def test_a_step_needs_the_state_of_its_model(
    model: Callable[[], IncrementalModel], kind: str
) -> None:
    with pytest.raises(TfmrError, match=rf"{kind} .*got TableState"):
        model().step(torch.tensor([4]), TableState(torch.tensor([[4]]), 1, 1))


def test_compact_rows_moves_as_few_rows_as_possible() -> None:
    for finished in product([False, True], repeat=6):
        rows = compact_rows(finished)
        assert sorted(rows) == [row for row, is_finished in enumerate(finished) if not is_finished]
        moved = sum(row != place for place, row in enumerate(rows))
        assert moved == sum(finished[: len(rows)])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("search", SEARCHES)
def test_scores_without_a_possible_token_are_an_error(search: str, bad: float) -> None:
    """In the second step, of the first sentence that is still in the batch."""
    model = Table(TableConfig(), spread=1.0, eos=-9.0)
    row = model.row

    def bad_row(source: list[int], prefix: list[int]) -> Tensor:
        scores = row(source, prefix)
        return scores.fill_(bad) if len(prefix) == 2 and source[0] == 5 else scores

    sources = [[4, 5], [5, 4]] if search in BATCHED else [[5, 4]]
    SEARCHES[search](model, torch.tensor(sources))
    model.row = bad_row
    with pytest.raises(TfmrError, match=f"token 2 of sentence {len(sources) - 1}.*NaN"):
        SEARCHES[search](model, torch.tensor(sources))


@pytest.mark.parametrize("search", SEARCHES)
def test_the_only_possible_token_is_generated(search: str) -> None:
    source = pad(SENTENCES if search in BATCHED else SENTENCES[:1])
    for token, output in ((4, [4] * MAX_LENGTH), (EOS, [])):
        model = transformer()
        add_bias(model, {other: -math.inf for other in range(30) if other != token})
        assert SEARCHES[search](model, source) == [output] * len(source)
