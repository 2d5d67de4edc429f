"""ArchitectureFigure in Python: its counts, its links to code and chapters, its errors."""

import importlib

from tfmr.config import TransformerConfig
from tfmr.figures.map import PARTS
from tfmr.widgets import ArchitectureFigure
from tools import ROOT

SMALL = TransformerConfig(
    source_vocab=50, target_vocab=50, d_model=16, n_heads=4, d_ff=24, n_encoder=2, n_decoder=3
)


def figure(**changes: object) -> ArchitectureFigure:
    models = {"small": SMALL, "base": TransformerConfig.base()}
    return ArchitectureFigure(**{"models": models, "model": "small"} | changes)


def test_the_counts_of_the_parts_are_those_of_the_model() -> None:
    found = figure(model="base", source_length=7, target_length=5).measured()
    total, flops = found.pop("total")
    assert total == 63_082_496
    norms = 2 * found["encoder-norm"][0] + 3 * found["decoder-norm"][0]
    parts = [k for k in found if "-" in k and not k.endswith("norm")]
    assert found["embedding"] == (37_000 * 512, 0)
    assert sum(found[k][0] for k in parts) + norms + found["embedding"][0] == total
    assert sum(found[k][1] for k in parts) + found["output"][1] == flops
    assert found["encoder"][0] + found["decoder"][0] + found["embedding"][0] == total
    assert found["encoder-attention"] == (0, 6 * 4 * 7 * 7 * 512)
    assert found["cross-attention"] == (0, 6 * 4 * 7 * 5 * 512)


def test_every_part_has_code_and_a_chapter() -> None:
    blocks = figure().drawing["blocks"]
    assert len(blocks) == len(PARTS)
    for block in blocks:
        module, _, name = block["source"].rpartition(".")
        assert hasattr(importlib.import_module(module), name)
        assert (ROOT / "book" / block["file"]).is_file()
        stack = block["kind"].split("-")[0]
        if stack in ("encoder", "decoder"):
            assert block["side"] == stack
