"""The tools behind the Makefile: each is run as ``python -m tools.<name>``."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds the package, the book and everything else of the project."""
