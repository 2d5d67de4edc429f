"""The heights of the live figures, which a page reserves before they run.

``python -m tools.site.heights`` measures them on the built site with a browser, while the steps of
each figure are shown, and writes them to ``heights.json``; build the site again afterwards. Without
a record, the text below a figure moves when the figure starts.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tools.browser import FLAGS, browser
from tools.site import LANGUAGE, SITE
from tools.site.server import server

FILE = Path(__file__).with_name("heights.json")
WIDTHS = {1280: "", 1024: "(max-width: 1199px)", 390: "(max-width: 640px)"}
"""Widths of a window, and where the height that was measured at each is reserved."""
SPARE = 4
"""Pixels by which a figure may be higher in another browser, or on a phone."""
HEIGHT = """figure => new Promise(async done => {
    const frame = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    const live = figure.querySelector(".live");
    figure.style.minHeight = 0;
    let height = live.offsetHeight;
    for (const slider of figure.querySelectorAll(".live-stepper input")) {
        const first = slider.value;
        for (const value of [...Array(Number(slider.max) + 1).keys(), first]) {
            slider.value = value;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await frame();
            height = Math.max(height, live.offsetHeight);
        }
    }
    done(height);
})"""
"""The largest height of a figure in all its steps."""


def place(page: str, number: int) -> str:
    """The name of the place of a figure, the ``number``-th of a page; the id of its element."""
    return f"live-{page}-{number}"


def names() -> set[str]:
    """The names of the places of all figures."""
    return set(json.loads(FILE.read_text("utf-8")))


def measure(page: Page, address: str) -> dict[str, int]:
    """The heights of the figures of a page, by the names of their places."""
    page.goto(address)
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    name = address.rpartition("/")[2].removesuffix(".html")
    found = {}
    for number, figure in enumerate(page.locator(".live-figure").all(), 1):
        figure.locator(".live").wait_for()
        found[place(name, number)] = int(figure.evaluate(HEIGHT))
    return found


def rules() -> Iterator[str]:
    """The rules that reserve the heights, until a figure has failed."""
    heights: dict[str, list[int]] = json.loads(FILE.read_text("utf-8"))
    for i, media in enumerate(WIDTHS.values()):
        condition = f"screen and (scripting: enabled){f' and {media}' if media else ''}"
        lines = (
            f"#{name}:not([data-live=failed]) {{ min-height: {values[i] + SPARE}px }}"
            for name, values in heights.items()
        )
        yield f"@media {condition} {{ {' '.join(lines)} }}"


def main() -> None:
    """Measure the figures of all pages, and write their heights."""
    pages = SITE / LANGUAGE
    names = sorted(p.name for p in pages.glob("*.html") if "live-figure" in p.read_text("utf-8"))
    running = server(pages, 0)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    heights: dict[str, list[int]] = {}
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        for width in WIDTHS:
            page = program.new_page(viewport={"width": width, "height": 900})
            for name in names:
                address = f"http://127.0.0.1:{running.server_port}/{name}"
                for figure, height in measure(page, address).items():
                    heights.setdefault(figure, []).append(height)
        program.close()
    running.shutdown()
    FILE.write_text(json.dumps(heights, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
