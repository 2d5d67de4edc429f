"""Interactive figures: Jupyter widgets that also work on a web page without a kernel."""

from tfmr.widgets.attention import AttentionFigure

__all__ = ["AttentionFigure"]
