"""Figures of decoding show every candidate and probability that they are given."""

import pytest
from matplotlib.colors import to_hex

from tfmr.errors import TfmrError
from tfmr.figures import decoding
from tfmr.figures.style import BLUE, GRID, INK, MUTED, ORANGE

STEPS = [
    [decoding.Candidate(0, "a", -0.5, True), decoding.Candidate(0, "the", -0.75, True)],
    [
        decoding.Candidate(0, "dog", -2.0, False),
        decoding.Candidate(1, "cat", -1.25, True),
        decoding.Candidate(0, "cow", -1.5, True),
    ],
    [decoding.Candidate(1, "sits", -1.75, True), decoding.Candidate(2, "runs", -3.0, False)],
]


def test_beam_tree_highlights_the_best_path() -> None:
    figure = decoding.beam_tree(STEPS, (2, 0))
    (axes,) = figure.axes
    boxes = [text for text in axes.texts if text.get_bbox_patch()]
    edges = {text.get_text(): to_hex(text.get_bbox_patch().get_edgecolor()) for text in boxes}
    assert edges == {
        "<bos>": ORANGE,
        "a\n−0.50": BLUE,
        "the\n−0.75": ORANGE,
        "dog\n−2.00": GRID,
        "cat\n−1.25": ORANGE,
        "cow\n−1.50": BLUE,
        "sits\n−1.75": ORANGE,
        "runs\n−3.00": GRID,
    }
    inks = {text.get_text()[:3]: text.get_color() for text in axes.texts}
    assert (inks["dog"], inks["cow"]) == (MUTED, INK)
    assert [text.get_text() for text in axes.texts if text not in boxes] == [
        "step 1",
        "step 2",
        "step 3",
    ]
    assert "Step 1: kept “a” −0.50, “the” −0.75. Step 2: kept “the cat” −1.25" in figure.alt
    assert "“a cow” −1.50; pruned “a dog” −2.00. Step 3:" in figure.alt
    assert "The highlighted path is “the cat sits”." in figure.alt


def test_beam_tree_title() -> None:
    figure = decoding.beam_tree(STEPS, (2, 0), title="All sentences")
    assert figure.axes[0].get_title(loc="left") == "All sentences"
    assert figure.alt.startswith("All sentences, as a tree. Step 1:")
    kept = [[step[0]._replace(parent=0, kept=True)] for step in STEPS]
    assert "kept" not in decoding.beam_tree(kept, (2, 0)).alt
    assert "Beam search" in decoding.beam_tree(STEPS, (2, 0)).axes[0].get_title(loc="left")


def test_beam_tree_edges_connect_parents_and_children_in_the_same_order() -> None:
    (axes,) = decoding.beam_tree(STEPS, (2, 0)).axes
    places = {text.get_text().split("\n")[0]: text.get_position() for text in axes.texts}
    edges = {tuple(zip(*line.get_data(), strict=True)) for line in axes.lines}
    parents = ["<bos> a", "<bos> the", "a dog", "the cat", "a cow", "cat sits", "cow runs"]
    assert edges == {tuple(places[word] for word in pair.split()) for pair in parents}
    (axes,) = decoding.beam_tree(STEPS, (2, 0)).axes
    heights = {text.get_text().split("\n")[0]: text.get_position()[1] for text in axes.texts}
    assert heights["dog"] > heights["cow"] > heights["cat"]


@pytest.mark.parametrize("parent", [0, 3, -1])
def test_beam_tree_rejects_pruned_or_missing_parents(parent: int) -> None:
    steps = [*STEPS[:2], [decoding.Candidate(parent, "sits", -1.0, True)]]
    with pytest.raises(TfmrError, match=f"'sits' of step 3 has parent {parent} of 3"):
        decoding.beam_tree(steps, (2, 0))


def test_length_penalty() -> None:
    figure = decoding.length_penalty([1, 2, 7], {"none": [1, 1, 1], "α = 1": [1.0, 1.17, 2.0]})
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["none", "α = 1"]
    assert [list(line.get_ydata()) for line in axes.lines] == [[1, 1, 1], [1.0, 1.17, 2.0]]
    assert "At 7 tokens it is 1.00 for none, 2.00 for α = 1." in figure.alt


def test_effects_of_the_beam() -> None:
    panels = {"BLEU": [[1.0, 3.0], [2.0, 1.5]], "tokens": [[9.0, 8.0], [7.0, 6.0]]}
    figure = decoding.effects_of_the_beam(["beam of 1", "4, penalty"], panels)
    assert [axes.get_title() for axes in figure.axes] == ["BLEU", "tokens"]
    for axes, runs in zip(figure.axes, panels.values(), strict=True):
        assert [list(line.get_ydata()) for line in axes.lines] == runs
        assert [label.get_text() for label in axes.get_xticklabels()] == ["beam of 1", "4\npenalty"]
    assert figure.alt == (
        "2 panels over these beam sizes: beam of 1; 4, penalty. "
        "BLEU: 1.00, 3.00 / 2.00, 1.50; tokens: 9.00, 8.00 / 7.00, 6.00."
    )
    with pytest.raises(TfmrError, match=r"2.*'BLEU'.*1"):
        decoding.effects_of_the_beam(["1", "4"], {"BLEU": [[1.0]]})


def test_next_token_distributions() -> None:
    figure = decoding.next_token_distributions(
        ["yes", "no", "so"], {"all": [0.5, 0.3, 0.2], "top 1": [1, 0, 0]}
    )
    heights = [[bar.get_width() for bar in axes.patches] for axes in figure.axes]
    assert heights == [[0.5, 0.3, 0.2], [1, 0, 0]]
    assert [text.get_text() for text in figure.axes[1].texts] == ["1.00", "0", "0"]
    assert figure.alt.endswith("All: yes 0.50, no 0.30, so 0.20; top 1: yes 1.00.")


@pytest.mark.parametrize("values", [[0.5, 0.5], [1.2, 0, 0]])
def test_next_token_distributions_need_one_probability_per_word(values: list[float]) -> None:
    with pytest.raises(TfmrError, match=r"3.*'A'"):
        decoding.next_token_distributions(["a", "b", "c"], {"A": values})
