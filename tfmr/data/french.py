"""The pocket grammar in French: gender, number, elision, contraction, adjective position."""

from tfmr.data.lexicon import Adjective, Noun, NounPhrase, Place, Sentence

_VOWELS = frozenset("aeiouàâéèêîôœ")
_ASPIRATED = frozenset({"hibou", "hiboux", "hérisson", "hérissons", "héros", "harpe", "harpes"})
"""Words with an aspirated h, which is silent but prevents elision: *le hibou*, but *l'homme*."""


def render(sentence: Sentence) -> str:
    """Render ``sentence`` in French: lower case, single spaces.

    An elided word keeps its apostrophe and is a separate word: "l' ours mange ."
    """
    plural = sentence.subject.plural
    words = [noun_phrase(sentence.subject)]
    if sentence.predicate:
        verb = "sont" if plural else "est"
    else:
        assert sentence.verb is not None
        verb = sentence.verb.french_plural if plural else sentence.verb.french
    words += [elide("ne", verb), verb, "pas"] if sentence.negated else [verb]
    if sentence.adverb and not sentence.adverb.final:
        words.append(sentence.adverb.french)
    if sentence.predicate:
        words.append(agree(sentence.predicate, sentence.subject.noun, plural, following=""))
    if sentence.object:
        words.append(noun_phrase(sentence.object, negated=sentence.negated))
    if sentence.place:
        words.append(place(sentence.place))
    if sentence.adverb and sentence.adverb.final:
        words.append(sentence.adverb.french)
    return " ".join([*words, "."])


def noun_phrase(phrase: NounPhrase, negated: bool = False) -> str:
    """Render ``phrase``; the object of a ``negated`` verb has *de* instead of *un* or *une*."""
    noun = phrase.noun.french_plural if phrase.plural else phrase.noun.french
    words = [noun]
    if phrase.adjective:
        form = agree(phrase.adjective, phrase.noun, phrase.plural, following=noun)
        words.insert(0 if phrase.adjective.before else 1, form)
    if negated and phrase.determiner == "a":
        return " ".join([elide("de", words[0]), *words])
    return " ".join([determiner(phrase, words[0]), *words])


def determiner(phrase: NounPhrase, following: str) -> str:
    """The determiner of ``phrase``: agrees with the noun, depends on the sound of ``following``."""
    feminine, before_vowel = phrase.noun.gender == "f", sounds_vowel(following)
    match phrase.determiner:
        case "the" if phrase.plural:
            return "les"
        case "the":
            return elide("la" if feminine else "le", following)
        case "a":
            return "une" if feminine else "un"
        case "this" | "that":
            return "cette" if feminine else "cet" if before_vowel else "ce"
        case "my" if not phrase.plural:
            return "ma" if feminine and not before_vowel else "mon"
        case name:
            return _INVARIABLE[name]


def agree(adjective: Adjective, noun: Noun, plural: bool, following: str) -> str:
    """The form of ``adjective`` for ``noun``; ``following`` is the next word, or empty."""
    feminine = noun.gender == "f"
    liaison = adjective.before and not feminine and not plural and sounds_vowel(following)
    if liaison and adjective.liaison:
        return adjective.liaison
    return adjective.french[2 * plural + feminine]


def place(where: Place) -> str:
    """Render a place; *à* and *de* contract with *le* and *les*, but not with *la* or *l'*."""
    article = {"m": "le", "f": "la", "p": "les"}[where.gender]
    article = article if where.gender == "p" else elide(article, where.noun)
    before, _, preposition = where.french.rpartition(" ")
    contracted = _CONTRACTED.get((preposition, article), f"{preposition} {article}")
    return " ".join(part for part in (before, contracted, where.noun) if part)


def elide(word: str, following: str) -> str:
    """Elide *le*, *la*, *ne* or *de* if the word ``following`` begins with a vowel sound."""
    return f"{word[0]}'" if sounds_vowel(following) else word


def sounds_vowel(word: str) -> bool:
    """Whether ``word`` begins with a vowel sound: a vowel, or an h that is not aspirated."""
    return word[:1] in _VOWELS or (word[:1] == "h" and word not in _ASPIRATED)


_INVARIABLE = {
    "these": "ces",
    "those": "ces",
    "my": "mes",
    "every": "chaque",
    "some": "quelques",
    "two": "deux",
    "three": "trois",
}
_CONTRACTED = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
}
