"""Follow the tensors of a forward pass to its attention scores.

PyTorch reports every operation to a dispatch mode. For each result, the mode remembers the last
projection that it comes from and the scalar factors since then. A product of two activations that
reaches a softmax is a matrix of attention scores, in any model.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NORMS = {"native_layer_norm", "_fused_rms_norm", "rsqrt", "linalg_vector_norm", "sqrt"}
FUSED = "_scaled_dot_product_"


@dataclass(frozen=True)
class Origin:
    """Where a tensor comes from."""

    is_parameter: bool = False
    factor: float = 1.0
    """The product of the scalar factors since the last projection."""
    size: float | None = None
    """The root mean square of the weight of that projection."""
    is_normed: bool = False
    """Whether the vectors were normalised since then."""
    operands: tuple["Origin", "Origin"] | None = None
    """The queries and keys, if the tensor is their product."""
    width: int = 0
    """The number of terms in each sum of that product."""


@dataclass(frozen=True)
class Attention:
    """The scores of one attention in a forward pass."""

    scores: Tensor
    """The input of the softmax ``(..., query, key)``."""
    factor: float
    """The product of all scalar factors of the scores."""
    width: int
    """The width of queries and keys, d_k."""
    is_normed: bool
    """Whether queries or keys were normalised after their projection."""
    ratio: float
    """The root mean square of the query projection, relative to that of the key projection."""


class Trace(TorchDispatchMode):
    """Collects the attention of a model while it is active."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.attentions: list[Attention] = []
        tensors = model.parameters()
        self._parameters = {
            p.untyped_storage().data_ptr(): Origin(is_parameter=True) for p in tensors
        }
        self._origins: dict[int, tuple[Tensor, Origin]] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operation, and remember where its results come from."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2].rstrip("_")
        tensors = list(_tensors((*args, *kwargs.values())))
        origin = self._origin(name, tensors, args, kwargs)
        if origin is not None:
            for each in _tensors((result,)):
                self._origins[id(each)] = (each, origin)
        return result

    def _of(self, tensor: Tensor) -> Origin | None:
        if id(tensor) in self._origins:
            return self._origins[id(tensor)][1]
        return self._parameters.get(tensor.untyped_storage().data_ptr())

    def _origin(
        self, name: str, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Origin | None:
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            left, right = tensors[-2:]
            product = self._product(left, right)
            return replace(product, factor=product.factor * float(kwargs.get("alpha", 1)))
        if name in ("embedding", "convolution"):
            return Origin()
        if name.startswith(FUSED) and not name.endswith("backward"):
            self._record_fused(tensors[0], tensors[1], args, kwargs)
            return Origin()
        origins = [origin for each in tensors if (origin := self._of(each)) is not None]
        if not origins:
            return None
        first = max(origins, key=lambda each: (each.operands is not None, not each.is_parameter))
        if name in ("_softmax", "exp") and first.operands is not None:
            self._record(tensors[0], first)
            return Origin()
        is_normed = name in NORMS or any(each.is_normed for each in origins)
        return replace(
            first, is_normed=is_normed, factor=first.factor * _factor(name, tensors, args)
        )

    def _product(self, left: Tensor, right: Tensor) -> Origin:
        origins = [self._of(each) or Origin() for each in (left, right)]
        for weight, origin in zip((left, right), origins, strict=True):
            if origin.is_parameter:
                return Origin(size=float(weight.detach().double().square().mean().sqrt()))
        query, key = origins
        return Origin(
            factor=query.factor * key.factor,
            is_normed=query.is_normed or key.is_normed,
            operands=(query, key),
            width=left.shape[-1],
        )

    def _record(self, scores: Tensor, origin: Origin) -> None:
        assert origin.operands is not None
        query, key = origin.operands
        ratio = query.size / key.size if query.size and key.size else 1.0
        self.attentions.append(
            Attention(
                scores.detach().double().cpu(), origin.factor, origin.width, origin.is_normed, ratio
            )
        )

    def _record_fused(
        self, query: Tensor, key: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        scale = kwargs.get("scale") or query.shape[-1] ** -0.5
        origin = self._product(query, key)
        if origin.operands is None:
            return
        scores = query.double() @ key.double().mT * scale
        masks = list(_tensors((*args[3:], kwargs.get("attn_mask"))))
        if masks and masks[0].is_floating_point():
            scores = scores + masks[0]
        self._record(scores, replace(origin, factor=origin.factor * scale))


def _factor(name: str, tensors: list[Tensor], args: tuple[Any, ...]) -> float:
    """The scalar by which the operation multiplies its tensor, 1 if there is none."""
    if name not in ("mul", "div") or len(args) < 2:
        return 1.0
    scalars = [
        float(each)
        for each in args[:2]
        if isinstance(each, int | float) or (isinstance(each, Tensor) and each.numel() == 1)
    ]
    if len(scalars) != 1 or scalars[0] == 0 or max(each.numel() for each in tensors) == 1:
        return 1.0
    return scalars[0] if name == "mul" else 1 / scalars[0]


def _tensors(values: tuple[Any, ...]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(tuple(value))


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """``torch.nn`` computes attention by separate operations inside the ``with`` statement."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def attentions(model: nn.Module, run: Callable[[], object]) -> list[Attention]:
    """The attentions in the order in which ``run`` computes them."""
    with _without_fast_path(), Trace(model) as trace:
        run()
    found: list[Attention] = trace.attentions
    return found
