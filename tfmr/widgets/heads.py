"""The attention heads of a trained translator, with what each attends to."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.analysis import entropy
from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.packing import pack
from tfmr.widgets.translator import KINDS, MODELS, send_model

MODEL = MODELS[0]
"""The model whose heads are shown."""
MEASURES = {
    "previous": ("encoder", "self"),
    "own": ("encoder", "self"),
    "next": ("encoder",),
    "first": ("encoder", "self", "cross"),
    "last": ("encoder", "cross"),
    "distance": ("encoder", "self"),
    "entropy": ("encoder", "self", "cross"),
}
"""The measures of a head, with the kinds of attention that have them; see :func:`measure`."""
SENTENCES = (
    "Eine Frau liest im Park ein Buch.",
    "Auf der Straße spielt ein alter Mann Gitarre.",
)


class HeadsFigure(LiveFigure):
    """The attention maps of a trained translator for a sentence: of one head, or of all.

    The maps of a few sentences are part of the state. For other sentences the figure computes them
    in JavaScript (``tfmr/widgets/transformer.js``), after the reader has loaded the model. The
    decoder input is the greedy translation. The traits ``text``, ``example``, ``kind``, ``block``,
    ``head``, ``measure`` and ``overview`` are synchronised with Python; blocks and heads are
    counted from 0.

    Args:
        sentences: the sentences whose maps are stored.
        kind: ``"encoder"`` and ``"self"`` for the self-attention of the encoder and the decoder,
            or ``"cross"``.
        block: the selected block.
        head: the selected head.
        measure: the number below each map, one of those of :func:`measure`.

    Raises:
        TfmrError: if there is no such kind, block, head or measure, if there is no sentence, or if
            the model cannot translate a sentence.
    """

    shipped = traitlets.Dict().tag(sync=True)
    stored = traitlets.List(traitlets.Dict()).tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    example = traitlets.Int().tag(sync=True)
    """The stored sentence that is shown until the figure has computed another one."""
    kind = traitlets.Enum(list(KINDS)).tag(sync=True)
    block = traitlets.Int().tag(sync=True)
    head = traitlets.Int().tag(sync=True)
    measure = traitlets.Enum(list(MEASURES)).tag(sync=True)
    overview = traitlets.Bool().tag(sync=True)
    """Whether all maps are shown instead of that of the selected head."""

    def __init__(
        self,
        sentences: Sequence[str] = SENTENCES,
        *,
        kind: str = "encoder",
        block: int = 1,
        head: int = 2,
        measure: str = "previous",
    ) -> None:
        require(len(sentences) > 0, "expected at least one sentence, got none")
        require(kind in KINDS, f"kind must be one of {', '.join(KINDS)}: got {kind!r}")
        require(
            measure in MEASURES, f"measure must be one of {', '.join(MEASURES)}: got {measure!r}"
        )
        stored = [_stored(sentence) for sentence in sentences]
        maps = stored[0]["maps"][kind]
        for option, value, count in (("block", block, len(maps)), ("head", head, len(maps[0]))):
            require(0 <= value < count, f"{option} must be from 0 to {count - 1}: got {value}")
        super().__init__(
            shipped=MODEL.describe(),
            stored=stored,
            text=sentences[0],
            example=0,
            kind=kind,
            block=block,
            head=head,
            measure=measure,
        )
        self.on_msg(send_model)

    def maps(self) -> dict[str, Float[Tensor, "block head query key"]]:
        """The attention weights of each kind for the current text, computed in Python.

        Raises:
            TfmrError: if the model cannot translate the text.
        """
        return MODEL.attention_maps(self.text)[2]

    def values(self) -> Float[Tensor, "block head"]:
        """The current measure of all heads of the current kind, for the current text."""
        return measure(self.maps()[self.kind], self.kind, self.measure)

    def summary(self) -> str:
        """The stored sentences, and the head that attends most to the previous token."""
        found = []
        for sentence in self.stored:
            maps = MODEL.attention_maps(sentence["text"])[2]
            values = measure(maps["encoder"], "encoder", "previous")
            block, head = divmod(int(values.argmax()), values.shape[1])
            where = f"block {block + 1}, head {head + 1} ({values.max():.2f})"
            found.append(f"{where} for “{sentence['text']}”")
        return (
            "the attention maps of all heads of a trained translator. The encoder head with the "
            f"largest mean weight on the previous token: {'; '.join(found)}."
        )


def measure(
    weights: Float[Tensor, "*heads query key"], kind: str, name: str
) -> Float[Tensor, "*heads"]:
    """What a head attends to, as a mean over all queries.

    ``"previous"``, ``"own"`` and ``"next"`` are the weights on the token before that of the query,
    on this token and on the token after it (0 where there is none); ``"first"`` and ``"last"`` the
    weights on the first and the last key; ``"distance"`` is the mean distance of the key from the
    query in tokens, and ``"entropy"`` the entropy in nats (:func:`tfmr.analysis.entropy`).

    Raises:
        TfmrError: if this kind of attention has no such measure.
    """
    known = [each for each, kinds in MEASURES.items() if kind in kinds]
    require(name in known, f"expected one of {', '.join(known)} for {kind!r}: got {name!r}")
    if name == "entropy":
        return entropy(weights).mean(dim=-1)
    query = torch.arange(weights.shape[-2])[:, None]
    key = torch.arange(weights.shape[-1])
    factor = {
        "previous": key == query - 1,
        "own": key == query,
        "next": key == query + 1,
        "first": (key == 0).expand(len(query), -1),
        "last": (key == len(key) - 1).expand(len(query), -1),
        "distance": (key - query).abs(),
    }[name]
    return (weights * factor).sum(dim=-1).mean(dim=-1)


def uniform(weights: Float[Tensor, "*heads query key"], kind: str) -> Tensor:
    """Uniform weights over the keys that each query may attend to, of the same shape."""
    allowed = torch.ones_like(weights)
    if kind == "self":
        allowed = allowed.tril()
    return allowed / allowed.sum(dim=-1, keepdim=True)


def _stored(text: str) -> dict[str, Any]:
    """A sentence as the state has it: tokens, translation, and one string for each map."""
    tokenizer = MODEL.load().tokenizer
    source, target, maps = MODEL.attention_maps(text)
    return {
        "text": text,
        "translation": tokenizer.decode(target[:-1]),
        "source": tokenizer.tokens(source),
        "target": tokenizer.tokens(target),
        "maps": {
            kind: [[pack(weights) for weights in block] for block in found]
            for kind, found in maps.items()
        },
    }
