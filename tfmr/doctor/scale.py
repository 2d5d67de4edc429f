"""Whether attention scores are divided by the square root of the width of a head."""

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.subject import Subject
from tfmr.doctor.trace import Attention, attentions

NAMES = ("scores not scaled",)


def probe(subject: Subject) -> list[Finding]:
    """Follow queries and keys to the softmax, and multiply the scalar factors on the way."""
    source, target = subject.sources(2, 7), subject.tokens(2, 9, 1)
    found = attentions(subject.model, lambda: subject.predict(source, target))
    decided = [each for each in found if each.width > 1 and not each.is_normed]
    if not decided:
        raise UndecidedError(
            "queries and keys are normalised, so their scale is learned"
            if found
            else "no product of queries and keys before a softmax was found"
        )
    unscaled = [each for each in decided if is_unscaled(each)]
    if not unscaled:
        text = f"the scores of the first attention layer are multiplied by {decided[0].factor:.3g}"
        return [Finding(NAMES[0], "ok", text)]
    worst = unscaled[0]
    return [
        Finding(
            NAMES[0],
            "fault",
            f"in {len(unscaled)} of {len(decided)} attention layers, the scores are multiplied by "
            f"{worst.factor:.3g} instead of 1/√{worst.width} = {worst.width**-0.5:.3g} before the "
            "softmax",
        )
    ]


def is_unscaled(attention: Attention) -> bool:
    """Whether the factor is nearer to 1 than to the inverse square root of the width.

    In T5, the initial weights of the query projection contain the factor, so there it is no fault.
    """
    middle: float = attention.width**-0.25
    return min(attention.factor, attention.ratio) > middle
