"""One sentence on its way through a trained translator, from its tokens to beam search."""

from dataclasses import dataclass
from typing import Any, cast

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfmr.analysis import record_residual_stream
from tfmr.decode.beam import Hypothesis, beam_search
from tfmr.errors import require
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, EOS
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.heads import MODEL, SENTENCES
from tfmr.widgets.packing import pack, pack_maps
from tfmr.widgets.translator import send_model

STAGES = (
    "tokens",
    "embeddings",
    "encoder heads",
    "encoder output",
    "decoder heads",
    "cross-attention",
    "probabilities",
    "beam search",
)
BEAM = 4
SHOWN = 5
"""The number of candidates for the next token that are shown."""
RANGE, ZERO = 100, 2.3328
"""A component ``x`` of the stream is stored as ``x / RANGE + ZERO`` in the form of a weight: to two
decimals, from -233.28 to 233.27."""
IN_CHAPTER_12 = (
    "Zwei Frauen lachen.",
    "Diese vier Personen stehen mit 3 Hunden im Freien.",
    "Ein Mann spielt Tennis mit einem Schläger.",
    "Eine Frau wartet.",
)
"""The sentences whose searches the beam tree of Chapter 12 shows."""


class FlowFigure(LiveFigure):
    """The stages of a translation, one at a time, with the numbers of the model at each.

    The stages of one sentence are part of the state. For other sentences the figure computes them
    in JavaScript (``tfmr/widgets/tracing.js``), after the reader has loaded the model. The decoder
    input is the greedy translation. The traits ``text``, ``stage``, ``token``, ``step``, ``block``
    and ``head`` are synchronised with Python; stages are counted from 1; tokens, steps, blocks and
    heads from 0.

    Args:
        text: the sentence whose stages are stored.
        stage: the stage that is shown first, from 1 to 8; see :data:`STAGES`.

    Raises:
        TfmrError: if there is no such stage, or the model cannot translate the text.
    """

    shipped = traitlets.Dict().tag(sync=True)
    stored = traitlets.Dict().tag(sync=True)
    elsewhere = traitlets.Dict().tag(sync=True)
    """The sentences that the figures of other chapters show, by figure."""
    text = traitlets.Unicode().tag(sync=True)
    stage = traitlets.Int().tag(sync=True)
    token = traitlets.Int().tag(sync=True)
    """The selected source token."""
    step = traitlets.Int().tag(sync=True)
    """The selected step of the decoder, which generates one token."""
    block = traitlets.Int().tag(sync=True)
    head = traitlets.Int().tag(sync=True)

    def __init__(self, text: str = SENTENCES[0], *, stage: int = 1) -> None:
        require(1 <= stage <= len(STAGES), f"stage must be from 1 to {len(STAGES)}: got {stage}")
        config = MODEL.load().model().config
        super().__init__(
            shipped={
                **MODEL.describe(),
                "vocabulary": config.target_vocab,
                "max_length": config.max_length,
            },
            stored=_stored(text),
            elsewhere={"heads": list(SENTENCES), "beam": list(IN_CHAPTER_12)},
            text=text,
            stage=stage,
            token=2,
            step=2,
            block=1,
            head=2,
        )
        self.on_msg(send_model)

    def trace(self) -> "Trace":
        """The numbers of all stages for the current text, computed in Python.

        Raises:
            TfmrError: if the model cannot translate the text.
        """
        return trace(self.text)

    def summary(self) -> str:
        """The sentence, its translation, and a number of each of the last two stages."""
        [[name, _, probability], *_] = self.stored["steps"][0]
        [[text, _, log_prob, _], *_] = self.stored["hypotheses"]
        return (
            f"one sentence on its way through a trained translator, in {len(STAGES)} stages: "
            f"“{self.stored['text']}” has {len(self.stored['ids'])} tokens. The most probable "
            f"first token is “{name}” ({probability:.3f}), and the best of {BEAM} hypotheses is "
            f"“{text}” (log-probability −{-log_prob:.2f})."
        )


@dataclass(frozen=True)
class Trace:
    """What a sentence passes through in the model."""

    source: list[int]
    """The ids of the sentence."""
    generated: list[int]
    """The ids of its greedy translation with ``EOS``."""
    stream: Float[Tensor, "depth source d_model"]
    """The embeddings with positions, the residual stream after each encoder block, and the encoder
    output, which is the layer norm of the last of them."""
    maps: dict[str, Float[Tensor, "block head query key"]]
    """The attention weights; see :meth:`tfmr.widgets.translator.ShippedModel.attention_maps`."""
    logits: Float[Tensor, "step vocab"]
    """The logits at each step of the decoder."""
    hypotheses: list[Hypothesis]
    """The best hypotheses of a beam search, best first."""


def trace(text: str) -> Trace:
    """The numbers of all stages for a sentence.

    The model has the rounded weights of the page, and computes in double precision, so that the
    numbers are the same on all machines.

    Raises:
        TfmrError: if the model cannot translate the text.
    """
    source, generated, maps = MODEL.attention_maps(text)
    model = cast(Transformer, MODEL.load().model().double())
    batch = torch.tensor([source])
    with torch.inference_mode(), record_residual_stream(model.encoder) as stream:
        memory, mask = model.encode(batch)
        hidden = model.decode(torch.tensor([[BOS, *generated[:-1]]]), memory, mask)
        logits = model.scores(hidden)[0]
    [hypotheses] = beam_search(model, batch, BEAM, n_best=BEAM)
    return Trace(source, generated, torch.cat([*stream, memory]), maps, logits, hypotheses)


def _stored(text: str) -> dict[str, Any]:
    """The stages of a sentence as the state has them."""
    tokenizer = MODEL.load().tokenizer
    found = trace(text)
    steps = []
    for logits in found.logits:
        top = logits[EOS:].topk(SHOWN)
        names = tokenizer.tokens((top.indices + EOS).tolist())
        probabilities = logits.softmax(dim=-1)[EOS + top.indices]
        numbers = zip(top.values.tolist(), probabilities.tolist(), strict=True)
        steps.append(
            [[name, round(a, 3), round(b, 5)] for name, (a, b) in zip(names, numbers, strict=True)]
        )
    return {
        "text": text,
        "translation": tokenizer.decode(found.generated[:-1]),
        "ids": found.source,
        "source": tokenizer.tokens(found.source),
        "target": tokenizer.tokens(found.generated),
        "stream": [pack(vectors / RANGE + ZERO) for vectors in found.stream],
        "maps": pack_maps(found.maps),
        "steps": steps,
        "hypotheses": [
            [tokenizer.decode(each.ids), len(each.ids) + each.finished,
             round(each.log_prob, 4), round(each.score, 4)]
            for each in found.hypotheses
        ],
    }  # fmt: skip
