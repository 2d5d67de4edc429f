"""TwoHeadsFigure in Python: its weights are those of the model, and those that the book states."""

import pytest
import torch

from tfmr.analysis import record_attention
from tfmr.checkpoint import load_translator
from tfmr.widgets import TwoHeadsFigure
from tfmr.widgets.twoheads import LENGTH, NOUNS, PLAYED


def encoder_weights(text: str) -> torch.Tensor:
    """The tokens of the second encoder block, (head, query, key), in single precision."""
    model, tokenizer = load_translator("multi30k-de-en")
    ids = torch.tensor([tokenizer.encode(text)])
    with torch.no_grad(), record_attention(model) as maps:
        model(ids, ids)
    return maps["encoder.blocks.1.attention"][0][0]


@pytest.mark.parametrize(("played", "noun"), [("Tennis", "Schläger"), ("Gitarre", "Freund")])
def test_the_weights_are_those_of_heads_2_and_3(played: str, noun: str) -> None:
    expected = encoder_weights(f"Ein Mann spielt {played} mit einem {noun}.")
    for query in range(LENGTH):
        figure = TwoHeadsFigure(played=played, noun=noun, query=query)
        torch.testing.assert_close(figure.weights().float(), expected[1:3, query])


def test_the_state_has_the_weights_of_every_sentence() -> None:
    stored = TwoHeadsFigure().sentences
    assert [(each["played"], each["noun"]) for each in stored] == [
        (played, noun) for played in PLAYED for noun in NOUNS
    ]
    for each in stored:
        figure = TwoHeadsFigure(played=each["played"], noun=each["noun"])
        fixed = ["Ein", "Mann", "spielt", each["played"], "mit", "einem", each["noun"], "."]
        assert each["tokens"].split(" ") == fixed
        for figure.query in range(LENGTH):
            rows = [text.split("/")[figure.query].split(" ") for text in each["weights"]]
            shown = torch.tensor([[int(weight) for weight in row] for row in rows]).double() / 100
            torch.testing.assert_close(shown, figure.weights(), atol=0.00501, rtol=0)


def test_the_summary_has_both_rows() -> None:
    summary = TwoHeadsFigure(noun="Ball").summary()
    assert summary.startswith("the attention weights of “Ball” in two heads of encoder block 2")
    assert "; head 3: Ein 0.00, Mann 0.00, spielt 0.00, Tennis 0.00, mit 0.82, " in summary
