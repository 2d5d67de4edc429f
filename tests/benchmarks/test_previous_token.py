"""The analyses of a head that attends to the previous token, on a small untrained model."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from benchmarks import previous_token
from benchmarks.analysis import MODEL
from benchmarks.minimal_pairs import FRAMES, NOUNS, PAIRS
from benchmarks.previous_token import Study, attentions, mean_ablation, mean_outputs, words
from tests.benchmarks.small import CORPUS, small_model
from tfmr.analysis import record_attention, record_heads
from tfmr.checkpoint import load_translator
from tfmr.config import TransformerConfig
from tfmr.data.tokenizer import Tokenizer
from tfmr.model import Transformer

BPE = Tokenizer.train_bpe((text for pair in CORPUS.train for text in pair), 290)


@pytest.fixture
def model() -> Transformer:
    """As the small model of the other tests, for a vocabulary that splits words."""
    torch.manual_seed(0)
    size = BPE.vocab_size
    config: dict[str, object] = small_model().config.__dict__
    sizes = {"source_vocab": size, "target_vocab": size, "max_length": 128}
    model = Transformer(TransformerConfig(**(config | sizes))).eval()  # type: ignore[arg-type]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture
def study(model: Transformer) -> Study:
    """With two groups of tokens that occur in every sentence."""
    study = Study(model, BPE, CORPUS.valid[:6], CORPUS.train[:20])
    every_second = [torch.arange(keep.shape[1]) % 2 == 0 for keep in study.kept]
    study.split = [k & even for k, even in zip(study.kept, every_second, strict=True)]
    study.other = [k & ~even for k, even in zip(study.kept, every_second, strict=True)]
    return study


def test_the_tokens_of_a_word_have_its_number() -> None:
    text, _ = CORPUS.valid[0]
    assert text.endswith(".")
    ids = torch.tensor([BPE.encode(text)])
    numbers = words(BPE, ids)[0].tolist()
    pieces: dict[int, str] = {}
    for number, token in zip(numbers, BPE.tokens(ids[0].tolist()), strict=True):
        pieces[number] = pieces.get(number, "") + token.removeprefix("▁")
    expected = [*text.removesuffix(".").split(), "."]
    assert list(pieces.values()) == expected
    assert len(expected) < len(numbers)  # some words are split
    padded = torch.nn.functional.pad(ids, (0, 2))
    assert not previous_token.is_split(words(BPE, padded))[0, -3:].any()


def test_the_mean_replaces_the_output_of_one_head(model: Transformer) -> None:
    batch = previous_token.batches(model, BPE, CORPUS.valid[:3])
    means = mean_outputs(model, batch)
    for (kind, layer), attention in attentions(model).items():
        with record_heads(attention) as outputs:
            model.hidden(batch[0].source, batch[0].target_in)
        keep = (batch[0].source if kind == "encoder" else batch[0].target_out) != 0
        assert_close(means[kind, layer, 2], outputs[0][:, 1][keep].mean(dim=0))
        mean = means[kind, layer, 2]
        with mean_ablation(attention, 1, mean), record_heads(attention) as replaced:
            model.hidden(batch[0].source, batch[0].target_in)
        assert_close(replaced[0][:, 0], outputs[0][:, 0])
        assert_close(replaced[0][:, 1], mean.expand_as(replaced[0][:, 1]))


def test_every_head_is_ablated_in_two_ways(study: Study) -> None:
    rows = list(previous_token.ablation(study))
    assert len(rows) == 2 * 2 + 2 + 2
    for column in ("zero", "mean"):
        costliest = max(rows, key=lambda row: row[column])
        assert [row for row in rows if row[f"lead_{column}"] == 0] == [costliest]
        assert costliest[f"lead_{column}_interval"] == [0, 0]
    encoder = [row for row in rows if row["kind"] == "encoder"]
    whole = previous_token.intact(study)
    number = [whole["split_tokens"], whole["other_tokens"]]
    assert min(number) > 0
    for row in encoder:
        parts = [row["split"], row["other"]]
        mean = sum(n * x for n, x in zip(number, parts, strict=True)) / sum(number)
        assert row["mean"] == pytest.approx(mean, abs=2e-4)
        assert row["difference"] == pytest.approx(parts[0] - parts[1], abs=2e-4)


def test_hidden_keys_have_no_weight(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {name: choose(study.words[0]) for name, choose in previous_token.KEYS.items()}
    seen = []
    measured = study.losses

    def recorded(changes: object) -> list[torch.Tensor]:
        with record_attention(study.model.encoder) as maps:
            found = measured(changes)  # type: ignore[arg-type]
        seen.append(maps["blocks.1.attention"][0])
        return found

    monkeypatch.setattr(study, "losses", recorded)
    rows = list(previous_token.hidden_keys(study, 2, 1))
    assert [row["hidden"] for row in rows] == list(hidden)
    for weights, mask in zip(seen, hidden.values(), strict=True):
        is_token = study.batches[0].source != 0
        inside = mask & is_token[:, None] & is_token[..., None]
        assert not (weights[:, 0] * inside).any()
        assert (weights[:, 1] * inside).any()
    own, other, both = (row["queries"] for row in rows)
    assert other < both < own + other
    assert all(row["loss_increase"] != 0 for row in rows)


def test_an_ablation_reaches_the_decoder_by_keys_and_by_values(model: Transformer) -> None:
    """If the keys are constant, it has its whole effect through the values."""
    for (kind, _), attention in attentions(model).items():
        if kind == "cross":
            torch.nn.init.zeros_(attention.w_k.weight)
    study = Study(model, BPE, CORPUS.valid[:6], CORPUS.train[:20])
    rows = list(previous_token.path(study))
    assert len(rows) == 4
    for row in rows:
        layer, head = row["layer"], row["head"]
        mean = study.means["encoder", layer, head]
        with mean_ablation(attentions(model)["encoder", layer], head - 1, mean):
            whole, _ = study.increase(study.losses(), study.kept)
        assert row["keys"] == pytest.approx(0, abs=1e-4)
        assert row["values"] == pytest.approx(whole, abs=1e-4) != 0


def test_a_head_that_carries_the_noun_is_found() -> None:
    model, tokenizer = load_translator(MODEL)
    assert isinstance(model, Transformer)
    rows = list(previous_token.carried(model, tokenizer, PAIRS[:4]))
    decoded = {(row["layer"], row["head"]): row["decoded"] for row in rows}
    assert decoded[2, 3] == len(NOUNS) * len(FRAMES) == 35
    assert min(decoded.values()) < 20
    whole, *heads = previous_token.hidden_noun(model, tokenizer, PAIRS[:4])
    assert 0 < whole["remaining"] < 0.2
    effects = {(row["layer"], row["head"]): row["effect"] for row in heads}
    assert max(effects.values()) > 0.2 > abs(effects[2, 3])


def test_the_command_writes_all_analyses(
    tmp_path: Path, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previous_token, "carried", lambda *_: iter([]))
    monkeypatch.setattr(previous_token, "hidden_noun", lambda *_: iter([]))
    monkeypatch.setattr(previous_token, "intact", lambda _: {"analysis": "intact"})
    monkeypatch.setattr(previous_token, "ablation", lambda _: iter([{"analysis": "ablation"}]))
    command = previous_token.PreviousToken(out=tmp_path / "x.json", layer=1, head=2)
    written = {}
    monkeypatch.setattr(previous_token.PreviousToken, "load", lambda *_: (model, BPE, CORPUS))
    monkeypatch.setattr(
        previous_token.PreviousToken, "write", lambda _, *parts: written.update(parts=parts)
    )
    command()
    _, _, rows, settings = written["parts"]
    kinds = list(dict.fromkeys(row["analysis"] for row in rows))
    assert kinds == ["intact", "hidden keys", "path", "ablation"]
    assert (settings["layer"], settings["head"], settings["sentences"]) == (1, 2, 20)
