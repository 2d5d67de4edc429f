"""What all live figures have in common in Python: their code, their style and their text."""

from typing import Any

import anywidget

from tfmr.widgets import linker


class LiveFigure(anywidget.AnyWidget):
    """A figure that a reader operates, in a notebook and on a page without a kernel.

    A figure is a subclass in ``tfmr/widgets/NAME.py`` beside its code ``NAME.js``, and ``NAME.css``
    if it needs a style of its own. Its traits, tagged ``sync=True``, are its state: they are
    synchronised with the notebook, stored in it, and read by the page.

    A subclass overrides :meth:`summary`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Compose the code and the style from the files beside the module of the subclass."""
        name = cls.__module__.rpartition(".")[2]
        if (linker.HERE / f"{name}.js").is_file() and "_esm" not in cls.__dict__:
            cls._esm = linker.notebook_module(name)
            cls._css = linker.style(name)
        super().__init_subclass__(**kwargs)

    def summary(self) -> str:
        """One sentence: the figure and its numbers, as text where it cannot run.

        The verification of the book compares it with the stored one.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Live figure: {self.summary()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The output that a notebook stores: the view, and a text where it cannot be displayed."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), "text/plain": repr(self)}, metadata
