"""Chapter 17: many devices."""

import torch

from tfmr.exercises import ch17_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    numbers,
)

CHAPTER = "17"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Five numbers of a plan",
    level=1,
    task="Compute by hand: the bytes per weight that each of 4 processes stores in stages 1, 2 "
    "and 3 of ZeRO, in mixed precision (2 bytes for a weight, 2 for its gradient, 4 for its copy "
    "and 8 for its moments; the copy is divided with the moments); the number of micro-batches "
    "with which a pipeline of 8 stages is idle for 5 % of the time; and, in thousands, the number "
    "of tokens that each of 8 processes needs per step so that the all-reduce of the gradients "
    "takes no longer than the computation, which it overlaps. For the last one, assume 6N FLOPs "
    "per token, 4 · 10¹⁴ FLOP/s, gradients in fp32, and 50 GB/s sent by each process.",
    name="plan",
    stub="""\
# bytes in stages 1, 2 and 3, micro-batches, thousands of tokens
plan = [None, None, None, None, None]
""",
    hints=(
        "For ZeRO, write two numbers for each stage: the bytes that every process stores, and "
        "those of which it stores a quarter.",
        "For the pipeline, the idle share is (p − 1) / (m + p − 1). Which m makes it 0.05?",
        "For the tokens, write both times with N and T, the number of tokens, and set them equal. "
        "What happens to N?",
    ),
    answer=[7.0, 5.5, 4.0, 133.0, 9.333],
    remark="The stages need 4 + 12/4, 2 + 14/4 and 16/4 bytes. From 7 = 0.05 (m + 7) follows m = "
    "133. With F FLOP/s and R bytes per second, the condition 6NT/F ≥ 2 (p − 1)/p · 4N/R "
    "contains N on both sides, so the size of the model does not matter. At 1.25 GB/s, the rate "
    "of a 10-gigabit network, 373 thousand tokens would be needed. If only the backward pass "
    "overlaps, 1.5 times as many are needed.",
    build=versions.plan_with,
    mistakes=versions.PLAN_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The best size for a budget",
    level=2,
    task="A budget of C = 6ND operations can be spent on a large model and few tokens, or the "
    "reverse. In the section *How many tokens per weight?*, a search over a grid found the best "
    "N. Derive it for the law E + A / N^α + B / D^β, and return the number of tokens per weight, "
    "D / N.",
    name="tokens_per_weight",
    stub='''\
def tokens_per_weight(a, alpha, b, beta, budget):
    """D / N for the N with the smallest loss: a number.

    a, alpha, b, beta: floats, the constants of the law
    budget: float, C, the number of operations
    """
    raise NotImplementedError
''',
    hints=(
        "Replace D by C / (6N). Which terms of the loss then depend on N?",
        "Where is the derivative with respect to N zero? It has one negative and one positive "
        "term.",
        "Bring all powers of N to one side. Compare your result with the table of the section: 93 "
        "and 18 at the largest budget.",
    ),
    answer=versions.tokens_per_weight,
    remark="The best N is proportional to C to the power β / (α + β): 0.45 with the constants of "
    "Hoffmann et al., so the number of tokens per weight grows by a factor of 1.6 when the budget "
    "grows by a factor of 100. With those of Besiroglu et al. the power is 0.51, and the number "
    "stays almost constant.",
    build=by_edits(versions.tokens_per_weight, versions.SIZE_MISTAKES),
    arguments=("a", "alpha", "b", "beta", "budget"),
    probes=(
        Probe("equal exponents", (200.0, 0.5, 800.0, 0.5, 6e6)),
        Probe("different exponents", (200.0, 0.5, 1000.0, 0.6, 6e9)),
        Probe("the constants of Hoffmann et al.", (406.4, 0.34, 410.7, 0.28, 5.76e23)),
        Probe("the constants of Besiroglu et al.", (482.01, 0.3478, 2085.43, 0.3658, 5.76e23)),
        Probe("a smaller budget", (482.01, 0.3478, 2085.43, 0.3658, 1e20)),
    ),
    mistakes=versions.SIZE_MISTAKES,
)


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="The rounds of a ring",
    level=2,
    task="Write the first half of the ring all-reduce, the reduce-scatter, for p processes with p "
    "numbers each, and return what all processes have after each round. In the first round, "
    "process i sends its number i to process i + 1, and the last process sends to process 0.",
    name="ring_rounds",
    stub='''\
def ring_rounds(x):
    """The numbers after each round: (p - 1, p, p).

    x: (p, p), one row of p numbers for each process
    """
    raise NotImplementedError
''',
    hints=(
        "Take the example of the chapter, with three processes: the second and third rows of its "
        "table are the result.",
        "Which number has process i received in a round? Write its index with i and the number of "
        "the round.",
        "In a round, all processes send at the same time: what they send is the state before the "
        "round.",
    ),
    answer=versions.ring_rounds,
    remark="After p − 1 rounds, process i has the complete sum of number i + 1, or, for the last "
    "process, of number 0.",
    build=by_edits(versions.ring_rounds, versions.RING_MISTAKES),
    arguments=("x",),
    probes=(
        Probe("two processes", (torch.tensor([[1.0, 2.0], [10.0, 20.0]]),)),
        Probe("three processes", (torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]]),)),
        Probe("four processes", (numbers(0, 4, 4),)),
        Probe("five processes", (numbers(10, 5, 5),)),
    ),
    mistakes=versions.RING_MISTAKES,
)


def network_probe(stage: str, p: int, tokens: int, d: int, d_ff: int) -> Probe:
    """An input, the matrices and biases of a feed-forward network, and the number of devices."""
    shapes = ((tokens, d), (d, d_ff), (d_ff,), (d_ff, d), (d,))
    return Probe(stage, (*(numbers(10 * p + i, *shape) for i, shape in enumerate(shapes)), p))


REPEATED_BIAS = """\
def divided(x, w1, b1, w2, b2, p):
    output = torch.zeros_like(x)
    for columns, bias, rows in zip(w1.chunk(p, dim=1), b1.chunk(p), w2.chunk(p), strict=True):
        hidden = torch.relu(x @ columns + bias)
        output = output + hidden @ rows + b2
    return output
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in tensor parallelism",
    level=2,
    task="The code below divides the feed-forward network max(0, x W₁ + b₁) W₂ + b₂ among p "
    "devices, and adds their partial outputs, as an all-reduce does. With one device the output "
    "is correct. Repair it.",
    name="divided",
    stub=f"""\
# Find the bug in this code, and repair it: x is (tokens, d), w1 is
# (d, d_ff), b1 is (d_ff,), w2 is (d_ff, d), and b2 is (d,).
{REPEATED_BIAS}""",
    hints=(
        "Set all matrices to zero. What should the output be with two devices, and what is it?",
        "Which of the five tensors are divided among the devices?",
        "The partial outputs of the devices are added. What must not be in more than one of them?",
    ),
    answer=versions.divided,
    remark="A vector that every device adds to its partial output is in the sum p times. In "
    "practice, one device adds b₂, or all add it after the all-reduce.",
    build=by_edits(versions.divided, versions.DIVIDED_MISTAKES),
    given=versions.repeated_bias,
    arguments=("x", "w1", "b1", "w2", "b2", "p"),
    probes=(
        network_probe("one device", 1, 1, 2, 2),
        network_probe("two devices", 2, 1, 2, 4),
        network_probe("three devices", 3, 2, 2, 6),
        network_probe("four devices", 4, 3, 4, 8),
    ),
    mistakes=versions.DIVIDED_MISTAKES,
)


def chunks_probe(stage: str, log_sums: list[list[float]], d: int, seed: int) -> Probe:
    """The attention outputs over each chunk of keys, and the logarithms of the sums."""
    sums = torch.tensor(log_sums)
    return Probe(stage, (numbers(seed, *sums.shape, d), sums))


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Merge the results of a ring",
    level=2,
    task="In context parallelism, a query attends to the keys in p chunks. For each chunk, it "
    "obtains the output of attention over this chunk alone, and the logarithm of the sum of the "
    "exponentials of its scores. Compute the output of attention over all keys.",
    name="merged",
    stub='''\
def merged(outputs, log_sums):
    """The output of attention over all keys: (query, d).

    outputs: (p, query, d), the outputs for each chunk of keys
    log_sums: (p, query), the log of the sum of exp(score) of each chunk,
        -inf if the mask hides the whole chunk
    """
    raise NotImplementedError
''',
    hints=(
        "How do you get back the weighted sum of a chunk, before its division by the sum of the "
        "exponentials?",
        "By what is the weighted sum over all chunks divided? Which weight does the output of a "
        "chunk have then?",
        "A logarithm of 1,000 is possible. What may be subtracted from all logarithms of a query, "
        "without changing the weights?",
    ),
    answer=versions.merged,
    remark="The weights of the chunks are a softmax over the logarithms: a softmax of softmaxes. "
    "The order of the chunks does not matter, so each device may start with its own.",
    build=by_edits(versions.merged, versions.MERGED_MISTAKES),
    arguments=("outputs", "log_sums"),
    probes=(
        chunks_probe("one query, two equal sums", [[0.5], [0.5]], 2, 0),
        chunks_probe("one query, two sums", [[0.2], [1.3]], 2, 10),
        chunks_probe("two queries, two chunks", [[0.7, 2.0], [1.5, -0.4]], 2, 20),
        chunks_probe("three chunks", [[1.2, 0.3], [0.4, 0.9], [2.1, -1.0]], 3, 30),
        chunks_probe("large scores", [[1000.0, 0.5], [1001.0, 1.2]], 2, 40),
        chunks_probe("a hidden chunk", [[0.8, 0.1], [-torch.inf, 0.6]], 2, 50),
    ),
    mistakes=versions.MERGED_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for an all-reduce",
    level=2,
    task="A wrong all-reduce raises no error: the processes train with wrong gradients. Write a "
    "test for a function that simulates one in a single process. It is run on three correct "
    "functions and on eight faulty ones.",
    name="all_reduce_test",
    stub='''\
def all_reduce_test(all_reduce):
    """Raise AssertionError if an all-reduce is wrong.

    all_reduce: a function of a list of p tensors (n,), one for each
        process. It returns a list of p tensors, each the sum of all p,
        and leaves its arguments unchanged.

    n need not be a multiple of p. Accept every correct function: use
    integer values, which are added exactly in every order.
    """
    raise NotImplementedError
''',
    hints=(
        "Which result is correct by accident with two processes?",
        "The chunks of a ring may have different sizes. Which n and p show whether this works?",
        "Compare the result of every process, and the arguments before and after.",
    ),
    answer=versions.all_reduce_test,
    remark="It tries one to five processes, with sizes that are multiples of p and others.",
    correct=(
        Subject("one sum is copied to each process", versions.by_stack),
        Subject("whole tensors travel round the ring", versions.by_ring),
        Subject("each process adds one chunk", versions.by_chunks),
    ),
    mutants=(
        Subject("the mean instead of the sum", versions.averaged),
        Subject("the sum in process 0 only", versions.in_process_0),
        Subject("a reduce-scatter: one complete chunk per process", versions.scattered),
        Subject("a sum without the last process", versions.without_last),
        Subject("a sum of only as many numbers as are a multiple of p", versions.equal_chunks),
        Subject("a sum that contains the process's own tensor twice", versions.twice_own),
        Subject(
            "the sum of the process's own tensor and that of the previous process",
            versions.of_neighbours,
        ),
        Subject("a function that changes the given tensors in place", versions.in_place),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the precision of the ring",
    level=3,
    task="In a ring of 512 processes, the gradient of one weight is 1 in every process. In the "
    "reduce-scatter, its sum travels from process to process, and each adds its 1. In fp32 the "
    "result is 512. What is it if the numbers are sent and added in bf16? Predict first; the check "
    "then adds in both formats.",
    name="prediction",
    stub="""\
# a: 512: it is a power of two, which bf16 represents exactly
# b: between 300 and 511: rounding errors of both signs nearly cancel
# c: 300 or less
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "A number in bf16 has 8 significant bits, including the leading one. Up to which integer "
        "are all integers exact?",
        "What is the next larger number of the format after 256?",
        "To which of the two neighbours is a sum that lies exactly between them rounded, and what "
        "does the next process then add to?",
    ),
    answer="c",
    remark="Above 256, the numbers of bf16 are 2 apart. 257 lies between 256 and 258, and is "
    "rounded to 256, the even one, in every further process. Equal gradients are the worst case; "
    "real ones have both signs. PyTorch's FSDP has a separate setting for the format of this sum: "
    "`reduce_dtype`.",
    options={
        "a": "512",
        "b": "between 300 and 511",
        "c": "300 or less",
    },
    replies={
        "a": "The result is representable, but not every sum on the way to it.",
        "b": "These errors do not cancel: every addition is rounded in the same direction.",
    },
    experiment=versions.lower_precision,
)
