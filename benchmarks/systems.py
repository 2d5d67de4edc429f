"""One function call per system and round: a training step, or the translation of a batch."""

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from benchmarks.peers import Peer
from benchmarks.peers.ct2 import CTranslate2
from tfmr.data.batches import Batch, Batches
from tfmr.decode import beam_search, greedy_search
from tfmr.dtype import Arithmetic
from tfmr.errors import TfmrError
from tfmr.fast import cpu_matmul_settings, prepare
from tfmr.special_tokens import EOS
from tfmr.train.config import TrainConfig
from tfmr.train.loss import cross_entropy
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer
from tfmr.translator import DecoderState, IncrementalTranslator, Translator

Precision = Literal["fp32", "bf16"]
"""The precisions that are compared, of those in :data:`tfmr.dtype.Precision`."""
Work = Callable[[int], object]
"""What a system does in round ``k``."""
Sources = Int[Tensor, "_ _"]
Translate = Callable[[Sources], Sequence[Sequence[int]]]


def training(
    model: Translator, batches: Sequence[Batch], config: TrainConfig, precision: Precision
) -> Work:
    """One training step on batch ``k``: tfmr with its :class:`Trainer`, a peer with a plain loop.

    Both do forward pass, cross-entropy with label smoothing, backward pass, gradient clipping and
    fused Adam. The Trainer also updates the EMA of the weights and computes their norm; it never
    stores the logits of a whole batch, the largest tensor of the peers.
    """
    config = replace(config, precision=precision)
    if isinstance(model, Peer):
        return _PeerTraining(model, batches, config, Arithmetic(precision))
    # Batches are passed to the trainer one by one, so its own source of batches is a placeholder.
    placeholder = Batches([([EOS], [EOS])], tokens_per_batch=2, seed=0, max_length=2)
    trainer = Trainer(model, placeholder, config)
    return lambda k: trainer.step(batches[k])


class _PeerTraining:
    """The usual training loop around a model that returns logits; bf16 by ``torch.autocast``.

    Model and loss are compiled as one function if the configuration demands it.
    """

    def __init__(
        self, model: Peer, batches: Sequence[Batch], config: TrainConfig, arithmetic: Arithmetic
    ) -> None:
        self.model, self.batches, self.config = model, batches, config
        self.arithmetic = arithmetic
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=learning_rate(1, config.peak_lr, config.warmup),
            betas=config.betas,
            eps=config.eps,
            fused=True,
        )
        self._loss = torch.compile(self._loss_of) if config.compile else self._loss_of

    def __call__(self, k: int) -> float:
        batch = self.batches[k].to(next(self.model.parameters()).device)
        self.model.train()
        with self.arithmetic.autocast(batch.source.device):
            loss = self._loss(batch.source, batch.target_in, batch.target_out)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        return float(loss.detach())

    def _loss_of(self, source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        logits = self.model(source, target_in)
        return cross_entropy(logits, target_out, label_smoothing=self.config.label_smoothing)


def decoding_outside_pytorch(
    model: CTranslate2, sources: Sequence[Sequence[Sources]], steps: int, beam: int
) -> Work:
    """As :func:`decoding`, with the search of a system that has its own arithmetic."""
    return _checked(
        model.title,
        sources,
        steps,
        lambda source: model.search(source, steps, beam).tolist(),
        nullcontext,
    )


def decoding(
    model: Translator,
    sources: Sequence[Sequence[Sources]],
    steps: int,
    beam: int,
    precision: Precision,
) -> Work | None:
    """The translation of all batches in ``sources[k]``, ``steps`` tokens per sentence.

    Decoding is greedy if ``beam`` is 1. tfmr decodes with :func:`tfmr.fast.prepare`, called once
    here, outside the measured time. A peer decodes with its own search, or with tfmr's if it has
    none. In bf16, its weights are converted, or where that fails (:attr:`Peer.bf16_weights`), it
    runs under ``torch.autocast``. ``EOS`` is suppressed, so all systems generate the same number of
    tokens.

    Returns:
        ``None`` if the system has searches of its own, but not this one.
    """
    model.eval()
    name = type(model).__name__
    if not isinstance(model, Peer):
        prepared = prepare(model, dtype=Arithmetic(precision).dtype)
        translate = _own_search(EosSuppressed(prepared), beam)
        rows = len(sources[0][0]) * beam
        own_settings = functools.partial(cpu_matmul_settings, prepared, rows)
        return _checked(name, sources, steps, translate, own_settings)
    if model.searches and ("greedy" if beam == 1 else "beam") not in model.searches:
        return None
    cast = precision == "bf16" and model.bf16_weights
    peer = copy.deepcopy(model).to(torch.bfloat16) if cast else model
    autocast = Arithmetic("fp32" if cast else precision)
    translate = (
        (lambda source: peer.search(source, steps, beam).tolist())
        if peer.searches
        else _own_search(EosSuppressed(peer), beam)
    )
    settings = functools.partial(autocast.autocast, sources[0][0].device)
    return _checked(name, sources, steps, translate, settings)


def _own_search(model: "EosSuppressed", beam: int) -> Translate:
    """Tfmr's greedy or beam search, best hypothesis only."""
    if beam == 1:
        return lambda source: greedy_search(model, source)
    return lambda source: [hypotheses[0].ids for hypotheses in beam_search(model, source, beam)]


def _checked(
    name: str,
    sources: Sequence[Sequence[Sources]],
    steps: int,
    translate: Translate,
    settings: Callable[[], AbstractContextManager[object]],
) -> Work:
    """Translate ``sources[k]``; raise :class:`TfmrError` if the outputs have another length."""

    def work(k: int) -> None:
        with torch.inference_mode(), settings():
            for source in sources[k]:
                ids = translate(source)
                if len(ids) != len(source) or any(len(tokens) != steps for tokens in ids):
                    raise TfmrError(
                        f"expected {steps} tokens for each of {len(source)} sentences, {name} "
                        f"generated {[len(tokens) for tokens in ids]}: the times are not comparable"
                    )

    return work


class EosSuppressed:
    """A model whose score of ``EOS`` is always minus infinity."""

    training = False

    def __init__(self, model: IncrementalTranslator) -> None:
        self.model = model
        self.config = model.config

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.model.device

    def start(
        self, source: Int[Tensor, "batch source"], max_new_tokens: int, beam: int = 1
    ) -> DecoderState:
        """The model's state for a new batch."""
        return self.model.start(source, max_new_tokens, beam)

    def step(self, tokens: Int[Tensor, "rows"], state: DecoderState) -> Float[Tensor, "rows vocab"]:
        """The model's scores, without ``EOS``."""
        scores = self.model.step(tokens, state)
        scores[..., EOS] = -torch.inf
        return scores

    def alignment(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target source"]:
        """The model's alignment."""
        return self.model.alignment(source, target)

    def count_parameters(self) -> int:
        """The model's number of parameters."""
        return self.model.count_parameters()
