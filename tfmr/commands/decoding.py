"""Options shared by ``translate`` and ``evaluate``: model, beam, length penalty, precision."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfmr.errors import require

if TYPE_CHECKING:
    from tfmr.data.tokenizer import Tokenizer
    from tfmr.translator import IncrementalTranslator

BEAM = 4
"""The default beam size, from Vaswani et al. (2017), section 6.1."""
BATCH_SIZE = 64
"""Sentences that are decoded together."""


@dataclass(frozen=True)
class Decoding:
    """The model, and how it decodes."""

    model: Path = Path("runs/pocket-en-fr")
    """A run directory, a checkpoint file such as model.safetensors, or the name of a model of the
    package: multi30k-de-en, pocket-en-fr or pocket-en-ko."""
    beam: int | None = None
    """Number of hypotheses of the beam search, 4 if not given; 1 is greedy decoding."""
    alpha: float | None = None
    """Exponent of the length penalty of the beam search, 0.6 if not given; 0 disables it, which
    favours short translations."""
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """Arithmetic of matrix multiplications. auto selects bf16 for large models on a CPU with bf16
    instructions, otherwise fp32. In rare cases fp32 and bf16 give different translations."""

    def load(self) -> "tuple[IncrementalTranslator, Tokenizer, dict[str, Any]]":
        """Load the model, prepared for fast decoding, its tokenizer, and its metadata.

        Raises:
            TfmrError: if there is no valid checkpoint, or the CPU does not support the precision.
        """
        import torch

        from tfmr import checkpoint
        from tfmr.dtype import choose_arithmetic, find_units
        from tfmr.fast import prepare

        arithmetic = choose_arithmetic(self.precision, find_units(torch.device("cpu")))
        saved = checkpoint.load(checkpoint.find(self.model))
        model = prepare(saved.model(), None if self.precision == "auto" else arithmetic.dtype)
        return model, saved.tokenizer, saved.metadata

    def search_options(self) -> dict[str, Any]:
        """The arguments ``beam`` and ``alpha`` of :func:`tfmr.decode.sentences.translate`.

        Raises:
            TfmrError: if there is a length penalty without a beam search.
        """
        from tfmr.decode import ALPHA

        require(
            self.beam != 1 or self.alpha is None,
            "expected --alpha with a beam search only, but --beam 1 is greedy decoding; omit one "
            "of them",
        )
        return {
            "beam": BEAM if self.beam is None else self.beam,
            "alpha": ALPHA if self.alpha is None else self.alpha,
        }
