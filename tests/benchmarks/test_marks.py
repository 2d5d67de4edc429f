"""The controls of what a head writes, on a small untrained model and on the shipped one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from benchmarks import marks, previous_token
from benchmarks.analysis import MODEL
from benchmarks.marks import Marks
from benchmarks.previous_token import Adapt, Study, attentions
from benchmarks.record import read
from tests.benchmarks.small import CORPUS, WORDS, saved
from tfmr.analysis import record_attention
from tfmr.checkpoint import load_translator
from tfmr.model import Transformer


@pytest.fixture
def study(model: Transformer) -> Study:
    """With weights large enough for every change to have an effect."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return Study(model, WORDS, CORPUS.valid[:6], CORPUS.train[:20])


def test_orders_exchange_the_tokens_of_a_sentence_only(study: Study) -> None:
    first, again, other = (marks.orders(study, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    is_token = study.batches[0].source != 0
    assert not is_token.all()
    assert torch.equal(first.sort(dim=1).values, torch.arange(first.shape[1]).expand_as(first))
    assert torch.equal(is_token.gather(1, first), is_token)


def test_all_weight_is_on_one_token(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    measured = study.losses

    def recorded(changes: object = None) -> list[torch.Tensor]:
        with record_attention(study.model.encoder) as maps:
            found = measured(changes)  # type: ignore[arg-type]
        seen.append(maps["blocks.1.attention"][0])
        return found

    monkeypatch.setattr(study, "losses", recorded)
    rows = list(marks.attended(study, 2, 1, (0, 1)))
    assert [row["attended"] for row in rows][1:] == [*marks.OFFSETS, "a random token"]
    last = int((study.batches[0].source[0] != 0).sum()) - 1
    for weights, offset in zip(seen[1:5], marks.OFFSETS.values(), strict=True):
        expected = [min(max(query + offset, 0), last) for query in range(last + 1)]
        assert weights[0, 0, : last + 1].argmax(dim=-1).tolist() == expected
        assert_close(weights[0, 0].amax(dim=-1), torch.ones(weights.shape[-1]))
        assert weights[0, 1].amax(dim=-1).min() < 1  # the other head
    ablated, *others = rows
    assert len(others[-1]["draws"]) == 2
    for row in others:
        assert row["loss_increase"] == pytest.approx(
            sum(row["draws"]) / len(row["draws"]), abs=1e-4
        )
        less = ablated["loss_increase"] - row["loss_increase"]
        assert row["less"] == pytest.approx(less, abs=2e-4)
    with previous_token.mean_ablation(
        attentions(study.model)["encoder", 2], 0, study.means["encoder", 2, 1]
    ):
        whole, _ = study.increase(measured(), study.kept)
    assert ablated["loss_increase"] == pytest.approx(whole, abs=1e-4)


def test_all_changes_of_the_keys_have_the_same_size(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    [attention] = marks.cross_attentions(study).values()
    squares: list[float] = []
    number = 0

    @contextmanager
    def recorded(_: object, projection: str, memory: torch.Tensor, adapt: Adapt) -> Iterator[None]:
        nonlocal number
        assert projection == "w_k"
        batch = study.batches[number % len(study.batches)]
        number += 1
        keep = batch.source != 0
        change = F.linear(memory - study.model.encode(batch.source)[0], attention.w_k.weight)
        for sentence, real in zip(adapt(1, change), keep, strict=True):
            own = sentence[real]
            squares.append(float((own - own.mean(dim=0)).square().sum()))
        yield

    monkeypatch.setattr(marks, "change_projection", recorded)
    rows = list(marks.keys(study, 2, 1, (0, 1)))
    assert len(rows) == 1 + 3 + 3
    tokens = sum(int((batch.source != 0).sum()) for batch in study.batches)
    of_passes = torch.tensor(squares).view(1 + 1 + 2 + 2 + 3, -1).sum(dim=1)
    sizes = (of_passes / tokens).sqrt()
    assert_close(sizes, torch.full_like(sizes, rows[0]["size"]), rtol=1e-3, atol=0)
    assert min(abs(row["size"] / rows[0]["size"] - 1) for row in rows[4:]) > 0.01


def test_a_rotation_preserves_norms_and_angles(study: Study) -> None:
    [(block, attention)] = marks.cross_attentions(study).items()
    change = torch.randn(3, 5, attention.n_heads * attention.d_k)
    rotated = marks._rotate(marks.rotations(study, 0), block, change)
    assert (rotated - change).abs().max() > 0.1
    for head in range(attention.n_heads):
        columns = slice(head * attention.d_k, (head + 1) * attention.d_k)
        a, b = (x[..., columns] @ x[..., columns].mT for x in (change, rotated))
        assert_close(a, b)


def test_the_change_of_the_head_has_the_cost_of_its_path(study: Study) -> None:
    own, *changes = marks.keys(study, 2, 1, (0,))
    [path] = (r for r in previous_token.path(study) if (r["layer"], r["head"]) == (2, 1))
    assert own["loss_increase"] == pytest.approx(path["keys"], abs=1e-4) != 0
    costs = [row["loss_increase"] for row in changes]
    assert len({own["loss_increase"], *costs}) == len(costs) + 1
    for row in changes:
        less = own["loss_increase"] - row["loss_increase"]
        assert row["less"] == pytest.approx(less, abs=2e-4)


def test_cross_attention_follows_the_marks_of_the_shipped_model() -> None:
    trained, tokenizer = load_translator(MODEL)
    assert isinstance(trained, Transformer)
    pairs = [
        ("Eine Frau liest im Park ein Buch.", "A woman is reading a book in the park."),
        ("Im Wasser schwimmen drei Kinder.", "Three children are swimming in the water."),
    ]
    rows = list(marks.exchanged(Study(trained, tokenizer, pairs, pairs), 2, 3, range(5)))
    assert [row["block"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["own"] > 2 * row["receiver"]
        assert row["own_growth"] < 0 < row["receiver_growth"]
        assert row["gain"] == pytest.approx(row["receiver_growth"] - row["others_growth"], abs=2e-4)
        assert row["gain_interval"][0] > 0
    length = max(len(english) for _, english in pairs)
    assert 0 < rows[0]["tokens"] < 5 * 2 * length


@pytest.mark.usefixtures("small_corpus")
def test_the_command_writes_all_analyses(model: Transformer, tmp_path: Path) -> None:
    out = tmp_path / "marks.json"
    Marks(saved(model, tmp_path), "pocket", "en-fr", sentences=5, head=1, seeds=(3, 4), out=out)()
    written = read(out)
    kinds = list(dict.fromkeys(row["analysis"] for row in written["rows"]))
    assert kinds == ["attended", "keys", "exchanged"]
    settings = written["settings"]
    assert (settings["layer"], settings["head"], settings["seeds"]) == (2, 1, [3, 4])
