"""Incremental decoding, readable and fast: equal to the model applied to the whole prefix."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch
from torch.testing import assert_close

from tests.fast.graphs import prepare_as_on_a_gpu
from tfmr.attention import mask_to_bias, scaled_dot_product_attention
from tfmr.config import TransformerConfig
from tfmr.data.batches import pad
from tfmr.decode import beam_search, greedy_search
from tfmr.dtype import Units
from tfmr.errors import TfmrError
from tfmr.fast import decoder, prepare
from tfmr.fast.decoder import FastState, FastTransformer
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import PAD
from tfmr.translator import IncrementalTranslator

UNEQUAL = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13], [14]]
EQUAL = [[4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]]
ONE_TOKEN = [[4], [5], [6], [7]]
KINDS = list(product(["post", "pre"], ["sinusoidal", "learned", "rotary"]))


def build(norm: str = "post", position: str = "sinusoidal") -> Transformer:
    torch.manual_seed(2)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder": 1, "n_decoder": 2}
    vocab = {"source_vocab": 30, "target_vocab": 30}
    model = Transformer(
        TransformerConfig(**vocab, **sizes, norm=norm, position=position, max_length=12)
    ).eval()
    with torch.no_grad():  # biases of 0 and weights of 1 would hide faults
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(len(parameter)), alpha=0.3)
    return model


def check(
    model: Transformer,
    incremental: IncrementalTranslator,
    sentences: list[list[int]],
    beam: int,
    **tolerance: float,
) -> None:
    """Twelve steps in which hypotheses are dropped and branch and sentences leave the batch."""
    source, active = pad(sentences), list(range(len(sentences)))
    state = incremental.start(source, 12, beam)
    prefixes: list[list[int]] = [[] for _ in range(len(source) * beam)]
    for position in range(12):
        tokens = torch.randint(4, 30, (len(prefixes),))
        prefixes = [[*row, token] for row, token in zip(prefixes, tokens.tolist(), strict=True)]
        logits = incremental.step(tokens, state)
        with torch.no_grad():
            whole = model(source[active].repeat_interleave(beam, dim=0), torch.tensor(prefixes))
        assert_close(logits.to(whole.dtype), whole[:, -1], **tolerance)

        kept = {4: [3, 1, 2], 7: [2, 1], 9: [0]}.get(position, list(range(len(active))))
        state.select(torch.tensor(kept))
        active = [active[row] for row in kept]
        prefixes = [prefixes[row * beam + j] for row in kept for j in range(beam)]
        parents = torch.randint(beam, (len(active), beam))
        state.reorder(parents)
        rows = [i * beam + j for i, row in enumerate(parents.tolist()) for j in row]
        prefixes = [prefixes[row] for row in rows]


@pytest.mark.parametrize("prepared", [lambda model: model, prepare, prepare_as_on_a_gpu])
@pytest.mark.parametrize(
    ("kind", "sentences", "beam"),
    [
        *((kind, UNEQUAL, 3) for kind in KINDS),
        *((kind, EQUAL, 1) for kind in KINDS[:3]),
        *((KINDS[2], sentences, beam) for sentences, beam in ((ONE_TOKEN, 1), (UNEQUAL, 1))),
        (KINDS[5], ONE_TOKEN, 3),
    ],
)
def test_equal_to_the_whole_prefix(
    kind: tuple[str, str],
    sentences: list[list[int]],
    beam: int,
    prepared: Callable[[Transformer], IncrementalTranslator],
) -> None:
    model = build(*kind).double()
    check(model, prepared(model), sentences, beam)


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("sentences", [UNEQUAL, [[4, 5, 6]] * 4], ids=["padded", "equal"])
def test_prepacked_in_fp32_and_bf16(sentences: list[list[int]], beam: int) -> None:
    model = build()
    check(model, prepare(model, torch.float32), sentences, beam)
    in_bf16 = prepare(model, torch.bfloat16)
    assert in_bf16.step(torch.tensor([5]), in_bf16.start(pad([[4]]), 2)).dtype == torch.bfloat16
    check(model, in_bf16, sentences, beam, atol=0.05, rtol=0.05)  # 8 bits of mantissa


@pytest.mark.parametrize("instructions", [True, False])
def test_a_large_model_is_multiplied_in_bf16_where_that_is_fast(
    monkeypatch: pytest.MonkeyPatch, instructions: bool
) -> None:
    monkeypatch.setattr(decoder, "find_units", lambda device: Units(device, bf16=instructions))
    model = build()
    assert prepare(model).dtype == torch.float32
    monkeypatch.setattr(decoder, "SMALL_MODEL", 0)
    assert prepare(model).dtype == (torch.bfloat16 if instructions else torch.float32)
    assert prepare(model, torch.float32).dtype == torch.float32
    assert prepare(model.double()).dtype == torch.float64


def test_a_snapshot_does_not_follow_the_model() -> None:
    """Not even a change in place that preserves the sum of every weight."""
    model = build()
    prepared = prepare(model.train())
    assert model.training
    assert not prepared.training
    source = pad(UNEQUAL)

    def logits() -> torch.Tensor:
        return prepared.step(torch.tensor([5, 6, 7, 8]), prepared.start(source, 2))

    before = logits()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.flip(0).clone())
    assert torch.equal(logits(), before)
    fresh = prepare(model)
    after = fresh.step(torch.tensor([5, 6, 7, 8]), fresh.start(source, 2))
    assert not torch.allclose(after, before)


def test_sentences_are_encoded_in_buckets_of_similar_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, encoded = build().double(), list[list[list[int]]]()

    def encode(source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        encoded.append(source.tolist())
        return model.encode(source)

    source = pad([*UNEQUAL, [4, PAD, 6]])
    whole, mask = decoder.encode_bucketed(encode, source)
    assert encoded == [source.tolist()]
    monkeypatch.setattr(decoder, "BUCKET", 2)
    memory, same = decoder.encode_bucketed(encode, source)
    assert encoded[1:] == [[[4, 5, 6, 7, 8], [11, 12, 13, 0, 0]], [[4, 0, 6], [9, 10, 0]], [[14]]]
    assert torch.equal(mask, same)
    assert_close(memory[mask[:, 0, 0]], whole[mask[:, 0, 0]])
    check(model, prepare(model), UNEQUAL, beam=3)
    with pytest.raises(TfmrError, match=r"row 1 of 4 has none"):
        prepare(model).start(pad([[4, 5, 6], [PAD], [7], [8]]), 5)


def test_the_memory_is_stored_once_per_sentence_and_no_key_moves() -> None:
    prepared = prepare(build())
    state = prepared.start(pad(UNEQUAL), 5, beam=3)
    assert isinstance(state, FastState)
    addresses = [cache.cross_attention.read()[0].data_ptr() for cache in state.caches]
    for _ in range(2):
        prepared.step(torch.full((12,), 5), state)
        state.reorder(torch.tensor([[2, 0, 0]] * 4))
    for cache in state.caches:
        assert cache.cross_attention.read()[1].shape == (4, 2, 5, 8)
        assert cache.self_attention.read()[0].shape == (4, 2, 6, 8)
    state.select(torch.tensor([0, 3, 2]))
    assert [cache.cross_attention.read()[0].data_ptr() for cache in state.caches] == addresses


@pytest.mark.parametrize(("sentences", "query"), [(1, 1), (3, 1), (3, 4)])
def test_attention_of_a_few_queries(sentences: int, query: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(sentences, 2, n, 8, dtype=torch.float64) for n in (query, 7, 7))
    mask = torch.rand(sentences, 1, query, 7) < 0.6
    mask[..., 0] = True
    for given in (None, mask):
        bias = None if given is None else mask_to_bias(given, q.dtype)
        expected, _ = scaled_dot_product_attention(q, k, v, given)
        assert_close(decoder._attend(q, k, v, bias), expected)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_recurrent_model_is_copied(dtype: torch.dtype | None) -> None:
    model = Seq2Seq(Seq2SeqConfig(source_vocab=30, target_vocab=30, d_model=8)).train()
    prepared = prepare(model, dtype)
    assert prepared is not model
    assert (prepared.training, model.training) == (False, True)
    assert {p.dtype for p in prepared.parameters()} == {dtype or torch.float32}
    assert prepared.device == model.device
    found = greedy_search(prepared, pad(UNEQUAL))
    if dtype is None:
        assert found == greedy_search(model.eval(), pad(UNEQUAL))


def test_threads_that_decode_at_once_get_the_results_of_sequential_calls() -> None:
    """Library calls change no process-wide setting, so they cannot disturb each other."""
    model = build()
    prepared = prepare(model)
    batches = [pad([row[::-1] for row in UNEQUAL[n:]] + UNEQUAL) for n in range(3)] * 2

    def settings() -> tuple[object, ...]:
        precision = torch.get_float32_matmul_precision()
        return precision, torch.get_num_threads(), torch.get_rng_state().tolist()

    def translate(source: torch.Tensor) -> object:
        assert torch.get_float32_matmul_precision() == before[0]
        assert torch.get_num_threads() == before[1]
        found = beam_search(prepared, source, 3), greedy_search(model, source)
        return found, greedy_search(prepared, source)

    before = settings()
    sequential = [translate(source) for source in batches]
    with ThreadPoolExecutor(2) as pool:
        concurrent = list(pool.map(translate, batches * 3))
    assert concurrent == sequential * 3
    assert settings() == before


def test_too_many_steps() -> None:
    prepared = prepare(build())
    state = prepared.start(pad(EQUAL), 2, beam=2)
    tokens = torch.full((8,), 5)
    for _ in range(2):
        prepared.step(tokens, state)
    with pytest.raises(TfmrError, match=r"capacity of 4.*holds 4.*2 more"):
        prepared.step(tokens, state)


def test_the_snapshot_answers_for_the_model() -> None:
    model = build()
    prepared = prepare(model)
    assert isinstance(prepared, FastTransformer)
    assert prepared.config == model.config
    assert prepared.device == torch.device("cpu")
    assert prepared.count_parameters() == model.count_parameters()
    source, target = pad(UNEQUAL), torch.randint(4, 30, (4, 6))
    assert torch.equal(prepared.alignment(source, target), model.alignment(source, target))
