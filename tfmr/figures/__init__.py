"""The figures of the book: :mod:`~tfmr.figures.style`, then one module per topic."""
