"""Solutions, known mistakes and wrong versions of the exercises of chapter 17."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake

IN_32_BITS = Mistake(
    "the bytes are those of training in 32-bit numbers",
    "In mixed precision, weights and gradients have 2 bytes, and the copy belongs to the 12 that "
    "are divided first.",
    "bytes",
)
WHOLE_COPY = Mistake(
    "the copy of the weights is not divided",
    "The copy is divided with the moments, in every stage.",
    "bytes",
)
SHIFTED = Mistake(
    "the stages are shifted by one",
    "Stage 1 divides only the copy and the moments.",
    "bytes",
)
ALL_DIVIDED = Mistake(
    "everything is divided in every stage",
    "Only stage 3 divides everything.",
    "bytes",
)
DIVIDED_ONLY = Mistake(
    "only the divided part is counted",
    "Each process also stores what the stage does not divide.",
    "bytes",
)
ALL_STAGES = Mistake(
    "a stage is idle for p instead of p − 1 passes",
    "A stage is idle for p − 1 passes.",
    "micro-batches",
)
OF_BUSY_TIME = Mistake(
    "the idle time is compared with the busy time",
    "Divide by the whole time, m + p − 1 passes.",
    "micro-batches",
)
NO_RING = Mistake(
    "a process sends each number once",
    "In a ring of 8 processes, each sends 2 (p − 1) / p times the bytes of its gradients.",
    "tokens",
)
HALF = Mistake(
    "half of the bytes are counted",
    "An all-reduce has two halves, and a number has 4 bytes.",
    "tokens",
)
FORWARD_ONLY = Mistake(
    "only the operations of the forward pass are counted",
    "Training needs 6N operations per token.",
    "tokens",
)
NOT_IN_THOUSANDS = Mistake(
    "the tokens are not given in thousands",
    "Divide the number of tokens by 1,000.",
    "tokens",
)
EIGHTFOLD = Mistake(
    "the number of tokens is 8 times too large",
    "Count the tokens of one process, and the fraction (p − 1) / p of the ring.",
    "tokens",
)
PLAN_MISTAKES = (
    IN_32_BITS,
    WHOLE_COPY,
    SHIFTED,
    ALL_DIVIDED,
    DIVIDED_ONLY,
    ALL_STAGES,
    OF_BUSY_TIME,
    NO_RING,
    HALF,
    FORWARD_ONLY,
    NOT_IN_THOUSANDS,
    EIGHTFOLD,
)


def plan_with(faults: Faults) -> list[float]:
    """Bytes per weight in three stages, micro-batches, and thousands of tokens, with mistakes."""
    [fault] = faults or {""}
    stages = {
        IN_32_BITS.name: [10.0, 7.0, 4.0],
        WHOLE_COPY.name: [10.0, 8.5, 7.0],
        SHIFTED.name: [5.5, 4.0, 4.0],
        ALL_DIVIDED.name: [4.0, 4.0, 4.0],
        DIVIDED_ONLY.name: [3.0, 3.5, 4.0],
    }
    batches = {ALL_STAGES.name: 152.0, OF_BUSY_TIME.name: 140.0}
    right = 2 * 7 / 8 * 4 / 50e9 * 4e14 / 6 / 1000
    factors = {
        NO_RING.name: 4 / 7,
        HALF.name: 0.5,
        FORWARD_ONLY.name: 3.0,
        NOT_IN_THOUSANDS.name: 1000.0,
        EIGHTFOLD.name: 8.0,
    }
    return [
        *stages.get(fault, [7.0, 5.5, 4.0]),
        batches.get(fault, 133.0),
        right * factors.get(fault, 1.0),
    ]


def tokens_per_weight(a: float, alpha: float, b: float, beta: float, budget: float) -> float:
    """The number of tokens per weight with the smallest loss for a budget."""
    ratio = alpha * a / (beta * b)
    n: float = (ratio * (budget / 6) ** beta) ** (1 / (alpha + beta))
    return budget / (6 * n**2)


_SIZE = "(ratio * (budget / 6) ** beta) ** (1 / (alpha + beta))"
_PER_WEIGHT = "budget / (6 * n**2)"
SIZE_MISTAKES = (
    Edit(
        "the two terms are made equal instead of their derivatives",
        "Set the sum of the two derivatives to zero: each of them has its exponent as a factor.",
        "ratio",
        "alpha * a / (beta * b)",
        "a / b",
    ),
    Edit(
        "the two sides of the condition are exchanged in the ratio",
        "Solve for the power of N again: check which constants belong in the numerator.",
        "ratio",
        "alpha * a / (beta * b)",
        "beta * b / (alpha * a)",
    ),
    Edit(
        "the exponents are exchanged in the ratio",
        "The term of the weights has A and α, and that of the tokens B and β.",
        "ratio",
        "alpha * a / (beta * b)",
        "beta * a / (alpha * b)",
    ),
    Edit(
        "the ratio of the constants is missing",
        "The best N depends on A, B and the exponents as well.",
        "ratio",
        "alpha * a / (beta * b)",
        "1.0",
    ),
    Edit(
        "the budget has the exponent α instead of β",
        "The budget comes from the term of the tokens.",
        "size",
        _SIZE,
        "(ratio * (budget / 6) ** alpha) ** (1 / (alpha + beta))",
    ),
    Edit(
        "the factor 6 is missing in the best N",
        "Replace D by C / (6N), not by C / N.",
        "size",
        _SIZE,
        "(ratio * budget**beta) ** (1 / (alpha + beta))",
    ),
    Edit(
        "the factor 6 multiplies the budget",
        "The product of N and D is C / 6.",
        "size",
        _SIZE,
        "(ratio * (budget * 6) ** beta) ** (1 / (alpha + beta))",
    ),
    Edit(
        "the root with the exponent α + β is missing",
        "The condition determines a power of N, not N itself.",
        "size",
        _SIZE,
        "ratio * (budget / 6) ** beta",
    ),
    Edit(
        "the exponents of the two powers of N are subtracted",
        "Bring the powers of N to one side: dividing by a negative power adds its exponent.",
        "size",
        _SIZE,
        "(ratio * (budget / 6) ** beta) ** (1 / (beta - alpha))",
    ),
    Edit(
        "the number of weights is returned",
        "Compute D for this N, and divide.",
        "result",
        _PER_WEIGHT,
        "n",
    ),
    Edit(
        "the number of tokens is returned",
        "Divide the number of tokens by the number of weights.",
        "result",
        _PER_WEIGHT,
        "budget / (6 * n)",
    ),
    Edit(
        "the weights are divided by the tokens",
        "Tokens per weight is D / N.",
        "result",
        _PER_WEIGHT,
        "6 * n**2 / budget",
    ),
    Edit(
        "the factor 6 is missing in D",
        "A token costs 6N operations.",
        "result",
        _PER_WEIGHT,
        "budget / n**2",
    ),
)


def ring_rounds(x: Float[Tensor, "p p"]) -> Float[Tensor, "rounds p p"]:
    """The numbers of all processes after each round of a reduce-scatter in a ring."""
    p = len(x)
    states = []
    for step in range(p - 1):
        after = x.clone()
        for i in range(p):
            chunk = (i - step) % p
            after[(i + 1) % p, chunk] += x[i, chunk]
        x = after
        states.append(x)
    return torch.stack(states)


_ROUNDS = "for step in range(p - 1)"
_SENDERS = "for i in range(p):"
_CHUNK = "(i - step) % p"
_SENT = "after[(i + 1) % p, chunk] += x[i, chunk]"
RING_MISTAKES = (
    Edit(
        "the received number replaces the number of the process itself",
        "Add the received number to the process's own number.",
        "sent",
        _SENT,
        "after[(i + 1) % p, chunk] = x[i, chunk]",
    ),
    Edit(
        "a process adds its own numbers to themselves",
        "Send the number to the next process.",
        "sent",
        _SENT,
        "after[i, chunk] += x[i, chunk]",
    ),
    Edit(
        "the numbers travel to the previous process",
        "Process i sends to process i + 1.",
        "sent",
        _SENT,
        "after[(i - 1) % p, chunk] += x[i, chunk]",
    ),
    Edit(
        "the sender does not keep its number",
        "Sending copies the number: it remains where it is.",
        "sent",
        _SENT,
        f"{_SENT}\n            after[i, chunk] -= x[i, chunk]",
    ),
    Edit(
        "the number is added in the wrong place in the next process",
        "Add number k of a process to number k of the next one.",
        "sent",
        _SENT,
        "after[(i + 1) % p, (chunk + 1) % p] += x[i, chunk]",
    ),
    Edit(
        "the processes send their original numbers in every round",
        "Pass on the sum that was received in the round before.",
        "sent round",
        "x = after\n        states.append(x)",
        "states.append(after if not states else states[-1] + after - x)",
    ),
    Edit(
        "each round starts from the original numbers",
        "A round continues from the state after the previous one.",
        "round",
        "x = after\n        states.append(x)",
        "states.append(after)",
    ),
    Edit(
        "every round shows the numbers after the last one",
        "Store a copy for each round: a list keeps the tensor, which later rounds change.",
        "result",
        "torch.stack(states)",
        "torch.stack([states[-1]] * len(states))",
    ),
    Edit(
        "process i sends number i in every round",
        "From the second round on, a process passes on the sum that it has just received.",
        "chunk",
        _CHUNK,
        "i",
    ),
    Edit(
        "the index of the sent number grows from round to round",
        "Process i passes on what it has just received: the number that process i − 1 sent.",
        "chunk",
        _CHUNK,
        "(i + step) % p",
    ),
    Edit(
        "process i sends number i + 1 in the first round",
        "In the first round process i sends number i; the other order belongs to the all-gather.",
        "chunk",
        _CHUNK,
        "(i + 1 - step) % p",
    ),
    Edit(
        "the last process sends nothing",
        "Close the ring: the last process sends to process 0.",
        "senders",
        _SENDERS,
        "for i in range(p - 1):",
    ),
    Edit(
        "there is one round too many",
        "After p − 1 rounds, each process has one complete sum.",
        "rounds",
        _ROUNDS,
        "for step in range(p)",
    ),
)


def divided(
    x: Float[Tensor, "tokens d"],
    w1: Float[Tensor, "d d_ff"],
    b1: Float[Tensor, " d_ff"],
    w2: Float[Tensor, "d_ff d"],
    b2: Float[Tensor, " d"],
    p: int,
) -> Float[Tensor, "tokens d"]:
    """The output of a feed-forward network that is divided among p devices."""
    output = torch.zeros_like(x)
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        hidden = torch.relu(x @ columns + bias)
        output = output + hidden @ rows
    return output + b2


def repeated_bias(
    x: Float[Tensor, "tokens d"],
    w1: Float[Tensor, "d d_ff"],
    b1: Float[Tensor, " d_ff"],
    w2: Float[Tensor, "d_ff d"],
    b2: Float[Tensor, " d"],
    p: int,
) -> Float[Tensor, "tokens d"]:
    """The code with the bug: every device adds the second bias."""
    output = torch.zeros_like(x)
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        hidden = torch.relu(x @ columns + bias)
        output = output + hidden @ rows + b2
    return output


_HIDDEN = "torch.relu(x @ columns + bias)"
_PART = "output = output + hidden @ rows"
DIVIDED_MISTAKES = (
    Edit(
        "the second bias is missing",
        "The network has two biases: the second belongs to the output.",
        "bias",
        "return output + b2",
        "return output",
    ),
    Edit(
        "the partial outputs are averaged",
        "Add them: they are terms of a sum, and only one quantity was counted too often.",
        "bias",
        "return output + b2",
        "return output / p + b2",
    ),
    Edit(
        "the second bias is divided by the number of devices",
        "The output contains the whole bias once.",
        "bias",
        "return output + b2",
        "return output + b2 / p",
    ),
    Edit(
        "the first bias is divided by the number of devices",
        "Each device has its own part of the first bias: look for a vector that all of them add.",
        "hidden part bias",
        f"{_HIDDEN}\n        {_PART}\n    return output + b2",
        "torch.relu(x @ columns + bias / p)\n"
        "        output = output + hidden @ rows + b2\n"
        "    return output",
    ),
    Edit(
        "only the output of the last device is returned",
        "The output of the network is the sum over the devices.",
        "part",
        _PART,
        "output = hidden @ rows",
    ),
    Edit(
        "the first bias is missing",
        "Each device needs its part of the first bias.",
        "hidden",
        _HIDDEN,
        "torch.relu(x @ columns)",
    ),
    Edit(
        "the activation function is missing",
        "The hidden vector passes through the ReLU.",
        "hidden",
        _HIDDEN,
        "x @ columns + bias",
    ),
    Edit(
        "the first bias is added after the activation function",
        "Add the bias before the ReLU.",
        "hidden",
        _HIDDEN,
        "torch.relu(x @ columns) + bias",
    ),
    Edit(
        "the activation function is applied to the outputs, too",
        "Only the hidden vector passes through the ReLU.",
        "part",
        _PART,
        "output = output + torch.relu(hidden @ rows)",
    ),
)


def merged(
    outputs: Float[Tensor, "p query d"], log_sums: Float[Tensor, "p query"]
) -> Float[Tensor, "query d"]:
    """Attention over all keys, from the attention over p chunks of the keys."""
    weights = log_sums.softmax(dim=0)
    return (weights[..., None] * outputs).sum(dim=0)


_WEIGHTS = "log_sums.softmax(dim=0)"
_MERGED = "(weights[..., None] * outputs).sum(dim=0)"
MERGED_MISTAKES = (
    Edit(
        "all chunks have the same weight",
        "A chunk with large scores contributes more: use the sums of its exponentials.",
        "weights",
        _WEIGHTS,
        "torch.full_like(log_sums, 1 / len(log_sums))",
    ),
    Edit(
        "all chunks that are not hidden have the same weight",
        "A chunk with large scores contributes more: use the sums of its exponentials.",
        "weights",
        _WEIGHTS,
        "log_sums.isfinite() / log_sums.isfinite().sum(dim=0)",
    ),
    Edit(
        "a hidden chunk counts as a chunk whose sum is 1",
        "The sum of a hidden chunk is 0, and −inf is its logarithm: the weight must become 0.",
        "weights",
        _WEIGHTS,
        "log_sums.nan_to_num(neginf=0.0).softmax(dim=0) * log_sums.isfinite()",
    ),
    Edit(
        "the logarithms are used as weights",
        "The weights are proportional to the sums of exponentials, not to their logarithms.",
        "weights",
        _WEIGHTS,
        "log_sums / log_sums.sum(dim=0)",
    ),
    Edit(
        "large exponentials overflow",
        "Subtract the largest logarithm of each query first: the quotient stays the same.",
        "weights",
        _WEIGHTS,
        "log_sums.exp() / log_sums.exp().sum(dim=0)",
    ),
    Edit(
        "the exponentials are not divided by their sum",
        "The weights of the chunks must sum to 1 for each query.",
        "weights",
        _WEIGHTS,
        "(log_sums - log_sums.amax(dim=0)).exp()",
    ),
    Edit(
        "the weights sum to 1 over the queries",
        "Each query has a distribution over the chunks.",
        "weights",
        _WEIGHTS,
        "log_sums.softmax(dim=1)",
    ),
    Edit(
        "only the chunk with the largest sum counts",
        "The other chunks contribute as well, with smaller weights.",
        "weights",
        _WEIGHTS,
        "(log_sums == log_sums.amax(dim=0)).double()",
    ),
    Edit(
        "chunks with small sums get the large weights",
        "The weight of a chunk grows with its sum of exponentials.",
        "weights",
        _WEIGHTS,
        "(-log_sums).softmax(dim=0)",
    ),
    Edit(
        "the weights are not used",
        "Multiply the output of each chunk by its weight before you add.",
        "weights sum",
        f"{_WEIGHTS}\n    return {_MERGED}",
        "log_sums\n    return outputs.sum(dim=0)",
    ),
    Edit(
        "the weighted outputs are averaged",
        "The weights already sum to 1: add.",
        "sum",
        _MERGED,
        "(weights[..., None] * outputs).mean(dim=0)",
    ),
)


AllReduce = Callable[[list[Tensor]], list[Tensor]]


def all_reduce_test(all_reduce: AllReduce) -> None:
    """Raise AssertionError if an all-reduce is wrong."""
    generator = torch.Generator().manual_seed(0)
    for p, size in ((1, 2), (2, 4), (3, 3), (4, 8), (4, 6), (5, 1)):
        given = list(torch.randint(-99, 100, (p, size), generator=generator).double())
        before = [each.clone() for each in given]
        results = all_reduce(given)
        assert len(results) == p
        assert all(torch.equal(each, sum(before, torch.zeros(size))) for each in results)
        assert all(map(torch.equal, given, before))


def by_stack(tensors: list[Tensor]) -> list[Tensor]:
    """Correct: one sum, copied to each process."""
    total = torch.stack(tensors).sum(dim=0)
    return [total.clone() for _ in tensors]


def by_ring(tensors: list[Tensor]) -> list[Tensor]:
    """Correct: whole tensors travel once round the ring."""
    p = len(tensors)
    results = [tensor.clone() for tensor in tensors]
    for distance in range(1, p):
        for i in range(p):
            results[i] += tensors[(i - distance) % p]
    return results


def by_chunks(tensors: list[Tensor]) -> list[Tensor]:
    """Correct: each process adds one chunk, and the chunks are gathered."""
    p = len(tensors)
    chunks = [tensor.tensor_split(p) for tensor in tensors]
    totals = [torch.stack([chunk[k] for chunk in chunks]).sum(dim=0) for k in range(p)]
    return [torch.cat(totals) for _ in tensors]


def averaged(tensors: list[Tensor]) -> list[Tensor]:
    """The mean instead of the sum."""
    return [each / len(tensors) for each in by_stack(tensors)]


def in_process_0(tensors: list[Tensor]) -> list[Tensor]:
    """Only process 0 has the sum."""
    return [by_stack(tensors)[0], *(tensor.clone() for tensor in tensors[1:])]


def scattered(tensors: list[Tensor]) -> list[Tensor]:
    """Each process has one complete chunk."""
    total, p = by_stack(tensors)[0], len(tensors)
    results = [tensor.clone() for tensor in tensors]
    for i in range(p):
        results[i].tensor_split(p)[i].copy_(total.tensor_split(p)[i])
    return results


def without_last(tensors: list[Tensor]) -> list[Tensor]:
    """The last process is left out."""
    total = sum(tensors[:-1], torch.zeros_like(tensors[0]))
    return [total.clone() for _ in tensors]


def equal_chunks(tensors: list[Tensor]) -> list[Tensor]:
    """The numbers that are left after dividing by p are not added."""
    size = len(tensors[0]) // len(tensors) * len(tensors)
    total = by_stack(tensors)[0]
    return [torch.cat([total[:size], tensor[size:]]) for tensor in tensors]


def twice_own(tensors: list[Tensor]) -> list[Tensor]:
    """Each process counts its own tensor twice."""
    return [a + b for a, b in zip(by_stack(tensors), tensors, strict=True)]


def of_neighbours(tensors: list[Tensor]) -> list[Tensor]:
    """Each process adds the tensor of the previous one only."""
    p = len(tensors)
    return [sum((tensors[i - k] for k in range(min(p, 2))), 0 * tensors[i]) for i in range(p)]


def in_place(tensors: list[Tensor]) -> list[Tensor]:
    """The given tensors are changed."""
    total = by_stack(tensors)[0]
    return [tensor.copy_(total) for tensor in tensors]


def ring_sum(processes: int, dtype: torch.dtype) -> float:
    """The sum of one gradient of 1 per process, added one after the other."""
    total, gradient = torch.ones((), dtype=dtype), torch.ones((), dtype=dtype)
    for _ in range(processes - 1):
        total = total + gradient
    return total.item()


def lower_precision() -> tuple[str, str]:
    """Add 512 gradients in a ring, in two formats."""
    half, single = (ring_sum(512, dtype) for dtype in (torch.bfloat16, torch.float32))
    pairs = torch.ones(512, dtype=torch.bfloat16)
    while len(pairs) > 1:
        pairs = pairs[::2] + pairs[1::2]
    option = "a" if half > 500 else "b" if half > 300 else "c"
    return option, (
        f"the sum is {half:.0f} in bf16 and {single:.0f} in fp32; added in pairs, it is "
        f"{pairs.item():.0f} in bf16."
    )
