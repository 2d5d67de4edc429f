import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import rejects
from tfmr.data.text import canonical
from tfmr.data.tokenizer import BOS, EOS, FORMAT, PAD, UNK, Tokenizer

TEXTS = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, White males are outside near many bushes.",
    "늑대가 작은 사과를 먹어요. 늑대는 사과를 좋아해요.",
]
BPE = Tokenizer.train_bpe(TEXTS, 330)
FORMED = Tokenizer.words(["zwei tiere sind im freien"], form="pocket")
WORDS = Tokenizer.words(["the owl sleeps .", "le hibou dort ."])


@settings(max_examples=100)
@given(st.text())
def test_bpe_round_trip_is_the_canonical_spelling(text):
    assert BPE.decode(BPE.encode(text)) == canonical(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "  two  spaces ", "▁", "Ġ", "\n\t", "한글과 ㄱ", "e\u0301", "<pad> <unk></s>"),
        "\ufffd",
    ],
)
def test_bpe_round_trip_of_edge_cases(text):
    assert BPE.decode(BPE.encode(text)) == canonical(text)


def test_bpe_never_returns_a_special_id():
    for text in [*TEXTS, "<pad><bos><eos><unk>", "שלום 🦉"]:
        assert min(BPE.encode(text)) > UNK


def test_bpe_compresses_what_it_was_trained_on():
    assert len(BPE.encode(TEXTS[0])) < len(TEXTS[0].encode()) / 1.5


def test_vocabulary_has_the_requested_size():
    assert BPE.vocab_size == 330
    assert len(BPE.tokens(range(330))) == 330
    assert BPE.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<bos>", "<eos>", "<unk>"]


def test_vocabulary_is_smaller_when_no_pairs_are_left_to_merge():
    assert Tokenizer.train_bpe(["ab"], 5000).vocab_size == 260 + 2


def test_bpe_is_trained_on_a_stream_in_bounded_memory():
    texts = (f"{text} {number % 100}" for number in range(20_000) for text in TEXTS[:1])
    tracemalloc.start()
    Tokenizer.train_bpe(texts, 300)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000 * len(TEXTS[0]) / 4


def test_the_first_word_is_encoded_like_the_others():
    ids = BPE.encode("young young")
    assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]


def test_encode_batch_equals_encode():
    for tokenizer in (BPE, WORDS):
        assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]


def test_decode_skips_pad_bos_and_eos():
    ids = [BOS, *BPE.encode(TEXTS[2]), EOS, PAD, PAD]
    assert BPE.decode(ids) == TEXTS[2]
    assert WORDS.decode([BOS, *WORDS.encode("the owl"), EOS, PAD]) == "the owl"


def test_tokens_are_readable():
    assert "".join(BPE.tokens(BPE.encode("two Männer"))) == "▁two▁Männer"
    snowman = BPE.tokens(BPE.encode("☃"))
    assert snowman == ["▁", "<e2>", "<98>", "<83>"]


def test_words_are_sorted_and_unknown_words_are_unk():
    assert WORDS.vocabulary == [".", "dort", "hibou", "le", "owl", "sleeps", "the"]
    assert WORDS.encode("the owl sings .") == [10, 8, UNK, 4]
    assert WORDS.decode(WORDS.encode("the owl sings .")) == "the owl <unk> ."


def test_spellings_of_special_tokens_are_not_special():
    tokenizer = Tokenizer.words(["a <unk> b"])
    assert tokenizer.encode("<pad> <bos> <eos> <unk> a") == [UNK, UNK, UNK, UNK, 4]


def test_words_do_not_depend_on_the_normal_form():
    composed, decomposed = "ch\u00e2teau", "cha\u0302teau"
    assert Tokenizer.words([composed]).encode(decomposed) == [4]


@pytest.mark.parametrize("convert", [str, Path])
@pytest.mark.parametrize("tokenizer", [BPE, WORDS, FORMED], ids=["bpe", "words", "form"])
def test_save_and_load(tokenizer, tmp_path, convert):
    path = convert(tmp_path / "tokenizer.json")
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert (loaded.fingerprint, loaded.form) == (tokenizer.fingerprint, tokenizer.form)
    assert loaded.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
    assert Tokenizer.from_json(tokenizer.to_json()).to_json() == tokenizer.to_json()


def test_fingerprints_of_different_vocabularies_differ():
    assert len(BPE.fingerprint) == 12
    assert int(BPE.fingerprint, 16) > 0
    prints = {
        BPE.fingerprint,
        WORDS.fingerprint,
        Tokenizer.train_bpe(TEXTS, 329).fingerprint,
        Tokenizer.words(["the owl"]).fingerprint,
        Tokenizer("bpe", BPE.vocabulary, BPE.merges[:-1]).fingerprint,
    }
    assert len(prints) == 5
    assert Tokenizer("bpe", BPE.vocabulary, BPE.merges, "pocket").fingerprint == BPE.fingerprint


def test_training_does_not_depend_on_the_hash_seed():
    program = (
        "import json, sys; from tfmr.data.tokenizer import Tokenizer; "
        "print(Tokenizer.train_bpe(json.load(sys.stdin), 330).fingerprint)"
    )
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = os.environ | {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(TEXTS),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == BPE.fingerprint


def test_a_vocabulary_that_is_too_small_is_rejected():
    rejects(lambda: Tokenizer.train_bpe(TEXTS, 259), "at least 260", "259")


def test_an_id_outside_the_vocabulary_is_rejected():
    rejects(lambda: BPE.decode([330]), "0 to 329", "330", "another vocabulary")
    rejects(lambda: WORDS.tokens([-1]), "-1")


WORDS_FILE = {"format": FORMAT, "kind": "words", "vocabulary": ["a"], "merges": []}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["in JSON"]),
        ("[1, 2]", ["tfmr tokenizer 1", "list"]),
        ("[" * 100_000, ["in JSON", "recursion"]),
        ('{"model": {"type": "BPE"}}', ["tfmr tokenizer 1", "None", "Tokenizer.save"]),
        ({"kind": None}, ["damaged", "kind"]),
        ({"vocabulary": "abc"}, ["damaged", "list"]),
        ({"vocabulary": ["a", "a"]}, ["damaged", "duplicates"]),
        ({"form": "moses"}, ["damaged", "form", "plain", "moses"]),
        ({"kind": "bpe", "merges": [["a", "b"]]}, ["damaged", "save it again"]),
    ],
)
def test_an_invalid_file_is_rejected(content, words, tmp_path):
    path = tmp_path / "tokenizer.json"
    text = content if isinstance(content, str) else json.dumps(WORDS_FILE | content)
    path.write_text(text, encoding="utf-8")
    rejects(lambda: Tokenizer.load(path), "tokenizer.json", *words)


def test_an_unreadable_file_is_rejected(tmp_path):
    rejects(
        lambda: Tokenizer.load(tmp_path / "nothing.json"), "nothing.json", "expected a tokenizer"
    )
    rejects(lambda: Tokenizer.load(tmp_path), "expected a tokenizer")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    rejects(lambda: Tokenizer.load(tmp_path / "latin"), "latin", "expected a tokenizer")
