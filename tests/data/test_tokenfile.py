import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import rejects
from tfmr.data import tokenfile
from tfmr.data.batches import Batches
from tfmr.data.tokenfile import TokenFile, write_ids, write_token_file
from tfmr.data.tokenizer import Tokenizer

TEXTS = [
    ("the owl sleeps .", "le hibou dort ."),
    ("the old owl sleeps .", "le vieux hibou dort ."),
    ("owls sleep .", "les hiboux dorment ."),
]
BPE = Tokenizer.train_bpe(itertools.chain.from_iterable(TEXTS), 300)

sentences = st.lists(st.integers(4, 99), min_size=1, max_size=12)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)


def chunk(pairs: list[tuple[list[int], list[int]]]) -> tokenfile.Chunk:
    flat = [sentence for pair in pairs for sentence in pair]
    lengths = np.array([len(sentence) for sentence in flat], np.int32).reshape(-1, 2)
    return np.array([id for sentence in flat for id in sentence], np.int64), lengths


def token_file(
    path: Path, *chunks: list[tuple[list[int], list[int]]], size: int = 100
) -> TokenFile:
    return write_ids(path, map(chunk, chunks), "abc", size)


def as_lists(pairs) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in pairs]


# ---------------------------------------------------------------- round trip


@settings(max_examples=20)
@given(corpora)
def test_a_token_file_has_the_pairs_that_were_written(tmp_path_factory, pairs):
    file = token_file(tmp_path_factory.mktemp("tokens") / "a", pairs)
    assert as_lists(file) == pairs
    assert len(file) == len(pairs)
    assert as_lists(file[1:-1]) == pairs[1:-1]
    assert as_lists([file[-1]]) == [pairs[-1]]
    assert file.lengths().tolist() == [[len(source), len(target)] for source, target in pairs]
    assert file.tokens == (sum(len(s) for s, _ in pairs), sum(len(t) for _, t in pairs))


@settings(max_examples=20)
@given(corpora, st.integers(0, 3))
def test_a_token_file_and_a_list_give_the_same_batches(tmp_path_factory, pairs, k):
    pairs = [*pairs, ([5], [6])]  # never too long
    file = token_file(tmp_path_factory.mktemp("tokens") / "a", pairs)
    mapped, listed = (Batches(given, 30, seed=5, max_length=11) for given in (file, pairs))
    for ours, theirs in zip(mapped.epoch(k), listed.epoch(k), strict=True):
        assert torch.equal(ours.source, theirs.source)
        assert torch.equal(ours.target_in, theirs.target_in)
        assert torch.equal(ours.target_out, theirs.target_out)
    assert mapped.dropped == listed.dropped
    assert mapped.padding_share() == listed.padding_share()


@pytest.mark.parametrize("convert", [str, Path])
def test_texts_are_encoded_by_the_tokenizer(tmp_path, monkeypatch, convert):
    monkeypatch.setattr(tokenfile, "CHUNK", 2)
    written: list[int] = []
    path = convert(tmp_path / "new" / "a")
    write_token_file(path, iter(TEXTS), BPE, on_written=written.append)
    file = TokenFile(path, BPE.fingerprint)
    assert as_lists(file) == [(BPE.encode(source), BPE.encode(target)) for source, target in TEXTS]
    assert written == [2, 1]
    assert file.vocabulary == BPE.fingerprint


def test_a_stream_is_read_in_chunks(tmp_path):
    read = written = 0
    ahead: list[int] = []

    def stream():
        nonlocal read
        for pair in itertools.islice(itertools.cycle(TEXTS), 3 * tokenfile.CHUNK):
            read += 1
            yield pair

    def on_written(pairs: int) -> None:
        nonlocal written
        written += pairs
        ahead.append(read - written)

    write_token_file(tmp_path / "a", stream(), BPE, on_written)
    assert ahead == [0, 0, 0]


def test_the_files_do_not_depend_on_the_chunks(tmp_path):
    pairs = [([5, 6], [7]), ([8], [9, 10, 11]), ([12], [13])]
    token_file(tmp_path / "whole", pairs)
    token_file(tmp_path / "chunks", pairs[:1], [], pairs[1:])
    for name in ("ids.npy", "offsets.npy", "tokens.json"):
        content = [(tmp_path / path / name).read_bytes() for path in ("whole", "chunks")]
        assert content[0] == content[1]


@pytest.mark.parametrize(("size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_the_size_of_an_id_depends_on_the_vocabulary(tmp_path, size, dtype):
    file = token_file(tmp_path / "a", [([size - 1], [4, size - 1])], size=size)
    assert file[0][1].dtype == dtype
    assert as_lists(file) == [([size - 1], [4, size - 1])]


def test_the_files_are_npy_files(tmp_path):
    token_file(tmp_path / "a", [([5, 6], [7]), ([8], [9, 10])])
    assert np.load(tmp_path / "a" / "ids.npy").tolist() == [5, 6, 7, 8, 9, 10]
    assert np.load(tmp_path / "a" / "offsets.npy").tolist() == [0, 2, 3, 4, 6]


def test_ids_are_read_only(tmp_path):
    source, _ = token_file(tmp_path / "a", [([5, 6], [7])])[0]
    with pytest.raises(ValueError, match="read-only"):
        source[0] = 9


def test_an_index_out_of_range(tmp_path):
    file = token_file(tmp_path / "a", [([5, 6], [7])])
    for row in (1, -2):
        with pytest.raises(IndexError, match="has 1 pairs"):
            file[row]


# ---------------------------------------------------------------- a file is complete or absent


def test_a_failed_write_leaves_nothing_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "a"

    def interrupted():
        yield from TEXTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_token_file(path, interrupted(), BPE)
    assert list(tmp_path.iterdir()) == []
    token_file(path, [([5], [6])])
    with pytest.raises(KeyboardInterrupt):
        write_token_file(path, interrupted(), BPE)
    assert as_lists(TokenFile(path)) == [([5], [6])]
    assert as_lists(token_file(path, [([7], [8])])) == [([7], [8])], "replaces the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_the_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    token_file(tmp_path / "a", [([5], [6])])
    os.umask(before)
    modes = {(tmp_path / "a").stat().st_mode & 0o777}
    modes |= {file.stat().st_mode & 0o777 for file in (tmp_path / "a").iterdir()}
    assert modes == {0o750, 0o640}


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
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
    assert [left.suffix for left in tmp_path.iterdir()] == [".writing"]
    token_file(path, [([5], [6])])
    assert list(tmp_path.iterdir()) == [path]


def test_concurrent_writers_of_one_path_do_not_mix(tmp_path):
    path = tmp_path / "a"

    def chunks():
        yield chunk([([5], [6])])
        token_file(path, [([7], [8])])

    write_ids(path, chunks(), "abc", 100)
    assert as_lists(TokenFile(path)) == [([5], [6])], "the file of the writer that ended last"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    program = (
        "import resource, sys, numpy as np\n"
        "from tfmr.data.tokenfile import write_ids\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "chunks = [(np.full(2000, 5), np.full((1, 2), 1000))] * 100\n"
        "write_ids(sys.argv[1], chunks, 'abc', 100)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "TfmrError: cannot write the token file" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    rejects(lambda: token_file(tmp_path / "file" / "a", [([5], [6])]), "cannot write", "file")


# ---------------------------------------------------------------- error messages


def test_a_missing_token_file(tmp_path):
    rejects(lambda: TokenFile(tmp_path / "a"), "token file at", "found none", "write_token_file")
    rejects(lambda: TokenFile(tmp_path), "found none")


@pytest.mark.parametrize("name", ["ids.npy", "offsets.npy", "tokens.json"])
@pytest.mark.parametrize("length", [0, 5, 130, -2, None])
def test_a_damaged_file(tmp_path, name, length):
    token_file(tmp_path / "a", [([5], [6])])
    file = tmp_path / "a" / name
    content = file.read_bytes()
    file.write_bytes(
        content + b"\0" if length is None else content[: min(length, len(content) - 2)]
    )
    rejects(lambda: TokenFile(tmp_path / "a"), str(tmp_path / "a"), "damaged", "write it again")


def test_files_of_different_corpora(tmp_path):
    token_file(tmp_path / "a", [([5], [6])])
    token_file(tmp_path / "b", [([5, 7], [6])])
    for name in ("ids.npy", "tokens.json"):
        shutil.copytree(tmp_path / "a", tmp_path / name)
        shutil.copy(tmp_path / "b" / name, tmp_path / name)
        rejects(lambda path=tmp_path / name: TokenFile(path), "damaged")


@pytest.mark.parametrize("header", [{"format": "something else"}, {}, [1]])
def test_another_format(tmp_path, header):
    token_file(tmp_path / "a", [([5], [6])])
    (tmp_path / "a" / "tokens.json").write_text(json.dumps(header))
    rejects(lambda: TokenFile(tmp_path / "a"), "'tfmr-tokens-2'", "got")


def test_another_vocabulary(tmp_path):
    write_token_file(tmp_path / "a", TEXTS, BPE)
    assert len(TokenFile(tmp_path / "a", BPE.fingerprint)) == 3
    other = Tokenizer.train_bpe(["the owl"], 300).fingerprint
    rejects(lambda: TokenFile(tmp_path / "a", other), BPE.fingerprint, other, "again")


def test_an_empty_sentence_is_rejected_with_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenfile, "CHUNK", 2)
    words = Tokenizer.words(["a b"])
    pairs = [("a", "b"), ("a", "b"), ("a", "b"), ("a", " ")]
    rejects(lambda: write_token_file(tmp_path / "a", pairs, words), "target of pair 4", "empty")
    rejects(lambda: write_token_file(tmp_path / "a", [("", "b")], words), "source of pair 1")
    assert list(tmp_path.iterdir()) == []


def test_no_pairs_are_rejected(tmp_path):
    rejects(lambda: write_token_file(tmp_path / "a", [], BPE), "got none", str(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []


def test_invalid_ids_are_rejected(tmp_path):
    def write(ids, lengths):
        write_ids(tmp_path / "a", [(np.array(ids), np.array(lengths))], "abc", 100)

    rejects(lambda: write([5, 100], [[1, 1]]), "0 to 99", "got 100", "another vocabulary")
    rejects(lambda: write([5, -1], [[1, 1]]), "got -1")
    rejects(lambda: write([5, 6], [[1, 2]]), "add up to, 3", "got 2")
    assert list(tmp_path.iterdir()) == []
