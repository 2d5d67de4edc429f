"""Recurrent translators learn, and attention does what it is for."""

from itertools import product

import pytest
import torch

from tfmr.data.batches import Batches
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import BOS, EOS
from tfmr.train.config import TrainConfig
from tfmr.train.trainer import Trainer

LENGTH = 8
SENTENCES = torch.randint(4, 16, (2100, LENGTH), generator=torch.Generator().manual_seed(0))
"""Any words in any order, so none can be guessed from the others; word ``n`` means ``n + 12``."""


def trainer(cell: str, attention: bool) -> Trainer:
    torch.manual_seed(0)
    config = Seq2SeqConfig(28, 28, cell, attention, d_model=32, dropout=0.0, max_length=LENGTH + 1)
    pairs = [(words, [n + 12 for n in words]) for words in SENTENCES[100:].tolist()]
    how = TrainConfig(peak_lr=1e-2, warmup=50, ema_decay=0.9, label_smoothing=0.0)
    return Trainer(Seq2Seq(config), Batches(pairs, 640, 0, 32), how)


@pytest.mark.parametrize(
    ("cell", "attention"), list(product(["rnn", "lstm", "gru"], [False, True]))
)
def test_every_kind_learns(cell: str, attention: bool) -> None:
    curve = trainer(cell, attention).run(steps=40)
    assert curve[0].loss > 3
    assert curve[-1].loss < 2.6


def test_with_attention_it_repeats_a_sentence_that_one_vector_cannot_hold() -> None:
    source = SENTENCES[:100]
    wanted = torch.cat((source + 12, torch.full((100, 1), EOS)), dim=1)
    right = {}
    for attention in (True, False):
        learning = trainer("lstm", attention)
        learning.run(steps=150)
        model = learning.averaged_model()
        said = torch.full((100, 1), BOS)
        with torch.no_grad():
            state = model.start(source, LENGTH + 1)
            for _ in range(LENGTH + 1):
                words = model.step(said[:, -1], state).argmax(dim=-1, keepdim=True)
                said = torch.cat((said, words), dim=1)
        right[attention] = (said[:, 1:] == wanted).all(dim=1).float().mean().item()
        if attention:
            read = model.alignment(source, said[:, :-1])[:, :LENGTH].argmax(dim=-1)
            assert (read == torch.arange(LENGTH)).float().mean() > 0.95
    assert right[True] > 0.95
    assert right[False] < 0.1
