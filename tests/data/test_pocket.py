"""The grammar is checked by independent rules that use the text of the sentences only."""

import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfmr.data import korean, pocket
from tfmr.data.corpus import Corpus
from tfmr.data.lexicon import ADJECTIVES, NOUNS, VERBS
from tfmr.errors import TfmrError

seeds = st.integers(0, 2**32)
few = settings(max_examples=25)

# ---------------------------------------------------------------- parsing English

ADJECTIVE = {adjective.english for adjective in ADJECTIVES}
SINGULAR_OF = {
    "wolves": "wolf", "mice": "mouse", "geese": "goose", "men": "man", "women": "woman",
    "children": "child", "leaves": "leaf", "cherries": "cherry", "foxes": "fox", "boxes": "box",
    "heroes": "hero", "tomatoes": "tomato", "actresses": "actress",
}  # fmt: skip
SINGLE = "a an the this that my every"
SEVERAL = "the these those my two three some"


def singular(word: str) -> str:
    """The singular of an English noun; irregular forms are in the table above."""
    return SINGULAR_OF.get(word, word.removesuffix("s"))


def parse_phrase(words: list[str]) -> tuple[str, str, str, bool]:
    """Remove a noun phrase from ``words``: determiner, adjective, singular noun, is plural."""
    determiner = words.pop(0)
    adjective = words.pop(0) if words[0] in ADJECTIVE else ""
    noun = words.pop(0)
    plural = noun in SINGULAR_OF or (noun.endswith("s") and noun != "actress")
    assert determiner in (SEVERAL if plural else SINGLE).split(), (determiner, noun)
    return determiner, adjective, singular(noun) if plural else noun, plural


def parse(sentence: str) -> tuple[list[tuple[str, str, str, bool]], str, str]:
    """The noun phrases of an English sentence, its verb, and its predicate adjective."""
    words = sentence.split()
    assert words.pop() == "."
    phrases = [parse_phrase(words)]
    plural = phrases[0][3]
    if words[0] in ("often", "always", "sometimes"):
        words.pop(0)
    if words[0] in ("is", "are"):
        assert words.pop(0) == ("are" if plural else "is")
        words = words[1:] if words[0] == "not" else words
        assert len(words) == 1
        return phrases, "", words[0]
    if words[0] in ("do", "does"):
        assert [words.pop(0), words.pop(0)] == ["do" if plural else "does", "not"]
        verb = words.pop(0)
        assert verb in {word.english.split()[0] for word in VERBS}
    else:
        verb = words.pop(0)
        assert verb.endswith("s") != plural
        verb = verb if plural else re.sub("(?<=ch)es$|s$", "", verb)
    if words and words[0] == "for":
        verb = f"{verb} {words.pop(0)}"
    if words and words[0] not in ("in", "at", "near", "today"):
        phrases.append(parse_phrase(words))
    assert not words or words[0] in ("in", "at", "near", "today")
    return phrases, verb, ""


def combinations(sentence: str) -> set[tuple[str, str]]:
    """All (adjective, noun) and (subject, verb) combinations."""
    phrases, verb, predicate = parse(sentence)
    found = {(adjective, noun) for _, adjective, noun, _ in phrases if adjective}
    subject = phrases[0][2]
    found.add((predicate, subject) if predicate else (subject, verb))
    return found


@few
@given(seeds)
def test_english_is_grammatical(seed):
    for sentence, _ in pocket.generate("en-fr", 60, seed):
        parse(sentence)
        assert not re.search(r"\ba [aeiou]", sentence)
        assert not re.search(r"\ban [^aeiou]", sentence)
        assert sentence == sentence.lower()
        assert 4 <= len(sentence.split()) <= 10


# ---------------------------------------------------------------- rules for Korean

PARTICLES = {"-은": True, "-이": True, "-을": True, "-는": False, "-가": False, "-를": False}
COUNTER = {"animal": "마리", "adult": "명", "child": "명", "food": "개"}
KIND = {noun.korean.split()[-1]: noun.kind for noun in NOUNS}


def closed(syllable: str) -> bool:
    """Whether a syllable ends in a consonant, by Unicode decomposition."""
    return len(unicodedata.normalize("NFD", syllable)) == 3


def check_korean(source: str, sentence: str) -> None:
    """Particles by sound, verb-final order, 들 on uncounted plurals, correct counters."""
    words = sentence.split()
    assert words[-1] == "."
    assert words[-2].endswith("요")
    assert sum(word.endswith("요") for word in words) == 1
    for at, (word, following) in enumerate(pairwise(words)):
        if following in PARTICLES:
            assert closed(word[-1]) == PARTICLES[following], (word, following)
        if following in ("-들", "-에서"):
            assert re.fullmatch("[가-힣]+|-들", word)
        if following in ("마리", "명", "개", "권", "대", "송이", "그루", "장"):
            assert word in ("두", "세", "몇")
            assert COUNTER.get(KIND[words[at - 1]], following) == following
    phrases, _, _ = parse(source)
    counted = [phrase for phrase in phrases if phrase[0] in ("two", "three", "some")]
    plain = [phrase for phrase in phrases if phrase[3] and phrase not in counted]
    assert words.count("-들") == len(plain) + ("houses" in source)
    topic = phrases[0][0] in ("the", "this", "that", "these", "those", "my")
    assert bool({"-은", "-는"} & set(words)) == topic
    if len(phrases) == 2:
        assert {"-을", "-를"} & set(words[-4:])


@few
@given(seeds)
def test_korean_is_grammatical(seed):
    for source, sentence in pocket.generate("en-ko", 60, seed):
        check_korean(source, sentence)


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("the bear sleeps .", "곰 -는 자요 ."),
        ("the wolf sleeps .", "늑대 -은 자요 ."),
        ("the wolf sleeps .", "늑대 -가 자요 ."),
        ("a bear sleeps .", "곰 -가 자요 ."),
        ("the wolves sleep .", "늑대 -는 자요 ."),
        ("two wolves sleep .", "늑대 두 명 -이 자요 ."),
        ("the wolf sees a bear .", "늑대 -는 봐요 곰 -을 ."),
        ("the wolf sees a bear .", "늑대 -는 곰 -를 봐요 ."),
    ],
)
def test_the_korean_rules_detect_errors(source, wrong):
    with pytest.raises(AssertionError):
        check_korean(source, wrong)


@given(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3))
def test_final_consonant_agrees_with_unicode_decomposition(syllable):
    letters = unicodedata.normalize("NFD", syllable)
    number = ord(letters[2]) - 0x11A7 if len(letters) == 3 else 0
    assert korean.final_consonant(syllable) == number


# ---------------------------------------------------------------- the corpus


@cache
def corpus(direction: str) -> Corpus:
    return pocket.split(direction, train=3000, valid=150, test=150, seed=3)


@pytest.mark.parametrize("direction", pocket.LANGUAGES)
def test_every_english_sentence_has_one_translation(direction):
    translation: dict[str, str] = {}
    repeated = 0
    for seed in range(4):
        for source, target in pocket.generate(direction, 2000, seed):
            repeated += source in translation
            assert translation.setdefault(source, target) == target
    assert repeated > 50


def test_no_english_word_is_ambiguous():
    forms = Counter(form for noun in NOUNS for form in {noun.english, noun.plural})
    forms += Counter(adjective.english for adjective in ADJECTIVES)
    forms += Counter(form for verb in VERBS for form in {verb.english, verb.third})
    assert max(forms.values()) == 1


@pytest.mark.parametrize("direction", pocket.LANGUAGES)
def test_held_out_combinations_are_not_in_the_training_set(direction):
    made = corpus(direction)
    trained = set().union(*(combinations(source) for source, _ in made.train))
    held = pocket.held_out(3)
    assert not trained & (held.valid | held.test)
    for split, expected, other in ((made.valid, *held), (made.test, *held[::-1])):
        for source, _ in split:
            found = combinations(source)
            assert found - trained, "every sentence has a new combination"
            assert found & expected
            assert not found & other


@pytest.mark.parametrize("direction", pocket.LANGUAGES)
def test_every_held_out_word_is_in_the_training_set(direction):
    small = pocket.split(direction, train=200, valid=60, test=60, seed=3)
    for made in (corpus(direction), small):
        for split in (made.valid, made.test):
            for side in (0, 1):
                known = {word for sentences in made.train for word in sentences[side].split()}
                assert {word for sentences in split for word in sentences[side].split()} <= known


@pytest.mark.parametrize("direction", pocket.LANGUAGES)
def test_sentences_are_unique(direction):
    made = corpus(direction)
    assert [len(part) for part in (made.train, made.valid, made.test)] == [3000, 150, 150]
    sources = [source for source, _ in made.train + made.valid + made.test]
    assert len(set(sources)) == len(sources)


def test_both_directions_have_the_same_sources():
    assert [source for source, _ in corpus("en-fr").train] == [
        source for source, _ in corpus("en-ko").train
    ]
    made = corpus("en-ko")
    assert (made.name, made.source, made.target) == ("pocket", "en", "ko")


def test_the_grammar_is_varied():
    made = corpus("en-fr")
    used = {word for source, _ in made.train for word in source.split()}
    forms = {form for noun in NOUNS for form in (noun.english, noun.plural)}
    assert forms <= used
    assert used >= ADJECTIVE
    assert len(NOUNS) >= 40
    assert len(ADJECTIVES) >= 24
    assert len(VERBS) >= 16


def test_the_corpus_depends_on_the_seed():
    assert pocket.generate("en-ko", 50, 7) == pocket.generate("en-ko", 50, 7)
    assert pocket.generate("en-ko", 50, 7) != pocket.generate("en-ko", 50, 8)
    assert pocket.held_out(1) != pocket.held_out(2)


def test_the_corpus_is_always_the_same():
    """As when the models were recorded, and whatever the hash seed is."""
    program = (
        "import hashlib; from tfmr.data import pocket; "
        "corpus = pocket.split('en-fr', 400, 20, 20, 1); "
        "pairs = repr([*corpus.train, *corpus.valid, *corpus.test]).encode(); "
        "print(hashlib.sha256(pairs).hexdigest()[:16])"
    )
    written = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        written.add(done.stdout)
    assert written == {b"5ff870d7fbe3ac61\n"}


def test_negation_is_rendered_in_every_language():
    french = dict(pocket.generate("en-fr", 2000, 5))
    korean_texts = dict(pocket.generate("en-ko", 2000, 5))
    assert french.keys() == korean_texts.keys()
    negated = [source for source in french if "not" in source.split()]
    assert 200 < len(negated) < 800
    for source in negated:
        assert " pas " in french[source]
        assert (
            "않아요" in korean_texts[source]
            or "아니에요" in korean_texts[source]
            or "않았어요" in korean_texts[source]
        )


def test_invalid_requests_are_rejected():
    with pytest.raises(TfmrError, match=r"en-fr.*en-ko, got 'en-de'"):
        pocket.generate("en-de", 1, 0)
    with pytest.raises(TfmrError, match=r"en-fr.*en-ko, got 'fr-en'"):
        pocket.split("fr-en")
    with pytest.raises(TfmrError, match=r"expected 5 different sentences, .* generated only \d"):
        pocket.split("en-fr", train=5, valid=5, test=5)
