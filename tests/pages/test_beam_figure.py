"""The beam tree in the page: results, scores and the end of the search are those of the package."""

import itertools
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.live import Stage, choose, numbers, press, status
from tests.widgets.test_beam import SENTENCES, figure
from tfmr.decode import length_penalty
from tfmr.widgets import BeamFigure
from tfmr.widgets.beam import BEAMS


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
        choose(live, "Beam", "1 (greedy)" if beam == 1 else str(beam))
        live.get_by_role("slider", name="length penalty").fill(str(alpha))
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
        assert rows.locator("th").all_inner_texts() == [token for _, token, _, _ in step]
        assert rows.locator("td:last-child").all_inner_texts() == [
            verdicts[kind] for *_, kind in step
        ]
        for text, (parent, _, total, _) in zip(
            rows.locator("td:nth-child(2)").all_inner_texts(), step, strict=True
        ):
            before, edge, after = numbers(text.replace("− ", "−"))
            expected = [parents[parent], total - parents[parent], total]
            assert [before, edge, after] == pytest.approx(expected, abs=6e-3)
        parents = [total for _, _, total, kind in step if kind == 1]
        nodes = live.locator(".beam-node")
        assert nodes.count() == 1 + sum(kind > 0 for s in steps[:number] for *_, kind in s)
    live.get_by_role("slider", name="Step").focus()
    press(live.page, "ArrowLeft", "ArrowLeft")
    expect(live.locator(".beam-candidates caption")).to_have_text(
        f"Candidates of step {len(steps) - 2}"
    )


def test_the_score_of_the_selected_node_is_spelled_out(live: Locator) -> None:
    choose(live, "Beam", "2")
    to_the_end(live)
    # The greedy hypothesis is finished, too, and is selected by its row in the table.
    live.get_by_role("radio", name="Two women laughing.").check()
    expect(live.locator(".beam-score")).to_contain_text("“Two women laughing.”, finished")
    package = figure(beam=1)
    best, steps = package.search()
    addends = numbers(live.locator(".beam-sum").inner_text().replace("− ", "−"))
    assert len(addends) == steps == 5
    assert sum(addends) == pytest.approx(best.log_prob, abs=0.03)
    assert numbers(live.locator(".beam-score strong").inner_text()) == pytest.approx(
        [best.score], abs=6e-3
    )
    assert f"{length_penalty(5):.2f}" in live.locator(".beam-score").inner_text()
    # A click on a node of the tree selects it; the radio buttons work with the arrow keys.
    live.locator(".beam-node", has_text="▁women").first.click()
    expect(live.locator(".beam-score")).to_contain_text("“Two women …”, live")
    live.locator(".beam-candidates input").first.check()
    press(live.page, "ArrowDown")
    expect(live.locator(".beam-candidates input").nth(1)).to_be_checked()


def test_the_status_says_where_greedy_decoding_parts_and_why_the_search_ends(
    live: Locator,
) -> None:
    to_the_end(live)
    assert "The search ends: 2 of 2 hypotheses finished." in status(live)
    assert (
        "Greedy decoding takes “▁laughing” instead of “▁are” in step 3 and finds “Two women "
        "laughing.” (score −1.23, log-probability −1.67)." in status(live)
    )
    live.get_by_role("slider", name="length penalty").fill("0")
    assert "This is also what greedy decoding finds." in status(live)
    live.get_by_label("Source sentence").select_option(label=SENTENCES[2])
    choose(live, "Beam", "4")
    to_the_end(live)
    assert "The search ends: no live hypothesis can reach more than" in status(live)
    live.get_by_role("button", name="Next").click()
    expect(live.get_by_role("status")).to_have_text(re.compile("^Unchanged: The search ends"))


def test_reset_and_looks(stage: Stage, live: Locator) -> None:
    stage.check_reset(live)
    stage.check_looks(figure(beam=4, step=20, sentence=1))
