import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmr.data.batches import Batch, Batches, collate, pad
from tfmr.data.tokenizer import BOS, EOS, PAD
from tfmr.errors import TfmrError

sentences = st.lists(st.integers(4, 99), min_size=1, max_size=12)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)


def some_pairs(n: int = 400, longest: int = 30) -> list[tuple[list[int], list[int]]]:
    """Sentences of all lengths, the two sides of a pair of like length."""
    chance = random.Random(0)
    pairs = []
    for _ in range(n):
        length = chance.randint(3, longest)
        other = max(1, length + chance.randint(-2, 2))
        pairs.append(([4 + chance.randrange(90) for _ in range(length)], [5] * other))
    return pairs


def test_the_target_is_shifted_to_the_right_by_hand():
    batch = collate([([7, 8], [4, 5, 6]), ([9], [10])])
    assert batch.source.tolist() == [[7, 8], [9, PAD]]
    assert batch.target_in.tolist() == [[BOS, 4, 5, 6], [BOS, 10, PAD, PAD]]
    assert batch.target_out.tolist() == [[4, 5, 6, EOS], [10, EOS, PAD, PAD]]
    assert batch.n_tokens == 6
    assert batch.padding_share == pytest.approx(3 / 12)


@settings(deadline=None)
@given(corpora)
def test_target_in_at_pos_is_target_out_one_before(pairs):
    batch = collate(pairs)
    assert batch.target_in[:, 0].tolist() == [BOS] * len(pairs)
    before, asked = batch.target_in[:, 1:], batch.target_out[:, :-1]
    real = before != PAD
    assert torch.equal(before[real], asked[real])
    assert batch.n_tokens == sum(len(target) + 1 for _, target in pairs)
    assert (batch.target_out == EOS).sum(1).tolist() == [1] * len(pairs)


def test_to_moves_every_tensor():
    batch = collate([([7], [8])]).to("meta")
    assert {
        batch.source.device.type,
        batch.target_in.device.type,
        batch.target_out.device.type,
    } == {"meta"}


def test_in_and_out_must_have_one_shape():
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(TypeError):
        Batch(ids, ids, torch.ones(1, 4, dtype=torch.long))


def test_pad_puts_padding_behind():
    assert pad([[5], [6, 7, 8]]).tolist() == [[5, PAD, PAD], [6, 7, 8]]
    assert pad([[5]]).dtype == torch.long


def contents(batches: Batches, k: int) -> list[tuple[list[int], list[int]]]:
    """The pairs of an epoch, without padding, in the order in which they are shown."""
    return [
        ([id for id in source if id != PAD], [id for id in target if id not in (PAD, EOS)])
        for batch in batches.epoch(k)
        for source, target in zip(batch.source.tolist(), batch.target_out.tolist(), strict=True)
    ]


@settings(deadline=None)
@given(corpora, st.integers(0, 5), st.integers(13, 60))
def test_an_epoch_holds_every_pair_once_and_no_batch_too_much(pairs, k, tokens):
    batches = Batches(pairs, tokens_per_batch=tokens, seed=1, max_length=13)
    for batch in batches.epoch(k):
        rows = len(batch.source)
        assert rows * max(batch.source.shape[1], batch.target_out.shape[1]) <= tokens
    assert sorted(contents(batches, k)) == sorted(pairs)
    assert batches.dropped == 0


def plan_by_hand(pairs: list[tuple[list[int], list[int]]], tokens: int) -> list[list[int]]:
    """The rule of the docstring pair by pair, without the chance: the lengths in each batch."""
    seen = [(len(target) + 1, len(source)) for source, target in pairs]
    batches: list[list[tuple[int, int]]] = []
    for pair in sorted(seen, key=lambda pair: (pair[0], pair[1] if pair[0] % 2 else -pair[1])):
        if not batches or (len(batches[-1]) + 1) * max(map(max, [*batches[-1], pair])) > tokens:
            batches.append([])
        batches[-1].append(pair)
    return sorted(batches)


@settings(deadline=None, max_examples=50)
@given(corpora, st.integers(13, 60))
def test_the_row_is_sorted_and_cut_as_described(pairs, tokens):
    batches = Batches(pairs, tokens, seed=1, max_length=13)
    made = [
        sorted(
            zip(
                (batch.target_out != PAD).sum(1).tolist(),
                (batch.source != PAD).sum(1).tolist(),
                strict=True,
            )
        )
        for batch in batches.epoch(0)
    ]
    assert sorted(made) == sorted(sorted(batch) for batch in plan_by_hand(pairs, tokens))


@settings(deadline=None, max_examples=30)
@given(corpora, st.integers(0, 3), st.integers(0, 9), st.integers(1, 4))
def test_an_epoch_may_begin_in_its_middle_and_be_shared(pairs, k, start, stride):
    batches = Batches(pairs, 30, seed=1, max_length=13)
    whole = flat(batches, k)
    assert [b.source.tolist() for b in batches.epoch(k, start, stride)] == whole[start::stride]


def test_what_is_passed_over_is_not_made():
    asked = []

    class Watched(list):
        def __getitem__(self, row):
            asked.append(row)
            return super().__getitem__(row)

    batches = Batches(Watched(some_pairs()), 200, seed=1, max_length=99)
    last = batches.count() - 1
    asked.clear()
    (batch,) = batches.epoch(0, start=last)
    assert len(batch.source) <= len(asked) < 50


def test_the_largest_and_the_negative_seed_are_seeds_too():
    pairs = some_pairs()
    orders = [flat(Batches(pairs, 200, seed, 99), 0) for seed in (-1, 2**64 - 2, 0)]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def flat(batches: Batches, k: int) -> list[list[list[int]]]:
    return [batch.source.tolist() for batch in batches.epoch(k)]


def test_seed_and_epoch_decide_and_nothing_else():
    pairs = some_pairs()
    batches = Batches(pairs, 200, seed=1, max_length=99)
    torch.manual_seed(0)
    first = flat(batches, 0)
    torch.manual_seed(123)
    random.seed(5)
    assert flat(batches, 0) == first
    assert flat(Batches(pairs, 200, seed=1, max_length=99), 0) == first
    assert flat(batches, 1) != first
    assert flat(Batches(pairs, 200, seed=2, max_length=99), 0) != first


def test_torchs_random_numbers_are_not_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(Batches(some_pairs(), 200, seed=1, max_length=99).epoch(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_come_in_no_order_of_length():
    lengths = [b.target_out.shape[1] for b in Batches(some_pairs(), 200, 1, 99).epoch(0)]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_neighbours_change_from_epoch_to_epoch():
    batches = Batches(some_pairs(), 200, seed=1, max_length=99)
    together = [{frozenset(map(tuple, rows)) for rows in flat(batches, k)} for k in (0, 1)]
    assert len(together[0] & together[1]) < len(together[0]) / 2


def test_little_is_padding():
    pairs = some_pairs(2000)
    batches = Batches(pairs, 400, seed=1, max_length=99)
    in_order = [collate(pairs[at : at + 20]).padding_share for at in range(0, 2000, 20)]
    assert sum(in_order) / len(in_order) > 0.3
    assert batches.padding_share() < 0.06


def test_padding_share_and_count_are_those_of_the_batches():
    batches = Batches([*some_pairs(), ([5] * 99, [5] * 7)], 200, seed=1, max_length=98)
    made = list(batches.epoch(3))
    size = [batch.source.numel() + batch.target_out.numel() for batch in made]
    padding = [batch.padding_share * n for batch, n in zip(made, size, strict=True)]
    assert batches.padding_share() == pytest.approx(sum(padding) / sum(size))
    assert batches.count() == len(made)


def test_too_long_pairs_are_dropped_and_counted():
    pairs = [([5] * 4, [5] * 3), ([5] * 5, [5]), ([5], [5] * 4), ([5], [5])]
    batches = Batches(pairs, 100, seed=0, max_length=4)
    assert batches.dropped == 2
    assert sorted(contents(batches, 0)) == sorted([pairs[0], pairs[3]])


def refused(call, *words):
    with pytest.raises(TfmrError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_what_fits_no_batch_is_refused():
    long = [([5] * 20, [5])]
    refused(lambda: Batches(long, 19, 0, 99), "19 tokens", "20", "max_length")
    refused(lambda: Batches(long, 100, 0, 10), "at most 10 tokens", "none of 1", "max_length")
    refused(lambda: Batches([], 100, 0, 10), "none of 0")
    assert Batches(long, 20, 0, 99).count() == 1


def test_an_empty_sentence_is_refused():
    refused(lambda: Batches([([5], [5]), ([], [5])], 10, 0, 9), "source of pair 2", "empty lines")
    refused(lambda: Batches([([5], [])], 10, 0, 9), "target of pair 1")
    refused(lambda: pad([[5], []]), "sentence 1", "no tokens")
    refused(lambda: pad([]), "got none")
