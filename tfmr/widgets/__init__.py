"""Live figures: Jupyter widgets that also work on a web page without a kernel."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfmr.widgets.alignment import AlignmentFigure
    from tfmr.widgets.architecture import ArchitectureFigure
    from tfmr.widgets.attention import AttentionFigure
    from tfmr.widgets.beam import BeamFigure
    from tfmr.widgets.contexts import ContextsFigure
    from tfmr.widgets.costs import CostsFigure
    from tfmr.widgets.dependence import DependenceFigure
    from tfmr.widgets.figure import LiveFigure
    from tfmr.widgets.flow import FlowFigure
    from tfmr.widgets.gates import GatesFigure
    from tfmr.widgets.gradient import GradientFigure
    from tfmr.widgets.heads import HeadsFigure
    from tfmr.widgets.masks import MasksFigure
    from tfmr.widgets.merges import MergesFigure
    from tfmr.widgets.positions import PositionsFigure
    from tfmr.widgets.replay import ReplayFigure
    from tfmr.widgets.roofline import RooflineFigure
    from tfmr.widgets.sampling import SamplingFigure
    from tfmr.widgets.stream import StreamFigure
    from tfmr.widgets.translator import TranslatorFigure
    from tfmr.widgets.twoheads import TwoHeadsFigure

__all__ = [
    "AlignmentFigure",
    "ArchitectureFigure",
    "AttentionFigure",
    "BeamFigure",
    "ContextsFigure",
    "CostsFigure",
    "DependenceFigure",
    "FlowFigure",
    "GatesFigure",
    "GradientFigure",
    "HeadsFigure",
    "LiveFigure",
    "MasksFigure",
    "MergesFigure",
    "PositionsFigure",
    "ReplayFigure",
    "RooflineFigure",
    "SamplingFigure",
    "StreamFigure",
    "TranslatorFigure",
    "TwoHeadsFigure",
]


def __getattr__(name: str) -> Any:
    """Import a figure at its first use, so that a chapter reads only the scripts of its figures."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "figure" if name == "LiveFigure" else name.removesuffix("Figure").lower()
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
