"""Chapter 8: the encoder."""

import torch
from torch import Tensor

from tfmr.exercises import ch08_versions as versions
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

CHAPTER = "08"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Padding of zeros",
    level=1,
    task="Suppose that padding vectors of zeros replace the padding mask. Take one query and two "
    "real tokens with the scores ln 2 and 0 and the values 3 and 6. Every padding token has the "
    "score 0 and the value 0. Compute the output of the attention for this query, for the "
    "sentence alone, with 2 padding tokens and with 5.",
    name="outputs",
    stub="outputs = [None, None, None]\n",
    hints=(
        "Write down the exponentials of the scores. One of them is 2.",
        "What does a padding token add to the weighted sum of the values, and what to the sum of "
        "the exponentials?",
        "The numerator is the same in all three cases. Only the denominator grows.",
    ),
    answer=[4.0, 2.4, 1.5],
    remark="The numerator is 2 · 3 + 6 = 12, the denominator 3, 5 and 8. A value of zero adds "
    "nothing, but its weight is taken from the real tokens.",
    build=versions.padded_with,
    mistakes=versions.PADDING_MISTAKES,
)


def masks(lengths: list[int]) -> Tensor:
    """The padding mask of sentences with these lengths."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def vector_probe(stage: str, lengths: list[int], d: int, seed: int) -> Probe:
    """An encoder output and its mask."""
    return Probe(stage, (numbers(seed, len(lengths), max(lengths), d), masks(lengths)))


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="One vector per sentence",
    level=1,
    task="A classifier needs one vector per sentence: the mean of the encoder output over the "
    "real tokens. Compute these vectors for a batch.",
    name="sentence_vectors",
    stub='''\
def sentence_vectors(memory, keep):
    """The means: (batch, d).

    memory: (batch, length, d), the encoder output
    keep: (batch, length), boolean; False marks padding
    """
    raise NotImplementedError
''',
    hints=(
        "The vectors of the padding must not enter the sum. What can you multiply them by?",
        "keep has no axis for the d components yet. Where does it need one of size one?",
        "By which number do you divide the sum of a sentence? It differs between the sentences.",
    ),
    answer=versions.sentence_vectors,
    remark="Both the sum and the number of its terms must leave the padding out.",
    build=by_edits(versions.sentence_vectors, versions.VECTOR_MISTAKES),
    arguments=("memory", "keep"),
    probes=(
        vector_probe("no padding", [2], 2, 0),
        vector_probe("the second sentence is padded", [3, 1], 2, 10),
        vector_probe("the first sentence is padded", [2, 4], 2, 20),
        vector_probe("three sentences", [3, 5, 2], 3, 30),
    ),
    caveats=(
        Caveat(
            loops(
                vector_probe("", [1, 3], 2, 40).arguments,
                vector_probe("", [1, 3, 2, 2, 1], 2, 40).arguments,
            ),
            "it loops over sentences: a product with the mask serves all of them.",
        ),
    ),
    mistakes=versions.VECTOR_MISTAKES,
)


LAYER_ARGUMENTS = ("x", "keep", "w_q", "w_k", "w_v", "w_o", "w_1", "w_2")


def layer_probe(stage: str, lengths: list[int], d: int, d_ff: int, seed: int) -> Probe:
    """Vectors, a mask and the six matrices of a block."""
    x = numbers(seed, len(lengths), max(lengths), d)
    shapes = [(d, d)] * 4 + [(d, d_ff), (d_ff, d)]
    matrices = tuple(numbers(seed + 1 + i, *shape) for i, shape in enumerate(shapes))
    return Probe(stage, (x, masks(lengths), *matrices))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="A whole block",
    level=2,
    task="Write an encoder block from its matrices: post-norm, with one head and a padding mask, "
    "without biases, gains or dropout. You may use `torch.layer_norm`.",
    name="encoder_layer",
    stub='''\
def encoder_layer(x, keep, w_q, w_k, w_v, w_o, w_1, w_2):
    """The output of the block: (batch, length, d).

    x: (batch, length, d)
    keep: (batch, length), boolean; False marks padding
    w_q, w_k, w_v, w_o: (d, d); w_1: (d, d_ff); w_2: (d_ff, d); all are
        used as in x @ w_q

    Compute the outputs at padding positions like all others.
    """
    raise NotImplementedError
''',
    hints=(
        "Write the steps of the section *One block by hand* one after the other, without its "
        "numbers.",
        "Only the mask is new. Which step comes right before the softmax, and which axis of the "
        "scores belongs to the keys?",
        "Each sublayer ends with the sum and the layer norm. What is x for the second sublayer?",
    ),
    answer=versions.encoder_layer,
    remark="Only the line with the mask is not in the section *One block by hand*.",
    build=by_edits(versions.encoder_layer, versions.LAYER_MISTAKES),
    most_combined=1,
    arguments=LAYER_ARGUMENTS,
    probes=(
        layer_probe("one token", [1], 3, 4, 0),
        layer_probe("two tokens", [2], 3, 4, 10),
        layer_probe("four tokens", [4], 4, 6, 20),
        layer_probe("a sentence with padding", [3, 2], 3, 4, 30),
        layer_probe("three sentences", [2, 4, 1], 4, 4, 40),
    ),
    mistakes=versions.LAYER_MISTAKES,
)


class Block:
    """A block of the probes: attention with a padding mask, and one matrix."""

    def __init__(self, d: int, seed: int) -> None:
        self.w = numbers(seed, d, d)

    def __call__(self, x: Tensor, keep: Tensor) -> Tensor:
        """The output of the block."""
        scores = (x @ x.mT).masked_fill(~keep[:, None, :], -torch.inf)
        return torch.tanh(x + scores.softmax(dim=-1) @ x @ self.w)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and bool(torch.equal(self.w, other.w))

    def __repr__(self) -> str:
        return "a block"


class TrainedBlock(Block):
    """A block whose output is 0 if no gradient could flow back from its input."""

    def __call__(self, x: Tensor, keep: Tensor) -> Tensor:
        """The output of the block."""
        return super().__call__(x, keep) * x.requires_grad


def stack_probe(stage: str, n_blocks: int, lengths: list[int], d: int, seed: int) -> Probe:
    """Embeddings, their mask, and a stack of blocks."""
    blocks = tuple(Block(d, seed + 1 + i) for i in range(n_blocks))
    return Probe(stage, (numbers(seed, len(lengths), max(lengths), d), masks(lengths), blocks))


EMBEDDINGS_AGAIN = """\
def encode(x, keep, blocks):
    for block in blocks:
        memory = block(x, keep)
    return memory
"""

q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the stack",
    level=1,
    task="With the encoder below, six blocks translate no better than one. After the "
    "backward pass, the gradients of the first five blocks are missing. Repair the code.",
    name="encode",
    stub=f"""\
# Find the bug in this code, and repair it: x is (batch, length, d), keep
# is the padding mask, blocks is a tuple of functions of x and keep.
{EMBEDDINGS_AGAIN}""",
    hints=(
        "Which variables does each iteration use, and which does it assign?",
        "Follow the output of the first block. Is it used anywhere?",
        "The input and the output of a block have the same shape. What should the second block "
        "get?",
    ),
    answer=versions.encode,
    remark="Every block got the embeddings, and only the output of the last one was returned. No "
    "shape was wrong, so no error was raised.",
    build=by_edits(versions.encode, versions.STACK_MISTAKES),
    given=versions.last_block_alone,
    arguments=("x", "keep", "blocks"),
    probes=(
        stack_probe("one block", 1, [2], 2, 0),
        stack_probe("two blocks", 2, [3], 2, 10),
        stack_probe("three blocks and padding", 3, [2, 3], 2, 20),
        stack_probe("four blocks", 4, [4, 1, 2], 3, 30),
        Probe(
            "two blocks whose output is 0 if no gradient flows back from their input",
            (
                numbers(40, 1, 3, 2).requires_grad_(),
                masks([3]),
                (TrainedBlock(2, 41), TrainedBlock(2, 42)),
            ),
        ),
    ),
    mistakes=versions.STACK_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for padding",
    level=2,
    task="The encoder output for a sentence must not depend on its padding, nor on the other "
    "sentences in the batch. Write the test. It is run on three correct functions and on eight "
    "faulty ones.",
    name="padding_test",
    stub='''\
def padding_test(encode):
    """Raise AssertionError if an output has the wrong dependencies.

    encode: a function of x, (batch, length, d), and keep, (batch,
        length), boolean; False marks padding, which is at the end; its
        result is (batch, length, d)

    In a correct function, the output at a real token depends on all real
    tokens of its sentence and on nothing else. The outputs at padding
    may be anything. Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "What should the outputs of a padded sentence be equal to, if it is also encoded alone?",
        "Changing the numbers in the padding is not enough. Which faulty encoder does not use "
        "them, and yet depends on how many there are?",
        "Does the output at one real token change if another one is changed? An encoder without "
        "attention passes all other tests.",
    ),
    answer=versions.padding_test,
    remark="Each sentence is compared with itself alone, without padding; that covers the other "
    "sentences, too.",
    correct=(
        Subject("the padding is masked in both layers", versions.two_layers),
        Subject("each sentence is encoded alone, and padding gives 0", versions.each_alone),
        Subject("a mean over the real tokens is added, and padding gives 9", versions.with_mean),
    ),
    mutants=(
        Subject("an encoder without a mask", versions.no_mask),
        Subject("padding vectors that are set to zero instead of masked", versions.zeroed),
        Subject("the mask of the first sentence for all", versions.first_mask),
        Subject("a mask in the first layer only", versions.first_layer_only),
        Subject("a mean over all positions that is subtracted", versions.padding_in_mean),
        Subject("a part of the mean over the sentences that is subtracted", versions.batch_mean),
        Subject("a mask that hides all padding tokens but the first", versions.one_padding),
        Subject("outputs that depend on their own token only", versions.own_token),
    ),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the model: no residual connections",
    level=3,
    task="Take an untrained encoder with six post-norm blocks and eight random input vectors, and "
    "measure how similar the output vectors of two positions are: their cosine, as a mean over "
    "all pairs and five encoders. With residual connections it is about 0.2. Now remove all "
    "residual connections, and keep everything else. What is the mean cosine? Predict first; the "
    "check then measures it.",
    name="prediction",
    stub="""\
# a: below 0.5: the feed-forward networks keep the positions apart
# b: between 0.5 and 0.9
# c: above 0.9: the outputs of all positions are practically equal
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "The output of attention is a weighted average of values. Does an average of all positions "
        "differ from position to position as much as the values do?",
        "If the vectors of two positions are similar, are their queries? And what do the two "
        "positions receive?",
        "Without the residual connection, is there another way for a position to keep its own "
        "vector?",
    ),
    answer="c",
    remark="Without a residual connection, a position keeps of its own vector only what its "
    "attention weights give it, and each block averages again. The residual connection around "
    "attention adds the vector of the position itself. If only this connection is kept, the mean "
    "cosine is about 0.87; if only the one around the feed-forward network is kept, it is 1.00.",
    options={
        "a": "below 0.5",
        "b": "between 0.5 and 0.9",
        "c": "above 0.9",
    },
    replies={
        "a": "The feed-forward network is the same at all positions, so it maps nearly equal "
        "vectors to nearly equal vectors.",
        "b": "The averages of one block are already similar, and each further block averages them "
        "again.",
    },
    experiment=versions.without_residuals,
)
