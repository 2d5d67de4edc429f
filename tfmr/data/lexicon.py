"""The words of the pocket grammar, and the structure of a sentence.

One table for each part of speech; an entry has the forms of a word in English, French and Korean.
The ``kind`` of a noun restricts its combinations: people and animals act, food is eaten.
"""

from functools import cache
from typing import NamedTuple


class Noun(NamedTuple):
    """A noun: English and French singular and plural, French gender, Korean and its counter."""

    english: str
    plural: str
    kind: str
    french: str
    french_plural: str
    gender: str
    korean: str
    counter: str


class Adjective(NamedTuple):
    """An adjective for nouns of some ``kinds``.

    ``french`` is masculine, feminine, masculine plural, feminine plural; ``liaison`` replaces the
    first before a vowel sound (*un bel ours*). ``korean`` is the form before a noun, the
    predicate, and the negated predicate.
    """

    english: str
    french: tuple[str, str, str, str]
    kinds: str
    korean: tuple[str, str, str]
    before: bool = False
    liaison: str = ""


class Verb(NamedTuple):
    """A verb in the present tense: third person singular and plural; Korean polite form and stem.

    ``subjects`` and ``objects`` are kinds of nouns; an intransitive verb has no ``objects``.
    ``extras`` lists what a sentence may add: an adverb, a place, a negation.
    """

    english: str
    third: str
    french: str
    french_plural: str
    korean: str
    stem: str
    subjects: str
    objects: str = ""
    extras: str = "adverb place negation"


class Adverb(NamedTuple):
    """An adverb of time; a ``final`` one ends the English and the French sentence."""

    english: str
    french: str
    korean: str
    final: bool = False


class Place(NamedTuple):
    """A place: an English phrase, the components of the French phrase, and the Korean phrase.

    ``french`` is the preposition, ``noun`` the French noun, ``gender`` "m", "f", or "p" for a
    plural. Preposition and article contract: *près de* + *le lac* is *près du lac*.
    """

    english: str
    french: str
    noun: str
    gender: str
    korean: str


class NounPhrase(NamedTuple):
    """A determiner, an optional adjective, and a noun."""

    determiner: str
    adjective: Adjective | None
    noun: Noun
    plural: bool


class Sentence(NamedTuple):
    """A language-independent sentence: a subject with a ``verb`` or a ``predicate`` adjective."""

    subject: NounPhrase
    verb: Verb | None = None
    predicate: Adjective | None = None
    object: NounPhrase | None = None
    adverb: Adverb | None = None
    place: Place | None = None
    negated: bool = False

    def combinations(self) -> set[tuple[str, str]]:
        """Every (adjective, noun) and (subject noun, verb) of the sentence, in English base forms.

        *the red apple* and *the apple is red* contain the same combination.
        """
        found = set()
        for phrase in (self.subject, self.object):
            if phrase and phrase.adjective:
                found.add((phrase.adjective.english, phrase.noun.english))
        if self.predicate:
            found.add((self.predicate.english, self.subject.noun.english))
        if self.verb:
            found.add((self.subject.noun.english, self.verb.english))
        return found


SINGULAR = ("the", "the", "a", "a", "this", "that", "my", "every")
PLURAL = ("the", "the", "these", "those", "my", "two", "three", "some")
"""The determiners by number. Articles are listed twice, which doubles their probability."""

DEFINITE = frozenset({"the", "this", "that", "these", "those", "my"})
"""Definite determiners; in Korean they make the subject a topic."""

ALIVE = "animal adult child"
PEOPLE = "adult child"
INERT = "food thing"
ALL = f"{ALIVE} {INERT}"
UNPLACED = "adverb negation"

NOUNS = (
    Noun("wolf", "wolves", "animal", "loup", "loups", "m", "늑대", "마리"),
    Noun("mouse", "mice", "animal", "souris", "souris", "f", "쥐", "마리"),
    Noun("cat", "cats", "animal", "chat", "chats", "m", "고양이", "마리"),
    Noun("bear", "bears", "animal", "ours", "ours", "m", "곰", "마리"),
    Noun("bird", "birds", "animal", "oiseau", "oiseaux", "m", "새", "마리"),
    Noun("horse", "horses", "animal", "cheval", "chevaux", "m", "말", "마리"),
    Noun("owl", "owls", "animal", "hibou", "hiboux", "m", "부엉이", "마리"),
    Noun("hedgehog", "hedgehogs", "animal", "hérisson", "hérissons", "m", "고슴도치", "마리"),
    Noun("elephant", "elephants", "animal", "éléphant", "éléphants", "m", "코끼리", "마리"),
    Noun("fox", "foxes", "animal", "renard", "renards", "m", "여우", "마리"),
    Noun("bee", "bees", "animal", "abeille", "abeilles", "f", "벌", "마리"),
    Noun("frog", "frogs", "animal", "grenouille", "grenouilles", "f", "개구리", "마리"),
    Noun("goose", "geese", "animal", "oie", "oies", "f", "거위", "마리"),
    Noun("squirrel", "squirrels", "animal", "écureuil", "écureuils", "m", "다람쥐", "마리"),
    Noun("penguin", "penguins", "animal", "manchot", "manchots", "m", "펭귄", "마리"),
    Noun("turtle", "turtles", "animal", "tortue", "tortues", "f", "거북", "마리"),
    Noun("man", "men", "adult", "homme", "hommes", "m", "남자", "명"),
    Noun("woman", "women", "adult", "femme", "femmes", "f", "여자", "명"),
    Noun("king", "kings", "adult", "roi", "rois", "m", "왕", "명"),
    Noun("queen", "queens", "adult", "reine", "reines", "f", "여왕", "명"),
    Noun("actor", "actors", "adult", "acteur", "acteurs", "m", "배우", "명"),
    Noun("actress", "actresses", "adult", "actrice", "actrices", "f", "여배우", "명"),
    Noun("hero", "heroes", "adult", "héros", "héros", "m", "영웅", "명"),
    Noun("heroine", "heroines", "adult", "héroïne", "héroïnes", "f", "여자 영웅", "명"),
    Noun("boy", "boys", "child", "garçon", "garçons", "m", "소년", "명"),
    Noun("girl", "girls", "child", "fille", "filles", "f", "소녀", "명"),
    Noun("child", "children", "child", "enfant", "enfants", "m", "아이", "명"),
    Noun("apple", "apples", "food", "pomme", "pommes", "f", "사과", "개"),
    Noun("egg", "eggs", "food", "œuf", "œufs", "m", "달걀", "개"),
    Noun("cake", "cakes", "food", "gâteau", "gâteaux", "m", "케이크", "개"),
    Noun("orange", "oranges", "food", "orange", "oranges", "f", "오렌지", "개"),
    Noun("cherry", "cherries", "food", "cerise", "cerises", "f", "체리", "개"),
    Noun("tomato", "tomatoes", "food", "tomate", "tomates", "f", "토마토", "개"),
    Noun("melon", "melons", "food", "melon", "melons", "m", "멜론", "개"),
    Noun("book", "books", "thing", "livre", "livres", "m", "책", "권"),
    Noun("key", "keys", "thing", "clé", "clés", "f", "열쇠", "개"),
    Noun("box", "boxes", "thing", "boîte", "boîtes", "f", "상자", "개"),
    Noun("hat", "hats", "thing", "chapeau", "chapeaux", "m", "모자", "개"),
    Noun("clock", "clocks", "thing", "horloge", "horloges", "f", "시계", "개"),
    Noun("mirror", "mirrors", "thing", "miroir", "miroirs", "m", "거울", "개"),
    Noun("leaf", "leaves", "thing", "feuille", "feuilles", "f", "나뭇잎", "장"),
    Noun("flower", "flowers", "thing", "fleur", "fleurs", "f", "꽃", "송이"),
    Noun("car", "cars", "thing", "voiture", "voitures", "f", "자동차", "대"),
    Noun("bicycle", "bicycles", "thing", "vélo", "vélos", "m", "자전거", "대"),
    Noun("harp", "harps", "thing", "harpe", "harpes", "f", "하프", "대"),
    Noun("tree", "trees", "thing", "arbre", "arbres", "m", "나무", "그루"),
    Noun("ring", "rings", "thing", "anneau", "anneaux", "m", "반지", "개"),
    Noun("plane", "planes", "thing", "avion", "avions", "m", "비행기", "대"),
)


def _korean(before: str, predicate: str, stem: str) -> tuple[str, str, str]:
    """The Korean forms of an adjective with regular negation."""
    return before, predicate, f"{stem} 않아요"


def _colour(noun: str) -> tuple[str, str, str]:
    """The Korean forms of a colour whose name is a noun."""
    return noun, f"{noun}이에요", f"{noun} -이 아니에요"


ADJECTIVES = (
    Adjective("small", ("petit", "petite", "petits", "petites"), f"animal {INERT}",
              _korean("작은", "작아요", "작지"), before=True),
    Adjective("big", ("grand", "grande", "grands", "grandes"), f"animal {INERT}",
              _korean("큰", "커요", "크지"), before=True),
    Adjective("beautiful", ("beau", "belle", "beaux", "belles"), "animal thing",
              _korean("아름다운", "아름다워요", "아름답지"), before=True, liaison="bel"),
    Adjective("pretty", ("joli", "jolie", "jolis", "jolies"), f"animal {INERT}",
              _korean("예쁜", "예뻐요", "예쁘지"), before=True),
    Adjective("new", ("nouveau", "nouvelle", "nouveaux", "nouvelles"), "thing",
              ("새", "새것이에요", "새것 -이 아니에요"), before=True, liaison="nouvel"),
    Adjective("old", ("vieux", "vieille", "vieux", "vieilles"), "thing",
              ("오래된", "오래됐어요", "오래되지 않았어요"), before=True, liaison="vieil"),
    Adjective("young", ("jeune", "jeune", "jeunes", "jeunes"), "animal adult",
              _korean("젊은", "젊어요", "젊지"), before=True),
    Adjective("red", ("rouge", "rouge", "rouges", "rouges"), INERT,
              _korean("빨간", "빨개요", "빨갛지")),
    Adjective("yellow", ("jaune", "jaune", "jaunes", "jaunes"), INERT,
              _korean("노란", "노래요", "노랗지")),
    Adjective("green", ("vert", "verte", "verts", "vertes"), INERT, _colour("초록색")),
    Adjective("blue", ("bleu", "bleue", "bleus", "bleues"), "thing",
              _korean("파란", "파래요", "파랗지")),
    Adjective("white", ("blanc", "blanche", "blancs", "blanches"), "animal thing",
              _korean("하얀", "하얘요", "하얗지")),
    Adjective("black", ("noir", "noire", "noirs", "noires"), "animal thing",
              _korean("까만", "까매요", "까맣지")),
    Adjective("grey", ("gris", "grise", "gris", "grises"), "animal thing", _colour("회색")),
    Adjective("heavy", ("lourd", "lourde", "lourds", "lourdes"), "thing",
              _korean("무거운", "무거워요", "무겁지")),
    Adjective("light", ("léger", "légère", "légers", "légères"), "thing",
              _korean("가벼운", "가벼워요", "가볍지")),
    Adjective("clean", ("propre", "propre", "propres", "propres"), "animal thing",
              _korean("깨끗한", "깨끗해요", "깨끗하지")),
    Adjective("fresh", ("frais", "fraîche", "frais", "fraîches"), "food",
              _korean("신선한", "신선해요", "신선하지")),
    Adjective("happy", ("heureux", "heureuse", "heureux", "heureuses"), ALIVE,
              _korean("행복한", "행복해요", "행복하지")),
    Adjective("quiet", ("calme", "calme", "calmes", "calmes"), ALIVE,
              _korean("조용한", "조용해요", "조용하지")),
    Adjective("curious", ("curieux", "curieuse", "curieux", "curieuses"), ALIVE,
              _korean("호기심 많은", "호기심이 많아요", "호기심이 많지")),
    Adjective("brave", ("courageux", "courageuse", "courageux", "courageuses"), ALIVE,
              _korean("용감한", "용감해요", "용감하지")),
    Adjective("tired", ("fatigué", "fatiguée", "fatigués", "fatiguées"), ALIVE,
              _korean("피곤한", "피곤해요", "피곤하지")),
    Adjective("kind", ("gentil", "gentille", "gentils", "gentilles"), PEOPLE,
              _korean("친절한", "친절해요", "친절하지"), before=True),
)  # fmt: skip

VERBS = (
    Verb("sleep", "sleeps", "dort", "dorment", "자요", "자지", ALIVE),
    Verb("run", "runs", "court", "courent", "달려요", "달리지", ALIVE),
    Verb("sing", "sings", "chante", "chantent", "노래해요", "노래하지", ALIVE),
    Verb("laugh", "laughs", "rit", "rient", "웃어요", "웃지", PEOPLE),
    Verb("walk", "walks", "marche", "marchent", "걸어요", "걷지", ALIVE),
    Verb("dance", "dances", "danse", "dansent", "춤춰요", "춤추지", ALIVE),
    Verb("work", "works", "travaille", "travaillent", "일해요", "일하지", "adult"),
    Verb("come", "comes", "vient", "viennent", "와요", "오지", ALIVE, "", UNPLACED),
    Verb("arrive", "arrives", "arrive", "arrivent", "도착해요", "도착하지", ALIVE, "", UNPLACED),
    Verb("eat", "eats", "mange", "mangent", "먹어요", "먹지", ALIVE, "food"),
    Verb("see", "sees", "voit", "voient", "봐요", "보지", ALIVE, ALL),
    Verb("like", "likes", "aime", "aiment", "좋아해요", "좋아하지", ALIVE, ALL, "negation"),
    Verb("find", "finds", "trouve", "trouvent", "발견해요", "발견하지", ALIVE, f"animal {INERT}"),
    Verb("look for", "looks for", "cherche", "cherchent", "찾아요", "찾지", ALIVE, ALL),
    Verb("watch", "watches", "regarde", "regardent", "지켜봐요", "지켜보지", ALIVE, ALL),
    Verb("follow", "follows", "suit", "suivent", "따라가요", "따라가지", ALIVE, ALIVE, UNPLACED),
    Verb("wait for", "waits for", "attend", "attendent", "기다려요", "기다리지", ALIVE, ALIVE),
    Verb("hide", "hides", "cache", "cachent", "숨겨요", "숨기지", ALIVE, INERT, UNPLACED),
    Verb("buy", "buys", "achète", "achètent", "사요", "사지", PEOPLE, INERT),
    Verb("sell", "sells", "vend", "vendent", "팔아요", "팔지", "adult", INERT),
    Verb("draw", "draws", "dessine", "dessinent", "그려요", "그리지", PEOPLE, ALL),
    Verb(
        "choose", "chooses", "choisit", "choisissent", "골라요", "고르지", PEOPLE, INERT, UNPLACED
    ),
)

ADVERBS = (
    Adverb("often", "souvent", "자주"),
    Adverb("always", "toujours", "항상"),
    Adverb("sometimes", "parfois", "가끔"),
    Adverb("today", "aujourd'hui", "오늘", final=True),
)

PLACES = (
    Place("in the garden", "dans", "jardin", "m", "정원 -에서"),
    Place("in the forest", "dans", "forêt", "f", "숲 -에서"),
    Place("in the castle", "dans", "château", "m", "성 -에서"),
    Place("at the market", "à", "marché", "m", "시장 -에서"),
    Place("at the station", "à", "gare", "f", "역 -에서"),
    Place("at the hotel", "à", "hôtel", "m", "호텔 -에서"),
    Place("at the school", "à", "école", "f", "학교 -에서"),
    Place("near the lake", "près de", "lac", "m", "호수 근처 -에서"),
    Place("near the river", "près de", "rivière", "f", "강 근처 -에서"),
    Place("near the castle", "près de", "château", "m", "성 근처 -에서"),
    Place("near the school", "près de", "école", "f", "학교 근처 -에서"),
    Place("near the houses", "près de", "maisons", "p", "집 -들 근처 -에서"),
)


@cache
def nouns(kinds: str) -> tuple[Noun, ...]:
    """All nouns whose kind is in ``kinds``, a space-separated list."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds.split())
