"""The pocket grammar in English: articles, plurals, and the third-person ending."""

from tfmr.data.lexicon import NounPhrase, Sentence


def render(sentence: Sentence) -> str:
    """Render ``sentence`` in English: lower case, one space between words and the full stop."""
    plural = sentence.subject.plural
    words = [noun_phrase(sentence.subject)]
    if sentence.adverb and not sentence.adverb.final:
        words.append(sentence.adverb.english)
    if sentence.predicate:
        words.append("are" if plural else "is")
        words += ["not"] * sentence.negated + [sentence.predicate.english]
    if sentence.verb:
        if sentence.negated:
            words += ["do" if plural else "does", "not", sentence.verb.english]
        else:
            words.append(sentence.verb.english if plural else sentence.verb.third)
    if sentence.object:
        words.append(noun_phrase(sentence.object))
    if sentence.place:
        words.append(sentence.place.english)
    if sentence.adverb and sentence.adverb.final:
        words.append(sentence.adverb.english)
    return " ".join([*words, "."])


def noun_phrase(phrase: NounPhrase) -> str:
    """Render ``phrase``; *a* becomes *an* before a vowel, in an adjective or in a noun."""
    words = [phrase.adjective.english] if phrase.adjective else []
    words.append(phrase.noun.plural if phrase.plural else phrase.noun.english)
    an = phrase.determiner == "a" and words[0][0] in "aeiou"
    return " ".join(["an" if an else phrase.determiner, *words])
