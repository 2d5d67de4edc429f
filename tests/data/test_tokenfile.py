import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tfmr.data import tokenfile
from tfmr.data.batches import Batches
from tfmr.data.tokenfile import TokenFile, TokenWriter, write_token_file
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError

TEXTS = [
    ("the owl sleeps .", "le hibou dort ."),
    ("the old owl sleeps .", "le vieux hibou dort ."),
    ("owls sleep .", "les hiboux dorment ."),
]
BPE = Tokenizer.train_bpe(itertools.chain.from_iterable(TEXTS), 300)

sentences = st.lists(st.integers(4, 99), min_size=1, max_size=12)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)


def add(writer: TokenWriter, pairs: list[tuple[list[int], list[int]]]) -> None:
    flat = [sentence for pair in pairs for sentence in pair]
    lengths = np.array([len(sentence) for sentence in flat], np.int32).reshape(-1, 2)
    writer.add(np.array([id for sentence in flat for id in sentence], np.int64), lengths)


def token_file(path: Path, pairs: list[tuple[list[int], list[int]]], size: int = 100) -> TokenFile:
    with TokenWriter(path, "abc", size) as writer:
        add(writer, pairs)
    return TokenFile(path)


def as_lists(pairs) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in pairs]


def refused(call, *words):
    with pytest.raises(TfmrError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


# ---------------------------------------------------------------- what is written is read


@settings(deadline=None, max_examples=20)
@given(corpora)
def test_a_token_file_is_the_list_of_its_pairs(tmp_path_factory, pairs):
    file = token_file(tmp_path_factory.mktemp("tokens") / "a", pairs)
    assert as_lists(file) == pairs
    assert len(file) == len(pairs)
    assert as_lists(file[1:-1]) == pairs[1:-1]
    assert as_lists([file[-1]]) == [pairs[-1]]
    assert file.lengths().tolist() == [[len(source), len(target)] for source, target in pairs]
    assert file.tokens == (sum(len(s) for s, _ in pairs), sum(len(t) for _, t in pairs))


@settings(deadline=None, max_examples=20)
@given(corpora, st.integers(0, 3))
def test_the_same_pairs_give_the_same_batches(tmp_path_factory, pairs, k):
    pairs = [*pairs, ([5], [6])]  # never too long
    file = token_file(tmp_path_factory.mktemp("tokens") / "a", pairs)
    mapped, listed = (Batches(given, 30, seed=5, max_length=11) for given in (file, pairs))
    for ours, theirs in zip(mapped.epoch(k), listed.epoch(k), strict=True):
        assert torch.equal(ours.source, theirs.source)
        assert torch.equal(ours.target_in, theirs.target_in)
        assert torch.equal(ours.target_out, theirs.target_out)
    assert mapped.dropped == listed.dropped
    assert mapped.padding_share() == listed.padding_share()


def test_texts_become_the_ids_of_the_tokenizer(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenfile, "CHUNK", 2)
    written: list[int] = []
    file = write_token_file(tmp_path / "a", iter(TEXTS), BPE, on_written=written.append)
    assert as_lists(file) == [(BPE.encode(source), BPE.encode(target)) for source, target in TEXTS]
    assert written == [2, 1]
    assert file.vocabulary == BPE.fingerprint


def test_writing_asks_for_no_more_texts_than_it_encodes(tmp_path):
    asked = 0

    def stream():
        nonlocal asked
        for pair in itertools.islice(itertools.cycle(TEXTS), 3 * tokenfile.CHUNK):
            asked += 1
            yield pair

    ahead: list[int] = []
    done = 0

    def on_written(pairs: int) -> None:
        nonlocal done
        done += pairs
        ahead.append(asked - done)

    write_token_file(tmp_path / "a", stream(), BPE, on_written)
    assert ahead == [0, 0, 0]


def test_the_pieces_leave_no_trace(tmp_path):
    pairs = [([5, 6], [7]), ([8], [9, 10, 11]), ([12], [13])]
    whole = token_file(tmp_path / "whole", pairs)
    with TokenWriter(tmp_path / "pieces", "abc", 100) as writer:
        add(writer, pairs[:1])
        add(writer, [])
        add(writer, pairs[1:])
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()
    other = token_file(tmp_path / "other", [([5], [6, 7]), *pairs[1:]])
    assert whole.fingerprint == TokenFile(tmp_path / "pieces").fingerprint != other.fingerprint


@pytest.mark.parametrize(("size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_an_id_takes_as_many_bytes_as_the_vocabulary_needs(tmp_path, size, dtype):
    file = token_file(tmp_path / "a", [([size - 1], [4, size - 1])], size)
    assert file[0][1].dtype == dtype
    assert as_lists(file) == [([size - 1], [4, size - 1])]


def test_it_is_a_safetensors_file(tmp_path):
    token_file(tmp_path / "a", [([5, 6], [7]), ([8], [9, 10])])
    content = load_file(tmp_path / "a")
    assert content["ids"].tolist() == [5, 6, 7, 8, 9, 10, 0, 0], "filled up to eight bytes"
    assert content["offsets"].tolist() == [0, 2, 3, 4, 6]


def test_its_ids_cannot_be_changed(tmp_path):
    source, _ = token_file(tmp_path / "a", [([5, 6], [7])])[0]
    with pytest.raises(ValueError, match="read-only"):
        source[0] = 9


def test_a_number_out_of_range(tmp_path):
    file = token_file(tmp_path / "a", [([5, 6], [7])])
    for row in (1, -2):
        with pytest.raises(IndexError, match="holds 1 pairs"):
            file[row]


# ---------------------------------------------------------------- a file is whole or is not there


def test_what_fails_leaves_nothing_and_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "a"

    def broken():
        yield from TEXTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_token_file(path, broken(), BPE)
    assert list(tmp_path.iterdir()) == []
    token_file(path, [([5], [6])])
    with pytest.raises(KeyboardInterrupt):
        write_token_file(path, broken(), BPE)
    assert as_lists(TokenFile(path)) == [([5], [6])]
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_writing_leaves_no_file_and_the_next_one_clears_up(tmp_path):
    path = tmp_path / "a"
    program = (
        "import itertools, sys\n"
        "from tfmr.data.tokenfile import write_token_file\n"
        "from tfmr.data.tokenizer import Tokenizer\n"
        "words = Tokenizer.words(['a b'])\n"
        "pairs = itertools.repeat(('a b', 'b'))\n"
        "write_token_file(sys.argv[1], pairs, words, lambda n: print(n, flush=True))\n"
    )
    writing = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    with writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == f"{tokenfile.CHUNK}\n"
        writing.send_signal(signal.SIGKILL)
    assert not path.exists()
    assert [left.suffix for left in tmp_path.iterdir()] == [".writing"]
    token_file(path, [([5], [6])])
    assert list(tmp_path.iterdir()) == [path]


def test_two_that_write_to_one_place_do_not_mix(tmp_path):
    path = tmp_path / "a"

    def first():
        with TokenWriter(path, "abc", 100) as writer:
            add(writer, [([5], [6])])
            token_file(path, [([7], [8])])

    refused(first, str(path), "no other process")
    assert as_lists(TokenFile(path)) == [([7], [8])]


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    program = (
        "import resource, sys, numpy as np\n"
        "from tfmr.data.tokenfile import TokenWriter\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with TokenWriter(sys.argv[1], 'abc', 100) as writer:\n"
        "    for _ in range(100):\n"
        "        writer.add(np.full(2000, 5), np.full((1, 2), 1000))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "TfmrError: cannot write the token file" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    refused(lambda: token_file(tmp_path / "file" / "a", [([5], [6])]), "cannot write", "file")


# ---------------------------------------------------------------- errors that teach


def test_no_file(tmp_path):
    refused(lambda: TokenFile(tmp_path / "a"), "no token file at", "write_token_file")
    refused(lambda: TokenFile(tmp_path), "no token file at")


@pytest.mark.parametrize("length", [0, 5, 500, -1])
def test_a_file_that_was_cut_off(tmp_path, length):
    path = tmp_path / "a"
    token_file(path, [([5], [6])])
    path.write_bytes(path.read_bytes()[:length])
    refused(lambda: TokenFile(path), str(path), "not a whole", "write it anew")


def test_a_file_that_grew(tmp_path):
    path = tmp_path / "a"
    token_file(path, [([5], [6])])
    path.write_bytes(path.read_bytes() + b"\0")
    refused(lambda: TokenFile(path), "not a whole", "changed")


def test_another_format(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "a", {"format": "something else"})
    refused(lambda: TokenFile(tmp_path / "a"), "'tfmr tokens 1'", "'something else'")
    save_file({"a": np.zeros(3)}, tmp_path / "a")
    refused(lambda: TokenFile(tmp_path / "a"), "'tfmr tokens 1'", "None")
    (tmp_path / "a").write_text(json.dumps({"format": "tfmr tokenizer 1"}))
    refused(lambda: TokenFile(tmp_path / "a"), "not a whole")


def test_another_vocabulary(tmp_path):
    write_token_file(tmp_path / "a", TEXTS, BPE)
    assert len(TokenFile(tmp_path / "a", BPE.fingerprint)) == 3
    other = Tokenizer.train_bpe(["the owl"], 300).fingerprint
    refused(lambda: TokenFile(tmp_path / "a", other), BPE.fingerprint, other, "anew")


def test_an_empty_sentence_is_refused_with_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenfile, "CHUNK", 2)
    words = Tokenizer.words(["a b"])
    pairs = [("a", "b"), ("a", "b"), ("a", "b"), ("a", " ")]
    refused(lambda: write_token_file(tmp_path / "a", pairs, words), "target of pair 4", "empty")
    refused(lambda: write_token_file(tmp_path / "a", [("", "b")], words), "source of pair 1")
    assert list(tmp_path.iterdir()) == []


def test_no_pairs_are_refused(tmp_path):
    refused(lambda: write_token_file(tmp_path / "a", [], BPE), "got none", str(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []


def test_ids_that_do_not_fit_are_refused(tmp_path):
    def written(ids, lengths):
        with TokenWriter(tmp_path / "a", "abc", 100) as writer:
            writer.add(np.array(ids), np.array(lengths))

    refused(lambda: written([5, 100], [[1, 1]]), "0 to 99", "[100]", "another vocabulary")
    refused(lambda: written([5, -1], [[1, 1]]), "[-1]")
    refused(lambda: written([5, 6], [[1, 2]]), "add up to 3", "2 ids")
    assert list(tmp_path.iterdir()) == []
