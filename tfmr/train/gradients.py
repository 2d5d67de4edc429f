"""Loss and gradients of a batch on a GPU, by one CUDA graph for each shape of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tfmr.cuda_graph import GraphRecorder
from tfmr.data.batches import Batch, pinned

MAX_GRAPHS = 256
"""Batches of further shapes are computed without a graph: a graph takes a few MB."""


@dataclass(frozen=True)
class _Recorded:
    batch: Batch
    share: Float[Tensor, ""]
    loss: Float[Tensor, ""]
    work: Callable[[], object]


class RecordedGradients:
    """Computes what ``(loss(batch) * share).backward()`` computes.

    The gradients are added to those of the parameters, which :meth:`clear` sets to zero. Random
    numbers are those of the default generator, as without a graph. Python code runs only while a
    shape is recorded: later, hooks are not called, and a changed dropout probability or
    ``requires_grad`` has no effect.

    Args:
        loss: a module that maps a batch on its device to the loss.
        parameters: the parameters of the module.
        device: their device.
        warm_up_each: compute each new shape once before it is recorded, because
            :func:`torch.compile` may have to compile for it.
    """

    def __init__(
        self,
        loss: nn.Module,
        parameters: Sequence[nn.Parameter],
        device: torch.device,
        *,
        warm_up_each: bool = False,
    ) -> None:
        self._loss = loss
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._gradients = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._device = device
        self._warm_up_each = warm_up_each
        self._recorder = GraphRecorder(device)
        self._recorded: dict[tuple[torch.Size, torch.Size], _Recorded] = {}
        self.clear()

    def clear(self) -> None:
        """Set all gradients to zero."""
        torch._foreach_zero_(self._gradients)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient

    def __call__(self, batch: Batch, share: float) -> Float[Tensor, ""]:
        """Add the gradients of ``share`` times the loss of ``batch``; return this product.

        The batch is on the CPU.
        """
        shape = (batch.source.shape, batch.target_in.shape)
        recorded = self._recorded.get(shape) or self._record(batch)
        for held, given in zip(recorded.batch.tensors(), batch.tensors(), strict=True):
            held.copy_(pinned(given, self._device), non_blocking=True)
        recorded.share.fill_(share)
        recorded.work()
        return recorded.loss.clone()

    def _record(self, batch: Batch) -> _Recorded:
        held = batch.to(self._device)
        dtype = torch.promote_types(torch.float32, self._gradients[0].dtype)
        share, loss = torch.zeros(2, dtype=dtype, device=self._device)

        def work() -> None:
            scaled = self._loss(held) * share
            scaled.backward()
            loss.copy_(scaled.detach())

        if len(self._recorded) >= MAX_GRAPHS:
            return _Recorded(held, share, loss, work)
        if self._warm_up_each or not self._recorded:
            # Its share is 0, so it adds nothing to the gradients.
            self._recorder.warm_up(work)
        recorded = _Recorded(held, share, loss, self._recorder.record(work))
        self._recorded[held.source.shape, held.target_in.shape] = recorded
        return recorded
