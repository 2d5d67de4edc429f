"""The loss of a model, and its evaluation on the validation and test sets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.dtype import Arithmetic, choose_arithmetic, find_units
from tfmr.fast import cpu_matmul_settings, prepare
from tfmr.metrics import bleu, exact_match
from tfmr.train.config import Recipe
from tfmr.train.loss import LossModule
from tfmr.translator import IncrementalTranslator, Translator


@torch.inference_mode()
def mean_loss(model: Translator, batches: Batches) -> float:
    """Cross-entropy in nats per target token, without label smoothing or dropout.

    Its exponential is the perplexity.
    """
    was_training = model.training
    model.eval()
    loss = LossModule(model, 0.0, Arithmetic("fp32"))
    total, tokens = torch.zeros((), dtype=torch.float64, device=model.device), 0
    for batch in batches.epoch(0):
        total += loss(batch).double() * batch.n_tokens  # read once, at the end: a GPU need not wait
        tokens += batch.n_tokens
    model.train(was_training)
    return float(total) / tokens


@dataclass(frozen=True)
class ValidationResult:
    """A model's results on the validation set during training."""

    step: int
    """Number of training steps so far."""
    seconds: float
    """Training time so far."""
    loss: float
    """Cross-entropy in nats per token, without label smoothing."""
    bleu: float | None
    """BLEU of greedy translations; ``None`` if models are compared by their loss."""

    def better_than(self, other: "ValidationResult") -> bool:
        """Whether BLEU is higher, or the loss lower if BLEU is equal or not measured."""
        if self.bleu is not None and other.bleu is not None and self.bleu != other.bleu:
            return self.bleu > other.bleu
        return self.loss < other.loss


def best_validation(results: Sequence[ValidationResult]) -> int | None:
    """The index of the best result, the first of equal ones; ``None`` if there are no results."""
    best: int | None = None
    for index, result in enumerate(results):
        if best is None or result.better_than(results[best]):
            best = index
    return best


class Evaluator:
    """Evaluates models on the validation and test sets of a corpus.

    Args:
        corpus: its validation and test sets are used, of which the models must be able to process
            every pair (:func:`tfmr.data.fitting.fit_held_out`).
        tokenizer: the tokenizer of the models.
        recipe: the metric, the beam size, the batch size, and the models' maximum length.
        quiet: show no progress bar.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, *, quiet: bool = True
    ) -> None:
        self.splits = {"valid": corpus.valid, "test": corpus.test}
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.quiet = quiet
        self.valid_batches = recipe.make_batches(corpus.valid, tokenizer)

    def validate(self, model: Translator, step: int, seconds: float) -> ValidationResult:
        """The results of ``model``, trained for ``step`` steps, on the validation set."""
        score = None
        with self._prepared(model) as prepared:
            if self.recipe.evaluation.metric == "bleu":
                hypotheses = self._translate(prepared, "valid")
                score = bleu(hypotheses, _references(self.splits["valid"])).score
            return ValidationResult(step, seconds, mean_loss(model, self.valid_batches), score)

    def evaluate(self, model: Translator) -> tuple[dict[str, Any], list[str]]:
        """Validation loss, and BLEU and exact match on both sets.

        Returns:
            The results by name, of which those without ``beam`` in their name are from greedy
            decoding, and the greedy hypotheses of the test set.
        """
        with self._prepared(model) as prepared:
            row: dict[str, Any] = {"valid_loss": round(mean_loss(model, self.valid_batches), 4)}
            beam = self.recipe.evaluation.beam
            hypotheses: list[str] = []
            for split, pairs in self.splits.items():
                references = _references(pairs)
                hypotheses = self._translate(prepared, split)
                result = bleu(hypotheses, references)
                row[f"{split}_bleu"] = result.score
                row[f"{split}_exact"] = round(exact_match(hypotheses, references), 4)
                row[f"{split}_sentences"] = len(references)
                if beam > 1:
                    from_beam = self._translate(prepared, split, beam)
                    row[f"{split}_bleu_beam{beam}"] = bleu(from_beam, references).score
                row["signature"] = result.signature
        return row, hypotheses

    @contextmanager
    def _prepared(self, model: Translator) -> Iterator[IncrementalTranslator]:
        """``model`` prepared for decoding, and the arithmetic of the recipe for it."""
        precision = self.recipe.train.precision
        arithmetic = choose_arithmetic(precision, find_units(model.device))
        with arithmetic.applied():
            yield prepare(model, None if precision == "auto" else arithmetic.dtype)

    def _translate(self, model: IncrementalTranslator, split: str, beam: int = 1) -> list[str]:
        """The translations of all source sentences of ``split``, with a progress bar."""
        sources = [source for source, _ in self.splits[split]]
        title = split if beam == 1 else f"{split}, beam {beam}"
        progress = tqdm(
            total=len(sources), unit="sentence", desc=title, disable=self.quiet, leave=False
        )
        with progress, cpu_matmul_settings(model, rows=len(sources) * beam):
            return translate(
                model,
                self.tokenizer,
                sources,
                beam=beam,
                detokenise=False,
                on_finished=progress.update,
            )


def _references(pairs: Sequence[SentencePair]) -> list[str]:
    return [target for _, target in pairs]
