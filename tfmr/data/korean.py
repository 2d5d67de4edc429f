"""The pocket grammar in Korean: verb-final order, counters, and particles chosen by sound.

Particles and the plural ending are separate words with a leading hyphen, "늑대 -들 -은", as in
linguistic glosses; :func:`tfmr.data.text.from_form` joins them to the preceding word.
"""

from tfmr.data.lexicon import DEFINITE, NounPhrase, Sentence

_FIRST_SYLLABLE = 0xAC00
_FINALS = 28


def render(sentence: Sentence) -> str:
    """Render ``sentence`` in Korean, in the polite present tense (해요), with single spaces.

    A definite subject has the topic particle (은, 는), an indefinite one the subject particle
    (이, 가).
    """
    definite = sentence.subject.determiner in DEFINITE
    words = [add_particle(noun_phrase(sentence.subject), "은는" if definite else "이가")]
    if sentence.adverb:
        words.append(sentence.adverb.korean)
    if sentence.place:
        words.append(sentence.place.korean)
    if sentence.object:
        words.append(add_particle(noun_phrase(sentence.object), "을를"))
    if sentence.predicate:
        _, positive, negative = sentence.predicate.korean
        words.append(negative if sentence.negated else positive)
    if sentence.verb:
        words.append(f"{sentence.verb.stem} 않아요" if sentence.negated else sentence.verb.korean)
    return " ".join([*words, "."])


def noun_phrase(phrase: NounPhrase) -> str:
    """Render ``phrase``, without articles; a number and its counter, or 들, follow the noun."""
    words = [_DETERMINERS[phrase.determiner]] if phrase.determiner in _DETERMINERS else []
    if phrase.adjective:
        words.append(phrase.adjective.korean[0])
    words.append(phrase.noun.korean)
    if phrase.determiner in _NUMBERS:
        words += [_NUMBERS[phrase.determiner], phrase.noun.counter]
    elif phrase.plural:
        words.append("-들")
    return " ".join(words)


def add_particle(phrase: str, particles: str) -> str:
    """Append the first of two ``particles`` after a consonant, the second after a vowel."""
    return f"{phrase} -{particles[0 if final_consonant(phrase[-1]) else 1]}"


def final_consonant(syllable: str) -> int:
    """The index of the final consonant of a Hangul ``syllable``, 0 if it ends in a vowel.

    From U+AC00 on, Unicode orders the 11 172 syllables by first consonant, vowel and final
    consonant. The final consonant has 28 values, so its index is the remainder modulo 28.
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
