"""Pairs of German sentences that differ in one noun, and the English token that shows which."""

from typing import NamedTuple


class MinimalPair(NamedTuple):
    """Two source sentences, a common prefix of their translations, and the next word of each."""

    sentence: str
    """The German sentence, with braces in place of the noun."""
    nouns: tuple[str, str]
    """The two nouns; article, adjectives and verb agree with both."""
    prefix: str
    """The English translation up to the noun."""
    words: tuple[str, str]
    """The English nouns."""


PAIRS = [
    MinimalPair(sentence, (a, b), prefix, (c, d))
    for sentence, a, b, prefix, c, d in [
        ("Ein {} läuft durch den Park.", "Hund", "Mann", "A", "dog", "man"),
        ("Ein {} springt über eine Mauer.", "Junge", "Hund", "A", "boy", "dog"),
        ("Ein {} sitzt auf einer Bank.", "Mann", "Junge", "A", "man", "boy"),
        ("Eine {} sitzt an einem Tisch.", "Frau", "Gruppe", "A", "woman", "group"),
        ("Ein {} spielt im Sand.", "Kind", "Mädchen", "A", "child", "girl"),
        ("Ein {} steht auf der Straße.", "Mann", "Pferd", "A", "man", "horse"),
        ("Ein {} lächelt in die Kamera.", "Mädchen", "Baby", "A", "girl", "baby"),
        ("Ein {} liegt im Gras.", "Hund", "Kind", "A", "dog", "child"),
        ("Ein {} schläft auf dem Boden.", "Baby", "Hund", "A", "baby", "dog"),
        ("Zwei {} spielen im Park.", "Hunde", "Kinder", "Two", "dogs", "children"),
        ("Zwei {} sitzen auf einer Bank.", "Männer", "Frauen", "Two", "men", "women"),
        ("Drei {} laufen am Strand entlang.", "Mädchen", "Hunde", "Three", "girls", "dogs"),
        ("Zwei {} stehen vor einem Gebäude.", "Frauen", "Kinder", "Two", "women", "children"),
        ("Viele {} stehen auf der Straße.", "Menschen", "Kinder", "Many", "people", "children"),
        ("Im Park spielt ein {}.", "Hund", "Kind", "A", "dog", "child"),
        ("Auf der Straße steht ein {}.", "Auto", "Mann", "A", "car", "man"),
        ("Am Strand läuft ein {}.", "Junge", "Hund", "A", "boy", "dog"),
        ("Im Wasser schwimmen zwei {}.", "Hunde", "Männer", "Two", "dogs", "men"),
        ("Auf einer Bank sitzen drei {}.", "Frauen", "Männer", "Three", "women", "men"),
        ("Ein Mann hält einen {}.", "Ball", "Hund", "A man is holding a", "ball", "dog"),
        ("Eine Frau trägt einen {}.", "Hut", "Rock", "A woman is wearing a", "hat", "skirt"),
        ("Eine Frau hält ein {}.", "Baby", "Schild", "A woman is holding a", "baby", "sign"),
        ("Ein Mann spielt {}.", "Gitarre", "Fußball", "A man is playing", "guitar", "soccer"),
        ("Ein Mann sitzt auf einem {}.", "Stuhl", "Pferd", "A man sits on a", "chair", "horse"),
        ("Ein Kind neben einem {}.", "Auto", "Hund", "A child next to a", "car", "dog"),
        ("Eine Gruppe von {} im Park.", "Männern", "Frauen", "A group of", "men", "women"),
        ("Ein Hund mit einem {}.", "Ball", "Stock", "A dog with a", "ball", "stick"),
    ]
]  # fmt: skip
"""Written for this measurement from frequent words of Multi30k; both sentences of a pair have the
same number of tokens."""

NOUNS = ("Hund", "Mann", "Junge", "Mädchen", "Kind")
"""Nouns that each fit into each of :data:`FRAMES`."""
FRAMES = tuple(
    dict.fromkeys(
        pair.sentence
        for pair in PAIRS
        if pair.sentence.startswith("Ein {}") and {*pair.nouns} & {*NOUNS}
    )
)[:7]
"""Sentences for any of these nouns, which are its subject."""
