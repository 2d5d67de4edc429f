"""Every internal link of the built site leads to a page, and to a place on it, that exists."""

from functools import cache
from urllib.parse import unquote, urljoin, urlsplit

from lxml.html import HtmlElement, document_fromstring

from tests.pages.conftest import SITE, page_names

LINKS, ANCHORS = "//@href | //img/@src | //script/@src", "//@id | //a/@name"
LOADED = "//@src | //*[@rel='icon' or @rel='preload' or @rel='stylesheet']/@href"


def parsed(name: str) -> HtmlElement:
    return document_fromstring((SITE / name).read_text("utf-8"))


@cache
def anchors(name: str) -> set[str]:
    return set(parsed(name).xpath(ANCHORS))


def test_internal_links_resolve() -> None:
    dead = []
    for name in page_names():
        for link in set(parsed(name).xpath(LINKS)):
            parts = urlsplit(urljoin(f"http://site/{name}", link))
            if parts.netloc != "site" or parts.scheme not in ("http", "https"):
                continue
            target = unquote(parts.path).lstrip("/") or "index.html"
            anchor = unquote(parts.fragment)
            if not (SITE / target).is_file() or (
                anchor and target.endswith(".html") and anchor not in anchors(target)
            ):
                dead.append((name, link))
    assert dead == []


def test_a_page_loads_files_of_the_site_only() -> None:
    for name in page_names():
        loaded = parsed(name).xpath(LOADED)
        assert len(loaded) > 4
        assert [address for address in loaded if urlsplit(address).netloc] == [], name


def test_no_page_names_a_machine_or_a_library_host() -> None:
    for name in page_names():
        text = (SITE / name).read_text(encoding="utf-8")
        for host in ("cdn.jsdelivr.net", "unpkg.com", "cdnjs.cloudflare.com", "googleapis.com"):
            assert host not in text, f"{name} names {host}"
