"""Live figures: Jupyter widgets that also work on a web page without a kernel."""

from tfmr.widgets.attention import AttentionFigure
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.translator import TranslatorFigure

__all__ = ["AttentionFigure", "LiveFigure", "TranslatorFigure"]
