"""How each system is made to work: a training step, or a batch of translations, at one call."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from benchmarks.peers import Peer
from tfmr.data.batches import Batch, Batches
from tfmr.decode import beam_search, greedy_search
from tfmr.errors import require
from tfmr.special_tokens import EOS
from tfmr.train.config import TrainConfig
from tfmr.train.loss import cross_entropy
from tfmr.train.schedule import learning_rate
from tfmr.train.trainer import Trainer
from tfmr.translator import DecoderState, Translator

Work = Callable[[int], object]
"""What a system does in round ``k``."""
Sentences = Int[Tensor, "_ _"]


def training(
    model: Translator, batches: Sequence[Batch], config: TrainConfig, *, bf16: bool = False
) -> Work:
    """One training step on batch ``k``: tfmr by its own :class:`Trainer`, a peer as its users do.

    The work is the same: forward, smoothed cross-entropy, backward, clipping, fused Adam. The
    Trainer does more, for it also averages the weights and measures their norm; and it never makes
    the peers' largest tensor, the scores of a whole batch.
    """
    if isinstance(model, Peer):
        return _PeerTraining(model, batches, config, bf16)
    # The trainer is given its batches one by one, so those that it could fetch do not matter.
    unused = Batches([([EOS], [EOS])], tokens_per_batch=2, seed=0, max_length=2)
    trainer = Trainer(model, unused, replace(config, precision="bf16") if bf16 else config)
    return lambda k: trainer.step(batches[k])


class _PeerTraining:
    """The usual loop around a model that turns ids into scores."""

    def __init__(
        self, model: Peer, batches: Sequence[Batch], config: TrainConfig, bf16: bool
    ) -> None:
        self.model, self.batches, self.config, self.bf16 = model, batches, config, bf16
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=learning_rate(1, config.peak_lr, config.warmup),
            betas=config.betas,
            eps=config.eps,
            fused=True,
        )

    def __call__(self, k: int) -> float:
        batch = self.batches[k]
        self.model.train()
        device = batch.source.device.type
        with torch.autocast(device, torch.bfloat16) if self.bf16 else nullcontext():
            logits = self.model(batch.source, batch.target_in)
            loss = cross_entropy(logits, batch.target_out, self.config.label_smoothing)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        return float(loss.detach())


def decoding(
    model: Translator, sources: Sequence[Sequence[Sentences]], steps: int, beam: int
) -> Work | None:
    """Translations of all that ``sources[k]`` holds, ``steps`` tokens each, greedy if ``beam`` is
    1; ``None`` if the system has no such search.

    A peer searches by its own means. PyTorch's has none, so tfmr's drive it. All do equal work: the
    end of a sentence is forbidden until its last token.
    """
    model.eval()
    search = "greedy" if beam == 1 else "beam"
    own = isinstance(model, Peer) and bool(model.searches)
    if isinstance(model, Peer) and own and search not in model.searches:
        return None
    if not own:
        model.step = _never_ending(model.step)  # type: ignore[method-assign]

    def translate(source: Sentences) -> Sequence[Sequence[int]]:
        if isinstance(model, Peer) and own:
            said: list[list[int]] = model.search(source, steps, beam).tolist()
            return said
        if beam == 1:
            return greedy_search(model, source)
        return [hypotheses[0].ids for hypotheses in beam_search(model, source, beam)]

    def work(k: int) -> None:
        with torch.inference_mode():
            for source in sources[k]:
                said = translate(source)
                require(
                    len(said) == len(source) and all(len(ids) == steps for ids in said),
                    f"{type(model).__name__} did not say {steps} tokens of each of {len(source)} "
                    "translations, so its time means nothing",
                )

    return work


def _never_ending(step: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same scores, that of the end of a sentence below all others."""

    def without_end(tokens: Tensor, state: DecoderState) -> Tensor:
        scores = step(tokens, state)
        scores[..., EOS] = -torch.inf
        return scores

    return without_end
