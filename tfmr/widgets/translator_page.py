"""The translator as one HTML file with any model, which needs no server and no network.

The file holds the figure of :mod:`tfmr.widgets.translator` with its style, and the model as
:mod:`tfmr.widgets.page_model` writes it. ``translator_page.html`` is its frame.
"""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from tfmr.checkpoint import Checkpoint
from tfmr.widgets import linker
from tfmr.widgets.page_model import page_model

FRAME = Path(__file__).with_suffix(".html")
UNKNOWN = "source-target"
"""The direction of a model if no languages were given."""


def translator_page(saved: Checkpoint, name: str, examples: Sequence[str] = ()) -> str:
    """An HTML page that translates with a model.

    Args:
        saved: the model; its weights are rounded to 8-bit integers.
        name: the name of the model.
        examples: source sentences that the page offers.

    Raises:
        TfmrError: if the page cannot compute the model; see
            :func:`tfmr.widgets.page_model.page_model`.
    """
    model = page_model(saved, name)
    pairs = saved.metadata.get("sentence_pairs", {}).get("train")
    trained = f"{pairs:,} sentence pairs" if pairs else "an unknown number of sentence pairs"
    direction = saved.metadata.get("direction") or UNKNOWN
    codes = direction.split("-")
    described = {
        "name": name,
        "title": " → ".join(codes),
        "source": codes[0] if direction != UNKNOWN else "the source language",
        "codes": codes if direction != UNKNOWN else ["", ""],
        "about": f"the model was trained on {trained} and translates similar sentences best.",
        "examples": list(examples),
        "min_probability": 0,
        "bytes": len(model.encode()),
    }
    state: dict[str, Any] = {
        "models": [described],
        "name": name,
        "text": examples[0] if examples else "",
        "beam": 1,
        "translation": "",
        "brief": False,
        "stored": None,
    }
    return Template(FRAME.read_text(encoding="utf-8")).substitute(
        title=escape(f"Translator {name}"),
        style=linker.style("translator"),
        model=_in_html(model),
        state=_in_html(json.dumps(state, ensure_ascii=False)),
        module=linker.notebook_module("translator"),
    )


def _in_html(content: str) -> str:
    """JSON, of which no string can end the element that holds it."""
    return content.replace("<", "\\u003c")
