"""French is checked by independent rules that use the text of the sentences only."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmr.data import french, pocket

seeds = st.integers(0, 2**32)
few = settings(max_examples=25)

FEMININE_NOUNS = """
souris abeille grenouille oie tortue femme reine actrice héroïne fille pomme orange cerise
tomate clé boîte horloge feuille fleur voiture harpe forêt gare école rivière maison
"""
MASCULINE_NOUNS = """
loup chat ours oiseau cheval hibou hérisson éléphant renard écureuil manchot homme roi acteur
héros garçon enfant œuf gâteau melon livre chapeau miroir vélo arbre anneau avion
jardin château marché hôtel lac
"""
FEMININE, MASCULINE = set(FEMININE_NOUNS.split()), set(MASCULINE_NOUNS.split())
SAME_IN_PLURAL = {"souris", "ours", "héros"}
FEMININE_OF = {
    "petit": "petite", "grand": "grande", "beau": "belle", "bel": "belle", "joli": "jolie",
    "nouveau": "nouvelle", "nouvel": "nouvelle", "vieux": "vieille", "vieil": "vieille",
    "vert": "verte", "bleu": "bleue", "blanc": "blanche", "noir": "noire", "gris": "grise",
    "lourd": "lourde", "léger": "légère", "frais": "fraîche", "heureux": "heureuse",
    "curieux": "curieuse", "courageux": "courageuse", "fatigué": "fatiguée", "gentil": "gentille",
    "jeune": "jeune", "rouge": "rouge", "jaune": "jaune", "propre": "propre", "calme": "calme",
}  # fmt: skip
WORDS_BEFORE = "petit grand beau bel joli nouveau nouvel vieux vieil jeune gentil"
BEFORE = set(WORDS_BEFORE.split())
VOWEL_SOUND = re.compile(r"(?!hibou|hériss|héros|harpe)[aeiouhàâéèêîœ]")


def french_plural(word: str) -> str:
    """The plural of a French noun or adjective, by the regular rules."""
    if word[-1] in "sx":
        return word
    if word.endswith("al"):
        return f"{word[:-2]}aux"
    if word.endswith("eau") or word == "hibou":
        return f"{word}x"
    return f"{word}s"


PLURAL_FORMS = {french_plural(noun) for noun in FEMININE | MASCULINE}
NOUN_GENDER = {form: "f" for noun in FEMININE for form in (noun, french_plural(noun))} | {
    form: "m" for noun in MASCULINE for form in (noun, french_plural(noun))
}
MASCULINE_FORMS = {french_plural(word) for word in FEMININE_OF} | set(FEMININE_OF)
FEMININE_FORMS = {french_plural(word) for word in FEMININE_OF.values()} | set(FEMININE_OF.values())
ADJECTIVE_FORMS = MASCULINE_FORMS | FEMININE_FORMS
FORMS_BEFORE = {form for word in BEFORE for form in (word, french_plural(word))} | {
    form for word in BEFORE for form in (FEMININE_OF[word], french_plural(FEMININE_OF[word]))
}
DETERMINERS = {
    ("m", False): {"le", "l'", "un", "ce", "cet", "mon", "chaque", "de", "d'", "du", "au"},
    ("f", False): {"la", "l'", "une", "cette", "ma", "mon", "chaque", "de", "d'"},
    ("m", True): {"les", "ces", "mes", "deux", "trois", "quelques", "des"},
    ("f", True): {"les", "ces", "mes", "deux", "trois", "quelques", "des"},
}
ANY_DETERMINER = set().union(*DETERMINERS.values())


def agrees(adjective: str, gender: str, plural: bool) -> bool:
    """Whether ``adjective`` has the form for a noun of ``gender`` and number."""
    forms = (
        FEMININE_OF.values() if gender == "f" else FEMININE_OF.keys() - {"bel", "nouvel", "vieil"}
    )
    expected = {french_plural(form) for form in forms} if plural else set(forms)
    return adjective in expected | (
        set() if plural or gender == "f" else {"bel", "nouvel", "vieil"}
    )


def check_french(sentence: str) -> None:
    """Elision, liaison forms, agreement of determiner, adjective and verb."""
    words = sentence.split()
    for word, following in pairwise(words):
        vowel = bool(VOWEL_SOUND.match(following))
        if word in ("l'", "d'", "n'", "cet", "bel", "nouvel", "vieil"):
            assert vowel, (word, following)
        if word in ("le", "la", "ce", "ne", "ma", "beau", "nouveau") or (
            word == "de" and following not in ("la", "l'")
        ):
            # A predicate is followed by the full stop only.
            assert not vowel, (word, following)
        assert (word, following) not in {("à", "le"), ("à", "les"), ("de", "le"), ("de", "les")}
    at, subject = 0, None
    while at < len(words):
        if words[at] not in ANY_DETERMINER or words[at + 1] in ("la", "l'"):
            at += 1
            continue
        determiner, start = words[at], at
        at += 1
        while words[at] in ADJECTIVE_FORMS:
            assert words[at] in FORMS_BEFORE
            at += 1
        noun = words[at]
        gender, plural = NOUN_GENDER[noun], noun in PLURAL_FORMS
        if noun in SAME_IN_PLURAL:
            plural = determiner in DETERMINERS["m", True]
        assert determiner in DETERMINERS[gender, plural], (determiner, noun)
        at += 1
        after = [words[at]] if words[at] in ADJECTIVE_FORMS else []
        for adjective in words[start + 1 : at - 1] + after:
            assert agrees(adjective, gender, plural), (adjective, noun)
            assert adjective != "vieux" or plural or not VOWEL_SOUND.match(noun)
        assert not set(after) & FORMS_BEFORE
        if determiner == "mon" and gender == "f":
            assert VOWEL_SOUND.match(words[start + 1])
        at += len(after)
        subject = subject or (gender, plural, at)
    gender, plural, at = subject
    at += words[at] in ("ne", "n'")
    verb = words[at]
    assert (verb in ("sont",) or (verb.endswith("ent") and verb != "vient")) == plural
    if verb in ("est", "sont"):
        assert agrees(words[-2], gender, plural)
    assert (words[at - 1] in ("ne", "n'")) == (words[at + 1] == "pas")


@few
@given(seeds)
def test_french_is_grammatical(seed):
    for _, sentence in pocket.generate("en-fr", 60, seed):
        check_french(sentence)


WRONG = """
le ours dort · l' hibou dort · la femme heureux dort · les femmes heureuse dorment ·
les femmes dort · la femme dorment · ce éléphant dort · cet loup dort ·
un beau ours dort · un vieux ours dort · ma oie dort · mon reine dort ·
le rouge loup dort · le loup petit dort · le loup ne aime pas la reine ·
le loup dort à le marché · les pommes sont frais · le pomme est fraîche ·
le loup ne dort
"""


@pytest.mark.parametrize("wrong", [f"{' '.join(text.split())} ." for text in WRONG.split("·")])
def test_the_french_rules_detect_errors(wrong):
    with pytest.raises((AssertionError, KeyError)):
        check_french(wrong)


def test_only_today_stands_at_the_end():
    for english, sentence in pocket.generate("en-fr", 500, 0):
        words, translated = english.split(), sentence.split()
        assert ("today" in words) == sentence.endswith("aujourd'hui .")
        for adverb, other in (("today", "aujourd'hui"), ("often", "souvent")):
            assert words.count(adverb) == translated.count(other)


def test_elision_before_mute_and_aspirated_h():
    assert french.elide("le", "homme") == "l'"
    assert french.elide("la", "horloge") == "l'"
    assert french.elide("le", "hibou") == "le"
    assert french.elide("ne", "aime") == "n'"
    assert french.elide("la", "") == "la"
