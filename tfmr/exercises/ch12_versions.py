"""Solutions, known mistakes and wrong versions of the exercises of chapter 12."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from tfmr.exercises.edits import Edit, by_edits
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate
from tfmr.special_tokens import BOS, EOS

BY_LENGTH = Mistake(
    "the log-probabilities are divided by the number of tokens",
    "Divide by the length penalty, ((5 + n) / 6) ** α, which grows more slowly.",
    "penalty",
)
WITHOUT_END = Mistake(
    "the end token is not counted in the length",
    "The numbers of tokens in the task include the end token: use 3 and 7.",
    "penalty",
)
END_TWICE = Mistake(
    "the end token is counted a second time",
    "The numbers of tokens in the task include the end token: use them as they are.",
    "penalty",
)
MULTIPLIED = Mistake(
    "the log-probabilities are multiplied by the penalty",
    "Divide: a log-probability is negative, so the division raises the score of a long sentence.",
    "penalty",
)
NO_DENOMINATOR = Mistake(
    "the denominator (5 + 1) ** α of the penalty is missing",
    "The penalty of a single token is 1: divide 5 + n by 6.",
    "penalty",
)
OTHER_ALPHA = Mistake(
    "the exponent is 0.6",
    "In this task α = 1.",
    "penalty",
)
NO_FIVE = Mistake(
    "the penalty is n / 6, without the 5",
    "Add 5 to the number of tokens.",
    "penalty",
)
PENALTY_MISTAKES = (
    BY_LENGTH,
    WITHOUT_END,
    END_TWICE,
    MULTIPLIED,
    NO_DENOMINATOR,
    OTHER_ALPHA,
    NO_FIVE,
)


def penalised_with(faults: Faults) -> list[float]:
    """The scores of two hypotheses, with mistakes."""
    scores = []
    for log_prob, n in ((-2.0, 3), (-2.7, 7)):
        penalties = {
            BY_LENGTH.name: n,
            WITHOUT_END.name: (4 + n) / 6,
            END_TWICE.name: (6 + n) / 6,
            MULTIPLIED.name: 6 / (5 + n),
            NO_DENOMINATOR.name: 5 + n,
            OTHER_ALPHA.name: ((5 + n) / 6) ** 0.6,
            NO_FIVE.name: n / 6,
        }
        penalty = next((penalties[f] for f in faults if f in penalties), (5 + n) / 6)
        scores.append(log_prob / penalty)
    return scores


def greedy(next_scores: Callable[[list[int]], Tensor], limit: int) -> list[int]:
    """Greedy decoding of one sentence."""
    ids = [BOS]
    for _ in range(limit):
        token = int(next_scores(ids).argmax())
        if token == EOS:
            break
        ids.append(token)
    return ids[1:]


GREEDY_MISTAKES = (
    Edit(
        "the result contains <bos>",
        "Return only the generated tokens.",
        "result",
        "return ids[1:]",
        "return ids",
    ),
    Edit(
        "the result contains <eos>",
        "Stop before <eos> is appended.",
        "end",
        "        if token == EOS:\n            break\n        ids.append(token)",
        "        ids.append(token)\n        if token == EOS:\n            break",
    ),
    Edit(
        "the decoding does not stop at <eos>",
        "When the token is 2, the sentence is complete: stop and return it.",
        "end",
        "        if token == EOS:\n            break\n",
        "",
    ),
    Edit(
        "one token too few is generated if the limit is reached",
        "The limit counts the generated tokens, without <bos>.",
        "limit",
        "range(limit)",
        "range(limit - 1)",
    ),
    Edit(
        "one token too many is generated if the limit is reached",
        "The limit counts the generated tokens: stop when there are that many.",
        "limit",
        "range(limit)",
        "range(limit + 1)",
    ),
    Edit(
        "the model gets only the last token instead of the prefix",
        "The next token depends on all tokens so far: pass the whole list.",
        "prefix",
        "next_scores(ids)",
        "next_scores(ids[-1:])",
    ),
    Edit(
        "the model gets the prefix without <bos>",
        "The prefix begins with <bos>, as in training.",
        "prefix",
        "next_scores(ids)",
        "next_scores(ids[1:])",
    ),
    Edit(
        "the least probable token is chosen",
        "Take the token with the largest score: argmax.",
        "choice",
        "argmax",
        "argmin",
    ),
)


def beam_step(
    totals: Float[Tensor, " hypotheses"], log_probs: Float[Tensor, "hypotheses vocab"], beam: int
) -> tuple[Float[Tensor, " beam"], Int[Tensor, " beam"], Int[Tensor, " beam"]]:
    """The best continuations of all hypotheses: totals, parents and tokens."""
    candidates = totals[:, None] + log_probs
    best, index = candidates.flatten().topk(beam)
    vocab = log_probs.shape[1]
    return best, index // vocab, index % vocab


_CANDIDATES = "totals[:, None] + log_probs"
_INDEX = "index // vocab, index % vocab"
BEAM_MISTAKES = (
    Edit(
        "the log-probabilities of the prefixes are not added",
        "A continuation has the total of its prefix plus the log-probability of the new token.",
        "totals",
        _CANDIDATES,
        "log_probs",
    ),
    Edit(
        "the totals are multiplied by the log-probabilities instead of added",
        "Probabilities are multiplied, so their logarithms are added.",
        "totals",
        _CANDIDATES,
        "totals[:, None] * log_probs",
    ),
    Edit(
        "probabilities are added to the totals instead of log-probabilities",
        "Add the log-probabilities themselves.",
        "totals",
        _CANDIDATES,
        "totals[:, None] + log_probs.exp()",
    ),
    Edit(
        "each hypothesis keeps its own best token",
        "All continuations of all hypotheses compete: take the best of the flattened matrix.",
        "choice index",
        "best, index = candidates.flatten().topk(beam)\n    vocab = log_probs.shape[1]\n"
        "    return best, index // vocab, index % vocab",
        "best, token = candidates.max(dim=1)\n    best, parent = best.topk(min(beam, len(best)))\n"
        "    return best, parent, token[parent]",
    ),
    Edit(
        "the worst continuations are kept",
        "Keep the largest totals; topk does so unless largest=False.",
        "choice",
        "topk(beam)",
        "topk(beam, largest=False)",
    ),
    Edit(
        "the continuations are in the order from worst to best",
        "Return the best continuation first.",
        "choice",
        "candidates.flatten().topk(beam)",
        "(each.flip(0) for each in candidates.flatten().topk(beam))",
    ),
    Edit(
        "parents and tokens are exchanged",
        "The flattened matrix has one row per hypothesis: the parent is the quotient by the "
        "vocabulary size, the token the remainder.",
        "index",
        _INDEX,
        "index % vocab, index // vocab",
    ),
    Edit(
        "the index is divided by the number of hypotheses instead of the vocabulary size",
        "A row of the matrix has one entry per token: divide by log_probs.shape[1].",
        "index",
        "vocab = log_probs.shape[1]",
        "vocab = len(log_probs)",
    ),
    Edit(
        "the tokens are indices into the flattened matrix",
        "Take the remainder of the division by the vocabulary size.",
        "index",
        _INDEX,
        "index // vocab, index",
    ),
)


def advance(
    ids: Int[Tensor, "beam length"],
    cache: Float[Tensor, "beam length d"],
    parents: Int[Tensor, " beam"],
    tokens: Int[Tensor, " beam"],
) -> tuple[Int[Tensor, "beam longer"], Float[Tensor, "beam length d"]]:
    """The prefixes and the cache after a step of beam search."""
    ids = torch.cat([ids[parents], tokens[:, None]], dim=1)
    return ids, cache[parents]


def without_reorder(
    ids: Int[Tensor, "beam length"],
    cache: Float[Tensor, "beam length d"],
    parents: Int[Tensor, " beam"],
    tokens: Int[Tensor, " beam"],
) -> tuple[Int[Tensor, "beam longer"], Float[Tensor, "beam length d"]]:
    """The code with the bug: the cache keeps the old order."""
    ids = torch.cat([ids[parents], tokens[:, None]], dim=1)
    return ids, cache


ADVANCE_MISTAKES = (
    Edit(
        "the cache is reordered by the tokens instead of the parents",
        "Row i continues hypothesis parents[i]: take its row of the cache.",
        "cache",
        "cache[parents]",
        "cache[tokens % len(cache)]",
    ),
    Edit(
        "the positions of the cache are reordered instead of its rows",
        "The first axis of the cache belongs to the hypotheses: cache[parents].",
        "cache",
        "cache[parents]",
        "cache[:, parents % cache.shape[1]]",
    ),
    Edit(
        "the cache is sorted by the parents, which inverts the order",
        "Take row parents[i] for row i, as for the ids: cache[parents].",
        "cache",
        "cache[parents]",
        "cache[parents.argsort()]",
    ),
    Edit(
        "each row of the cache is sent to the place of its parent",
        "Row i continues row parents[i]: use this number to read, not to write.",
        "cache",
        "cache[parents]",
        "torch.zeros_like(cache).index_put((parents,), cache)",
    ),
    Edit(
        "rows of the cache are overwritten before they are read",
        "Keep the old cache until all rows of the new one are complete.",
        "cache",
        "return ids, cache[parents]",
        "for row, parent in enumerate(parents.tolist()):\n"
        "        cache[row] = cache[parent]\n"
        "    return ids, cache",
    ),
    Edit(
        "the cache is reordered twice",
        "Reorder it once per step.",
        "cache",
        "cache[parents]",
        "cache[parents][parents]",
    ),
    Edit(
        "the prefixes are no longer reordered",
        "Ids and cache must stay together: reorder both by the parents.",
        "ids",
        "ids[parents]",
        "ids",
    ),
    Edit(
        "the rows of the cache are reversed",
        "Take row parents[i] for row i: cache[parents].",
        "cache",
        "cache[parents]",
        "cache.flip(0)",
    ),
)


def nucleus(probs: Float[Tensor, " vocab"], p: float) -> Float[Tensor, " vocab"]:
    """The probabilities of top-p sampling."""
    ordered, order = probs.sort(descending=True)
    total_before = ordered.cumsum(dim=0) - ordered
    kept = ordered * (total_before < p)
    result = torch.zeros_like(probs)
    result[order] = kept
    return result / result.sum()


NUCLEUS_MISTAKES = (
    Edit(
        "the token with which the total reaches p is left out",
        "The total of the nucleus is at least p: keep a token if the total *before* it is below p.",
        "kept",
        "(total_before < p)",
        "(total_before + ordered <= p)",
    ),
    Edit(
        "after the first token, the nucleus ends before its total reaches p",
        "The total of the nucleus is at least p, for several tokens as for one.",
        "kept",
        "(total_before < p)",
        "((ordered.cumsum(dim=0) <= p) | (ordered == ordered[0]))",
    ),
    Edit(
        "one token too many is kept",
        "Stop as soon as the total is at least p.",
        "kept",
        "(total_before < p)",
        "(total_before - ordered.roll(1) < p)",
    ),
    Edit(
        "the tokens whose own probability is at least p are kept",
        "Limit the *total* of the kept tokens by p: sort, and use the cumulative sum.",
        "kept",
        "(total_before < p)",
        "(ordered >= p)",
    ),
    Edit(
        "only the most probable token is kept",
        "Keep tokens until their total is at least p.",
        "kept",
        "(total_before < p)",
        "(ordered == ordered[0])",
    ),
    Edit(
        "nothing is removed",
        "Set the probabilities of all tokens outside the nucleus to 0.",
        "kept",
        " * (total_before < p)",
        "",
    ),
    Edit(
        "the kept probabilities are not divided by their sum",
        "Divide by the sum of the kept probabilities, so that they sum to 1.",
        "sum",
        "result / result.sum()",
        "result",
    ),
    Edit(
        "a softmax of the kept probabilities is returned",
        "Divide by the sum: a softmax would change the ratios, and give every token a chance.",
        "sum",
        "result / result.sum()",
        "result.softmax(dim=0)",
    ),
    Edit(
        "the tokens are taken in the order of the vocabulary",
        "Sort first: the nucleus consists of the most probable tokens.",
        "order",
        "probs.sort(descending=True)",
        "(probs, torch.arange(len(probs)))",
    ),
    Edit(
        "the tokens are sorted from the least probable on",
        "Sort in descending order: the nucleus consists of the most probable tokens.",
        "order",
        "probs.sort(descending=True)",
        "probs.sort()",
    ),
    Edit(
        "the result is in sorted order instead of the order of the vocabulary",
        "Put each probability back to the place of its token: result[order] = kept.",
        "place",
        "result[order] = kept",
        "result[:] = kept",
    ),
    Edit(
        "the order of the sort is applied once more instead of being undone",
        "Entry i of the order is the token of the i-th sorted probability: write to this place.",
        "place",
        "result[order] = kept",
        "result[:] = kept[order]",
    ),
)
nucleus_with = by_edits(nucleus, NUCLEUS_MISTAKES)


def nucleus_mutants(names: Sequence[str]) -> list[Callable[..., Tensor]]:
    """Versions of top-p, each with the mistake whose name begins as stated."""
    found = [[each.name for each in NUCLEUS_MISTAKES if each.name.startswith(n)] for n in names]
    return [nucleus_with(frozenset(each)) for each in found]


def by_loop(probs: Shaped[Tensor, " vocab"], p: float) -> Tensor:
    """Correct: token by token."""
    result, total = torch.zeros_like(probs), 0.0
    for token in probs.argsort(descending=True).tolist():
        result[token] = probs[token]
        total += float(probs[token])
        if total >= p:
            break
    return result / result.sum()


def by_threshold(probs: Shaped[Tensor, " vocab"], p: float) -> Tensor:
    """Correct for probabilities without ties: keep what is at least as probable as the last."""
    ordered = probs.sort(descending=True).values
    size = int((ordered.cumsum(dim=0) < p).sum()) + 1
    kept = probs * (probs >= ordered[min(size, len(ordered)) - 1])
    return kept / kept.sum()


def nucleus_test(nucleus: Callable[[Tensor, float], Tensor]) -> None:
    """Raise AssertionError if top-p is wrong."""
    probs = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])
    for p, kept in ((0.3, [1]), (0.6, [1, 3]), (0.8, [1, 3, 4]), (0.99, [0, 1, 2, 3, 4])):
        expected = torch.zeros(5)
        expected[kept] = probs[kept] / probs[kept].sum()
        assert torch.allclose(nucleus(probs, p).float(), expected, atol=1e-4)


def searched(tables: Float[Tensor, "steps vocab vocab"], beam: int) -> float:
    """The log-probability that beam search finds, if each token depends on the previous one."""
    totals, last = torch.zeros(1), torch.zeros(1, dtype=torch.long)
    for table in tables:
        log_probs = table[last]
        totals, _, last = beam_step(totals, log_probs, min(beam, log_probs.numel()))
    return float(totals[0])


def wider_beams() -> tuple[str, str]:
    """Compare greedy decoding and a beam of two on 400 random models."""
    models = torch.randn(400, 10, 20, 20).log_softmax(dim=-1)
    worse = [searched(tables, 2) < searched(tables, 1) - 1e-4 for tables in models]
    percent = 100 * sum(worse) / len(worse)
    option = "a" if percent == 0 else "b" if percent < 33 else "c"
    text = approximate(percent, 6.5, 3.0, ".1f")
    return option, f"the beam finds a less probable sequence in {text} % of 400 models."
