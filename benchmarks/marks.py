"""``python -m benchmarks.marks``: controls for what an encoder head writes at each position.

The head of :mod:`benchmarks.previous_token` attends mostly to the previous token, and its mean
ablation acts through the keys of cross-attention. Its output at a position is called its *mark*
here. The analyses are:

``attended``
    the head puts all its weight on one token: the previous one, one of its neighbours, or a random
    token of the sentence.
``keys``
    the change that the mean ablation makes in the keys is replaced by another change of the same
    size (:func:`size`).
``exchanged``
    the marks are exchanged between the positions of a sentence, for the keys only: the weight of
    cross-attention on the position that is aligned with a target token, on the position that
    receives its mark, and on each of the others.

Intervals are 95 % bootstrap intervals over sentences, paired for differences. They do not contain
the variation between the random draws, whose results are recorded as well.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmarks import record
from benchmarks.analysis import Analysis
from benchmarks.previous_token import (
    TRAIN_SENTENCES,
    Adapt,
    Measured,
    Study,
    attentions,
    change_projection,
    hide_keys,
    mean_ablation,
    memories,
    minus,
    with_interval,
)
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, Claims, count, markdown, only, select
from tfmr.analysis import patch_head, record_attention, record_heads
from tfmr.attention import MultiHeadAttention
from tfmr.data.batches import Batch
from tfmr.special_tokens import PAD
from tfmr.train.intervals import ratio_of_sums

OFFSETS = {"the previous token": -1, "the token before that": -2, "its own": 0, "the next": 1}
"""Tokens by their distance from the query; at the ends of a sentence, the first or the last."""
Losses = list[Float[Tensor, "batch target"]]


@dataclass(frozen=True)
class Marks(Analysis):
    """Test what one encoder head of a trained Transformer does, and record the results."""

    layer: int = 2
    """The block of the head, from 1."""
    head: int = 3
    """The head, from 1."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of the random draws."""
    out: Path = record.FOLDER / "marks.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        model, tokenizer, corpus = self.load("heads")
        train = list(islice(corpus.train, TRAIN_SENTENCES))
        settings = {
            "layer": self.layer,
            "head": self.head,
            "sentences": len(corpus.valid),
            "train_sentences": len(train),
            "seeds": list(self.seeds),
        }
        study = Study(model, tokenizer, corpus.valid, train)
        rows = [
            *attended(study, self.layer, self.head, self.seeds),
            *keys(study, self.layer, self.head, self.seeds),
            *exchanged(study, self.layer, self.head, self.seeds),
        ]
        self.write(self.out, "marks", rows, settings)


def orders(study: Study, seed: int) -> list[Int[Tensor, "batch length"]]:
    """A random order of the positions of each sentence; the padding stays behind them."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.rand(batch.source.shape, generator=generator) + (batch.source == PAD)).argsort(dim=1)
        for batch in study.batches
    ]


def neighbours(study: Study, offset: int) -> list[Int[Tensor, "batch length"]]:
    """For each position, the one at a distance; the nearest one if the sentence ends before."""
    found = []
    for batch in study.batches:
        last = (batch.source != PAD).sum(dim=1, keepdim=True) - 1
        position = torch.arange(batch.source.shape[1]) + offset
        found.append(position.clamp(min=0).minimum(last))
    return found


def averaged(study: Study, draws: Sequence[Losses]) -> tuple[Measured, Row]:
    """The mean increase in the loss over random draws, and columns with that of each draw."""
    means = [torch.stack(of_batch).mean(dim=0) for of_batch in zip(*draws, strict=True)]
    cost = study.increase(means, study.kept)
    each = [round(float(study.increase(draw, study.kept)[0]), 4) for draw in draws]
    return cost, with_interval("loss_increase", *cost) | {"draws": each}


def attended(study: Study, layer: int, head: int, seeds: Sequence[int]) -> Iterator[Row]:
    """A row per attended token; ``less`` is the cost of mean ablation minus that of the row."""
    attention = attentions(study.model)["encoder", layer]

    def attending(targets: list[Int[Tensor, "batch length"]]) -> Losses:
        others = (at[..., None] != torch.arange(at.shape[1]) for at in targets)
        return study.losses(hide_keys(attention, head - 1, hidden) for hidden in others)

    with mean_ablation(attention, head - 1, study.means["encoder", layer, head]):
        ablated, row = averaged(study, [study.losses()])
    yield {"analysis": "attended", "attended": "mean ablation", **row}
    chosen = {name: [neighbours(study, offset)] for name, offset in OFFSETS.items()}
    chosen["a random token"] = [orders(study, seed) for seed in seeds]
    for name, draws in chosen.items():
        cost, row = averaged(study, [attending(targets) for targets in draws])
        row |= with_interval("less", *minus(ablated, cost))
        yield {"analysis": "attended", "attended": name, **row}


def keys(study: Study, layer: int, head: int, seeds: Sequence[int]) -> Iterator[Row]:
    """A row per change of the keys; ``less`` is the cost of the head's own change minus the row's.

    A rotation multiplies the change of each key by a random orthogonal matrix, one for each head of
    cross-attention, so it preserves all norms, and the angles between positions. The change by the
    mean ablation of another encoder head is scaled to the size of the head's own.
    """
    own = memories(study, layer, head)
    own_size = size(study, own)

    def changing(to: list[Tensor], adapt: Iterable[Adapt]) -> Losses:
        return study.losses(map(partial(change_projection, study.model, "w_k"), to, adapt))

    def scaled(to: list[Tensor], factor: float) -> Losses:
        return changing(to, repeat(lambda _, change: factor * change))

    def reordered(seed: int) -> Losses:
        return changing(own, [partial(_reorder, order) for order in orders(study, seed)])

    def rotated(seed: int) -> Losses:
        return changing(own, repeat(partial(_rotate, rotations(study, seed))))

    cost, row = averaged(study, [scaled(own, 1.0)])
    yield {"analysis": "keys", "change": "of this head", "size": round(own_size, 4), **row}
    changes = {
        "the opposite": [scaled(own, -1.0)],
        "at other positions": [reordered(seed) for seed in seeds],
        "rotated": [rotated(seed) for seed in seeds],
    }
    for name, draws in changes.items():
        other, row = averaged(study, draws)
        row |= with_interval("less", *minus(cost, other))
        yield {"analysis": "keys", "change": name, **row}
    for kind, *where in study.means:
        if kind == "encoder" and where != [layer, head]:
            changed = memories(study, *where)
            changed_size = size(study, changed)
            other, row = averaged(study, [scaled(changed, own_size / changed_size)])
            row |= with_interval("less", *minus(cost, other))
            name = f"of block {where[0]}, head {where[1]}"
            yield {"analysis": "keys", "change": name, "size": round(changed_size, 4), **row}


def cross_attentions(study: Study) -> dict[int, MultiHeadAttention]:
    """The cross-attention sublayers by block, from 1."""
    found = attentions(study.model).items()
    return {block: attention for (kind, block), attention in found if kind == "cross"}


@torch.no_grad()
def size(study: Study, changed: list[Float[Tensor, "batch length d_model"]]) -> float:
    """The root mean square, over tokens and blocks, of the vector norm of the change of a key.

    ``changed`` is the changed encoder output. The mean change over the positions of a sentence is
    subtracted: the softmax does not depend on it.
    """
    squares, number = 0.0, 0
    for batch, memory in zip(study.batches, changed, strict=True):
        keep = (batch.source != PAD)[..., None]
        difference = memory - study.model.encode(batch.source)[0]
        for attention in cross_attentions(study).values():
            change = F.linear(difference, attention.w_k.weight) * keep
            change -= change.sum(dim=1, keepdim=True) / keep.sum(dim=1, keepdim=True)
            squares += float((change * keep).square().sum())
            number += int(keep.sum())
    return math.sqrt(squares / number)


def rotations(study: Study, seed: int) -> dict[int, Float[Tensor, "heads d_k d_k"]]:
    """A random orthogonal matrix for each head of cross-attention, by block."""
    generator = torch.Generator().manual_seed(seed)
    return {
        block: torch.stack([
            nn.init.orthogonal_(torch.empty(a.d_k, a.d_k), generator=generator)
            for _ in range(a.n_heads)
        ])
        for block, a in cross_attentions(study).items()
    }  # fmt: skip


def _rotate(
    matrices: dict[int, Tensor], block: int, change: Float[Tensor, "batch length d"]
) -> Float[Tensor, "batch length d"]:
    heads = change.unflatten(-1, matrices[block].shape[:2])
    return torch.einsum("bnhk,hkl->bnhl", heads, matrices[block]).flatten(2)


def _reorder(
    order: Int[Tensor, "batch length"], _: object, x: Float[Tensor, "batch length d"]
) -> Float[Tensor, "batch length d"]:
    return x.gather(1, order[..., None].expand_as(x))


PLACES = ("own", "receiver", "others")
"""The position that is aligned with a target token, the one that receives its mark, the others."""


@torch.no_grad()
def exchanged(study: Study, layer: int, head: int, seeds: Sequence[int]) -> Iterator[Row]:
    """A row per decoder block: the weights before the exchange, and how much they grow.

    ``gain`` is the growth at the position that receives the mark minus that at each other position.
    A target token counts if the position to which the last cross-attention attends most, on average
    over its heads, loses its mark.
    """
    attention = attentions(study.model)["encoder", layer]
    draws, numbers = [], []
    for seed in seeds:
        sums, counts = [], []
        for batch, keep, order in zip(study.batches, study.kept, orders(study, seed), strict=True):
            before = weights(study, batch)
            with record_heads(attention) as outputs:
                study.model.encode(batch.source)
            marks = _reorder(order, None, outputs[0][:, head - 1])
            with patch_head(attention, head - 1, marks):
                memory, _ = study.model.encode(batch.source)
            with change_projection(study.model, "w_k", memory):
                after = weights(study, batch)
            own = before[-1].argmax(dim=-1)
            receiver = order.argsort(dim=1).gather(1, own)
            others = (batch.source != PAD).sum(dim=1, keepdim=True) - 2
            moved = keep & (receiver != own) & (others > 0)
            at = [_at_places(x, own, receiver, others) for x in (before, after - before)]
            sums.append((torch.stack(at) * moved).double().sum(dim=-1))
            counts.append(moved.sum(dim=-1))
        draws.append(torch.cat(sums, dim=-1))
        numbers.append(torch.cat(counts))
    number = torch.stack(numbers).sum(dim=0).double().numpy()  # (sentences,)
    for block, (before, growth) in enumerate(torch.stack(draws).sum(dim=0).unbind(2), start=1):
        columns = dict(zip(PLACES, before, strict=True))
        columns |= {f"{place}_growth": x for place, x in zip(PLACES, growth, strict=True)}
        columns["gain"] = columns["receiver_growth"] - columns["others_growth"]
        row: Row = {"analysis": "exchanged", "block": block, "tokens": int(number.sum())}
        for name, column in columns.items():
            values = column.numpy()
            resampled = ratio_of_sums(values, number, study.counts)
            row |= with_interval(name, values.sum() / number.sum(), resampled)
        yield row


def weights(study: Study, batch: Batch) -> Float[Tensor, "blocks batch target source"]:
    """The weights of cross-attention, averaged over the heads of each block."""
    with record_attention(study.model.decoder) as maps:
        study.model.hidden(batch.source, batch.target_in)
    return torch.stack([w.mean(dim=1) for name, [w] in maps.items() if "cross" in name])


def _at_places(
    x: Float[Tensor, "blocks batch target source"],
    own: Int[Tensor, "batch target"],
    receiver: Int[Tensor, "batch target"],
    others: Int[Tensor, "batch 1"],
) -> Float[Tensor, "places blocks batch target"]:
    """``x`` at the two positions, and its mean over the other positions, whose number is given."""
    at = [x.gather(3, i.expand(len(x), *i.shape)[..., None])[..., 0] for i in (own, receiver)]
    return torch.stack([*at, (x.sum(dim=-1) - at[0] - at[1]) / others.clamp(min=1)])


def table(rows: list[Row], settings: Row) -> list[str]:
    """A table for each analysis."""
    layer, head = settings["layer"], settings["head"]
    draws = f"means of {count(len(settings['seeds']), 'random draw')}"
    return [
        f"Head {head} in block {layer} of the encoder; {settings['corpus']} "
        f"{settings['direction']}, {settings['sentences']:,} validation sentences, one model. In "
        "parentheses: 95 % bootstrap intervals over the sentences, paired for differences.",
        "Increase in cross-entropy, in nats per token, if the head puts all its weight on one "
        f"token, and by how much its mean ablation costs more. *A random token*: {draws}.",
        markdown(
            ["the head attends to", "increase", "mean ablation minus this"],
            [
                [row["attended"], _cell(row, "loss_increase"), _cell(row, "less")]
                for row in select(rows, analysis="attended")
            ],
        ),
        "Increase in cross-entropy, in nats per token, if the keys of cross-attention change as by "
        "the mean ablation of an encoder head, the queries and values staying as they are, and by "
        "how much the change of this head costs more. All changes have the same size; the column "
        "*size* has their sizes before those of the other heads were scaled: the root mean square "
        "of the norm of the change of a key, without the mean over the sentence. *At other "
        f"positions* (in a random order) and *rotated* (by random matrices): {draws}.",
        markdown(
            ["change of the keys", "size", "increase", "change of this head minus this"],
            [
                [
                    row["change"],
                    f"{row['size']:.2f}" if "size" in row else NOTHING,
                    _cell(row, "loss_increase"),
                    _cell(row, "less"),
                ]
                for row in select(rows, analysis="keys")
            ],
        ),
        "The outputs of the head are exchanged at random between the positions of a sentence, for "
        f"the keys of cross-attention only ({draws}): the weight of cross-attention, mean over its "
        "heads, on the position that is aligned with a target token, on the position that receives "
        "its mark, and on each other position, before the exchange, and how much it grows.",
        markdown(
            ["", *(f"{place}, before" for place in PLACES), *(f"{p}, growth" for p in PLACES),
             "receiver minus others"],
            [
                [
                    f"decoder block {row['block']}",
                    *(f"{row[place]:.3f}" for place in PLACES),
                    *(_cell(row, f"{place}_growth") for place in PLACES),
                    _cell(row, "gain"),
                ]
                for row in select(rows, analysis="exchanged")
            ],
        ),
    ]  # fmt: skip


def _cell(row: Row, column: str) -> str:
    if column not in row:
        return NOTHING
    low, high = row[f"{column}_interval"]
    return f"{row[column]:.3f} ({low:.3f} to {high:.3f})"


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The record belongs to that of the head, and the statements of chapter 13 hold."""
    study = records["previous-token"]
    same = all(settings[key] == study["settings"][key] for key in ("model", "layer", "head"))
    yield "the record is of the head of previous-token.json: run python -m benchmarks.marks", same
    ablated, previous, *others = select(rows, analysis="attended")
    own, *changes = select(rows, analysis="keys")
    this = {"layer": settings["layer"], "head": settings["head"]}
    for row, column, measured in (
        (ablated, "mean", only(study["rows"], analysis="ablation", kind="encoder", **this)),
        (own, "keys", only(study["rows"], analysis="path", **this)),
    ):
        close = abs(row["loss_increase"] - measured[column]) < 0.001
        yield f"the cost of {column} is that of previous-token.json", close
    low, high = previous["loss_increase_interval"]
    small = low < 0 and high < ablated["loss_increase"] / 5
    yield "all weight on the previous token costs less than a fifth of mean ablation", small
    larger = all(row["loss_increase_interval"][0] > high for row in others)
    yield "every other token costs more", larger
    less = all(row["less_interval"][0] > 0 for row in changes[:3])
    yield "the opposite, the reordered and the rotated changes cost less", less
    fifth = changes[2]["loss_increase"] < own["loss_increase"] / 5
    yield "a rotated change costs less than a fifth", fifth
    largest = all(row["size"] < own["size"] for row in changes[3:])
    yield "no other head changes the keys as much", largest
    gains = [row["gain_interval"][0] > 0 for row in select(rows, analysis="exchanged")]
    yield "cross-attention follows the marks in every block", all(gains)


if __name__ == "__main__":
    record.run(Marks)
