"""Greedy decoding: fast equals naive, batch equals one by one, and it ends where it must."""

import dataclasses
from itertools import product

import pytest
import torch
from torch import Tensor

from tfmr.data.batches import pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import EXTRA_LENGTH, greedy, greedy_naive, translate
from tfmr.errors import TfmrError
from tfmr.ids import BOS, EOS, PAD
from tfmr.model import Transformer, TransformerConfig

WORDS = [f"w{number}" for number in range(26)]
TOKENIZER = Tokenizer("words", WORDS)
TINY = TransformerConfig(
    30, 30, d_model=16, n_heads=2, d_ff=32, n_encoder=1, n_decoder=2, dropout=0.0, max_length=20
)
KINDS = list(product(["post", "pre"], ["sinusoidal", "learned", "rotary"]))
SENTENCES = [[4, 5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16], [17], [18, 19, 20], [21, 22, 23]]


def build(norm: str = "post", position: str = "sinusoidal", **changed: object) -> Transformer:
    """A model that has learnt nothing, but minds every word and comes to an end now and then."""
    torch.manual_seed(1)
    choices = {"norm": norm, "position": position, "tie": "none", **changed}
    model = Transformer(dataclasses.replace(TINY, **choices)).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(1.5)
        model.output.weight[EOS].mul_(2)
    return model


def favour(monkeypatch: pytest.MonkeyPatch, model: Transformer, bonus: dict[int, float]) -> None:
    """Add to the scores of some tokens."""
    plain = model.scores

    def scores(x: Tensor) -> Tensor:
        logits = plain(x)
        for token, more in bonus.items():
            logits[..., token] += more
        return logits

    monkeypatch.setattr(model, "scores", scores)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_equals_uncached_and_batch_equals_one_by_one(kind: tuple[str, str]) -> None:
    model = build(*kind)
    together = greedy(model, pad(SENTENCES))
    assert together == [greedy(model, torch.tensor([ids]))[0] for ids in SENTENCES]
    assert together == [greedy_naive(model, torch.tensor([ids])) for ids in SENTENCES]
    assert len({tuple(output) for output in together}) > 1, (
        "the models must differ in what they say"
    )


def test_these_models_end_at_different_times_and_some_never() -> None:
    lengths = {len(output) for kind in KINDS[3:] for output in greedy(build(*kind), pad(SENTENCES))}
    assert len(lengths) > 3
    assert max(lengths) == TINY.max_length


@pytest.mark.parametrize("max_length", [8, 20, 200])
def test_a_sentence_without_end_stops_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, max_length: int
) -> None:
    model = build(max_length=max_length)
    favour(monkeypatch, model, {EOS: -1e9})
    outputs = greedy(model, pad(SENTENCES))
    wanted = [min(len(ids) + EXTRA_LENGTH, max_length) for ids in SENTENCES]
    assert [len(output) for output in outputs] == wanted
    assert len(greedy_naive(model, torch.tensor([SENTENCES[1]]))) == wanted[1]


def test_padding_and_a_second_beginning_are_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    favour(monkeypatch, model, {PAD: 1e9, BOS: 1e9})
    for output in (*greedy(model, pad(SENTENCES)), greedy_naive(model, torch.tensor([[4, 5]]))):
        assert output
        assert not {PAD, BOS, EOS} & set(output)


def test_an_end_at_once_is_an_empty_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    favour(monkeypatch, model, {EOS: 1e9})
    assert greedy(model, pad(SENTENCES)) == [[]] * len(SENTENCES)
    assert greedy_naive(model, torch.tensor([[4, 5]])) == []


def test_a_finished_sentence_leaves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("pre")
    seen, finished, plain = [], [], model.decode

    def decode(target: Tensor, memory: Tensor, *rest: object) -> Tensor:
        assert len(target) == len(memory)
        assert target.shape[1] == 1
        seen.append(len(target))
        return plain(target, memory, *rest)

    monkeypatch.setattr(model, "decode", decode)
    outputs = greedy(model, pad(SENTENCES), finished.append)
    steps = [min(len(output) + 1, TINY.max_length) for output in outputs]
    assert seen == [sum(n > step for n in steps) for step in range(max(steps))]
    assert len(set(seen)) > 2
    assert sum(finished) == len(SENTENCES)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(TfmrError, match=r"call model.eval\(\) first"):
        greedy(build().train(), pad(SENTENCES))


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_translations_come_in_the_order_of_the_sentences(batch: int) -> None:
    model = build()
    texts = [TOKENIZER.decode(ids) for ids in SENTENCES]
    done: list[int] = []
    outputs = translate(model, TOKENIZER, texts, batch=batch, on_finished=done.append)
    assert outputs == [
        TOKENIZER.decode(greedy_naive(model, torch.tensor([ids]))) for ids in SENTENCES
    ]
    assert sum(done) == len(texts)
    assert translate(model, TOKENIZER, []) == []


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["w1 w2", ""], "sentence 2 is empty: there is nothing to translate"),
        ([" \t", "w1"], "sentence 1 is empty"),
        (
            ["w1", "w2 dragon w1 gold"],
            "sentence 2 has words that the model never learnt: dragon, gold",
        ),
        (["w1", " ".join(["w2"] * 21)], "sentence 2 has 21 tokens and the model reads at most 20"),
    ],
)
def test_a_sentence_that_cannot_be_translated(sentences: list[str], message: str) -> None:
    with pytest.raises(TfmrError, match=message) as error:
        translate(build(), TOKENIZER, sentences)
    assert "\n" not in str(error.value)


def test_white_space_is_empty_to_byte_pairs_too() -> None:
    tokenizer = Tokenizer.train_bpe(["a b c"], 260)
    model = build(source_vocab=260, target_vocab=260)
    for text in ("", " "):
        with pytest.raises(TfmrError, match="sentence 1 is empty"):
            translate(model, tokenizer, [text])


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(TfmrError, match="has 29 tokens and the model 30: use the tokenizer that"):
        translate(build(), Tokenizer("words", WORDS[1:]), ["w1"])
