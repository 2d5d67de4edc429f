"""Whether padding changes the result of a sentence."""

import torch
from torch import Tensor

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.subject import CHANGED, Subject, call, change, limit

NAMES = ("attends to padding",)
SHORT, LONG = 5, 9


def probe(subject: Subject) -> list[Finding]:
    """Compare the logits of a short sentence alone and padded beside a longer one."""
    if subject.pad is None:
        raise UndecidedError("the subject has no padding: pad is None")
    if subject.is_language_model:
        return _language_model(subject, subject.pad)
    return _source(subject, subject.pad)


def _source(subject: Subject, pad: int) -> list[Finding]:
    long = subject.tokens(1, LONG, 0, source=True)
    short = subject.tokens(1, SHORT, 2, source=True)
    target = subject.tokens(2, 6, 1)
    beside = torch.cat([long, torch.nn.functional.pad(short, (0, LONG - SHORT), value=pad)])
    alone = subject.predict(short, target[1:])
    effect = float(
        change(alone, subject.predict(subject.other(short, source=True), target[1:])).max()
    )
    largest = float(change(alone, subject.predict(beside, target)[1:]).max())
    if largest < limit(effect):
        return [Finding(NAMES[0], "ok", "padding the source does not change the logits")]
    where = "the encoder or the cross-attention"
    if subject.encode is not None:
        memory = [_encode(subject, each)[-1, :SHORT] for each in (short, beside)]
        spread = memory[0].std()
        inside = float((memory[1] - memory[0]).abs().max() / spread) > 100 * CHANGED
        where = "the self-attention of the encoder" if inside else "the cross-attention"
    return [
        Finding(
            NAMES[0],
            "fault",
            f"padding the source changes the logits by {largest:.2g} standard deviations; pass the "
            f"padding mask to {where}",
        )
    ]


def _encode(subject: Subject, source: Tensor) -> Tensor:
    assert subject.encode is not None
    result: Tensor = call("encode", subject.encode, (source,), 0)
    return result.detach().cpu().double()


def _language_model(subject: Subject, pad: int) -> list[Finding]:
    long, short = subject.tokens(1, LONG, 0), subject.tokens(1, SHORT, 2)
    left = subject.padding_side == "left"
    widths = (LONG - SHORT, 0) if left else (0, LONG - SHORT)
    beside = torch.cat([long, torch.nn.functional.pad(short, widths, value=pad)])
    alone = subject.predict(None, short)
    edited = short.clone()
    edited[:, 0] = subject.other(short)[:, 0]
    effect = float(change(alone, subject.predict(None, edited))[:, 1:].max())
    padded = subject.predict(None, beside)[1:]
    largest = float(change(alone, padded[:, -SHORT:] if left else padded[:, :SHORT]).max())
    if largest < limit(max(effect, largest)):
        return [
            Finding(
                NAMES[0], "ok", f"padding on the {subject.padding_side} does not change the logits"
            )
        ]
    advice = (
        "pass an attention mask, and count the positions from the first real token"
        if left
        else "pass a padding mask or a causal mask"
    )
    return [
        Finding(
            NAMES[0],
            "fault",
            f"padding on the {subject.padding_side} changes the logits of the real tokens by "
            f"{largest:.2g} standard deviations; {advice}",
        )
    ]
