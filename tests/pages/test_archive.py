"""The archive of ``make dist`` as its reader gets it: unpacked and opened from ``file://``."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages.conftest import SITE
from tools import dist
from tools.site import SiteError

EXAMPLE, TRANSLATION = "Zwei Hunde spielen im Schnee.", "Two dogs are playing in the snow."
POLICY = 'meta[http-equiv="Content-Security-Policy"]'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that unpacking the archive of the site creates."""
    target = tmp_path_factory.mktemp("archive")
    dist.pack(SITE.parent, target / "archive.zip")
    with zipfile.ZipFile(target / "archive.zip") as archive:
        archive.extractall(target)
    return target / dist.FOLDER


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that reports every error and every warning when the test ends."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    found: list[str] = []
    opened.on("pageerror", lambda error: found.append(str(error)))
    opened.on(
        "console",
        lambda message: (
            found.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    yield opened
    opened.close()
    assert found == []


def test_the_cover_works(folder: Path, page: Page) -> None:
    page.goto((folder / "index.html").as_uri())
    page.wait_for_url("**/en/index.html")
    expect(page.locator(POLICY)).to_have_count(1)
    figure = page.locator(".live-figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".live").wait_for()
    assert page.evaluate("document.fonts.load('18px \"Source Serif 4\"').then(f => f.length)") == 1
    page.get_by_role("link", name=re.compile("^Start")).first.click()
    page.wait_for_url("**/en/0*.html")


def test_an_answer_is_checked(folder: Path, page: Page) -> None:
    page.goto((folder / "en" / "04-self-attention.html").as_uri())
    form = page.get_by_role("form", name="Exercise 4.1", exact=True)
    form.get_by_label("Number 1").fill("0.663")
    form.get_by_label("Number 2").fill("2.229")
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_have_text("Right.")


def test_the_translator_translates(folder: Path, page: Page) -> None:
    page.goto((folder / "en" / "translator.html").as_uri())
    expect(page.locator(POLICY)).to_have_count(1)
    live = page.locator("#live-translator-1 .live")
    live.get_by_label("Sentence in").fill(EXAMPLE)
    live.get_by_role("button", name="ranslate").click()
    expect(live.locator(".tra-translation")).to_have_text(TRANSLATION, timeout=60_000)


def test_archive_has_the_site_and_is_reproducible(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "en").mkdir(parents=True)
    (site / "index.html").write_text("front")
    (site / "en" / "index.html").write_text("cover")
    (site / ".nojekyll").touch()
    one, two = tmp_path / "one.zip", tmp_path / "two.zip"
    assert dist.pack(site, one) == dist.pack(site, two) == 3
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        names = ["README.txt", "en/index.html", "index.html"]
        assert archive.namelist() == [f"{dist.FOLDER}/{name}" for name in names]
    with pytest.raises(SiteError, match="run `make book` first"):
        dist.pack(tmp_path / "none", one)


def test_a_command_without_a_site_states_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dist"])

    def make() -> int:
        return dist.pack(tmp_path, tmp_path / "archive.zip")

    assert dist.run("dist", None, make, dist.TARGET, "files") == 2
    assert capsys.readouterr() == ("", "dist: expected a site, found none; run `make book` first\n")
    (tmp_path / "index.html").touch()
    assert dist.run("dist", None, make, dist.TARGET, "files") == 0
    out, _ = capsys.readouterr()
    assert out == "dist: 2 files in dist/the-executable-transformer.zip\n"
