"""Beams of several sizes are measured on the same sentences."""

from pathlib import Path

import pytest

from benchmarks import beams
from benchmarks.beams import Beams
from benchmarks.record import read
from tests.benchmarks.small import CORPUS, WORDS, saved
from tfmr.data.batches import pad
from tfmr.decode import beam_search, translate
from tfmr.metrics import bleu
from tfmr.model import Transformer

pytestmark = pytest.mark.usefixtures("small_corpus")


def test_the_record(tmp_path: Path, model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beams, "SETTINGS", ((1, 0.0), (4, 0.0), (4, 0.6)))
    monkeypatch.setattr(beams, "ROWS_PER_BATCH", 12)  # several batches
    Beams(saved(model, tmp_path), "pocket", "en-fr", out=tmp_path / "beams.json")()
    rows = read(tmp_path / "beams.json")["rows"]
    sources, references = zip(*CORPUS.valid, strict=True)
    lengths = sum(len(WORDS.encode(text)) for text in references)
    for row, (beam, alpha) in zip(rows, beams.SETTINGS, strict=True):
        outputs = translate(model, WORDS, sources, beam=beam, alpha=alpha, detokenise=False)
        assert row["bleu"] == bleu(outputs, references).score
        found = beam_search(model, pad([WORDS.encode(text) for text in sources]), beam, alpha)
        log_prob = sum(best.log_prob for [best] in found) / len(sources)
        assert row["log_prob"] == pytest.approx(log_prob, abs=1e-3)
        tokens = sum(len(best.ids) for [best] in found)
        assert row["length"] == pytest.approx(tokens / lengths, abs=1e-3)
    assert rows[1]["bleu_difference_interval"] == [0, 0]
