"""Translate text: tokenise sentences, translate them in batches by length, keep their order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfmr.data.batches import pad
from tfmr.data.text import canonical, to_form
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode.beam import ALPHA, beam_search, check_beam_options
from tfmr.decode.generate import check_eval_mode
from tfmr.decode.sampling import Sampling
from tfmr.decode.search import check_search_options, search
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import UNK
from tfmr.translator import IncrementalTranslator

WINDOW = 16
"""Number of batches that are sorted by length together. Larger windows need less padding; smaller
ones yield the first translations earlier."""


@dataclass(frozen=True)
class Candidate:
    """One of the best translations of a sentence."""

    ids: list[int]
    """The ids, without ``BOS`` and ``EOS``."""
    text: str
    """One line of text, in its canonical spelling."""
    log_prob: float
    """The natural logarithm of its probability: the sum over its tokens, ``EOS`` included."""
    score: float
    """``log_prob`` divided by the length penalty; the best translation has the highest score."""


@dataclass(frozen=True)
class Translation:
    """A translated sentence. All fields are empty if the sentence is empty or was skipped."""

    source: list[int]
    """The ids of the source sentence."""
    ids: list[int]
    """The ids of its translation, without ``BOS`` and ``EOS``."""
    text: str
    """The translation as one line of text, in its canonical spelling."""
    n_best: Sequence[Candidate] = ()
    """The best translations, this one first; empty unless they were requested."""


def translate(
    model: IncrementalTranslator,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
    batch_size: int = 64,
    detokenise: bool = True,
    on_finished: Callable[[int], object] | None = None,
) -> list[str]:
    """Translate sentences; the translations are in the same order.

    Args:
        model: in evaluation mode.
        tokenizer: the one that the model was trained with.
        sentences: one per string. An empty one has an empty translation.
        beam: hypotheses per sentence of :func:`tfmr.decode.beam.beam_search`; 1 is greedy decoding.
        alpha: length penalty of the beam search.
        sampling: sample each next token instead of searching.
        seed: random seed of the first sentence when sampling; the second uses ``seed + 1``, and
            so on.
        batch_size: number of sentences per batch.
        detokenise: return ordinary spelling, such as "l'ours dort." in the pocket grammar. With
            ``False``, return the form of the corpus, "l' ours dort .", in which translations are
            compared with references.
        on_finished: called with the number of sentences finished since the last call (for a
            progress bar).

    Raises:
        TfmrError: if a sentence is too long or has an unknown word (the message names the
            sentence), the tokenizer is not the model's, the model is in training mode, or an
            option is out of range, or two options exclude each other.
    """
    translations = translate_each(
        model,
        tokenizer,
        sentences,
        beam=beam,
        alpha=alpha,
        sampling=sampling,
        seed=seed,
        batch_size=batch_size,
        detokenise=detokenise,
        on_finished=on_finished,
    )
    return [translation.text for translation in translations]


def translate_each(
    model: IncrementalTranslator,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    *,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
    batch_size: int = 64,
    detokenise: bool = True,
    n_best: int = 0,
    first_number: int = 1,
    on_finished: Callable[[int], object] | None = None,
    on_error: Callable[[int, TfmrError], object] | None = None,
) -> Iterator[Translation]:
    """Translate sentences as :func:`translate` does; yield each as early as their order permits.

    All sentences are checked before the first is translated. Scores and alignments take five
    lines::

        from tfmr import load_translator
        from tfmr.decode import align, translate_each

        model, tokenizer = load_translator("multi30k-de-en")
        for each in translate_each(model, tokenizer, ["Ein Hund schläft."], beam=4, n_best=4):
            print([(candidate.score, candidate.text) for candidate in each.n_best])
            print(align(model, tokenizer, each.source, each.ids))

    Args:
        n_best: number of translations with scores per sentence, at most ``beam``; 0 for none.
        first_number: the number of the first sentence, which determines the numbers in messages
            and the seeds; for a text that arrives in several parts.
        on_error: called with the number of each sentence that cannot be translated (too long, or
            with an unknown word) and the error. An empty translation is yielded instead.
            Without this callback the first such error is raised.

    The other arguments are those of :func:`translate`.

    Raises:
        TfmrError: as :func:`translate`.
    """
    check_eval_mode(model)
    check_search_options(beam, alpha, sampling)
    require(
        n_best == 0 or sampling is None,
        f"n_best needs a search: got n_best={n_best} and sampling; choose one",
    )
    if n_best:
        check_beam_options(beam, alpha, n_best)
    require(batch_size >= 1, f"batch_size must be at least 1 sentence: got {batch_size}")
    encoded = _encode(model, tokenizer, sentences, first_number, on_error)

    def text_of(ids: list[int]) -> str:
        text = canonical(tokenizer.decode(ids))
        return tokenizer.detokenise(text) if detokenise else text

    def translations(indices: list[int]) -> list[Translation]:
        if not indices:
            return []
        sources = [encoded[i] for i in indices]
        padded = pad(sources).to(model.device)
        if n_best:
            found = beam_search(model, padded, beam, alpha, n_best=n_best, on_finished=on_finished)
            best = [
                [Candidate(h.ids, text_of(h.ids), h.log_prob, h.score) for h in hypotheses]
                for hypotheses in found
            ]
            return [
                Translation(source, candidates[0].ids, candidates[0].text, candidates)
                for source, candidates in zip(sources, best, strict=True)
            ]
        outputs = search(
            model,
            padded,
            beam=beam,
            alpha=alpha,
            sampling=sampling,
            seeds=[seed + first_number - 1 + i for i in indices],
            on_finished=on_finished,
        )
        return [
            Translation(source, ids, text_of(ids))
            for source, ids in zip(sources, outputs, strict=True)
        ]

    def in_order() -> Iterator[Translation]:
        for start in range(0, len(encoded), WINDOW * batch_size):
            window = range(start, min(start + WINDOW * batch_size, len(encoded)))
            by_length = sorted(window, key=lambda i: len(encoded[i]))
            finished: dict[int, Translation] = {}
            next_index = start
            for at in range(0, len(window), batch_size):
                batch = by_length[at : at + batch_size]
                nonempty = [i for i in batch if encoded[i]]
                finished.update((i, Translation([], [], "")) for i in batch)
                finished.update(zip(nonempty, translations(nonempty), strict=True))
                if on_finished is not None and len(nonempty) < len(batch):
                    on_finished(len(batch) - len(nonempty))
                while next_index in finished:
                    yield finished.pop(next_index)
                    next_index += 1

    return in_order()


def _encode(
    model: IncrementalTranslator,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    first_number: int,
    on_error: Callable[[int, TfmrError], object] | None,
) -> list[list[int]]:
    """The ids of each sentence; an empty list if it is empty or was reported to ``on_error``."""
    require(
        tokenizer.vocab_size == model.config.source_vocab,
        f"the vocabulary has {tokenizer.vocab_size} tokens and the model "
        f"{model.config.source_vocab}: use the tokenizer that the model was trained with",
    )
    texts = list(sentences)
    errors: dict[int, TfmrError] = {}
    for index, text in enumerate(texts):
        try:
            texts[index] = canonical(text)
        except TfmrError as reason:
            texts[index] = ""
            errors[index] = TfmrError(f"sentence {first_number + index}: {reason}")
    encoded = tokenizer.encode_batch(texts)
    for index, ids in enumerate(encoded):
        number = first_number + index
        error = errors.get(index) or _error(number, texts[index], ids, tokenizer, model)
        if error is None:
            continue
        if on_error is None:
            raise error
        on_error(number, error)
        encoded[index] = []
    return encoded


def _error(
    number: int, text: str, ids: list[int], tokenizer: Tokenizer, model: IncrementalTranslator
) -> TfmrError | None:
    """Why the model cannot translate a sentence; ``None`` if it can."""
    max_length = model.config.max_length
    if len(ids) > max_length:
        return TfmrError(
            f"sentence {number} has {len(ids)} tokens and the model's max_length is {max_length}: "
            "split the sentence, or train a model with a larger max_length"
        )
    if UNK in ids:
        words = to_form(text, tokenizer.form).split()
        unknown = [word for word in words if UNK in tokenizer.encode(word)]
        return TfmrError(
            f"sentence {number} has words outside the model's vocabulary: {', '.join(unknown)}; "
            "use words of its corpus, or a model with a byte-pair vocabulary"
        )
    return None
