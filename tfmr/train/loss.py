"""Label-smoothed cross-entropy: readable, by PyTorch's kernel, and fused with the output layer."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tfmr.checks import check_floating, check_tensor, check_vectors
from tfmr.data.batches import Batch
from tfmr.dtype import Arithmetic
from tfmr.errors import TfmrError
from tfmr.special_tokens import PAD
from tfmr.translator import Translator


def cross_entropy_naive(
    logits: Float[Tensor, "batch target vocab"],
    target: Int[Tensor, "batch target"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Label-smoothed cross-entropy in nats per token, averaged over all tokens except padding.

    With the target token :math:`y` and label smoothing :math:`\epsilon`:

    .. math:: q(k) = (1 - \epsilon)\,[k = y] + \epsilon / |\mathcal{V}|, \qquad
              L = -\sum_k q(k) \log p(k)

    Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4. This is the readable
    version; :func:`cross_entropy` computes the same value with PyTorch's kernel.

    Args:
        logits: unnormalised log-probabilities ``(batch, target, vocab)``.
        target: target token ids ``(batch, target)``, padded with ``PAD``.
        label_smoothing: :math:`\epsilon`, the probability spread uniformly over the vocabulary.

    Raises:
        TfmrError: as :func:`real_tokens`.
    """
    real = real_tokens(logits, target, label_smoothing)
    vocab = logits.shape[-1]
    one_hot = F.one_hot(target, vocab).to(logits.dtype)
    target_distribution = (1 - label_smoothing) * one_hot + label_smoothing / vocab
    per_token = -(target_distribution * logits.log_softmax(dim=-1)).sum(dim=-1)
    return per_token[real].mean()


def cross_entropy(
    logits: Float[Tensor, "batch target vocab"],
    target: Int[Tensor, "batch target"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Label-smoothed cross-entropy in nats per token, averaged over all tokens except padding.

    Args:
        logits: unnormalised log-probabilities ``(batch, target, vocab)``.
        target: target token ids ``(batch, target)``, padded with ``PAD``.
        label_smoothing: :math:`\epsilon`, the probability spread uniformly over the vocabulary; 0.1
            in the paper.

    Raises:
        TfmrError: as :func:`real_tokens`.
    """
    real_tokens(logits, target, label_smoothing)
    return F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=label_smoothing
    )


def real_tokens(
    vectors: Float[Tensor, "batch target size"],
    target: Int[Tensor, "batch target"],
    label_smoothing: float,
    weight: Float[Tensor, "vocab size"] | None = None,
) -> Bool[Tensor, "batch target"]:
    """Check the arguments of a loss; return the positions that it averages: all except padding.

    Args:
        vectors: the logits, or with ``weight`` the vectors ``x`` that it maps to logits.
        target: target token ids.
        label_smoothing: see :func:`cross_entropy`.
        weight: weight of the output projection.

    Raises:
        TfmrError: if the shapes, types or devices do not fit, ``target`` contains an id outside the
            vocabulary or only padding, or ``label_smoothing`` is not in [0, 1].
    """
    name, size = ("logits", "vocab") if weight is None else ("x", "d_model")
    check_floating(vectors, name)
    check_tensor(target, "target")
    if vectors.dim() != 3 or target.shape != vectors.shape[:2]:
        raise TfmrError(
            f"{name} must be (batch, target, {size}) and target must be (batch, target): got "
            f"{tuple(vectors.shape)} and {tuple(target.shape)}"
        )
    vocab = vectors.shape[-1]
    if weight is not None:
        check_floating(weight, "weight")
        if weight.dim() != 2:
            raise TfmrError(f"weight must be (vocab, d_model): got {tuple(weight.shape)}")
        check_vectors(vectors, name, weight)
        vocab = len(weight)
    if target.dtype != torch.long:
        raise TfmrError(
            f"target must contain token ids (torch.long): got {target.dtype}; use target.long()"
        )
    if target.device != vectors.device:
        raise TfmrError(
            f"target must be on the device {vectors.device}, like {name}: got {target.device}; "
            f'use target.to("{vectors.device}")'
        )
    if not 0 <= label_smoothing <= 1:
        raise TfmrError(
            f"label_smoothing must be in [0, 1]: got {label_smoothing}; use 0 for none, or 0.1 as "
            "in the paper"
        )
    # One transfer from a GPU for both checks: PAD is the smallest id.
    low, high = torch.stack(target.aminmax()).tolist() if target.numel() else (PAD, PAD)
    if low < 0 or high >= vocab:
        raise TfmrError(
            f"target ids must be from 0 to {vocab - 1}, the size of the vocabulary minus 1: got "
            f"ids from {low} to {high}; was the text encoded with another vocabulary?"
        )
    if high == PAD:
        raise TfmrError(
            f"the loss needs at least one target token that is not padding (id {PAD}): got none in "
            f"a target of shape {tuple(target.shape)}; remove empty batches"
        )
    return target != PAD


CHUNK_ROWS = 256
"""Positions whose logits are held at the same time on a CPU: few enough to stay in its cache."""
CHUNK_BYTES = 2**31
"""Bytes of the logits, probabilities and gradients that a GPU holds at the same time, at most."""
BYTES_PER_LOGIT = 12
"""Probability and temporary values in fp32, logit and gradient in half precision."""


def chunk_rows(vocab: int, memory: int | None) -> int:
    """The number of positions whose logits are held at the same time.

    It depends on nothing that changes between two runs, so that a resumed run rounds equally.

    Args:
        vocab: size of the vocabulary.
        memory: bytes of the GPU's memory, of which a sixteenth may be used; ``None`` for a CPU.
    """
    if memory is None:
        return CHUNK_ROWS
    return max(CHUNK_ROWS, min(CHUNK_BYTES, memory // 16) // (BYTES_PER_LOGIT * vocab))


def _memory(device: torch.device) -> int | None:
    """Bytes of a GPU's memory; ``None`` for a CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.get_device_properties(device).total_memory


ChunkLoss = Callable[[Tensor, Tensor, float, torch.dtype, bool], tuple[Tensor, Tensor | None]]
"""The type of :func:`chunk_loss`."""


def chunk_loss(
    logits: Float[Tensor, "rows vocab"],
    labels: Int[Tensor, "rows 1"],
    label_smoothing: float,
    dtype: torch.dtype,
    need_gradient: bool,
) -> tuple[Float[Tensor, "rows 1"], Float[Tensor, "rows vocab"] | None]:
    """The negative loss of each row, and its gradient with respect to the logits.

    Args:
        logits: in the dtype of the matmuls, in which the gradient is returned.
        labels: the tokens to predict.
        label_smoothing: see :func:`cross_entropy`.
        dtype: in which the loss is computed.
        need_gradient: whether the gradient is needed.
    """
    p = logits.softmax(dim=-1, dtype=dtype)
    # log p = logit - log_z. The most probable token gives log_z without a second exponential over
    # the vocabulary.
    log_z = logits.amax(dim=-1, keepdim=True) - p.amax(dim=-1, keepdim=True).log()
    log_p_label = logits.gather(-1, labels) - log_z
    mean_log_p = logits.mean(dim=-1, keepdim=True, dtype=dtype) - log_z
    log_q = (1 - label_smoothing) * log_p_label + label_smoothing * mean_log_p
    if not need_gradient:
        return log_q, None
    # The gradient of the loss with respect to the logits is p - q.
    gradient = p.sub_(label_smoothing / logits.shape[-1])
    if torch.compiler.is_compiling():  # one kernel can do all of this, unless it scatters
        is_label = labels == torch.arange(logits.shape[-1], device=logits.device)
        gradient = torch.where(is_label, gradient + (label_smoothing - 1), gradient)
    else:
        gradient.scatter_add_(-1, labels, torch.full_like(log_p_label, label_smoothing - 1))
    return log_q, gradient.to(logits.dtype)


class _LinearCrossEntropy(torch.autograd.Function):
    """Logits, loss and, where needed, gradients in one pass; see :func:`linear_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        target: Tensor,
        label_smoothing: float,
        counted: Tensor | None,
        chunk_loss: "ChunkLoss",
        grad_enabled: bool,
    ) -> Tensor:
        # Autograd calls forward in no-grad mode, so only the caller knows the caller's mode.
        need_x, need_weight = (grad_enabled and needed for needed in ctx.needs_input_grad[:2])
        d_x = torch.empty_like(x) if need_x else None
        d_weight = torch.zeros_like(weight) if need_weight else None
        rows, vocab, device = len(x), len(weight), x.device.type
        n: int | Tensor = rows
        # Autocast chooses the dtype of the matmuls; softmax, loss and sums keep the weights' dtype.
        dtype = weight.dtype
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else dtype
        if counted is not None:
            # A row of zeros adds nothing to the gradient of the weight.
            n, x = counted.count_nonzero(), x * counted
        x_low, weight_low = x.to(low), weight.to(low)
        total = weight.new_zeros(())
        size = chunk_rows(vocab, _memory(x.device))
        for start in range(0, rows, size):
            chunk = slice(start, start + size)
            labels = target[chunk, None]
            logits = x_low[chunk] @ weight_low.T
            need_gradient = d_x is not None or d_weight is not None
            log_q, d_low = chunk_loss(logits, labels, label_smoothing, dtype, need_gradient)
            total -= (log_q if counted is None else log_q * counted[chunk]).sum()
            if d_low is None:
                continue
            if d_x is not None:
                d_x[chunk] = d_low @ weight_low
            if d_weight is not None and low == dtype:
                d_weight.addmm_(d_low.T, x_low[chunk])  # needs no second (vocab, d_model) tensor
            elif d_weight is not None:
                d_weight += d_low.T @ x_low[chunk]
        if d_x is not None and counted is not None:
            d_x *= counted
        ctx.save_for_backward(*(None if d is None else d.div_(n) for d in (d_x, d_weight)))
        return total / n

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        # once_differentiable does not detect a d_loss without a graph, which is the usual case.
        if torch.is_grad_enabled():
            raise TfmrError(
                "linear_cross_entropy has no second derivatives, which create_graph=True requires: "
                "use cross_entropy(x @ weight.T, target, label_smoothing)"
            )
        d_x, d_weight = (None if d is None else d_loss * d for d in ctx.saved_tensors)
        return d_x, d_weight, None, None, None, None, None


def linear_cross_entropy(
    x: Float[Tensor, "batch target d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, "batch target"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r""":func:`cross_entropy` of the logits ``x @ weight.T``, without storing all logits at once.

    The logits (tokens × vocabulary) are the largest tensor of a training step, and PyTorch keeps
    them for the backward pass. This function computes them for a few positions at a time, replaces
    them by their gradient in the same pass, and discards them. Gradients are computed only where
    autograd needs them: evaluation under :func:`torch.no_grad` costs one matmul instead of three.
    Under :class:`torch.autocast` the matmuls use autocast's dtype, all else that of the weights.

    Args:
        x: decoder output ``(batch, target, d_model)``.
        weight: weight of the output projection ``(vocab, d_model)``.
        target: target token ids ``(batch, target)``, padded with ``PAD``.
        label_smoothing: :math:`\epsilon`, the probability spread uniformly over the vocabulary.

    Raises:
        TfmrError: as :func:`real_tokens`; or in the backward pass, if it was called with
            ``create_graph=True``: there are no second derivatives.
    """
    positions = real_tokens(x, target, label_smoothing, weight).flatten().nonzero().squeeze(1)
    x, target = x.flatten(0, 1)[positions], target.flatten()[positions]
    return _apply(x, weight, target, label_smoothing)


def _apply(
    x: Float[Tensor, "rows d_model"],
    weight: Float[Tensor, "vocab d_model"],
    target: Int[Tensor, "rows"],
    label_smoothing: float,
    counted: Float[Tensor, "rows 1"] | None = None,
    chunk_loss: ChunkLoss = chunk_loss,
) -> Float[Tensor, ""]:
    loss: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x, weight, target, label_smoothing, counted, chunk_loss, torch.is_grad_enabled()
    )
    return loss


class LossModule(nn.Module):
    """A model and its loss as one module.

    DDP and FSDP wrap one module and prepare weights and gradients around its ``forward``, so the
    output projection, which the loss multiplies by, must be used inside that ``forward``.

    Args:
        model: the model to train.
        label_smoothing: see :func:`cross_entropy`.
        arithmetic: how matrices are multiplied; see :func:`tfmr.dtype.choose_arithmetic`.
    """

    def __init__(self, model: Translator, label_smoothing: float, arithmetic: Arithmetic) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.arithmetic = arithmetic
        self.chunk_loss: ChunkLoss = chunk_loss
        """Used on a GPU, where it can be compiled."""

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        """The label-smoothed cross-entropy of ``batch``, in nats per target token.

        The batch is copied to the device of the model. On a GPU, its shape is rounded up
        (:func:`round_shape`), and padding is computed like other positions and not counted, because
        leaving it out would mean waiting for the GPU.
        """
        device = self.model.device
        if batch.source.device != device:
            batch = round_shape(batch, self.model.config.max_length).to(device)
        with self.arithmetic.autocast(device):
            x = self.model.hidden(batch.source, batch.target_in)
            weight, target = self.model.output.weight, batch.target_out
            if device.type == "cpu":
                return linear_cross_entropy(x, weight, target, self.label_smoothing)
            target = target.flatten()
            counted = (target != PAD).to(weight.dtype).unsqueeze(1)
            return _apply(
                x.flatten(0, 1), weight, target, self.label_smoothing, counted, self.chunk_loss
            )


LENGTHS, ROWS = 8, 16
"""On a GPU, lengths and numbers of sentences are multiples of these numbers, so that an epoch has
few shapes. They also suit the GPU's matrix units."""


def round_shape(batch: Batch, max_length: int) -> Batch:
    """``batch`` with more padding, as a GPU computes it; see :meth:`Batch.rounded`."""
    return batch.rounded(LENGTHS, ROWS, max_length)
