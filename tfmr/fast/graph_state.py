"""Incremental decoding on a GPU, where every step has the same shapes and is one CUDA graph.

:class:`tfmr.fast.decoder.FastState` grows by a position per step, so each of its steps launches its
own kernels. Here every step attends to all positions that the output can have; a bias hides those
that are not decoded yet. The position is a tensor, so that one graph serves every step.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfmr.attention import mask_to_bias
from tfmr.cuda_graph import GraphRecorder
from tfmr.errors import TfmrError
from tfmr.kv_cache import BlockCache, KVCache

POSITIONS, SOURCE = 32, 16
"""The positions of an output and the length of a source are rounded up to multiples of these
numbers, so that sentences of different lengths use the same graph."""
MAX_FREE = 8
"""Buffers that are kept for later calls."""


@dataclass(frozen=True)
class Shape:
    """What a graph is recorded for."""

    sentences: int
    beam: int
    source: int
    positions: int

    @classmethod
    def fitting(cls, sentences: int, beam: int, source: int, positions: int) -> "Shape":
        """The smallest shape that fits; the number of sentences is a power of two."""
        return cls(
            1 << (sentences - 1).bit_length(),
            beam,
            -(-source // SOURCE) * SOURCE,
            -(-positions // POSITIONS) * POSITIONS,
        )


class FixedCache(KVCache):
    """A :class:`tfmr.kv_cache.KVCache` that writes to given slots and returns all slots.

    Args:
        keys: the buffer of the keys, filled with zeros.
        values: the buffer of the values.
        slots: where the next keys and values are written.
    """

    def __init__(
        self,
        keys: Float[Tensor, "sentences heads slot d_k"],
        values: Float[Tensor, "sentences heads slot d_k"],
        slots: Int[Tensor, "new"],
    ) -> None:
        super().__init__(capacity=keys.shape[2])
        self._keys, self._values, self._slots = keys, values, slots

    def extend(
        self,
        k: Float[Tensor, "sentences heads new d_k"],
        v: Float[Tensor, "sentences heads new d_k"],
    ) -> tuple[
        Float[Tensor, "sentences heads slot d_k"], Float[Tensor, "sentences heads slot d_k"]
    ]:
        """Write the keys and values; return those of all slots."""
        self._keys.index_copy_(2, self._slots, k)
        self._values.index_copy_(2, self._slots, v)
        return self.read()

    def read(
        self,
    ) -> tuple[
        Float[Tensor, "sentences heads slot d_k"], Float[Tensor, "sentences heads slot d_k"]
    ]:
        """The keys and values of all slots."""
        return self._keys, self._values


class Buffers:
    """The tensors that the graph of a step reads and writes, and the graph.

    Args:
        shape: their sizes.
        cross: keys and values of an encoder output, for the other sizes and the type.
        logits: logits of one token, for the size of the vocabulary and the type.
    """

    def __init__(
        self,
        shape: Shape,
        cross: Float[Tensor, "block kv _ heads source d_k"],
        logits: Float[Tensor, "vocab"],
    ) -> None:
        blocks, _, _, heads, _, d_k = cross.shape
        sentences, self.beam = shape.sentences, shape.beam
        slots = shape.positions * shape.beam
        self.shape = shape
        self.position = torch.zeros((), dtype=torch.int64, device=cross.device)
        self.tokens = self.position.new_zeros(sentences * shape.beam)
        self.logits = logits.new_zeros(sentences * shape.beam, len(logits))
        self.own = cross.new_zeros(blocks, 2, sentences, heads, slots, d_k)
        self.cross = cross.new_zeros(blocks, 2, sentences, heads, shape.source, d_k)
        self.padding = cross.new_zeros(sentences, 1, 1, shape.source)
        """Bias of the cross-attention scores: -inf at padding."""
        self.ancestry = cross.new_full((sentences, 1, shape.beam, slots), -torch.inf)
        """Bias of the self-attention scores: -inf at slots outside the prefix of a hypothesis."""
        own_slot = torch.eye(shape.beam, dtype=torch.bool, device=cross.device)
        self._own_slot = mask_to_bias(own_slot, cross.dtype).expand(sentences, 1, -1, -1)
        self._hypotheses = torch.arange(shape.beam, device=cross.device)
        self._slots = self._hypotheses.clone()
        self.caches = [
            BlockCache(FixedCache(k, v, self._slots), FixedCache(memory_k, memory_v, self._slots))
            for (k, v), (memory_k, memory_v) in zip(self.own, self.cross, strict=True)
        ]
        self.replay: Callable[[], object]
        """Decodes the next tokens: from :attr:`tokens` to :attr:`logits`."""

    def append_position(self, rows: int) -> None:
        """Let each hypothesis attend to its own slot of the position that is decoded next."""
        torch.add(self._hypotheses, self.position * self.beam, out=self._slots)
        self.ancestry.index_copy_(3, self._slots, self._own_slot)

    def fill(
        self,
        cross: Float[Tensor, "block kv sentences heads source d_k"],
        padding: Float[Tensor, "sentences 1 1 source"],
    ) -> None:
        """Start with these sentences. What is computed for the others is not used."""
        sentences, source = cross.shape[2], cross.shape[4]
        self.position.zero_()
        self.own.zero_()
        self.ancestry.fill_(-torch.inf)
        self.cross.zero_()
        self.cross[:, :, :sentences, :, :source] = cross
        self.padding.fill_(-torch.inf)
        self.padding[..., 0] = 0
        self.padding[:sentences, ..., :source] = padding

    def fill_from(self, other: "Buffers", sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences of ``other``."""
        n = len(sentences)
        self.position.copy_(other.position)
        self.own[:, :, :n] = other.own[:, :, sentences]
        self.cross[:, :, :n] = other.cross[:, :, sentences]
        self.padding[:n] = other.padding[sentences]
        self.ancestry[:n] = other.ancestry[sentences]


class GraphDecoder:
    """Records the graphs of a model's steps, and keeps their buffers for later calls.

    Args:
        step: a method of the model that computes the logits of the next tokens from the last
            tokens and the buffers, which it updates.
        logits: logits of one token, for the size of the vocabulary, the type and the device.
    """

    def __init__(
        self, step: Callable[[Tensor, Buffers], Tensor], logits: Float[Tensor, "vocab"]
    ) -> None:
        self._step = weakref.WeakMethod(step)  # the model has this decoder
        self._logits = logits
        self._recorder = GraphRecorder(logits.device)
        self._warm = False
        self._free: list[Buffers] = []

    def start(
        self,
        cross: Float[Tensor, "block kv sentences heads source d_k"],
        mask: Bool[Tensor, "sentences 1 1 source"],
        max_new_tokens: int,
        beam: int,
    ) -> "GraphState":
        """The state before the first step.

        Args:
            cross: the keys and values of the encoder output.
            mask: hides the padding of the encoder output.
            max_new_tokens: the maximum number of steps.
            beam: hypotheses per sentence.
        """
        buffers = self.take(Shape.fitting(len(mask), beam, mask.shape[3], max_new_tokens), cross)
        buffers.fill(cross, mask_to_bias(mask, cross.dtype))
        return GraphState(self, buffers, len(mask), max_new_tokens)

    def take(self, shape: Shape, cross: Float[Tensor, "block kv _ heads source d_k"]) -> Buffers:
        """Buffers of this shape with their graph, used before or new."""
        for buffers in list(self._free):
            if buffers.shape == shape:
                with suppress(ValueError):  # another thread may have taken it
                    self._free.remove(buffers)
                    return buffers
        # Outside inference mode, because a later call may write to them outside it.
        with torch.inference_mode(False), torch.no_grad():
            buffers, step = Buffers(shape, cross, self._logits), self._step()
            assert step is not None

            def work() -> None:
                buffers.logits.copy_(step(buffers.tokens, buffers))

            if not self._warm:
                self._recorder.warm_up(work)
                self._warm = True
            buffers.replay = self._recorder.record(work)
        return buffers

    def give(self, buffers: Buffers) -> None:
        """Take back ``buffers``, which no state uses any more."""
        self._free.append(buffers)
        del self._free[:-MAX_FREE]


class GraphState:
    """The state of incremental decoding on a GPU: a :class:`tfmr.translator.DecoderState`.

    It returns its buffers when it is deleted.
    """

    def __init__(
        self, decoder: GraphDecoder, buffers: Buffers, sentences: int, max_new_tokens: int
    ) -> None:
        self._decoder = decoder
        self._sentences, self._steps, self._max_steps = sentences, 0, max_new_tokens
        self._hold(buffers)

    def _hold(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._give_back = weakref.finalize(self, self._decoder.give, buffers)

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
        """Append one token to each hypothesis; return the logits of the next.

        Raises:
            TfmrError: if there is not one token for each hypothesis, or this was done
                ``max_new_tokens`` times.
        """
        buffers = self._buffers
        rows = self._sentences * buffers.beam
        if len(tokens) != rows or self._steps == self._max_steps:
            raise TfmrError(
                f"expected {rows} tokens, at most {self._max_steps} times: got {len(tokens)} "
                f"tokens in step {self._steps + 1}; call start() with a larger max_new_tokens"
            )
        self._steps += 1
        buffers.tokens[:rows] = tokens
        buffers.replay()
        return buffers.logits[:rows]

    def select(self, sentences: Int[Tensor, "selected"]) -> None:
        """Continue with these sentences only, in this order, with all their hypotheses."""
        old = self._buffers
        shape = old.shape
        fitting = Shape.fitting(len(sentences), shape.beam, shape.source, shape.positions)
        buffers = self._decoder.take(fitting, old.cross)
        buffers.fill_from(old, sentences)
        self._give_back()
        self._hold(buffers)
        self._sentences = len(sentences)

    def reorder(self, parents: Int[Tensor, "sentences beam"]) -> None:
        """Continue hypothesis ``j`` of sentence ``i`` from its hypothesis ``parents[i, j]``."""
        if self._buffers.beam > 1:
            ancestry = self._buffers.ancestry[: self._sentences]
            ancestry.copy_(ancestry.take_along_dim(parents[:, None, :, None], dim=2))
