"""Chapter 9: the decoder."""

from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch09_versions as versions
from tfmr.exercises.edits import by_edits
from tfmr.exercises.exercise import (
    Caveat,
    Function,
    Numbers,
    Predict,
    Probe,
    Subject,
    WriteTest,
    as_tensor,
    first_tensor,
    loops,
    numbers,
)

CHAPTER = "09"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="A loss with padding",
    level=1,
    task="A batch has two target sentences. The first has four labels, to which the model assigns "
    "the probabilities 0.5, 0.25, 0.8 and 0.4. The second has two labels, with 0.5 and 0.1, and "
    "two positions of padding, where the model assigns 0.9 to the padding token. The last real "
    "label of each sentence is `<eos>`. Compute the mean loss of the batch.",
    name="batch_loss",
    stub="batch_loss = None\n",
    hints=(
        "The loss of one label is the negative natural logarithm of its probability.",
        "Which of the eight positions are labels that the model has to learn?",
        "Add the losses of all real labels, and divide once, by their number.",
    ),
    answer=[1.036],
    remark="The six losses are 0.693, 1.386, 0.223, 0.916, 0.693 and 2.303; their sum is 6.215.",
    build=versions.loss_with,
    mistakes=versions.LOSS_MISTAKES,
)


def read_pair(value: Any) -> Tensor | None:
    """Inputs and labels side by side, of equal or different lengths."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    inputs, labels = as_tensor(value[0]), as_tensor(value[1])
    if inputs is None or labels is None or inputs.shape[:-1] != labels.shape[:-1]:
        return None
    return torch.cat([inputs, labels], dim=-1)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The shift",
    level=1,
    task="In training, each position of the decoder predicts the token that follows its prefix. "
    "Make its inputs and its labels from a batch of target sentences.",
    name="inputs_and_labels",
    stub='''\
def inputs_and_labels(target):
    """The inputs of the decoder and its labels: two tensors of the same shape.

    target: (batch, length), token ids; each sentence begins with <bos>,
        ends with <eos>, and is padded with 0 at the end

    The label at a position is the token that follows it in the target.
    """
    raise NotImplementedError
''',
    hints=(
        "Write one sentence on paper, and below each token the token that follows. Which tokens "
        "have no partner?",
        "Both tensors are one token shorter than the target. At which end is each of them shorter?",
        "Return both as a pair; padding needs no special treatment here.",
    ),
    answer=versions.inputs_and_labels,
    remark="In a shorter sentence, `<eos>` remains among the inputs; its label is padding, which "
    "the loss ignores.",
    build=by_edits(versions.inputs_and_labels, versions.SHIFT_MISTAKES),
    arguments=("target",),
    read=read_pair,
    probes=(
        Probe("one sentence", (torch.tensor([[1, 7, 5, 9, 2]]),)),
        Probe("one short sentence", (torch.tensor([[1, 4, 2]]),)),
        Probe("two sentences", (torch.tensor([[1, 8, 6, 2], [1, 5, 3, 2]]),)),
        Probe("sentences with padding", (torch.tensor([[1, 8, 6, 3, 2], [1, 5, 2, 0, 0]]),)),
        Probe("three sentences", (torch.tensor([[1, 8, 2], [1, 5, 2], [1, 2, 0]]),)),
    ),
    mistakes=versions.SHIFT_MISTAKES,
)


def cross_probe(
    stage: str, batch: int, target: int, keep: list[list[int]], d: int, seed: int
) -> Probe:
    """Decoder states, an encoder output, three matrices, and a padding mask."""
    mask = torch.tensor(keep, dtype=torch.bool)
    source = mask.shape[1]
    states = numbers(seed, batch, target, d), numbers(seed + 1, batch, source, d)
    matrices = tuple(numbers(seed + i, d, d) for i in (2, 3, 4))
    return Probe(stage, (*states, *matrices, mask))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Cross-attention",
    level=2,
    task="Write the cross-attention of one head, for a batch of source sentences with padding.",
    name="cross_attend",
    stub='''\
def cross_attend(x, memory, w_q, w_k, w_v, keep):
    """The outputs of cross-attention: (batch, target, d).

    x: (batch, target, d), the decoder's vectors
    memory: (batch, source, d), the encoder output
    w_q, w_k, w_v: (d, d), used as in x @ w_q
    keep: (batch, source), boolean; False marks padding in the source
    """
    raise NotImplementedError
''',
    hints=(
        "There is one output per target position. Which of x and memory gives the queries?",
        "What is the shape of the scores? The mask has no axis for the target positions yet.",
        "Two sentences of a batch hide different columns. Where does the mask need an axis of size "
        "one?",
    ),
    answer=versions.cross_attend,
    remark="The mask hides the same source positions for all target positions of a sentence. No "
    "causal mask is needed: the whole source is known.",
    build=by_edits(versions.cross_attend, versions.CROSS_MISTAKES),
    arguments=("x", "memory", "w_q", "w_k", "w_v", "keep"),
    read=first_tensor,
    probes=(
        cross_probe("one target token and two source tokens", 1, 1, [[1, 1]], 2, 0),
        cross_probe("as many target as source tokens", 1, 3, [[1, 1, 1]], 2, 10),
        cross_probe("two target and four source tokens", 1, 2, [[1, 1, 1, 1]], 4, 20),
        cross_probe("a source with padding", 1, 3, [[1, 1, 0]], 2, 30),
        cross_probe("two sentences, one with padding", 2, 2, [[1, 1, 1], [1, 0, 0]], 2, 40),
        cross_probe("two sentences with four target tokens", 2, 4, [[1, 1, 0, 0], [1] * 4], 4, 50),
    ),
    caveats=(
        Caveat(
            loops(
                cross_probe("", 1, 2, [[1, 1, 0]], 2, 60).arguments,
                cross_probe("", 1, 7, [[1, 1, 0]], 2, 60).arguments,
            ),
            "it loops over target positions: one matrix multiplication computes all scores.",
        ),
    ),
    mistakes=versions.CROSS_MISTAKES,
)


SHIFTED_TWICE = """\
def training_loss(model, target):
    inputs, labels = target[:, :-1], target[:, 1:]
    logits = model(inputs)[:, :-1]
    labels = labels[:, 1:]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0
    )
"""


class Lookup:
    """A model of the probes: the logits of each position are a row of a table."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def __call__(self, ids: Tensor) -> Tensor:
        """The logits."""
        return self.table[ids]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lookup) and bool(torch.equal(self.table, other.table))

    def __repr__(self) -> str:
        return f"a table of logits, {tuple(self.table.shape)}"


def loss_probe(stage: str, seed: int, *target: list[int]) -> Probe:
    """A model with ten tokens and a batch of target sentences."""
    return Probe(stage, (Lookup(numbers(seed, 10, 10)), torch.tensor(target)))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the loss",
    level=2,
    task="The loss of the code below falls as it should. But the trained model leaves out every "
    "second word when it continues *The cat sat on the*. Repair the code.",
    name="training_loss",
    stub=f"""\
# Find the bug in this code, and repair it: model maps token ids
# (batch, length) to logits (batch, length, vocab); target is (batch,
# length), from <bos> to <eos>, padded with 0.
{SHIFTED_TWICE}""",
    hints=(
        "Take the target [1, 7, 5, 9, 2], and write down which label belongs to which input.",
        "Some libraries shift the labels inside the loss, others expect labels that have been "
        "shifted. Which does this code do?",
        "How many tokens lie between an input and its label? There should be none.",
    ),
    answer=versions.training_loss,
    remark="The labels were shifted twice, so the model learned to predict the token after the "
    "next. The second shift belongs to code whose labels are not shifted yet.",
    build=by_edits(versions.training_loss, versions.TRAINING_LOSS_MISTAKES),
    given=versions.shifted_twice,
    arguments=("model", "target"),
    probes=(
        loss_probe("one sentence", 0, [1, 7, 5, 9, 2]),
        loss_probe("a sentence of one word", 1, [1, 4, 2]),
        loss_probe("two sentences", 2, [1, 8, 6, 2], [1, 5, 3, 2]),
        loss_probe("sentences with padding", 3, [1, 8, 6, 3, 2], [1, 5, 2, 0, 0]),
    ),
    mistakes=versions.TRAINING_LOSS_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the leak test for a decoder",
    level=3,
    task="A decoder has two inputs with different rules. Its output may depend on the whole "
    "source, but only on the target up to its own position. Write a test for both rules. It is run "
    "on three correct functions and on eight faulty ones.",
    name="decoder_test",
    stub='''\
def decoder_test(decode):
    """Raise AssertionError if an output has the wrong dependencies.

    decode: a function of x, (batch, target, d), and memory, (batch,
        source, d), with a result (batch, target, d)

    In a correct function, output i of a sentence depends on positions 0
    to i of its target and on all positions of its source, and on
    nothing else. Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Begin with the leak test of exercise 4.6: change one position of x. Which outputs may "
        "change, and in which sentences?",
        "Now change one position of memory. Which outputs must change? A decoder that ignores its "
        "source has no leak, but is wrong.",
        "Change one sentence at a time, and look at the others. Even a small change is a leak, so "
        "compare with a small tolerance.",
    ),
    answer=versions.decoder_test,
    remark="It tests what must not change and what must change, for both inputs, and that the "
    "sentences of a batch do not influence each other.",
    correct=(
        Subject("causal self-attention is followed by cross-attention", versions.decoder_layer),
        Subject("each output is computed from its prefix alone", versions.by_prefixes),
        Subject("a layer norm and a nonlinearity follow", versions.normalised_layer),
    ),
    mutants=(
        Subject("a decoder without a causal mask", versions.no_mask),
        Subject("a causal mask that also shows the next position", versions.next_visible),
        Subject("a decoder that ignores the encoder output", versions.no_memory),
        Subject("a causal mask in cross-attention as well", versions.causal_cross),
        Subject("cross-attention to the first sentence of the batch", versions.first_memory),
        Subject("a mean over the sentences that is subtracted", versions.batch_mean),
        Subject("a small part of the last position in the first output", versions.last_added),
        Subject("a small part of the second position in the first output", versions.second_added),
    ),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the training: no shift",
    level=3,
    task="A layer with causal self-attention is trained to continue sequences that count modulo "
    "10, such as 3, 4, 5, 6. With shifted labels, its loss falls to 0, and all tokens that it "
    "generates are correct. Now the shift is forgotten: inputs and labels are the same tokens. "
    "What happens? Predict first; the check then trains the model.",
    name="prediction",
    stub="""\
# a: the loss stays above 0.5
# b: the loss falls to 0, and most generated tokens are right
# c: the loss falls to 0, and most generated tokens are wrong
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "Which input positions may the output at position i depend on, under a causal mask?",
        "Is the label of position i among them?",
        "What does a model generate that has learned the easiest solution of this task?",
    ),
    answer="c",
    remark="A causal mask shows each position its own token, which is now the label, so copying "
    "gives a loss of 0. When it generates, the model repeats the last token. A loss that falls to "
    "0 at once is a reason to check the shift.",
    options={
        "a": "the loss stays above 0.5",
        "b": "the loss falls to 0, and most generated tokens are right",
        "c": "the loss falls to 0, and most generated tokens are wrong",
    },
    replies={
        "a": "Each position may attend to itself, and its own token is the label: copying it "
        "lowers the loss to 0.",
        "b": "The model has learned to copy its input, which the loss rewards, not to predict the "
        "next token.",
    },
    experiment=versions.without_shift,
)
