import gzip
import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from tests.errors import rejects
from tfmr.data import corpora
from tfmr.data.corpora import FILES, RemoteFile, load, tatoeba_rows

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


# ---------------------------------------------------------------- the corpora by name


@pytest.mark.parametrize("direction", ["de-en", "en-de", "fr-en"])
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
