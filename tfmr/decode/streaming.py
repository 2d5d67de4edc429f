"""Show a translation word by word, while it is generated."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from tfmr.data.text import canonical
from tfmr.data.tokenizer import Tokenizer
from tfmr.special_tokens import BOS
from tfmr.translator import DecoderState, IncrementalTranslator


class StreamDecoder:
    """Decodes ids one at a time, in pieces that join to the text of all ids.

    Decoding each id alone loses the spaces between words and splits characters. Here, a word is
    held back until the next word begins, because the next token may still change it, and so is the
    space after it: the next word may be bytes that turn out to be white space.

    >>> stream = StreamDecoder(Tokenizer.words(["l' ours dort ."], form="pocket"))
    >>> [stream.add(id) for id in (6, 7, 5, 4)], stream.shown
    (['', '', "l'ours", ''], "l'ours")

    The end of a finished text is what follows ``shown``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.shown = ""
        """The text so far: all that :meth:`add` has returned."""
        self._ids: list[int] = []

    def add(self, id: int) -> str:
        """The words that are complete now and were not before."""
        self._ids.append(id)
        text = self.tokenizer.detokenise(canonical(self.tokenizer.decode(self._ids)))
        words = text.rpartition(" ")[0][len(self.shown) :]
        self.shown += words
        return words


class Watched:
    """An :class:`~tfmr.translator.IncrementalTranslator` that reports the tokens it is given.

    Args:
        model: the model.
        on_token: called with each token that the search of a sentence chooses, when the search
            continues from it, so not with the last token.
    """

    def __init__(self, model: IncrementalTranslator, on_token: Callable[[int], object]) -> None:
        self.model = model
        self.on_token = on_token

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """See :meth:`tfmr.translator.Translator.step`."""
        for token in tokens.tolist():
            if token != BOS:
                self.on_token(token)
        return self.model.step(tokens, state)
