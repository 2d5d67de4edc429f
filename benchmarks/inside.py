"""``python -m benchmarks.inside``: logit lens, activation patching and intervals of BLEU.

``logit lens``
    what the decoder would predict after each block, on the validation set with the references as
    decoder input: how often the most probable token is already the final one, its probability and
    rank, how often it is the input token, and the cross-entropy of the reference.
``patching``
    two sentences of a minimal pair (:mod:`benchmarks.minimal_pairs`) differ in one noun. A part of
    the state of one sentence replaces that of the other. The effect is the fraction of the
    difference between their logit differences that this restores: 0 for no effect, 1 if the model
    predicts as for the other sentence.
``feed-forward``
    the costliest sublayer, the first feed-forward network of the decoder: the cross-entropy if its
    output is replaced by zero, by its mean, or by its mean for the same input token, and how often
    the most probable next token is then the input token.
``repetition``
    greedy decoding with and without this sublayer, and with and without permission to generate the
    same token twice in succession.
``decoding``
    BLEU of greedy decoding and of beam search, with the interval of the difference.

Intervals are 95 % bootstrap intervals over sentences or pairs (:mod:`tfmr.train.intervals`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from benchmarks import record
from benchmarks.analysis import Analysis
from benchmarks.minimal_pairs import PAIRS, MinimalPair
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, markdown, only, select
from tfmr.analysis import (
    ablate_sublayer,
    logit_lens,
    patch_head,
    patch_residual_stream,
    record_heads,
    record_residual_stream,
)
from tfmr.attention import MultiHeadAttention
from tfmr.data.batches import Batches
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.decoder import DecoderBlock
from tfmr.fast import prepare
from tfmr.layers import FeedForward
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.special_tokens import BOS, PAD
from tfmr.train.intervals import bleu_statistics, corpus_bleu, interval, ratio_of_sums, resample
from tfmr.translator import DecoderState, IncrementalTranslator

TOKENS_PER_BATCH = 1024
"""Small, because the lens has the logits of every depth."""
TRAIN_SENTENCES = 4000
"""Number of training sentences from which the means of a sublayer's output are computed."""
BEAM = 4


@dataclass(frozen=True)
class Inside(Analysis):
    """Analyse a trained Transformer and record the results."""

    out: Path = record.FOLDER / "inside.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        model, tokenizer, corpus = self.load("residual stream")
        valid, test = corpus.valid, corpus.test
        train = list(islice(corpus.train, TRAIN_SENTENCES))
        settings = {
            "valid_sentences": len(valid),
            "test_sentences": len(test),
            "minimal_pairs": len(PAIRS),
        }
        rows = [
            *lens(model, tokenizer, valid),
            *patching(model, tokenizer, PAIRS),
            *feed_forward(model, tokenizer, valid, train),
            *repetition(model, tokenizer, valid),
            *decoding(model, tokenizer, {"validation": valid, "test": test}),
        ]
        self.write(self.out, "inside", rows, settings)


def encoded_batches(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]
) -> Batches:
    """The sentences as batches."""
    ids = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
    return Batches(ids, TOKENS_PER_BATCH, seed=0, max_length=model.config.max_length)


def lens(model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> Iterator[Row]:
    """A row per depth of the decoder, from the embeddings (0) to the last block."""
    sums: dict[str, list[Tensor]] = defaultdict(list)
    ranks, tokens = [], []
    for batch in encoded_batches(model, tokenizer, pairs).epoch(0):
        log_probs = logit_lens(model, batch.source, batch.target_in).log_softmax(dim=-1)
        keep = batch.target_out != PAD  # (batch, target)
        final = log_probs[-1].argmax(dim=-1)
        at_final = log_probs.gather(-1, final.expand(len(log_probs), -1, -1)[..., None])
        rank = (log_probs > at_final).sum(dim=-1) + 1  # (depth, batch, target)
        top = log_probs.argmax(dim=-1)
        reference = batch.target_out.expand(len(log_probs), -1, -1)[..., None]
        found = {
            "agreement": rank == 1,
            "probability": at_final[..., 0].exp(),
            "input_token": top == batch.target_in,
            "loss": -log_probs.gather(-1, reference)[..., 0],
        }
        for name, values in found.items():
            sums[name].append((values * keep).sum(dim=-1).double())
        ranks += [rank[:, row, keep[row]] for row in range(len(keep))]
        tokens.append(keep.sum(dim=1).double())
    n_tokens = torch.cat(tokens).numpy()
    by_sentence = {name: torch.cat(parts, dim=1).numpy() for name, parts in sums.items()}
    counts = resample(len(n_tokens))
    for depth in range(len(ranks[0])):
        row: Row = {"analysis": "logit lens", "depth": depth}
        for name, by_depth in by_sentence.items():
            row[name] = round(float(by_depth[depth].sum() / n_tokens.sum()), 4)
            row[f"{name}_interval"] = interval(ratio_of_sums(by_depth[depth], n_tokens, counts))
        median = weighted_medians([rank[depth] for rank in ranks], counts)
        row["median_rank"] = int(torch.cat([rank[depth] for rank in ranks]).median())
        row["median_rank_interval"] = interval(median, digits=0)
        yield row


def weighted_medians(
    values: Sequence[Int[Tensor, "_"]], counts: Int[np.ndarray, "resamples sentences"]
) -> Float[np.ndarray, "resamples"]:
    """The median over all tokens of each resample; ``values`` has one tensor per sentence."""
    flat = torch.cat(list(values)).numpy()
    sentence = np.repeat(np.arange(len(values)), [len(v) for v in values])
    order = flat.argsort(kind="stable")
    medians = []
    for weights in counts:
        cumulated = weights[sentence[order]].cumsum()
        medians.append(flat[order[np.searchsorted(cumulated, cumulated[-1] / 2)]])
    return np.array(medians, dtype=float)


Patch = tuple[Row, AbstractContextManager[None]]
"""The columns that name a patch, and a context in which it is active."""
Names = tuple[tuple[str, Any], ...]
"""The same columns, hashable."""


def patching(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[MinimalPair]
) -> Iterator[Row]:
    """A row per pair, then the mean effect of each patch over the pairs.

    Each pair is measured in both directions, and its effect is the mean of the two. Pairs for which
    the model does not prefer the right word for both sentences are left out.
    """
    effects: dict[Names, list[float]] = defaultdict(list)
    for pair in pairs:
        sides = [torch.tensor([tokenizer.encode(pair.sentence.format(n))]) for n in pair.nouns]
        prefix = tokenizer.encode(pair.prefix)
        words = [tokenizer.encode(f"{pair.prefix} {word}")[len(prefix)] for word in pair.words]
        target = torch.tensor([[BOS, *prefix]])
        first, second = (logit_difference(model, side, target, words) for side in sides)
        prefers_both = first > 0 > second
        yield {
            "analysis": "minimal pair",
            "source": pair.sentence.format(pair.nouns[0]),
            "other_source": pair.sentence.format(pair.nouns[1]),
            "prefix": pair.prefix,
            "words": list(pair.words),
            "logit_difference": round(first, 2),
            "other_logit_difference": round(second, 2),
            "used": prefers_both,
        }
        if not prefers_both:
            continue
        measured: dict[Names, list[float]] = defaultdict(list)
        both_ways = ((sides, (first, second)), (sides[::-1], (second, first)))
        for (clean, other), (from_clean, from_other) in both_ways:
            for names, patch in patches(model, clean, other, target):
                with patch:
                    patched = logit_difference(model, other, target, words)
                restored = (patched - from_other) / (from_clean - from_other)
                measured[tuple(names.items())].append(restored)
        for where, both in measured.items():
            effects[where].append(sum(both) / len(both))
    for where, values in effects.items():
        array = np.array(values)
        means = resample(len(array)) @ array / len(array)
        yield {
            "analysis": "patching",
            **dict(where),
            "pairs": len(array),
            "effect": round(float(array.mean()), 3),
            "effect_interval": interval(means, digits=3),
        }


@torch.no_grad()
def logit_difference(
    model: Transformer, source: Tensor, target: Tensor, words: Sequence[int]
) -> float:
    """The logit of the first word minus that of the second, after the last target position."""
    logits = model(source, target)[0, -1]
    return float(logits[words[0]] - logits[words[1]])


def patches(model: Transformer, clean: Tensor, other: Tensor, target: Tensor) -> Iterator[Patch]:
    """All patches with the state of ``clean``, for a forward pass of ``other``.

    The residual stream of the encoder at each depth, at the noun and at the tokens before and after
    it; each head of the encoder at all positions; the residual stream of the decoder at each depth
    and its heads at the last position, which predicts the word.
    """
    attentions = {
        (stack, layer, name): part
        for stack in ("encoder", "decoder")
        for layer, block in enumerate(getattr(model, stack).blocks, start=1)
        for name, part in block.named_children()
        if isinstance(part, MultiHeadAttention)
    }
    streams: dict[str, list[Tensor]] = {}
    heads: dict[tuple[str, int, str], list[Tensor]] = {}
    with ExitStack() as stack:
        for side in ("encoder", "decoder"):
            streams[side] = stack.enter_context(record_residual_stream(getattr(model, side)))
        for key, attention in attentions.items():
            heads[key] = stack.enter_context(record_heads(attention))
        model.hidden(clean, target)
    (noun,) = (clean != other)[0].nonzero().flatten().tolist()
    groups = {
        "noun": [noun],
        "before": list(range(noun)),
        "after": list(range(noun + 1, clean.shape[1])),
    }
    for depth, values in enumerate(streams["encoder"]):
        for name, positions in groups.items():
            where = {"part": "encoder stream", "depth": depth, "positions": name}
            yield where, patch_residual_stream(model.encoder, depth, values, positions)
    last = [target.shape[1] - 1]
    for depth, values in enumerate(streams["decoder"]):
        where = {"part": "decoder stream", "depth": depth, "positions": "last"}
        yield where, patch_residual_stream(model.decoder, depth, values, last)
    for (side, layer, name), attention in attentions.items():
        (outputs,) = heads[side, layer, name]
        kind = "self-attention" if name == "attention" else name.replace("_", "-")
        for head in range(attention.n_heads):
            where = {"part": f"{side} {kind} head", "layer": layer, "head": head + 1}
            at = None if side == "encoder" else last
            yield where, patch_head(attention, head, outputs[:, head], at)


def feed_forward(
    model: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[SentencePair],
    train: Sequence[SentencePair],
) -> Iterator[Row]:
    """A row per replacement of the output of a feed-forward network of the decoder.

    The means are those over the tokens of ``train``; a token that does not occur there has the mean
    of all tokens.
    """
    batches = encoded_batches(model, tokenizer, pairs)
    networks = feed_forward_networks(model)
    mean, by_token = mean_outputs(model, networks[0], encoded_batches(model, tokenizer, train))
    whole, tokens, _ = teacher_forced(model, batches)
    counts = resample(len(tokens))
    replaced: list[tuple[str, int, Replacement | None]] = [
        ("own", 1, None),
        ("zero", 1, lambda output, _: torch.zeros_like(output)),
        ("mean", 1, lambda output, _: mean.expand_as(output)),
        ("mean of the input token", 1, lambda _, ids: by_token[ids]),
        *(
            ("zero", k, lambda output, _: torch.zeros_like(output))
            for k in range(2, 1 + len(networks))
        ),
    ]
    for name, layer, replacement in replaced:
        losses, tokens, repeats = teacher_forced(model, batches, networks[layer - 1], replacement)
        increase = ratio_of_sums(losses - whole, tokens, counts)
        yield {
            "analysis": "feed-forward",
            "layer": layer,
            "output": name,
            "loss_increase": round(float((losses - whole).sum() / tokens.sum()), 4),
            "loss_increase_interval": interval(increase),
            "input_token": round(float(repeats.sum() / tokens.sum()), 4),
            "input_token_interval": interval(ratio_of_sums(repeats, tokens, counts)),
        }


def feed_forward_networks(model: Transformer) -> list[FeedForward]:
    """Those of the decoder, first block first."""
    return [cast(DecoderBlock, block).feed_forward for block in model.decoder.blocks]


Replacement = Callable[[Tensor, Tensor], Tensor]
"""From the output of a sublayer and the input tokens of the decoder to another output."""


@torch.no_grad()
def teacher_forced(
    model: Transformer,
    batches: Batches,
    sublayer: FeedForward | None = None,
    replacement: Replacement | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By sentence: loss, number of tokens, and how often the most probable token is the input."""
    results = []
    for batch in batches.epoch(0):
        with ExitStack() as stack:
            if sublayer is not None and replacement is not None:
                stack.callback(_replace(sublayer, replacement, batch.target_in).remove)
            logits = model(batch.source, batch.target_in)
        keep = batch.target_out != PAD
        loss = F.cross_entropy(
            logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="none"
        )
        repeats = (logits.argmax(dim=-1) == batch.target_in) & keep
        results.append(torch.stack([x.double().sum(dim=1) for x in (loss, keep, repeats)]))
    losses, tokens, repeated = torch.cat(results, dim=1).numpy()
    return losses, tokens, repeated


def _replace(sublayer: FeedForward, replacement: Replacement, ids: Tensor) -> RemovableHandle:
    return sublayer.register_forward_hook(lambda _, __, output: replacement(output, ids))


@torch.no_grad()
def mean_outputs(
    model: Transformer, sublayer: FeedForward, batches: Batches
) -> tuple[Float[Tensor, "d_model"], Float[Tensor, "vocab d_model"]]:
    """The mean output of a decoder sublayer over all tokens, and over those of each input token."""
    outputs: list[Tensor] = []
    tokens: list[Tensor] = []
    handle = sublayer.register_forward_hook(lambda _, __, output: outputs.append(output))
    for batch in batches.epoch(0):
        model.hidden(batch.source, batch.target_in)
        keep = batch.target_out != PAD
        outputs[-1] = outputs[-1][keep]
        tokens.append(batch.target_in[keep])
    handle.remove()
    output, ids = torch.cat(outputs), torch.cat(tokens)
    mean = output.mean(dim=0)
    sums = output.new_zeros(model.config.target_vocab, output.shape[1]).index_add_(0, ids, output)
    number = ids.bincount(minlength=len(sums))[:, None]
    return mean, torch.where(number > 0, sums / number.clamp(min=1), mean)


class NoRepetition:
    """A translator that never generates the token that it has just received.

    Args:
        model: a translator in evaluation mode.
    """

    def __init__(self, model: IncrementalTranslator) -> None:
        self.model = model
        self.training, self.config, self.device = model.training, model.config, model.device
        self.start, self.alignment = model.start, model.alignment
        self.count_parameters = model.count_parameters

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """The logits of the model, with that of the input token set to minus infinity."""
        logits = self.model.step(tokens, state)
        return logits.scatter(1, tokens[:, None], -torch.inf)


def repetition(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]
) -> Iterator[Row]:
    """Greedy decoding with and without the sublayer, with and without repetition."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    counts = resample(len(pairs))
    network, *_ = feed_forward_networks(model)
    for ablated in (False, True):
        for allowed in (True, False):
            with ablate_sublayer(network) if ablated else nullcontext():
                prepared = prepare(model)
            decoder = prepared if allowed else NoRepetition(prepared)
            outputs = translate(decoder, tokenizer, sources, detokenise=False)
            ids = [tokenizer.encode(text) for text in outputs]
            length = np.array([len(sentence) for sentence in ids], dtype=float)
            repeated = np.array([sum(a == b for a, b in pairwise(x)) for x in ids], dtype=float)
            resampled = corpus_bleu(bleu_statistics(outputs, references), counts)
            yield {
                "analysis": "repetition",
                "ablated": "decoder feed-forward 1" if ablated else "nothing",
                "repetition": "allowed" if allowed else "forbidden",
                "bleu": bleu(outputs, references).score,
                "bleu_interval": interval(resampled, digits=2),
                "tokens": round(float(length.mean()), 2),
                "tokens_interval": interval(counts @ length / len(ids), digits=2),
                "repeated": round(float(repeated.sum() / length.sum()), 4),
                "repeated_interval": interval(ratio_of_sums(repeated, length, counts)),
            }


def decoding(
    model: Transformer, tokenizer: Tokenizer, splits: dict[str, Sequence[SentencePair]]
) -> Iterator[Row]:
    """A row per set: BLEU of greedy decoding and beam search, and their difference."""
    prepared = prepare(model)
    for split, pairs in splits.items():
        sources, references = (list(side) for side in zip(*pairs, strict=True))
        counts = resample(len(pairs))
        row: Row = {"analysis": "decoding", "split": split}
        resampled = {}
        for name, beam in (("greedy", 1), (f"beam{BEAM}", BEAM)):
            outputs = translate(prepared, tokenizer, sources, beam=beam, detokenise=False)
            resampled[name] = corpus_bleu(bleu_statistics(outputs, references), counts)
            row[name] = bleu(outputs, references).score
            row[f"{name}_interval"] = interval(resampled[name], digits=2)
        difference = resampled[f"beam{BEAM}"] - resampled["greedy"]
        row["difference"] = round(row[f"beam{BEAM}"] - row["greedy"], 2)
        row["difference_interval"] = interval(difference, digits=2)
        row["resamples_with_beam_ahead"] = round(float((difference > 0).mean()), 3)
        yield row


TABLES: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, str]]]] = {
    "logit lens": (
        "Logit lens: what the decoder predicts after each block (0: the embeddings). Agreement is "
        "the fraction of positions at which the most probable token is the same as after the last "
        "block; probability and rank are those of the token that is the most probable after the "
        "last block. *Most probable: input token* is the fraction of positions at which the most "
        "probable token is the input token.",
        ("depth",),
        {
            "agreement": ("agreement", ".3f"),
            "probability": ("probability", ".3f"),
            "median_rank": ("median rank", ".0f"),
            "input_token": ("most probable: input token", ".3f"),
            "loss": ("cross-entropy", ".2f"),
        },
    ),
    "patching": (
        "Activation patching with pairs of German sentences that differ in one noun: noun 1 "
        "in the first sentence, noun 2 in the second. For each sentence of a pair, the logit "
        "difference is the logit of the translation of noun 1 minus the logit of the translation "
        "of noun 2. The effect of a patch is the fraction of the gap between the two logit "
        "differences that the patch closes. *Before* and *after* are all positions before or after "
        "the noun, patched together; "
        "*last* is the last position of the decoder.",
        ("part", "depth", "layer", "head", "positions"),
        {"effect": ("effect", ".3f")},
    ),
    "feed-forward": (
        "Each row states what replaces the output of one feed-forward network of the decoder: "
        "zeros (*zero*), its mean over the tokens of 4,000 training sentences (*mean*), or its "
        "mean over those tokens that equal the input token (*mean of the input token*). In the "
        "row *own*, nothing is replaced. The columns give the increase in cross-entropy and the "
        "fraction of positions at which the most probable next token is the input token.",
        ("layer", "output"),
        {
            "loss_increase": ("increase in cross-entropy", ".3f"),
            "input_token": ("most probable: input token", ".4f"),
        },
    ),
    "repetition": (
        "Greedy decoding of the validation set; each row names the ablated sublayer and states "
        "whether a token may follow itself. *Repeated* is the fraction of tokens that equal the "
        "previous token. It is computed after the translation has been tokenised again, so it can "
        "exceed 0 even where repetition is forbidden.",
        ("ablated", "repetition"),
        {
            "bleu": ("BLEU", ".1f"),
            "tokens": ("tokens per sentence", ".1f"),
            "repeated": ("repeated", ".3f"),
        },
    ),
    "decoding": (
        "BLEU of greedy decoding and of beam search.",
        ("split",),
        {
            "greedy": ("greedy", ".1f"),
            "beam4": ("beam 4", ".1f"),
            "difference": ("difference", ".1f"),
        },
    ),
}
"""For each analysis: a description, the columns that name a row, and title and format of the
others."""


def table(rows: list[Row], settings: Row) -> list[str]:
    """A table for each analysis, with intervals."""
    parts = [
        f"Analyses of the recorded model on {settings['corpus']} {settings['direction']}. In "
        "parentheses: 95 % bootstrap intervals over sentences or pairs."
    ]
    for analysis, (about, names, columns) in TABLES.items():
        lines = [
            [
                ", ".join(_named(name, row[name], names) for name in names if name in row),
                *(_with_interval(row, column, form) for column, (_, form) in columns.items()),
            ]
            for row in select(rows, analysis=analysis)
        ]
        header = [names[0] if len(names) == 1 else "", *(title for title, _ in columns.values())]
        parts += [about, markdown(header, lines)] if lines else []
    return parts


def _named(name: str, value: object, names: Sequence[str]) -> str:
    """A number with its name where several columns name a row; a text alone."""
    title = "block" if name == "layer" else name
    return f"{title} {value}" if isinstance(value, int) and len(names) > 1 else str(value)


def _with_interval(row: Row, column: str, form: str) -> str:
    low, high = row[f"{column}_interval"]
    return f"{row[column]:{form}} ({low:{form}} to {high:{form}})"


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The record belongs to the model of heads.json and agrees with it where both measure."""
    heads = records["heads"]
    same = settings["model"] == heads["settings"]["model"]
    yield "the record is that of the model: run python -m benchmarks.inside", same
    intact = heads["rows"][0]
    last = select(rows, analysis="logit lens")[-1]
    equal = abs(last["loss"] - intact["valid_loss"]) < 1e-3
    yield "the lens ends with the loss of heads.json", equal and last["agreement"] == 1
    validation = only(rows, analysis="decoding", split="validation")
    equal = abs(validation["greedy"] - intact["valid_bleu"]) < 0.05
    yield "greedy decoding has the BLEU of heads.json", equal
    for row in select(rows, analysis="decoding"):
        ahead = row["difference_interval"][0] > 0
        yield f"beam search is ahead of greedy decoding on the {row['split']} set", ahead
    noun = min(row["effect"] for row in select(rows, part="encoder stream", positions="noun"))
    yield "the difference stays at the noun's position in the encoder", noun > 0.98
    largest = max((row for row in rows if "head" in row), key=lambda row: row["effect"])
    place = (largest["part"], largest["layer"], largest["head"])
    expected = ("decoder cross-attention head", 3, 4)
    yield "cross-attention 3, head 4 carries the largest part of the difference", place == expected
    zero, mean, by_token = (
        only(rows, analysis="feed-forward", layer=1, output=output)["loss_increase"]
        for output in ("zero", "mean", "mean of the input token")
    )
    yield "a constant does not replace feed-forward 1", mean > 0.9 * zero
    yield "a mean per input token replaces nine tenths of it", by_token < 0.1 * zero
    greedy = {
        (row["ablated"] == "nothing", row["repetition"] == "allowed"): row["bleu"]
        for row in select(rows, analysis="repetition")
    }
    ablated = greedy[False, True]
    regained = (greedy[False, False] - ablated) / (greedy[True, True] - ablated)
    claim = f"repetition is more than two thirds of the BLEU lost without it: {regained:.2f}"
    yield claim, regained > 2 / 3


if __name__ == "__main__":
    record.run(Inside)
