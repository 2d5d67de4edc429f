"""Chapter 15: the family."""

import torch

from tfmr.exercises import ch15_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Caveat,
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    loops,
    numbers,
)

CHAPTER = "15"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="RMSNorm with γ",
    level=1,
    task="Compute by hand what RMSNorm returns for x = (1, 7, 5, 5) with γ = (2, 1, 1, 3) and "
    "ε = 0.",
    name="normalised",
    stub="normalised = [None, None, None, None]\n",
    hints=(
        "Start with the squares. What is their mean?",
        "The same number divides all four components, and its value is an integer.",
        "Is each component multiplied by its component of γ before the squares are taken, or "
        "after the division?",
    ),
    answer=[0.4, 1.4, 1.0, 3.0],
    remark="The mean square is 100 / 4 = 25, and its root is 5. The mean of x, 4.5, plays no part.",
    build=versions.rms_norm_with,
    mistakes=versions.RMS_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The mask of a prefix",
    level=1,
    task="A prefix language model is a decoder-only model whose first k tokens attend to one "
    "another in both directions; the later tokens attend causally. Write its mask.",
    name="prefix_mask",
    stub='''\
def prefix_mask(length, k):
    """The mask: (length, length), boolean, True means "may attend".

    length: int, the number of tokens
    k: int, the number of tokens in the prefix, 0 <= k <= length
    """
    raise NotImplementedError
''',
    hints=(
        "Draw the mask of four tokens for k = 0, then for k = 4. You know both.",
        "Which entries does a prefix add to a causal mask?",
        "Is a column of the prefix allowed in all rows, or only in some?",
    ),
    answer=versions.prefix_mask,
    remark="It equals the mask of an encoder–decoder with k source tokens. But the encoder–decoder "
    "has two sets of weights, and its decoder attends to the encoder output in every block.",
    build=by_edits(versions.prefix_mask, versions.PREFIX_MISTAKES),
    arguments=("length", "k"),
    probes=(
        Probe("no prefix", (3, 0)),
        Probe("only a prefix", (3, 3)),
        Probe("a prefix of two tokens", (4, 2)),
        Probe("a short prefix", (5, 1)),
        Probe("a longer text", (6, 4)),
    ),
    caveats=(
        Caveat(
            loops((2, 1), (6, 3)), "it loops over positions: comparisons of `arange` do it at once."
        ),
    ),
    mistakes=versions.PREFIX_MISTAKES,
)


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="A gated feed-forward network",
    level=2,
    task="Write the feed-forward network of LLaMA, SwiGLU.",
    name="gated_feed_forward",
    stub='''\
def gated_feed_forward(x, w_g, w_1, w_2):
    """The output: (length, d).

    x: (length, d)
    w_g, w_1: (d, d_ff), the matrix of the gate and the first matrix
    w_2: (d_ff, d)
    """
    raise NotImplementedError
''',
    hints=(
        "Two products of x have d_ff numbers per token. Which one is the gate?",
        "The swish is the sigmoid, times something. Check your function with the example of the "
        "chapter: 2 and 3 become 5.285.",
        "Gate and gated numbers are combined component by component, before the last product.",
    ),
    answer=versions.gated_feed_forward,
    remark="`F.silu` is the swish. With d_ff two thirds as large, the three matrices have as many "
    "weights as the two of 2017.",
    build=by_edits(versions.gated_feed_forward, versions.GATED_MISTAKES),
    arguments=("x", "w_g", "w_1", "w_2"),
    probes=(
        Probe("one number each", (torch.ones(1, 1), *torch.tensor([[[2.0]], [[3.0]], [[1.0]]]))),
        Probe("a negative gate", (torch.ones(1, 1), *torch.tensor([[[-1.0]], [[2.0]], [[1.0]]]))),
        Probe("another d_ff", (numbers(0, 1, 2), *numbers(1, 2, 2, 3), numbers(2, 3, 2))),
        Probe("three tokens", (numbers(3, 3, 2), *numbers(4, 2, 2, 4), numbers(5, 4, 2))),
        Probe("more dimensions", (numbers(6, 2, 4), *numbers(7, 2, 4, 3), numbers(8, 3, 4))),
    ),
    caveats=(
        Caveat(
            loops(
                (numbers(3, 1, 2), *numbers(4, 2, 2, 4), numbers(5, 4, 2)),
                (numbers(3, 5, 2), *numbers(4, 2, 2, 4), numbers(5, 4, 2)),
            ),
            "it loops over tokens: matrix multiplications process all of them.",
        ),
    ),
    mistakes=versions.GATED_MISTAKES,
)


def image_probe(stage: str, size: int, *shape: int) -> Probe:
    """Images with different pixels, and the size of the patches."""
    count = torch.arange(float(torch.Size(shape).numel()))
    return Probe(stage, (count.view(shape) + 1, size))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Cut images into patches",
    level=2,
    task="Write the first step of ViT: each image becomes a sequence of patches, row by row from "
    "the top left, and each patch a vector.",
    name="cut_patches",
    stub='''\
def cut_patches(images, size):
    """The patches: (batch, patches, channels * size * size).

    images: (batch, channels, height, width)
    size: int, the height and the width of a patch in pixels; the height
        and the width of the images are multiples of it

    A vector contains the pixels of the first channel, row by row, then
    those of the next channel.
    """
    raise NotImplementedError
''',
    hints=(
        "The height consists of rows of patches, and of the pixel rows within a patch. The width "
        "is divided in the same way: how many axes do you have then?",
        "Bring the axes into the order of the result before you join any of them.",
        "Three axes are joined to the vector of a patch, two to the axis of the patches. The "
        "pattern of `rearrange` can do all of it.",
    ),
    answer=versions.cut_patches,
    remark="A reshape alone keeps the order of the pixels, in which the top rows of all patches of "
    "a row come first.",
    build=by_edits(versions.cut_patches, versions.PATCH_MISTAKES),
    arguments=("images", "size"),
    probes=(
        image_probe("one patch", 2, 1, 1, 2, 2),
        image_probe("two patches side by side", 2, 1, 1, 2, 4),
        image_probe("two patches, one below the other", 2, 1, 1, 4, 2),
        image_probe("two rows of patches", 2, 1, 1, 4, 6),
        image_probe("two channels", 2, 1, 2, 4, 4),
        image_probe("two images", 3, 2, 2, 3, 6),
    ),
    caveats=(
        Caveat(
            loops(
                image_probe("", 2, 1, 1, 4, 4).arguments,
                image_probe("", 2, 1, 1, 8, 12).arguments,
            ),
            "it loops over patches: moving the axes cuts all of them.",
        ),
    ),
    mistakes=versions.PATCH_MISTAKES,
)


IN_TURN = """\
def grouped_attention(q, k, v):
    group = len(q) // len(k)
    k, v = k.repeat(group, 1, 1), v.repeat(group, 1, 1)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return weights @ v
"""


def heads_probe(stage: str, heads: int, kv_heads: int, length: int, seed: int) -> Probe:
    """Queries, keys and values with d_k = 2."""
    k, v = numbers(seed + 1, kv_heads, length, 2), numbers(seed + 2, kv_heads, length, 2)
    return Probe(stage, (2 * numbers(seed, heads, length, 2), k, v))


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Find the bug in the grouped queries",
    level=2,
    task="The code below computes grouped-query attention. With one key head, or with as many as "
    "query heads, it agrees with the published model; with two key heads for four query heads it "
    "does not, with the same weights. Repair it.",
    name="grouped_attention",
    stub=f"""\
# Find the bug in this code, and repair it: q is (heads, length, d_k),
# k and v are (kv_heads, length, d_k).
{IN_TURN}""",
    hints=(
        "Number the heads. Which key head does each of four query heads use in this code, and "
        "which should it use?",
        "Which order do 0, 1 and `repeat` give? A group consists of *consecutive* query heads.",
        "Why are the two orders equal with one key head, and with as many as query heads?",
    ),
    answer=versions.grouped_attention,
    remark="Such a model can be trained: the weights adapt to either order. The mistake shows only "
    "with weights that were trained in the other one.",
    build=by_edits(versions.grouped_attention, versions.GROUPED_MISTAKES),
    given=versions.repeated_in_turn,
    arguments=("q", "k", "v"),
    probes=(
        heads_probe("one key head", 2, 1, 2, 0),
        heads_probe("as many key heads as query heads", 2, 2, 2, 10),
        heads_probe("four query heads, two key heads", 4, 2, 2, 20),
        heads_probe("six query heads, two key heads", 6, 2, 3, 30),
        heads_probe("six query heads, three key heads", 6, 3, 2, 40),
    ),
    caveats=(
        Caveat(
            loops(
                heads_probe("", 2, 1, 2, 50).arguments,
                heads_probe("", 6, 3, 2, 50).arguments,
            ),
            "it loops over heads: one matrix multiplication processes all of them.",
        ),
    ),
    mistakes=versions.GROUPED_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for span corruption",
    level=3,
    task="If span corruption is wrong, T5 is trained on texts other than intended, and no error "
    "is raised. Write a test for it. It is run on three correct functions and on nine faulty ones.",
    name="corruption_test",
    stub='''\
def corruption_test(corrupt):
    """Raise AssertionError if span corruption is wrong.

    corrupt: a function of tokens, a list of strings, and of spans, a
        list of pairs (start, end) in ascending order that do not touch
        each other. It returns the input and the output, two lists of
        strings, as in the chapter: the sentinel tokens are "<0>",
        "<1>", ..., and the output ends with one more of them.

    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Take a short sentence and two spans of different length, and write down both lists by "
        "hand.",
        "Which mistake is invisible with a single span? And which with a span at the end of the "
        "text?",
        "Compare both lists completely, with their order.",
    ),
    answer=versions.corruption_test,
    remark="Two spans in the middle would be enough; the second case contains both ends of the "
    "text.",
    correct=(
        Subject("the spans are replaced one after the other", versions.corrupt),
        Subject("each token is looked up in the spans", versions.token_by_token),
        Subject("the spans are replaced from the last to the first", versions.from_the_end),
    ),
    mutants=(
        Subject("an output without the last sentinel token", versions.no_last_sentinel),
        Subject("spans that contain their end", versions.inclusive),
        Subject("an input that still contains the spans", versions.kept_in_the_input),
        Subject("the same sentinel token for all spans", versions.always_zero),
        Subject("sentinel tokens that are counted from 1", versions.counted_from_one),
        Subject("an output without sentinel tokens", versions.without_sentinels),
        Subject("an input without the tokens after the last span", versions.rest_lost),
        Subject("a sentinel token after its span instead of before it", versions.sentinel_after),
        Subject("an output in which the spans are in reverse order", versions.reversed_spans),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the model: no positions",
    level=3,
    task="Images of four patches contain one bright patch, and the class is its position: 1, 2, 3 "
    "or 4. A small ViT (a linear layer for the patches, learned positions, the attention of a "
    "class token, and an output layer) classifies all test images correctly after 150 steps. Now "
    "train it without positions. How many of 100 test images does it then classify correctly? "
    "Predict first; the check then trains both models.",
    name="prediction",
    stub="""\
# a: more than 90: the patches are still in the same order
# b: between 40 and 90
# c: fewer than 40
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "The output at the class token is a weighted sum over the patches. What does a weight "
        "depend on?",
        "Exchange two patches of an image. Which terms of the sum change?",
        "What can a model do if its output is the same for all four classes?",
    ),
    answer="c",
    remark="A sum does not depend on the order of its terms, so the model computes the same for "
    "every order of the patches: 25 % is chance level.",
    options={
        "a": "more than 90",
        "b": "between 40 and 90",
        "c": "fewer than 40",
    },
    replies={
        "a": "Attention is a weighted sum, in which the order of the patches does not occur.",
        "b": "Attention is a weighted sum, in which the order of the patches does not occur.",
    },
    experiment=versions.without_positions,
)
