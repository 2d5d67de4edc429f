"""Tests of live figures: show one on a page of its own, operate it, and read its numbers.

The page of :class:`Stage` has nothing but the figure, made from its Python object. It uses the same
scripts, styles, host and markup as the site, forbids everything else by a strict Content-Security-
Policy, and needs no build of the site.
"""

import json
import re
import shutil
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.pages.conftest import CONTRAST, NAMELESS, OVERFLOW, Visit
from tfmr.widgets import LiveFigure
from tfmr.widgets.linker import write_scripts
from tools import ROOT

POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
    ]
)
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = ROOT / "dist" / "pictures"
THEMES = ("light", "dark")
WIDTHS = (1280, 390)

PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="favicon.svg">
<link rel="stylesheet" href="_static/stage.css">
<script defer src="_static/live/host.js"></script>
<title>Stage</title>
</head>
<body><main>{before}
<div class="live-figure" id="live-stage-1"><script type="{view_type}">{view}</script>
<p class="live-figure__note">{text}</p></div>
</main>
<script type="{state_type}">{state}</script>
</body>
</html>
"""
STYLE = """
html { --pst-color-text-base: #1f2933; --pst-color-text-muted: #4b5563; --pst-color-border: #d1d5db;
  --pst-color-surface: #f6f7f9; --pst-color-background: #fff; }
html[data-theme="dark"] { --pst-color-text-base: #d9dee4; --pst-color-text-muted: #a7b0ba;
  --pst-color-border: #3a4350; --pst-color-surface: #1e242c; --pst-color-background: #14181d; }
body { background: var(--pst-color-background); font: 16px/1.6 sans-serif; margin: 0;
  overflow-wrap: break-word; }
.far { height: 4000px; }
main { margin: 0 auto; max-width: 46rem; padding: 1rem; }
"""


def state_of(figure: LiveFigure) -> dict[str, Any]:
    """The state of a figure as a notebook stores it."""
    state = figure.get_state()
    return {name: state[name] for name in state if name not in ("_esm", "_css", "layout")}


def write_stage(folder: Path) -> None:
    """Write the scripts and styles of the site to ``folder``."""
    static = folder / "_static"
    write_scripts(static / "widgets")
    shutil.copytree(ROOT / "book" / "_assets" / "live", static / "live")
    (static / "stage.css").write_text(STYLE, "utf-8")
    (folder / "favicon.svg").write_bytes((ROOT / "book" / "_assets" / "favicon.svg").read_bytes())
    (folder / "index.html").write_text("<title>Stage</title>", "utf-8")


def write_page(folder: Path, figure: LiveFigure, *, before: str = "", **changes: Any) -> Path:
    """Write a page with the figure after some HTML; ``changes`` replace parts of its state."""
    page = folder / "stage.html"
    state = {"state": {"1": {"state": state_of(figure) | changes}}}
    text = PAGE.format(
        policy=POLICY, before=before, view_type=VIEW, state_type=STATE, text=escape(repr(figure)),
        view=json.dumps({"model_id": "1"}),
        state=json.dumps(state).replace("<", "\\u003c"),
    )  # fmt: skip
    page.write_text(text, "utf-8")
    return page


@dataclass
class Stage:
    """A served folder and a browser's page to show figures on."""

    visit: Visit
    folder: Path
    theme: str = "light"
    width: int = 1280

    def show(self, figure: LiveFigure) -> Locator:
        """Show a figure when it runs; its group is returned, for locators inside the figure."""
        write_page(self.folder, figure)
        page = self.visit.open("stage.html", theme=self.theme, width=self.width)
        return page.locator(".live")

    def check_looks(self, figure: LiveFigure) -> None:
        """Require what holds for every figure, in both themes, on a desktop and on a phone.

        It has a title, a task and a text that states what it shows, controls with names that are
        high enough for a finger, a text alternative for each drawing, legible text that is large
        enough, whole words, no horizontal scrolling and no error, before and after every control
        was used. Pictures of it are kept in ``dist/pictures``, for a person to look at.
        """
        name = type(figure).__name__
        for width in WIDTHS:
            live = replace(self, width=width).show(figure)
            page = live.page
            for operated in (False, True):
                if operated:
                    operate(live)
                # The size of nothing depends on the colours.
                for theme, tested in zip(THEMES, (RULES, [CONTRAST]), strict=True):
                    self.visit.set_theme(theme)
                    found = [fault for rule in tested for fault in page.evaluate(rule)]
                    assert found == [], f"{theme}, {width}, operated: {operated}: {found}"
                    if not operated:
                        live.screenshot(path=PICTURES / f"{name}-{width}-{theme}.png")
            assert self.visit.errors == self.visit.foreign == [], width
        for drawing in live.locator("svg:not([aria-hidden])").all():
            assert drawing.get_attribute("role") in ("img", "radiogroup")
            assert len(drawing.get_attribute("aria-label") or "") > 30
        for part in ("title", "task", "status"):
            assert len(live.locator(f".live-{part}").inner_text()) > 10
        live.locator(".live-shows").get_by_text("What it shows").click()
        assert len(live.locator(".live-shows p").inner_text()) > 30
        assert [fault for rule in RULES for fault in page.evaluate(rule)] == []
        expect(page.locator(".live-figure__note")).to_be_hidden()

    def check_reset(self, live: Locator) -> None:
        """Operate every control of a figure; Reset must restore everything and keep the focus."""
        before = snapshot(live)
        operate(live)
        assert snapshot(live) != before
        live.get_by_role("button", name="Reset").click()
        expect(live.get_by_role("button", name="Reset")).to_be_focused()
        assert snapshot(live) == before
        assert self.visit.errors == []


CLIPPED = """() => [
        ...document.querySelectorAll(".live :is(th, td, .live-output, button, .live-choice span)")]
    .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
    .map(e => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""
"""Texts that do not fit their box."""

OUTSIDE = """() => {
    const frame = document.querySelector(".live");
    const { paddingRight } = getComputedStyle(frame);
    const edge = frame.getBoundingClientRect().right - parseFloat(paddingRight) + 1.5;
    const scrolls = (e) => e !== frame
        && (getComputedStyle(e).overflowX === "auto" || scrolls(e.parentElement));
    const drawn = [...frame.querySelectorAll("*")]
        .filter(e => !e.ownerSVGElement && getComputedStyle(e).clipPath === "none")
        .filter(e => !scrolls(e.parentElement));
    return drawn.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > edge)
        .concat([...frame.querySelectorAll("table")].filter(e =>
            e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 1))
        .map(e => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`);
}"""
"""What is wider than the figure and does not scroll, and tables that are wider than their box."""

LOW = """() => [
        ...document.querySelectorAll(".live :is(button, select, input, label, [tabindex])")]
    .filter(e => e.checkVisibility())
    .map(e => e.type === "checkbox" || e.type === "radio" ? e.closest("label") : e)
    .filter(e => !e.ownerSVGElement && (e.tagName !== "LABEL" || e.querySelector("input")))
    .filter(e => e.getBoundingClientRect().height < 43.5)
    .map(e => `${e.tagName}.${e.className}: ${e.getBoundingClientRect().height}`)"""
"""Controls that are less than 44 pixels high. For parts of a drawing, a list is the alternative."""

SMALL = """() => [
        ...document.querySelectorAll(".live :is(p, th, td, text, label, legend, .live-output, li)")]
    .filter(e => e.checkVisibility() && e.textContent.trim())
    .filter(e => parseFloat(getComputedStyle(e).fontSize)
        * (e.ownerSVGElement?.getScreenCTM().a ?? 1) < 10.9)
    .map(e => `${e.tagName}: ${e.textContent.trim().slice(0, 40)}`)"""
"""Texts of less than 11 pixels."""


SPLIT = """() => [...document.querySelectorAll(".live :is(label, legend, thead th, button, h3)")]
    .filter(e => e.checkVisibility())
    .flatMap(e => {
        const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), split = [];
        for (let node; (node = walker.nextNode());)
            for (const { 0: word, index } of node.data.matchAll(/[^\\s–-]+/g)) {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + word.length);
                const lines = new Set([...range.getClientRects()].map(r => Math.round(r.bottom)));
                if (lines.size > 1) split.push(`${e.tagName}: ${word}`);
            }
        return split;
    })"""
"""Words that are broken over two lines."""


RULES = (CONTRAST, NAMELESS, OVERFLOW, CLIPPED, OUTSIDE, LOW, SMALL, SPLIT)


def operate(live: Locator) -> None:
    """Change the value of every control of a figure."""
    for box in live.locator("input[type=checkbox]:visible").all():
        box.click()
    for box in live.locator("input[type=range]:visible").all():
        box.press("End")
        box.press("ArrowLeft")
    for i in range(live.locator("select:visible").count()):
        box = live.locator("select:visible").nth(i)
        last = box.locator("option").count() - 1
        selected = box.evaluate("e => e.selectedIndex")
        box.select_option(index=min(1, last) if selected != 1 else last)
    # A choice can show other choices.
    choices = live.locator("fieldset.live-choice:visible")
    number = 0
    while number < choices.count():
        choices.nth(number).get_by_role("radio", checked=False).last.check()
        number += 1
    for table in live.get_by_role("grid").all():
        table.get_by_role("gridcell").last.click()


def snapshot(live: Locator) -> str:
    """The text of a figure and the state of its controls, without what was only announced."""
    values = live.evaluate(
        """e => JSON.stringify([...e.querySelectorAll("input, select, [role=gridcell]")]
            .map(c => c.ariaSelected ?? (/radio|checkbox/.test(c.type) ? c.checked : c.value)))"""
    )
    text = live.inner_text().replace("As before: ", "")
    return f"{text}\n{values}"


def numbers(text: str) -> list[float]:
    """The numbers in a text, in order; a true minus sign is a minus, 1,000 is a thousand."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    plain = plain.replace("−∞", "-inf").replace("−", "-").replace("∞", "inf")
    return [float(found) for found in re.findall(r"-?(?:\d+(?:\.\d+)?(?:e-?\d+)?|inf)", plain)]


def cells(table: Locator) -> list[list[float]]:
    """The numbers in the cells of a matrix, row by row, also of one that is hidden."""
    rows = [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
    return [[numbers(text)[0] for text in row] for row in rows]


def status(live: Locator) -> str:
    """The text of the status line."""
    return live.get_by_role("status").inner_text()


def choose(live: Locator, group: str, text: str) -> None:
    """Click one of the radio buttons of a group."""
    live.get_by_role("group", name=group).get_by_role("radio", name=text, exact=True).check()


def press(page: Page, *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        page.keyboard.press(key)
