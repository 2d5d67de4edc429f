import dataclasses
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import rejects
from tfmr.data.batches import Batch, Batches, collate, pad
from tfmr.data.tokenizer import BOS, EOS, PAD

sentences = st.lists(st.integers(4, 99), min_size=1, max_size=12)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)


def some_pairs(n: int = 400, longest: int = 30) -> list[tuple[list[int], list[int]]]:
    """Sentences of all lengths; the two sides of a pair have similar lengths."""
    rng = random.Random(0)
    pairs = []
    for _ in range(n):
        length = rng.randint(3, longest)
        other = max(1, length + rng.randint(-2, 2))
        pairs.append(([4 + rng.randrange(90) for _ in range(length)], [5] * other))
    return pairs


def test_the_target_is_shifted_right():
    batch = collate([([7, 8], [4, 5, 6]), ([9], [10])])
    assert batch.source.tolist() == [[7, 8], [9, PAD]]
    assert batch.target_in.tolist() == [[BOS, 4, 5, 6], [BOS, 10, PAD, PAD]]
    assert batch.target_out.tolist() == [[4, 5, 6, EOS], [10, EOS, PAD, PAD]]
    assert batch.n_tokens == 6
    assert batch.padding_share == pytest.approx(3 / 12)


@given(corpora)
def test_target_in_is_target_out_one_position_earlier(pairs):
    batch = collate(pairs)
    assert batch.target_in[:, 0].tolist() == [BOS] * len(pairs)
    shifted, expected = batch.target_in[:, 1:], batch.target_out[:, :-1]
    real = shifted != PAD
    assert torch.equal(shifted[real], expected[real])
    assert batch.n_tokens == sum(len(target) + 1 for _, target in pairs)
    assert (batch.target_out == EOS).sum(1).tolist() == [1] * len(pairs)


def test_rounding_by_hand():
    batch = collate([([7, 8, 9, 3], [4, 5]), ([6], [10])])
    rounded = batch.rounded(lengths=4, rows=3, max_length=20)
    assert rounded.source.tolist() == [[7, 8, 9, 3], [6, PAD, PAD, PAD], [6, PAD, PAD, PAD]]
    assert rounded.target_in.tolist() == [[BOS, 4, 5, PAD], *[[BOS, 10, PAD, PAD]] * 2]
    assert rounded.target_out.tolist() == [[4, 5, EOS, PAD], [10, EOS, PAD, PAD], [PAD] * 4]
    limited = batch.rounded(lengths=3, rows=2, max_length=5)
    assert limited.source.shape == (2, 5)
    assert limited.target_in.shape == limited.target_out.shape == (2, 3)


def test_to_moves_every_tensor():
    batch = collate([([7], [8])]).to("meta")
    assert {
        batch.source.device.type,
        batch.target_in.device.type,
        batch.target_out.device.type,
    } == {"meta"}


def test_target_in_and_target_out_have_the_same_shape():
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(TypeError):
        Batch(ids, ids, torch.ones(1, 4, dtype=torch.long))


def test_pad_appends_padding():
    assert pad([[5], [6, 7, 8]]).tolist() == [[5, PAD, PAD], [6, 7, 8]]
    assert pad([[5]]).dtype == torch.long


def contents(batches: Batches, k: int) -> list[tuple[list[int], list[int]]]:
    """The pairs of an epoch in order, without padding."""
    return [
        ([id for id in source if id != PAD], [id for id in target if id not in (PAD, EOS)])
        for batch in batches.epoch(k)
        for source, target in zip(batch.source.tolist(), batch.target_out.tolist(), strict=True)
    ]


@given(corpora, st.integers(0, 5), st.integers(13, 60))
def test_an_epoch_has_every_pair_once_and_no_batch_is_too_large(pairs, k, tokens):
    batches = Batches(pairs, tokens_per_batch=tokens, seed=1, max_length=13)
    for batch in batches.epoch(k):
        rows = len(batch.source)
        assert rows * max(batch.source.shape[1], batch.target_out.shape[1]) <= tokens
    assert sorted(contents(batches, k)) == sorted(pairs)
    assert batches.dropped == 0


def plan_by_hand(pairs: list[tuple[list[int], list[int]]], tokens: int) -> list[list[int]]:
    """The lengths in each batch, computed pair by pair by the rule in the docstring."""
    lengths = [(len(target) + 1, len(source)) for source, target in pairs]
    batches: list[list[tuple[int, int]]] = []
    for pair in sorted(lengths, key=lambda pair: (pair[0], pair[1] if pair[0] % 2 else -pair[1])):
        if not batches or (len(batches[-1]) + 1) * max(map(max, [*batches[-1], pair])) > tokens:
            batches.append([])
        batches[-1].append(pair)
    return sorted(batches)


@settings(max_examples=50)
@given(corpora, st.integers(13, 60))
def test_pairs_are_sorted_and_cut_as_documented(pairs, tokens):
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


@settings(max_examples=30)
@given(corpora, st.integers(0, 3), st.integers(0, 9), st.integers(1, 4))
def test_start_and_stride_select_batches_of_an_epoch(pairs, k, start, stride):
    batches = Batches(pairs, 30, seed=1, max_length=13)
    whole = flat(batches, k)
    assert [b.source.tolist() for b in batches.epoch(k, start, stride)] == whole[start::stride]


def test_skipped_batches_are_not_made():
    read = []

    class Watched(list):
        def __getitem__(self, row):
            read.append(row)
            return super().__getitem__(row)

    batches = Batches(Watched(some_pairs()), 200, seed=1, max_length=99)
    last = batches.count() - 1
    read.clear()
    (batch,) = batches.epoch(0, start=last)
    assert len(batch.source) <= len(read) < 50


def test_large_and_negative_seeds_are_accepted():
    pairs = some_pairs()
    orders = [flat(Batches(pairs, 200, seed, 99), 0) for seed in (-1, 2**64 - 2, 0)]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def flat(batches: Batches, k: int) -> list[list[list[int]]]:
    return [batch.source.tolist() for batch in batches.epoch(k)]


def test_batches_depend_on_seed_and_epoch_only():
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


def test_the_random_state_of_torch_does_not_change():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(Batches(some_pairs(), 200, seed=1, max_length=99).epoch(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_are_not_ordered_by_length():
    lengths = [b.target_out.shape[1] for b in Batches(some_pairs(), 200, 1, 99).epoch(0)]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_batches_have_other_pairs_in_another_epoch():
    batches = Batches(some_pairs(), 200, seed=1, max_length=99)
    together = [{frozenset(map(tuple, rows)) for rows in flat(batches, k)} for k in (0, 1)]
    assert len(together[0] & together[1]) < len(together[0]) / 2


def test_there_is_little_padding():
    pairs = some_pairs(2000)
    batches = Batches(pairs, 400, seed=1, max_length=99)
    in_order = [collate(pairs[at : at + 20]).padding_share for at in range(0, 2000, 20)]
    assert sum(in_order) / len(in_order) > 0.3
    assert batches.padding_share() < 0.06


def test_padding_share_and_count_match_the_batches():
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


def test_sentences_that_fit_no_batch_are_rejected():
    long = [([5] * 20, [5])]
    rejects(lambda: Batches(long, 19, 0, 99), "tokens_per_batch=19", "20", "max_length")
    rejects(lambda: Batches(long, 100, 0, 10), "at most 10 tokens", "none among 1", "max_length")
    rejects(lambda: Batches([], 100, 0, 10), "none among 0")
    assert Batches(long, 20, 0, 99).count() == 1


def test_an_empty_sentence_is_rejected():
    rejects(lambda: Batches([([5], [5]), ([], [5])], 10, 0, 9), "source of pair 2", "empty lines")
    rejects(lambda: Batches([([5], [])], 10, 0, 9), "target of pair 1")
    rejects(lambda: pad([[5], []]), "sentence 1", "has none")
    rejects(lambda: pad([]), "got none")


def test_a_batch_cannot_be_changed() -> None:
    """The loss module, the trainer and the records of a step share it."""
    batch = collate([([4, 5], [6])])
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.source = batch.target_in  # type: ignore[misc]
