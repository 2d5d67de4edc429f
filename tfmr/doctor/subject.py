"""The model to examine, and the few functions through which the probes call it."""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tfmr.doctor.finding import UndecidedError
from tfmr.errors import TfmrError, require
from tfmr.exercises.guard import failing_line, random_state_kept

CHANGED = 5e-6
"""A smaller relative change of the logits is regarded as a rounding error."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model, and how to call it. Only the first three arguments are always needed.

    A language model has no ``source_vocab``, and its functions take no ``source``. Sources and
    targets are batches of token ids ``(batch, length)``, padded with ``pad``.

    Raises:
        TfmrError: if a vocabulary is too small for the probes.
    """

    model: nn.Module
    """The module with all weights."""
    logits: Callable[..., Tensor]
    """``logits(source, target)``: the logits ``(batch, length, vocab)`` of the token after each
    position of the decoder input ``target``."""
    vocab: int
    """Number of target tokens."""
    source_vocab: int | None = None
    """Number of source tokens; ``None`` for a language model."""
    encode: Callable[..., Tensor] | None = None
    """``encode(source)``: the encoder output ``(batch, length, d_model)``."""
    cached: Callable[..., Tensor] | None = None
    """``cached(source, target)``: as ``logits``, but one token at a time, with the cache."""
    loss: Callable[..., Tensor] | None = None
    """``loss(source, target)``: the training loss of sentences that start with ``bos`` and end with
    ``eos``."""
    accumulate: Callable[..., object] | None = None
    """``accumulate(batches)``: computes the gradients of one step over a list of batches, each with
    the arguments of ``loss``, without a step of the optimiser."""
    parameters: int | None = None
    """The number of parameters that you count, tied weights once."""
    pad: int | None = 0
    """The id of padding; ``None`` if there is none."""
    bos: int = 1
    """The first token of the decoder input."""
    eos: int = 2
    """The last token of a sentence."""
    padding_side: Literal["right", "left"] = "right"
    """Where the sentences of a language model are padded."""

    def __post_init__(self) -> None:
        for name, size in (("vocab", self.vocab), ("source_vocab", self.source_vocab)):
            require(
                size is None or size >= 12, f"{name} must be at least 12 for the probes: got {size}"
            )

    @property
    def is_language_model(self) -> bool:
        """Whether the model has no source."""
        return self.source_vocab is None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    def tokens(self, batch: int, length: int, seed: int, *, source: bool = False) -> Tensor:
        """Random ids ``(batch, length)`` without special tokens, different within a sentence."""
        size = self.source_vocab if source else self.vocab
        assert size is not None
        ids = [i for i in range(size) if i not in (self.pad, self.bos, self.eos)]
        rng = random.Random(seed)
        rows = [(rng.sample(ids, len(ids)) * length)[:length] for _ in range(batch)]
        return torch.tensor(rows, device=self.device)

    def other(self, ids: Tensor, *, source: bool = False) -> Tensor:
        """Ids that differ from these, at every position, and are no special tokens."""
        size = self.source_vocab if source else self.vocab
        assert size is not None
        usual = [i for i in range(size) if i not in (self.pad, self.bos, self.eos)]
        after = dict(zip(usual, usual[1:] + usual[:1], strict=True))
        return ids.clone().cpu().apply_(lambda i: after.get(i, usual[0])).to(ids.device)

    def sources(self, batch: int, length: int, seed: int = 0) -> Tensor | None:
        """Random source sentences; ``None`` for a language model."""
        return None if self.is_language_model else self.tokens(batch, length, seed, source=True)

    def predict(
        self,
        source: Tensor | None,
        target: Tensor,
        seed: int = 0,
        function: Literal["logits", "cached"] = "logits",
    ) -> Tensor:
        """The logits ``(batch, length, vocab)``, in fp64 on the CPU.

        Raises:
            TfmrError: if the reader's code raises, or the result has another shape.
            UndecidedError: if a logit is NaN.
        """
        arguments = (target,) if source is None else (source, target)
        with torch.no_grad():
            result = call(function, getattr(self, function), arguments, seed)
        expected = (*target.shape, self.vocab)
        got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        require(
            got == expected,
            f"{function} must return a tensor (batch, length, vocab) = {expected}: got {got}; "
            "transpose or slice it in the function that you pass",
        )
        if result.isnan().any():
            raise UndecidedError("the logits are NaN; is there a row in which every key is masked?")
        finite: Tensor = result.detach().cpu().double().nan_to_num(posinf=0.0, neginf=0.0)
        return finite


def call(
    name: str, function: Callable[..., Any] | None, arguments: tuple[Any, ...], seed: int
) -> Any:
    """Call a function of the reader with copies of the arguments and seeded random numbers.

    Raises:
        TfmrError: if it raises.
    """
    assert function is not None
    copies = [each.clone() if isinstance(each, Tensor) else each for each in arguments]
    with random_state_kept(), warnings.catch_warnings():
        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        try:
            return function(*copies)
        except Exception as error:
            line = failing_line(error) or "in a library"
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise TfmrError(f"{name} raised {reason} ({line})") from error


def call_loss(subject: Subject, source: Tensor | None, target: Tensor) -> float:
    """The reader's training loss, without dropout.

    Raises:
        TfmrError: if the function raises, or does not return one number.
        UndecidedError: if the loss is random.
    """
    arguments = (target,) if source is None else (source, target)
    with torch.no_grad(), without_dropout(subject.model):
        first, second = (call("loss", subject.loss, arguments, seed) for seed in range(2))
    got = tuple(first.shape) if isinstance(first, Tensor) else type(first).__name__
    require(
        isinstance(first, Tensor) and first.numel() == 1,
        f"loss must return a tensor with one number: got {got}; reduce the losses of all positions",
    )
    if not torch.allclose(first, second, rtol=1e-5):
        raise UndecidedError("the loss is random, even without dropout")
    return float(first)


def call_backward(
    subject: Subject, batches: list[tuple[Tensor | None, Tensor]], *, accumulate: bool = False
) -> Tensor:
    """The gradient of the weights, as one vector in fp64: of one loss, or accumulated."""
    arguments = [(target,) if source is None else (source, target) for source, target in batches]
    loss = subject.loss
    assert loss is not None
    weights = [each for each in subject.model.parameters() if each.requires_grad]
    for weight in weights:
        weight.grad = None
    with torch.enable_grad(), without_dropout(subject.model):
        if accumulate:
            call("accumulate", subject.accumulate, (arguments,), 0)
        else:
            call("loss", lambda *batch: loss(*batch).backward(), arguments[0], 0)
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    return torch.cat([each.detach().cpu().double().flatten() for each in gradients])


class _WithoutDropout(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("dropout", "dropout1d", "alpha_dropout"):
            return args[0] if args else kwargs["input"]
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """No dropout inside the ``with`` statement, even in training mode."""
    modules = {
        module: module.p
        for module in model.modules()
        if "dropout" in type(module).__name__.lower()
        and isinstance(getattr(module, "p", None), float)
    }
    for module in modules:
        module.p = 0.0  # type: ignore[assignment]
    try:
        with _WithoutDropout():
            yield
    finally:
        for module, p in modules.items():
            module.p = p


def change(before: Tensor, after: Tensor) -> Tensor:
    """The largest change of the logits at each position, relative to their standard deviation.

    Raises:
        UndecidedError: if all logits are equal.
    """
    spread = before.std(dim=-1).mean()
    if spread == 0:
        raise UndecidedError("all logits are equal; train the model for a few steps first")
    return (after - before).abs().amax(dim=-1) / spread


def limit(effect: float) -> float:
    """The change from which on a probe reports a fault: 1 % of an effect that must exist.

    Raises:
        UndecidedError: if the effect is so small that rounding errors could hide a fault.
    """
    if effect < 20 * CHANGED:
        raise UndecidedError(
            "the positions hardly depend on each other; train the model for a few steps first"
        )
    return max(effect / 100, 2 * CHANGED)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the ``with`` statement; afterwards the model is as before."""
    modes = {module: module.training for module in model.modules()}
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    model.eval()
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(saved[name])
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]
        for module, mode in modes.items():
            module.training = mode
