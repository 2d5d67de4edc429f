"""Every page in Firefox and in WebKit: no errors, figures that start, and nothing that moves."""

import re
from pathlib import Path

import pytest

from tests.engines.conftest import FAILED
from tests.engines.drivers import ARROW_RIGHT, Engine
from tests.pages.conftest import OVERFLOW, SITE, page_names

PAGES = [name for name in page_names() if "/" not in name]
SIZES = {"desktop": (1280, 720), "phone": (390, 844)}

START = """
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const places = [...document.querySelectorAll(".live-figure")].reverse(), jumps = [];
await document.fonts.ready;
for (const place of places) {
    // Its end is just above the window, so that it starts where the reader does not see it.
    scrollBy({ top: place.getBoundingClientRect().bottom + 20, behavior: "instant" });
    const seen = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
    const before = seen.getBoundingClientRect().top;
    for (let i = 0; i < 400 && !["ready", "failed"].includes(place.dataset.live); i++)
        await pause(50);
    await pause(200);
    const jump = seen.getBoundingClientRect().top - before;
    if (Math.abs(jump) > 2) jumps.push(`${place.id}: ${jump} px`);
}
return [places.filter(({ dataset }) => dataset.live !== "ready").map(({ id }) => id), jumps];
"""
"""Start the figures from the last to the first, as for a reader who scrolls up."""

PLANTED = """console.error("planted");
const place = document.querySelector(".live-figure");
const main = document.querySelector("main");
place.style.minHeight = 0;
document.documentElement.style.overflowAnchor = "none";  // WebKit lacks what hides a jump
main.append(Object.assign(place.cloneNode(), { id: "broken" }));
main.append(document.createElement("hr"));
main.lastChild.style.width = "2000px";
"""
"""A figure without reserved height, a figure without content, and a line wider than the window."""


def faults(engine: Engine, address: str, size: str) -> dict[str, list[str]]:
    """What is wrong on a page, from its last section up."""
    FAILED.clear()
    engine.open(address, *SIZES[size])
    waiting, jumps = engine.run(START)
    wide = engine.run(f"return ({OVERFLOW})()")
    found = {"waiting": waiting, "jumps": jumps, "wide": wide, "missing": [*FAILED]}
    found["console"] = engine.console()
    return {kind: cases for kind, cases in found.items() if cases}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("page", PAGES)
def test_page(engine: Engine, address: str, page: str, size: str) -> None:
    last = re.findall(r'<section id="([^"]+)"', (SITE / page).read_text("utf-8"))[-1:]
    assert faults(engine, f"{address}/{page}#{''.join(last)}", size) == {}


def test_planted_faults_are_found(engine: Engine, address: str, folder: Path) -> None:
    text = (SITE / "13-inside-a-trained-model.html").read_text("utf-8")
    (folder / "planted.js").write_text(PLANTED, "utf-8")
    planted = '<script src="planted.js"></script><script>0</script><img src="missing.png" alt="">'
    (folder / "planted.html").write_text(text.replace("</main>", f"{planted}</main>"), "utf-8")
    found = faults(engine, f"{address}/planted.html#references", "desktop")
    assert found.keys() == {"waiting", "jumps", "wide", "missing", "console"}
    assert found["waiting"] == ["broken"]
    assert {*found["missing"]} == {"/missing.png"}
    assert any("planted" in text and "policy" not in text.lower() for text in found["console"])
    assert any("Content" in text and "Policy" in text for text in found["console"])


def test_figure_is_operated_by_keyboard(engine: Engine, address: str) -> None:
    engine.open(f"{address}/04-self-attention.html#live-04-self-attention-1", *SIZES["desktop"])
    engine.run(START)
    status = 'return document.querySelector(".live-status").textContent'
    before = engine.run(f'document.querySelector(".live input:checked").focus(); {status}')
    engine.press(ARROW_RIGHT)
    after = engine.run(f"await new Promise(requestAnimationFrame); {status}")
    assert before.startswith("“I” attends")
    assert after.startswith("“am” attends")
