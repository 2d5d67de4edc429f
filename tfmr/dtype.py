"""The arithmetic of matrix multiplications: fp32, TF32, bf16.

:func:`choose_arithmetic` states which arithmetic a device uses, and :class:`Arithmetic` applies it.
No other module changes PyTorch's settings for it. The dtype of the weights in decoding is an
argument of :func:`tfmr.fast.decoder.prepare`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tfmr.errors import TfmrError

Precision = Literal["auto", "fp32", "tf32", "bf16"]
"""How matrices are multiplied: ``fp32`` in 32 bits on every device; ``tf32`` in 32 bits rounded to
19, on GPUs only; ``bf16`` in 16 bits; ``auto`` in ``bf16`` where that is fast, otherwise in
``fp32``."""


@dataclass(frozen=True)
class Units:
    """The instructions of a device for multiplying matrices."""

    device: torch.device
    bf16: bool = False
    """Fast instructions for bf16: AVX-512 BF16 or AMX on a CPU."""
    tf32: bool = False
    """Instructions for TF32."""
    avx512: bool = False
    """A CPU with AVX-512."""
    amx: bool = False
    """A CPU with matrix units, AMX, which multiply bf16."""


def find_units(device: torch.device) -> Units:
    """The instructions that ``device`` has."""
    if device.type == "cpu":
        amx = torch.cpu._is_amx_tile_supported()
        return Units(
            device,
            bf16=amx or torch.cpu._is_avx512_bf16_supported(),
            avx512=torch.cpu._is_avx512_supported(),
            amx=amx,
        )
    if device.type == "cuda":
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        # Ampere introduced both formats. AMD's GPUs have another numbering, and no TF32 by default.
        tf32 = torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
        return Units(device, bf16=bf16, tf32=tf32)
    return Units(device, bf16=torch.amp.is_autocast_available(device.type))


@dataclass(frozen=True)
class Arithmetic:
    """How a device multiplies matrices; made by :func:`choose_arithmetic`."""

    name: Literal["fp32", "tf32", "bf16"]
    """The format of the factors. Products are always summed in fp32."""
    matmul: Literal["highest", "high", "medium"] = "highest"
    """The argument of :func:`torch.set_float32_matmul_precision`."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights that are stored for this arithmetic."""
        return torch.bfloat16 if self.name == "bf16" else torch.float32

    def autocast(self, device: torch.device) -> torch.autocast:
        """A context in which matmuls round fp32 tensors to bf16, if this is the arithmetic bf16.

        For any other arithmetic, it switches an outer autocast off, because fp32 means fp32. As
        PyTorch recommends, enter it for a forward pass, but not for a backward pass.
        """
        return torch.autocast(device.type, torch.bfloat16, enabled=self.name == "bf16")

    @contextmanager
    def applied(self) -> Iterator[None]:
        """PyTorch's settings for the matmuls of fp32 tensors, restored at the end.

        On a GPU, attention is not computed by cuDNN meanwhile, which takes 10 ms to plan each new
        shape, and the batches of an epoch have many.

        The settings are process-wide, so enter this context around one long call, and not in one of
        several threads.
        """
        matmul, cudnn, newer = _read_settings()
        cudnn_attention = torch.backends.cuda.cudnn_sdp_enabled()
        torch.set_float32_matmul_precision(self.matmul)
        torch.backends.cudnn.allow_tf32 = self.name == "tf32"
        torch.backends.cuda.enable_cudnn_sdp(False)
        try:
            yield
        finally:
            torch.backends.cuda.enable_cudnn_sdp(cudnn_attention)
            if cudnn is not None:
                torch.backends.cudnn.allow_tf32 = cudnn
            if matmul is not None:
                torch.set_float32_matmul_precision(matmul)
            for backend, value in newer:
                if backend.fp32_precision != value:
                    backend.fp32_precision = value


def _read_settings() -> tuple[str | None, bool | None, list[tuple[Any, str]]]:
    """The precision of matmuls, whether cuDNN may use TF32, and the newer settings of both.

    PyTorch 2.9 added ``fp32_precision`` to each backend. It raises if the older settings are read
    after one of the newer ones was changed.
    """
    matmul, cudnn = None, None
    with suppress(RuntimeError):
        matmul = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = torch.backends.cudnn.allow_tf32
    found: Any = torch.backends
    backends: list[Any] = []
    if hasattr(found.mkldnn, "matmul"):
        backends = [found.mkldnn.matmul, found.cuda.matmul, found.cudnn.conv, found.cudnn.rnn]
    return matmul, cudnn, [(backend, backend.fp32_precision) for backend in backends]


def choose_arithmetic(precision: Precision, units: Units) -> Arithmetic:
    """The arithmetic that a device uses for ``precision``.

    bf16 has two bytes and the exponent range of fp32, so the loss needs no scaling. Weights,
    optimiser state and sums over many numbers stay in fp32 (Micikevicius et al., 2018, section 3).

    Raises:
        TfmrError: if the device does not support ``precision``.
    """
    on_cpu = units.device.type == "cpu"
    if precision == "auto":
        precision = "bf16" if units.bf16 else "fp32"
    # A CPU without instructions for bf16 can compute in bf16, but slowly.
    supported = {"fp32": True, "tf32": units.tf32, "bf16": units.bf16 or on_cpu}
    if not supported[precision]:
        raise TfmrError(
            f"{precision} needs a device that supports it, and {units.device} does not: set "
            'precision to "fp32" or "auto"'
        )
    if precision == "tf32":
        return Arithmetic("tf32", "high")
    # "medium" makes PyTorch multiply with oneDNN instead of MKL if the CPU has AVX-512, which on
    # AMD's CPUs takes little more than half the time. With AMX, oneDNN would then compute in bf16;
    # without AMX it computes in fp32.
    onednn = on_cpu and units.avx512 and not units.amx
    return Arithmetic(precision, "medium" if onednn else "highest")


def at_least_fp32(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """``x`` in fp32 if it is in half precision, where dot products overflow or lose digits."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
