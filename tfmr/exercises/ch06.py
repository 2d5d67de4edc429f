"""Chapter 6: positions."""

import torch

from tfmr.exercises import ch06_versions as versions
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

CHAPTER = "06"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="A row of the table",
    level=1,
    task="By hand, with a calculator: a sinusoidal table has d_model = 4 columns and, to keep the "
    "numbers large, the base 100 instead of 10000. Give the four numbers of its row for position 3 "
    "(positions are counted from 0).",
    name="row_of_3",
    stub="row_of_3 = [None, None, None, None]\n",
    hints=(
        "Four columns are two pairs, i = 0 and i = 1, with one frequency each.",
        "The frequency of pair i is 100 ** (−2i / 4). For i = 1 the exponent is −1/2.",
        "Multiply each frequency by the position, set the calculator to radians, and write the "
        "sine before the cosine.",
    ),
    answer=[0.141, -0.990, 0.296, 0.955],
    remark="The frequencies are 1 and 0.1, so the angles at position 3 are 3 and 0.3 radians.",
    build=versions.row_with,
    mistakes=versions.ROW_MISTAKES,
)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="The sinusoidal table",
    level=1,
    task="Compute the whole table.",
    name="position_table",
    stub='''\
def position_table(length, d_model, base):
    """The sinusoidal table: (length, d_model).

    length: int, the number of positions, which are counted from 0
    d_model: int, even
    base: float, 10000 in the paper

    Column 2i has the sine and column 2i + 1 the cosine of the angle
    pos / base ** (2i / d_model).
    """
    raise NotImplementedError
''',
    hints=(
        "Begin with the angles: one row per position, but only half as many columns as the table.",
        "A column of positions, (length, 1), and a row of frequencies, (pairs,), broadcast to a "
        "matrix.",
        "Sines and cosines alternate. You can write them to every second column of an empty table.",
    ),
    answer=versions.position_table,
    remark="The last axis of the stack holds a sine and its cosine; `reshape` puts the pairs of a "
    "position next to each other. For positions in the thousands, compute the angles in double "
    "precision, as the package does.",
    build=by_edits(versions.position_table, versions.TABLE_MISTAKES),
    arguments=("length", "d_model", "base"),
    probes=(
        Probe("position 0 alone", (1, 4, 10000.0)),
        Probe("two positions and one pair", (2, 2, 10000.0)),
        Probe("three positions and two pairs", (3, 4, 100.0)),
        Probe("three pairs", (4, 6, 10000.0)),
        Probe("a longer table with another base", (20, 8, 500.0)),
    ),
    caveats=(
        Caveat(
            loops((3, 4, 100.0), (12, 4, 100.0)),
            "it loops over positions: positions and frequencies broadcast to all angles at once.",
        ),
    ),
    mistakes=versions.TABLE_MISTAKES,
)


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="Rotate queries and keys",
    level=2,
    task="Write rotary positions, with the frequencies of the paper's base, 10000.",
    name="rotate_pairs",
    stub='''\
def rotate_pairs(x):
    """Queries or keys with rotary positions, of the same shape as x.

    x: (..., length, d_k), d_k even; the dots stand for any number of
        axes (batch, heads), including none

    At position pos, the pair (a, b) of components 2i and 2i + 1 becomes
    (a cos t - b sin t, a sin t + b cos t), where t is the angle
    pos * 10000 ** (-2i / d_k).
    """
    raise NotImplementedError
''',
    hints=(
        "The angles form a matrix (length, d_k / 2), as in the sinusoidal table.",
        "Take the first components of all pairs by a slice with step 2, and the second ones, too. "
        "Then cosines and sines of the angles fit them without a loop.",
        "In the result, the two components of a pair are neighbours again. `torch.stack` with "
        "dim=-1 makes them neighbours on a new axis.",
    ),
    answer=versions.rotate_pairs,
    remark="The axes of batch and heads broadcast. A rotation preserves the norm of each pair; at "
    "position 0 nothing changes.",
    build=by_edits(versions.rotate_pairs, versions.ROTATION_MISTAKES),
    arguments=("x",),
    probes=(
        Probe("one vector, at position 0", (torch.tensor([[1.0, 2.0]]),)),
        Probe("two positions and one pair", (torch.tensor([[1.0, 0.0], [1.0, 2.0]]),)),
        Probe("two positions and two pairs", (numbers(0, 2, 4),)),
        Probe("four positions and three pairs", (numbers(1, 4, 6),)),
        Probe("a batch", (numbers(2, 3, 4, 4),)),
        Probe("a batch with two heads", (numbers(3, 1, 2, 5, 4),)),
    ),
    caveats=(
        Caveat(
            loops((numbers(0, 2, 4),), (numbers(0, 9, 4),)),
            "it loops over positions: the angles of all positions form one matrix.",
        ),
    ),
    mistakes=versions.ROTATION_MISTAKES,
)


SUM_OF_POSITIONS = """\
def rotary_scores(q, k):
    d_k = q.shape[-1]
    omega = 10000 ** (-torch.arange(0, d_k, 2) / d_k)
    angles = torch.arange(len(q))[:, None] * omega
    turns = torch.polar(torch.ones_like(angles), angles)
    q_turned = torch.view_as_complex(q.unflatten(-1, (-1, 2))) * turns
    k_turned = torch.view_as_complex(k.unflatten(-1, (-1, 2))) * turns
    return (q_turned @ k_turned.T).real
"""


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the rotary scores",
    level=3,
    task="The code below treats each pair of components as a complex number, whose rotation by the "
    "angle t is the multiplication by cos t + i sin t. The rotations are right. But if all "
    "positions are shifted by the same number, the scores change. Repair it.",
    name="rotary_scores",
    stub=f"""\
# Find the bug in this code, and repair it: q and k are (length, d_k),
# and the result has the dot products of rotated queries and keys.
{SUM_OF_POSITIONS}""",
    hints=(
        "Let all queries and keys be equal. What should the scores on a diagonal have in common? "
        "Print them.",
        "The product of two complex numbers has the sum of their angles. Which combination of the "
        "two positions should the score depend on?",
        "Compare the dot product ac + bd of two pairs with the real part of (a + bi)(c + di). "
        "Which sign is wrong, and which change of c + di repairs it?",
    ),
    answer=versions.rotary_scores,
    remark="The dot product of two pairs is the real part of one number times the *conjugate* of "
    "the other. Without it, the angles add up, and the score depends on m + n instead of m − n.",
    build=by_edits(versions.rotary_scores, versions.SCORES_MISTAKES),
    given=versions.sum_of_positions,
    arguments=("q", "k"),
    probes=(
        Probe("position 0 alone", (torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]]))),
        Probe("two positions and one pair", (numbers(0, 2, 2), numbers(1, 2, 2))),
        Probe("three equal queries and keys", (torch.ones(3, 2), torch.ones(3, 2))),
        Probe("four positions and two pairs", (numbers(2, 4, 4), numbers(3, 4, 4))),
    ),
    mistakes=versions.SCORES_MISTAKES,
)


q5 = WriteTest(
    chapter=CHAPTER,
    number=5,
    title="Write the test for relative positions",
    level=2,
    task="Rotary positions have one property that can be tested without any formula: a score "
    "depends on the difference m - n between the positions of query and key, and on nothing else "
    "about them. Your test is run on three correct functions, which it must accept, and on eight "
    "faulty ones, which it must reject.",
    name="relative_test",
    stub='''\
def relative_test(encode):
    """Raise AssertionError if encode does not give relative positions.

    encode: a function of x, (length, 8), and start, an int; it encodes
        the vectors of x for the positions start, start + 1, ...

    In a correct function, the dot product of a query encoded at m and a
    key encoded at n depends on m - n, but on nothing else about m and n.
    Accept every correct function.
    """
    raise NotImplementedError
''',
    hints=(
        "Encode the same queries and keys from two different starts. Which numbers must agree?",
        "A function that ignores positions passes that comparison. Which second property excludes "
        "it?",
        "The vector in row i has the position start + i. Compare one call for several rows with "
        "calls that start later, and try large starts as well.",
    ),
    answer=versions.relative_test,
    remark="It shifts queries and keys together (nothing may change), shifts a query alone "
    "(something must change), and compares rows with starts. It tolerates rounding.",
    correct=(
        Subject("neighbouring components are rotated", versions.by_pairs),
        Subject("another base is used, with one matrix for each pair", versions.by_matrices),
        Subject("component i is paired with component i + d_k / 2", versions.by_halves),
    ),
    mutants=(
        Subject("addition of a sinusoidal table", versions.added),
        Subject("no encoding at all", versions.unchanged),
        Subject("rotations that ignore start", versions.start_ignored),
        Subject("rotations after which every second component is halved", versions.stretched),
        Subject("rotations by the same angle from position 8 on", versions.limited),
        Subject("rotated vectors that grow with the position", versions.growing),
        Subject("angles that grow with the square of the position", versions.squared),
        Subject("a rotation of one half and an addition to the other", versions.half_added),
    ),
)


q6 = Predict(
    chapter=CHAPTER,
    number=6,
    title="Change the training: random starts",
    level=3,
    task="The sinusoidal model of this chapter was trained on 16 tokens at positions 0 to 15, and "
    "its accuracy at positions 16 to 31 was 0.13 on average. Change one thing: in each training "
    "step, let the 16 tokens begin at a random position from 0 to 16. The training sequences "
    "still have 16 tokens, and the test is unchanged: 32 tokens at positions 0 to 31. What is the "
    "accuracy at positions 16 to 31? Predict first; the check then trains the model, in a few "
    "seconds.",
    name="prediction",
    stub="""\
# a: above 0.8
# b: between 0.3 and 0.8
# c: below 0.3, as with a fixed start
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "Which rows of the table occur in training, in either case?",
        "The task needs one rule at every position: attend to three positions to the left. Does "
        "a matrix exist that does this for all rows of the table?",
        "In the original training, does the loss depend on this rule at positions 16 to 31? "
        "And now?",
    ),
    answer="a",
    remark="The table can express the rule at all positions, but the loss shaped the rule only for "
    "rows that occurred in training. With random starts, all of them occur. The same "
    "table and the same short training sequences are sufficient once these rows occur in training.",
    options={
        "a": "above 0.8",
        "b": "between 0.3 and 0.8",
        "c": "below 0.3",
    },
    replies={
        "b": "One matrix serves all positions, and now all of their rows occur in training.",
        "c": "The model failed because rows 16 to 31 did not occur in training; now they do.",
    },
    experiment=versions.random_starts,
)
