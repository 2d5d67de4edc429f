"""The figure of what each process stores."""

import pytest
from matplotlib.text import Text

from tfmr.errors import TfmrError
from tfmr.figures.parallel import PARTS, TEXT, stored_bytes


def test_stored_bytes() -> None:
    whole = {"weights": 1_000_000, "gradients": 1_000_000, "moments": 2_000_000}
    half = {name: size // 2 for name, size in whole.items()}
    fig = stored_bytes({"DDP": [whole, whole], "FSDP": [half, half]})
    (ax,) = fig.axes
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert bars[:6] == [(0.0, 1.0), (1.0, 1.0), (2.0, 2.0)] * 2
    assert bars[6:] == [(0.0, 0.5), (0.5, 0.5), (1.0, 1.0)] * 2
    assert [text.get_text() for text in ax.texts] == ["4.00", "4.00", "2.00", "2.00"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["DDP", "FSDP"]
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    assert legend == list(PARTS)
    assert fig.alt.endswith(
        "DDP: 4.00, 4.00 (weights 1.00, gradients 1.00, moments 2.00); "
        "FSDP: 2.00, 2.00 (weights 0.50, gradients 0.50, moments 1.00)."
    )
    fig._repr_png_()
    shown = [text for text in fig.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in shown) == TEXT
    with pytest.raises(TfmrError, match=r"got weights.*DDP"):
        stored_bytes({"DDP": [{"weights": 1}]})
