"""From sentences to sentences: the texts around a search, in batches and in order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from tfmr.data.batches import pad
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode.beam import ALPHA, beam_search, check_options
from tfmr.decode.generate import check_ready
from tfmr.decode.greedy import greedy_search
from tfmr.decode.sampling import Sampling, sample
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import UNK
from tfmr.translator import Translator

WINDOW = 16
"""So many batches are sorted by length together: enough to pad little, few enough to stream."""


@dataclass(frozen=True)
class Translation:
    """A sentence, what was said for it, and the ids of both."""

    source: list[int]
    ids: list[int]
    """Without ``BOS`` and ``EOS``."""
    text: str


def translate(
    model: Translator,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
    batch: int = 64,
    on_finished: Callable[[int], object] | None = None,
) -> list[str]:
    """Translate texts, in their order; those of like length go through the model together.

    Args:
        model: in evaluation mode.
        tokenizer: the vocabulary it was trained with.
        sentences: one sentence each.
        beam: how many hypotheses :func:`tfmr.decode.beam.beam_search` follows; 1 is greedy
            decoding.
        alpha: the length penalty of a beam search.
        sampling: draw each next token instead.
        seed: of the draws for the first sentence; the second has the next seed, and so on.
        batch: how many sentences go through the model at once.
        on_finished: called with the number of sentences done since the last call.

    Raises:
        TfmrError: if a sentence is empty, too long or has an unknown word (the message names it),
            the vocabulary is not the model's, or the options do not go together.
    """
    translations = translate_each(
        model,
        tokenizer,
        sentences,
        beam=beam,
        alpha=alpha,
        sampling=sampling,
        seed=seed,
        batch=batch,
        on_finished=on_finished,
    )
    return [translation.text for translation in translations]


def translate_each(
    model: Translator,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
    batch: int = 64,
    first: int = 1,
    on_finished: Callable[[int], object] | None = None,
) -> Iterator[Translation]:
    """:func:`translate`, each translation as soon as it and all before it are there.

    All sentences are checked before the first is translated.

    Args:
        first: the number of the first sentence, in messages and for its seed; for a text that comes
            in several pieces. The others are those of :func:`translate`.

    Raises:
        TfmrError: as :func:`translate`.
    """
    check_ready(model)
    check_options(beam, alpha, n_best=1)
    require(
        sampling is None or beam == 1,
        f"a translation is either searched for or drawn: got beam={beam} and sampling; choose one",
    )
    encoded = _encode(model, tokenizer, sentences, first)
    device = next(model.parameters()).device

    def search(source: Int[Tensor, "batch source"], numbers: list[int]) -> list[list[int]]:
        if sampling is not None:
            seeds = [seed + first - 1 + number for number in numbers]
            return sample(model, source, sampling, seeds=seeds, on_finished=on_finished)
        if beam == 1:
            return greedy_search(model, source, on_finished)
        found = beam_search(model, source, beam, alpha, on_finished=on_finished)
        return [hypotheses[0].ids if hypotheses else [] for hypotheses in found]

    def work() -> Iterator[Translation]:
        for start in range(0, len(encoded), WINDOW * batch):
            window = range(start, min(start + WINDOW * batch, len(encoded)))
            order = sorted(window, key=lambda index: len(encoded[index]))
            waiting: dict[int, Translation] = {}
            due = start
            for at in range(0, len(order), batch):
                numbers = order[at : at + batch]
                source = pad([encoded[number] for number in numbers]).to(device)
                for number, ids in zip(numbers, search(source, numbers), strict=True):
                    waiting[number] = Translation(encoded[number], ids, tokenizer.decode(ids))
                while due in waiting:
                    yield waiting.pop(due)
                    due += 1

    return work()


def _encode(
    model: Translator, tokenizer: Tokenizer, sentences: Sequence[str], first: int
) -> list[list[int]]:
    """The ids of all sentences, or an error that names the first that cannot be translated."""
    require(
        tokenizer.vocab_size == model.config.source_vocab,
        f"the vocabulary has {tokenizer.vocab_size} tokens and the model "
        f"{model.config.source_vocab}: use the tokenizer that the model was trained with",
    )
    encoded = tokenizer.encode_batch(list(sentences))
    for number, (sentence, ids) in enumerate(zip(sentences, encoded, strict=True), start=first):
        require(
            bool(ids) and not sentence.isspace(),
            f"sentence {number} is empty: there is nothing to translate; leave out empty lines",
        )
        require(
            len(ids) <= model.config.max_length,
            f"sentence {number} has {len(ids)} tokens and the model reads at most "
            f"{model.config.max_length}: split it, or train with a larger max_length",
        )
        if UNK in ids:
            unknown = [word for word in sentence.split() if UNK in tokenizer.encode(word)]
            raise TfmrError(
                f"sentence {number} has words that the model never learnt: {', '.join(unknown)}; "
                f"use the words of its corpus, or a model with a byte-pair vocabulary"
            )
    return encoded
