"""One word more: the decoder for a single new position, which is all that decoding asks of it.

:meth:`tfmr.decoder.Decoder.forward` with caches computes the same and is the version to read. Here
stands what makes it several times faster while a translation is being said, and nothing else:

- All hypotheses of a sentence are *queries side by side*, ``(sentences, heads, beam, d_k)``. So the
  keys and values of the source exist once for each sentence, however wide the beam.
- No key or value is moved when hypotheses are dropped and others split. Each stays where it was
  written, and a mask, the ``ancestry``, says to whose past it belongs.
- The matrices are arranged for products of few rows once, not in every step: :func:`product`.
- No shape is checked, and nothing is masked where there is nothing to hide.
- Sentences of like length are read together, and little padding with them: :func:`in_groups`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.attention import KVCache, additive, padding_mask, unfused_attention
from tfmr.decoder import Decoder, DecoderBlock
from tfmr.layers import LayerNorm, Residual
from tfmr.precision import type_of_products

FEW = 4
"""Up to this many rows, a step of a light decoder is too little work for all that a CPU has."""
LIGHT = 2**21
"""A decoder of up to so many weights is light: a core keeps them at hand from step to step. Those
of a heavier one come from memory each time, and several cores together bring them faster."""
TOGETHER = 32
"""So many sentences are read at once: few enough to be of like length, enough for a CPU to do."""


class StepState:
    """What a decoder keeps between two words: a :class:`tfmr.translator.DecoderState`.

    Args:
        decoder: in evaluation mode.
        output: from its last vectors to scores.
        memory: what the encoder has made of the source, once per sentence.
        mask: hides the padding of ``memory``.
        longest: the most words of a hypothesis.
        beam: hypotheses per sentence.
    """

    def __init__(
        self,
        decoder: Decoder,
        output: nn.Linear,
        memory: Float[Tensor, "sentences source d_model"],
        mask: Bool[Tensor, "sentences 1 1 source"],
        longest: int,
        beam: int,
    ) -> None:
        self.beam = beam
        self.position = 0
        self.light = is_light(decoder, output)
        self.blocks = [
            BlockStep(block, memory, longest * beam, beam, self.light)
            for block in cast(Iterable[DecoderBlock], decoder.blocks)
        ]
        self.norm = decoder.norm
        self.output = product(output.weight, output.bias, len(memory) * beam, self.light)
        self.padding: Float[Tensor, "sentences 1 1 source"] | None = None
        """What is added to the scores of the source's keys: -inf hides padding."""
        if not mask.all():
            self.padding = additive(mask, memory.dtype)
        self.ancestry: Float[Tensor, "sentences 1 beam key"] | None = None
        """The same for the keys of all hypotheses of a sentence: -inf hides what a hypothesis does
        not descend from. One hypothesis descends from all that was said, so it needs none."""
        self._siblings = additive(torch.eye(beam, dtype=torch.bool), memory.dtype).to(memory.device)

    def keep(self, sentences: Int[Tensor, "kept"]) -> None:
        """Go on with these sentences only, in this order, all their hypotheses with them."""
        for block in self.blocks:
            block.said.keep(sentences)
            block.heard.keep(sentences)
        if self.padding is not None:
            self.padding = self.padding[sentences]
        if self.ancestry is not None:
            self.ancestry = self.ancestry[sentences]

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Let hypothesis ``j`` of sentence ``i`` go on from the past of ``parents[i, j]``."""
        if self.ancestry is not None:
            self.ancestry = self.ancestry.take_along_dim(parents[:, None, :, None], dim=2)

    def advance(self, x: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows vocab"]:
        """From the embedding of one word more of each hypothesis to the scores of the next, in the
        type in which :func:`product` takes them.
        """
        with economy(x, self.light):
            if self.beam > 1:
                own = self._siblings.expand(len(x) // self.beam, 1, -1, -1)
                past = self.ancestry
                self.ancestry = own if past is None else torch.cat([past, own], dim=-1)
            for block in self.blocks:
                x = block(x, self.position, self.ancestry, self.padding)
            self.position += 1
            return self.output(self.norm(x))


class BlockStep:
    """A decoder block ready for one position after the other, with the keys and values it keeps.

    Args:
        block: the block.
        memory: what it reads of the source.
        capacity: the most keys of its self-attention.
        beam: hypotheses per sentence.
        light: whether the decoder is.
    """

    def __init__(
        self,
        block: DecoderBlock,
        memory: Float[Tensor, "sentences source d_model"],
        capacity: int,
        beam: int,
        light: bool,
    ) -> None:
        self.block = block
        self.residuals = cast(list[Residual], list(block.residuals))
        self.beam = beam
        own, across = block.self_attention, block.cross_attention
        self.heads = (across.n_heads, across.d_model // across.n_heads)
        rows = len(memory) * beam
        inputs = (own.w_q, own.w_k, own.w_v)
        self.project_own = product(
            torch.cat([w.weight for w in inputs]), torch.cat([w.bias for w in inputs]), rows, light
        )
        feed = block.feed_forward
        self.join_own, self.project_query, self.join_across, self.expand, self.contract = (
            product(matrix.weight, matrix.bias, rows, light)
            for matrix in (own.w_o, across.w_q, across.w_o, feed.expand, feed.contract)
        )
        self.said = KVCache(capacity)
        self.heard = KVCache(memory.shape[1])
        shape = (*memory.shape[:2], *self.heads)
        k, v = (w(memory).to(memory.dtype).view(shape) for w in (across.w_k, across.w_v))
        self.heard.extend(k.transpose(1, 2), v.transpose(1, 2))

    def __call__(
        self,
        x: Float[Tensor, "rows d_model"],
        position: int,
        ancestry: Float[Tensor, "sentences 1 beam key"] | None,
        padding: Float[Tensor, "sentences 1 1 source"] | None,
    ) -> Float[Tensor, "rows d_model"]:
        """Read what was said, then the source, then think, as
        :meth:`tfmr.decoder.DecoderBlock.forward` does.
        """
        look_back, look_across, feed = self.residuals
        y = _before(look_back, x)
        x = _after(look_back, x, self._look_back(y, position, ancestry))
        y = _before(look_across, x)
        x = _after(look_across, x, self._look_across(y, padding))
        y = _before(feed, x)
        thought = self.contract(self.block.feed_forward.activation(self.expand(y)))
        return _after(feed, x, thought)

    def _look_back(
        self,
        x: Float[Tensor, "rows d_model"],
        position: int,
        ancestry: Float[Tensor, "sentences 1 beam key"] | None,
    ) -> Float[Tensor, "rows d_model"]:
        projected = self.project_own(x).to(x.dtype).view(-1, self.beam, 3, *self.heads)
        q, k, v = projected.permute(2, 0, 3, 1, 4).unbind()
        own = self.block.self_attention
        if own.rotate is not None:
            # The hypotheses of a sentence stand side by side at one position.
            q = own.rotate(q.unsqueeze(3), position).squeeze(3)
            k = own.rotate(k.unsqueeze(3), position).squeeze(3)
        found = attend(q, *self.said.extend(k, v), ancestry, own.recorded)
        return self.join_own(found.transpose(1, 2).reshape(x.shape))

    def _look_across(
        self,
        x: Float[Tensor, "rows d_model"],
        padding: Float[Tensor, "sentences 1 1 source"] | None,
    ) -> Float[Tensor, "rows d_model"]:
        q = self.project_query(x).to(x.dtype).view(-1, self.beam, *self.heads).transpose(1, 2)
        recorded = self.block.cross_attention.recorded
        found = attend(q, *self.heard.read(), padding, recorded)
        return self.join_across(found.transpose(1, 2).reshape(x.shape))


def is_light(decoder: Decoder, output: nn.Linear) -> bool:
    """Whether the decoder has at most :data:`LIGHT` weights, the output's among them."""
    return sum(w.numel() for w in [*decoder.parameters(), *output.parameters()]) <= LIGHT


@contextmanager
def reading(decoder: Decoder, output: nn.Linear) -> Iterator[None]:
    """Read the source for this decoder: for a heavy one with products of the
    :func:`tfmr.precision.type_of_products`, as :func:`product` takes them for its several rows. For
    the many rows of a source PyTorch's autocast arranges that well enough.
    """
    kind = type_of_products(output.weight)
    if is_light(decoder, output) or kind == output.weight.dtype:
        yield
        return
    with torch.autocast(output.weight.device.type, kind):
        yield


def in_groups(
    encode: Callable[[Tensor], tuple[Tensor, Tensor]],
    source: Int[Tensor, "sentences source"],
) -> tuple[Float[Tensor, "sentences source d_model"], Bool[Tensor, "sentences 1 1 source"]]:
    """The memory that ``encode`` makes of the source, and its mask.

    On a CPU many sentences are read in groups of like length, each only as far as its longest, so
    that less of what is read is padding. What stands at padding in the memory nobody looks at.
    """
    if len(source) <= TOGETHER or source.device.type != "cpu":
        return encode(source)
    mask = padding_mask(source)
    ends = (mask.flatten(1) * torch.arange(1, source.shape[1] + 1)).amax(dim=1)
    groups = ends.argsort(descending=True, stable=True).split(TOGETHER)
    parts = [encode(source[rows, : ends[rows[0]]])[0] for rows in groups]
    memory = parts[0].new_zeros(*source.shape, parts[0].shape[2])
    for rows, part in zip(groups, parts, strict=True):
        memory[rows, : part.shape[1]] = part
    return memory, mask


def product(
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None,
    rows: int,
    light: bool,
) -> Callable[[Tensor], Tensor]:
    """:func:`torch.nn.functional.linear` for many calls with the same weights and about as many
    ``rows``.

    Before a CPU can multiply several rows fast, it must rearrange the matrix, and the rows of a
    step are so few that this takes longer than the product. Here it is done once. PyTorch has the
    two operations for its compiler and no public name for them, so without them, and for numbers
    that are not of single precision, the plain function does it.

    The products with a heavy decoder are taken, and returned, in the
    :func:`tfmr.precision.type_of_products`: bf16 halves what must be read and multiplied. With a
    light one, it would take as long to change the type.

    A single row needs no arranging, and the plain function multiplies it by the matrix of a
    ``light`` decoder. Of a heavier one every core takes a share, which the function would leave to
    one of them.
    """
    cores = torch.get_num_threads()
    if rows == 1 and not light and weight.device.type == "cpu" and len(weight) % cores == 0:
        shares = weight.view(cores, -1, weight.shape[1]).mT
        offset = torch.zeros(()) if bias is None else bias
        return lambda x: (x.expand(cores, *x.shape) @ shares).view(1, -1) + offset
    if rows > 1 and weight.device.type == "cpu" and weight.dtype == torch.float32:
        inner = weight.dtype if light else type_of_products(weight)
        added = None if bias is None else bias.to(inner)
        try:
            arranged = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(inner), rows)
            multiply = torch.ops.mkldnn._linear_pointwise.default
        except (AttributeError, RuntimeError):
            pass
        else:
            return lambda x: multiply(x.to(inner), arranged, added, "none", [], "")
    return lambda x: F.linear(x, weight, bias)


def attend(
    q: Float[Tensor, "sentences heads query d_k"],
    k: Float[Tensor, "sentences heads key d_k"],
    v: Float[Tensor, "sentences heads key d_k"],
    bias: Float[Tensor, "sentences 1 _ key"] | None = None,
    recorded: list[Tensor] | None = None,
) -> Float[Tensor, "sentences heads query d_k"]:
    """:func:`tfmr.attention.scaled_dot_product_attention` of a few queries.

    ``bias`` is added to the scores; the weights are added to ``recorded`` if there is such a list.
    On a CPU the fused kernel takes up to ten times as long as the plain products for the few
    queries of a beam, and longer for those of many sentences; a lone query it answers sooner.
    """
    alone = len(q) == q.shape[2] == 1
    if recorded is None and (alone or q.device.type != "cpu"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    found, weights = unfused_attention(q, k, v, bias)
    if recorded is not None:
        recorded.append(weights.detach())
    return found


@contextmanager
def economy(rows: Tensor, light: bool) -> Iterator[None]:
    """On a CPU, multiply by the plain library, whatever :func:`torch.set_float32_matmul_precision`
    says: the other settings choose one that is made for large matrices, and takes up to five times
    as long for the few rows, and for the many small products, of a step.

    Few ``rows`` of a ``light`` decoder are left to one thread: to wake a second one takes longer
    than it could save.
    """
    if rows.device.type != "cpu":
        yield
        return
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    alone = light and len(rows) <= FEW
    torch.set_float32_matmul_precision("highest")
    if alone:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        if alone:
            torch.set_num_threads(threads)


def _before(residual: Residual, x: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
    """What the sublayer of a ``residual`` is given."""
    return _normed(residual.norm, x) if residual.pre else x


def _after(
    residual: Residual, x: Float[Tensor, "rows d_model"], found: Float[Tensor, "rows d_model"]
) -> Float[Tensor, "rows d_model"]:
    """What goes on in the stream."""
    return x + found if residual.pre else _normed(residual.norm, x + found)


def _normed(norm: LayerNorm, x: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
    return F.layer_norm(x, norm.gain.shape, norm.gain, norm.bias, norm.eps)
