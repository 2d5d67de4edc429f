"""Pictures of whole pages in ``dist/pictures``, for a person to look at.

The test requires that each page shows what the picture is of, without an error. A picture of a long
chapter has its first 4,000 pixels.
"""

import pytest
from playwright.sync_api import expect

from tests.pages.conftest import Visit
from tests.pages.live import PICTURES, THEMES, WIDTHS

COMPLETE = """() => {
    scrollTo({ top: 0, behavior: "instant" });
    return Promise.all([...document.images].map(image => {
        image.loading = "eager";
        return image.decode();
    }));
}"""
"""Go to the top, and load the images that a reader has not come near; fails if one is missing."""


@pytest.mark.parametrize(
    ("name", "place", "shown"),
    [
        ("cover", "index.html", ".cover-live .live"),
        ("chapter", "04-self-attention.html", ".live"),
        ("search", "search.html?q=padding+mask", "#search-page [role=option]"),
        ("translator", "translator.html", ".tra-translation"),
    ],
)
def test_pictures_of_a_page(visit: Visit, phone: Visit, name: str, place: str, shown: str) -> None:
    for browser, width in zip((visit, phone), WIDTHS, strict=True):
        page = browser.open(place, width=width)
        if name == "translator":
            page.get_by_role("button", name="and translate").click()
        expect(page.locator(shown).first).to_be_visible(timeout=60_000)
        page.evaluate(COMPLETE)
        for theme in THEMES:
            browser.set_theme(theme)
            page.screenshot(
                path=PICTURES / f"page-{name}-{width}-{theme}.png",
                animations="disabled",
                full_page=True,
                clip={"x": 0, "y": 0, "width": width, "height": 4000},
            )
        assert browser.errors == []
