"""Old addresses lead to where their content is now."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from docutils import nodes
from playwright.sync_api import expect
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from tests.pages.conftest import Visit
from tools import ROOT
from tools.site import heights, moved


def published(address: str) -> str:
    """The address of the file of a page, with the anchor.

    >>> published("02-gates#the-lstm")
    '02-gates.html#the-lstm'
    """
    page, sign, anchor = address.partition("#")
    return f"{page}.html{sign}{anchor}"


ADDRESSES = [
    (published(page + (anchor and f"#{anchor}")), published(new))
    for page, places in moved.moves(ROOT).items()
    for anchor, new in places.items()
]


def book() -> Sphinx:
    """A book with the page ``new``, which has the section ``a``, and the page ``kept``."""
    entries = [
        nodes.reference("", name, anchorname=anchor) for name, anchor in (("New", ""), ("A", "#a"))
    ]
    env = SimpleNamespace(
        tocs={"book/new": nodes.bullet_list("", *entries)}, found_docs={"book/new", "book/kept"}
    )
    builder = SimpleNamespace(get_target_uri=lambda name: f"{name.removeprefix('book/')}.html")
    return cast(Sphinx, SimpleNamespace(env=env, builder=builder, srcdir=ROOT))


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    made = {"gone": {"": "new", "x": "new#a"}, "kept": {"y": "new#a"}}
    monkeypatch.setattr(moved, "moves", lambda _: made)
    return made


def test_a_link_has_the_title_of_its_target(moves: dict[str, dict[str, str]]) -> None:
    context: dict[str, Any] = {}
    moved.add_links(book(), "gone", "", context, None)
    assert context["moved"] == [
        {"anchor": "", "address": "new.html", "title": "New"},
        {"anchor": "x", "address": "new.html#a", "title": "A"},
    ]
    moved.add_links(book(), "book/new", "", context, None)
    assert context["moved"] == []


def test_a_live_figure_has_the_title_of_its_page(
    moves: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heights, "names", lambda: {"live-new-1"})
    moves["gone"] = {"live-gone-1": "new#live-new-1", "live-gone-2": "new#live-new-2"}
    with pytest.raises(ExtensionError, match="leads to new#live-new-2, which does not exist"):
        moved.links(book(), "gone")
    del moves["gone"]["live-gone-2"]
    [link] = moved.links(book(), "gone")
    assert link == {"anchor": "live-gone-1", "address": "new.html#live-new-1", "title": "New"}


def test_the_state_of_a_figure_goes_with_it(visit: Visit) -> None:
    old, new = next((old, new) for old, new in ADDRESSES if "#" in old)
    visit.page.goto(f"{visit.base}/{old}&step=2&text=a%20b")
    expect(visit.page).to_have_url(f"{visit.base}/{new}&step=2&text=a%20b")


def test_only_a_page_that_is_gone_becomes_a_page(moves: dict[str, dict[str, str]]) -> None:
    assert [page for page, *_ in moved.gone_pages(book())] == ["gone"]


@pytest.mark.parametrize("new", ["new#b", "other"])
def test_a_target_that_does_not_exist_is_an_error(
    moves: dict[str, dict[str, str]], new: str
) -> None:
    moves["gone"]["x"] = new
    with pytest.raises(ExtensionError, match=f"leads to {new}, which does not exist"):
        moved.links(book(), "gone")


@pytest.mark.parametrize(("old", "new"), ADDRESSES[:2] + ADDRESSES[-2:])
def test_an_old_address_leads_to_the_new_one(visit: Visit, old: str, new: str) -> None:
    visit.page.goto(f"{visit.base}/{old}")
    expect(visit.page).to_have_url(f"{visit.base}/{new}")


def test_an_unknown_place_of_a_page_that_is_gone_leads_to_its_first_link(visit: Visit) -> None:
    (old, new), *_ = ADDRESSES
    visit.page.goto(f"{visit.base}/{old}#nowhere")
    expect(visit.page).to_have_url(f"{visit.base}/{new}")


def test_a_page_that_remains_shows_no_link(visit: Visit) -> None:
    page = visit.open("13-inside-a-trained-model.html")
    links = page.locator(".moved a")
    assert links.count() > 1
    for i in range(links.count()):
        expect(links.nth(i)).to_be_hidden()
