"""The pocket grammar: a corpus that cannot be lost, because the package writes it.

A sentence is drawn as a small tree that belongs to no language (:mod:`tfmr.data.lexicon`) and is
then said in English, French and Korean. Each English sentence has exactly one translation, so a
model's answer is right or wrong. What is asked of a model is not memory: the test sentences hold
combinations of words that no training sentence has, though every word of them has been seen.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfmr.data import english, french, korean
from tfmr.data.corpus import Corpus, Pair
from tfmr.data.lexicon import (
    ADJECTIVES,
    ADVERBS,
    DEFINITE,
    PEOPLE,
    PLACES,
    PLURAL,
    SINGULAR,
    VERBS,
    Adjective,
    NounPhrase,
    Sentence,
    nouns,
)
from tfmr.errors import require

LANGUAGES: dict[str, Callable[[Sentence], str]] = {"en-fr": french.say, "en-ko": korean.say}
LICENCE = "The pocket grammar: written by this package, under the package's own licence."

_LONGEST = 10


class HeldOut(NamedTuple):
    """Combinations kept from the training part: some to validate with, others to test with."""

    valid: frozenset[tuple[str, str]]
    test: frozenset[tuple[str, str]]


def generate(pair: str, n: int, seed: int) -> list[Pair]:
    """Write ``n`` different sentences and their translations; ``pair`` is "en-fr" or "en-ko".

    English sentences depend on ``seed`` alone: both pairs translate the same ones.
    Raises :class:`TfmrError` for another pair, or when the grammar runs out of sentences.
    """
    return _take(pair, n, _sentences(random.Random(seed)), set(), lambda sentence: True)


def split(pair: str, train: int = 8000, valid: int = 500, test: int = 500, seed: int = 0) -> Corpus:
    """Write a corpus of ``train``, ``valid`` and ``test`` different sentences.

    No training sentence contains a combination of :func:`held_out`. Every test sentence contains
    at least one that is kept for the test, and none that is kept for validation; and the other
    way round. Every word of a held-out sentence, on both sides, occurs in the training part.

    Raises :class:`TfmrError` as :func:`generate` does, and when the training part is too small
    to contain the words that the other parts need.
    """
    held = held_out(seed)
    drawn = _sentences(random.Random(seed))
    seen: set[str] = set()

    def in_train(sentence: Sentence) -> bool:
        return not sentence.combinations() & (held.valid | held.test)

    trained = _take(pair, train, drawn, seen, in_train)
    sources = {word for source, _ in trained for word in source.split()}
    targets = {word for _, target in trained for word in target.split()}

    def known(sentence: Sentence) -> bool:
        said = LANGUAGES[pair](sentence).split()
        return sources.issuperset(english.say(sentence).split()) and targets.issuperset(said)

    def in_valid(sentence: Sentence) -> bool:
        found = sentence.combinations()
        return bool(found & held.valid) and not found & held.test and known(sentence)

    def in_test(sentence: Sentence) -> bool:
        found = sentence.combinations()
        return bool(found & held.test) and not found & held.valid and known(sentence)

    return Corpus(
        name="pocket",
        source=pair[:2],
        target=pair[3:],
        train=trained,
        valid=_take(pair, valid, drawn, seen, in_valid),
        test=_take(pair, test, drawn, seen, in_test),
        licence=LICENCE,
    )


def held_out(seed: int = 0) -> HeldOut:
    """Choose, from ``seed``, the combinations that :func:`split` keeps from the training part.

    One in eight (adjective, noun) and (noun, verb) pairs is kept for the test, one in sixteen for
    validation, spread evenly over adjectives and verbs so that none is left untrained.
    """
    chance = random.Random(seed)
    valid: set[tuple[str, str]] = set()
    test: set[tuple[str, str]] = set()
    groups = [
        *([(word.english, noun.english) for noun in nouns(word.kinds)] for word in ADJECTIVES),
        *([(noun.english, word.english) for noun in nouns(word.subjects)] for word in VERBS),
    ]
    for group in groups:
        chance.shuffle(group)
        n_test, n_valid = len(group) // 8, max(1, len(group) // 16)
        test.update(group[:n_test])
        valid.update(group[n_test : n_test + n_valid])
    return HeldOut(frozenset(valid), frozenset(test))


def tokenise(text: str) -> str:
    """Write an English sentence as the grammar does: small letters, a full stop that stands alone.

    The inverse of :func:`detokenise`, for what a person types: "The bear sings" as
    "the bear sings .". Nothing stays nothing.
    """
    words = text.lower().rstrip(". \t\r\n").split()
    return " ".join([*words, "."]) if words else ""


def detokenise(text: str) -> str:
    """Write a sentence of the grammar as people do, "l' ours dort ." as "l'ours dort." for example.

    The apostrophe joins its word to the next, the hyphen a Korean particle to the one before.
    """
    return text.replace("' ", "'").replace(" -", "").replace(" .", ".")


def _take(
    pair: str,
    n: int,
    sentences: Iterator[Sentence],
    seen: set[str],
    accept: Callable[[Sentence], bool],
) -> list[Pair]:
    """The next ``n`` acceptable pairs that are not in ``seen``, which remembers the English."""
    require(
        pair in LANGUAGES,
        f"the pocket grammar knows {' and '.join(LANGUAGES)}, got {pair!r}",
    )
    taken: list[Pair] = []
    refused = 0
    while len(taken) < n:
        sentence = next(sentences)
        source = english.say(sentence)
        if source not in seen and len(source.split()) <= _LONGEST and accept(sentence):
            seen.add(source)
            taken.append((source, LANGUAGES[pair](sentence)))
            refused = 0
        else:
            refused += 1
        require(
            refused < 5_000,
            f"found only {len(taken)} of {n} sentences; ask for fewer, or for more to train on",
        )
    return taken


def _sentences(chance: random.Random) -> Iterator[Sentence]:
    """Draw sentences for ever: a quarter describe something, the others tell what happens."""
    while True:
        yield _description(chance) if chance.random() < 0.25 else _event(chance)


def _description(chance: random.Random) -> Sentence:
    """Draw a sentence like *the red boxes are not heavy*.

    One of its two adjectives stands before the French noun, the other after it: the first are of
    size, age and beauty, so that nothing is called red and said to be green.
    """
    predicate = chance.choice(ADJECTIVES)
    others = tuple(other for other in ADJECTIVES if other.before != predicate.before)
    subject = _phrase(chance, predicate.kinds, others, 0.3, known=True)
    return Sentence(subject, predicate=predicate, negated=chance.random() < 0.3)


def _event(chance: random.Random) -> Sentence:
    """Draw a sentence like *the curious owl often watches two boxes*.

    At most one of an adverb, a place and a denial keeps it short.
    """
    verb = chance.choice(VERBS)
    extra = chance.choice(["", *verb.extras.split()])
    negated = extra == "denial"
    return Sentence(
        subject=_phrase(chance, verb.subjects, ADJECTIVES, 0.4, known=negated),
        verb=verb,
        object=_phrase(chance, verb.objects, ADJECTIVES, 0.4, denied=negated)
        if verb.objects
        else None,
        adverb=chance.choice(ADVERBS) if extra == "adverb" else None,
        place=chance.choice(PLACES) if extra == "place" else None,
        negated=negated,
    )


def _phrase(
    chance: random.Random,
    kinds: str,
    adjectives: tuple[Adjective, ...],
    share: float,
    known: bool = False,
    denied: bool = False,
) -> NounPhrase:
    """Draw a noun of one of ``kinds``, one of ``adjectives`` in a ``share`` of cases, a determiner.

    What is ``known`` has a definite determiner. An object that is ``denied`` has neither *some*
    nor *every*, which would change their meaning; and nobody calls people *mine*.
    """
    noun = chance.choice(nouns(kinds))
    plural = chance.random() < 0.4
    barred = {"some", "every"} if denied else set()
    if noun.kind in PEOPLE.split():
        barred.add("my")
    determiner = chance.choice(
        [
            name
            for name in (PLURAL if plural else SINGULAR)
            if name not in barred and (name in DEFINITE or not known)
        ]
    )
    fitting = [adjective for adjective in adjectives if noun.kind in adjective.kinds.split()]
    adjective = chance.choice(fitting) if fitting and chance.random() < share else None
    return NounPhrase(determiner, adjective, noun, plural)
