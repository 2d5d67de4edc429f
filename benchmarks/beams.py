"""``python -m benchmarks.beams``: beams of several sizes, with and without a length penalty.

The trained model of the book translates the validation set. A row has the mean log-probability of
the translations, their length relative to the references, and BLEU, with 95 % bootstrap intervals
over sentences; the differences are paired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import record
from benchmarks.analysis import Analysis
from benchmarks.record import Record, Row
from benchmarks.tables import Claims, markdown, only, select
from tfmr.data.batches import pad
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import beam_search
from tfmr.fast import prepare
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.train.intervals import bleu_statistics, corpus_bleu, interval, ratio_of_sums, resample

SETTINGS = ((1, 0.0), (4, 0.0), (16, 0.0), (64, 0.0), (4, 0.6), (64, 0.6))
"""Beam size and exponent of the length penalty; the differences are those from the second."""
BASELINE = 1
ROWS_PER_BATCH = 512
"""Hypotheses that are extended together."""


@dataclass(frozen=True)
class Beams(Analysis):
    """Translate with beams of several sizes, and record the results."""

    out: Path = record.FOLDER / "beams.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        model, tokenizer, corpus = self.load("beams")
        settings = {"sentences": len(corpus.valid), "baseline": list(SETTINGS[BASELINE])}
        self.write(self.out, "beams", measure(model, tokenizer, corpus.valid), settings)


def measure(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]
) -> Iterator[Row]:
    """A row for each of :data:`SETTINGS`."""
    prepared = prepare(model)
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    # Sentences of similar length share a batch, so few of its positions are padding.
    order = sorted(range(len(pairs)), key=lambda k: len(tokenizer.encode(sources[k])))
    reference_tokens = np.array([len(tokenizer.encode(text)) for text in references], dtype=float)
    counts = resample(len(pairs))
    rows: list[Row] = []
    scores = []
    for beam, alpha in tqdm(SETTINGS, unit=" settings"):
        outputs = [""] * len(pairs)
        log_probs, tokens = np.zeros((2, len(pairs)))
        size = ROWS_PER_BATCH // beam
        for start in range(0, len(order), size):
            chunk = order[start : start + size]
            ids = pad([tokenizer.encode(sources[k]) for k in chunk])
            with torch.inference_mode():
                found = beam_search(prepared, ids, beam, alpha)
            for k, [best] in zip(chunk, found, strict=True):
                outputs[k] = tokenizer.decode(best.ids)
                log_probs[k], tokens[k] = best.log_prob, len(best.ids)
        scores.append(corpus_bleu(bleu_statistics(outputs, references), counts))
        rows.append(
            {
                "beam": beam,
                "alpha": alpha,
                "log_prob": round(float(log_probs.mean()), 3),
                "log_prob_interval": interval(counts @ log_probs / len(pairs), digits=3),
                "length": round(float(tokens.sum() / reference_tokens.sum()), 3),
                "length_interval": interval(
                    ratio_of_sums(tokens, reference_tokens, counts), digits=3
                ),
                "empty": int((tokens == 0).sum()),
                "bleu": bleu(outputs, references).score,
                "bleu_interval": interval(scores[-1], digits=2),
            }
        )
    for row, score in zip(rows, scores, strict=True):
        row["bleu_difference"] = round(row["bleu"] - rows[BASELINE]["bleu"], 2)
        row["bleu_difference_interval"] = interval(score - scores[BASELINE], digits=2)
        yield row


def table(rows: list[Row], settings: Row) -> list[str]:
    """A row for each setting."""
    beam, alpha = settings["baseline"]
    columns = {
        "log_prob": ("log-probability", ".2f"),
        "length": ("length ÷ reference", ".3f"),
        "bleu": ("BLEU", ".1f"),
        "bleu_difference": ("difference in BLEU", ".2f"),
    }

    def cell(row: Row, column: str, form: str) -> str:
        low, high = row[f"{column}_interval"]
        return f"{row[column]:{form}} ({low:{form}} to {high:{form}})"

    lines = [
        [
            f"beam {row['beam']}, α = {row['alpha']:g}",
            *(cell(row, column, form) for column, (_, form) in columns.items()),
            str(row["empty"]),
        ]
        for row in rows
    ]
    return [
        f"Translations of {settings['sentences']:,} validation sentences of {settings['corpus']} "
        f"{settings['direction']}: mean log-probability of a translation, its tokens relative to "
        "those of the references, BLEU, the difference from the BLEU of a beam of "
        f"{beam} with α = {alpha:g}, and the number of empty translations. In parentheses: 95 % "
        "bootstrap intervals over sentences, paired for the differences.",
        markdown(["", *(title for title, _ in columns.values()), "empty"], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The record belongs to the model of heads.json, and the statements of chapter 12 hold."""
    same = settings["model"] == records["heads"]["settings"]["model"]
    yield "the record is that of the model: run python -m benchmarks.beams", same
    unpenalised = select(rows, alpha=0.0)
    log_probs, lengths = ([row[c] for row in unpenalised] for c in ("log_prob", "length"))
    yield "a wider beam finds more probable translations", log_probs == sorted(log_probs)
    yield "and shorter ones", lengths == sorted(lengths, reverse=True)
    wide = only(rows, beam=64, alpha=0.0), only(rows, beam=64, alpha=0.6)
    yield "the length penalty lengthens them", wide[1]["length"] > wide[0]["length"]


if __name__ == "__main__":
    record.run(Beams)
