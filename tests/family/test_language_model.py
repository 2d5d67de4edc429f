"""GPT and the current model: causal, cached, and each change since 2017 on its own."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from tfmr.errors import TfmrError
from tfmr.family import GPT, GPTConfig, Llama, LlamaConfig
from tfmr.family.language_model import LanguageModel

SIZES = {"vocab": 20, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 24, "max_length": 12}
CURRENT = LlamaConfig(n_kv_heads=2, **SIZES)
CHANGES = [
    {"norm": "post"},
    {"norm_kind": "layer"},
    {"inner": "relu"},
    {"inner": "gelu"},
    {"position": "learned"},
    {"n_kv_heads": 4},
    {"bias": True},
    {"tied": True},
]


def models() -> list[LanguageModel]:
    torch.manual_seed(0)
    configs = [CURRENT, *(replace(CURRENT, **change) for change in CHANGES)]
    found = [GPT(GPTConfig(**SIZES)), *map(Llama, configs)]
    with torch.no_grad():
        for model in found:
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
    return [model.eval() for model in found]


@pytest.mark.parametrize("model", models())
def test_incremental_decoding_equals_one_call(model: LanguageModel) -> None:
    ids = torch.randint(0, 20, (2, 9), generator=torch.Generator().manual_seed(0))
    caches = model.new_caches(9)
    parts = [model(part, caches=caches) for part in ids.split([4, 1, 3, 1], dim=1)]
    assert_close(torch.cat(parts, dim=1), model(ids))


@pytest.mark.parametrize("model", models())
def test_no_position_depends_on_a_later_token(model: LanguageModel) -> None:
    ids = torch.randint(0, 20, (1, 9), generator=torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % 20
    same = (model(ids) == model(changed)).all(dim=-1)[0]
    assert same[:5].all()
    assert not same[5:].any()


def test_the_original_undoes_every_change() -> None:
    """It is the GPT with ReLU and post-norm, which has one norm less."""
    original = CURRENT.original()
    values = {key for change in CHANGES for key in change if key != "inner"}
    assert all(getattr(original, key) != getattr(CURRENT, key) for key in values)
    assert original.inner == "relu"
    gpt = GPT(GPTConfig(**SIZES)).count_parameters()
    assert Llama(original).count_parameters() == gpt - 2 * SIZES["d_model"]


def test_each_change_changes_the_model() -> None:
    torch.manual_seed(0)
    counts = [Llama(replace(CURRENT, **change)).count_parameters() for change in CHANGES]
    current = Llama(CURRENT).count_parameters()
    d, d_ff, n_layers, vocab = 16, 24, 2, 20
    expected = [
        current - d,  # no final norm
        current + (2 * n_layers + 1) * d,  # biases of the norms
        current - n_layers * d * d_ff,
        current - n_layers * d * d_ff,
        current + 12 * d,
        current + n_layers * 2 * d * d // 2,
        current + n_layers * (2 * d + 2 * d // 2 + 2 * d_ff + d),
        current - vocab * d,
    ]
    assert counts == expected


@pytest.mark.usefixtures("unchecked")
def test_forward_rejects_bad_input() -> None:
    model = Llama(CURRENT)
    with pytest.raises(TfmrError, match=r"\(batch, length\).*got \(3,\)"):
        model(torch.tensor([1, 2, 3]))
    with pytest.raises(TfmrError, match=r"integers: got torch\.float32"):
        model(torch.ones(1, 3))
    with pytest.raises(TfmrError, match=r"max_length=12.*got 13"):
        model(torch.ones(1, 13, dtype=torch.long))


@pytest.mark.parametrize("model", models())
def test_padding_before_or_after_a_text_does_not_change_it(model: LanguageModel) -> None:
    texts = [[7, 8, 9], [10, 11, 12, 13, 14], [15]]
    left = torch.tensor([[0] * (6 - len(text)) + text for text in texts])
    right = torch.tensor([text + [0] * (6 - len(text)) for text in texts])
    before, after = model(left, left > 0), model(right, right > 0)
    for row, text in enumerate(texts):
        alone = model(torch.tensor([text]))[0]
        assert_close(before[row, -len(text) :], alone, atol=1e-5, rtol=1e-5)
        assert_close(after[row, : len(text)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("model", models()[:2])
def test_a_cache_of_another_batch(model: LanguageModel) -> None:
    caches, ids = model.new_caches(9), torch.ones(3, 1, dtype=torch.long)
    model(ids, caches=caches)
    with pytest.raises(TfmrError, match=r"got \(1, [24], 1, 4\) to append"):
        model(ids[:1], caches=caches)
    with pytest.raises(TfmrError, match=r"ids.*got list"):
        model([1, 2, 3])


def test_the_default_sizes_are_those_that_the_papers_state() -> None:
    """The smallest GPT-2 (Radford et al., 2019, table 2) and Llama 3 8B (Grattafiori et al.)."""
    gpt, llama = GPTConfig(), LlamaConfig()
    assert (gpt.d_model, gpt.n_heads, gpt.d_ff, gpt.n_layers) == (768, 12, 3072, 12)
    assert (gpt.vocab, gpt.max_length, gpt.eps, gpt.dropout) == (50257, 1024, 1e-5, 0.1)
    assert (llama.d_model, llama.n_heads, llama.n_kv_heads, llama.d_ff) == (4096, 32, 8, 14336)
    assert (llama.n_layers, llama.vocab, llama.max_length) == (32, 128256, 8192)
    assert (llama.rope_base, llama.eps, llama.dropout) == (500000.0, 1e-5, 0.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_kv_heads": 3}, "n_kv_heads to divide n_heads, got .*n_heads=4, n_kv_heads=3"),
        ({"d_model": 18, "position": "learned"}, "n_heads to divide d_model.*d_model=18"),
        ({"d_model": 12}, "d_model / n_heads"),
        ({"inner": "tanh"}, "inner must be one of swiglu, gelu, relu"),
        ({"vocab": 0}, "vocab must be a positive integer"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_configurations(values, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        replace(CURRENT, **values)
