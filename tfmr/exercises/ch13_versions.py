"""Solutions, known mistakes and wrong versions of the exercises of chapter 13."""

import csv
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.analysis import ablate_head, entropy, record_attention, uniform_attention
from tfmr.attention import MultiHeadAttention
from tfmr.checkpoint import load_translator
from tfmr.data.batches import collate
from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate
from tfmr.records import record_path

OTHER_HEAD = Mistake(
    "the first head is ablated instead of the second",
    "Keep the output 2 of the first head; the second head has the second row of W^O.",
    "outputs",
)
COLUMN = Mistake(
    "a column of W^O is set to zero instead of a row",
    "The output of a head is multiplied by a row of W^O.",
    "outputs",
)
TRANSPOSED = Mistake(
    "the matrix W^O is transposed",
    "Each head contributes its output times its own row: the first head contributes 2 (1, −1).",
    "outputs",
)
ADDED = Mistake(
    "the mean is added to the output of the head",
    "The mean replaces the output 3.",
    "outputs",
)
SUBTRACTED = Mistake(
    "the mean is subtracted from the output of the head",
    "The mean replaces the output 3.",
    "outputs",
)
CHANGES = Mistake(
    "the changes are given instead of the outputs",
    "Give the output of the sublayer after each ablation, not its difference from (8, 1).",
    "outputs",
)
ONE_HEAD = Mistake(
    "only the second head is counted",
    "The first head still contributes its term to the sum.",
    "outputs",
)
REMAINDER = Mistake(
    "the effect is the fraction of the gap that is left",
    "The effect is 0 if patching changes nothing: start from the second sentence.",
    "effect",
)
NOT_DIVIDED = Mistake(
    "the effect is not divided by the gap",
    "Divide by the gap between the two sentences, so that a complete restoration is 1.",
    "effect",
)
BY_FIRST = Mistake(
    "the effect is divided by the difference of the first sentence",
    "Divide by the gap between both sentences: −4 counts, too.",
    "effect",
)
LOST_SIGN = Mistake(
    "the gap between 6 and −4 is computed without the sign",
    "The gap is the first difference minus the second, and the second is negative.",
    "effect",
)
HAND_MISTAKES = (
    OTHER_HEAD,
    COLUMN,
    TRANSPOSED,
    ADDED,
    SUBTRACTED,
    CHANGES,
    ONE_HEAD,
    REMAINDER,
    NOT_DIVIDED,
    BY_FIRST,
    LOST_SIGN,
)


def by_hand_with(faults: Faults) -> list[float]:
    """The outputs after zero and mean ablation, and an effect of patching, with mistakes."""
    [fault] = faults or {""}
    right = [2.0, -2.0, 4.0, -1.0]
    outputs = {
        OTHER_HEAD.name: [6.0, 3.0, 7.0, 2.0],
        COLUMN.name: [8.0, 0.0, 4.0, -1.0],
        TRANSPOSED.name: [2.0, 4.0, 1.0, 5.0],
        ADDED.name: [2.0, -2.0, 10.0, 2.0],
        SUBTRACTED.name: [2.0, -2.0, 6.0, 0.0],
        CHANGES.name: [-6.0, -3.0, -4.0, -2.0],
        ONE_HEAD.name: [0.0, 0.0, 2.0, 1.0],
    }
    effects = {
        REMAINDER.name: 0.7,
        NOT_DIVIDED.name: 3.0,
        BY_FIRST.name: 0.5,
        LOST_SIGN.name: 1.5,
    }
    return [*outputs.get(fault, right), effects.get(fault, 0.3)]


def relative_entropy(
    weights: Float[Tensor, "query key"], allowed: Bool[Tensor, "query key"]
) -> Float[Tensor, ""]:
    """The mean entropy of attention weights, relative to uniform attention."""
    nats: Tensor = torch.special.entr(weights).sum(dim=-1)
    largest = allowed.sum(dim=-1).log()
    return nats.mean() / largest.mean()


_NATS = "torch.special.entr(weights).sum(dim=-1)"
_RELATIVE = "nats.mean() / largest.mean()"
ENTROPY_MISTAKES = (
    Edit(
        "weights of zero give NaN",
        "A weight of zero contributes nothing, but its logarithm is not finite: handle it "
        "separately.",
        "nats",
        _NATS,
        "-(weights * weights.log()).sum(dim=-1)",
    ),
    Edit(
        "the logarithms are not weighted",
        "Multiply each logarithm by its weight before you add.",
        "nats",
        _NATS,
        "-weights.log().sum(dim=-1)",
    ),
    Edit(
        "the entropy is in bits, and its largest value in nats",
        "Use the same base in both logarithms.",
        "nats",
        _NATS,
        "torch.special.entr(weights).sum(dim=-1) / torch.log(torch.tensor(2.0))",
    ),
    Edit(
        "the terms are added over the queries",
        "Each query has its own distribution over the keys.",
        "nats",
        _NATS,
        "torch.special.entr(weights).sum(dim=0)",
    ),
    Edit(
        "a softmax is applied to the weights",
        "Use the weights as they are: those of a query already sum to 1.",
        "nats",
        _NATS,
        "torch.special.entr(weights.softmax(dim=-1)).sum(dim=-1)",
    ),
    Edit(
        "the sign is missing",
        "Negate the sum: logarithms of weights are negative, but an entropy is not.",
        "nats",
        _NATS,
        "-torch.special.entr(weights).sum(dim=-1)",
    ),
    Edit(
        "keys that the mask hides count in the largest entropy",
        "The largest entropy of a query depends on the number of keys that it may attend to.",
        "largest",
        "allowed.sum(dim=-1).log()",
        "torch.full((len(allowed),), float(allowed.shape[-1])).log()",
    ),
    Edit(
        "the entropy is divided by the number of keys",
        "Divide by the entropy of uniform weights over these keys.",
        "largest",
        "allowed.sum(dim=-1).log()",
        "allowed.sum(dim=-1).double()",
    ),
    Edit(
        "the ratios of the queries are averaged",
        "Average the entropies and the largest entropies first: with a single key, both are 0.",
        "ratio",
        _RELATIVE,
        "(nats / largest).mean()",
    ),
    Edit(
        "the ratios of the queries with several keys are averaged",
        "Average the entropies of all queries and their largest values first, and divide once.",
        "ratio",
        _RELATIVE,
        "(nats / largest)[largest > 0].mean()",
    ),
    Edit(
        "the entropy is not divided by its largest value",
        "Divide by the mean entropy of uniform weights.",
        "ratio",
        _RELATIVE,
        "nats.mean()",
    ),
    Edit(
        "the result is subtracted from 1",
        "Return the quotient itself: it is 1 for uniform weights.",
        "ratio",
        _RELATIVE,
        f"1 - {_RELATIVE}",
    ),
)


def mean_ablated(
    heads: Float[Tensor, "batch heads length d_v"],
    real: Bool[Tensor, "batch length"],
    w_o: Float[Tensor, "heads_d_v d_model"],
    head: int,
) -> Float[Tensor, "batch length d_model"]:
    """The output of an attention sublayer in which a head is replaced by its mean."""
    heads = heads.clone()
    heads[:, head] = heads[:, head][real].mean(dim=0)
    joined = heads.transpose(1, 2).flatten(2)
    return joined @ w_o


_REPLACED = "heads[:, head] = heads[:, head][real].mean(dim=0)"
_OWN_MEAN = " = heads[:, head][real].mean(dim=0)"
ABLATED_MISTAKES = (
    Edit(
        "the head is replaced by zero",
        "Replace its output by the mean over the tokens.",
        "mean",
        _OWN_MEAN,
        " = 0",
    ),
    Edit(
        "the head is not replaced",
        "Write the mean into the outputs of this head, at every position.",
        "head mean",
        _REPLACED,
        "pass",
    ),
    Edit(
        "the mean includes the padding",
        "Average over real tokens only.",
        "mean",
        _OWN_MEAN,
        " = heads[:, head].mean(dim=(0, 1))",
    ),
    Edit(
        "the sum over real tokens is divided by the number of all positions",
        "Divide by the number of real tokens.",
        "mean",
        _OWN_MEAN,
        " = heads[:, head][real].sum(dim=0) / real.numel()",
    ),
    Edit(
        "each sentence has a mean of its own",
        "Use one mean for all sentences, so that nothing of the sentence is left.",
        "mean",
        _OWN_MEAN,
        " = torch.stack(\n"
        "        [x[mask].mean(dim=0) for x, mask in zip(heads[:, head], real)]\n"
        "    )[:, None]",
    ),
    Edit(
        "the means of the sentences are averaged",
        "Each token has the same weight: average over all real tokens at once.",
        "mean",
        _OWN_MEAN,
        " = torch.stack(\n"
        "        [x[mask].mean(dim=0) for x, mask in zip(heads[:, head], real)]\n"
        "    ).mean(dim=0)",
    ),
    Edit(
        "each position has a mean of its own",
        "Average over all real tokens, whatever their position.",
        "mean",
        _OWN_MEAN,
        " = heads[:, head].mul(real[..., None]).sum(dim=0) / real.sum(dim=0)[:, None]",
    ),
    Edit(
        "the components are averaged, too",
        "The mean is a vector with d_v components.",
        "mean",
        _OWN_MEAN,
        " = heads[:, head][real].mean()",
    ),
    Edit(
        "the mean is taken over the heads",
        "The mean is that of the ablated head.",
        "mean",
        _OWN_MEAN,
        " = heads.mean(dim=1)",
    ),
    Edit(
        "the mean is added to the output of the head",
        "The mean replaces the output.",
        "mean",
        _OWN_MEAN,
        " += heads[:, head][real].mean(dim=0)",
    ),
    Edit(
        "all heads are replaced by their means",
        "Change the output of one head only.",
        "head mean",
        _REPLACED,
        "heads[:] = heads.transpose(1, 2)[real].mean(dim=0)[:, None]",
    ),
    Edit(
        "heads are counted from 1",
        "Head 0 is the first.",
        "head mean",
        _REPLACED,
        "heads[:, head - 1] = heads[:, head - 1][real].mean(dim=0)",
    ),
    Edit(
        "the heads are joined without exchanging their axis with that of the positions",
        "First bring the outputs of all heads for one position next to each other.",
        "join",
        "heads.transpose(1, 2).flatten(2)",
        "heads.reshape(heads.shape[0], heads.shape[2], -1)",
    ),
    Edit(
        "the matrix W^O is transposed",
        "Multiply by w_o from the right, without a transpose: its rows belong to the components "
        "of the heads.",
        "output",
        "joined @ w_o",
        "joined @ w_o.T",
    ),
    Edit(
        "the multiplication by W^O is missing",
        "Multiply the joined heads by W^O.",
        "output",
        "joined @ w_o",
        "joined",
    ),
)


def record_stream(
    x: Float[Tensor, "length d"], weights: Float[Tensor, "layers d d"]
) -> Float[Tensor, "depth length d"]:
    """The residual stream before the first block and after each block."""
    stream = [x]
    for w in weights:
        x = x + torch.tanh(x @ w)
        stream.append(x)
    return torch.stack(stream)


def overwritten(
    x: Float[Tensor, "length d"], weights: Float[Tensor, "layers d d"]
) -> Float[Tensor, "depth length d"]:
    """The code with the bug: every entry is the same tensor."""
    stream = [x]
    for w in weights:
        x += torch.tanh(x @ w)
        stream.append(x)
    return torch.stack(stream)


_START = "stream = [x]"
_BLOCK = "x = x + torch.tanh(x @ w)\n        stream.append(x)"
STREAM_MISTAKES = (
    Edit(
        "only the input is copied",
        "Make a new tensor in each block: all later entries are still the same one.",
        "start block",
        f"{_START}\n    for w in weights:\n        {_BLOCK}",
        "stream, x = [x.clone()], x.clone()\n    for w in weights:\n"
        "        x += torch.tanh(x @ w)\n        stream.append(x)",
    ),
    Edit(
        "the outputs of the blocks are copied, but not the input",
        "Leave the input unchanged: it is the first entry, and each block still writes to it.",
        "start block",
        f"{_START}\n    for w in weights:\n        {_BLOCK}",
        "stream = [x]\n    for w in weights:\n"
        "        x += torch.tanh(x @ w)\n        stream.append(x.clone())",
    ),
    Edit(
        "the residual connection is missing",
        "Keep the sum: a block adds its output to the stream.",
        "block",
        _BLOCK,
        "x = torch.tanh(x @ w)\n        stream.append(x)",
    ),
    Edit(
        "the outputs of the sublayers are recorded instead of the stream",
        "Record the sum after the residual connection.",
        "block",
        _BLOCK,
        "added = torch.tanh(x @ w)\n        x = x + added\n        stream.append(added)",
    ),
    Edit(
        "the output of the last block is missing",
        "Record the stream after the last block, too: with L blocks, the result has L + 1 entries.",
        "block",
        _BLOCK,
        "stream.append(x)\n        x = x + torch.tanh(x @ w)\n    stream = stream[1:]",
    ),
    Edit(
        "the input of the first block is missing",
        "Begin the list with x, the stream before the first block.",
        "start",
        _START,
        "stream = []",
    ),
    Edit(
        "every block receives the input of the first one",
        "Assign the sum to x: the next block continues from the new stream.",
        "block",
        _BLOCK,
        "stream.append(x + torch.tanh(x @ w))",
    ),
)


def increase_interval(
    intact: Float[Tensor, " sentences"],
    ablated: Float[Tensor, " sentences"],
    tokens: Int[Tensor, " sentences"],
    picks: Int[Tensor, "resamples sentences"],
) -> Float[Tensor, "2"]:
    """The 95 % bootstrap interval of the increase in the loss per token."""
    change = (ablated - intact)[picks].sum(dim=1)
    costs = change / tokens[picks].sum(dim=1)
    return torch.quantile(costs, torch.tensor([0.025, 0.975]))


_CHANGE = "(ablated - intact)[picks].sum(dim=1)"
_COSTS = "change / tokens[picks].sum(dim=1)"
_QUANTILES = "torch.quantile(costs, torch.tensor([0.025, 0.975]))"
INTERVAL_MISTAKES = (
    Edit(
        "each sentence has the same weight, whatever its number of tokens",
        "Add the nats of a resample, and divide by the number of its tokens.",
        "change costs",
        f"{_CHANGE}\n    costs = {_COSTS}",
        "((ablated - intact) / tokens)[picks].mean(dim=1)\n    costs = change",
    ),
    Edit(
        "the increase per sentence is computed",
        "Divide by the number of tokens of the resample.",
        "costs",
        _COSTS,
        "change / picks.shape[1]",
    ),
    Edit(
        "the increase is not divided",
        "Divide by the number of tokens of the resample.",
        "costs",
        _COSTS,
        "change",
    ),
    Edit(
        "each resample is divided by the number of tokens of the original sample",
        "Divide by the number of tokens of the resample, which depends on its sentences.",
        "costs",
        _COSTS,
        "change / tokens.sum()",
    ),
    Edit(
        "the sentences are added over the resamples",
        "Each row of picks is one resample.",
        "change costs",
        f"{_CHANGE}\n    costs = {_COSTS}",
        "(ablated - intact)[picks].sum(dim=0)\n    costs = change / tokens[picks].sum(dim=0)",
    ),
    Edit(
        "the resamples are not used",
        "Each row of picks has the indices of the sentences of one resample.",
        "change costs",
        f"{_CHANGE}\n    costs = {_COSTS}",
        "ablated - intact\n    costs = change / tokens",
    ),
    Edit(
        "only the ablated model is resampled",
        "Take the same sentences for both models.",
        "change",
        _CHANGE,
        "ablated[picks].sum(dim=1) - intact.sum()",
    ),
    Edit(
        "the sign is that of a decrease",
        "A loss that rises is a positive cost.",
        "change",
        _CHANGE,
        "(intact - ablated)[picks].sum(dim=1)",
    ),
    Edit(
        "an interval is computed for each model, and the ends are subtracted",
        "Subtract within each resample: both models are evaluated on the same sentences there.",
        "change costs ends",
        f"change = {_CHANGE}\n    costs = {_COSTS}\n    return {_QUANTILES}",
        "ends = torch.tensor([0.025, 0.975])\n    n = tokens[picks].sum(dim=1)\n"
        "    first, second = (x[picks].sum(dim=1) / n for x in (intact, ablated))\n"
        "    return torch.quantile(second, ends) - torch.quantile(first, ends)",
    ),
    Edit(
        "the interval covers 90 %",
        "Of the resamples, 95 % lie between the ends; split the rest between both sides.",
        "ends",
        "[0.025, 0.975]",
        "[0.05, 0.95]",
    ),
    Edit(
        "the ends are the smallest and the largest value",
        "Leave out the most extreme resamples on each side.",
        "ends",
        "[0.025, 0.975]",
        "[0.0, 1.0]",
    ),
    Edit(
        "the ends are 1.96 standard deviations from the mean",
        "Use quantiles of the resamples: they need no normal distribution.",
        "ends",
        _QUANTILES,
        "costs.mean() + torch.tensor([-1.96, 1.96]) * costs.std()",
    ),
)


Patch = Callable[[Tensor, Tensor, int], Tensor]


def patch_test(patch: Patch) -> None:
    """Raise AssertionError if a patch is wrong."""
    generator = torch.Generator().manual_seed(0)
    stream, values = torch.randn(2, 2, 4, 3, generator=generator)
    for position in range(4):
        expected = stream.clone()
        expected[:, position] = values[:, position]
        given = stream.clone()
        assert torch.equal(patch(given, values, position), expected)
        assert torch.equal(given, stream)


def by_index(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """Correct: a copy is changed."""
    patched = stream.clone()
    patched[:, position] = values[:, position]
    return patched


def by_mask(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """Correct: a mask selects the position."""
    return torch.where((torch.arange(stream.shape[1]) == position)[:, None], values, stream)


def by_parts(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """Correct: three parts are joined."""
    end = position + 1
    return torch.cat([stream[:, :position], values[:, position:end], stream[:, end:]], dim=1)


def everywhere(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """All positions are replaced."""
    return values.clone()


def next_position(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """The next position is replaced."""
    return by_index(stream, values, (position + 1) % stream.shape[1])


def from_here_on(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """The later positions are replaced, too."""
    return torch.cat([stream[:, :position], values[:, position:]], dim=1)


def first_sentence(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """Only the first sentence of the batch is patched."""
    return torch.cat([by_index(stream, values, position)[:1], stream[1:]])


def added(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """The values are added."""
    return by_index(stream, stream + values, position)


def not_at_zero(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """Position 0 counts as no position."""
    return by_index(stream, values, position) if position else stream.clone()


def from_first_position(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """The values are those of the first position."""
    return by_index(stream, values[:, :1].expand_as(values), position)


def in_place(stream: Tensor, values: Tensor, position: int) -> Tensor:
    """The given stream is changed."""
    stream[:, position] = values[:, position]
    return stream


Heads = list[tuple[MultiHeadAttention, int]]


def heads_by_sharpness() -> tuple[Heads, Callable[[], float]]:
    """The heads of the trained model, the sharpest first, and its loss on twenty sentences."""
    run_dir = record_path("multi30k-de-en")
    model, tokenizer = load_translator(run_dir / "model.safetensors")
    model.double()
    with open(run_dir / "samples.tsv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    batch = collate(
        [(tokenizer.encode(r["source"]), tokenizer.encode(r["reference"])) for r in rows]
    )

    @torch.no_grad()
    def loss() -> float:
        logits = model(batch.source, batch.target_in).transpose(1, 2)
        return F.cross_entropy(logits, batch.target_out, ignore_index=0).item()

    with record_attention(model) as maps:
        loss()
    sharpness, modules = {}, dict(model.named_modules())
    for name, [weights] in maps.items():
        attention = modules[name]
        assert isinstance(attention, MultiHeadAttention)
        real = (batch.source if name.startswith("encoder") else batch.target_out) != 0
        largest = (weights > 0).sum(dim=-1).double().log()
        for head in range(attention.n_heads):
            nats = entropy(weights[:, head])[real].mean() / largest[:, head][real].mean()
            sharpness[attention, head] = nats.item()
    return sorted(sharpness, key=lambda each: sharpness[each]), loss


def ablated_or_uniform() -> tuple[str, str]:
    """Change the twelve sharpest and the twelve most diffuse heads in two ways."""
    heads, loss = heads_by_sharpness()
    intact = loss()

    def cost(intervention: Callable[..., AbstractContextManager[None]], chosen: Heads) -> float:
        with ExitStack() as stack:
            for attention, head in chosen:
                stack.enter_context(intervention(attention, head))
            return loss() - intact

    ablated, uniform = (cost(each, heads[:12]) for each in (ablate_head, uniform_attention))
    option = "a" if ablated < 0.9 else "b" if ablated < 1.25 else "c"
    texts = approximate(ablated, 1.74, 0.02), approximate(uniform, 1.07, 0.02)
    diffuse = [cost(each, heads[-12:]) for each in (ablate_head, uniform_attention)]
    others = approximate(diffuse[0], 0.21, 0.02), approximate(diffuse[1], 0.01, 0.02)
    return option, (
        f"ablation costs {texts[0]} nats and uniform attention {texts[1]}; for the twelve most "
        f"diffuse heads, {others[0]} and {others[1]}."
    )
