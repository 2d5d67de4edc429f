"""A recurrent translation model learns, and attention learns the alignment."""

import torch

from tfmr.data.batches import Batches
from tfmr.seq2seq import Seq2Seq, Seq2SeqConfig
from tfmr.special_tokens import BOS, EOS
from tfmr.train.config import TrainConfig
from tfmr.train.trainer import Trainer

LENGTH = 8
SENTENCES = torch.randint(4, 16, (2100, LENGTH), generator=torch.Generator().manual_seed(0))
"""Independent random tokens, so that no token is predictable from the others. The translation of
token ``n`` is ``n + 12``."""


def build_trainer(attention: bool) -> Trainer:
    torch.manual_seed(0)
    sizes = {"source_vocab": 28, "target_vocab": 28, "d_model": 32, "max_length": LENGTH + 1}
    config = Seq2SeqConfig(attention=attention, dropout=0.0, **sizes)
    pairs = [(tokens, [n + 12 for n in tokens]) for tokens in SENTENCES[100:].tolist()]
    train = TrainConfig(peak_lr=1e-2, warmup=50, ema_decay=0.9, label_smoothing=0.0)
    return Trainer(Seq2Seq(config), Batches(pairs, 640, 0, 32), train)


def test_attention_translates_sentences_that_do_not_fit_into_one_vector() -> None:
    source = SENTENCES[:100]
    expected = torch.cat((source + 12, torch.full((100, 1), EOS)), dim=1)
    accuracy = {}
    for attention in (True, False):
        trainer = build_trainer(attention)
        trainer.run(steps=150)
        model = trainer.averaged_model()
        tokens = torch.full((100, 1), BOS)
        with torch.no_grad():
            state = model.start(source, LENGTH + 1)
            for _ in range(LENGTH + 1):
                following = model.step(tokens[:, -1], state).argmax(dim=-1, keepdim=True)
                tokens = torch.cat((tokens, following), dim=1)
        accuracy[attention] = (tokens[:, 1:] == expected).all(dim=1).float().mean().item()
        if attention:
            attended = model.alignment(source, tokens[:, :-1])[:, :LENGTH].argmax(dim=-1)
            assert (attended == torch.arange(LENGTH)).float().mean() > 0.95
    assert accuracy[True] > 0.95
    assert accuracy[False] < 0.1
