"""Whether the same input gives different results in evaluation mode."""

from tfmr.doctor.finding import Finding
from tfmr.doctor.subject import CHANGED, Subject, change

NAMES = ("dropout in evaluation",)


def probe(subject: Subject) -> list[Finding]:
    """Compute the logits of the same sentences with three different random states."""
    source, target = subject.sources(2, 8), subject.tokens(2, 8, 1)
    first, *others = (subject.predict(source, target, seed) for seed in range(3))
    largest = max(float(change(first, each).max()) for each in others)
    if largest < CHANGED:
        return [Finding(NAMES[0], "ok", "the same input gives the same logits")]
    modules = subject.model.named_modules()
    active = [n for n, m in modules if m.training and "dropout" in type(m).__name__.lower()]
    where = (
        f"{active[0]} stays in training mode"
        if active
        else "F.dropout needs training=self.training, and attention needs dropout_p=0"
    )
    return [
        Finding(
            NAMES[0],
            "fault",
            f"after eval(), the same input gives logits that differ by {largest:.2g} standard "
            f"deviations; {where}",
        )
    ]
