"""``python -m benchmarks.previous_token``: what a head that attends to the previous token does.

The head is one of the encoder, by default the costliest of the trained model. The analyses are:

``ablation``
    the output of every head is replaced by zero, or by its mean over training sentences: increase
    in cross-entropy, for all tokens and, in the encoder, separately for the target tokens that the
    last cross-attention aligns to a source word of several tokens (*split*) and for the others.
``carried``
    for each encoder head, how much its output at the position after a noun changes if another noun
    takes the noun's place, and how often the noun can be decoded from this output.
``hidden noun``
    the decoder may not attend to the position of the noun: what remains of the logit difference of
    a minimal pair, and the effect of patching each encoder head on what remains.
``hidden keys``
    some keys are hidden from the head: the other tokens of the same word, or the previous token.
``path``
    the mean ablation of an encoder head reaches the decoder through its keys only, or through its
    values only.

Intervals are 95 % bootstrap intervals over sentences or pairs; those of differences are paired.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from benchmarks import record
from benchmarks.analysis import Analysis
from benchmarks.minimal_pairs import FRAMES, NOUNS, PAIRS, MinimalPair
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, markdown, only, select
from tfmr.analysis import ablate_head, patch_head, record_heads
from tfmr.attention import MultiHeadAttention
from tfmr.data.batches import Batch, Batches
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, PAD, SPECIAL
from tfmr.train.intervals import interval, ratio_of_sums, resample

TOKENS_PER_BATCH = 4096
TRAIN_SENTENCES = 1000
"""Number of training sentences from which the mean output of each head is computed."""
Names = tuple[str, int, int]
"""Kind of attention, block and head; block and head are counted from one."""


@dataclass(frozen=True)
class PreviousToken(Analysis):
    """Analyse one encoder head of a trained Transformer and record the results."""

    layer: int = 2
    """The block of the head, from 1."""
    head: int = 3
    """The head, from 1."""
    out: Path = record.FOLDER / "previous-token.json"
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
            "minimal_pairs": len(PAIRS),
            "sentences_to_decode": len(NOUNS) * len(FRAMES),
        }
        study = Study(model, tokenizer, corpus.valid, train)
        rows = [
            intact(study),
            *carried(model, tokenizer, PAIRS),
            *hidden_noun(model, tokenizer, PAIRS),
            *hidden_keys(study, self.layer, self.head),
            *path(study),
            *ablation(study),
        ]
        self.write(self.out, "previous token", rows, settings)


class Study:
    """Sentences in batches, the losses of the intact model, and the mean output of every head."""

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        pairs: Sequence[SentencePair],
        train: Sequence[SentencePair],
    ) -> None:
        self.model = model
        self.batches = batches(model, tokenizer, pairs)
        self.words = [words(tokenizer, batch.source) for batch in self.batches]
        self.kept = [batch.target_out != PAD for batch in self.batches]
        self.counts = resample(len(pairs))
        self.means = mean_outputs(model, batches(model, tokenizer, train))
        self.intact = self.losses()
        self.split = [
            (is_split(word) & (batch.source != PAD)).gather(
                1, model.alignment(batch.source, batch.target_in).argmax(dim=-1)
            )
            & keep
            for batch, word, keep in zip(self.batches, self.words, self.kept, strict=True)
        ]
        self.other = [k & ~s for k, s in zip(self.kept, self.split, strict=True)]

    @torch.no_grad()
    def losses(
        self, changes: Iterable[AbstractContextManager[None]] | None = None
    ) -> list[Float[Tensor, "batch target"]]:
        """The loss of every target token; ``changes`` change the model, one for each batch."""
        found = []
        changes = [nullcontext()] * len(self.batches) if changes is None else changes
        for batch, change in zip(self.batches, changes, strict=True):
            with change:
                logits = self.model(batch.source, batch.target_in).transpose(1, 2)
            nats = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="none")
            found.append(nats.double())
        return found

    def increase(
        self,
        losses: Sequence[Float[Tensor, "batch target"]],
        masks: Sequence[Bool[Tensor, "batch target"]],
    ) -> tuple[float, Float[np.ndarray, "resamples"]]:
        """The mean increase in the loss over the tokens of ``masks``, and in each resample."""
        change, number = (
            np.concatenate(
                [(x * mask).sum(dim=1).numpy() for x, mask in zip(xs, masks, strict=True)]
            )
            for xs in (
                [a - b for a, b in zip(losses, self.intact, strict=True)],
                [mask.double() for mask in masks],
            )
        )
        return change.sum() / number.sum(), ratio_of_sums(change, number, self.counts)


def intact(study: Study) -> Row:
    """The loss of the intact model, and the number of tokens, for both groups of target tokens."""
    row: Row = {"analysis": "intact"}
    for name, masks in (("split", study.split), ("other", study.other)):
        tokens = sum(int(mask.sum()) for mask in masks)
        nats = sum(float((x * mask).sum()) for x, mask in zip(study.intact, masks, strict=True))
        row |= {f"{name}_tokens": tokens, name: round(nats / tokens, 4)}
    return row


def batches(model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> list[Batch]:
    """The sentences as batches, the same in each call."""
    ids = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
    sorted_ = Batches(ids, TOKENS_PER_BATCH, seed=0, max_length=model.config.max_length)
    return list(sorted_.epoch(0))


def words(tokenizer: Tokenizer, ids: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """The number of the word that each token belongs to; punctuation is a word of its own."""
    names = tokenizer.tokens(list(range(tokenizer.vocab_size)))
    continues = torch.tensor(
        [not name.startswith("▁") and any(map(str.isalpha, name)) for name in names]
    )
    continues[: len(SPECIAL)] = False
    return (~continues[ids]).long().cumsum(dim=1) - 1


def is_split(word: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """Whether the word of each token has several tokens."""
    return (word[:, :, None] == word[:, None]).sum(dim=-1) > 1


def attentions(model: Transformer) -> dict[tuple[str, int], MultiHeadAttention]:
    """All attention sublayers, by kind and block."""
    stacks = {"encoder": (model.encoder, "attention"), "decoder": (model.decoder, "self_attention")}
    stacks["cross"] = (model.decoder, "cross_attention")
    return {
        (kind, layer): cast(MultiHeadAttention, getattr(block, name))
        for kind, (stack, name) in stacks.items()
        for layer, block in enumerate(cast(nn.ModuleList, stack.blocks), start=1)
    }


@torch.no_grad()
def mean_outputs(model: Transformer, sentences: Sequence[Batch]) -> dict[Names, Tensor]:
    """The mean output ``(d_k,)`` of every head over all tokens without padding."""
    sums: dict[Names, Tensor] = {}
    numbers: dict[Names, int] = {}
    for batch in sentences:
        with ExitStack() as stack:
            outputs = {
                where: stack.enter_context(record_heads(attention))
                for where, attention in attentions(model).items()
            }
            model.hidden(batch.source, batch.target_in)
        for (kind, layer), [output] in outputs.items():
            keep = batch.source != PAD if kind == "encoder" else batch.target_out != PAD
            for head in range(output.shape[1]):
                name = kind, layer, head + 1
                sums[name] = sums.get(name, 0) + output[:, head][keep].double().sum(dim=0)
                numbers[name] = numbers.get(name, 0) + int(keep.sum())
    return {name: (sums[name] / numbers[name]).to(output.dtype) for name in sums}


@contextmanager
def mean_ablation(
    attention: MultiHeadAttention, head: int, mean: Float[Tensor, "d_k"]
) -> Iterator[None]:
    """Replace the output of one head, counted from 0, by its mean at all positions."""

    def replace(_: object, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        joined = args[0].clone()
        joined[..., head * attention.d_k : (head + 1) * attention.d_k] = mean
        return (joined,)

    handle = attention.w_o.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def ablation(study: Study) -> Iterator[Row]:
    """A row per head; ``lead`` is the cost of the costliest head minus that of this one."""
    cost: dict[Names, dict[str, tuple[float, np.ndarray]]] = {}
    rows: list[tuple[Names, Row]] = []
    for (kind, layer), attention in attentions(study.model).items():
        for head in range(attention.n_heads):
            name = kind, layer, head + 1
            row: Row = {"analysis": "ablation", "kind": kind, "layer": layer, "head": head + 1}
            with ablate_head(attention, head):
                zero = study.losses()
            with mean_ablation(attention, head, study.means[name]):
                mean = study.losses()
            cost[name] = {
                "zero": study.increase(zero, study.kept),
                "mean": study.increase(mean, study.kept),
            }
            for column, (value, resampled) in cost[name].items():
                row |= with_interval(column, value, resampled)
            if kind == "encoder":
                of_split, of_other = (study.increase(mean, m) for m in (study.split, study.other))
                row |= with_interval("split", *of_split)
                row |= with_interval("other", *of_other)
                row |= with_interval("difference", *minus(of_split, of_other))
            rows.append((name, row))
    for name, row in rows:
        for column in ("zero", "mean"):
            top = max(cost, key=lambda other: cost[other][column][0])
            lead = minus(cost[top][column], cost[name][column])
            row |= with_interval(f"lead_{column}", *lead)
        yield row


Measured = tuple[float, Float[np.ndarray, "resamples"]]
"""A value, and the same in each resample."""


def minus(first: Measured, second: Measured) -> Measured:
    """The difference, paired by resample."""
    return first[0] - second[0], first[1] - second[1]


def with_interval(name: str, value: float, resampled: np.ndarray) -> Row:
    """The rounded value and its interval."""
    return {name: round(float(value), 4), f"{name}_interval": interval(resampled)}


@torch.no_grad()
def head_outputs(
    model: Transformer, source: Int[Tensor, "1 length"]
) -> list[Float[Tensor, "1 heads length d_k"]]:
    """The outputs of the heads of each block of the encoder."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(record_heads(attention))
            for (kind, _), attention in attentions(model).items()
            if kind == "encoder"
        ]
        model.encode(source)
    return [output for [output] in found]


def sides(tokenizer: Tokenizer, pair: MinimalPair) -> tuple[list[Tensor], Tensor, list[int], int]:
    """The two sources, the prefix, the two words, and the position of the noun."""
    sources = [torch.tensor([tokenizer.encode(pair.sentence.format(n))]) for n in pair.nouns]
    prefix = tokenizer.encode(pair.prefix)
    ids = [tokenizer.encode(f"{pair.prefix} {word}")[len(prefix)] for word in pair.words]
    noun = int((sources[0] != sources[1])[0].nonzero())
    return sources, torch.tensor([[BOS, *prefix]]), ids, noun


def carried(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[MinimalPair]
) -> Iterator[Row]:
    """A row per encoder head, measured at the position after the noun.

    The change is the distance of the outputs for the two nouns of a pair, divided by the mean of
    their norms. A noun is decoded from the output as the one with the nearest mean output over the
    other sentences (one of :data:`FRAMES` is left out at a time).
    """
    changes = []
    for pair in pairs:
        sources, _, _, noun = sides(tokenizer, pair)
        a, b = (torch.stack(head_outputs(model, s))[:, 0, :, noun + 1] for s in sources)
        norms = (a.norm(dim=-1) + b.norm(dim=-1)) / 2
        changes.append((a - b).norm(dim=-1) / norms)  # (block, head)
    change = torch.stack(changes).double().numpy()
    outputs = torch.stack([
        torch.stack([after_noun(model, tokenizer, frame, noun) for noun in NOUNS])
        for frame in FRAMES
    ])  # (frame, noun, block, head, d_k)  # fmt: skip
    decoded = torch.zeros(outputs.shape[2:4], dtype=torch.int64)
    for left_out in range(len(FRAMES)):
        others = torch.cat([outputs[:left_out], outputs[left_out + 1 :]]).mean(dim=0)
        distance = (outputs[left_out][:, None] - others[None]).norm(dim=-1)
        decoded += (distance.argmin(dim=1) == torch.arange(len(NOUNS))[:, None, None]).sum(dim=0)
    counts = resample(len(pairs))
    for layer in range(change.shape[1]):
        for head in range(change.shape[2]):
            values = change[:, layer, head]
            yield {
                "analysis": "carried",
                "layer": layer + 1,
                "head": head + 1,
                **with_interval("change", values.mean(), counts @ values / len(values)),
                "decoded": int(decoded[layer, head]),
            }


def after_noun(
    model: Transformer, tokenizer: Tokenizer, frame: str, noun: str
) -> Float[Tensor, "blocks heads d_k"]:
    """The output of every encoder head at the position after the noun."""
    position = len(tokenizer.encode(frame[: frame.index("{}")].strip())) + 1
    outputs = head_outputs(model, torch.tensor([tokenizer.encode(frame.format(noun))]))
    return torch.stack(outputs)[:, 0, :, position]


def hidden_noun(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[MinimalPair]
) -> Iterator[Row]:
    """The remaining fraction of the logit differences, and the effect of each head on it.

    Fractions are sums over the pairs, divided by sums over the pairs.
    """

    @torch.no_grad()
    def difference(source: Tensor, target: Tensor, ids: list[int], hidden: int | None) -> float:
        memory, mask = model.encode(source)
        if hidden is not None:
            mask = mask.clone()
            mask[..., hidden] = False
        logits = model.scores(model.decode(target, memory, mask))[0, -1]
        return float(logits[ids[0]] - logits[ids[1]])

    gaps: list[tuple[float, float]] = []
    shifts: dict[tuple[int, int], list[float]] = {}
    encoder = {n: a for (kind, n), a in attentions(model).items() if kind == "encoder"}
    for pair in pairs:
        sources, target, ids, noun = sides(tokenizer, pair)
        full, hidden = (
            [difference(source, target, ids, at) for source in sources] for at in (None, noun)
        )
        gaps.append((full[0] - full[1], hidden[0] - hidden[1]))
        outputs = [head_outputs(model, source) for source in sources]
        for layer, attention in encoder.items():
            for head in range(attention.n_heads):
                patched = []
                for clean, other in ((0, 1), (1, 0)):
                    with patch_head(attention, head, outputs[clean][layer - 1][:, head]):
                        patched.append(difference(sources[other], target, ids, noun))
                moved = (patched[0] - hidden[1]) + (hidden[0] - patched[1])
                shifts.setdefault((layer, head + 1), []).append(moved / 2)
    whole, left = np.array(gaps).T
    counts = resample(len(pairs))
    yield {
        "analysis": "hidden noun",
        **with_interval("remaining", left.sum() / whole.sum(), ratio_of_sums(left, whole, counts)),
    }
    for (layer, head), values in shifts.items():
        moves = np.array(values)
        effect = moves.sum() / left.sum(), ratio_of_sums(moves, left, counts)
        where: Row = {"analysis": "hidden noun", "layer": layer, "head": head}
        yield {**where, **with_interval("effect", *effect)}


@contextmanager
def hide_keys(
    attention: MultiHeadAttention, head: int, hidden: Bool[Tensor, "batch query key"]
) -> Iterator[None]:
    """Hide keys from one head, counted from 0: ``True`` where a query may not attend."""

    def hide(
        _: object, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]
    ) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        n = args[0].shape[1]
        mask = kwargs["mask"].expand(-1, attention.n_heads, n, n).clone()
        mask[:, head] &= ~hidden
        return args, kwargs | {"mask": mask}

    handle = attention.register_forward_pre_hook(hide, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def hidden_keys(study: Study, layer: int, head: int) -> Iterator[Row]:
    """A row per kind of keys that are hidden from one head, which may attend to all others."""
    attention = attentions(study.model)["encoder", layer]
    for name, choose in KEYS.items():
        hidden = [
            choose(word) & (batch.source != PAD)[:, None] & (batch.source != PAD)[..., None]
            for word, batch in zip(study.words, study.batches, strict=True)
        ]
        losses = study.losses(hide_keys(attention, head - 1, mask) for mask in hidden)
        yield {
            "analysis": "hidden keys",
            "layer": layer,
            "head": head,
            "hidden": name,
            "queries": sum(int(mask.any(dim=-1).sum()) for mask in hidden),
            **with_interval("loss_increase", *study.increase(losses, study.kept)),
        }


def _same_word(word: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length length"]:
    other = ~torch.eye(word.shape[1], dtype=torch.bool)
    return (word[:, :, None] == word[:, None]) & other


def _previous(word: Int[Tensor, "batch length"]) -> Bool[Tensor, "1 length length"]:
    return torch.eye(word.shape[1], dtype=torch.bool).roll(1, dims=0).tril()[None]


KEYS: dict[str, Callable[[Tensor], Tensor]] = {
    "the other tokens of the word": _same_word,
    "the previous token, if it belongs to another word": lambda w: _previous(w) & ~_same_word(w),
    "the previous token": _previous,
}
"""What is hidden: ``(batch, query, key)`` from the word of each token."""


Adapt = Callable[[int, Tensor], Tensor]
"""The change that is made instead of a change in one block of the decoder, counted from 1."""


@contextmanager
def change_projection(
    model: Transformer,
    projection: str,
    memory: Float[Tensor, "batch length d_model"],
    adapt: Adapt = lambda _, change: change,
) -> Iterator[None]:
    """Change one projection of all cross-attention, ``w_k`` or ``w_v``, as ``memory`` would.

    ``adapt`` replaces the change that ``memory`` would cause in place of the encoder output.
    """

    def shifted(
        block: int, layer: nn.Linear, args: tuple[Tensor], output: Tensor
    ) -> Float[Tensor, "batch length d"]:
        return output + adapt(block, F.linear(memory - args[0], layer.weight))

    with ExitStack() as stack:
        for (kind, block), attention in attentions(model).items():
            if kind == "cross":
                layer = getattr(attention, projection)
                stack.callback(layer.register_forward_hook(partial(shifted, block)).remove)
        yield


def memories(study: Study, layer: int, head: int) -> list[Float[Tensor, "batch length d_model"]]:
    """The encoder output of every batch with one head, counted from 1, replaced by its mean."""
    attention, mean = attentions(study.model)["encoder", layer], study.means["encoder", layer, head]
    with mean_ablation(attention, head - 1, mean), torch.no_grad():
        return [study.model.encode(batch.source)[0] for batch in study.batches]


def path(study: Study) -> Iterator[Row]:
    """A row per encoder head: its mean ablation reaches the keys or the values of the decoder."""
    for kind, layer, head in study.means:
        if kind == "encoder":
            changed = memories(study, layer, head)
            row: Row = {"analysis": "path", "layer": layer, "head": head}
            for name, projection in (("keys", "w_k"), ("values", "w_v")):
                losses = study.losses(
                    change_projection(study.model, projection, memory) for memory in changed
                )
                row |= with_interval(name, *study.increase(losses, study.kept))
            yield row


def table(rows: list[Row], settings: Row) -> list[str]:
    """A table for each analysis."""
    layer, head = settings["layer"], settings["head"]
    whole = only(rows, analysis="intact")
    return [
        f"Head {head} in block {layer} of the encoder, and the other heads beside it; "
        f"{settings['corpus']} {settings['direction']}, {settings['sentences']:,} validation "
        "sentences, one model. In parentheses: 95 % bootstrap intervals over sentences or pairs, "
        "paired for differences. The intervals are not corrected for the number of heads.",
        "Increase in cross-entropy, in nats per token, when the output of a head is replaced by "
        f"zero or by its mean over {settings['train_sentences']:,} training sentences; and the "
        "cost of the costliest head minus that of the row.",
        _table(
            select(rows, analysis="ablation"),
            {
                "zero": "zero",
                "lead_zero": "costliest minus this",
                "mean": "mean",
                "lead_mean": "costliest minus this",
            },
        ),
        "Mean ablation of the encoder heads, separately for the target tokens that the last "
        "cross-attention aligns to a source word of several tokens and for the others. The intact "
        f"model has a loss of {whole['split']:.2f} for the former ({whole['split_tokens']:,} "
        f"tokens) and of {whole['other']:.2f} for the latter.",
        _table(
            select(rows, analysis="ablation", kind="encoder"),
            {
                "split": "word of several tokens",
                "other": "others",
                "difference": "difference",
            },
        ),
        "Mean ablation of the encoder heads that reaches the decoder through the keys of its "
        "cross-attention only, or through the values only.",
        _table(select(rows, analysis="path"), {"keys": "keys", "values": "values"}),
        f"Keys that are hidden from head {head} of block {layer}.",
        markdown(
            ["hidden", "queries", "increase in cross-entropy"],
            [
                [row["hidden"], f"{row['queries']:,}", _cell(row, "loss_increase")]
                for row in select(rows, analysis="hidden keys")
            ],
        ),
        "*Change*: the distance between the outputs of a head at the position after a noun, for "
        f"the two nouns of each of the {settings['minimal_pairs']} minimal pairs, divided by their "
        "mean norm. *Decoded*: how often the noun is the one with the nearest mean output over the "
        f"other sentences, of {settings['sentences_to_decode']}.",
        markdown(
            ["", "change", "decoded"],
            [
                [_name(row), _cell(row, "change"), str(row["decoded"])]
                for row in select(rows, analysis="carried")
            ],
        ),
        "The decoder may not attend to the noun: this fraction of the logit difference remains, "
        f"{_cell(select(rows, analysis='hidden noun')[0], 'remaining')}, and patching a head "
        "at all positions restores these fractions of it.",
        _table(select(rows, analysis="hidden noun")[1:], {"effect": "effect"}),
    ]


def _table(rows: list[Row], columns: dict[str, str]) -> str:
    lines = [[_name(row), *(_cell(row, column) for column in columns)] for row in rows]
    return markdown(["", *columns.values()], lines)


def _name(row: Row) -> str:
    return f"{row.get('kind', 'encoder')} block {row['layer']}, head {row['head']}"


def _cell(row: Row, column: str) -> str:
    low, high = row[f"{column}_interval"]
    return f"{row[column]:.3f} ({low:.3f} to {high:.3f})"


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The record belongs to the model of heads.json, and the statements of chapter 13 hold."""
    heads = records["heads"]
    same = settings["model"] == heads["settings"]["model"]
    yield "the record is that of the model: run python -m benchmarks.previous_token", same
    this = {"layer": settings["layer"], "head": settings["head"]}
    ablated = only(rows, analysis="ablation", kind="encoder", **this)
    first = ablated["lead_zero"] == ablated["lead_mean"] == 0
    yield "the head is the costliest by both ablations", first
    others = [row for row in select(rows, analysis="ablation") if row is not ablated]
    ahead = all(row["lead_zero_interval"][0] > 0 for row in others)
    yield "its removal costs more than that of every other head, by paired intervals", ahead
    keys = {row["hidden"]: row["loss_increase"] for row in select(rows, analysis="hidden keys")}
    own, other, _ = keys.values()
    yield (
        "the other tokens of the word carry less than a tenth of its cost",
        (own < 0.1 * ablated["mean"]),
    )
    yield "the previous word carries more than half of its cost", other > 0.5 * ablated["mean"]
    through = only(rows, analysis="path", **this)
    yield "it acts through the keys", through["keys"] > 4 * through["values"]


if __name__ == "__main__":
    record.run(PreviousToken)
