"""The live figures: widgets in a notebook and, with their JavaScript alone, in the page."""

from tfmr.widgets.attention import AttentionFigure

__all__ = ["AttentionFigure"]
