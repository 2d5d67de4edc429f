"""Language models and T5 by the searches of translators: naive versions, and Hugging Face."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from tests.decode.test_beam import assert_same
from tests.family.models import VOCAB, make_pair
from tests.family.test_language_model import CURRENT, models
from tfmr.data.batches import pad
from tfmr.decode import (
    GenerationConfig,
    Sampling,
    beam_search,
    beam_search_naive,
    greedy_search,
)
from tfmr.errors import TfmrError
from tfmr.family import T5, Llama, T5Config
from tfmr.family.generate import answer, generate, stack_prompts
from tfmr.special_tokens import BOS, EOS, PAD
from tfmr.translator import IncrementalModel, Translator

PROMPTS = [[3, 4, 5, 6], [7], [8, 9], [10, 11, 12, 13, 14, 15], [16]]
SOURCES = [[7, 8, 9, 10, 11, 12, 13], [3, 4, 5, 6], [14], [15, 16, 17]]
LENGTH = 6


def t5() -> T5:
    torch.manual_seed(0)
    model = T5(T5Config(20, 16, 4, 24, 2, 3, 2, n_buckets=8, max_distance=9)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
    return model


class Whole(Translator):
    """A model of the family as a translator that computes the whole output for every token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = SimpleNamespace(max_length=LENGTH)

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        if isinstance(self.model, T5):
            return self.model(source, target)
        return self.model(torch.cat([source, target[:, 1:]], dim=1))[:, source.shape[1] - 1 :]

    def scores(self, x: Tensor) -> Tensor:
        return x


def often_ends(model: nn.Module) -> nn.Module:
    """``model`` in double precision, with a larger logit of ``EOS`` if it has an output layer."""
    if not isinstance(model, T5):
        model.output.bias = nn.Parameter(2.0 * (torch.arange(20) == EOS))
    return model.double()


CASES: list[tuple[IncrementalModel, Tensor, int | None]] = [
    *((often_ends(model), stack_prompts(PROMPTS), None) for model in models()[:3]),
    (often_ends(t5()), pad(SOURCES), BOS),
]


@pytest.mark.parametrize(("model", "source", "start"), CASES)
def test_searches_equal_those_without_batch_and_cache(
    model: IncrementalModel, source: Tensor, start: int | None
) -> None:
    """With the vocabulary of a translator: ``PAD`` and ``BOS`` are not generated."""
    assert isinstance(model, IncrementalModel)
    generation = GenerationConfig(start, EOS, EOS, LENGTH)
    whole, ended = Whole(model), 0
    found = beam_search(model, source, 3, 0.6, n_best=3, generation=generation)
    for row, hypotheses in zip(source, found, strict=True):
        alone = row[row > 0][None]
        expected = beam_search_naive(whole, alone, 3, 0.6, n_best=3)
        assert_same(hypotheses, expected, tolerance=1e-6)  # rotary angles are in fp32
        ended += sum(hypothesis.finished for hypothesis in hypotheses)
    assert ended > 0
    greedy = beam_search(model, source, 1, 0.0, generation=generation)
    assert greedy_search(model, source, generation=generation) == [h.ids for [h] in greedy]


def choose_naively(
    model: nn.Module,
    source: list[int],
    start: int | None,
    eos: int | None,
    choose: Callable[[Tensor, int], int],
) -> list[int]:
    """One text, no cache, all ids: the whole text is computed again for every token."""
    text: list[int] = []
    for n in range(LENGTH):
        if start is None:
            logits = model(torch.tensor([[*source, *text]]))
        else:
            logits = model(torch.tensor([source]), torch.tensor([[start, *text]]))
        token = choose(logits[:, -1], n)
        if token == eos:
            break
        text.append(token)
    return text


@pytest.mark.parametrize(("model", "source", "start"), CASES)
def test_every_id_can_be_generated_and_end_the_text(
    model: nn.Module, source: Tensor, start: int | None
) -> None:
    def run(eos: int | None, sampling: Sampling | None = None) -> list[list[int]]:
        if isinstance(model, T5):
            return answer(model, source, LENGTH, start=BOS, eos=eos, sampling=sampling, seed=7)
        return generate(model, PROMPTS, LENGTH, eos=eos, sampling=sampling, seed=7)

    sources = SOURCES if isinstance(model, T5) else PROMPTS
    sampling = Sampling(temperature=1.3, top_k=5)

    def draw(row: int) -> Callable[[Tensor, int], int]:
        generator = torch.Generator().manual_seed(7 + row)
        uniform = torch.rand(LENGTH, generator=generator, dtype=torch.float64)
        return lambda logits, n: int(sampling.draw(logits, uniform[n : n + 1], 0))

    def most_probable(logits: Tensor, n: int) -> int:
        return int(logits.argmax())

    with torch.no_grad():
        for eos in (None, 0, run(None)[0][-1]):
            for row, (greedy, drawn) in enumerate(zip(run(eos), run(eos, sampling), strict=True)):
                one = (model, sources[row], start, eos)
                assert greedy == choose_naively(*one, most_probable)
                assert drawn == choose_naively(*one, draw(row))


def test_the_smallest_ids_are_generated() -> None:
    """``PAD`` and ``BOS`` are ordinary tokens in the vocabularies of other projects."""
    model = models()[0]
    used = {
        token for text in generate(model, PROMPTS, LENGTH, sampling=Sampling(9.0)) for token in text
    }
    assert used & {PAD, BOS}


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("eos", [None, 1, 9])
def test_equal_to_generate_of_hugging_face(kind: str, eos: int | None, tmp_path: Path) -> None:
    """Without a length penalty; of the hypotheses that tie at the maximum length, ours ranks the
    finished ones first, so these are compared where the best one is finished or none is."""
    # With its cache, Hugging Face's T5 needs equally many encoder and decoder blocks.
    model, other = make_pair(kind, tmp_path, **({"num_decoder_layers": 2} if kind == "t5" else {}))
    model.double()
    other.double()
    sources = SOURCES if kind == "t5" else PROMPTS
    compared = 0
    for beam in (1, 3):
        options = {
            "max_new_tokens": LENGTH, "num_beams": beam, "do_sample": False, "pad_token_id": 0,
            "eos_token_id": VOCAB if eos is None else eos,  # None would select the model's own
            "length_penalty": 0.0, "early_stopping": True,
        }  # fmt: skip
        if kind == "t5":
            options["decoder_start_token_id"] = 0
            found = answer(model, pad(sources), LENGTH, start=0, eos=eos, beam=beam, alpha=0.0)
        else:
            found = generate(model, sources, LENGTH, eos=eos, beam=beam, alpha=0.0)
        for source, ids in zip(sources, found, strict=True):
            config = copy.deepcopy(other.generation_config)
            config.update(**options)
            [expected] = other.generate(torch.tensor([source]), generation_config=config)
            expected = expected[1 if kind == "t5" else len(source) :].tolist()
            if eos in expected:
                expected = expected[: expected.index(eos)]
            elif eos is not None and beam > 1:
                continue
            assert ids == expected
            compared += 1
    assert compared >= len(sources)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 3), "at least one prompt"),
        (([[1], []], 3), r"prompts of \[1, 0\] tokens"),
        (([[1]], 0), "max_new_tokens must be a positive integer: got 0"),
        (([[1]], True), "max_new_tokens must be a positive integer: got True"),
        (([[1, 2]], 11), r"12 positions.*2 \+ 11"),
        (([[1, 20]], 3), "0 and 19.*20 to 20"),
        (([[1, 20, 2]], 3), "0 and 19.*1 to 20"),
    ],
)
def test_generation_rejects_bad_input(arguments, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        generate(Llama(CURRENT).eval(), *arguments)


def test_generation_needs_evaluation_mode_and_a_maximum_length() -> None:
    with pytest.raises(TfmrError, match="evaluation mode"):
        generate(Llama(CURRENT), [[1]], 2)
    with pytest.raises(TfmrError, match="evaluation mode"):
        answer(t5().train(), pad(SOURCES), 3, start=0, eos=1)
    for model in (Llama(CURRENT).eval(), t5()):
        with pytest.raises(TfmrError, match=f"{type(model).__name__}; set max_new_tokens"):
            greedy_search(model, pad(SOURCES))
    with pytest.raises(TfmrError, match="at least 2: got 1"):
        GenerationConfig(eos=1)


def test_a_prompt_without_tokens() -> None:
    with pytest.raises(TfmrError, match=r"at least one token: got \[1, 0\]"):
        models()[0].start(torch.tensor([[1], [-1]]), 2)


def test_the_first_text_has_seed_0_and_each_further_one_the_next() -> None:
    options = {"max_new_tokens": LENGTH, "sampling": Sampling(temperature=2.0)}
    texts = generate(models()[0], PROMPTS, **options)
    for i, prompt in enumerate(PROMPTS):
        assert generate(models()[0], [prompt], seed=i, **options) == [texts[i]]
    options |= {"start": BOS, "eos": None}
    answers = answer(t5(), pad(SOURCES), **options)
    for i, source in enumerate(SOURCES):
        assert answer(t5(), torch.tensor([source]), seed=i, **options) == [answers[i]]
