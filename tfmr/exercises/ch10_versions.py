"""Solutions, known mistakes and wrong versions of the exercises of chapter 10."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate
from tfmr.special_tokens import PAD

MATRIX = torch.tensor([[1.0, 0], [0, 2], [3, 1]])
NO_FACTOR = Mistake(
    "the embedding is not multiplied by √d_model",
    "Multiply the row by √2, as the paper does.",
    "factor",
)
BY_D_MODEL = Mistake(
    "the embedding is multiplied by d_model instead of its square root",
    "Multiply the row by √2.",
    "factor",
)
DIVIDED = Mistake(
    "the embedding is divided by √d_model",
    "Multiply: the factor makes the rows larger than their initial size.",
    "factor",
)
NEXT_ROW = Mistake(
    "this is the embedding of the token with the id 1",
    "Count the ids from 0: id 2 has the last row.",
    "row",
)
SCALED_LOGITS = Mistake(
    "the logits are multiplied by √d_model as well",
    "The factor belongs to the embedding only: the logits are E u.",
    "logits",
)
DIVIDED_LOGITS = Mistake(
    "the logits are divided by √d_model, as in attention",
    "The logits are the dot products themselves.",
    "logits",
)
NO_SIGN = Mistake(
    "the minus sign of u is lost in the logits",
    "Write down both products of each dot product with their signs before you add them.",
    "logits",
)
LOGITS = Mistake(
    "these are the logits instead of the probabilities",
    "Take the softmax of the three logits.",
    "logits",
)
BY_HAND_MISTAKES = (
    NO_FACTOR,
    BY_D_MODEL,
    DIVIDED,
    NEXT_ROW,
    SCALED_LOGITS,
    DIVIDED_LOGITS,
    NO_SIGN,
    LOGITS,
)


def by_hand_with(faults: Faults) -> list[float]:
    """The embedding of token 2 and the probabilities for u = (1, −1), with mistakes."""
    factors = {NO_FACTOR.name: 1.0, BY_D_MODEL.name: 2.0, DIVIDED.name: 0.5**0.5}
    factor = next((factors[f] for f in faults if f in factors), 2**0.5)
    embedding = MATRIX[1 if NEXT_ROW.name in faults else 2] * factor
    scales = {SCALED_LOGITS.name: 2**0.5, DIVIDED_LOGITS.name: 0.5**0.5}
    u = torch.tensor([1.0, 1 if NO_SIGN.name in faults else -1])
    logits = MATRIX @ u * next((scales[f] for f in faults if f in scales), 1)
    output = logits if LOGITS.name in faults else logits.softmax(dim=0)
    numbers: list[float] = torch.cat([embedding, output]).tolist()
    return numbers


def embed_tokens(
    ids: Int[Tensor, "batch length"],
    matrix: Float[Tensor, "vocab d_model"],
    table: Float[Tensor, "positions d_model"],
) -> Float[Tensor, "batch length d_model"]:
    """Scaled embeddings plus positions."""
    scaled = matrix[ids] * math.sqrt(matrix.shape[1])
    return scaled + table[: ids.shape[1]]


_FACTOR = "matrix[ids] * math.sqrt(matrix.shape[1])"
_SUM = "scaled + table[: ids.shape[1]]"
EMBED_MISTAKES = (
    Edit(
        "the embeddings are not multiplied by √d_model",
        "Multiply them before you add the positions; d_model is the size of a row.",
        "factor",
        _FACTOR,
        "matrix[ids]",
    ),
    Edit(
        "the embeddings are multiplied by d_model instead of its square root",
        "Take the square root of the size of a row.",
        "factor",
        _FACTOR,
        "matrix[ids] * matrix.shape[1]",
    ),
    Edit(
        "the embeddings are divided by √d_model",
        "Multiply: the factor makes the embeddings larger.",
        "factor",
        _FACTOR,
        "matrix[ids] / math.sqrt(matrix.shape[1])",
    ),
    Edit(
        "the factor is the square root of the vocabulary size",
        "Use the number of columns of the matrix, matrix.shape[1], which is d_model.",
        "factor",
        _FACTOR,
        "matrix[ids] * math.sqrt(len(matrix))",
    ),
    Edit(
        "the positions are multiplied by √d_model, too",
        "Multiply the embeddings alone, then add the table.",
        "sum",
        _SUM,
        "scaled + table[: ids.shape[1]] * math.sqrt(matrix.shape[1])",
    ),
    Edit(
        "the positions are not added",
        "Add row pos of the table to the embedding at position pos.",
        "sum",
        _SUM,
        "scaled",
    ),
    Edit(
        "the rows of the table are looked up by the ids of the tokens",
        "Row pos of the table belongs to position pos: table[:length].",
        "sum",
        _SUM,
        "scaled + table[ids % len(table)]",
    ),
    Edit(
        "the positions are counted from 1",
        "The first token has position 0: begin with the first row of the table.",
        "sum",
        _SUM,
        "scaled + table[1 : ids.shape[1] + 1]",
    ),
    Edit(
        "all positions get the first row of the table",
        "Row pos of the table belongs to position pos: table[:length].",
        "sum",
        _SUM,
        "scaled + table[0]",
    ),
)


def tied_pair(vocab: int, d_model: int) -> tuple[nn.Embedding, nn.Linear]:
    """An embedding and an output layer with one matrix."""
    embedding = nn.Embedding(vocab, d_model)
    output = nn.Linear(d_model, vocab, bias=False)
    output.weight = embedding.weight
    return embedding, output


_TIE = "output.weight = embedding.weight"
TIE_MISTAKES = (
    Edit(
        "the two matrices are independent",
        "Assign the parameter of one module to the other.",
        "tie",
        _TIE,
        "",
    ),
    Edit(
        "the values are copied once, and will differ after the first step of training",
        "Assign the parameter itself, output.weight = …, instead of copying its values.",
        "tie",
        _TIE,
        "output.weight.data.copy_(embedding.weight.data)",
    ),
    Edit(
        "two parameters share the same numbers",
        "Assign the parameter itself: with .data there are two, each with its own gradient, and "
        "the optimiser changes the numbers twice.",
        "tie",
        _TIE,
        "output.weight.data = embedding.weight.data",
    ),
    Edit(
        "the output layer is the wrong way round, and its weight is a parameter of its own",
        "Give nn.Linear its inputs first, then its outputs; compare the shapes of both weights.",
        "tie",
        f"nn.Linear(d_model, vocab, bias=False)\n    {_TIE}",
        "nn.Linear(vocab, d_model, bias=False)\n"
        "    output.weight = nn.Parameter(embedding.weight.T)",
    ),
    Edit(
        "the embedding has one row per component instead of one per token",
        "Give nn.Embedding the vocabulary size first, then d_model.",
        "embedding",
        "nn.Embedding(vocab, d_model)",
        "nn.Embedding(d_model, vocab)",
    ),
)


def token_loss(
    u: Float[Tensor, "batch length d_model"],
    matrix: Float[Tensor, "vocab d_model"],
    labels: Int[Tensor, "batch length"],
) -> Float[Tensor, ""]:
    """The loss of decoder outputs."""
    logits = u @ matrix.T
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def softmax_twice(
    u: Float[Tensor, "batch length d_model"],
    matrix: Float[Tensor, "vocab d_model"],
    labels: Int[Tensor, "batch length"],
) -> Float[Tensor, ""]:
    """The code with the bug: cross_entropy gets probabilities."""
    probs = (u @ matrix.T).softmax(dim=-1)
    return F.cross_entropy(probs.flatten(0, 1), labels.flatten(), ignore_index=PAD)


_LOSS = "F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)"
LOSS_MISTAKES = (
    Edit(
        "the negative probabilities are averaged, without a logarithm",
        "F.nll_loss expects log-probabilities: use log_softmax with it, or cross_entropy alone.",
        "loss",
        _LOSS,
        "F.nll_loss(logits.softmax(-1).flatten(0, 1), labels.flatten(), ignore_index=PAD)",
    ),
    Edit(
        "the logits are used as log-probabilities",
        "F.nll_loss needs log_softmax first; F.cross_entropy contains it.",
        "loss",
        _LOSS,
        "F.nll_loss(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)",
    ),
    Edit(
        "the softmax is taken over the positions",
        "The probabilities of the tokens at one position sum to 1: use the last axis.",
        "loss",
        _LOSS,
        "F.nll_loss(logits.log_softmax(1).flatten(0, 1), labels.flatten(), ignore_index=PAD)",
    ),
    Edit(
        "cross_entropy still gets the results of a softmax, now over the positions",
        "Look up which argument cross_entropy expects, and what it does with it.",
        "loss",
        _LOSS,
        "F.cross_entropy(logits.softmax(1).flatten(0, 1), labels.flatten(), ignore_index=PAD)",
    ),
    Edit(
        "the padding is counted",
        "Keep ignore_index=0.",
        "padding",
        ", ignore_index=PAD",
        "",
    ),
    Edit(
        "the losses are added instead of averaged",
        "Return the mean over the real labels.",
        "reduction",
        "labels.flatten()",
        "labels.flatten(), reduction='sum'",
    ),
    Edit(
        "the sum over the real labels is divided by the number of all positions",
        "Padding has no loss: leave it out of the number, too.",
        "padding reduction",
        ", ignore_index=PAD)",
        ", ignore_index=PAD, reduction='none').mean()",
    ),
    Edit(
        "the logits are divided by √d_model, as in attention",
        "The logits are the dot products themselves.",
        "logits",
        "u @ matrix.T",
        "u @ matrix.T / math.sqrt(matrix.shape[1])",
    ),
    Edit(
        "the logits are multiplied by √d_model",
        "The factor belongs to the embedding only.",
        "logits",
        "u @ matrix.T",
        "u @ matrix.T * math.sqrt(matrix.shape[1])",
    ),
)


Logits = Shaped[Tensor, "batch length vocab"]
Labels = Int[Tensor, "batch length"]


def mean_loss(logits: Logits, labels: Labels) -> Tensor:
    """Correct: the mean over the labels that are not padding."""
    losses = -logits.log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0]
    return losses[labels != PAD].mean()


LOSS_MUTANTS = (
    Edit(
        "a loss that counts padding",
        "",
        "",
        "losses[labels != PAD].mean()",
        "losses.mean()",
    ),
    Edit(
        "a sum of losses",
        "",
        "",
        ".mean()",
        ".sum()",
    ),
    Edit(
        "a mean of the means of sentences",
        "",
        "",
        "losses[labels != PAD].mean()",
        "((losses * (labels != PAD)).sum(-1) / (labels != PAD).sum(-1)).mean()",
    ),
    Edit(
        "a sum over real labels, divided by all positions",
        "",
        "",
        "losses[labels != PAD].mean()",
        "losses[labels != PAD].sum() / labels.numel()",
    ),
    Edit(
        "a softmax of probabilities",
        "",
        "",
        "logits.log_softmax",
        "logits.softmax(dim=-1).log_softmax",
    ),
    Edit(
        "a loss with negative probabilities instead of their logarithms",
        "",
        "",
        "logits.log_softmax",
        "logits.softmax",
    ),
    Edit(
        "a softmax over the positions",
        "",
        "",
        "log_softmax(dim=-1)",
        "log_softmax(dim=1)",
    ),
    Edit(
        "a loss that leaves out <eos>, id 2, as well as padding",
        "",
        "",
        "labels != PAD",
        "(labels != PAD) & (labels != 2)",
    ),
)
_mutant = by_edits(mean_loss, LOSS_MUTANTS)


def loss_mutants() -> dict[str, Callable[..., Any]]:
    """Faulty losses, by description."""
    return {each.name: _mutant(frozenset({each.name})) for each in LOSS_MUTANTS}


def by_kernel(logits: Logits, labels: Labels) -> Tensor:
    """Correct: PyTorch's function."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def from_sums(logits: Logits, labels: Labels) -> Tensor:
    """Correct: the logarithm of the sum of exponentials minus the logit of the label."""
    correct = logits.gather(-1, labels[..., None])[..., 0]
    keep = labels != PAD
    return ((logits.logsumexp(dim=-1) - correct) * keep).sum() / keep.sum()


def loss_test(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if a loss is wrong."""
    logits = torch.randn(2, 4, 6)
    labels = torch.tensor([[5, 3, 4, 2], [3, 2, 0, 0]])
    total = 0.0
    for i, j in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)):
        total -= float(logits[i, j].log_softmax(dim=0)[labels[i, j]])
    assert abs(float(loss(logits, labels)) - total / 6) < 1e-4


def untrained_loss(variance: float) -> float:
    """The loss of an untrained model with 1,000 tokens and d_model = 512."""
    matrix = torch.randn(1000, 512) * variance**0.5
    u = F.layer_norm(torch.randn(200, 512), (512,))  # as the last layer norm returns it
    return F.cross_entropy(u @ matrix.T, torch.randint(1000, (200,))).item()


def default_initialisation() -> tuple[str, str]:
    """Compare the variances 1 and 1 / d_model."""
    large, small = untrained_loss(1.0), untrained_loss(1 / 512)
    option = "a" if large < 10 else "b" if large < 30 else "c"
    texts = approximate(large, 74.0, 8.0, ".0f"), approximate(small, 7.5, 0.3, ".1f")
    return option, f"the loss is {texts[0]} with variance 1 and {texts[1]} with 1/512."
