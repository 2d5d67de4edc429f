"""Interactive figures: widgets in a notebook, and in the page with their JavaScript only."""

from tfmr.widgets.attention import AttentionFigure

__all__ = ["AttentionFigure"]
