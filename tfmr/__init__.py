"""The Transformer, built from its parts in the order of the book.

What most programs need can be imported from here::

    from tfmr import Transformer, TransformerConfig, load_translator, translate

    model, tokenizer = load_translator("runs/pocket-en-fr")
    translate(model, tokenizer, ["A brave queen buys three apples."])

Every module contains one idea and imports only from the modules before it:

.. code-block:: text

    errors → wording → notebook → records → special_tokens → dtype → later → cuda_graph → checks
           → config → translator → recurrent → kv_cache → attention → additive_attention
           → local_attention → tiled_attention → position → layers → encoder → decoder → model
           → seq2seq → registry → fast → data → checkpoint → decode → metrics → train → analysis
           → sequence_layers → complexity → training_memory → scaling_law → family → figures
           → widgets → exercises → doctor → commands → __main__

The axis names in the jaxtyping annotations are the same everywhere; the appendix *Notation* of the
book defines them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfmr.attention import (
        MultiHeadAttention,
        causal_mask,
        padding_mask,
        scaled_dot_product_attention,
    )
    from tfmr.checkpoint import load_translator
    from tfmr.config import BlockConfig, TransformerConfig
    from tfmr.data.tokenizer import Tokenizer
    from tfmr.decode import beam_search, greedy_search, translate
    from tfmr.decoder import Decoder
    from tfmr.encoder import Encoder
    from tfmr.errors import TfmrError
    from tfmr.fast import prepare
    from tfmr.model import Transformer
    from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig

__version__ = "0.1.0"

_MODULES = {
    "Transformer": "model",
    "TransformerConfig": "config",
    "BlockConfig": "config",
    "Encoder": "encoder",
    "Decoder": "decoder",
    "MultiHeadAttention": "attention",
    "scaled_dot_product_attention": "attention",
    "causal_mask": "attention",
    "padding_mask": "attention",
    "Seq2Seq": "seq2seq",
    "Seq2SeqConfig": "seq2seq",
    "Tokenizer": "data.tokenizer",
    "load_translator": "checkpoint",
    "translate": "decode",
    "greedy_search": "decode",
    "beam_search": "decode",
    "prepare": "fast",
    "TfmrError": "errors",
}

__all__ = [
    "BlockConfig",
    "Decoder",
    "Encoder",
    "MultiHeadAttention",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TfmrError",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "beam_search",
    "causal_mask",
    "greedy_search",
    "load_translator",
    "padding_mask",
    "prepare",
    "scaled_dot_product_attention",
    "translate",
]


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used, so that ``import tfmr`` stays fast.

    The command line also depends on it: it sets an environment variable before torch is imported.
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'tfmr' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfmr.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
