"""When the site is replaced, and its local server."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import ROOT, vendor
from tools.site import SiteError, __main__
from tools.site import build as building
from tools.site.build import build
from tools.site.server import server
from tools.verify import NotVerifiedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<title>The book</title>")
    return tmp_path


@pytest.mark.parametrize("lost", [BrokenPipeError, ConnectionResetError])
def test_a_connection_that_a_browser_closes_is_not_reported(
    folder: Path, lost: type[OSError], capsys: pytest.CaptureFixture[str]
) -> None:
    with server(folder, 0) as running:
        try:
            raise lost
        except lost:
            running.handle_error(None, ("127.0.0.1", 1))
    assert capsys.readouterr().err == ""


def test_any_other_error_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(folder, 0) as running:
        try:
            raise ValueError("broken handler")
        except ValueError:
            running.handle_error(None, ("127.0.0.1", 1))
    assert "broken handler" in capsys.readouterr().err


def test_a_folder_without_a_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="run `make book` first"):
        server(tmp_path, 0)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a site; a new one is built without Sphinx."""

    def build_pages(root: Path, out: Path) -> Path:
        pages = out / "pages"
        pages.mkdir()
        (pages / "index.html").write_text("new")
        return pages

    monkeypatch.setattr(building, "build_pages", build_pages)
    folder = tmp_path / "site"
    (folder / "en").mkdir(parents=True)
    (folder / "en" / "index.html").write_text("old")
    return folder


def test_the_site_is_replaced_if_it_is_ready(site: Path) -> None:
    assert build(ROOT, site) == site / "en"
    assert (site / "en" / "index.html").read_text() == "new"


@pytest.mark.parametrize("verified", [True, False])
def test_the_site_is_built_from_verified_chapters_only(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verified: bool
) -> None:
    seen: list[str] = []
    start = subprocess.Popen

    def verify(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
        assert command[1:] == ["-m", "tools.verify"]
        done = "import time; time.sleep(0.2); open('verified', 'w').close()"
        return start([sys.executable, "-c", done], cwd=site.parent)

    def require_verified() -> None:
        seen.append((site / "en" / "index.html").read_text())
        assert (site.parent / "verified").exists(), "the verification has ended"
        if not verified:
            raise NotVerifiedError("book/01-x.ipynb: changed")

    monkeypatch.setattr(subprocess, "Popen", verify)
    monkeypatch.setattr(vendor, "install", lambda: False)
    monkeypatch.setattr(__main__, "require_verified", require_verified)
    monkeypatch.setattr(__main__, "build", lambda ready: build(ROOT, site, ready))
    monkeypatch.setattr(sys, "argv", ["tools.site", "build"])
    assert __main__.main() == (0 if verified else 2)
    assert seen == ["old"]
    assert (site / "en" / "index.html").read_text() == ("new" if verified else "old")
    assert ("book/01-x.ipynb" in capsys.readouterr().err) != verified
