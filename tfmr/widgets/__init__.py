"""Interactive figures: widgets in a notebook, JavaScript alone on a page."""

from tfmr.widgets.attention import AttentionFigure

__all__ = ["AttentionFigure"]
