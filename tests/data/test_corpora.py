import gzip
import hashlib
import http.server
import os
import threading
from pathlib import Path

import pytest

from tfmr.data import corpora
from tfmr.data.corpora import FILES, RemoteFile, load, load_files, stream_files, tatoeba_rows
from tfmr.data.corpus import assign_split
from tfmr.errors import TfmrError

TEXTS = {
    f"multi30k/{part}.{language}": "".join(f"{part} {language} {i}\n" for i in range(n))
    for part, n in (("train", 30), ("val", 5), ("test_2016_flickr", 7))
    for language in ("de", "en", "fr")
} | {
    "tatoeba-kor-eng/kor-eng.tsv": "".join(
        f"{english}\t{korean}\tCC-BY 2.0 (France) #{i}\n"
        for i, (english, korean) in enumerate(
            [(f"Number {k}{mark}", f"숫자 {k} {mark}") for k in range(40) for mark in ".!."]
        )
    )
}
"""Small texts with the names of the published files."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, name: str, text: str, zipped: bool) -> Path:
    path = folder / (f"{name}.gz" if zipped else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty download cache, and no TFMR_DATA."""
    monkeypatch.delenv("TFMR_DATA", raising=False)
    monkeypatch.setattr(corpora.pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "tfmr"


@pytest.fixture
def published(tmp_path, cache, monkeypatch):
    """A web server that has the small texts at the addresses of all files; its folder."""
    folder = tmp_path / "published"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, text in TEXTS.items():
        address = f"http://127.0.0.1:{server.server_port}/{name}.gz"
        monkeypatch.setitem(FILES, name, RemoteFile(address, digest(text)))
        write(folder, name, text, zipped=True)
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path, cache, monkeypatch):
    """A TFMR_DATA folder with the small texts, some gzipped; no download is possible."""
    folder = tmp_path / "local"
    for at, (name, text) in enumerate(TEXTS.items()):
        write(folder, name, text, zipped=at % 2 == 0)
        monkeypatch.setitem(FILES, name, RemoteFile("http://127.0.0.1:9/nothing", digest(text)))
    monkeypatch.setenv("TFMR_DATA", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


def rejects(call, *words):
    with pytest.raises(TfmrError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


# ---------------------------------------------------------------- the corpora by name


@pytest.mark.parametrize("direction", ["de-en", "en-de", "de-fr", "fr-de", "en-fr", "fr-en"])
def test_multi30k_from_the_folder_in_every_direction(folder, direction):
    corpus = load("multi30k", direction)
    source, target = direction.split("-")
    assert (corpus.name, corpus.source, corpus.target) == ("multi30k", source, target)
    assert corpus.train[3] == (f"train {source} 3", f"train {target} 3")
    assert corpus.valid[0] == (f"val {source} 0", f"val {target} 0")
    assert corpus.test[6] == (f"test_2016_flickr {source} 6", f"test_2016_flickr {target} 6")
    assert [len(split) for split in (corpus.train, corpus.valid, corpus.test)] == [30, 5, 7]
    assert "non-commercial" in corpus.licence
    assert "\n" not in corpus.licence


def test_no_english_sentence_of_tatoeba_is_in_two_sets(folder):
    corpus = load("tatoeba", "ko-en")
    parts = [
        {english.rstrip(".!") for _, english in part}
        for part in (corpus.train, corpus.valid, corpus.test)
    ]
    assert [len(part) for part in parts] == [34, 2, 4]
    assert len(set.union(*parts)) == 40
    assert len(corpus.train) == 34 * 3
    assert "CC BY 2.0" in corpus.licence
    turned = load("tatoeba", "en-ko")
    assert [pair[::-1] for pair in corpus.test] == turned.test
    assert turned.test[0][0].startswith("Number")


def test_tatoeba_rows_have_an_attribution(folder):
    rows = tatoeba_rows()
    assert rows[1] == ("Number 0!", "숫자 0 !", "CC-BY 2.0 (France) #1")
    assert len(rows) == 120


def test_pocket_needs_no_file(cache):
    corpus = load("pocket", "en-ko")
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (8000, 500, 500)
    assert not cache.exists()


def test_unknown_names_and_directions_are_rejected(cache):
    rejects(lambda: load("wmt14", "en-de"), "pocket, multi30k, tatoeba", "'wmt14'")
    rejects(lambda: load("multi30k", "de-ko"), "'multi30k'", "de-en", "'de-ko'")
    rejects(lambda: load("multi30k", "de-de"), "'de-de'")
    rejects(lambda: load("tatoeba", "korean"), "en-ko, ko-en", "'korean'")


def test_published_files_are_pinned():
    assert len(FILES) == 10
    for name, file in FILES.items():
        assert file.address.startswith("https://raw.githubusercontent.com/")
        assert len(file.address.split("/")[5]) == 40, "a commit, which cannot change"
        assert file.address.endswith(f"{Path(name).name}.gz") or name.startswith("tatoeba")
        assert len(file.sha256) == 64
    assert len({file.sha256 for file in FILES.values()}) == len(FILES)


# ---------------------------------------------------------------- TFMR_DATA


def test_a_changed_file_in_the_folder_is_rejected(folder):
    path = next(folder.glob("multi30k/val.de*"))
    changed = TEXTS["multi30k/val.de"].replace("val de 4", "val de four").encode()
    path.write_bytes(gzip.compress(changed) if path.suffix == ".gz" else changed)
    rejects(
        lambda: load("multi30k", "de-en"),
        str(path),
        digest(TEXTS["multi30k/val.de"])[:12],
        hashlib.sha256(changed).hexdigest()[:12],
        "remove it",
    )


def test_a_damaged_gzip_in_the_folder_is_rejected(folder):
    for path in folder.glob("multi30k/train.de*"):
        path.unlink()
    whole = gzip.compress(TEXTS["multi30k/train.de"].encode())
    (folder / "multi30k/train.de.gz").write_bytes(whole[: len(whole) // 2])
    rejects(lambda: load("multi30k", "de-en"), "train.de.gz", "cannot read")


def test_a_missing_folder_is_rejected(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("TFMR_DATA", str(tmp_path / "nowhere"))
    rejects(lambda: load("multi30k", "de-en"), "TFMR_DATA", "nowhere", "unset")


def test_a_corpus_missing_in_the_folder_is_downloaded(published, monkeypatch, tmp_path):
    monkeypatch.setenv("TFMR_DATA", str(tmp_path))
    assert len(load("multi30k", "de-en").train) == 30


# ---------------------------------------------------------------- the network


def test_a_download_is_cached(published, cache):
    first = load("multi30k", "de-en")
    assert len(first.train) == 30
    for path in published.glob("multi30k/*"):
        path.unlink()
    assert load("multi30k", "de-en") == first
    kept = cache / "multi30k" / "train.de"
    assert kept.read_text(encoding="utf-8") == TEXTS["multi30k/train.de"]


def test_a_plain_file_is_downloaded(published):
    name = "tatoeba-kor-eng/kor-eng.tsv"
    write(published, name, TEXTS[name], zipped=False).rename(published / f"{name}.gz")
    assert len(tatoeba_rows()) == 120


def test_a_damaged_file_in_the_cache_is_downloaded_again(published, cache):
    load("multi30k", "de-en")
    (cache / "multi30k" / "val.en").write_text("damaged\n", encoding="utf-8")
    assert load("multi30k", "de-en").valid[0] == ("val de 0", "val en 0")


@pytest.mark.parametrize("damage", ["other text", "half a gzip", "not gzipped", "empty"])
def test_a_damaged_download_is_rejected_and_not_cached(published, cache, damage):
    path = published / "multi30k" / "val.en.gz"
    whole = path.read_bytes()
    content = {
        "other text": gzip.compress(b"another text\n"),
        "half a gzip": whole[: len(whole) // 2],
        "not gzipped": b"<html>busy</html>",
        "empty": b"",
    }
    path.write_bytes(content[damage])
    rejects(lambda: load("multi30k", "de-en"), "multi30k/val.en", "TFMR_DATA", "try again")
    assert not (cache / "multi30k" / "val.en").exists()
    assert {kept.name for kept in cache.rglob("*") if kept.is_file()} <= {
        "train.de", "train.en", "val.de"
    }  # fmt: skip
    path.write_bytes(whole)
    assert len(load("multi30k", "de-en").valid) == 5


def test_the_error_for_a_missing_file_states_how_to_get_it(published, cache, monkeypatch):
    for path in published.glob("multi30k/*"):
        path.unlink()
    rejects(
        lambda: load("multi30k", "de-en"),
        "TFMR_DATA is not set",
        "multi30k/train.de.gz",
        "set TFMR_DATA to a folder",
        "404",
    )
    monkeypatch.setenv("TFMR_DATA", str(published))
    rejects(lambda: load("multi30k", "de-en"), f"not in TFMR_DATA={published}")
    assert not list(cache.rglob("train*"))


def test_a_failed_connection_is_reported(cache, monkeypatch):
    name = "multi30k/train.de"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(FILES, name, RemoteFile("http://127.0.0.1:9/train.de.gz", "0" * 64))
    rejects(lambda: load("multi30k", "de-en"), "ConnectionError", "connect to the network")


# ---------------------------------------------------------------- the user's own files


@pytest.fixture
def files(tmp_path):
    """Write two files and load them."""

    def load_texts(source: bytes, target: bytes):
        (tmp_path / "a.de").write_bytes(source)
        (tmp_path / "a.en").write_bytes(target)
        return load_files(tmp_path / "a.de", tmp_path / "a.en", "de", "en")

    return load_texts


def numbered(word: str, n: int) -> bytes:
    return "".join(f"{word} {i}\n" for i in range(n)).encode()


def test_own_files_are_split_by_source_sentence(files):
    corpus = files(numbered("eins", 100) * 2, numbered("one", 100) + numbered("un", 100))
    parts = [corpus.train, corpus.valid, corpus.test]
    assert [len(part) for part in parts] == [180, 10, 10]
    sources = [{source for source, _ in part} for part in parts]
    assert [len(part) for part in sources] == [90, 5, 5]
    assert len(set.union(*sources)) == 100
    assert (corpus.name, corpus.source, corpus.target) == ("your files", "de", "en")
    assert all(source.split()[1] == target.split()[1] for part in parts for source, target in part)
    assert corpus == files(numbered("eins", 100) * 2, numbered("one", 100) + numbered("un", 100))


def test_three_sentences_suffice(files):
    corpus = files(b"a\nb\nc", b"x\ny\nz\n")
    assert [len(split) for split in (corpus.train, corpus.valid, corpus.test)] == [1, 1, 1]


def test_windows_line_endings_and_rare_separators(files):
    corpus = files("\ufeffa\r\nb\u2028b\r\nc\x0cc\r\n".encode(), b"x\r\ny\r\nz\r\n")
    pairs = sorted(corpus.train + corpus.valid + corpus.test)
    assert pairs == [("a", "x"), ("b b", "y"), ("c c", "z")]


def test_gzipped_files_are_read(files):
    assert len(files(gzip.compress(numbered("a", 20)), numbered("b", 20)).train) == 18


def test_different_numbers_of_lines_are_rejected_with_both_counts(files):
    rejects(lambda: files(numbered("a", 7), numbered("b", 9)), "a.de has 7", "a.en has 9", "align")


def test_an_empty_file_is_rejected(files):
    rejects(lambda: files(b"", numbered("b", 3)), "a.de is empty")
    rejects(lambda: files(numbered("b", 3), b"\n"), "a.en is empty")


def test_an_empty_line_is_rejected_with_its_number(files):
    rejects(lambda: files(b"a\n \nc\n", numbered("b", 3)), "line 2 of", "a.de", "is empty")


def test_invalid_utf8_is_rejected_with_its_line(files):
    rejects(
        lambda: files(numbered("a", 3), "eins\nzwölf\ndrei\n".encode("latin-1")),
        "line 2 of",
        "a.en",
        "not UTF-8",
    )


def test_too_few_sentences_are_rejected(files):
    rejects(lambda: files(b"a\na\nb\n", b"x\ny\nz\n"), "got 2", "at least 3")


def test_a_missing_file_is_rejected(tmp_path):
    rejects(lambda: load_files(tmp_path / "a", tmp_path / "b"), "cannot read", str(tmp_path / "a"))
    rejects(lambda: load_files(tmp_path, tmp_path), "cannot read")


# ---------------------------------------------------------------- streams


def test_a_stream_has_the_pairs_of_the_lists(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(numbered("eins", 50)))
    (tmp_path / "b").write_bytes(numbered("one", 50).rstrip(b"\n"))
    corpus = load_files(str(tmp_path / "a"), str(tmp_path / "b"))
    pairs = list(stream_files(tmp_path / "a", tmp_path / "b"))
    assert pairs == [(f"eins {i}", f"one {i}") for i in range(50)]
    assert sorted(pairs) == sorted(corpus.train + corpus.valid + corpus.test)


def test_a_stream_is_read_on_demand(tmp_path):
    (tmp_path / "a").write_bytes(numbered("eins", 10**5))
    (tmp_path / "b").write_bytes(numbered("eins", 10**5))
    stream = stream_files(tmp_path / "a", tmp_path / "b")
    assert next(stream) == ("eins 0", "eins 0")
    os.truncate(tmp_path / "a", 0)
    os.truncate(tmp_path / "b", 0)
    assert sum(1 for _ in stream) < 10**5 / 2, "the files were not read to the end at once"


def test_a_stream_raises_at_the_empty_line(tmp_path):
    (tmp_path / "a").write_bytes(numbered("eins", 5))
    (tmp_path / "b").write_bytes(b"one 0\none 1\n\none 3\none 4\n")
    stream = stream_files(tmp_path / "a", tmp_path / "b")
    assert [next(stream), next(stream)] == [("eins 0", "one 0"), ("eins 1", "one 1")]
    rejects(lambda: next(stream), "line 3 of", str(tmp_path / "b"), "is empty")


@pytest.mark.parametrize(("a", "b"), [(7, 9), (9, 7), (1, 3), (9, 8)])
def test_both_line_counts_are_in_the_message(tmp_path, a, b):
    (tmp_path / "a").write_bytes(numbered("eins", a))
    (tmp_path / "b").write_bytes(numbered("one", b))
    counts = f"{tmp_path / 'a'} has {a} lines and {tmp_path / 'b'} has {b}"
    rejects(lambda: list(stream_files(tmp_path / "a", tmp_path / "b")), counts)


def test_a_truncated_gzip_is_rejected(tmp_path):
    packed = gzip.compress(numbered("eins", 10**4))
    (tmp_path / "a").write_bytes(packed[: len(packed) // 2])
    rejects(lambda: list(stream_files(tmp_path / "a", tmp_path / "a")), "cannot read")


def test_assign_split_depends_on_the_key_only():
    keys = [f"sentence {i}" for i in range(4000)]
    splits = [assign_split(key, valid=0.05, test=0.1) for key in keys]
    assert splits.count("valid") / 4000 == pytest.approx(0.05, abs=0.01)
    assert splits.count("test") / 4000 == pytest.approx(0.1, abs=0.015)
    assert splits[::2] == [assign_split(key, valid=0.05, test=0.1) for key in keys[::2]]
    assert {assign_split(key, valid=0.0, test=0.0) for key in keys} == {"train"}


def test_assign_split_approximates_the_split_of_a_list(files):
    corpus = files(numbered("eins", 2000), numbered("one", 2000))
    agreed = [assign_split(source, 0.05, 0.05) == "valid" for source, _ in corpus.valid]
    assert sum(agreed) >= 0.8 * len(agreed)


@pytest.fixture
def streamed(tmp_path, monkeypatch):
    """A corpus of 200 pairs that is above the limit for streaming."""
    monkeypatch.setattr(corpora, "STREAM_FROM", 200)
    monkeypatch.setattr(corpora, "HELD_OUT", 8)
    (tmp_path / "a").write_bytes(numbered("eins", 200))
    (tmp_path / "b").write_bytes(numbered("one", 200))
    return load_files(tmp_path / "a", tmp_path / "b", "de", "en")


def test_large_files_are_streamed(streamed, tmp_path):
    assert streamed.is_streamed
    train = list(streamed.train)
    assert train == list(streamed.train), "can be iterated again"
    assert len(train) == len(streamed.train) > 150
    assert train[5] in streamed.train
    assert streamed.valid[0] not in streamed.train
    splits = [*train, *streamed.valid, *streamed.test]
    assert sorted(splits) == sorted(stream_files(tmp_path / "a", tmp_path / "b"))
    assert not {s for s, _ in train} & {s for s, _ in streamed.valid + streamed.test}
    assert (streamed.name, streamed.source, streamed.target) == ("your files", "de", "en")


def test_smaller_files_are_not_streamed(streamed, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "STREAM_FROM", 201)
    corpus = load_files(tmp_path / "a", tmp_path / "b")
    assert not corpus.is_streamed
    assert isinstance(corpus.train, list)


def test_large_files_with_too_few_different_sentences_are_rejected(streamed, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same\n" * 300)
    rejects(
        lambda: load_files(tmp_path / "a", tmp_path / "b"), "enough different", "300 pairs", "split"
    )
