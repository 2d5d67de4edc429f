"""The relative bias, the initial weights and the defaults of T5."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.family import T5, T5Config
from tfmr.family.t5 import RelativeBias


def test_the_ranges_of_the_relative_bias() -> None:
    """One distance per range up to 3, then logarithmic ranges; the other half for later keys."""
    both = RelativeBias(1, bidirectional=True, n_buckets=16, max_distance=32)
    offset = torch.tensor([[0, -1, -3, -4, -8, -31, -32, -500, 1, 3, 500]])
    assert both.bucket(offset)[0].tolist() == [0, 1, 3, 4, 5, 7, 7, 7, 9, 11, 15]
    past = RelativeBias(1, bidirectional=False, n_buckets=8, max_distance=32)
    assert past.bucket(offset)[0].tolist() == [0, 1, 3, 4, 5, 7, 7, 7, 0, 0, 0]


def test_the_relative_bias_of_the_last_queries() -> None:
    relative = RelativeBias(3, bidirectional=False)
    assert_close(relative(2, 7), relative(7, 7)[:, -2:])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranges_equal_those_of_exact_arithmetic_and_of_hugging_face(
    bidirectional: bool, dtype: torch.dtype
) -> None:
    """At distances where rounding a logarithm down would give the range before."""
    from transformers.models.t5.modeling_t5 import T5Attention

    offset = torch.arange(-300, 301)[None]
    for n_buckets in (4, 6, 8, 12, 16, 32, 64):
        exact = n_buckets // (4 if bidirectional else 2)
        for max_distance in {exact + 1, exact + 5, exact**2 + 1, 81, 125, 128, 243}:
            sizes = {"bidirectional": bidirectional, "max_distance": max_distance}
            own = RelativeBias(1, n_buckets=n_buckets, **sizes).to(dtype).bucket(offset)
            theirs = T5Attention._relative_position_bucket(offset, num_buckets=n_buckets, **sizes)
            assert_close(own, theirs)
    nine = RelativeBias(1, bidirectional=False, n_buckets=8, max_distance=9)
    assert nine.bucket(torch.tensor([[-6]])).item() == 6  # (6 / 4) ** 2 = 9 / 4: half of the way


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_buckets": 2}, "at least 4.*got n_buckets=2"),
        ({"n_buckets": 0}, "n_buckets must be a positive integer"),
        ({"max_distance": 8}, "than the 8 distances.*max_distance=8"),
    ],
)
def test_ranges_that_do_not_exist(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        RelativeBias(1, bidirectional=True, **sizes)


def test_the_initial_weights() -> None:
    """Their standard deviations; queries include the factor that the scores lack."""
    torch.manual_seed(0)
    model = T5(T5Config(50, 64, 25, 400, 1, 1, 40, n_buckets=32))
    expected = {
        "w_q": (64 * 25) ** -0.5,
        "w_k": 64**-0.5,
        "w_v": 64**-0.5,
        "w_o": 1000**-0.5,
        "expand": 64**-0.5,
        "contract": 400**-0.5,
        "bias": 64**-0.5,
        "embedding": 1.0,
        "norm": 0.0,
    }
    for name, parameter in model.named_parameters():
        kind = name.split(".")[-2]
        assert parameter.std().item() == pytest.approx(expected[kind], rel=0.06), name


def test_the_head_size_is_free() -> None:
    model = T5(T5Config(20, 32, 8, 24, 1, 1, 6))
    assert model.encoder.blocks[0].attention.w_q.weight.shape == (48, 32)
    ids = torch.ones(1, 3, dtype=torch.long)
    assert model(ids, ids).isfinite().all()


def test_the_defaults_are_those_of_t5_small() -> None:
    """Raffel et al. (2020), section 3.7, and the published configuration."""
    assert dataclasses.asdict(T5Config()) == {
        "vocab": 32128, "d_model": 512, "d_k": 64, "d_ff": 2048, "n_encoder": 6, "n_decoder": 6,
        "n_heads": 8, "dropout": 0.1, "n_buckets": 32, "max_distance": 128, "eps": 1e-6,
    }  # fmt: skip


@pytest.mark.usefixtures("unchecked")
def test_a_source_without_a_real_token() -> None:
    model = T5(T5Config(20, 16, 4, 24, 1, 1, 2)).eval()
    ids, mask = torch.ones(1, 3, dtype=torch.long), torch.zeros(1, 3, dtype=torch.bool)
    memory = model.encode(ids)
    for use in (lambda: model.decode(ids, memory, mask), lambda: model.encode(ids, mask)):
        with pytest.raises(TfmrError, match="row 0 of 1 has none"):
            use()
    with pytest.raises(TfmrError, match=r"\(1, 3\).*ids.*got \(1, 2\)"):
        model.decode(ids, memory, mask[:, :2])


@pytest.mark.usefixtures("unchecked")
def test_a_cache_of_another_batch() -> None:
    model = T5(T5Config(20, 16, 4, 24, 1, 1, 2)).eval()
    ids = torch.ones(3, 1, dtype=torch.long)
    caches, memory = model.new_caches(4, 1), model.encode(ids)
    model.decode(ids, memory, None, caches)
    with pytest.raises(TfmrError, match=r"\(3, 2, 4, 4\).*got \(1, 2, 1, 4\)"):
        model.decode(ids[:1], memory[:1], None, caches)
