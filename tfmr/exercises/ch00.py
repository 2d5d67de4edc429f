"""The primer: vectors, probabilities and gradient descent."""

import torch

from tfmr.exercises import ch00_versions as versions
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

CHAPTER = "00"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Perplexity by hand",
    level=1,
    task="A language model assigns the probabilities 1/2, 1/8, 1/8 and 1/8 to the four tokens of a "
    "sentence. Give the cross-entropy in bits and in nats, the perplexity, and 1 / P, where P is "
    "the probability of the whole sentence. You may use ln 2 = 0.693.",
    name="measures",
    stub="measures = [None, None, None, None]\n",
    hints=(
        "In bits, the surprisals are integers. Which power of 1/2 is 1/8?",
        "One nat is more than one bit. Which base belongs to the perplexity if the cross-entropy "
        "is in bits?",
        "The probability of the sentence is a product of four factors. Compare 1 / P with the "
        "perplexity to the power of 4.",
    ),
    answer=[2.5, 1.733, 5.657, 1024],
    remark="The surprisals are 1, 3, 3 and 3 bits. 1 / P is the perplexity to the power of the "
    "number of tokens. If one probability were 0, all four numbers would be infinite.",
    build=versions.perplexity_with,
    mistakes=versions.PERPLEXITY_MISTAKES,
)


q2 = Numbers(
    chapter=CHAPTER,
    number=2,
    title="A gradient and a step",
    level=1,
    task="A model with the parameters w = 3 and b = 1 predicts w·x + b, and its loss is "
    "(w·x + b − y)². For the example x = 2, y = 5, compute the derivatives of the loss with "
    "respect to w and to b by hand, and then w and b after one step of gradient descent with "
    "η = 0.1.",
    name="gradient_and_step",
    stub="gradient_and_step = [None, None, None, None]\n",
    hints=(
        "Let u = w·x + b − y. How does the loss depend on u, and how does u depend on w and on b?",
        "The derivative with respect to u is used twice, as in the computation graph of this page.",
        "Both derivatives belong to the old parameters. In which direction does a step go?",
    ),
    answer=[8.0, 4.0, 2.2, 0.6],
    remark="u = 2, so the derivative with respect to u is 4; those of u are x and 1. After the "
    "step the prediction is 5, and the loss is 0.",
    build=versions.step_with,
    mistakes=versions.STEP_MISTAKES,
)


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="The softmax of every row",
    level=1,
    task="Write the softmax of a matrix of logits, without a softmax function of PyTorch. It must "
    "not fail for large logits.",
    name="softmax_rows",
    stub='''\
def softmax_rows(logits):
    """The probabilities: (n, vocab); each row sums to 1.

    logits: (n, vocab), one row per position
    """
    raise NotImplementedError
''',
    hints=(
        "Write it for small logits first. Along which axis is the sum taken?",
        "What may be added to all logits of a row without an effect on its probabilities?",
        "A sum of shape (n,) does not broadcast along the rows; `keepdim=True` keeps the axis.",
    ),
    answer=versions.softmax_rows,
    remark="After the subtraction, the largest exponential of a row is 1, so none is infinite and "
    "the sum is not 0.",
    build=by_edits(versions.softmax_rows, versions.SOFTMAX_MISTAKES),
    arguments=("logits",),
    probes=(
        Probe("one row", (torch.tensor([[2.0, 1.0, 0.0]]),)),
        Probe("two rows", (torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]]),)),
        Probe("as many rows as tokens", (numbers(1, 3, 3),)),
        Probe("large logits", (torch.tensor([[1002.0, 1001.0, 1000.0]]),)),
        Probe(
            "a row with large and one with small logits",
            (torch.tensor([[501.0, 500.0], [-500.0, -502.0]]),),
        ),
        Probe("more rows", (numbers(2, 5, 4),)),
    ),
    caveats=(
        Caveat(
            loops((numbers(3, 1, 3),), (numbers(3, 6, 3),)),
            "it loops over rows: operations along an axis process all of them.",
        ),
    ),
    mistakes=versions.SOFTMAX_MISTAKES,
)


def labels_probe(stage: str, correct: list[int], vocab: int, seed: int) -> Probe:
    """Logits and the ids of the correct tokens."""
    return Probe(stage, (numbers(seed, len(correct), vocab), torch.tensor(correct)))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="The gradient of the cross-entropy",
    level=2,
    task="Derive the gradient of the mean cross-entropy with respect to the logits, on paper, and "
    "write it without autograd.",
    name="logit_gradient",
    stub='''\
def logit_gradient(logits, correct):
    """The gradient of the mean loss: (n, vocab).

    logits: (n, vocab), one row per position
    correct: (n,), the id of the correct token at each position
    """
    raise NotImplementedError
''',
    hints=(
        "At one position with the correct token c, the loss is the logarithm of the sum of all "
        "exponentials, minus the logit of c. Differentiate the two terms separately.",
        "What is the derivative of the logarithm of that sum with respect to one logit? You know "
        "the fraction.",
        "The other term has a derivative in one component only. And what does a mean over n "
        "positions change?",
    ),
    answer=versions.logit_gradient,
    remark="It is the predicted distribution minus the one-hot vector. Over many positions with "
    "the same logits it is zero if the probabilities equal the frequencies of the tokens.",
    build=by_edits(versions.logit_gradient, versions.GRADIENT_MISTAKES),
    arguments=("logits", "correct"),
    probes=(
        Probe("one position", (torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))),
        labels_probe("one position, another token", [2], 3, 0),
        labels_probe("two positions", [1, 0], 3, 10),
        labels_probe("as many positions as tokens", [1, 0, 1], 3, 20),
        labels_probe("four positions", [3, 0, 4, 3], 5, 30),
    ),
    caveats=(
        Caveat(
            loops(
                labels_probe("", [1], 3, 40).arguments, labels_probe("", 6 * [1], 3, 40).arguments
            ),
            "it loops over positions: a matrix of one-hot vectors holds all of them.",
        ),
    ),
    mistakes=versions.GRADIENT_MISTAKES,
)


WITHOUT_RESET = """\
def train(w, examples, lr, steps):
    w = w.clone().requires_grad_()
    for _ in range(steps):
        loss = ((w - examples) ** 2).mean()
        loss.backward()
        w.data -= lr * w.grad
    return w.detach()
"""


def train_probe(stage: str, w: float, examples: list[float], lr: float, steps: int) -> Probe:
    """The start, the examples, the learning rate and the number of steps."""
    return Probe(stage, (torch.tensor(w), torch.tensor(examples), lr, steps))


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Find the bug in the training loop",
    level=2,
    task="The code below fits a number w to examples by gradient descent. The first step is "
    "correct; after that, w oscillates around the mean of the examples and does not converge. "
    "Repair it.",
    name="train",
    stub=f"""\
# Find the bug in this code, and repair it: w is a tensor with one
# number, examples is (n,), lr the learning rate.
{WITHOUT_RESET}""",
    hints=(
        "Print w and its gradient in the first three steps. When do they begin to differ from "
        "those of the page?",
        "What does a second call of `backward` do with the gradient of the first?",
        "A training loop repeats five steps. Which one is missing, and where is its place?",
    ),
    answer=versions.train,
    remark="PyTorch adds each new gradient to the stored one, so every step also repeats all "
    "earlier gradients.",
    build=by_edits(versions.train, versions.TRAIN_MISTAKES),
    given=versions.without_reset,
    arguments=("w", "examples", "lr", "steps"),
    probes=(
        train_probe("one step", 0.0, [1.0, 2.0, 6.0], 0.1, 1),
        train_probe("two steps", 0.0, [1.0, 2.0, 6.0], 0.1, 2),
        train_probe("three steps", 5.0, [1.0, 3.0], 0.2, 3),
        train_probe("four steps", -1.0, [2.0, 3.0, 4.0, 0.0], 0.05, 4),
        train_probe("seven steps", 4.0, [0.5, 1.0], 0.15, 7),
    ),
    mistakes=versions.TRAIN_MISTAKES,
)


q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for a split",
    level=2,
    task="A validation set reveals overfitting only if it was split off correctly. Write a test "
    "for a function that divides a text into training and validation sentences. It is run on three "
    "correct functions and on eight faulty ones.",
    name="split_test",
    stub='''\
def split_test(split):
    """Raise AssertionError if the split is wrong.

    split: a function of sentences, a list of different strings; of
        n_valid, the size of the validation set; and of seed, an int. It
        returns two lists: the training and the validation sentences.

    Every sentence belongs to exactly one of the two. The choice is
    random; the same seed gives the same split. The given list is not
    changed. Accept every correct function, whatever its order.
    """
    raise NotImplementedError
''',
    hints=(
        "Use a few dozen different sentences. Which sizes do you expect, and what do both parts "
        "together contain?",
        "Call the function twice with one seed, and once with another.",
        "Compare the list that you passed with a copy that you made before the call.",
    ),
    answer=versions.split_test,
    remark="With 60 sentences, a correct function practically never selects the same twenty for "
    "two seeds.",
    correct=(
        Subject("a shuffled copy is cut", versions.split),
        Subject("indices are drawn, and the sentences keep their order", versions.in_old_order),
        Subject("a permutation of the indices is cut", versions.by_permutation),
    ),
    mutants=(
        Subject("a training set that contains all sentences", versions.training_on_all),
        Subject("two parts whose sizes are exchanged", versions.exchanged),
        Subject("a sentence that is in neither part", versions.one_lost),
        Subject("the last sentences as the validation set, for every seed", versions.last_ones),
        Subject("another split in every call", versions.unseeded),
        Subject("two parts that are drawn independently, and overlap", versions.drawn_twice),
        Subject("a validation set in which a sentence occurs twice", versions.one_twice),
        Subject("the list of the caller, which is shuffled", versions.in_place),
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the data: random labels",
    level=3,
    task="A network with a hidden layer is trained on 50 examples of 20 numbers each, with 200 "
    "steps of Adam. Each example has one of four labels, drawn at random: there is nothing to "
    "learn. How many of the 50 labels does the network then predict correctly, and how many "
    "labels of 1,000 other examples? Predict first; the check then trains it.",
    name="prediction",
    stub="""\
# a: about 25 % of both: random labels cannot be learned
# b: all of the 50, and about 25 % of the others
# c: all of the 50, and most of the others
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "How many parameters does a hidden layer of 64 numbers have here, and how many labels have "
        "to be fitted?",
        "The labels of the other examples are drawn independently. How often is any guess right?",
        "Which of the two losses on this page could tell you that nothing was learned?",
    ),
    answer="b",
    remark="The network has 1,604 parameters and memorises 50 labels. Only the other examples "
    "show that it has learned nothing about them.",
    options={
        "a": "about 25 % of both",
        "b": "all of the 50, and about 25 % of the others",
        "c": "all of the 50, and most of the others",
    },
    replies={
        "a": "A network with enough parameters can memorise labels that follow no rule.",
        "c": "The labels of the other examples do not depend on anything that the network has "
        "seen.",
    },
    experiment=versions.random_labels,
)
