"""Chapter 12: decoding."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import ch12_versions as versions
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

CHAPTER = "12"


q1 = Numbers(
    chapter=CHAPTER,
    number=1,
    title="Two penalised scores",
    level=1,
    task="A hypothesis of 3 tokens has the log-probability −2, another of 7 tokens −2.7; the end "
    "token is counted in both. Compute their scores with the length penalty for α = 1. Which one "
    "wins, and which one would win with α = 0?",
    name="scores",
    stub="scores = [None, None]\n",
    hints=(
        "The penalty depends only on the number of tokens. Compute it for 3 and for 7.",
        "For α = 1 the penalty is a simple fraction: (5 + n) over (5 + 1).",
        "Log-probabilities are negative. Does the penalty bring a long sentence closer to 0 or "
        "farther away?",
    ),
    answer=[-1.5, -1.35],
    remark="The penalties are 8/6 and 12/6 = 2. With α = 1 the longer hypothesis wins; with α = 0 "
    "the shorter one would, because −2 > −2.7.",
    build=versions.penalised_with,
    mistakes=versions.PENALTY_MISTAKES,
)


def read_ids(value: Any) -> Tensor | None:
    """A list of ids, also an empty one."""
    return torch.empty(0) if isinstance(value, list) and not value else as_tensor(value)


@dataclass(frozen=True)
class Model:
    """A model of the probes: the best next token depends on all tokens of the prefix."""

    following: tuple[int, ...]
    """The next token, by the sum of the ids of the prefix, modulo the number of entries."""
    vocab: int = 6

    def __call__(self, ids: list[int]) -> Tensor:
        """The scores of the next token; the worst is the token after the best."""
        best = self.following[int(sum(ids)) % len(self.following)]
        scores = -torch.arange(1.0, self.vocab + 1)
        return scores.roll(best + 1).index_fill(0, torch.tensor([best]), 1.0)


q2 = Function(
    chapter=CHAPTER,
    number=2,
    title="Greedy decoding",
    level=1,
    task="Write greedy decoding for one sentence. The model is a function from a prefix to the "
    "scores of the next token.",
    name="greedy",
    stub='''\
def greedy(next_scores, limit):
    """The generated tokens, a list of ids, without <bos> and <eos>.

    next_scores: a function of a list of ids, which begins with <bos>;
        it returns the scores of the next token, (vocab,)
    limit: int, the largest number of tokens to generate

    <bos> has the id 1, <eos> the id 2. Generation ends at <eos> or, if
    the model does not generate <eos>, after limit tokens.
    """
    raise NotImplementedError
''',
    hints=(
        "Keep one list of ids. What does it contain before the first step?",
        "In each step, call the model with the whole list, and find the index of the "
        "largest score. Convert it to an int.",
        "When do you test for `<eos>`: before or after the token is appended to the list?",
    ),
    answer=versions.greedy,
    remark="The list begins with `<bos>`, which the model needs and the result does not.",
    build=by_edits(versions.greedy, versions.GREEDY_MISTAKES),
    arguments=("next_scores", "limit"),
    read=read_ids,
    probes=(
        Probe("one token, then <eos>", (Model((5, 4, 5, 5, 5, 2, 5)), 4)),
        Probe("three tokens, then <eos>", (Model((3, 4, 5, 3, 3, 3, 3, 3, 2, 5)), 9)),
        Probe("no <eos>: the limit ends it", (Model((3, 4, 5)), 3)),
        Probe("another limit", (Model((4, 3, 3, 5, 3)), 5)),
        Probe("<eos> at the limit", (Model((5, 4, 5, 5, 5, 2, 5)), 1)),
        Probe("<eos> as the first token", (Model((3, 2, 4, 4)), 3)),
    ),
    mistakes=versions.GREEDY_MISTAKES,
)


def beam_probe(stage: str, hypotheses: int, vocab: int, beam: int, seed: int) -> Probe:
    """Totals and log-probabilities of the next token."""
    totals = -numbers(seed, hypotheses).abs()
    return Probe(stage, (totals, -numbers(seed + 1, hypotheses, vocab).abs(), beam))


q3 = Function(
    chapter=CHAPTER,
    number=3,
    title="A step of beam search",
    level=2,
    task="Write the core of beam search: from all one-token continuations of all hypotheses, find "
    "the best.",
    name="beam_step",
    stub='''\
def beam_step(totals, log_probs, beam):
    """The best continuations: three tensors (beam,), the best first.

    totals: (hypotheses,), the log-probability of each prefix
    log_probs: (hypotheses, vocab), those of the next token
    beam: int, at most hypotheses * vocab

    The result is (totals, parents, tokens): the log-probability of each
    continuation, the index of the hypothesis that it continues, and its
    new token.
    """
    raise NotImplementedError
''',
    hints=(
        "Which two numbers add up to the log-probability of a continuation?",
        "All continuations of all hypotheses compete. `topk` searches one axis: which shape makes "
        "one axis of them?",
        "An index into the flattened matrix contains row and column. Quotient and remainder by the "
        "length of a row separate them.",
    ),
    answer=versions.beam_step,
    remark="Two continuations of the same hypothesis may both be among the best, and another "
    "hypothesis may get none: it is pruned.",
    build=by_edits(versions.beam_step, versions.BEAM_MISTAKES),
    arguments=("totals", "log_probs", "beam"),
    probes=(
        beam_probe("one hypothesis, a beam of one", 1, 4, 1, 0),
        beam_probe("one hypothesis, a beam of two", 1, 4, 2, 10),
        beam_probe("two hypotheses, a beam of one", 2, 3, 1, 20),
        Probe(
            "both continuations come from the second hypothesis",
            (
                torch.tensor([-4.0, -1.0]),
                torch.tensor([[-0.5, -2.0, -3.0], [-1.5, -0.25, -2.5]]),
                2,
            ),
        ),
        beam_probe("two hypotheses and five tokens", 2, 5, 2, 30),
        beam_probe("three hypotheses and four tokens", 3, 4, 3, 40),
        beam_probe("a wider beam", 2, 6, 4, 50),
    ),
    caveats=(
        Caveat(
            loops(
                beam_probe("", 2, 4, 2, 60).arguments,
                beam_probe("", 6, 4, 2, 60).arguments,
            ),
            "it loops over hypotheses: `topk` of the flattened matrix searches all of them.",
        ),
    ),
    mistakes=versions.BEAM_MISTAKES,
)


WITHOUT_REORDER = """\
def advance(ids, cache, parents, tokens):
    ids = torch.cat([ids[parents], tokens[:, None]], dim=1)
    return ids, cache
"""


def read_state(value: Any) -> Tensor | None:
    """Ids and cache of each hypothesis, side by side in one row."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return as_tensor(value)
    ids, cache = as_tensor(value[0]), as_tensor(value[1])
    if ids is None or cache is None or ids.dim() < 2 or len(ids) != len(cache):
        return None
    return torch.cat([ids.flatten(1), cache.flatten(1)], dim=1)


def state_probe(stage: str, beam: int, length: int, parents: list[int], seed: int) -> Probe:
    """Prefixes, a cache, and the parents and tokens of the next step."""
    ids = torch.arange(beam * length).view(beam, length) + 3
    tokens = torch.tensor([7 + 2 * i for i in range(beam)])
    return Probe(stage, (ids, numbers(seed, beam, length, 2), torch.tensor(parents), tokens))


q4 = Function(
    chapter=CHAPTER,
    number=4,
    title="Find the bug in the beam",
    level=2,
    task="The code below prepares the next step of beam search with a cache: row i continues "
    "hypothesis parents[i] with tokens[i]. It works with a beam of one; with wider beams the "
    "translations are worse than without a cache. Repair it.",
    name="advance",
    stub=f"""\
# Find the bug in this code, and repair it: ids is (beam, length), cache
# is (beam, length, d) and holds a vector for each token of ids, parents
# and tokens are (beam,).
{WITHOUT_REORDER}""",
    hints=(
        "Let parents be [1, 0]. Which tokens are in row 0 of the new ids, and for which tokens "
        "does row 0 of the cache hold vectors?",
        "Why is the bug invisible with a beam of one, or if parents is [0, 1]?",
        "Indexing with a tensor of integers selects rows, and may select a row twice.",
    ),
    answer=versions.advance,
    remark="The cache has to follow the hypotheses: `reorder` in the package does this for every "
    "block.",
    build=by_edits(versions.advance, versions.ADVANCE_MISTAKES),
    given=versions.without_reorder,
    arguments=("ids", "cache", "parents", "tokens"),
    read=read_state,
    probes=(
        state_probe("a beam of one", 1, 2, [0], 0),
        state_probe("two hypotheses are exchanged", 2, 2, [1, 0], 10),
        state_probe("one of two hypotheses is continued twice", 2, 3, [1, 1], 20),
        state_probe("three hypotheses", 3, 2, [2, 0, 1], 30),
        state_probe("four hypotheses, of which two remain", 4, 3, [3, 1, 1, 3], 40),
    ),
    mistakes=versions.ADVANCE_MISTAKES,
)


q5 = Function(
    chapter=CHAPTER,
    number=5,
    title="Top-p",
    level=2,
    task="Write the distribution from which top-p sampling draws.",
    name="nucleus",
    stub='''\
def nucleus(probs, p):
    """The distribution of top-p sampling: (vocab,), in the same order.

    probs: (vocab,), probabilities that sum to 1
    p: float, 0 < p <= 1

    The nucleus is the smallest set of the most probable tokens whose
    total is at least p. All other tokens get the probability 0.
    """
    raise NotImplementedError
''',
    hints=(
        "Sort the probabilities, and keep the order: you need it at the end.",
        "Write down the cumulative sum of 0.5, 0.3, 0.2 for p = 0.6. Which tokens belong to the "
        "nucleus? What is the total *before* each of them?",
        "After some tokens are removed, the rest no longer sums to 1, and it is still in sorted "
        "order.",
    ),
    answer=versions.nucleus,
    remark="The token with which the total reaches p belongs to the nucleus. The most probable "
    "token always does, because the total before it is 0.",
    build=versions.nucleus_with,
    arguments=("probs", "p"),
    probes=(
        Probe("two tokens, of which one remains", (torch.tensor([0.75, 0.25]), 0.5)),
        Probe("three tokens in sorted order", (torch.tensor([0.5, 0.3, 0.2]), 0.6)),
        Probe("the most probable token is not the first", (torch.tensor([0.1, 0.6, 0.3]), 0.5)),
        Probe("a small p", (torch.tensor([0.3, 0.45, 0.25]), 0.2)),
        Probe("five tokens", (torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15]), 0.8)),
        Probe(
            "six tokens, of which four remain",
            (torch.tensor([0.2, 0.1, 0.3, 0.05, 0.22, 0.13]), 0.83),
        ),
        Probe("p = 1 keeps all tokens", (torch.tensor([0.25, 0.125, 0.625]), 1.0)),
    ),
    mistakes=versions.NUCLEUS_MISTAKES,
)


MUTANTS = {
    "the token with which": "a nucleus without the token with which the total reaches p",
    "one token too many": "a nucleus with one token too many",
    "the tokens whose own": "the tokens whose own probability is at least p",
    "nothing is removed": "all tokens",
    "the kept probabilities": "probabilities that do not sum to 1",
    "the tokens are taken": "a cumulative sum in the order of the vocabulary",
    "the tokens are sorted": "the least probable tokens",
    "the result is in sorted": "a result in sorted order",
}

q6 = WriteTest(
    chapter=CHAPTER,
    number=6,
    title="Write the test for top-p",
    level=3,
    task="Samples look plausible even if top-p is wrong. Write a test that works without samples. "
    "It is run on three correct functions, which it must accept, and on eight faulty ones.",
    name="nucleus_test",
    stub='''\
def nucleus_test(nucleus):
    """Raise AssertionError if top-p is wrong.

    nucleus: a function of probs, (vocab,), and p, as in exercise 12.5

    Accept every correct function. Use probabilities without ties, and
    values of p that no sum of them equals exactly.
    """
    raise NotImplementedError
''',
    hints=(
        "Choose probabilities that are not sorted, and work out one nucleus on paper.",
        "Which p makes the nucleus one token, which two? A single p misses some mistakes.",
        "Compare the whole result, not only which tokens are positive: the rest must keep its "
        "ratios and sum to 1.",
    ),
    answer=versions.nucleus_test,
    remark="Four values of p, with nuclei of one, two, three and five tokens, computed by hand.",
    correct=(
        Subject("the probabilities are sorted, and the result is put back", versions.nucleus),
        Subject("tokens are added one by one", versions.by_loop),
        Subject("everything below a threshold is removed", versions.by_threshold),
    ),
    mutants=tuple(
        Subject(description, function)
        for description, function in zip(
            MUTANTS.values(), versions.nucleus_mutants(list(MUTANTS)), strict=True
        )
    ),
)


q7 = Predict(
    chapter=CHAPTER,
    number=7,
    title="Change the search: a wider beam",
    level=3,
    task="Take 400 random models with a vocabulary of 20 tokens, in which each token depends on "
    "the previous one, and let each generate ten tokens: by greedy decoding, and by a beam of two. "
    "How often is the sequence that the beam finds *less* probable than that of greedy decoding? "
    "Predict first; the check then runs both searches.",
    name="prediction",
    stub="""\
# a: never: a wider beam keeps everything that a narrow one keeps
# b: sometimes, but in less than a third of the models
# c: in a third of the models or more
prediction = None  # "a", "b" or "c"
""",
    hints=(
        "Greedy decoding is a beam of one. Is its sequence always among those that the beam of two "
        "compares in the end?",
        "The extensions of two prefixes compete for the two slots of the beam. When does the "
        "greedy prefix lose its slot?",
        "Both slots can go to continuations of the other prefix. Can that prefix turn out worse "
        "later?",
    ),
    answer="b",
    remark="Both slots can go to continuations of another prefix, which are better for "
    "now and worse later. Then the greedy sequence is pruned. A wider beam usually finds a more "
    "probable sequence, but there is no guarantee.",
    options={
        "a": "never",
        "b": "in less than a third of the models",
        "c": "in a third of the models or more",
    },
    replies={
        "a": "A wider beam may drop the greedy prefix when two other continuations look better "
        "for the moment.",
        "c": "It can happen, but usually the wider beam finds a sequence that is as probable or "
        "more.",
    },
    experiment=versions.wider_beams,
)
