"""T5 with prefixes in benchmarks.prefixes, on a corpus that a small model can memorise."""

from dataclasses import replace

import pytest

from benchmarks import prefixes, record
from tfmr.data.batches import collate
from tfmr.special_tokens import PAD

ENGLISH = ["a dog runs.", "two black cats sleep on a chair.", "a man sings."]
GERMAN = ["ein hund läuft.", "zwei schwarze katzen schlafen auf einem stuhl.", "ein mann singt."]
FRENCH = ["un chien court.", "deux chats noirs dorment sur une chaise.", "un homme chante."]
CORPUS = {
    "german": list(zip(ENGLISH, GERMAN, strict=True)),
    "french": list(zip(ENGLISH, FRENCH, strict=True)),
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(prefixes, "load", lambda: (CORPUS, CORPUS))
    monkeypatch.setattr(prefixes, "TOKENS_PER_BATCH", 400)
    monkeypatch.setattr(prefixes, "VOCAB", 320)
    sizes = {"vocab": 320, "d_model": 32, "d_k": 16, "d_ff": 64, "n_heads": 2}
    config = replace(prefixes.CONFIG, **sizes, n_encoder=1, n_decoder=1)
    monkeypatch.setattr(prefixes, "CONFIG", config)


def test_the_prefix_selects_the_language_of_a_memorised_corpus(small, tmp_path):
    rows, settings = prefixes.rows([0], steps=120), prefixes.settings()
    written = record.write(tmp_path / "record.json", "family", rows, settings=settings)
    source, with_prefixes, without = written["rows"]
    assert source["german"] < 50
    assert source["french"] < 50
    assert with_prefixes["german"] == with_prefixes["french"] == 100
    assert min(without["german"], without["french"]) < 50
    assert with_prefixes["german_output"] != with_prefixes["french_output"]
    # Without a prefix, both tasks have the same input, so they have the same output.
    assert without["german_output"] == without["french_output"]


def test_padding_does_not_change_the_loss_or_the_translation(small):
    tokenizer = prefixes.train_tokenizer(CORPUS)
    examples = prefixes.encode(tokenizer, CORPUS, prefixes.PREFIXES)
    model = prefixes.train_t5(examples, 20, 0)
    texts = [prefixes.PREFIXES["german"] + text for text in ENGLISH]
    together = prefixes.translate(model, tokenizer, texts)
    assert together == [prefixes.translate(model, tokenizer, [text])[0] for text in texts]
    batch = collate(examples)
    assert (batch.source == PAD).any()
    assert (batch.target_out == PAD).any()
    sums = [prefixes.loss(model, collate([pair])).item() * (len(pair[1]) + 1) for pair in examples]
    expected = sum(sums) / sum(len(pair[1]) + 1 for pair in examples)
    assert prefixes.loss(model, batch).item() == pytest.approx(expected, rel=1e-5)


def test_the_order_of_the_examples_depends_on_the_seed_alone(small):
    tokenizer = prefixes.train_tokenizer(CORPUS)
    examples = prefixes.encode(tokenizer, CORPUS, prefixes.PREFIXES)
    one, same, other = (prefixes.train_t5(examples, 3, seed) for seed in (1, 1, 2))
    weight = one.embedding.weight
    assert weight.equal(same.embedding.weight)
    assert not weight.equal(other.embedding.weight)
