"""The book's figures, in one style: :mod:`~tfmr.figures.style` first, then a module per idea."""
