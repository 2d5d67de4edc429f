"""Every internal link of the built site leads to a page, and to a place on it, that exists."""

from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

from tests.pages.conftest import SITE, page_names

LOADS = ("icon", "preload", "stylesheet")


class _Read(HTMLParser):
    """The addresses and the anchors of a page, and the addresses from which it loads files."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")
            elif name == "href" or (name == "src" and tag in ("img", "script")):
                self.links.append(value or "")
            if name == "src" or (name == "href" and dict(attrs).get("rel") in LOADS):
                self.loaded.append(value or "")


@cache
def read(name: str) -> _Read:
    reader = _Read()
    reader.feed((SITE / name).read_text(encoding="utf-8"))
    return reader


def test_internal_links_resolve() -> None:
    dead = []
    for name in page_names():
        for link in read(name).links:
            parts = urlsplit(urljoin(f"http://site/{name}", link))
            if parts.netloc != "site" or parts.scheme not in ("http", "https"):
                continue
            target = unquote(parts.path).lstrip("/") or "index.html"
            anchor = unquote(parts.fragment)
            if not (SITE / target).is_file() or (
                anchor and target.endswith(".html") and anchor not in read(target).anchors
            ):
                dead.append((name, link))
    assert dead == []


def test_a_page_loads_files_of_the_site_only() -> None:
    for name in page_names():
        loaded = read(name).loaded
        assert len(loaded) > 4
        assert [address for address in loaded if urlsplit(address).netloc] == [], name


def test_no_page_names_a_machine_or_a_library_host() -> None:
    for name in page_names():
        text = (SITE / name).read_text(encoding="utf-8")
        for host in ("cdn.jsdelivr.net", "unpkg.com", "cdnjs.cloudflare.com", "googleapis.com"):
            assert host not in text, f"{name} names {host}"
