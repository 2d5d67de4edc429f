"""How to train: the hyperparameters of the optimisation."""

from dataclasses import dataclass
from typing import get_args

from tfmr.dtype import Precision
from tfmr.errors import require


@dataclass(frozen=True)
class TrainConfig:
    """How to train. The optimiser's constants are the paper's (Vaswani et al., 2017, section 5.3).

    Raises:
        TfmrError: if a number is out of range.
    """

    peak_lr: float = 2e-3
    """The highest learning rate; see :func:`tfmr.train.schedule.learning_rate`."""
    warmup: int = 400
    """Steps until the rate peaks."""
    label_smoothing: float = 0.1
    """Label smoothing."""
    max_grad_norm: float = 1.0
    """The largest gradient norm; a longer gradient is scaled down to it."""
    ema_decay: float = 0.998
    """Decay of the running average of the weights, which is kept in the end; 0 averages nothing."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates."""
    eps: float = 1e-9
    """Keeps Adam's division safe."""
    seed: int = 0
    """Of the initial weights and of dropout. The order of the batches has its own."""
    grad_accum_steps: int = 1
    """Batches that each process learns from in one step."""
    precision: Precision = "fp32"
    """``"bf16"`` multiplies matrices in two bytes a number, ``"auto"`` where that is faster: see
    :func:`tfmr.dtype.uses_bf16`."""
    compile: bool = False
    """Let :func:`torch.compile` make kernels for the blocks first. It takes a minute or so, which
    pays on a GPU; a CPU gains next to nothing."""
    fsdp: bool = False
    """With several processes, let each hold a part of the weights instead of all (FSDP)."""

    def __post_init__(self) -> None:
        require(self.peak_lr > 0, f"peak_lr must be positive: got {self.peak_lr}")
        require(self.warmup >= 1, f"warmup must be at least one step: got {self.warmup}")
        require(
            self.max_grad_norm > 0,
            f"the largest gradient norm must be positive: got {self.max_grad_norm}",
        )
        require(
            self.grad_accum_steps >= 1,
            f"a step learns from at least one batch: got {self.grad_accum_steps}",
        )
        require(
            self.precision in get_args(Precision),
            f"precision must be one of {', '.join(get_args(Precision))}: got {self.precision!r}",
        )
        require(
            not (self.compile and self.fsdp),
            "a block is compiled whole or shared out, not both: choose compile or fsdp",
        )
        require(
            all(0 <= beta < 1 for beta in self.betas),
            f"Adam's decay rates lie in [0, 1): got {list(self.betas)}",
        )
        require(self.eps >= 0, f"Adam's eps must not be negative: got {self.eps}")
        require(0 <= self.seed < 2**63, f"a seed lies in 0 … 2^63 - 1: got {self.seed}")
        for name in ("label_smoothing", "ema_decay"):
            require(
                0 <= getattr(self, name) < 1, f"{name} lies in [0, 1): got {getattr(self, name)}"
            )
