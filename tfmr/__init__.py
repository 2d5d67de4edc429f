"""The Transformer, built from its parts, in the order of the book.

Every module holds one idea and imports only from the modules before it::

    errors → special_tokens → dtype → translator → recurrent → attention → additive_attention
           → local_attention → position → layers → encoder → decoder → arranged → step → model
           → seq2seq → registry → data → decode → train → analysis → figures → widgets
           → commands → __main__

Axis names in the jaxtyping annotations are the same everywhere; the appendix *Notation*
of the book defines them once.
"""

__version__ = "0.1.0"
