"""One word more, the fast way: equal to the whole prefix through the model, whatever happens."""

from itertools import product

import pytest
import torch
from torch.testing import assert_close

from tfmr import step
from tfmr.attention import KVCache, additive, scaled_dot_product_attention
from tfmr.data.batches import pad
from tfmr.decode import greedy_search, greedy_search_naive
from tfmr.dtype import uses_bf16
from tfmr.errors import TfmrError
from tfmr.model import Transformer, TransformerConfig
from tfmr.special_tokens import PAD
from tfmr.step import FEW, StepState, attend, economy

UNEQUAL = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13], [14]]
EQUAL = [[4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]]
KINDS = list(product(["post", "pre"], ["sinusoidal", "learned", "rotary"]))


def build(norm: str = "post", position: str = "sinusoidal") -> Transformer:
    torch.manual_seed(2)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder": 1, "n_decoder": 2}
    config = TransformerConfig(30, 30, **sizes, norm=norm, position=position, max_length=12)
    model = Transformer(config).eval()
    with torch.no_grad():  # a bias of 0 or a gain of 1 would hide its own fault
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(len(parameter)), alpha=0.3)
    return model


def check(
    model: Transformer,
    sentences: list[list[int]],
    beam: int,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Twelve steps in which hypotheses are dropped and split and sentences leave the batch."""
    source, active = pad(sentences), list(range(len(sentences)))
    state = model.start(source, 12, beam)
    said: list[list[int]] = [[] for _ in range(len(source) * beam)]
    for position in range(12):
        tokens = torch.randint(4, 30, (len(said),))
        said = [[*row, token] for row, token in zip(said, tokens.tolist(), strict=True)]
        scores = model.step(tokens, state)
        with torch.no_grad():
            whole = model(source[active].repeat_interleave(beam, dim=0), torch.tensor(said))
        assert_close(scores.to(whole.dtype), whole[:, -1], atol=atol, rtol=rtol)

        kept = {4: [3, 1, 2], 7: [2, 1], 9: [0]}.get(position, list(range(len(active))))
        state.keep(torch.tensor(kept))
        active = [active[row] for row in kept]
        said = [said[row * beam + j] for row in kept for j in range(beam)]
        parents = torch.randint(beam, (len(active), beam))
        state.reorder(parents)
        rows = [i * beam + j for i, row in enumerate(parents.tolist()) for j in row]
        said = [said[row] for row in rows]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_whole_prefix(kind: tuple[str, str], beam: int) -> None:
    model = build(*kind).double()
    check(model, UNEQUAL, beam)
    check(model, EQUAL, beam)


@pytest.mark.parametrize("beam", [1, 3])
def test_in_single_precision(beam: int) -> None:
    check(build(), UNEQUAL, beam)


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize("beam", [1, 3])
def test_a_light_decoder_by_the_other_library(beam: int) -> None:
    check(build(), UNEQUAL, beam)


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize("beam", [1, 3])
def test_a_heavy_decoder_where_bf16_is_allowed(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bits of mantissa in every product, if the CPU is fast in them; scores of about one."""
    monkeypatch.setattr("tfmr.arranged.LIGHT", 0)
    check(build(), UNEQUAL, beam, atol=0.05, rtol=0.05)


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize("light", [True, False])
def test_the_source_is_read_as_the_decoder_multiplies(
    light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfmr.arranged.LIGHT", 2**21 if light else 0)
    model, kinds = build(), set[torch.dtype]()
    memory, _ = model.encode(pad(UNEQUAL))
    across = [block.cross_attention for block in model.decoder.blocks]  # type: ignore[union-attr]
    for linear in model.encoder.modules():
        if isinstance(linear, torch.nn.Linear):
            linear.register_forward_hook(lambda *called: kinds.add(called[-1].dtype))
    state = model.start(pad(UNEQUAL), 5, beam=3)
    fast = uses_bf16("auto", memory.device) and not light
    assert kinds == {torch.bfloat16 if fast else torch.float32}
    assert isinstance(state, StepState)
    assert state.maps.hear(memory).dtype == (torch.bfloat16 if fast else torch.float32)
    for attention, block in zip(across, state.blocks, strict=True):
        for kept, w in zip(block.heard.read(), (attention.w_k, attention.w_v), strict=True):
            assert kept.dtype == torch.float32
            whole = w(memory).view(4, 5, 2, 8).transpose(1, 2)
            assert_close(kept, whole, atol=0.05, rtol=0.05)


def test_sentences_of_like_length_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = build().double(), list[list[list[int]]]()

    def encode(source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read.append(source.tolist())
        return model.encode(source)

    source = pad([*UNEQUAL, [4, PAD, 6]])
    whole, mask = step.in_groups(encode, source)
    assert read == [source.tolist()]
    monkeypatch.setattr(step, "TOGETHER", 2)
    memory, same = step.in_groups(encode, source)
    assert read[1:] == [[[4, 5, 6, 7, 8], [11, 12, 13, 0, 0]], [[4, 0, 6], [9, 10, 0]], [[14]]]
    assert torch.equal(mask, same)
    assert_close(memory[mask[:, 0, 0]], whole[mask[:, 0, 0]])
    check(model, UNEQUAL, beam=3)


def test_an_empty_sentence_among_groups_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "TOGETHER", 2)
    with pytest.raises(TfmrError, match=r"row \[1\] of 4 has none"):
        build().start(pad([[4, 5, 6], [PAD], [7], [8]]), 5)


def test_the_source_is_kept_once_for_all_hypotheses_and_nothing_moves() -> None:
    model = build()
    state = model.start(pad(UNEQUAL), 5, beam=3)
    assert isinstance(state, StepState)
    where = [cache.read()[0].data_ptr() for block in state.blocks for cache in [block.heard]]
    for _ in range(2):
        model.step(torch.full((12,), 5), state)
        state.reorder(torch.tensor([[2, 0, 0]] * 4))
    for block, address in zip(state.blocks, where, strict=True):
        keys, values = block.heard.read()
        assert keys.shape == values.shape == (4, 2, 5, 8)
        assert keys.data_ptr() == address
        assert block.said.read()[0].shape == (4, 2, 6, 8)
    state.keep(torch.tensor([0, 3, 2]))
    for block, address in zip(state.blocks, where, strict=True):
        assert block.heard.read()[0].shape == (3, 2, 5, 8)
        assert block.heard.read()[0].data_ptr() == address


def test_a_cache_copies_only_what_changes_its_place() -> None:
    torch.manual_seed(0)
    k, v = torch.randn(2, 5, 2, 3, 4)
    cache = KVCache(6)
    cache.extend(k, v)
    for rows in ([0, 4, 2], [2, 1], [1, 0]):
        k, v = k[rows], v[rows]
        cache.keep(torch.tensor(rows))
        assert_close(cache.read(), (k, v))
    more = torch.randn(2, 2, 1, 4)
    cache.extend(more, more)
    assert_close(cache.read()[0], torch.cat([k, more], dim=2))


@pytest.mark.parametrize(("sentences", "query"), [(1, 1), (3, 1), (3, 4)])
def test_attention_of_a_few_queries(sentences: int, query: int) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(sentences, 2, n, 8, dtype=torch.float64) for n in (query, 7, 7))
    mask = torch.rand(sentences, 1, query, 7) < 0.6
    mask[..., 0] = True
    for given in (None, mask):
        bias = None if given is None else additive(given, q.dtype)
        heads, weights = scaled_dot_product_attention(q, k, v, given)
        recorded: list[torch.Tensor] = []
        assert_close(attend(q, k, v, bias), heads)
        assert_close(attend(q, k, v, bias, recorded), heads)
        assert_close(recorded, [weights])


def test_a_heavy_decoder_says_what_a_light_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    state = model.start(pad(UNEQUAL), 2)
    assert isinstance(state, StepState)
    assert state.maps.light
    monkeypatch.setattr("tfmr.arranged.LIGHT", 0)
    for sentence in UNEQUAL:
        assert greedy_search(model, pad([sentence])) == [
            greedy_search_naive(model, pad([sentence]))
        ]


def test_libraries_and_threads_are_chosen_for_a_while_only() -> None:
    def chosen() -> tuple[str, int]:
        return torch.get_float32_matmul_precision(), torch.get_num_threads()

    before = chosen()
    try:
        torch.set_float32_matmul_precision("medium")
        torch.set_num_threads(2)
        for context, inside in (
            (economy(torch.zeros(FEW, 3), light=True), ("highest", 1)),
            (economy(torch.zeros(FEW, 3), light=False), ("highest", 2)),
            (economy(torch.zeros(FEW + 1, 3), light=True), ("highest", 2)),
            (economy(torch.zeros(1, 3, device="meta"), light=True), ("medium", 2)),
        ):
            with context:
                assert chosen() == inside
            assert chosen() == ("medium", 2)
        with pytest.raises(KeyError), economy(torch.zeros(1, 3), light=True):
            raise KeyError
        assert chosen() == ("medium", 2)
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.set_num_threads(before[1])


def test_more_tokens_than_were_asked_for() -> None:
    model = build()
    state = model.start(pad(EQUAL), 2, beam=2)
    tokens = torch.full((8,), 5)
    for _ in range(2):
        model.step(tokens, state)
    with pytest.raises(TfmrError, match="holds 4 positions and has 4: 2 more do not fit"):
        model.step(tokens, state)


def test_a_state_of_something_else() -> None:
    class Other:
        def keep(self, sentences: torch.Tensor) -> None: ...
        def reorder(self, parents: torch.Tensor) -> None: ...

    with pytest.raises(TfmrError, match=r"which its start\(\) returns: got Other"):
        build().step(torch.tensor([5]), Other())


@pytest.mark.parametrize("kind", KINDS)
def test_alignment_is_what_the_last_block_reads(kind: tuple[str, str]) -> None:
    model = build(*kind).double()
    source, target = pad(UNEQUAL), torch.randint(4, 30, (4, 6))
    weights = model.alignment(source, target)
    assert weights.shape == (4, 6, 5)
    assert_close(weights.sum(dim=2), torch.ones(4, 6, dtype=torch.float64))
    assert not weights[(source == PAD)[:, None].expand_as(weights)].any()

    last = model.decoder.blocks[-1].cross_attention
    assert last.recorded is None
    last.recorded = recorded = []
    model.hidden(source, target)
    assert_close(weights, recorded[0].mean(dim=1))
    # Who is recording goes on recording, and only what it asked for.
    assert model.alignment(source, target).shape == weights.shape
    assert last.recorded is recorded
    assert len(recorded) == 1
