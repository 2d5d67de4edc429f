"""Evaluation (TEMP: contract names)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sacrebleu
import torch
from tqdm import tqdm

from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus, Pair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.special_tokens import UNK
from tfmr.train.config import Recipe
from tfmr.train.loss import linear_cross_entropy
from tfmr.translator import Translator


@dataclass(frozen=True)
class Bleu:
    """A corpus BLEU score and the recipe that makes it comparable."""

    score: float
    """From 0 to 100."""
    signature: str
    """sacreBLEU's own: tokenisation, case, smoothing, version."""


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """BLEU of a whole corpus, by sacreBLEU with its defaults (13a tokens, cased).

    Papineni et al. (2002); Post (2018) on why the signature belongs to the number.

    Raises:
        TfmrError: if there is nothing to score or the numbers of sentences differ.
    """
    require(
        len(translations) == len(references) > 0,
        f"BLEU compares each translation with its reference: got {len(translations)} translations "
        f"and {len(references)} references",
    )
    # "force" only silences a warning that the pocket grammar, whose full stop stands alone, would
    # set off.
    metric = sacrebleu.BLEU(force=True)
    result = metric.corpus_score(list(translations), [list(references)])
    return Bleu(round(result.score, 2), str(metric.get_signature()))


def sentence_chrf(translation: str, reference: str) -> float:
    """How like its reference one sentence is, 0 to 100: the F-score of their character n-grams.

    Popović (2015), by sacreBLEU. BLEU scores a corpus; on a single sentence it is mostly zero.
    """
    return float(sacrebleu.sentence_chrf(translation, [reference]).score)


def exact_match(translations: Sequence[str], references: Sequence[str]) -> float:
    """The share of translations that are the reference to the letter.

    Raises:
        TfmrError: if there is nothing to score or the numbers of sentences differ.
    """
    require(
        len(translations) == len(references) > 0,
        f"exact match compares each translation with its reference: got {len(translations)} "
        f"translations and {len(references)} references",
    )
    same = sum(ours == theirs for ours, theirs in zip(translations, references, strict=True))
    return same / len(references)


@torch.inference_mode()
def mean_loss(model: Translator, batches: Batches) -> float:
    """Cross-entropy in nats per target token, unsmoothed; its exponential is the perplexity."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for batch in batches.epoch(0):
        batch = batch.to(device)
        hidden = model.hidden(batch.source, batch.target_in)
        loss = linear_cross_entropy(hidden, model.output.weight, batch.target_out)
        total += float(loss) * batch.n_tokens
        tokens += batch.n_tokens
    model.train(was_training)
    return total / tokens


@dataclass(frozen=True)
class ValidationResult:
    """What the validation part said about the model on the way."""

    step: int
    """After so many steps."""
    seconds: float
    """Training time so far."""
    loss: float
    """Cross-entropy in nats per token, unsmoothed."""
    bleu: float | None
    """Of greedy translations; ``None`` where the loss decides and nothing was translated."""

    def better_than(self, other: "ValidationResult") -> bool:
        """Whether this look found a better model: by BLEU where it is known, then by the loss."""
        if self.bleu is not None and other.bleu is not None and self.bleu != other.bleu:
            return self.bleu > other.bleu
        return self.loss < other.loss


def best_validation(results: Sequence[ValidationResult]) -> int | None:
    """The place of the best look, the first of equals; ``None`` if there is none."""
    best: int | None = None
    for place, look in enumerate(results):
        if best is None or look.better_than(results[best]):
            best = place
    return best


class Evaluator:
    """Judges models on the parts of a corpus that they have not learnt from.

    Args:
        corpus: its validation and test parts are used.
        tokenizer: the models' vocabulary.
        recipe: how to judge, and the longest sentence that the models read.
        quiet: show no bar.

    Raises:
        TfmrError: if a sentence is too long to be judged by, or a source has a word that the
            vocabulary lacks: better before the training than after.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, *, quiet: bool = True
    ) -> None:
        self.parts = {"valid": corpus.valid, "test": corpus.test}
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.quiet = quiet
        longest = recipe.model.max_length
        for part, pairs in self.parts.items():
            for side in (0, 1):
                encoded = tokenizer.encode_batch([pair[side] for pair in pairs])
                for pair, ids in zip(pairs, encoded, strict=True):
                    require(
                        side == 1 or UNK not in ids,
                        f"a source of the {part} part has a word that the vocabulary lacks "
                        f"({pair[0][:40]!r}…): leave it out, or learn pieces of words, with "
                        'kind = "bpe"',
                    )
                    require(
                        len(ids) + side <= longest,
                        f"the model reads at most {longest} tokens and a sentence of the {part} "
                        f"part has {len(ids) + side}: shorten it or leave it out "
                        f"({pair[side][:40]!r}…)",
                    )
        self.valid = recipe.make_batches(corpus.valid, tokenizer)

    def validate(self, model: Translator, step: int, seconds: float) -> ValidationResult:
        """How the model of this step and time does on the validation part."""
        score = None
        if self.recipe.evaluation.metric == "bleu":
            outputs = self._translate(model, "valid")
            score = bleu(outputs, _references(self.parts["valid"])).score
        return ValidationResult(step, seconds, mean_loss(model, self.valid), score)

    def evaluate(self, model: Translator) -> tuple[dict[str, Any], str]:
        """Validation loss; BLEU and exact match on both parts; and samples of the test part.

        The keys without a beam in their name are those of the greedy translations.
        """
        from tfmr.train.run_dir import samples_tsv

        row: dict[str, Any] = {"valid_loss": round(mean_loss(model, self.valid), 4)}
        beam = self.recipe.evaluation.beam
        samples = ""
        for part, pairs in self.parts.items():
            references = _references(pairs)
            outputs = self._translate(model, part)
            result = bleu(outputs, references)
            row[f"{part}_bleu"] = result.score
            row[f"{part}_exact"] = round(exact_match(outputs, references), 4)
            if beam > 1:
                wide = self._translate(model, part, beam)
                row[f"{part}_bleu_beam{beam}"] = bleu(wide, references).score
            row["signature"] = result.signature
            sources = [source for source, _ in pairs]
            samples = samples_tsv(sources, references, outputs)
        return row, samples

    def _translate(self, model: Translator, part: str, beam: int = 1) -> list[str]:
        """The translations of a part, with a bar."""
        sources = [source for source, _ in self.parts[part]]
        title = part if beam == 1 else f"{part}, beam {beam}"
        with tqdm(
            total=len(sources), unit="sentence", desc=title, disable=self.quiet, leave=False
        ) as bar:
            return translate(model, self.tokenizer, sources, beam=beam, on_finished=bar.update)


def _references(pairs: Sequence[Pair]) -> list[str]:
    return [target for _, target in pairs]
