"""Whether embeddings that are counted as tied share their weights."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from tfmr.doctor.finding import Finding, UndecidedError
from tfmr.doctor.subject import Subject

NAMES = ("embeddings not tied",)


def probe(subject: Subject) -> list[Finding]:
    """Compare the number of parameters with the stated one; search for equal copies."""
    distinct = {each.untyped_storage().data_ptr(): each for each in subject.model.parameters()}
    sizes = {subject.vocab, subject.source_vocab}
    tables = [each for each in distinct.values() if each.dim() == 2 and sizes & {*each.shape}]
    total = sum(each.numel() for each in distinct.values())
    if _claims_tied(subject.model):
        text = (
            "tie_word_embeddings is set, but input and output have separate weights; "
            "call tie_weights()"
        )
        return [Finding(NAMES[0], "fault", text)]
    if _has_copies(tables):
        text = "two embedding matrices are equal copies; assign the same nn.Parameter to both"
        return [Finding(NAMES[0], "fault", text)]
    if subject.parameters is None:
        raise UndecidedError("pass `parameters`, the number that you counted, to examine the tying")
    surplus = total - subject.parameters
    if surplus == 0:
        return [Finding(NAMES[0], "ok", f"the model has {total:,} parameters, as stated")]
    groups = [each for k in (1, 2) for each in combinations(tables, k)]
    if surplus not in [sum(table.numel() for table in group) for group in groups]:
        raise UndecidedError(
            f"the model has {total:,} parameters instead of {subject.parameters:,}; the difference "
            "is not the size of an embedding matrix"
        )
    text = (
        f"the model has {total:,} parameters, {surplus:,} more than stated, the size of an "
        "embedding matrix; assign the same nn.Parameter to both modules"
    )
    return [Finding(NAMES[0], "fault", text)]


def _has_copies(tables: Sequence[Tensor]) -> bool:
    return any(
        a.shape == b.shape and torch.equal(a, b) and float(a.detach().std()) > 0
        for a, b in combinations(tables, 2)
    )


def _claims_tied(model: nn.Module) -> bool:
    """Whether the configuration of a Hugging Face model states a tie that does not exist."""
    if not getattr(getattr(model, "config", None), "tie_word_embeddings", False):
        return False
    modules = [
        getattr(model, name, lambda: None)()
        for name in ("get_input_embeddings", "get_output_embeddings")
    ]
    weights = [getattr(module, "weight", None) for module in modules]
    places = {w.untyped_storage().data_ptr() for w in weights if isinstance(w, Tensor)}
    return len(places) == 2
