"""One word more: the decoder for a single new position, which is all that decoding asks of it.

:meth:`tfmr.decoder.Decoder.forward` with caches computes the same and is the version to read. Here
stands what makes it several times faster while a translation is being said, and nothing else:

- All hypotheses of a sentence are *queries side by side*, ``(sentences, heads, beam, d_k)``. So the
  keys and values of the source exist once for each sentence, however wide the beam.
- No key or value is moved when hypotheses are dropped and others split. Each stays where it was
  written, and a mask, the ``ancestry``, says to whose past it belongs.
- The matrices are arranged for products of few rows once for all: :mod:`tfmr.arranged`.
- No shape is checked, and nothing is masked where there is nothing to hide.
- Sentences of like length are read together, and little padding with them: :func:`in_groups`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.arranged import BlockMaps, arranged, is_light
from tfmr.attention import KVCache, additive, padding_mask, unfused_attention
from tfmr.decoder import Decoder, DecoderBlock
from tfmr.dtype import type_of_products
from tfmr.layers import LayerNorm, Residual

FEW = 4
"""Up to this many rows, a step of a light decoder is too little work for all that a CPU has."""
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
        self.maps = arranged(decoder, output)
        blocks = cast(list[DecoderBlock], list(decoder.blocks))
        heard = hear(self.maps.hear(memory), memory.dtype, blocks)
        self.blocks = [
            BlockStep(*each, longest * beam, beam)
            for each in zip(blocks, self.maps.blocks, heard, strict=True)
        ]
        self.norm = decoder.norm
        self.padding: Float[Tensor, "sentences 1 1 source"] | None = None
        """What is added to the scores of the source's keys: -inf hides padding."""
        if not mask.all():
            self.padding = additive(mask, memory.dtype)
        self.ancestry: Float[Tensor, "sentences 1 beam key"] | None = None
        """The same for the keys of all hypotheses of a sentence: -inf hides what a hypothesis does
        not descend from. One hypothesis descends from all that was said, so it needs none."""
        self._siblings = additive(torch.eye(beam, dtype=torch.bool), memory.dtype).to(memory.device)

    def select(self, sentences: Int[Tensor, "kept"]) -> None:
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
        type in which :func:`tfmr.arranged.product` takes them.
        """
        with economy(x, self.maps.light):
            if self.beam > 1:
                own = self._siblings.expand(len(x) // self.beam, 1, -1, -1)
                past = self.ancestry
                self.ancestry = own if past is None else torch.cat([past, own], dim=-1)
            for block in self.blocks:
                x = block(x, self.position, self.ancestry, self.padding)
            self.position += 1
            return self.maps.output(self.norm(x))


class BlockStep:
    """A decoder block ready for one position after the other, with the keys and values it keeps.

    Args:
        block: the block.
        maps: its matrices, arranged.
        heard: its keys and values of the source.
        capacity: the most keys of its self-attention.
        beam: hypotheses per sentence.
    """

    def __init__(
        self,
        block: DecoderBlock,
        maps: BlockMaps,
        heard: KVCache,
        capacity: int,
        beam: int,
    ) -> None:
        self.block = block
        self.residuals = cast(list[Residual], list(block.residuals))
        self.maps = maps
        self.beam = beam
        across = block.cross_attention
        self.heads = (across.n_heads, across.d_model // across.n_heads)
        self.said = KVCache(capacity)
        self.heard = heard

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
        thought = self.maps.contract(self.block.feed_forward.activation(self.maps.expand(y)))
        return _after(feed, x, thought)

    def _look_back(
        self,
        x: Float[Tensor, "rows d_model"],
        position: int,
        ancestry: Float[Tensor, "sentences 1 beam key"] | None,
    ) -> Float[Tensor, "rows d_model"]:
        projected = self.maps.project_own(x).to(x.dtype).view(-1, self.beam, 3, *self.heads)
        q, k, v = projected.permute(2, 0, 3, 1, 4).unbind()
        own = self.block.self_attention
        if own.rotate is not None:
            # The hypotheses of a sentence stand side by side at one position.
            q = own.rotate(q.unsqueeze(3), position).squeeze(3)
            k = own.rotate(k.unsqueeze(3), position).squeeze(3)
        found = attend(q, *self.said.extend(k, v), ancestry, own.recorded)
        return self.maps.join_own(found.transpose(1, 2).reshape(x.shape))

    def _look_across(
        self,
        x: Float[Tensor, "rows d_model"],
        padding: Float[Tensor, "sentences 1 1 source"] | None,
    ) -> Float[Tensor, "rows d_model"]:
        q = self.maps.project_query(x).to(x.dtype).view(-1, self.beam, *self.heads).transpose(1, 2)
        recorded = self.block.cross_attention.recorded
        found = attend(q, *self.heard.read(), padding, recorded)
        return self.maps.join_across(found.transpose(1, 2).reshape(x.shape))


def hear(
    projected: Float[Tensor, "sentences source columns"],
    dtype: torch.dtype,
    blocks: Sequence[DecoderBlock],
) -> list[KVCache]:
    """The keys and values of the source for each block, from those of all side by side."""
    both = rearrange(
        projected,
        "sentences source (block kv heads d_k) -> block kv sentences heads source d_k",
        block=len(blocks),
        kv=2,
        heads=blocks[0].cross_attention.n_heads,
    )
    caches = [KVCache(projected.shape[1], dtype) for _ in blocks]
    for cache, (k, v) in zip(caches, both, strict=True):
        cache.extend(k, v)
    return caches


@contextmanager
def reading(decoder: Decoder, output: nn.Linear) -> Iterator[None]:
    """Read the source for this decoder: for a heavy one with products of the
    :func:`tfmr.dtype.type_of_products`, as :func:`tfmr.arranged.product` takes them. For
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
