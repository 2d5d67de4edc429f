"""The lens, patching and intervals of BLEU on a small untrained model."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from benchmarks import inside
from benchmarks.analysis import MODEL
from benchmarks.minimal_pairs import PAIRS, MinimalPair
from benchmarks.record import read
from tests.benchmarks.small import CORPUS, WORDS, saved
from tfmr.analysis import ablate_sublayer
from tfmr.checkpoint import load_translator
from tfmr.data.batches import Batches
from tfmr.decode import translate
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.special_tokens import BOS
from tfmr.train.evaluation import mean_loss
from tfmr.train.intervals import resample

pytestmark = pytest.mark.usefixtures("small_corpus")
VALID = CORPUS.valid[:5]


@pytest.fixture
def pair(model: Transformer) -> MinimalPair:
    """A pair for which the untrained model prefers the right word by chance."""
    first, second = (text for text, _ in CORPUS.valid[:2])
    *_, last = first.split()
    sentence = first.replace(last, "{}")
    nouns = (last, second.split()[1])
    a, b = (
        model(torch.tensor([WORDS.encode(sentence.format(noun))]), torch.tensor([[BOS, 7]]))[0, -1]
        for noun in nouns
    )
    words = next(
        (WORDS.decode([i]), WORDS.decode([j]))
        for i, j in permutations(range(4, WORDS.vocab_size), 2)
        if a[i] > a[j] and b[i] < b[j]
    )
    return MinimalPair(sentence, nouns, WORDS.decode([7]), words)


def test_the_lens_ends_with_the_model(model: Transformer) -> None:
    first, last = inside.lens(model, WORDS, VALID)
    ids = [(WORDS.encode(a), WORDS.encode(b)) for a, b in VALID]
    loss = mean_loss(model, Batches(ids, 1024, seed=0, max_length=32))
    assert [row["depth"] for row in (first, last)] == [0, 1]
    assert last["loss"] == pytest.approx(loss, abs=1e-4)
    assert last["agreement"] == last["median_rank"] == 1
    assert last["agreement_interval"] == [1, 1]
    assert first["agreement"] < 1 < first["median_rank"]
    assert first["input_token"] > 0.5  # tied embeddings, but positions are added
    for row in (first, last):
        for name in ("probability", "loss", "input_token", "median_rank"):
            low, high = row[f"{name}_interval"]
            assert low <= row[name] <= high


def test_medians_are_those_of_the_repeated_sentences() -> None:
    values = [torch.tensor([5, 1]), torch.tensor([9]), torch.tensor([2, 8, 7])]
    counts = resample(3)[:50]
    expected = [
        sorted(v for n, part in zip(row, values, strict=True) for v in n * part.tolist())
        for row in counts
    ]
    lower = [tokens[(len(tokens) - 1) // 2] for tokens in expected]
    assert inside.weighted_medians(values, counts).tolist() == lower
    assert len(set(lower)) > 2


def rows_of(found: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [row for row in found if row.get("part") == part]


def test_a_patched_noun_restores_the_difference(model: Transformer, pair: MinimalPair) -> None:
    described, *found = inside.patching(model, WORDS, [pair])
    assert described["used"]
    assert described["logit_difference"] > 0 > described["other_logit_difference"]
    stream = {
        (row["depth"], row["positions"]): row["effect"] for row in rows_of(found, "encoder stream")
    }
    assert set(stream) == {(d, p) for d in range(3) for p in ("noun", "before", "after")}
    assert stream[0, "noun"] == 1
    assert stream[0, "before"] == stream[0, "after"] == 0
    assert stream[2, "noun"] != 1
    decoder = [row["effect"] for row in rows_of(found, "decoder stream")]
    assert decoder == [0, 1]
    heads = [row for row in found if "head" in row]
    assert len(heads) == 2 * 2 + 2 + 2
    assert all(row["effect"] != 0 for row in rows_of(found, "decoder cross-attention head"))
    assert all(row["effect"] == 0 for row in rows_of(found, "decoder self-attention head"))
    assert all(row["effect_interval"] == [row["effect"]] * 2 for row in found)  # one pair


def test_a_pair_that_the_model_does_not_translate_is_left_out(
    model: Transformer, pair: MinimalPair
) -> None:
    swapped = pair._replace(words=pair.words[::-1])
    (described,) = inside.patching(model, WORDS, [swapped])
    assert not described["used"]


def test_effects_are_means_over_pairs_and_directions(model: Transformer, pair: MinimalPair) -> None:
    _, *once = inside.patching(model, WORDS, [pair])
    mirrored = pair._replace(nouns=pair.nouns[::-1], words=pair.words[::-1])
    _, _, *twice = inside.patching(model, WORDS, [pair, mirrored])
    assert [row["effect"] for row in once] == [row["effect"] for row in twice]
    assert {row["pairs"] for row in twice} == {2}


def test_every_minimal_pair_differs_in_one_token() -> None:
    _, tokenizer = load_translator(MODEL)
    assert len(set(PAIRS)) == len(PAIRS) >= 20
    for pair in PAIRS:
        first, second = (tokenizer.encode(pair.sentence.format(noun)) for noun in pair.nouns)
        differing = [a != b for a, b in zip(first, second, strict=True)]
        assert sum(differing) == 1, pair
        prefix = tokenizer.encode(pair.prefix)
        words = [tokenizer.encode(f"{pair.prefix} {word}") for word in pair.words]
        assert all(ids[:-1] == prefix for ids in words), pair
        assert words[0] != words[1]


def test_decoding_compares_on_the_same_resamples(model: Transformer) -> None:
    (row,) = inside.decoding(model, WORDS, {"validation": CORPUS.valid[:20]})
    sources, references = zip(*CORPUS.valid[:20], strict=True)
    for name, beam in (("greedy", 1), ("beam4", 4)):
        assert row[name] == bleu(translate(model, WORDS, sources, beam=beam), references).score
        low, high = row[f"{name}_interval"]
        assert low <= row[name] <= high
    assert row["difference"] == pytest.approx(row["beam4"] - row["greedy"])


def test_replacing_a_sublayer(model: Transformer) -> None:
    network = model.decoder.blocks[0].feed_forward
    torch.nn.init.normal_(network.contract.weight)
    torch.nn.init.normal_(network.contract.bias)
    own, zero, mean, by_token = inside.feed_forward(model, WORDS, VALID, CORPUS.train[:50])
    assert own["loss_increase"] == 0
    ids = [(WORDS.encode(a), WORDS.encode(b)) for a, b in VALID]
    batches = Batches(ids, 1024, seed=0, max_length=32)
    intact = mean_loss(model, batches)
    with ablate_sublayer(network):
        assert zero["loss_increase"] == pytest.approx(mean_loss(model, batches) - intact, abs=1e-4)
    assert len({row["loss_increase"] for row in (zero, mean, by_token)}) == 3
    assert (
        model.decoder.blocks[0].feed_forward(torch.ones(1, 1, 16)).any()
    )  # nothing stays replaced


def test_mean_outputs(model: Transformer) -> None:
    network = model.decoder.blocks[0].feed_forward
    pairs = [(WORDS.encode(a), WORDS.encode(b)) for a, b in VALID]
    outputs: dict[int, list[torch.Tensor]] = {}
    for source, target in pairs:
        shifted = [BOS, *target]
        handle = network.register_forward_hook(
            lambda _, __, output, shifted=shifted: (
                [
                    outputs.setdefault(i, []).append(row)
                    for i, row in zip(shifted, output[0].detach(), strict=True)
                ]
                and None
            )
        )
        model(torch.tensor([source]), torch.tensor([shifted]))
        handle.remove()
    mean, by_token = inside.mean_outputs(
        model, network, Batches(pairs, 1024, seed=0, max_length=32)
    )
    every = torch.stack([row for rows in outputs.values() for row in rows])
    assert_close(mean, every.mean(dim=0))
    for token, rows in outputs.items():
        assert_close(by_token[token], torch.stack(rows).mean(dim=0))
    absent = next(i for i in range(WORDS.vocab_size) if i not in outputs)
    assert_close(by_token[absent], mean)


def test_no_token_is_generated_twice_in_succession(model: Transformer) -> None:
    rows = list(inside.repetition(model, WORDS, VALID))
    kinds = [(row["ablated"], row["repetition"]) for row in rows]
    assert len(set(kinds)) == len(kinds) == 4
    for row in rows:
        assert (row["repeated"] == 0) == (row["repetition"] == "forbidden")
    logits = inside.NoRepetition(model).step(
        torch.tensor([5]), model.start(torch.tensor([[4, 6]]), 3)
    )
    assert logits.isinf().nonzero().tolist() == [[0, 5]]


def test_the_command_writes_all_analyses(
    tmp_path: Path, model: Transformer, pair: MinimalPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "PAIRS", [pair])
    path = saved(model, tmp_path)
    inside.Inside(path, "pocket", "en-fr", sentences=3, out=tmp_path / "inside.json")()
    record = read(tmp_path / "inside.json")
    assert record["settings"]["valid_sentences"] == record["settings"]["test_sentences"] == 3
    analyses = list(dict.fromkeys(row["analysis"] for row in record["rows"]))
    assert analyses == [
        *("logit lens", "minimal pair", "patching", "feed-forward", "repetition", "decoding")
    ]
    assert np.isfinite([row["effect"] for row in record["rows"] if "effect" in row]).all()
