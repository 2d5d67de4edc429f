import gzip
import hashlib
import http.server
import os
import threading
from pathlib import Path

import pytest

from tfmr.data import corpora
from tfmr.data.corpora import FILES, RemoteFile, load, load_files, stream_files, tatoeba_rows
from tfmr.data.corpus import part_of
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
"""Small texts under the names of the published ones."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, name: str, text: str, zipped: bool) -> Path:
    path = folder / (f"{name}.gz" if zipped else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty download cache, and no folder of local copies."""
    monkeypatch.delenv("TFMR_DATA", raising=False)
    monkeypatch.setattr(corpora.pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "tfmr"


@pytest.fixture
def published(tmp_path, cache, monkeypatch):
    """A web server with the small texts, as the addresses of all files: the folder it serves."""
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
    """A folder named by TFMR_DATA with the small texts, some gzipped; nothing can be downloaded."""
    folder = tmp_path / "local"
    for at, (name, text) in enumerate(TEXTS.items()):
        write(folder, name, text, zipped=at % 2 == 0)
        monkeypatch.setitem(FILES, name, RemoteFile("http://127.0.0.1:9/nothing", digest(text)))
    monkeypatch.setenv("TFMR_DATA", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


def refused(call, *words):
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
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [30, 5, 7]
    assert "non-commercial" in corpus.licence
    assert "\n" not in corpus.licence


def test_tatoeba_puts_no_english_sentence_in_two_parts(folder):
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


def test_tatoeba_keeps_who_is_to_be_named(folder):
    rows = tatoeba_rows()
    assert rows[1] == ("Number 0!", "숫자 0 !", "CC-BY 2.0 (France) #1")
    assert len(rows) == 120


def test_pocket_needs_no_file(cache):
    corpus = load("pocket", "en-ko")
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (8000, 500, 500)
    assert not cache.exists()


def test_unknown_names_and_directions_are_refused(cache):
    refused(lambda: load("wmt14", "en-de"), "pocket, multi30k, tatoeba", "'wmt14'")
    refused(lambda: load("multi30k", "de-ko"), "'multi30k'", "de-en", "'de-ko'")
    refused(lambda: load("multi30k", "de-de"), "'de-de'")
    refused(lambda: load("tatoeba", "korean"), "en-ko, ko-en", "'korean'")


def test_published_files_are_pinned():
    assert len(FILES) == 10
    for name, file in FILES.items():
        assert file.address.startswith("https://raw.githubusercontent.com/")
        assert len(file.address.split("/")[5]) == 40, "a commit, which cannot change"
        assert file.address.endswith(f"{Path(name).name}.gz") or name.startswith("tatoeba")
        assert len(file.sha256) == 64
    assert len({file.sha256 for file in FILES.values()}) == len(FILES)


# ---------------------------------------------------------------- the folder


def test_a_changed_file_in_the_folder_is_refused(folder):
    path = next(folder.glob("multi30k/val.de*"))
    changed = TEXTS["multi30k/val.de"].replace("val de 4", "val de four").encode()
    path.write_bytes(gzip.compress(changed) if path.suffix == ".gz" else changed)
    refused(
        lambda: load("multi30k", "de-en"),
        str(path),
        digest(TEXTS["multi30k/val.de"])[:12],
        hashlib.sha256(changed).hexdigest()[:12],
        "remove it",
    )


def test_a_broken_gzip_in_the_folder_is_refused(folder):
    for path in folder.glob("multi30k/train.de*"):
        path.unlink()
    whole = gzip.compress(TEXTS["multi30k/train.de"].encode())
    (folder / "multi30k/train.de.gz").write_bytes(whole[: len(whole) // 2])
    refused(lambda: load("multi30k", "de-en"), "train.de.gz", "cannot read")


def test_a_folder_that_is_none_is_refused(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("TFMR_DATA", str(tmp_path / "nowhere"))
    refused(lambda: load("multi30k", "de-en"), "TFMR_DATA", "nowhere", "unset")


def test_a_folder_without_the_corpus_leads_to_the_network(published, monkeypatch, tmp_path):
    monkeypatch.setenv("TFMR_DATA", str(tmp_path))
    assert len(load("multi30k", "de-en").train) == 30


# ---------------------------------------------------------------- the network


def test_a_download_is_kept_and_used_again(published, cache):
    first = load("multi30k", "de-en")
    assert len(first.train) == 30
    for path in published.glob("multi30k/*"):
        path.unlink()
    assert load("multi30k", "de-en") == first
    kept = cache / "multi30k" / "train.de"
    assert kept.read_text(encoding="utf-8") == TEXTS["multi30k/train.de"]


def test_a_plain_file_is_downloaded_as_it_is(published):
    name = "tatoeba-kor-eng/kor-eng.tsv"
    write(published, name, TEXTS[name], zipped=False).rename(published / f"{name}.gz")
    assert len(tatoeba_rows()) == 120


def test_a_damaged_copy_in_the_cache_is_fetched_anew(published, cache):
    load("multi30k", "de-en")
    (cache / "multi30k" / "val.en").write_text("damaged\n", encoding="utf-8")
    assert load("multi30k", "de-en").valid[0] == ("val de 0", "val en 0")


@pytest.mark.parametrize("damage", ["other text", "half a gzip", "not gzipped", "empty"])
def test_a_corrupted_download_is_refused_and_not_kept(published, cache, damage):
    path = published / "multi30k" / "val.en.gz"
    whole = path.read_bytes()
    content = {
        "other text": gzip.compress(b"another text\n"),
        "half a gzip": whole[: len(whole) // 2],
        "not gzipped": b"<html>busy</html>",
        "empty": b"",
    }
    path.write_bytes(content[damage])
    refused(lambda: load("multi30k", "de-en"), "multi30k/val.en", "TFMR_DATA", "try again")
    assert not (cache / "multi30k" / "val.en").exists()
    assert {kept.name for kept in cache.rglob("*") if kept.is_file()} <= {
        "train.de", "train.en", "val.de"
    }  # fmt: skip
    path.write_bytes(whole)
    assert len(load("multi30k", "de-en").valid) == 5


def test_a_file_found_nowhere_says_how_to_get_it(published, cache, monkeypatch):
    for path in published.glob("multi30k/*"):
        path.unlink()
    refused(
        lambda: load("multi30k", "de-en"),
        "TFMR_DATA is not set",
        "multi30k/train.de.gz",
        "set TFMR_DATA to a folder",
        "404",
    )
    monkeypatch.setenv("TFMR_DATA", str(published))
    refused(lambda: load("multi30k", "de-en"), f"not in TFMR_DATA={published}")
    assert not list(cache.rglob("train*"))


def test_without_a_network_it_says_so(cache, monkeypatch):
    name = "multi30k/train.de"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(FILES, name, RemoteFile("http://127.0.0.1:9/train.de.gz", "0" * 64))
    refused(lambda: load("multi30k", "de-en"), "ConnectionError", "connect to the network")


# ---------------------------------------------------------------- the reader's own files


@pytest.fixture
def files(tmp_path):
    """A way to write two files and load them."""

    def load_texts(source: bytes, target: bytes):
        (tmp_path / "a.de").write_bytes(source)
        (tmp_path / "a.en").write_bytes(target)
        return load_files(tmp_path / "a.de", tmp_path / "a.en", "de", "en")

    return load_texts


def numbered(word: str, n: int) -> bytes:
    return "".join(f"{word} {i}\n" for i in range(n)).encode()


def test_own_files_are_divided_by_source_sentence(files):
    corpus = files(numbered("eins", 100) * 2, numbered("one", 100) + numbered("un", 100))
    parts = [corpus.train, corpus.valid, corpus.test]
    assert [len(part) for part in parts] == [180, 10, 10]
    sources = [{source for source, _ in part} for part in parts]
    assert [len(part) for part in sources] == [90, 5, 5]
    assert len(set.union(*sources)) == 100
    assert (corpus.name, corpus.source, corpus.target) == ("your files", "de", "en")
    assert all(source.split()[1] == target.split()[1] for part in parts for source, target in part)
    assert corpus == files(numbered("eins", 100) * 2, numbered("one", 100) + numbered("un", 100))


def test_three_sentences_are_enough(files):
    corpus = files(b"a\nb\nc", b"x\ny\nz\n")
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [1, 1, 1]


def test_windows_files_and_rare_separators(files):
    corpus = files("\ufeffa\r\nb\u2028b\r\nc\x0cc\r\n".encode(), b"x\r\ny\r\nz\r\n")
    pairs = sorted(corpus.train + corpus.valid + corpus.test)
    assert pairs == [("a", "x"), ("b\u2028b", "y"), ("c\x0cc", "z")]


def test_gzipped_files_are_read(files):
    assert len(files(gzip.compress(numbered("a", 20)), numbered("b", 20)).train) == 18


def test_files_of_unequal_lines_are_refused_with_both_counts(files):
    refused(lambda: files(numbered("a", 7), numbered("b", 9)), "a.de has 7", "a.en has 9", "align")


def test_an_empty_file_is_refused(files):
    refused(lambda: files(b"", numbered("b", 3)), "a.de is empty")
    refused(lambda: files(numbered("b", 3), b"\n"), "a.en is empty")


def test_an_empty_line_is_refused_with_its_number(files):
    refused(lambda: files(b"a\n \nc\n", numbered("b", 3)), "line 2 of", "a.de", "is empty")


def test_what_is_not_utf8_is_refused_with_its_line(files):
    refused(
        lambda: files(numbered("a", 3), "eins\nzwölf\ndrei\n".encode("latin-1")),
        "line 2 of",
        "a.en",
        "not UTF-8",
    )


def test_too_few_sentences_are_refused(files):
    refused(lambda: files(b"a\na\nb\n", b"x\ny\nz\n"), "2 different", "at least 3")


def test_a_missing_file_is_refused(tmp_path):
    refused(lambda: load_files(tmp_path / "a", tmp_path / "b"), "cannot read", str(tmp_path / "a"))
    refused(lambda: load_files(tmp_path, tmp_path), "cannot read")


# ---------------------------------------------------------------- streams


def test_a_stream_is_what_the_lists_hold(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(numbered("eins", 50)))
    (tmp_path / "b").write_bytes(numbered("one", 50).rstrip(b"\n"))
    corpus = load_files(tmp_path / "a", tmp_path / "b")
    pairs = list(stream_files(tmp_path / "a", tmp_path / "b"))
    assert pairs == [(f"eins {i}", f"one {i}") for i in range(50)]
    assert sorted(pairs) == sorted(corpus.train + corpus.valid + corpus.test)


def test_a_stream_reads_no_further_than_it_is_asked(tmp_path):
    (tmp_path / "a").write_bytes(numbered("eins", 10**5))
    (tmp_path / "b").write_bytes(numbered("eins", 10**5))
    stream = stream_files(tmp_path / "a", tmp_path / "b")
    assert next(stream) == ("eins 0", "eins 0")
    os.truncate(tmp_path / "a", 0)
    os.truncate(tmp_path / "b", 0)
    assert sum(1 for _ in stream) < 10**5 / 2, "the rest had not been read yet"


def test_a_stream_is_refused_at_the_line_that_is_wrong(tmp_path):
    (tmp_path / "a").write_bytes(numbered("eins", 5))
    (tmp_path / "b").write_bytes(b"one 0\none 1\n\none 3\none 4\n")
    stream = stream_files(tmp_path / "a", tmp_path / "b")
    assert [next(stream), next(stream)] == [("eins 0", "one 0"), ("eins 1", "one 1")]
    refused(lambda: next(stream), "line 3 of", str(tmp_path / "b"), "is empty")


@pytest.mark.parametrize(("a", "b"), [(7, 9), (9, 7), (1, 3), (9, 8)])
def test_both_counts_are_told_whichever_side_is_longer(tmp_path, a, b):
    (tmp_path / "a").write_bytes(numbered("eins", a))
    (tmp_path / "b").write_bytes(numbered("one", b))
    counts = f"{tmp_path / 'a'} has {a} lines and {tmp_path / 'b'} has {b}"
    refused(lambda: list(stream_files(tmp_path / "a", tmp_path / "b")), counts)


def test_a_gzip_that_breaks_off_is_refused(tmp_path):
    packed = gzip.compress(numbered("eins", 10**4))
    (tmp_path / "a").write_bytes(packed[: len(packed) // 2])
    refused(lambda: list(stream_files(tmp_path / "a", tmp_path / "a")), "cannot read")


def test_a_part_is_told_from_the_key_alone():
    keys = [f"sentence {i}" for i in range(4000)]
    parts = [part_of(key, valid=0.05, test=0.1) for key in keys]
    assert parts.count("valid") / 4000 == pytest.approx(0.05, abs=0.01)
    assert parts.count("test") / 4000 == pytest.approx(0.1, abs=0.015)
    assert parts[::2] == [part_of(key, valid=0.05, test=0.1) for key in keys[::2]]
    assert {part_of(key, valid=0.0, test=0.0) for key in keys} == {"train"}


def test_a_stream_is_divided_nearly_as_the_list_is(files):
    corpus = files(numbered("eins", 2000), numbered("one", 2000))
    agreed = [part_of(source, 0.05, 0.05) == "valid" for source, _ in corpus.valid]
    assert sum(agreed) >= 0.8 * len(agreed)
