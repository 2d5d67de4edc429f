"""Scoring: how good the translations are, in the units that others use."""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu
import torch

from tfmr.data.batches import Batches
from tfmr.errors import require
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
