"""Chapter 3: attention before the Transformer."""

import torch

from tfmr.exercises import ch03_versions as versions
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

CHAPTER = "03"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Another state",
    level=1,
    task="In the example of *the black cat*, let the decoder state be (0, 0). Then the hidden "
    "components of the three words before the tanh are (0, 0), (1, 0) and (0, 1), and v = (4, 4). "
    "The encoder outputs are (0, 0), (1, 0) and (0, 1), too. Compute by hand the three attention "
    "weights and the two components of the context vector. You may use 4 tanh(1) = 3.046 and "
    "exp(4 tanh(1)) = 21.04.",
    name="weights_and_context",
    stub="weights_and_context = [None, None, None, None, None]\n",
    hints=(
        "Apply tanh to each component, and multiply by v. Two of the three scores are equal.",
        "The exponential of the score 0 is 1, so the first word keeps a weight.",
        "Divide each exponential by their sum. The context vector is the weighted sum of the "
        "encoder outputs.",
    ),
    answer=[0.023, 0.488, 0.488, 0.488, 0.488],
    remark="The scores are 0, 3.046 and 3.046, and their exponentials 1, 21.04 and 21.04, whose "
    "sum is 43.08. The state selects both content words.",
    build=versions.state_with,
    mistakes=versions.STATE_MISTAKES,
)


def context_probe(stage: str, batch: int, source: int, d: int, hidden: int, seed: int) -> Probe:
    """States, encoder outputs and the three parameters."""
    return Probe(
        stage,
        (
            numbers(seed, batch, 3),
            numbers(seed + 1, batch, source, d),
            numbers(seed + 2, 3, hidden),
            numbers(seed + 3, d, hidden),
            numbers(seed + 4, hidden),
        ),
    )


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Additive attention",
    level=2,
    task="Write additive attention for a batch of decoder states, without padding.",
    name="context_vector",
    stub='''\
def context_vector(s, memory, w, u, v):
    """The context vectors: (batch, d).

    s: (batch, d_state), the decoder states
    memory: (batch, source, d), the encoder outputs
    w: (d_state, hidden); u: (d, hidden); v: (hidden,)

    The score of a state and an encoder output h is tanh(s w + h u) v.
    """
    raise NotImplementedError
''',
    hints=(
        "There is one projected state per sentence, but one projected output per source position. "
        "Which axis does the state lack?",
        "The sum has the shape (batch, source, hidden). The product with v removes the last axis.",
        "Over which axis do the weights of one sentence sum to 1? Over which axis do you add the "
        "weighted outputs?",
    ),
    answer=versions.context_vector,
    remark="The projected outputs `memory @ u` do not depend on the state, so a decoder computes "
    "them once per sentence.",
    build=by_edits(versions.context_vector, versions.CONTEXT_MISTAKES),
    arguments=("s", "memory", "w", "u", "v"),
    read=first_tensor,
    probes=(
        context_probe("one source position", 1, 1, 2, 2, 0),
        context_probe("two source positions", 1, 2, 2, 2, 10),
        context_probe("four source positions", 1, 4, 3, 2, 20),
        context_probe("a batch of two", 2, 3, 2, 4, 30),
        context_probe("a batch of three", 3, 3, 4, 2, 40),
    ),
    caveats=(
        Caveat(
            loops(
                context_probe("", 1, 2, 2, 2, 50).arguments,
                context_probe("", 1, 8, 2, 2, 50).arguments,
            ),
            "it loops over source positions: the projected state broadcasts along them.",
        ),
    ),
    mistakes=versions.CONTEXT_MISTAKES,
)


ZERO_SCORES = """\
def masked_weights(scores, keep):
    scores = scores * keep
    return scores.softmax(dim=-1)
"""


def mask_probe(stage: str, keep: list[list[int]], seed: int) -> Probe:
    """Scores and a padding mask."""
    mask = torch.tensor(keep, dtype=torch.bool)
    return Probe(stage, (numbers(seed, *mask.shape), mask))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Find the bug in the padding mask",
    level=1,
    task="The code below is meant to hide the padding of the source from the decoder. But the "
    "attention weights of a sentence change if more padding is added. Repair it.",
    name="masked_weights",
    stub=f"""\
# Find the bug in this code, and repair it: scores and keep are (batch,
# source); keep is boolean, False marks padding.
{ZERO_SCORES}""",
    hints=(
        "Compute the weights for the scores (1, 2) by hand, and those for (1, 2, 9), of which the "
        "last is padding.",
        "What is the exponential of 0?",
        "Which score has the exponential 0? It must be there before the softmax.",
    ),
    answer=versions.masked_weights,
    remark="The exponential of −∞ is 0, so a hidden position adds nothing to the denominator.",
    build=by_edits(versions.masked_weights, versions.MASKED_MISTAKES),
    given=versions.zero_scores,
    arguments=("scores", "keep"),
    read=as_tensor,
    probes=(
        mask_probe("no padding", [[1, 1, 1]], 0),
        mask_probe("one padded position", [[1, 1, 0]], 10),
        mask_probe("two sentences", [[1, 1, 1, 1], [1, 1, 0, 0]], 20),
        mask_probe("three sentences", [[1, 0, 0], [1, 1, 0], [1, 1, 1]], 30),
        Probe("low scores", (torch.tensor([[-20.0, -21.0, 3.0]]), torch.tensor([[1, 1, 0]]) > 0)),
    ),
    mistakes=versions.MASKED_MISTAKES,
)


q4 = WriteTest(
    chapter=CHAPTER,
    number=4,
    title="Write the test for the padding mask",
    level=2,
    task="A mistake in a padding mask is invisible in a batch without padding. Write a test that "
    "finds it. It is run on three correct functions and on eight faulty ones.",
    name="weights_test",
    stub='''\
def weights_test(attend):
    """Raise AssertionError if attention weights are wrong.

    attend: a function of scores, (batch, source), and keep, (batch,
        source), boolean; it returns weights (batch, source)

    Correct weights are the softmax over the real tokens of a sentence,
    and 0 for padding. Each sentence has a real token. Accept every
    correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "What should the weights of a padded sentence be, compared with the same sentence alone?",
        "Use sentences of different lengths in one batch, in such an order that the mask of one "
        "does not fit another.",
        "The weights of padding must be 0, and those of real tokens must have the right values, "
        "not only the right sum.",
    ),
    answer=versions.weights_test,
    remark="The expected values come from each sentence alone, without any mask.",
    correct=(
        Subject("the scores of padding are set to −∞", versions.masked_weights),
        Subject("the exponentials are masked", versions.by_exponentials),
        Subject("each sentence is computed alone", versions.sentence_by_sentence),
    ),
    mutants=tuple(Subject(text, each) for text, each in versions.weights_mutants().items()),
)


q5 = Predict(
    chapter=CHAPTER,
    number=5,
    title="Change the model: no tanh",
    level=1,
    task="Remove the tanh from the score, so that it becomes (s W + h U) · v. How much do the "
    "attention weights over ten source positions change when the decoder state changes? Predict "
    "first; the check then measures the largest change of a weight between two random states, for "
    "100 random models with and without the tanh.",
    name="prediction",
    stub="""\
# a: not at all
# b: less than with the tanh, but more than 0.001
# c: at least as much as with the tanh
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "Multiply out the score. Which part of it depends on the source position?",
        "The other part is the same number for all source positions of a state.",
        "What does a softmax do with a number that is added to all scores?",
    ),
    answer="a",
    remark="The score becomes s W v + h U v. The first term is the same for all source positions "
    "and cancels in the softmax, so the weights do not depend on the state. The nonlinearity makes "
    "the two projections interact; in dot-product attention, their product does.",
    options={
        "a": "not at all",
        "b": "less than with the tanh, but more than 0.001",
        "c": "at least as much as with the tanh",
    },
    replies={
        "b": "The state adds the same number to all scores, and the softmax cancels it exactly.",
        "c": "The scores change a lot, but all by the same number, which cancels in the softmax.",
    },
    experiment=versions.without_tanh,
)


def decoder_probe(stage: str, batch: int, target: int, source: int, d: int, seed: int) -> Probe:
    """Decoder inputs, a state, encoder outputs, and the parts of a decoder."""
    arguments = (
        numbers(seed, batch, target, d),
        numbers(seed + 1, batch, d),
        numbers(seed + 2, batch, source, d),
        versions.Attend(d, seed + 3),
        versions.Cell(d, seed + 6),
        numbers(seed + 8, 3 * d, d),
    )
    return Probe(stage, arguments)


q6 = Function(
    chapter=CHAPTER,
    number=6,
    title="The decoder with attention",
    level=3,
    task="Write the decoder with attention for known target tokens. Each step computes the context "
    "vector c from the state before the step, then the new state s = cell([y; c], s), where "
    "y is the vector of the previous target token, and with the new s the vector "
    "t = tanh([s; c; y] Wₜ). Here [a; b] is the concatenation.",
    name="decode",
    stub='''\
def decode(y, s, memory, attend, cell, w_t):
    """The vectors t of all steps: (batch, target, d).

    y: (batch, target, d), the vectors of the previous target tokens
    s: (batch, d), the state before the first step
    memory: (batch, source, d), the encoder outputs
    attend: a function of a state, (batch, d), and the encoder outputs;
        it returns the context vector, (batch, d)
    cell: a function of an input, (batch, 2 d), and a state, (batch, d);
        it returns the new state, (batch, d)
    w_t: (3 d, d)
    """
    raise NotImplementedError
''',
    hints=(
        "All target tokens are known. Which quantity still forces a loop over the steps?",
        "In which order are the context vector, the new state and t computed? Which of them need "
        "the state before the step?",
        "`torch.cat` with `dim=-1` concatenates the vectors of a batch. The loop keeps one state, "
        "and collects one t per step.",
    ),
    answer=versions.decode,
    remark="The context vector is computed once per step and used twice. `Seq2Seq` in `tfmr` "
    "computes the same, with a GRU or an LSTM as the cell and with padding masked.",
    build=by_edits(versions.decode, versions.DECODE_MISTAKES),
    arguments=("y", "s", "memory", "attend", "cell", "w_t"),
    read=first_tensor,
    probes=(
        decoder_probe("one step, one source position", 1, 1, 1, 2, 0),
        decoder_probe("one step, three source positions", 1, 1, 3, 2, 20),
        decoder_probe("two steps", 1, 2, 3, 2, 40),
        decoder_probe("four steps", 1, 4, 3, 2, 60),
        decoder_probe("a batch of two", 2, 3, 2, 3, 80),
    ),
    mistakes=versions.DECODE_MISTAKES,
)
