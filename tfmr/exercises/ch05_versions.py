"""Solutions, known mistakes and wrong versions of the exercises of chapter 5."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention
from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate

UNSCALED = Mistake(
    "the dot products are not divided by √d_k",
    "Divide them by √2 before you take the exponential: each head has d_k = 2.",
    "scale",
)
BY_TWO = Mistake(
    "the dot products are divided by 2 instead of √2",
    "Divide by √d_k with the width of one head, d_k = 2, not d_model = 4.",
    "scale",
)
ONE_SUM = Mistake(
    "the dot products of the two heads are added before the softmax",
    "Compute a softmax for each head: each head has its own row of weights.",
    "heads",
)
SWAPPED_VALUES = Mistake(
    "each head averages the values of the other head",
    "Multiply the weights of head 1 by the values of head 1, and those of head 2 by its own.",
    "values",
)
HEADS_REVERSED = Mistake(
    "the outputs of head 2 come before those of head 1",
    "Concatenate in the order of the heads: the first two numbers belong to head 1.",
    "order",
)
KEYS_AVERAGED = Mistake(
    "the keys are averaged instead of the values",
    "The keys determine the weights only; multiply the weights by the values.",
    "values",
)
ONE_HEAD_OF_FOUR = Mistake(
    "the weights are those of a single head with d_k = 4",
    "Each head has its own row of weights, from its own queries and keys.",
    "heads",
)
CAUSAL = Mistake(
    "the last token is hidden, as by a causal mask",
    "Here a token attends to all tokens, also to later ones.",
    "mask",
)
COMPONENTS_FIRST = Mistake(
    "the outputs of the two heads are interleaved",
    "Concatenate: all numbers of one head come before those of the next.",
    "order",
)
UNIFORM = Mistake(
    "all three tokens have the same weight",
    "The dot products are not all equal: compute them again, for both heads.",
    "softmax",
)
ROW_MISTAKES = (
    UNSCALED,
    BY_TWO,
    ONE_SUM,
    SWAPPED_VALUES,
    HEADS_REVERSED,
    KEYS_AVERAGED,
    ONE_HEAD_OF_FOUR,
    CAUSAL,
    COMPONENTS_FIRST,
    UNIFORM,
)

QUERIES = torch.tensor([[1.0, 1], [0, 1]])
"""The query of *is* in each head."""
KEYS = torch.tensor([[[2.0, 0], [0, 1], [0, 1]], [[0, 0], [0, 2], [1, 0]]])
VALUES = torch.tensor([[[1.0, 0], [0, 1], [1, 1]], [[0, 1], [2, 0], [1, 2]]])


def row_with(faults: Faults) -> list[float]:
    """The concatenated outputs for *is*, with mistakes."""
    dots = (KEYS @ QUERIES[:, :, None])[..., 0]  # (heads, key)
    if faults & {ONE_SUM.name, ONE_HEAD_OF_FOUR.name}:
        dots = dots.sum(dim=0, keepdim=True).expand(2, 3)
    divisor = {UNSCALED.name: 1.0, BY_TWO.name: 2.0, ONE_HEAD_OF_FOUR.name: 2.0}
    scores = dots / next((divisor[f] for f in faults if f in divisor), math.sqrt(2))
    scores[:, 2] = -math.inf if CAUSAL.name in faults else scores[:, 2]
    weights = (scores * 0 if UNIFORM.name in faults else scores).softmax(dim=-1)
    values = VALUES.flip(0) if SWAPPED_VALUES.name in faults else VALUES
    values = KEYS if KEYS_AVERAGED.name in faults else values
    output = (weights[:, None] @ values)[:, 0]
    output = output.flip(0) if HEADS_REVERSED.name in faults else output
    output = output.T if COMPONENTS_FIRST.name in faults else output
    row: list[float] = output.flatten().tolist()
    return row


def split_into_heads(
    x: Shaped[Tensor, "batch length d_model"], n_heads: int
) -> Shaped[Tensor, "batch heads length d_k"]:
    """Head i gets columns i · d_k to (i + 1) · d_k − 1 of every token."""
    batch, length, d_model = x.shape
    return x.view(batch, length, n_heads, d_model // n_heads).transpose(1, 2)


_VIEW = "x.view(batch, length, n_heads, d_model // n_heads).transpose(1, 2)"
SPLIT_MISTAKES = (
    Edit(
        "the tensor is only viewed in another shape, which mixes the tokens",
        "View it as (batch, length, heads, d_k) first, then exchange the axes 1 and 2.",
        "split",
        _VIEW,
        "x.reshape(batch, n_heads, length, d_model // n_heads)",
    ),
    Edit(
        "the axis of the heads stays behind the axis of the positions",
        "Exchange the axes 1 and 2: attention treats all axes before the last two as batch axes.",
        "split",
        ".transpose(1, 2)",
        "",
    ),
    Edit(
        "the columns of the heads are interleaved",
        "Head 0 gets the first d_k columns: divide the last axis into (heads, d_k), in this order.",
        "split",
        _VIEW,
        "x.view(batch, length, d_model // n_heads, n_heads).permute(0, 3, 1, 2)",
    ),
    Edit(
        "the axes of the positions and of the components are exchanged",
        "The last axis holds the d_k components of one token: exchange the axes 1 and 2 only.",
        "split",
        ".transpose(1, 2)",
        ".permute(0, 2, 3, 1)",
    ),
    Edit(
        "the axis of the heads comes before the axis of the batch",
        "Keep the batch first: (batch, heads, length, d_k).",
        "split",
        ".transpose(1, 2)",
        ".permute(2, 0, 1, 3)",
    ),
    Edit(
        "the numbers of heads and of components per head are exchanged",
        "Divide the last axis into n_heads parts of d_model // n_heads components each.",
        "split",
        _VIEW,
        "x.view(batch, length, d_model // n_heads, n_heads).transpose(1, 2)",
    ),
    Edit(
        "the positions are divided among the heads instead of the columns",
        "Every head needs a part of every token: divide the last axis, not the axis of positions.",
        "split",
        _VIEW,
        "x.view(batch, n_heads, length // n_heads, d_model)",
    ),
    Edit(
        "every head gets all columns",
        "Divide the columns: each head has d_k = d_model // n_heads of them.",
        "split",
        _VIEW,
        "x[:, None].expand(batch, n_heads, length, d_model)",
    ),
)


def multi_head(
    x: Float[Tensor, "batch length d_model"],
    w_q: Float[Tensor, "d_model d_model"],
    w_k: Float[Tensor, "d_model d_model"],
    w_v: Float[Tensor, "d_model d_model"],
    w_o: Float[Tensor, "d_model d_model"],
    n_heads: int,
) -> Float[Tensor, "batch length d_model"]:
    """Multi-head self-attention without biases."""
    q, k, v = (split_into_heads(x @ w, n_heads) for w in (w_q, w_k, w_v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    z = scores.softmax(dim=-1) @ v  # (batch, heads, length, d_k)
    joined = z.transpose(1, 2).reshape(x.shape)
    return joined @ w_o


_JOIN = "z.transpose(1, 2).reshape(x.shape)"
_SPLIT = "split_into_heads(x @ w, n_heads)"
JOINED_BY_VIEW = Edit(
    "the heads are joined without moving their axis back, which mixes the tokens",
    "Exchange the axes 1 and 2 first: the d_k numbers of all heads of one token belong together.",
    "join",
    _JOIN,
    "z.reshape(x.shape)",
)
SPLIT_BY_VIEW = Edit(
    "the heads are split by a view alone, which mixes the tokens",
    "View as (batch, length, heads, d_k) first, then exchange the axes 1 and 2.",
    "split",
    _SPLIT,
    "(x @ w).view(len(x), n_heads, x.shape[1], -1)",
)
INTERLEAVED = Edit(
    "the columns of the heads are interleaved when the heads are split",
    "Head 0 has the first d_k columns: divide the last axis into (heads, d_k), in this order.",
    "split",
    _SPLIT,
    "(x @ w).view(*x.shape[:2], -1, n_heads).permute(0, 3, 1, 2)",
)
INTERLEAVED_JOIN = Edit(
    "the columns of the heads are interleaved when the heads are joined",
    "All columns of head 0 come first: move the heads before the components, (heads, d_k).",
    "join",
    _JOIN,
    "z.permute(0, 2, 3, 1).reshape(x.shape)",
)
ONE_HEAD = Edit(
    "a single head computes the attention, whatever n_heads is",
    "Split the projections into n_heads heads, each with its own scores and weights.",
    "split",
    _SPLIT,
    "split_into_heads(x @ w, 1)",
)
BY_D_MODEL = Edit(
    "the scores are divided by √d_model instead of √d_k",
    "Use the width of one head, d_k = d_model / n_heads: q.shape[-1] after the split.",
    "scale",
    "math.sqrt(q.shape[-1])",
    "math.sqrt(x.shape[-1])",
)
NOT_SCALED = Edit(
    "the scores are not divided by √d_k",
    "Divide them before the softmax; d_k is the width of one head.",
    "scale",
    " / math.sqrt(q.shape[-1])",
    "",
)
OVER_QUERIES = Edit(
    "the softmax is taken over the queries instead of the keys",
    "Each query's weights must sum to 1: take the softmax over the last axis, dim=-1.",
    "softmax",
    "softmax(dim=-1)",
    "softmax(dim=-2)",
)
OVER_HEADS = Edit(
    "the softmax is taken over the heads instead of the keys",
    "In each head, the weights of a query must sum to 1: take the softmax over the keys.",
    "softmax",
    "softmax(dim=-1)",
    "softmax(dim=1)",
)
QUERIES_AND_KEYS = Edit(
    "queries and keys have exchanged roles",
    "The scores need one row per query and one column per key.",
    "scores",
    "q @ k.transpose(-2, -1)",
    "k @ q.transpose(-2, -1)",
)
NO_OUTPUT_MATRIX = Edit(
    "the concatenation is not multiplied by w_o",
    "Multiply the joined heads by w_o, from the right.",
    "output",
    "joined @ w_o",
    "joined",
)
OUTPUT_TRANSPOSED = Edit(
    "w_o is transposed",
    "Multiply by w_o itself: only the weight of nn.Linear is stored transposed.",
    "output",
    "joined @ w_o",
    "joined @ w_o.T",
)
PROJECTIONS_TRANSPOSED = Edit(
    "the matrices of the projections are transposed",
    "Multiply by the matrices as they are, x @ w_q: only nn.Linear stores the transpose.",
    "projections",
    "for w in (w_q, w_k, w_v)",
    "for w in (w_q.T, w_k.T, w_v.T)",
)
KEYS_AND_VALUES = Edit(
    "keys and values have exchanged roles",
    "Compute the scores from queries and keys; average the values.",
    "projections",
    "for w in (w_q, w_k, w_v)",
    "for w in (w_q, w_v, w_k)",
)
MULTI_HEAD_MISTAKES = (
    JOINED_BY_VIEW,
    SPLIT_BY_VIEW,
    INTERLEAVED,
    INTERLEAVED_JOIN,
    ONE_HEAD,
    BY_D_MODEL,
    NOT_SCALED,
    OVER_QUERIES,
    OVER_HEADS,
    QUERIES_AND_KEYS,
    NO_OUTPUT_MATRIX,
    OUTPUT_TRANSPOSED,
    PROJECTIONS_TRANSPOSED,
    KEYS_AND_VALUES,
)


def without_head(
    z: Float[Tensor, "batch heads length d_k"], w_o: Float[Tensor, "columns d_model"], head: int
) -> Float[Tensor, "batch length d_model"]:
    """The output of multi-head attention without one head."""
    d_k = z.shape[-1]
    w_o = w_o.clone()
    w_o[head * d_k : (head + 1) * d_k] = 0
    return z.transpose(1, 2).flatten(2) @ w_o


def without_columns(
    z: Float[Tensor, "batch heads length d_k"], w_o: Float[Tensor, "columns d_model"], head: int
) -> Float[Tensor, "batch length d_model"]:
    """The code with the bug: columns of w_o are set to zero instead of rows."""
    d_k = z.shape[-1]
    w_o = w_o.clone()
    w_o[:, head * d_k : (head + 1) * d_k] = 0
    return z.transpose(1, 2).flatten(2) @ w_o


_ZERO = "w_o[head * d_k : (head + 1) * d_k] = 0"
WITHOUT_HEAD_MISTAKES = (
    Edit(
        "only one row of w_o is set to zero",
        "A head has d_k columns in the concatenation, so it owns d_k rows of w_o.",
        "rows",
        _ZERO,
        "w_o[head] = 0",
    ),
    Edit(
        "the rows of the previous head are set to zero: the heads are counted from 1",
        "Count the heads from 0: head 0 owns the rows 0 to d_k − 1.",
        "rows",
        _ZERO,
        "w_o[(head - 1) * d_k : head * d_k] = 0",
    ),
    Edit(
        "every n_heads-th row is set to zero, as if the heads were interleaved",
        "The rows of a head are contiguous: head · d_k to (head + 1) · d_k − 1.",
        "rows",
        _ZERO,
        "w_o[head :: z.shape[1]] = 0",
    ),
    Edit(
        "the number of rows is the number of heads instead of d_k",
        "A head owns d_k rows of w_o; d_k is the last axis of z.",
        "rows",
        _ZERO,
        "w_o[head * z.shape[1] : (head + 1) * z.shape[1]] = 0",
    ),
    Edit(
        "all heads except this one are removed",
        "Set only the rows of this head to zero, and keep all others.",
        "rows",
        _ZERO,
        "w_o[: head * d_k] = 0\n    w_o[(head + 1) * d_k :] = 0",
    ),
    Edit(
        "the columns are set to zero, and w_o is transposed afterwards",
        "Multiply by w_o as the given code did: its transpose is another matrix.",
        "rows join",
        f"{_ZERO}\n    return z.transpose(1, 2).flatten(2) @ w_o",
        "w_o[:, head * d_k : (head + 1) * d_k] = 0\n"
        "    return z.transpose(1, 2).flatten(2) @ w_o.T",
    ),
    Edit(
        "nothing is removed",
        "Set the rows of w_o that belong to this head to zero.",
        "rows",
        _ZERO,
        "",
    ),
    Edit(
        "the heads are joined without moving their axis back, which mixes the tokens",
        "Keep the exchange of the axes 1 and 2 before you flatten.",
        "join",
        "z.transpose(1, 2).flatten(2)",
        "z.reshape(len(z), z.shape[2], -1)",
    ),
)


def split_test(split: Callable[[Tensor, int], Tensor]) -> None:
    """Raise AssertionError if a split into heads is wrong."""
    x = torch.randn(3, 5, 12)
    for n_heads in (1, 2, 3, 4):
        heads = split(x, n_heads)
        d_k = 12 // n_heads
        assert heads.shape == (3, n_heads, 5, d_k)
        for i in range(n_heads):
            assert torch.equal(heads[:, i], x[..., i * d_k : (i + 1) * d_k])


Batch = Shaped[Tensor, "batch length d_model"]


def by_chunks(x: Batch, n_heads: int) -> Tensor:
    """Correct: the columns are divided into chunks."""
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def by_pattern(x: Batch, n_heads: int) -> Tensor:
    """Correct: einops names the axes."""
    return rearrange(x, "batch length (heads d_k) -> batch heads length d_k", heads=n_heads)


def by_view(x: Batch, n_heads: int) -> Tensor:
    """A view mixes the tokens."""
    return x.reshape(len(x), n_heads, x.shape[1], -1)


def interleaved(x: Batch, n_heads: int) -> Tensor:
    """Head i gets every n_heads-th column."""
    return rearrange(x, "batch length (d_k heads) -> batch heads length d_k", heads=n_heads)


def heads_reversed(x: Batch, n_heads: int) -> Tensor:
    """The heads are in the opposite order."""
    return split_into_heads(x, n_heads).flip(1)


def first_sentence(x: Batch, n_heads: int) -> Tensor:
    """Every sentence gets the heads of the first."""
    return split_into_heads(x[:1].expand_as(x), n_heads)


def always_two(x: Batch, n_heads: int) -> Tensor:
    """There are never more than two heads."""
    return split_into_heads(x, min(n_heads, 2))


def first_columns(x: Batch, n_heads: int) -> Tensor:
    """Every head gets the first columns."""
    return split_into_heads(x, n_heads)[:, :1].expand(-1, n_heads, -1, -1)


def positions_reversed(x: Batch, n_heads: int) -> Tensor:
    """The positions are in the opposite order in every head but the first."""
    heads = split_into_heads(x, n_heads)
    return torch.cat([heads[:, :1], heads[:, 1:].flip(2)], dim=1)


def batch_mixed(x: Batch, n_heads: int) -> Tensor:
    """The axes of batch and heads are exchanged and viewed back."""
    heads = split_into_heads(x, n_heads)
    return heads.transpose(0, 1).reshape(heads.shape)


OFFSETS = (-2, -1, 1, 2)


def accuracy_of(seed: int, same: bool, steps: int = 200) -> float:
    """The accuracy of four heads on the four relations of the chapter.

    If ``same``, all heads begin with the weights of the first.
    """
    torch.manual_seed(seed)
    name, position = nn.Embedding(8, 32), nn.Parameter(torch.randn(8, 32))
    layer, output = MultiHeadAttention(32, n_heads=4), nn.Linear(32, 32)
    if same:
        with torch.no_grad():
            for linear in (layer.w_q, layer.w_k, layer.w_v):
                linear.weight.copy_(linear.weight[:8].repeat(4, 1))
                linear.bias.copy_(linear.bias[:8].repeat(4))
            layer.w_o.weight.copy_(layer.w_o.weight[:, :8].repeat(1, 4))
    weights = [name.weight, position, *layer.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.01)

    def logits_and_names(batch: int) -> tuple[Float[Tensor, "items 8"], Int[Tensor, " items"]]:
        ids = torch.randint(8, (batch, 8))
        names = torch.stack([ids.roll(-offset, dims=1) for offset in OFFSETS], dim=-1)
        logits = output(layer(name(ids) + position)).unflatten(-1, (4, 8))
        return logits.flatten(0, 2), names.flatten()

    for _ in range(steps):
        loss = F.cross_entropy(*logits_and_names(32))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    logits, names = logits_and_names(500)
    return float((logits.argmax(dim=-1) == names).float().mean())


def same_start() -> tuple[str, str]:
    """Train four heads that begin with the same weights."""
    accuracy = accuracy_of(seed=0, same=True)
    option = "a" if accuracy > 0.9 else "b" if accuracy > 0.25 else "c"
    return option, f"after 200 steps, the accuracy is {approximate(accuracy, 0.39, 0.08)}."
