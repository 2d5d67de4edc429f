"""Solutions, known mistakes and wrong versions of the exercises of chapter 4."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.errors import require
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.special_tokens import PAD

KEYS = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
VALUES = torch.tensor([[2.0, 0], [1, 1], [0, 4]])
"""Keys and values of *I am good*."""

UNSCALED = Mistake(
    "the dot products are not divided by √d_k",
    "Divide them before the softmax; d_k is the size of a query: q.shape[-1].",
    "scale",
)
BY_D_K = Mistake(
    "the dot products are divided by d_k instead of √d_k",
    "Take the square root: the standard deviation of a dot product is √d_k, not d_k.",
    "scale",
)
BY_KEYS = Mistake(
    "the dot products are divided by the square root of the number of keys",
    "Use the size of one query or key, q.shape[-1], not the length of the sequence.",
    "scale",
)
BY_D_V = Mistake(
    "the dot products are divided by √d_v instead of √d_k",
    "Use the size of the queries and keys; the values play no part in the scores.",
    "scale",
)
BY_FIRST_AXIS = Mistake(
    "the dot products are divided by the square root of the size of the first axis of q",
    "The first axis belongs to the queries or to the batch; d_k is the last one, q.shape[-1].",
    "scale",
)
BY_AXIS_1 = Mistake(
    "the dot products are divided by √(q.shape[1]), which is d_k only without a batch",
    "Count the axes from the end: q.shape[-1] is d_k for any number of batch axes.",
    "scale",
)
MULTIPLIED = Mistake(
    "the dot products are multiplied by √d_k instead of divided",
    "Check the parentheses and the sign of the exponent: the factor is 1 / √d_k.",
    "scale",
)
SCALED_LATE = Mistake(
    "the division by √d_k comes after the softmax",
    "Divide the scores, not the weights: the rows of the weights must sum to 1.",
    "scale",
)
NO_SOFTMAX = Mistake(
    "the scores are used as weights, without a softmax",
    "Apply the softmax to the scores before you multiply by the values.",
    "softmax",
)
NO_EXPONENTIAL = Mistake(
    "the scores are divided by their sum without taking the exponential",
    "The softmax takes the exponential of each score first, which makes every weight positive.",
    "softmax",
)
NOT_NORMALISED = Mistake(
    "the exponentials are not divided by their sum",
    "Divide each exponential by the sum of its row: the weights of a query must sum to 1.",
    "softmax",
)
ONE_SUM = Mistake(
    "the exponentials are divided by the sum over the whole matrix",
    "Take the sum of each row, sum(dim=-1, keepdim=True): each query has its own weights.",
    "softmax",
)
NO_KEEPDIM = Mistake(
    "the exponentials are divided by the sums of the wrong rows",
    "Keep the axis of the sum, sum(dim=-1, keepdim=True): otherwise the sums broadcast along the "
    "wrong axis.",
    "softmax",
)
OVER_QUERIES = Mistake(
    "the softmax is taken over the queries instead of the keys",
    "Each query's weights must sum to 1: take the softmax over the last axis, dim=-1.",
    "softmax",
)
OVER_AXIS_1 = Mistake(
    "the softmax is taken over axis 1, which is the last axis only without a batch",
    "Count the axes from the end: dim=-1 is the axis of the keys for any number of batch axes.",
    "softmax",
)
OVER_FIRST_AXIS = Mistake(
    "the softmax is taken over the first axis",
    "Each query's weights must sum to 1: take the softmax over the keys, the last axis, dim=-1.",
    "softmax",
)
KEYS_AVERAGED = Mistake(
    "the keys are averaged instead of the values",
    "The keys determine the weights only; the last matrix multiplication is with v.",
    "values",
)
WEIGHTS_RETURNED = Mistake(
    "the attention weights are returned instead of the outputs",
    "Multiply the weights by the values, and return the product.",
    "values",
)
WRONG_SIDE = Mistake(
    "the values are multiplied by the weights from the wrong side",
    "The order matters: weights @ v has one row per query.",
    "values",
)
TRANSPOSED = Mistake(
    "the weights are transposed before they are multiplied by the values",
    "The rows of the weights belong to the queries already: weights @ v.",
    "values",
)
VALUES_COMPARED = Mistake(
    "the queries are compared with the values instead of the keys",
    "Compute the scores from q and k; v is used only after the softmax.",
    "scores",
)
SWAPPED = Mistake(
    "queries and keys have exchanged roles",
    "The scores need one row per query and one column per key: q @ k.transpose(-2, -1).",
    "scores",
)
NO_BATCH = Mistake(
    "the function works for a single sentence but not for a batch",
    "Transpose the last two axes of k only, k.transpose(-2, -1), and count all axes from the end.",
    "batch",
)


ONE_BATCH_AXIS = Mistake(
    "the function needs exactly one batch axis",
    "Count the axes from the end, as in k.transpose(-2, -1): then any number of batch axes works.",
    "batch",
)
ATTENTION_MISTAKES = (
    UNSCALED,
    BY_D_K,
    BY_KEYS,
    BY_D_V,
    BY_FIRST_AXIS,
    BY_AXIS_1,
    MULTIPLIED,
    SCALED_LATE,
    NO_SOFTMAX,
    NO_EXPONENTIAL,
    NOT_NORMALISED,
    ONE_SUM,
    NO_KEEPDIM,
    OVER_QUERIES,
    OVER_AXIS_1,
    OVER_FIRST_AXIS,
    KEYS_AVERAGED,
    WEIGHTS_RETURNED,
    WRONG_SIDE,
    TRANSPOSED,
    VALUES_COMPARED,
    SWAPPED,
    NO_BATCH,
    ONE_BATCH_AXIS,
)


def attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
) -> Float[Tensor, "*batch query d_v"]:
    """Scaled dot-product attention."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ v


def attention_with(faults: Faults) -> Callable[..., Tensor]:
    """Attention with some of its mistakes."""

    def version(q, k, v):  # type: ignore[no-untyped-def]  # shapes do not fit in all versions
        require(NO_BATCH.name not in faults or q.dim() == 2, "expected no batch axis")
        require(ONE_BATCH_AXIS.name not in faults or q.dim() == 3, "expected one batch axis")
        key = v if VALUES_COMPARED.name in faults else k
        query, key = (key, q) if SWAPPED.name in faults else (q, key)
        root = math.sqrt(q.shape[-1])
        divisors = {
            UNSCALED.name: 1,
            SCALED_LATE.name: 1,
            BY_D_K.name: root**2,
            BY_KEYS.name: math.sqrt(k.shape[-2]),
            BY_D_V.name: math.sqrt(v.shape[-1]),
            BY_FIRST_AXIS.name: math.sqrt(q.shape[0]),
            BY_AXIS_1.name: math.sqrt(q.shape[1]),
            MULTIPLIED.name: 1 / root,
        }
        scores = query @ key.transpose(-2, -1)
        scores = scores / next((divisors[f] for f in faults if f in divisors), root)
        if NO_SOFTMAX.name in faults:
            weights = scores
        elif NO_EXPONENTIAL.name in faults:
            weights = scores / scores.sum(dim=-1, keepdim=True)
        elif sums := faults & {NOT_NORMALISED.name, ONE_SUM.name, NO_KEEPDIM.name}:
            weights = scores.exp()
            if ONE_SUM.name in sums:
                weights = weights / weights.sum()
            if NO_KEEPDIM.name in sums:
                weights = weights / weights.sum(dim=-1)
        else:
            axes = {OVER_AXIS_1.name: 1, OVER_FIRST_AXIS.name: 0, OVER_QUERIES.name: -2}
            axis = next((axes[f] for f in faults if f in axes), -1)
            weights = scores.softmax(dim=axis)
        if SCALED_LATE.name in faults:
            weights = weights / root
        if WEIGHTS_RETURNED.name in faults:
            return weights
        if WRONG_SIDE.name in faults:
            return v @ weights
        if TRANSPOSED.name in faults:
            weights = weights.transpose(-2, -1)
        return weights @ (k if KEYS_AVERAGED.name in faults else v)

    return version


OLD_QUERY = Mistake(
    "this is the output for the old query of good, (1, −1)",
    "Compute the dot products with the new query, (0, 2).",
    "query",
)
UNWEIGHTED = Mistake(
    "all three values have the same weight",
    "Only two of the three dot products are equal: compute all three again.",
    "softmax",
)


ANOTHER_QUERY_MISTAKES = (
    UNSCALED,
    BY_D_K,
    MULTIPLIED,
    SCALED_LATE,
    NO_SOFTMAX,
    NO_EXPONENTIAL,
    NOT_NORMALISED,
    KEYS_AVERAGED,
    OLD_QUERY,
    UNWEIGHTED,
)


def another_query_with(faults: Faults) -> list[float]:
    """The output for another query with mistakes."""
    if UNWEIGHTED.name in faults:
        return VALUES.mean(dim=0).tolist()
    q = torch.tensor([[1.0, -1.0] if OLD_QUERY.name in faults else [0.0, 2.0]])
    output: list[float] = attention_with(faults)(q, KEYS, VALUES)[0].tolist()
    return output


FUTURE = Mistake(
    "nothing hides the later positions",
    "Combine the padding with a causal mask: query i may attend to keys 0 to i.",
    "causal",
)
PADDING_ALONE = Mistake(
    "this is the padding mask alone, without an axis for the queries",
    "Combine it with a causal mask: query i may attend to keys 0 to i.",
    "causal",
)
REVERSED = Mistake(
    "each position attends to itself and to later positions",
    "Use the other triangle: query i (row) may attend to key j (column) if j ≤ i.",
    "causal",
)
ONLY_LATER = Mistake(
    "each position attends to later positions only: the causal mask is inverted",
    "The triangle above the diagonal contains the pairs to hide: negate it with ~, or use tril.",
    "causal",
)
NEXT_VISIBLE = Mistake(
    "each position also attends to the next one, which it has to predict",
    "Move the triangle by one: query i may attend to the keys up to i, the diagonal included.",
    "causal",
)
NOT_ITSELF = Mistake(
    "a position may not attend to itself",
    "Keep the diagonal: otherwise the first position has no key at all.",
    "causal",
)
PADDING_VISIBLE = Mistake(
    "the padding is not hidden",
    "A key with the id 0 is padding: hide its column in every row of this sentence.",
    "padding",
)
CAUSAL_ALONE = Mistake(
    "this is the causal mask alone, without a batch axis",
    "Each sentence has its own padding: combine the causal mask with ids != 0.",
    "padding",
)
NO_AXIS_OF_QUERIES = Mistake(
    "the padding mask has no axis for the queries, so the sentences become rows",
    "Insert an axis of size one between batch and keys, so that it broadcasts: keep[:, None, :].",
    "padding",
)
PADDING_INVERTED = Mistake(
    "the padding is kept and the real tokens are hidden",
    "True means may attend, so a key is kept where its id is not 0.",
    "padding",
)
PADDED_QUERIES = Mistake(
    "the padding is hidden as rows of the mask instead of columns",
    "Rows are queries and columns are keys; a row that is hidden completely becomes NaN in the "
    "softmax. Hide the padding as a key: keep[:, None, :].",
    "padding",
)
EITHER = Mistake(
    "a key is kept if one of the two masks allows it",
    "Both masks must allow a key: combine them with & instead of |.",
    "combination",
)
TRUE_HIDES = Mistake(
    "True marks the hidden keys",
    "In this book True means may attend: negate the mask with ~.",
    "convention",
)
ADDITIVE = Mistake(
    "this is an additive mask of 0 and −∞ instead of a boolean one",
    "Return the boolean mask itself; the scores are filled with −∞ later.",
    "convention",
)


DECODER_MASK_MISTAKES = (
    FUTURE,
    PADDING_ALONE,
    REVERSED,
    ONLY_LATER,
    NEXT_VISIBLE,
    NOT_ITSELF,
    PADDING_VISIBLE,
    CAUSAL_ALONE,
    NO_AXIS_OF_QUERIES,
    PADDING_INVERTED,
    PADDED_QUERIES,
    EITHER,
    TRUE_HIDES,
    ADDITIVE,
)


def decoder_mask(ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length length"]:
    """Causal mask and padding mask together: ``True`` = may attend."""
    length = ids.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    keep = ids != PAD
    return causal & keep[:, None, :]


def decoder_mask_with(faults: Faults) -> Callable[..., Tensor]:
    """The mask of a decoder with some of its mistakes."""

    def version(ids: Int[Tensor, "batch length"]) -> Tensor:
        ones = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
        triangles = {
            FUTURE.name: ones,
            PADDING_ALONE.name: ones[:1],
            REVERSED.name: ones.triu(),
            ONLY_LATER.name: ones.triu(1),
            NEXT_VISIBLE.name: ones.tril(1),
            NOT_ITSELF.name: ones.tril(-1),
        }
        causal = next((triangles[f] for f in faults if f in triangles), ones.tril())
        real = ids != PAD
        keys = {
            PADDING_VISIBLE.name: torch.ones_like(real)[:, None, :],
            CAUSAL_ALONE.name: ones,
            NO_AXIS_OF_QUERIES.name: real,
            PADDING_INVERTED.name: ~real[:, None, :],
            PADDED_QUERIES.name: real[:, :, None],
        }
        padding = next((keys[f] for f in faults if f in keys), real[:, None, :])
        mask = causal | padding if EITHER.name in faults else causal & padding
        if TRUE_HIDES.name in faults:
            return ~mask
        if ADDITIVE.name in faults:
            return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        return mask

    return version


ZERO_SCORES = Mistake(
    "the masked scores are set to 0 instead of −∞",
    "The exponential of 0 is 1, so the masked keys keep a weight: fill with -math.inf.",
    "mask",
)
MASK_INVERTED = Mistake(
    "the mask is inverted: the keys that may be attended to are hidden",
    "True means may attend, and masked_fill fills where its mask is True: use ~mask.",
    "mask",
)
MASK_ADDED = Mistake(
    "the mask lowers the score of a hidden key by only 1",
    "Adding 0 and 1 hides nothing: the score of a hidden key must become -math.inf.",
    "mask",
)
MASK_DROPPED = Mistake(
    "the mask is not used",
    "Keep the mask, but apply it to the scores, before the softmax.",
    "mask",
)
SECOND_SOFTMAX = Mistake(
    "a second softmax is applied to the masked weights",
    "The exponential of a weight 0 is 1, not 0: mask the scores, and use one softmax.",
    "mask",
)
BY_NUMBER = Mistake(
    "the masked weights are divided by the number of visible keys",
    "The weights of a query must sum to 1 again: mask the scores, before the softmax.",
    "mask",
)


MASKED_ATTENTION_MISTAKES = (
    ZERO_SCORES,
    MASK_INVERTED,
    MASK_ADDED,
    MASK_DROPPED,
    SECOND_SOFTMAX,
    BY_NUMBER,
    UNSCALED,
    OVER_QUERIES,
)


def masked_attention(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."],
) -> Float[Tensor, "*batch query d_v"]:
    """Scaled dot-product attention with a mask."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v


def masked_late(
    q: Float[Tensor, "*batch query d_k"],
    k: Float[Tensor, "*batch key d_k"],
    v: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."],
) -> Float[Tensor, "*batch query d_v"]:
    """The code with the bug: the mask is applied after the softmax."""
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return (weights * mask) @ v


def masked_attention_with(faults: Faults) -> Callable[..., Tensor]:
    """Attention with a mask and some of its mistakes."""

    def version(
        q: Float[Tensor, "*batch query d_k"],
        k: Float[Tensor, "*batch key d_k"],
        v: Float[Tensor, "*batch key d_v"],
        mask: Bool[Tensor, "..."],
    ) -> Tensor:
        scores = q @ k.transpose(-2, -1)
        scores = scores / (1 if UNSCALED.name in faults else math.sqrt(q.shape[-1]))
        masked = {
            ZERO_SCORES.name: scores * mask,
            MASK_INVERTED.name: scores.masked_fill(mask, -math.inf),
            MASK_ADDED.name: scores + mask,
            MASK_DROPPED.name: scores,
            SECOND_SOFTMAX.name: scores.softmax(dim=-1) * mask,
            BY_NUMBER.name: scores,
        }
        hidden = scores.masked_fill(~mask, -math.inf)
        hidden = next((masked[f] for f in faults if f in masked), hidden)
        weights = hidden.softmax(dim=-2 if OVER_QUERIES.name in faults else -1)
        if BY_NUMBER.name in faults:
            weights = weights * mask / mask.sum(dim=-1, keepdim=True)
        return weights @ v

    return version


DIAGONAL_ONLY = Mistake(
    "only the diagonal of the Jacobian is used",
    "Each weight depends on all scores of its row: add the terms −a_i a_j for i ≠ j.",
    "sum",
)
NO_SUM = Mistake(
    "the gradient is multiplied by the weights, but nothing is subtracted",
    "Subtract the weighted sum of the gradient, Σ a_i g_i, from each component of the gradient.",
    "sum",
)
PLAIN_SUM = Mistake(
    "the sum that is subtracted is not weighted",
    "Weight it: the sum over the row is Σ a_i g_i, not Σ g_i.",
    "sum",
)
PLAIN_MEAN = Mistake(
    "the plain mean of the gradient is subtracted",
    "Weight it: the sum over the row is Σ a_i g_i; the mean is right only for uniform weights.",
    "sum",
)
MEAN_OF_PRODUCTS = Mistake(
    "the mean of the products a_i g_i is subtracted instead of their sum",
    "The sum over i has no factor of 1/n: the weights sum to 1 already.",
    "sum",
)
OTHERS_ADDED = Mistake(
    "the terms for i ≠ j have the wrong sign",
    "Give them a minus sign: if a score grows, the other weights of its row become smaller.",
    "sum",
)
SUM_OVER_ALL = Mistake(
    "the sum is taken over the whole tensor",
    "Take it over the last axis only, with keepdim=True: the rows do not influence each other.",
    "axis",
)
SUM_OVER_ROWS = Mistake(
    "the sum is taken over the rows instead of the last axis",
    "A weight depends on the scores of its own row: take the sum over dim=-1.",
    "axis",
)
NEGATED = Mistake(
    "the sign is wrong",
    "Exchange the two terms of the difference: the diagonal of the Jacobian is a(1 − a), positive.",
    "sign",
)
SOFTMAX_AGAIN = Mistake(
    "a softmax is applied to the weights",
    "The argument already contains the weights: use it as it is.",
    "weights",
)
NOT_WEIGHTED = Mistake(
    "the difference is not multiplied by the weights",
    "Multiply each component by its own weight a_j.",
    "product",
)


ONE_ROW = Mistake(
    "the function works for one row of weights but not for several",
    "Take sums over the last axis with keepdim=True, so that they broadcast along the row.",
    "rows",
)
SOFTMAX_BACKWARD_MISTAKES = (
    DIAGONAL_ONLY,
    NO_SUM,
    PLAIN_SUM,
    PLAIN_MEAN,
    MEAN_OF_PRODUCTS,
    OTHERS_ADDED,
    SUM_OVER_ALL,
    SUM_OVER_ROWS,
    NEGATED,
    SOFTMAX_AGAIN,
    NOT_WEIGHTED,
    ONE_ROW,
)


def softmax_backward(
    weights: Float[Tensor, "*rows key"], grad: Float[Tensor, "*rows key"]
) -> Float[Tensor, "*rows key"]:
    """The gradient with respect to the scores."""
    weighted_sum = (weights * grad).sum(dim=-1, keepdim=True)
    return weights * (grad - weighted_sum)


def softmax_backward_with(faults: Faults) -> Callable[..., Tensor]:
    """The backward pass of the softmax with some of its mistakes."""

    def version(
        weights: Float[Tensor, "*rows key"], grad: Float[Tensor, "*rows key"]
    ) -> Float[Tensor, "*rows key"]:
        require(ONE_ROW.name not in faults or grad.dim() == 1, "expected one row")
        a = weights.softmax(dim=-1) if SOFTMAX_AGAIN.name in faults else weights
        terms = {
            DIAGONAL_ONLY.name: a * grad,
            NO_SUM.name: torch.zeros_like(grad),
            PLAIN_SUM.name: grad.sum(dim=-1, keepdim=True),
            PLAIN_MEAN.name: grad.mean(dim=-1, keepdim=True),
            MEAN_OF_PRODUCTS.name: (a * grad).mean(dim=-1, keepdim=True),
            OTHERS_ADDED.name: 2 * a * grad - (a * grad).sum(dim=-1, keepdim=True),
        }
        subtracted = (a * grad).sum(dim=-1, keepdim=True)
        if SUM_OVER_ALL.name in faults:
            subtracted = (a * grad).sum()
        if SUM_OVER_ROWS.name in faults:
            axis = -2 if grad.dim() > 1 else -1
            subtracted = (a * grad).sum(dim=axis, keepdim=True)
        subtracted = next((terms[f] for f in faults if f in terms), subtracted)
        result = grad - subtracted
        result = result if NOT_WEIGHTED.name in faults else a * result
        return -result if NEGATED.name in faults else result

    return version


def causal_weights(
    x: Float[Tensor, "batch length d"], diagonal: int = 0
) -> Float[Tensor, "batch length length"]:
    """The weights of self-attention in which position i attends to positions up to i + diagonal."""
    scores = x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)


def causal_attention(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Causal self-attention."""
    return causal_weights(x) @ x


def prefix_by_prefix(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Causal self-attention, computed from each prefix alone."""
    rows = []
    for end in range(1, x.shape[1] + 1):
        prefix = x[:, :end]
        scores = prefix[:, -1:] @ prefix.transpose(-2, -1) / math.sqrt(x.shape[-1])
        rows.append(scores.softmax(dim=-1) @ prefix)
    return torch.cat(rows, dim=1)


def fused(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Causal self-attention by PyTorch's function."""
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def unmasked(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Self-attention without a mask."""
    return causal_weights(x, diagonal=x.shape[1]) @ x


def next_visible(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Each position also attends to the next one."""
    return causal_weights(x, diagonal=1) @ x


def reversed_mask(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Each position attends to itself and to later ones."""
    return causal_attention(x.flip(1)).flip(1)


def late_mask(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """The mask is applied after the softmax."""
    return causal_weights(x, diagonal=x.shape[1]).tril() @ x


def zero_filled(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Masked scores are 0."""
    return (x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])).tril().softmax(dim=-1) @ x


def centred_values(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """The weights are causal, but the mean over all positions is subtracted from the values."""
    return causal_weights(x) @ (x - x.mean(dim=1, keepdim=True))


def second_unmasked(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Only the first sentence of a batch is masked."""
    return torch.cat([causal_attention(x[:1]), unmasked(x[1:])])


def last_visible(x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length d"]:
    """Each position also attends to the last one."""
    scores = x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    allowed[:, -1] = True
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1) @ x


def leak_test(attend: Callable[[Tensor], Tensor]) -> None:
    """Raise AssertionError if an output depends on a later position."""
    x = torch.randn(3, 5, 4)
    before = attend(x)
    for pos in range(1, x.shape[1]):
        other = x.clone()
        other[:, pos] = torch.randn(3, 4)
        after = attend(other)
        assert torch.allclose(before[:, :pos], after[:, :pos], atol=1e-6)
