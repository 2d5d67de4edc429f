"""Solutions, known mistakes and wrong versions of the exercises of chapter 8."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from tfmr.attention import MultiHeadAttention
from tfmr.exercises.edits import Edit
from tfmr.exercises.exercise import Faults, Mistake
from tfmr.notebook import approximate

NO_EFFECT = Mistake(
    "the padding changes nothing, because its vectors are zero",
    "Its values are zero, but its scores are 0, not −∞: each padding token adds 1 to the sum of "
    "the exponentials.",
    "weights",
)
ONCE = Mistake(
    "the padding is counted once, however many tokens it has",
    "Each padding token adds an exponential of its own.",
    "weights",
)
PLAIN_MEAN = Mistake(
    "all tokens have the same weight",
    "The weights are the softmax of the scores: the first token has twice the weight of the "
    "second.",
    "weights",
)
NO_EXPONENTIAL = Mistake(
    "the scores are divided by their sum, without exponentials",
    "The softmax takes the exponential of each score first; exp(0) is 1.",
    "weights",
)
NOT_DIVIDED = Mistake(
    "the weighted values are not divided by the sum of the exponentials",
    "Divide by the sum: the weights sum to 1.",
    "weights",
)
OTHER_VALUES = Mistake(
    "the weights of the two tokens are exchanged",
    "The token with the score ln 2 has the larger weight, and the value 3.",
    "weights",
)
ONE_MORE = Mistake(
    "the sum of the exponentials has one padding token too many",
    "The sentence alone has no padding: the sum is 2 + 1.",
    "weights",
)
PADDING_MISTAKES = (
    NO_EFFECT,
    ONCE,
    PLAIN_MEAN,
    NO_EXPONENTIAL,
    NOT_DIVIDED,
    OTHER_VALUES,
    ONE_MORE,
)


def padded_with(faults: Faults) -> list[float]:
    """The outputs with 0, 2 and 5 padding tokens that are not masked, with mistakes."""
    results = []
    for padding in (0, 2, 5):
        values = {
            NO_EFFECT.name: 12 / 3,
            ONCE.name: 12 / (3 + min(padding, 1)),
            PLAIN_MEAN.name: 9 / (2 + padding),
            NO_EXPONENTIAL.name: 3.0,
            NOT_DIVIDED.name: 12.0,
            OTHER_VALUES.name: 15 / (3 + padding),
            ONE_MORE.name: 12 / (4 + padding),
        }
        results.append(next((values[f] for f in faults if f in values), 12 / (3 + padding)))
    return results


Batch = Float[Tensor, "batch length d"]
Keep = Bool[Tensor, "batch length"]


def sentence_vectors(memory: Batch, keep: Keep) -> Float[Tensor, "batch d"]:
    """The mean of the encoder output over the real tokens of each sentence."""
    real = keep[:, :, None]
    total = (memory * real).sum(dim=1)
    return total / real.sum(dim=1)


VECTOR_MISTAKES = (
    Edit(
        "the padding is averaged, too",
        "Leave it out of the sum, and divide by the number of real tokens.",
        "sum number",
        "    total = (memory * real).sum(dim=1)\n    return total / real.sum(dim=1)",
        "    return memory.mean(dim=1)",
    ),
    Edit(
        "the sum over the real tokens is divided by the number of all positions",
        "Divide by the number of real tokens of the sentence.",
        "number",
        "real.sum(dim=1)",
        "keep.shape[1]",
    ),
    Edit(
        "the sum over all positions is divided by the number of real tokens",
        "Set the vectors of the padding to zero before you add.",
        "sum",
        "memory * real",
        "memory",
    ),
    Edit(
        "the sum is not divided",
        "Divide by the number of real tokens of the sentence.",
        "number",
        "total / real.sum(dim=1)",
        "total",
    ),
    Edit(
        "the mask is inverted: the padding is averaged",
        "True marks real tokens: multiply by keep itself.",
        "mask",
        "keep[:, :, None]",
        "~keep[:, :, None]",
    ),
    Edit(
        "the sum is divided by the number of real tokens of the whole batch",
        "Every sentence has its own number of real tokens.",
        "number",
        "real.sum(dim=1)",
        "real.sum()",
    ),
    Edit(
        "component i is divided by the number of real tokens in sentence i",
        "Give the numbers an axis of size one for the components: keepdim=True.",
        "number",
        "real.sum(dim=1)",
        "keep.sum(dim=1)",
    ),
    Edit(
        "every sentence has the mask of the first",
        "Use the row of keep that belongs to the sentence.",
        "mask",
        "keep[:, :, None]",
        "keep[:1, :, None].expand_as(keep[:, :, None])",
    ),
    Edit(
        "only the first token is taken",
        "Take the mean over all real tokens.",
        "sum number",
        "    total = (memory * real).sum(dim=1)\n    return total / real.sum(dim=1)",
        "    return memory[:, 0]",
    ),
    Edit(
        "the maximum over the real tokens is taken instead of the mean",
        "Add the vectors of the real tokens, and divide by their number.",
        "sum number",
        "    total = (memory * real).sum(dim=1)\n    return total / real.sum(dim=1)",
        "    return memory.masked_fill(~real, -math.inf).amax(dim=1)",
    ),
)


def encoder_layer(
    x: Batch,
    keep: Keep,
    w_q: Float[Tensor, "d d"],
    w_k: Float[Tensor, "d d"],
    w_v: Float[Tensor, "d d"],
    w_o: Float[Tensor, "d d"],
    w_1: Float[Tensor, "d d_ff"],
    w_2: Float[Tensor, "d_ff d"],
) -> Batch:
    """A post-norm encoder block with one head, without biases and gains."""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~keep[:, None, :], -math.inf)
    attended = scores.softmax(dim=-1) @ v @ w_o
    x = torch.layer_norm(x + attended, x.shape[-1:])
    hidden = torch.relu(x @ w_1) @ w_2
    return torch.layer_norm(x + hidden, x.shape[-1:])


_MASK = "scores.masked_fill(~keep[:, None, :], -math.inf)"
_FIRST = "torch.layer_norm(x + attended, x.shape[-1:])"
_SECOND = "torch.layer_norm(x + hidden, x.shape[-1:])"
LAYER_MISTAKES = (
    Edit(
        "the padding is not masked",
        "Set the scores of the keys with keep = False to −∞, before the softmax.",
        "mask",
        _MASK,
        "scores",
    ),
    Edit(
        "the masked scores are set to 0 instead of −∞",
        "The exponential of 0 is 1, so the padding keeps a weight: fill with -math.inf.",
        "mask",
        _MASK,
        "scores.masked_fill(~keep[:, None, :], 0.0)",
    ),
    Edit(
        "the mask is inverted: the real tokens are hidden",
        "True marks real tokens: fill where keep is False.",
        "mask",
        _MASK,
        "scores.masked_fill(keep[:, None, :], -math.inf)",
    ),
    Edit(
        "the mask hides queries instead of keys",
        "The padding must not be attended *to*: the mask belongs to the last axis of the scores.",
        "mask",
        _MASK,
        "scores.masked_fill(~keep[:, :, None], -math.inf)",
    ),
    Edit(
        "the mask hides queries instead of keys, with a large negative number",
        "Real tokens still attend to the padding: the mask belongs to the last axis of the scores.",
        "mask",
        _MASK,
        "scores.masked_fill(~keep[:, :, None], -1e9)",
    ),
    Edit(
        "the weights of padding are set to 0 after the softmax, and the rest no longer sums to 1",
        "Hide the padding in the scores, before the softmax.",
        "mask softmax",
        f"scores = {_MASK}\n    attended = scores.softmax(dim=-1)",
        "attended = scores.softmax(dim=-1) * keep[:, None, :]",
    ),
    Edit(
        "the scores are not divided by √d",
        "Divide the scores by the square root of the size of a query.",
        "scale",
        " / math.sqrt(q.shape[-1])",
        "",
    ),
    Edit(
        "the scores are divided by d instead of √d",
        "Divide by the square root.",
        "scale",
        "math.sqrt(q.shape[-1])",
        "q.shape[-1]",
    ),
    Edit(
        "the softmax is taken over the queries instead of the keys",
        "Each query's weights sum to 1: take the softmax over dim=-1.",
        "softmax",
        "softmax(dim=-1)",
        "softmax(dim=-2)",
    ),
    Edit(
        "the output projection is missing",
        "Multiply the averages of the values by w_o.",
        "projection",
        " @ w_o",
        "",
    ),
    Edit(
        "the first residual connection is missing",
        "Add the attention output to x before the layer norm.",
        "first",
        _FIRST,
        "torch.layer_norm(attended, x.shape[-1:])",
    ),
    Edit(
        "the second residual connection is missing",
        "Add the output of the feed-forward network to its input before the layer norm.",
        "second",
        _SECOND,
        "torch.layer_norm(hidden, x.shape[-1:])",
    ),
    Edit(
        "the first layer norm is missing",
        "A post-norm block normalises the sum after each of its two sublayers.",
        "first",
        _FIRST,
        "x + attended",
    ),
    Edit(
        "the second layer norm is missing",
        "A post-norm block normalises the sum after each of its two sublayers.",
        "second",
        _SECOND,
        "x + hidden",
    ),
    Edit(
        "the statistics of the layer norms are taken over all positions of a sentence",
        "Each position has its own mean and variance.",
        "first second",
        f"{_FIRST}\n    hidden = torch.relu(x @ w_1) @ w_2\n    return {_SECOND}",
        "torch.layer_norm(x + attended, x.shape[1:])\n    hidden = torch.relu(x @ w_1) @ w_2\n"
        "    return torch.layer_norm(x + hidden, x.shape[1:])",
    ),
    Edit(
        "the layer norms are applied before the residual connections are added",
        "Post-norm normalises the sum: LayerNorm(x + Sublayer(x)).",
        "first second",
        f"{_FIRST}\n    hidden = torch.relu(x @ w_1) @ w_2\n    return {_SECOND}",
        "x + torch.layer_norm(attended, x.shape[-1:])\n    hidden = torch.relu(x @ w_1) @ w_2\n"
        "    return x + torch.layer_norm(hidden, x.shape[-1:])",
    ),
    Edit(
        "the block is pre-norm",
        "Post-norm normalises the sum after each sublayer, not the input of the sublayer.",
        "mask scale softmax projection first relu second",
        "q, k, v = x @ w_q, x @ w_k, x @ w_v",
        "sizes = x.shape[-1:]\n    y = torch.layer_norm(x, sizes)\n    scores = (y @ w_q) @ "
        "(y @ w_k).mT / math.sqrt(len(w_q))\n    scores = scores.masked_fill(~keep[:, None, :], "
        "-math.inf)\n    x = x + scores.softmax(dim=-1) @ (y @ w_v) @ w_o\n"
        "    return x + torch.relu(torch.layer_norm(x, sizes) @ w_1) @ w_2",
    ),
    Edit(
        "the second residual connection adds the input of the block",
        "It adds the input of its own sublayer, the output of the first layer norm.",
        "first second",
        f"x = {_FIRST}\n    hidden = torch.relu(x @ w_1) @ w_2\n    return {_SECOND}",
        f"y = {_FIRST}\n    hidden = torch.relu(y @ w_1) @ w_2\n    return {_SECOND}",
    ),
    Edit(
        "the ReLU comes after the second matrix",
        "Apply it to the hidden layer, between the two matrices.",
        "relu",
        "torch.relu(x @ w_1) @ w_2",
        "torch.relu(x @ w_1 @ w_2)",
    ),
    Edit(
        "the ReLU is missing",
        "Apply it between the two matrices of the feed-forward network.",
        "relu",
        "torch.relu(x @ w_1)",
        "(x @ w_1)",
    ),
    Edit(
        "the feed-forward network is missing",
        "A block has two sublayers: add the second, with its residual connection and layer norm.",
        "relu second",
        f"    hidden = torch.relu(x @ w_1) @ w_2\n    return {_SECOND}",
        "    return x",
    ),
)


def encode(x: Batch, keep: Keep, blocks: tuple[Callable[[Tensor, Tensor], Tensor], ...]) -> Batch:
    """The output of a stack of blocks."""
    for block in blocks:
        x = block(x, keep)
    return x


def last_block_alone(
    x: Batch, keep: Keep, blocks: tuple[Callable[[Tensor, Tensor], Tensor], ...]
) -> Batch:
    """The code with the bug: every block gets the embeddings."""
    for block in blocks:
        memory = block(x, keep)
    return memory


_LOOP = "    for block in blocks:\n        x = block(x, keep)\n    return x"
STACK_MISTAKES = (
    Edit(
        "the first block is applied again and again",
        "Every block has its own parameters: call `block`, not `blocks[0]`.",
        "loop",
        "x = block(x, keep)",
        "x = blocks[0](x, keep)",
    ),
    Edit(
        "the first block alone is applied",
        "Return after the loop, not in it.",
        "loop order",
        _LOOP,
        "    return blocks[0](x, keep)",
    ),
    Edit(
        "the outputs of all blocks are added, but each still gets the embeddings",
        "The output of a block is the input of the next.",
        "loop order",
        _LOOP,
        "    return sum(block(x, keep) for block in blocks)",
    ),
    Edit(
        "the outputs of all blocks are averaged, but each still gets the embeddings",
        "The output of a block is the input of the next.",
        "loop order",
        _LOOP,
        "    return sum(block(x, keep) for block in blocks) / len(blocks)",
    ),
    Edit(
        "the outputs of all blocks are added to the embeddings, which each block still gets",
        "The output of a block is the input of the next.",
        "loop order",
        _LOOP,
        "    return x + sum(block(x, keep) for block in blocks)",
    ),
    Edit(
        "the input of each block is detached, so only the last block gets gradients",
        "The gradients must flow back through the whole stack: do not detach anything.",
        "loop",
        "x = block(x, keep)",
        "x = block(x.detach(), keep)",
    ),
    Edit(
        "the first block is applied twice",
        "Begin the loop with the embeddings.",
        "order",
        "in blocks",
        "in (blocks[0], *blocks)",
    ),
    Edit(
        "the blocks are applied in reverse order",
        "Apply the blocks in the order of the tuple.",
        "order",
        "in blocks",
        "in blocks[::-1]",
    ),
    Edit(
        "each block has a second residual connection around it",
        "The residual connections are inside the blocks: x = block(x, keep).",
        "loop",
        "x = block(x, keep)",
        "x = x + block(x, keep)",
    ),
    Edit(
        "the embeddings are added to the input of every block",
        "Only the output of the previous block is the input of the next.",
        "loop order",
        _LOOP,
        "    memory = blocks[0](x, keep)\n    for block in blocks[1:]:\n"
        "        memory = block(x + memory, keep)\n    return memory",
    ),
    Edit(
        "the last block is left out",
        "Apply all blocks.",
        "order",
        "in blocks",
        "in blocks[:-1]",
    ),
    Edit(
        "the first block is left out",
        "Apply all blocks.",
        "order",
        "in blocks",
        "in blocks[1:]",
    ),
)


Tokens = Shaped[Tensor, "batch length d"]
Mask = Shaped[Tensor, "batch length"]
Encode = Callable[[Tensor, Tensor], Tensor]


def padding_test(encode: Encode) -> None:
    """Raise AssertionError if an output of a real token has the wrong dependencies."""
    x = torch.randn(3, 6, 4)
    lengths = 4, 6, 2
    keep = torch.arange(6) < torch.tensor(lengths)[:, None]
    before = encode(x, keep)
    for i, length in enumerate(lengths):
        real = x[i : i + 1, :length]
        alone = encode(real, keep[i : i + 1, :length])[0]
        assert torch.allclose(before[i, :length], alone, atol=1e-5)
        for j in range(length):
            changed = real.clone()
            changed[0, j] += torch.randn(4)
            after = encode(changed, keep[i : i + 1, :length])[0]
            assert ((after - alone).abs().amax(dim=-1) > 1e-5).all()


def attend(x: Tokens, keep: Mask | None) -> Tokens:
    """Self-attention in which x gives queries, keys and values, with its residual connection."""
    scores = x @ x.transpose(-2, -1) / math.sqrt(x.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep[:, None, :], -math.inf)
    return x + scores.softmax(dim=-1) @ x


def two_layers(x: Tokens, keep: Mask) -> Tokens:
    """Correct: two layers of masked attention, and a nonlinearity."""
    return attend(attend(x, keep).tanh(), keep)


def each_alone(x: Tokens, keep: Mask) -> Tokens:
    """Correct: every sentence without its padding, whose outputs are 0."""
    out = torch.zeros_like(x)
    for i, real in enumerate(keep):
        out[i, real] = attend(x[i : i + 1, real], None)[0]
    return out


def with_mean(x: Tokens, keep: Mask) -> Tokens:
    """Correct: the mean of the real tokens is added; the outputs of padding are 9."""
    real = keep[:, :, None]
    mean = (x * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)
    return torch.where(real, attend(x, keep) + mean, 9.0)


def no_mask(x: Tokens, keep: Mask) -> Tokens:
    """No mask."""
    return attend(x, None)


def zeroed(x: Tokens, keep: Mask) -> Tokens:
    """The vectors of the padding are set to zero."""
    return attend(x * keep[:, :, None], None)


def first_mask(x: Tokens, keep: Mask) -> Tokens:
    """All sentences have the mask of the first."""
    return attend(x, keep[:1].expand_as(keep))


def first_layer_only(x: Tokens, keep: Mask) -> Tokens:
    """The second layer has no mask."""
    return attend(attend(x, keep).tanh(), None)


def padding_in_mean(x: Tokens, keep: Mask) -> Tokens:
    """The mean over all positions is subtracted."""
    return attend(x - x.mean(dim=1, keepdim=True), keep)


def batch_mean(x: Tokens, keep: Mask) -> Tokens:
    """The mean over the sentences is subtracted."""
    return attend(x - 0.1 * x.mean(dim=0, keepdim=True), keep)


def own_token(x: Tokens, keep: Mask) -> Tokens:
    """Each position attends to itself only."""
    return (2 * x).tanh()


def one_padding(x: Tokens, keep: Mask) -> Tokens:
    """The first padding token is visible."""
    one_more = torch.cat([keep.new_ones(len(keep), 1), keep[:, :-1]], dim=1)
    return attend(x, one_more)


def similarity(residual: bool, n_blocks: int = 6, length: int = 8, d: int = 64) -> float:
    """The mean cosine similarity of two output vectors of an untrained encoder."""
    x = torch.randn(length, d)
    for _ in range(n_blocks):
        attention = MultiHeadAttention(d, n_heads=4)
        network = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        with torch.no_grad():
            x = torch.layer_norm(residual * x + attention(x[None])[0], (d,))
            x = torch.layer_norm(residual * x + network(x), (d,))
    cosines = torch.cosine_similarity(x[:, None], x[None], dim=-1)
    return float(cosines[~torch.eye(length, dtype=torch.bool)].mean())


def without_residuals() -> tuple[str, str]:
    """Measure the similarity of the outputs, with and without residual connections."""
    with_them, without = (sum(similarity(each) for _ in range(5)) / 5 for each in (True, False))
    option = "a" if without < 0.5 else "b" if without < 0.9 else "c"
    texts = approximate(without, 1.0, 0.02), approximate(with_them, 0.2, 0.15)
    return option, f"the mean cosine is {texts[0]} without residual connections, {texts[1]} with."
