"""The pocket grammar in Korean: the verb at the end, counters, and particles chosen by sound.

Particles and the plural ending are written as words of their own with a hyphen in front,
"늑대 -들 -은", as linguists do; :func:`tfmr.data.pocket.detokenise` joins them.
"""

from tfmr.data.lexicon import DEFINITE, NounPhrase, Sentence

_FIRST_SYLLABLE = 0xAC00
_FINALS = 28


def say(sentence: Sentence) -> str:
    """Say ``sentence`` in Korean, in the polite present (해요), with single spaces.

    What is known already is the topic (은, 는), what is new is the subject (이, 가).
    """
    known = sentence.subject.determiner in DEFINITE
    words = [marked(noun_phrase(sentence.subject), "은는" if known else "이가")]
    if sentence.adverb:
        words.append(sentence.adverb.korean)
    if sentence.place:
        words.append(sentence.place.korean)
    if sentence.object:
        words.append(marked(noun_phrase(sentence.object), "을를"))
    if sentence.predicate:
        _, affirmed, denied = sentence.predicate.korean
        words.append(denied if sentence.negated else affirmed)
    if sentence.verb:
        words.append(f"{sentence.verb.stem} 않아요" if sentence.negated else sentence.verb.korean)
    return " ".join([*words, "."])


def noun_phrase(phrase: NounPhrase) -> str:
    """Say ``phrase``: no articles, a number after its noun with a counter, else 들 for a plural."""
    words = [_DETERMINERS[phrase.determiner]] if phrase.determiner in _DETERMINERS else []
    if phrase.adjective:
        words.append(phrase.adjective.korean[0])
    words.append(phrase.noun.korean)
    if phrase.determiner in _NUMBERS:
        words += [_NUMBERS[phrase.determiner], phrase.noun.counter]
    elif phrase.plural:
        words.append("-들")
    return " ".join(words)


def marked(phrase: str, particles: str) -> str:
    """Add the one of two ``particles`` that fits: the first after a consonant, else the second."""
    return f"{phrase} -{particles[0 if final_consonant(phrase[-1]) else 1]}"


def final_consonant(syllable: str) -> int:
    """The number of the consonant that closes a Hangul ``syllable``, 0 if it ends in its vowel.

    Unicode lays the 11 172 syllables out by first consonant, vowel and last consonant, in that
    order, from U+AC00 on; the last one has 28 values, so it is the remainder by 28.
    """
    return (ord(syllable) - _FIRST_SYLLABLE) % _FINALS


_DETERMINERS = {
    "this": "이",
    "these": "이",
    "that": "그",
    "those": "그",
    "my": "제",
    "every": "모든",
}
_NUMBERS = {"two": "두", "three": "세", "some": "몇"}
