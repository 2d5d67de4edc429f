"""One sentence through the model in the page: the numbers of each stage are those of Python."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.axe import AXE, RUN
from tests.pages.conftest import CONTRAST, Visit
from tests.pages.live import RULES, THEMES, WIDTHS, Stage, cells, numbers, press, status
from tests.pages.test_translator_figure import PATIENCE, bars
from tfmr.decode.beam import length_penalty
from tfmr.position import sinusoidal
from tfmr.special_tokens import EOS
from tfmr.widgets import FlowFigure
from tfmr.widgets.flow import BEAM, IN_CHAPTER_12, SHOWN, STAGES, Trace
from tfmr.widgets.heads import MODEL, SENTENCES
from tfmr.widgets.translator import write_models

OWN = "Zwei kleine Hunde laufen am Strand durch das Wasser."
LONG = "Ein Mann und eine Frau " * 8
HEIGHTS = {1280: 640, 390: 760}
"""The largest height of the figure in pixels, by the width of the window."""


@pytest.fixture(scope="module", autouse=True)
def models(stage_folder: Path) -> None:
    """The models of the site, for the figures on the stage."""
    write_models(stage_folder / "_static" / "models")


def go(live: Locator, stage: int) -> None:
    """Select a stage, counted from 1."""
    live.get_by_label("Stage", exact=True).select_option(index=stage - 1)


def select(live: Locator, **places: int) -> None:
    """Select a source token, an output step, a block or a head, each counted from 0."""
    for name, place in places.items():
        live.get_by_label(name.replace("_", " ").capitalize(), exact=True).select_option(
            index=place
        )


def stated(live: Locator) -> list[float]:
    """The numbers of the status line after the number of the stage."""
    return numbers(status(live).split(": ", 1)[1])


def check_tokens(live: Locator, found: Trace) -> None:
    names = MODEL.load().tokenizer.tokens(found.source)
    rows = live.locator(".tra-chips li").all_inner_texts()
    assert [row.split() for row in rows] == [
        [name, str(id)] for name, id in zip(names, found.source, strict=True)
    ]
    assert f"has {len(names)} tokens." in status(live)


def check_embeddings(live: Locator, found: Trace, token: int) -> None:
    """The stored numbers have two decimals, and their difference with the position is shown."""
    select(live, source_token=token)
    name = MODEL.load().tokenizer.tokens(found.source)[token]
    caption = live.locator(".flow-numbers caption").inner_text()
    assert caption == f"“{name}”, token {token + 1}: {SHOWN} of 128 dimensions"
    total = found.stream[0][token]
    position = sinusoidal(token + 1, 128)[token].double()
    expected = [each[:SHOWN].tolist() for each in (total - position, position, total)]
    for shown, row in zip(cells(live.locator(".flow-numbers")), expected, strict=True):
        assert shown == pytest.approx(row, abs=0.011)
    norms = [float(each.norm()) for each in (total - position, position, total)]
    assert stated(live)[-3:] == pytest.approx(norms, abs=0.011)
    label = live.get_by_role("img").get_attribute("aria-label") or ""
    assert numbers(label)[-3:] == pytest.approx(total[:3].tolist(), abs=0.011)


def check_attention(live: Locator, found: Trace, kind: str, query: int) -> None:
    """For a query in two heads: the largest weights, in the table and in the status line."""
    tokens = MODEL.load().tokenizer.tokens
    source, target = tokens(found.source), tokens(found.generated)
    keys = ["<bos>", *target[:-1]] if kind == "self" else source
    name = {"encoder": "source_token", "self": "input_token"}.get(kind, "output_step")
    tokens_of = {"encoder": source, "self": ["<bos>", *target[:-1]]}.get(kind, target)
    options = live.get_by_label(name.replace("_", " ").capitalize(), exact=True)
    assert options.locator("option").all_inner_texts() == [
        f"{i}: {token}" for i, token in enumerate(tokens_of, 1)
    ]
    for block, head in ((0, 1), (2, 3)):
        select(live, **{name: query}, block=block, head=head)
        weights = found.maps[kind][block, head, query]
        top = weights.topk(min(5, query + 1 if kind == "self" else len(keys)))
        line = re.findall(r"“([^”]*)” \(([\d.]+)\)", status(live))
        assert [float(weight) for _, weight in line] == pytest.approx(
            top.values[:3].tolist(), abs=6e-4
        )
        assert [key for key, _ in line] == [keys[i] for i in top.indices[:3].tolist()]
        if live.locator(".tra-bars").is_visible():
            shown = bars(live, ".tra-bars")
            assert [weight for _, weight in shown] == pytest.approx(top.values.tolist(), abs=6e-4)
        label = live.get_by_role("img").get_attribute("aria-label") or ""
        assert f"attends most to “{keys[int(top.indices[0])]}”" in label
        assert numbers(label)[-1] == pytest.approx(float(top.values[0]), abs=6e-4)


def check_encoder_output(live: Locator, found: Trace, token: int) -> None:
    select(live, source_token=token)
    path = found.stream[:, token]
    norms = path.norm(dim=-1).tolist()
    added = path.diff(dim=0).norm(dim=-1)[:-1].tolist()
    cosines = (path @ path[0] / path.norm(dim=-1) / path[0].norm()).tolist()
    rows = [row.locator("td").all_inner_texts() for row in live.locator("tbody tr").all()]
    assert [numbers(text)[0] for text in rows[0]] == pytest.approx(norms, abs=0.06)
    assert [rows[1][0], rows[1][-1]] == ["–", "–"]
    assert [numbers(text)[0] for text in rows[1][1:-1]] == pytest.approx(added, abs=0.06)
    assert [numbers(text)[0] for text in rows[2]] == pytest.approx(cosines, abs=0.006)
    assert stated(live)[-5:] == pytest.approx(norms, abs=0.06)
    label = live.get_by_role("img").get_attribute("aria-label") or ""
    assert numbers(label)[-3:] == pytest.approx(path[-1, :3].tolist(), abs=0.011)


def check_probabilities(live: Locator, found: Trace, step: int) -> None:
    select(live, output_step=step)
    logits = found.logits[step]
    top = logits[EOS:].topk(SHOWN)
    probabilities = logits.softmax(dim=-1)[EOS + top.indices]
    names = MODEL.load().tokenizer.tokens((top.indices + EOS).tolist())
    table = live.locator(".flow-candidates")
    assert table.locator("tbody th").all_inner_texts() == names
    logit = [numbers(text)[0] for text in table.locator(".flow-logit").all_inner_texts()]
    assert logit == pytest.approx(top.values.tolist(), abs=6e-3)
    assert [p for _, p in bars(live, ".flow-candidates")] == pytest.approx(
        probabilities.tolist(), abs=6e-4
    )
    widths = table.locator(".tra-bar").evaluate_all("all => all.map(bar => bar.style.inlineSize)")
    assert [float(width.rstrip("%")) for width in widths] == pytest.approx(
        (100 * probabilities).tolist(), abs=0.01
    )
    assert stated(live)[-1] == pytest.approx(float(probabilities.sum()), abs=6e-4)


def check_hypotheses(live: Locator, found: Trace) -> None:
    decode = MODEL.load().tokenizer.decode
    caption = live.locator(".flow-hypotheses caption").inner_text()
    assert caption == f"The {BEAM} best hypotheses"
    rows = live.locator(".flow-hypotheses tbody tr").all()
    greedy = decode(found.generated[:-1])
    for row, each in zip(rows, found.hypotheses, strict=True):
        text = decode(each.ids)
        marked = f"{text} (greedy)" if text == greedy else text
        assert row.locator("th").inner_text() == marked
        shown = [numbers(cell)[0] for cell in row.locator("td").all_inner_texts()]
        assert shown == pytest.approx([each.log_prob, each.score], abs=6e-3)
    best = found.hypotheses[0]
    length = len(best.ids) + best.finished
    expected = [best.log_prob, length_penalty(length), length, best.score]
    assert stated(live)[:4] == pytest.approx(expected, abs=6e-3)
    same = decode(best.ids) == greedy
    assert ("decoding agrees." if same else f"finds “{greedy}”.") in status(live)


def agree(live: Locator, found: Trace, token: int, step: int) -> None:
    """All stages have the numbers of Python, for a source token and an output step."""
    go(live, 1)
    check_tokens(live, found)
    for stage, kind in ((3, "encoder"), (5, "self"), (6, "cross")):
        go(live, stage)
        check_attention(live, found, kind, token if kind == "encoder" else step)
    go(live, 2)
    check_embeddings(live, found, token)
    go(live, 4)
    check_encoder_output(live, found, token)
    go(live, 7)
    check_probabilities(live, found, step)
    go(live, 8)
    check_hypotheses(live, found)


def test_stored_stages_are_shown_without_a_download(stage: Stage) -> None:
    requests: list[str] = []
    stage.visit.page.on("request", lambda request: requests.append(request.url))
    figure = FlowFigure()
    live = stage.show(figure)
    agree(live, figure.trace(), token=3, step=6)
    agree(live, figure.trace(), token=0, step=0)
    assert not [url for url in requests if "/models/" in url]


def test_any_sentence_is_computed_in_the_page(phone_stage: Stage) -> None:
    """By keyboard only; the longest words and the maximum length do not stop the figure."""
    figure = FlowFigure()
    live = phone_stage.show(figure)
    page = live.page
    live.get_by_label("Sentence in German").focus()
    press(page, "Control+A")
    page.keyboard.type(OWN)
    assert status(live).endswith(f"Stage 1 of 8: “{SENTENCES[0]}” has 8 tokens.")
    go(live, 2)
    assert status(live).startswith("Old sentence: ")
    go(live, 1)
    live.get_by_label("Sentence in German").focus()
    press(page, "Enter")
    expect(live.get_by_role("status")).to_contain_text(f"“{OWN}” has", timeout=PATIENCE)
    figure.text = OWN
    agree(live, figure.trace(), token=2, step=3)
    go(live, 1)
    live.get_by_label("Example").select_option(label=IN_CHAPTER_12[1])
    expect(live.get_by_role("status")).to_contain_text(IN_CHAPTER_12[1], timeout=PATIENCE)
    figure.text = IN_CHAPTER_12[1]
    agree(live, figure.trace(), token=8, step=1)
    go(live, 1)
    live.get_by_label("Sentence in German").fill(" ")
    live.get_by_role("button", name="Run").click()
    assert status(live) == "There is nothing to translate: type a sentence."
    live.get_by_label("Example").select_option(label=SENTENCES[0])
    figure.text = SENTENCES[0]
    agree(live, figure.trace(), token=7, step=10)


def compute(live: Locator, text: str) -> None:
    """Type a sentence in the first stage and press the button."""
    live.get_by_label("Sentence in German").fill(text)
    live.get_by_role("button", name="run").click()


def test_an_example_replaces_a_sentence_that_is_computed(stage: Stage) -> None:
    """The end of the computation shows neither a message nor an earlier sentence."""
    live = stage.show(FlowFigure())
    compute(live, OWN)
    expect(live.get_by_role("status")).to_contain_text(f"“{OWN}” has", timeout=PATIENCE)
    compute(live, LONG)
    live.get_by_role("button", name="Cancel").wait_for()
    live.get_by_label("Example").select_option(label=SENTENCES[0])
    expect(live.get_by_role("status")).to_have_text(f"Stage 1 of 8: “{SENTENCES[0]}” has 8 tokens.")
    expect(live.get_by_role("button", name="Cancel")).to_have_count(0)
    assert live.locator(".tra-chips li").count() == 8


def test_a_message_remains_until_another_stage_is_selected(stage: Stage) -> None:
    live = stage.show(FlowFigure())
    for way in ("select", "button"):
        compute(live, " ")
        expect(live.get_by_role("status")).to_contain_text("There is nothing to translate")
        if way == "select":
            go(live, 2)
        else:
            live.get_by_role("button", name="Next").click()
        expect(live.get_by_role("status")).to_contain_text("Old sentence: ")
        go(live, 1)


def test_without_the_model_an_old_result_is_marked(stage: Stage, phone_stage: Stage) -> None:
    for shown in (stage, phone_stage):
        live = shown.show(FlowFigure())
        height = live.evaluate("e => e.offsetHeight")
        caption = live.locator(".flow-columns .tra-caption")
        expect(caption).to_have_text("8 tokens and their ids")
        live.get_by_label("Example").select_option(label=SENTENCES[1])
        expect(live.get_by_role("status")).to_have_text(
            "The stages are those of the old sentence; load the model to see those of this one."
        )
        expect(caption).to_have_text("Old sentence: 8 tokens and their ids")
        assert live.locator(".flow-stage").evaluate("e => e.scrollHeight <= e.clientHeight + 1")
        assert live.evaluate("e => e.offsetHeight") == height
        for number in range(2, 9):
            go(live, number)
            assert "Old sentence: " in status(live)
            assert live.evaluate("e => e.offsetHeight") == height
        go(live, 1)
        live.get_by_label("Example").select_option(label=SENTENCES[0])
        expect(caption).to_have_text("8 tokens and their ids")


def test_a_sentence_that_the_reader_will_type_is_not_computed(stage: Stage) -> None:
    live = stage.show(FlowFigure())
    compute(live, OWN)
    expect(live.get_by_role("status")).to_contain_text(f"“{OWN}” has", timeout=PATIENCE)
    live.get_by_label("Example").select_option(label=SENTENCES[0])
    live.get_by_label("Example").select_option(label="your own sentence")
    expect(live.get_by_label("Sentence in German")).to_have_value("")
    assert f"Stage 1 of 8: “{SENTENCES[0]}” has" in status(live)


def test_the_linked_figure_splits_the_first_word(stage: Stage) -> None:
    live = stage.show(FlowFigure(" Zwei\nHunde lachen."))
    live.page.evaluate("document.documentElement.dataset.content_root = ''")
    go(live, 2)
    go(live, 1)
    assert links(live)[1].endswith("&word=Zwei")


def test_a_place_that_a_shorter_sentence_lacks_is_its_last(stage: Stage) -> None:
    figure = FlowFigure("Eine Frau wartet.", stage=2)
    figure.token = figure.step = 12
    live = stage.show(figure)
    chosen = "e => e.selectedOptions[0].text"
    assert live.get_by_label("Source token").evaluate(chosen) == "4: ."
    assert stated(live)[0] > 0
    go(live, 7)
    assert live.get_by_label("Output step").evaluate(chosen).endswith(": <eos>")
    assert stated(live)[-1] > 0.9


def test_a_reader_steps_by_keyboard_and_the_height_remains(
    stage: Stage, phone_stage: Stage
) -> None:
    for shown in (stage, phone_stage):
        live = shown.show(FlowFigure())
        heights = set()
        live.get_by_role("button", name="Next").focus()
        for number, name in enumerate(STAGES, start=1):
            selected = live.get_by_label("Stage", exact=True)
            assert selected.evaluate("e => e.selectedOptions[0].text") == f"{number}: {name}"
            assert status(live).removeprefix("As before: ").startswith(f"Stage {number} of 8: ")
            heights.add(live.evaluate("e => e.offsetHeight"))
            press(live.page, "Enter")
        assert status(live).startswith("As before: Stage 8 of 8: ")
        expect(live.get_by_role("button", name="Next")).to_be_focused()
        live.get_by_role("button", name="Previous").focus()
        press(live.page, "Space")
        assert status(live).startswith("Stage 7 of 8: ")
        assert max(heights) - min(heights) <= 1
        assert max(heights) <= HEIGHTS[shown.width]


def test_a_row_of_a_drawing_is_selected_by_a_click(stage: Stage) -> None:
    live = stage.show(FlowFigure(stage=2))
    live.locator(".flow-strip").nth(4).click()
    assert live.get_by_label("Source token").evaluate("e => e.selectedIndex") == 4
    go(live, 6)
    live.locator(".tra-row").nth(5).click()
    assert live.get_by_label("Output step").evaluate("e => e.selectedIndex") == 5


@pytest.mark.parametrize("width", WIDTHS)
def test_every_stage_is_accessible_and_fits(stage: Stage, width: int) -> None:
    for text in ("", LONG):
        live = replace(stage, width=width).show(FlowFigure())
        live.page.evaluate(AXE)
        if text:
            live.get_by_label("Sentence in German").fill(text)
            live.get_by_role("button", name="run").click()
            expect(live.get_by_role("status")).to_contain_text("has 40 tok", timeout=PATIENCE)
        for number in range(1, len(STAGES) + 1):
            go(live, number)
            assert live.page.evaluate(RUN, {"include": [".live"]}) == [], number
            box = live.locator(".flow-stage")
            assert box.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), number
            assert text or box.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), number
            for theme, rules in zip(THEMES, (RULES, [CONTRAST]), strict=True):
                stage.visit.set_theme(theme)
                for rule in rules:
                    assert live.page.evaluate(rule) == [], f"{theme}, stage {number}"
            stage.visit.set_theme("light")


def test_reset_and_looks(stage: Stage) -> None:
    stage.check_reset(stage.show(FlowFigure()))
    stage.check_looks(FlowFigure())


def links(live: Locator) -> list[str]:
    """The addresses of the links of the current stage, relative to the site."""
    found = live.locator(".flow-about a").evaluate_all("all => all.map(a => a.href)")
    return [str(address).rpartition("/")[2] for address in found]


def translator(visit: Visit) -> Locator:
    """The figure on its page of the built site."""
    place = visit.open("translator.html").locator("#live-translator-2")
    place.scroll_into_view_if_needed()
    place.locator(".live").wait_for()
    return place.locator(".live")


@pytest.fixture
def site(visit: Visit) -> Locator:
    return translator(visit)


def opened(visit: Visit, address: str) -> Locator:
    """The figure at an address of the site."""
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{visit.base}/{address}")
    name = unquote(address.partition("#")[2]).partition("&")[0]
    live = page.locator(f"#{name} .live")
    live.wait_for()
    expect(live.get_by_role("status")).not_to_contain_text("not used")
    return live


def test_each_stage_links_to_the_section_that_explains_it(visit: Visit, site: Locator) -> None:
    found = []
    for number in range(1, len(STAGES) + 1):
        go(site, number)
        link = site.locator(".flow-about a").first
        found.append((links(site)[0], link.inner_text()))
    for address, text in found:
        page = visit.page
        page.goto(f"{visit.base}/{address}")
        heading = page.locator(f"[id='{address.partition('#')[2]}'] :is(h2, h3)").first
        chapter, title = re.fullmatch(r"Chapter (\d+): (.*)", text).groups()  # type: ignore[union-attr]
        assert address.startswith(f"{int(chapter):02}-")
        assert heading.inner_text().removesuffix("#").strip() == title


def test_the_links_show_the_sentence_in_other_figures(visit: Visit, site: Locator) -> None:
    """What the linked figure shows is the sentence, and no state is refused."""
    go(site, 3)
    select(site, block=2, head=1)
    addresses = {}
    for number in (1, 3, 4, 5, 6):
        go(site, number)
        addresses[number] = links(site)[1]
    go(site, 8)
    assert len(links(site)) == 1
    live = opened(visit, addresses[1])
    assert live.get_by_label("Words to learn from").input_value() == SENTENCES[0]
    for number, kind in ((3, "encoder self-"), (5, "decoder self-"), (6, "cross-")):
        live = opened(visit, addresses[number])
        shown = live.get_by_label("Sentence", exact=True)
        assert shown.evaluate("e => e.selectedOptions[0].text") == SENTENCES[0]
        said_there = live.locator(".heads-says").inner_text()
        assert said_there.lower().startswith(f"{kind}attention, block 3, head 2.")
    live = opened(visit, addresses[4])
    for label, length in (("Source", 8), ("Target", 11)):
        assert live.get_by_role("slider", name=label).input_value() == str(length)


def test_the_links_carry_a_sentence_of_the_reader(visit: Visit, site: Locator) -> None:
    for text in (OWN, "50 % & <b>50</b> #1?", IN_CHAPTER_12[2]):
        go(site, 1)
        site.get_by_label("Sentence in German").fill(text)
        site.get_by_role("button", name="run").click()
        expect(site.get_by_role("status")).to_contain_text(f"“{text}” has", timeout=PATIENCE)
        go(site, 6)
        heads = links(site)[1]
        go(site, 8)
        beam = links(site)[1:]
        live = opened(visit, heads)
        live.get_by_text("Your own sentence").click()
        assert live.get_by_label("Sentence in German").input_value() == text
        if text in IN_CHAPTER_12:
            live = opened(visit, beam[0])
            shown = live.get_by_label("Source sentence")
            assert shown.evaluate("e => e.selectedOptions[0].text") == text
            assert live.get_by_role("radio", name=str(BEAM), exact=True).is_checked()
        else:
            assert beam == []
        site = translator(visit)
