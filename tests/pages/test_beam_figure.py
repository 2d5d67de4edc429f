"""The beam tree in the page: results, scores and the end of the search are those of the package."""

import itertools
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.conftest import Visit
from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_beam import SENTENCES, figure
from tfmr.decode import length_penalty
from tfmr.widgets import BeamFigure
from tfmr.widgets.beam import BEAMS

COVERED = """svg => {
    const boxes = (place) => [...svg.querySelectorAll(place)].map(e => [e, e.getBBox()]);
    const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
        && a.y < b.y + b.height && b.y < a.y + a.height;
    const nodes = boxes(".beam-node rect").map(([, box]) => box);
    return boxes(":scope > .beam-number").filter(([, box]) => nodes.some(node => meet(box, node)))
        .map(([e]) => e.textContent);
}"""
"""The numbers of pruned candidates that a node covers."""


@pytest.fixture(scope="module")
def initial() -> BeamFigure:
    """The figure in its first state; no test changes it."""
    return figure()


@pytest.fixture
def live(stage: Stage, initial: BeamFigure) -> Locator:
    return stage.show(initial)


def to_the_end(live: Locator) -> int:
    """Go to the last step; return its number."""
    slider = live.get_by_role("slider", name="Step")
    slider.press("End")
    return int(slider.input_value())


def test_results_are_those_of_the_package(live: Locator) -> None:
    package = figure()
    # Each sentence, beam and penalty with each value of the two others.
    for i, j in itertools.product(range(3), repeat=2):
        beam, alpha = BEAMS[j], (0.0, 0.6, 2.0)[(i + j) % 3]
        live.get_by_label("Source sentence").select_option(label=SENTENCES[i])
        choose(live, "Beam", str(beam))
        live.get_by_role("slider", name="Penalty").fill(str(alpha))
        package.set_state({"sentence": i, "beam": beam, "alpha": alpha})
        best, steps = package.search()
        assert to_the_end(live) == steps
        stated = re.search(r"Result: “(.*?)”, score (.*?), log-prob\w* (.*?)\. ", status(live))
        assert stated is not None
        assert stated[1] == package.translation()
        shown = numbers(stated[2]) + numbers(stated[3])
        assert shown == pytest.approx([best.score, best.log_prob], abs=6e-3)


def test_each_step_shows_its_candidates(phone_stage: Stage, initial: BeamFigure) -> None:
    live = phone_stage.show(initial)
    steps = initial.searches[0]["beams"][1]["steps"]
    parents = [0.0]
    for number, step in enumerate(steps, start=1):
        live.get_by_role("button", name="Next").click()
        rows = live.locator(".beam-candidates tbody tr")
        verdicts = ["pruned", "live", "finished"]
        assert rows.locator("th").all_text_contents() == [token for _, token, _, _ in step]
        assert rows.locator("td:last-child").all_text_contents() == [
            verdicts[kind] for *_, kind in step
        ]
        sums, scores = (rows.locator(f"td:nth-child({n})").all_text_contents() for n in (2, 3))
        for text, score, (parent, _, total, _) in zip(sums, scores, step, strict=True):
            shown = numbers(text.replace("− ", "−") + " " + score)
            expected = [parents[parent], total - parents[parent], total]
            assert shown == pytest.approx([*expected, total / length_penalty(number)], abs=6e-3)
        parents = [total for _, _, total, kind in step if kind == 1]
        nodes = live.locator(".beam-node")
        assert nodes.count() == 1 + sum(kind > 0 for s in steps[:number] for *_, kind in s)
    live.get_by_role("slider", name="Step").focus()
    press(live.page, "ArrowLeft", "ArrowLeft")
    caption = live.locator(".beam-candidates caption")
    expect(caption).to_contain_text(f"Length penalty ((5 + {len(steps) - 2}) ÷ 6)")


def test_a_hypothesis_is_selected_in_the_list_the_tables_and_the_tree(live: Locator) -> None:
    choose(live, "Beam", "2")
    to_the_end(live)
    path = live.locator(".beam-node.beam-path")
    selector = live.get_by_label("Selected")
    # The greedy hypothesis is finished, too.
    selector.select_option(label="Two women laughing.")
    best, steps = figure(beam=1).search()
    expect(path).to_have_count(1 + steps)
    expect(live.locator(".beam-finished .beam-chosen")).to_have_text(
        f"Two women laughing.−{-best.score:.2f}"
    )
    # A click on a node or on a row selects it, too.
    live.locator(".beam-node", has_text="▁women").first.click()
    expect(path.last).to_contain_text("▁women")
    live.locator(".beam-candidates tbody tr").first.click()
    expect(live.locator(".beam-candidates tr").nth(1)).to_have_class("beam-chosen")
    assert selector.evaluate("e => e.selectedIndex") == 0


def test_the_tree_scrolls_to_its_step(live: Locator) -> None:
    live.get_by_label("Source sentence").select_option(label=SENTENCES[1])
    tree = live.locator(".beam-tree")
    assert tree.evaluate("e => e.scrollLeft") == 0
    to_the_end(live)
    assert tree.evaluate("e => e.scrollWidth - e.clientWidth - e.scrollLeft") <= 1
    live.get_by_role("slider", name="Step").press("Home")
    expect(live.get_by_text("step 0", exact=True)).to_be_in_viewport()


def test_the_status_says_where_greedy_decoding_parts_and_why_the_search_ends(
    live: Locator,
) -> None:
    to_the_end(live)
    assert "The search ends: 2 finished (beam width 2)." in status(live)
    assert (
        "Greedy decoding selects “▁laughing” instead of “▁are” in step 3 and reaches a score of "
        "−1.23." in status(live)
    )
    live.get_by_role("slider", name="Penalty").fill("0")
    assert "Greedy decoding gives the same result." in status(live)
    live.get_by_label("Source sentence").select_option(label=SENTENCES[2])
    choose(live, "Beam", "4")
    to_the_end(live)
    assert "The search ends: no live hypothesis can score above" in status(live)
    live.get_by_role("button", name="Next").click()
    expect(live.get_by_role("status")).to_have_text(re.compile("^As before: The search ends"))


def test_scores_that_differ_are_not_shown_as_equal(live: Locator) -> None:
    live.get_by_label("Source sentence").select_option(label=SENTENCES[2])
    choose(live, "Beam", "4")
    live.get_by_role("slider", name="Penalty").fill("1.4")
    to_the_end(live)
    assert "The search ends: 5 finished (beam width 4)." in status(live)
    assert "“A woman waits.”, score −0.887, " in status(live)
    assert status(live).endswith(" and reaches a score of −0.889.")
    scores = live.locator(".beam-finished td").all_inner_texts()
    assert scores[:2] == ["−0.887", "−0.889"]
    expect(live.locator(".beam-node.beam-best text")).to_have_text("−0.887")


def test_a_short_search_fits_beside_the_controls(visit: Visit) -> None:
    live = visit.open("12-decoding.html").locator("#live-12-decoding-1 .live")
    to_the_end(live)
    assert live.locator(".beam-tree").evaluate("e => e.scrollWidth <= e.clientWidth")
    pruned = live.locator(".beam-tree svg > .beam-number")
    assert set(pruned.all_text_contents()) == {"×", "×2"}
    assert live.locator(".beam-tree svg").evaluate(COVERED) == []


def test_reset_and_looks(stage: Stage, live: Locator) -> None:
    stage.check_reset(live)
    stage.check_looks(figure(beam=4, step=20, sentence=1))
