"""Chapter 10: the whole model."""

from typing import Any

import torch
from torch import Tensor, nn

from tfmr.exercises import ch10_versions as versions
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
    loops,
    numbers,
)

CHAPTER = "10"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="In and out through one matrix",
    level=1,
    task="The tied matrix has the rows (1, 0), (0, 2) and (3, 1), so d_model = 2. First give the "
    "two numbers of the embedding of the token with the id 2, with the paper's factor and before "
    "the position is added. Then give the three probabilities that the model predicts if the "
    "decoder returns u = (1, −1). You may use exp(1) = 2.718, exp(−2) = 0.135 and exp(2) = 7.389.",
    name="in_and_out",
    stub="in_and_out = [None, None, None, None, None]\n",
    hints=(
        "Ids are counted from 0. The embedding is a row of the matrix, times √d_model.",
        "Each logit is the dot product of u with one row. The factor plays no part here.",
        "Divide the three exponentials by their sum.",
    ),
    answer=[4.243, 1.414, 0.265, 0.013, 0.721],
    remark="The embedding is √2 · (3, 1). The logits are 1, −2 and 2, the exponentials 2.718, "
    "0.135 and 7.389, and their sum is 10.243.",
    build=versions.by_hand_with,
    mistakes=versions.BY_HAND_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The input of the model",
    level=1,
    task="Write the first step of encoder and decoder: embeddings with the paper's factor, plus "
    "positions.",
    name="embed_tokens",
    stub='''\
def embed_tokens(ids, matrix, table):
    """The input vectors: (batch, length, d_model).

    ids: (batch, length), token ids
    matrix: (vocab, d_model), the embedding matrix
    table: (positions, d_model), one row per position, from position 0;
        it has at least as many rows as the sentences have tokens
    """
    raise NotImplementedError
''',
    hints=(
        "Indexing the matrix with a tensor of ids looks up a row for each of them.",
        "The factor belongs to the embeddings alone. Which size does it depend on?",
        "All sentences use the same positions. How many rows of the table do you need?",
    ),
    answer=versions.embed_tokens,
    remark="The rows of the table broadcast along the batch.",
    build=by_edits(versions.embed_tokens, versions.EMBED_MISTAKES),
    arguments=("ids", "matrix", "table"),
    probes=(
        Probe(
            "one token, all positions 0", (torch.tensor([[1]]), numbers(0, 3, 4), torch.zeros(2, 4))
        ),
        Probe("one token", (torch.tensor([[2]]), numbers(1, 4, 4), numbers(2, 3, 4))),
        Probe("three tokens", (torch.tensor([[0, 2, 2]]), numbers(3, 5, 2), numbers(4, 6, 2))),
        Probe("a batch", (torch.tensor([[1, 3], [4, 0]]), numbers(5, 6, 3), numbers(6, 8, 3))),
        Probe(
            "as many tokens as sentences",
            (torch.tensor([[1, 3, 2], [4, 0, 5], [1, 1, 0]]), numbers(7, 7, 4), numbers(8, 9, 4)),
        ),
    ),
    caveats=(
        Caveat(
            loops(
                (torch.tensor([[0, 2]]), numbers(3, 5, 2), numbers(4, 9, 2)),
                (torch.tensor([[0, 2, 1, 1, 3, 0, 2]]), numbers(3, 5, 2), numbers(4, 9, 2)),
            ),
            "it loops over positions: a tensor of ids can be looked up at once.",
        ),
    ),
    mistakes=versions.EMBED_MISTAKES,
)


def read_pair(value: Any) -> Tensor | None:
    """What a pair of modules has in common: its sizes, and three signs of tying.

    The numbers are: the sizes of both weights, whether the weights are equal, whether a change of
    the embedding changes the output layer, and whether both use one parameter.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    embedding, output = value
    if not isinstance(embedding, nn.Embedding) or not isinstance(output, nn.Linear):
        return None
    before = output.weight.detach().clone()
    equal = torch.equal(before, embedding.weight)
    with torch.no_grad():
        embedding.weight += 1
    shared = not torch.equal(before, output.weight)
    one = embedding.weight is output.weight
    return torch.tensor([*embedding.weight.shape, *before.shape, equal, shared, one])


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Tie two matrices",
    level=2,
    task="Make the embedding of the target and the output layer of a model, with one matrix for "
    "both. The check shows seven numbers: the sizes of both weights and, as 0 or 1, whether they "
    "are equal, whether a change of the embedding reaches the output, and whether they are one "
    "parameter.",
    name="tied_pair",
    stub='''\
def tied_pair(vocab, d_model):
    """A pair of modules: an nn.Embedding and an nn.Linear.

    vocab, d_model: int

    The linear layer maps (..., d_model) to logits (..., vocab). Both
    modules have the same parameter, in training, too.
    """
    raise NotImplementedError
''',
    hints=(
        "Make both modules first. Which shapes do their weights have?",
        "A copy of the numbers is equal only until the first step of training. What has to be "
        "the same object?",
        "A module stores its parameter as an attribute, which you can assign.",
    ),
    answer=versions.tied_pair,
    remark="Both attributes refer to one parameter, which receives the gradients of both uses, and "
    "which the optimiser changes once.",
    build=by_edits(versions.tied_pair, versions.TIE_MISTAKES),
    arguments=("vocab", "d_model"),
    read=read_pair,
    probes=(
        Probe("five tokens and d_model = 3", (5, 3)),
        Probe("two tokens and d_model = 4", (2, 4)),
        Probe("as many tokens as components", (4, 4)),
    ),
    mistakes=versions.TIE_MISTAKES,
)


SOFTMAX_TWICE = """\
def token_loss(u, matrix, labels):
    probs = (u @ matrix.T).softmax(dim=-1)
    return torch.nn.functional.cross_entropy(
        probs.flatten(0, 1), labels.flatten(), ignore_index=0
    )
"""


def loss_probe(stage: str, vocab: int, d_model: int, labels: list[list[int]], seed: int) -> Probe:
    """Decoder outputs, a matrix, and labels."""
    ids = torch.tensor(labels)
    u = numbers(seed, *ids.shape, d_model)
    return Probe(stage, (u, numbers(seed + 1, vocab, d_model), ids))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the loss",
    level=2,
    task="With the code below, a model with a vocabulary of three tokens never reaches a loss "
    "below 0.55, even if it predicts every label with certainty. Repair the code.",
    name="token_loss",
    stub=f"""\
# Find the bug in this code, and repair it: u is (batch, length,
# d_model), matrix is (vocab, d_model), and labels is (batch, length),
# padded with 0.
{SOFTMAX_TWICE}""",
    hints=(
        "Compute the loss by hand for the probabilities (1, 0, 0) and the first label. What does "
        "the code return?",
        "Which argument does PyTorch's `cross_entropy` expect? Its documentation states how it "
        "computes the loss.",
        "Count how often a softmax is computed between u and the loss.",
    ),
    answer=versions.token_loss,
    remark="`cross_entropy` expects logits and contains a softmax. The softmax of probabilities "
    "is nearly uniform: with three tokens, the largest value is e / (e + 2) = 0.576, a loss of "
    "0.551.",
    build=by_edits(versions.token_loss, versions.LOSS_MISTAKES),
    given=versions.softmax_twice,
    arguments=("u", "matrix", "labels"),
    probes=(
        loss_probe("one label", 3, 2, [[2]], 0),
        loss_probe("three labels", 4, 2, [[1, 3, 2]], 10),
        loss_probe("labels with padding", 4, 3, [[1, 3, 2, 0, 0]], 20),
        loss_probe("two sentences", 5, 4, [[4, 1, 2], [3, 2, 0]], 30),
    ),
    mistakes=versions.LOSS_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for the loss",
    level=2,
    task="A wrong loss still falls, so look at its value. Your test is run on three correct "
    "functions, which it must accept, and on eight faulty ones, which it must reject.",
    name="loss_test",
    stub='''\
def loss_test(loss):
    """Raise AssertionError if a loss is wrong.

    loss: a function of logits, (batch, length, vocab), and labels,
        (batch, length), padded with 0; <eos> has the id 2

    A correct loss is the mean cross-entropy of all labels that are not
    padding. Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Compute the expected value in another way, label by label, and compare.",
        "Which batch makes a mean over labels differ from a mean over sentences, and from a mean "
        "over positions?",
        "Include padding and `<eos>`, and make the logits differ from position to position.",
    ),
    answer=versions.loss_test,
    remark="Two sentences with different numbers of labels tell the means apart. A loop over the "
    "six labels is slow and easy to check by eye, which is what a test needs.",
    correct=(
        Subject("the losses of real labels are averaged", versions.mean_loss),
        Subject("PyTorch's cross_entropy is called with ignore_index=0", versions.by_kernel),
        Subject("logits are subtracted from logsumexp", versions.from_sums),
    ),
    mutants=tuple(Subject(text, each) for text, each in versions.loss_mutants().items()),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the initialisation",
    level=3,
    task="The tied matrix is initialised with the variance 1/d_model. PyTorch's `nn.Embedding` has "
    "the variance 1. Take a vocabulary of 1,000 tokens, d_model = 512 and decoder outputs from a "
    "layer norm, so that their vector norm is √512. With the variance 1/512, the loss of the "
    "untrained model is 7.5, a little above ln 1000 = 6.9. What is it with the variance 1? Predict "
    "first; the check then measures both.",
    name="prediction",
    stub="""\
# a: below 10: without training, no prediction is better than another
# b: between 10 and 30
# c: above 30
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "What is the standard deviation of a sum of 512 products u_i E_ki, if both factors are "
        "about 1?",
        "Of 1,000 logits with this standard deviation, the largest is about three standard "
        "deviations above 0. What does the softmax do with it?",
        "The loss is the logsumexp of the logits minus the logit of the label, which is about 0 on "
        "average.",
    ),
    answer="c",
    remark="The logits have a standard deviation of √512 = 22.6. The largest of 1,000 is about 73, "
    "and the softmax gives it most of the probability. The label has a logit of about 0, so "
    "the loss is about 73: the untrained model is confident, and wrong.",
    options={
        "a": "below 10",
        "b": "between 10 and 30",
        "c": "above 30",
    },
    replies={
        "a": "The logits are large, so the untrained model is certain of a random token, and the "
        "loss of a wrong prediction that is certain is large.",
        "b": "This is the size of one standard deviation of the logits; the largest of 1,000 is "
        "more than three of them above the logit of the label.",
    },
    experiment=versions.default_initialisation,
)
