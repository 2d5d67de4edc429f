"""The options and first checks that the analyses of a trained model share."""

from pathlib import Path

import pytest
import torch

from benchmarks.analysis import Analysis, weights_fingerprint
from benchmarks.heads import Heads
from benchmarks.inside import Inside
from benchmarks.record import read
from tests.benchmarks.small import CORPUS, WORDS, saved
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig

pytestmark = pytest.mark.usefixtures("small_corpus")


def test_the_corpus_has_as_many_sentences_as_requested(tmp_path: Path, model: Transformer) -> None:
    path = saved(model, tmp_path)
    _, tokenizer, corpus = Analysis(path, "pocket", "en-fr", sentences=3).load("part")
    assert tokenizer.vocab_size == WORDS.vocab_size
    assert (corpus.valid, corpus.test) == (CORPUS.valid[:3], CORPUS.test[:3])
    _, _, corpus = Analysis(path, "pocket", "en-fr").load("part")
    assert (corpus.valid, corpus.test) == (CORPUS.valid, CORPUS.test)


def test_the_record_names_the_corpus_and_the_model(tmp_path: Path, model: Transformer) -> None:
    path = saved(model, tmp_path)
    analysis = Analysis(path, "pocket", "en-fr")
    analysis.write(tmp_path / "x.json", "heads", [{"ablated": "nothing"}], {"sentences": 3})
    settings = read(tmp_path / "x.json")["settings"]
    assert list(settings.items()) == [
        ("corpus", "pocket"),
        ("direction", "en-fr"),
        ("sentences", 3),
        ("model", weights_fingerprint(path)),
    ]


@pytest.mark.parametrize(("analysis", "part"), [(Heads, "heads"), (Inside, "residual stream")])
def test_a_model_that_is_not_a_transformer_raises(
    tmp_path: Path, analysis: type[Heads] | type[Inside], part: str
) -> None:
    vocab = WORDS.vocab_size
    recurrent = Seq2Seq(Seq2SeqConfig(source_vocab=vocab, target_vocab=vocab, d_model=8))
    with pytest.raises(TfmrError, match=f"got a Seq2Seq, which has no {part}"):
        analysis(saved(recurrent, tmp_path), "pocket", "en-fr", out=tmp_path / "x.json")()


def test_no_sentences_raises(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--sentences 1.*got 0"):
        Heads(sentences=0, out=tmp_path / "x.json")()


def test_the_fingerprint_depends_on_the_weights_alone(tmp_path: Path, model: Transformer) -> None:
    before = weights_fingerprint(saved(model, tmp_path))
    with torch.no_grad():
        model.output.weight[0] *= 2
    assert weights_fingerprint(saved(model, tmp_path)) != before
    with torch.no_grad():
        model.output.weight[0] /= 2
    assert weights_fingerprint(saved(model, tmp_path)) == before
