"""Solutions, known mistakes and wrong versions of the exercises of chapter 9."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention, causal_mask
from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate

PROBABILITIES = torch.tensor([[0.5, 0.25, 0.8, 0.4], [0.5, 0.1, 0.9, 0.9]], dtype=torch.double)
REAL = torch.tensor([[True, True, True, True], [True, True, False, False]])

PADDING_COUNTED = Mistake(
    "the padding is counted, too",
    "Leave out the last two labels of the second sentence, in the sum and in the number of labels.",
    "mean",
)
BY_ALL = Mistake(
    "the sum over the real labels is divided by the number of all positions",
    "Divide by the number of real labels, 6.",
    "mean",
)
BY_SENTENCE = Mistake(
    "this is the mean of the two sentence means",
    "Add all six losses and divide once: every real label has the same weight.",
    "mean",
)
SUMMED = Mistake(
    "this is the sum of the losses",
    "Divide it by the number of real labels.",
    "mean",
)
NO_EOS = Mistake(
    "the last real label of each sentence, <eos>, is left out",
    "Count <eos> as well: the model must learn where a sentence ends.",
    "mean",
)
BITS = Mistake(
    "the loss is in bits: the logarithm has the base 2",
    "Use the natural logarithm, as the chapter and PyTorch do.",
    "logarithm",
)
LOG_OF_MEAN = Mistake(
    "this is the logarithm of the mean probability",
    "Take the logarithm of each probability first, then the mean.",
    "logarithm mean",
)
LOSS_MISTAKES = (PADDING_COUNTED, BY_ALL, BY_SENTENCE, SUMMED, NO_EOS, BITS, LOG_OF_MEAN)


def loss_with(faults: Faults) -> list[float]:
    """The loss of the six real labels, with mistakes."""
    losses = -PROBABILITIES.log()
    if BITS.name in faults:
        losses = losses / math.log(2)
    real = losses[REAL]
    values = {
        PADDING_COUNTED.name: losses.mean(),
        BY_ALL.name: real.sum() / 8,
        BY_SENTENCE.name: (losses[0].mean() + losses[1, :2].mean()) / 2,
        SUMMED.name: real.sum(),
        NO_EOS.name: torch.cat([losses[0, :3], losses[1, :1]]).mean(),
        LOG_OF_MEAN.name: -PROBABILITIES[REAL].mean().log(),
    }
    return [float(next((values[f] for f in faults if f in values), real.mean()))]


def inputs_and_labels(
    target: Int[Tensor, "batch length"],
) -> tuple[Int[Tensor, "batch shorter"], Int[Tensor, "batch shorter"]]:
    """The decoder's input and, one step ahead, its labels."""
    return target[:, :-1], target[:, 1:]


_PAIR = "target[:, :-1], target[:, 1:]"
SHIFT_MISTAKES = (
    Edit(
        "the labels are not shifted: each label is the input token itself",
        "The label at position i is the token at position i + 1: target[:, 1:].",
        "pair",
        _PAIR,
        "target[:, :-1], target[:, :-1]",
    ),
    Edit(
        "inputs and labels are both the whole target",
        "Leave out the last token of the inputs and the first token of the labels.",
        "pair",
        _PAIR,
        "target, target",
    ),
    Edit(
        "inputs and labels are exchanged",
        "The inputs begin with <bos>; the labels are one step ahead of them.",
        "pair",
        _PAIR,
        "target[:, 1:], target[:, :-1]",
    ),
    Edit(
        "the inputs keep the last token, for which there is no label",
        "Leave it out of the inputs: target[:, :-1].",
        "pair",
        _PAIR,
        "target, target[:, 1:]",
    ),
    Edit(
        "the labels keep <bos>, which is never predicted",
        "Leave it out of the labels: target[:, 1:].",
        "pair",
        _PAIR,
        "target[:, :-1], target",
    ),
    Edit(
        "the labels are two steps ahead of the inputs",
        "Shift once: the label at position i is the token at position i + 1.",
        "pair",
        _PAIR,
        "target[:, :-2], target[:, 2:]",
    ),
    Edit(
        "the labels are rolled, so <bos> becomes the last label",
        "Cut the first token off instead of moving it to the end.",
        "pair",
        _PAIR,
        "target, target.roll(-1, dims=1)",
    ),
    Edit(
        "the sentences are shifted instead of the positions",
        "The first axis is the batch: slice the second one, target[:, 1:].",
        "pair",
        _PAIR,
        "target[:-1], target[1:]",
    ),
)


def cross_attend(
    x: Float[Tensor, "batch target d"],
    memory: Float[Tensor, "batch source d"],
    w_q: Float[Tensor, "d d"],
    w_k: Float[Tensor, "d d"],
    w_v: Float[Tensor, "d d"],
    keep: Bool[Tensor, "batch source"],
) -> Float[Tensor, "batch target d"]:
    """Cross-attention of one head, without an output projection."""
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~keep[:, None, :], -math.inf)
    return scores.softmax(dim=-1) @ v


_PROJECTIONS = "x @ w_q, memory @ w_k, memory @ w_v"
_MASK = "scores.masked_fill(~keep[:, None, :], -math.inf)"
CROSS_MISTAKES = (
    Edit(
        "the queries come from the encoder output, and keys and values from the decoder",
        "The queries come from x, the keys and values from memory.",
        "projections",
        _PROJECTIONS,
        "memory @ w_q, x @ w_k, x @ w_v",
    ),
    Edit(
        "queries, keys and values all come from the decoder",
        "This is self-attention: compute keys and values from memory.",
        "projections",
        _PROJECTIONS,
        "x @ w_q, x @ w_k, x @ w_v",
    ),
    Edit(
        "queries, keys and values all come from the encoder output",
        "Compute the queries from x: there is one output for each target position.",
        "projections",
        _PROJECTIONS,
        "memory @ w_q, memory @ w_k, memory @ w_v",
    ),
    Edit(
        "the values come from the decoder instead of the encoder output",
        "Compute the values from memory, like the keys.",
        "projections",
        _PROJECTIONS,
        "x @ w_q, memory @ w_k, x @ w_v",
    ),
    Edit(
        "w_k and w_v are exchanged",
        "The keys are memory @ w_k, the values memory @ w_v.",
        "projections",
        _PROJECTIONS,
        "x @ w_q, memory @ w_v, memory @ w_k",
    ),
    Edit(
        "the values are the encoder output itself, without w_v",
        "Project the values: memory @ w_v.",
        "projections",
        _PROJECTIONS,
        "x @ w_q, memory @ w_k, memory",
    ),
    Edit(
        "the padding of the source is not hidden",
        "Set the scores of the keys with keep = False to −∞, before the softmax.",
        "mask",
        _MASK,
        "scores",
    ),
    Edit(
        "the mask is inverted: the real tokens are hidden",
        "True means may attend: fill where keep is False.",
        "mask",
        _MASK,
        "scores.masked_fill(keep[:, None, :], -math.inf)",
    ),
    Edit(
        "a causal mask hides later source positions",
        "The whole source is known: only its padding is hidden.",
        "mask",
        _MASK,
        "scores.masked_fill(~keep[:, None, :].expand(scores.shape).tril(), -math.inf)",
    ),
    Edit(
        "the masked scores are set to 0 instead of −∞",
        "The exponential of 0 is 1, so padding keeps a weight: fill with -math.inf.",
        "mask",
        _MASK,
        "scores.masked_fill(~keep[:, None, :], 0.0)",
    ),
    Edit(
        "the scores are not divided by √d_k",
        "Divide them before the softmax; d_k is the size of a query.",
        "scale",
        " / math.sqrt(q.shape[-1])",
        "",
    ),
    Edit(
        "the softmax is taken over the queries instead of the keys",
        "Each target position's weights must sum to 1: take the softmax over dim=-1.",
        "softmax",
        "softmax(dim=-1)",
        "softmax(dim=-2)",
    ),
)


def training_loss(
    model: Callable[[Tensor], Tensor], target: Int[Tensor, "batch length"]
) -> Float[Tensor, ""]:
    """The mean loss of the real labels."""
    inputs, labels = target[:, :-1], target[:, 1:]
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)


def shifted_twice(
    model: Callable[[Tensor], Tensor], target: Int[Tensor, "batch length"]
) -> Float[Tensor, ""]:
    """The code with the bug: the labels are two steps ahead."""
    inputs, labels = target[:, :-1], target[:, 1:]
    logits = model(inputs)[:, :-1]
    labels = labels[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)


_SHIFT = "inputs, labels = target[:, :-1], target[:, 1:]"
TRAINING_LOSS_MISTAKES = (
    Edit(
        "nothing is shifted any more: the label is the input token itself",
        "Keep one of the two shifts.",
        "shift",
        _SHIFT,
        "inputs, labels = target, target",
    ),
    Edit(
        "inputs and labels are both cut at the end, so nothing is shifted",
        "The labels begin one token later: target[:, 1:].",
        "shift",
        _SHIFT,
        "inputs, labels = target[:, :-1], target[:, :-1]",
    ),
    Edit(
        "the second shift is undone by another, so the label is the input token itself",
        "Write inputs and labels below each other: the label of a token is the next token.",
        "shift",
        _SHIFT,
        "inputs, labels = target[:, 1:-1], target[:, 1:-1]",
    ),
    Edit(
        "the first label is left out",
        "Remove the second shift of the labels and of the logits: <bos> predicts the first token.",
        "shift",
        _SHIFT,
        "inputs, labels = target[:, 1:-1], target[:, 2:]",
    ),
    Edit(
        "the last label is left out",
        "Use all logits: the last real label, <eos>, is predicted, too.",
        "shift",
        _SHIFT,
        "inputs, labels = target[:, :-2], target[:, 1:-1]",
    ),
    Edit(
        "the labels are one step behind the inputs",
        "The label of a token is the next one: inputs target[:, :-1], labels target[:, 1:].",
        "shift",
        _SHIFT,
        "inputs, labels = target[:, 1:], target[:, :-1]",
    ),
    Edit(
        "the padding is counted in the loss",
        "Keep ignore_index=0.",
        "padding",
        ", ignore_index=0",
        "",
    ),
    Edit(
        "the losses are added instead of averaged",
        "Return the mean over the real labels.",
        "mean",
        "labels.flatten()",
        "labels.flatten(), reduction='sum'",
    ),
)


Batch = Shaped[Tensor, "batch target d"]
Memory = Shaped[Tensor, "batch source d"]
Decode = Callable[[Tensor, Tensor], Tensor]


def decoder_test(decode: Decode) -> None:
    """Raise AssertionError if an output has the wrong dependencies."""
    x, memory = torch.randn(3, 5, 4), torch.randn(3, 6, 4)
    before = decode(x, memory)
    for sentence in range(3):
        others = [i for i in range(3) if i != sentence]
        for pos in range(5):
            changed = x.clone()
            changed[sentence, pos] += torch.randn(4)
            after = decode(changed, memory)
            assert torch.allclose(after[sentence, :pos], before[sentence, :pos], atol=1e-5)
            assert not torch.allclose(after[sentence, pos], before[sentence, pos], atol=1e-5)
            assert torch.allclose(after[others], before[others], atol=1e-5)
        for pos in range(6):
            changed = memory.clone()
            changed[sentence, pos] += torch.randn(4)
            after = decode(x, changed)
            difference = (after - before).abs().amax(dim=-1)
            assert (difference[sentence] > 1e-5).all()
            assert (difference[others] < 1e-5).all()


def attend(
    q: Shaped[Tensor, "batch query d"],
    k: Shaped[Tensor, "batch key d"],
    allowed: Bool[Tensor, "query key"] | None = None,
) -> Shaped[Tensor, "batch query d"]:
    """Attention in which the keys are the values."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(dim=-1) @ k


def lower(x: Batch, keys: int, diagonal: int = 0) -> Bool[Tensor, "query key"]:
    """A causal mask."""
    return torch.ones(x.shape[1], keys, dtype=torch.bool).tril(diagonal)


def decoder_layer(x: Batch, memory: Memory) -> Batch:
    """Correct: causal self-attention, then cross-attention."""
    x = x + attend(x, x, lower(x, x.shape[1]))
    return x + attend(x, memory)


def by_prefixes(x: Batch, memory: Memory) -> Batch:
    """Correct: each output is computed from its prefix."""
    return torch.stack([decoder_layer(x[:, : i + 1], memory)[:, -1] for i in range(x.shape[1])], 1)


def normalised_layer(x: Batch, memory: Memory) -> Batch:
    """Correct: with a layer norm over the components and a nonlinearity."""
    x = decoder_layer(x, memory)
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() + x.tanh()


def no_mask(x: Batch, memory: Memory) -> Batch:
    """No causal mask."""
    x = x + attend(x, x)
    return x + attend(x, memory)


def next_visible(x: Batch, memory: Memory) -> Batch:
    """The mask is off by one."""
    x = x + attend(x, x, lower(x, x.shape[1], 1))
    return x + attend(x, memory)


def no_memory(x: Batch, memory: Memory) -> Batch:
    """The encoder output is not used."""
    return x + attend(x, x, lower(x, x.shape[1]))


def causal_cross(x: Batch, memory: Memory) -> Batch:
    """The causal mask is applied to the source as well."""
    x = x + attend(x, x, lower(x, x.shape[1]))
    return x + attend(x, memory, lower(x, memory.shape[1]))


def first_memory(x: Batch, memory: Memory) -> Batch:
    """All sentences attend to the first source sentence."""
    return decoder_layer(x, memory[:1].expand_as(memory))


def batch_mean(x: Batch, memory: Memory) -> Batch:
    """The mean over the sentences is subtracted."""
    return decoder_layer(x - x.mean(dim=0, keepdim=True), memory)


def last_added(x: Batch, memory: Memory) -> Batch:
    """A little of the last position is added to the first."""
    out = decoder_layer(x, memory)
    return torch.cat([out[:, :1] + 0.05 * x[:, -1:], out[:, 1:]], dim=1)


def second_added(x: Batch, memory: Memory) -> Batch:
    """A little of the second position is added to the first."""
    out = decoder_layer(x, memory)
    return torch.cat([out[:, :1] + 0.05 * x[:, 1:2], out[:, 1:]], dim=1)


def continuation(shifted: bool, steps: int = 60) -> tuple[float, float]:
    """The loss of the last step and the accuracy of the generated tokens.

    The sequences count: 3, 4, 5, …, modulo 10. A causal layer is trained on the next token or, if
    not ``shifted``, on the token itself.
    """
    torch.manual_seed(0)
    embedding, output = nn.Embedding(10, 32), nn.Linear(32, 10)
    attention = MultiHeadAttention(32, n_heads=2)
    weights = [*embedding.parameters(), *attention.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.01)

    def logits_of(ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length 10"]:
        x = embedding(ids)
        logits: Tensor = output(x + attention(x, mask=causal_mask(ids.shape[1])))
        return logits

    for _ in range(steps):
        ids = (torch.randint(10, (32, 1)) + torch.arange(9)) % 10
        labels = ids[:, 1:] if shifted else ids[:, :-1]
        loss = F.cross_entropy(logits_of(ids[:, :-1]).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids = torch.arange(10)[:, None]
    for _ in range(5):
        with torch.no_grad():
            ids = torch.cat([ids, logits_of(ids)[:, -1:].argmax(dim=-1)], dim=1)
    counted = (torch.arange(10)[:, None] + torch.arange(6)) % 10
    return loss.item(), float((ids == counted)[:, 1:].float().mean())


def without_shift() -> tuple[str, str]:
    """Train with labels that are not shifted."""
    loss, accuracy = continuation(shifted=False)
    option = "a" if loss > 0.5 else "b" if accuracy > 0.5 else "c"
    texts = approximate(loss, 0.0, 0.02), approximate(accuracy, 0.0, 0.02)
    return option, f"the loss is {texts[0]}, the accuracy of the generated tokens {texts[1]}."
