"""The weights of a recurrent translator, probabilities without a source word, and the record."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks import alignment
from benchmarks.record import read
from benchmarks.tables import select
from tfmr.data import corpora
from tfmr.errors import TfmrError
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig, decode_naive, encode_naive
from tfmr.special_tokens import BOS, EOS

SOURCE, TARGET = torch.tensor([4, 7, 5, 6]), torch.tensor([9, 8, EOS])


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    torch.manual_seed(0)
    sizes = {"source_vocab": 12, "target_vocab": 12, "d_model": 8, "dropout": 0.0}
    made = Seq2Seq(Seq2SeqConfig(**sizes, cell="gru")).eval()
    assert made.attention is not None
    torch.nn.init.normal_(made.attention.v)  # its initial value, 0, gives uniform weights
    return made


def one_by_one(model: Seq2Seq, at: int | None = None, masked: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities and weights, by one decoder step after another, without batches.

    At the step ``at``, the source token ``masked`` is left out.
    """
    memory, z = encode_naive(model, SOURCE)
    attention, rows = model.attention, []
    assert attention is not None

    def context(s: Tensor) -> Tensor:
        assert attention is not None
        scores = torch.tanh(attention.w(s) + attention.u(memory)) @ attention.v
        if len(rows) == at:
            scores = scores.index_fill(0, torch.tensor([masked]), -torch.inf)
        rows.append(scores.softmax(dim=0))
        return rows[-1] @ memory

    logits = decode_naive(model, z, context, torch.tensor([BOS, *TARGET[:-1].tolist()]))
    return logits.softmax(dim=-1).gather(1, TARGET[:, None])[:, 0], torch.stack(rows)


@torch.no_grad()
def test_probabilities_without_a_source_token(model: Seq2Seq) -> None:
    probability, without = alignment.probabilities(model, SOURCE, TARGET)
    expected, rows = one_by_one(model)
    torch.testing.assert_close(probability, expected)
    torch.testing.assert_close(alignment.weights(model, SOURCE, TARGET), rows)
    assert without.shape == (3, 4)
    for i in range(3):
        for j in range(4):
            torch.testing.assert_close(without[i, j], one_by_one(model, i, j)[0][i])
    assert without.sub(probability[:, None]).abs().min() > 1e-5, "every token has an effect"


def test_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpora.load("pocket", "en-fr")
    few = [pair for pair in corpus.test if pair[0] in alignment.SENTENCES]
    monkeypatch.setattr(corpora, "load", lambda *_: dataclasses.replace(corpus, test=few))
    measured = alignment.Alignment(seeds=(0, 1), steps=2, out=tmp_path / "alignment.json")
    measured()
    rows = read(tmp_path / "alignment.json")["rows"]
    assert rows == list(measured.measure())
    sentences = [row for row in rows if "source" in row]
    names = [(row["seed"], row["source"]) for row in sentences]
    assert names == [(seed, source) for seed in (0, 1) for source in alignment.SENTENCES]
    assert len({str(row["probability"]) for row in sentences}) == len(names), "models"
    for row in sentences:
        assert row["target"] == dict(few)[row["source"]]
        shape = [len(row["source"].split())] * (len(row["target"].split()) + 1)
        assert [len(line) for line in row["weights"]] == shape
        assert [len(line) for line in row["without"]] == shape
        assert len(row["probability"]) == len(shape)
    [found] = select(rows, seed=1, kind="adjective")
    # courageux, jeune, rouges, calme, noir, beau, heureux, courageuse, noire
    assert found["words"] == 9
    [found] = select(rows, seed=1, kind="all")
    assert found["words"] == sum(len(target.split()) - 1 for _, target in few)


def test_the_summary_counts_effects(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpora.load("pocket", "en-fr")
    tokenizer = alignment.Tokenizer.words(text for pair in corpus.train for text in pair)
    pair = ("the black cat does not sleep .", "le chat noir ne dort pas .")
    most, neither, none = [0.6, 0.2, 0.9], [0.1, 0.4, 0.9], [0.7, 0.5, 0.1]
    # The last two are the full stop and the end-of-sentence token, which do not count.
    effects = torch.tensor([most, neither, none, most, none, neither, most, most])
    weights = torch.tensor([[0.2, 0.7, 0.1]] * 8)
    monkeypatch.setattr(alignment, "weights", lambda *_: weights)
    monkeypatch.setattr(alignment, "probabilities", lambda *_: (torch.full((8,), 0.5), effects))
    monkeypatch.setattr(alignment, "translate", lambda *_: [pair[1]])
    few = dataclasses.replace(corpus, test=[pair])
    found = {row["kind"]: row for row in alignment.summary(model, tokenizer, few, seed=3)}
    counts = {kind: (row["words"], row["most"], row["none"]) for kind, row in found.items()}
    assert counts == {
        "all": (6, round(2 / 6, 4), round(2 / 6, 4)),
        "noun": (1, 0, 0),
        "adjective": (1, 0, 1),
        "article": (1, 1, 0),
        "negation": (2, 0.5, 0),
    }
    assert {(row["seed"], row["identical"]) for row in found.values()} == {(3, 1.0)}


def test_no_steps_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"--steps of 1 or more, got 0"):
        alignment.Alignment(steps=0, out=tmp_path / "alignment.json")()
