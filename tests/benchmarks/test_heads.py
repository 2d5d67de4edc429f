"""Each head and sublayer is ablated alone and restored."""

from pathlib import Path

import pytest
import torch

from benchmarks.heads import Heads, ablations
from benchmarks.record import read
from tests.benchmarks.small import CORPUS, WORDS, saved
from tfmr.data.batches import Batches
from tfmr.decode import translate
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.train.evaluation import mean_loss

pytestmark = pytest.mark.usefixtures("small_corpus")


def test_each_ablation_changes_one_module_and_is_undone(model: Transformer) -> None:
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[1, 7]])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    whole = model(source, target)
    names = []
    for name, ablation in ablations(model):
        with ablation:
            changed = {n for n, w in model.state_dict().items() if not torch.equal(w, before[n])}
            out = model(source, target)
        names.append(tuple(name.values()))
        if name["ablated"] == "nothing":
            assert not changed
            continue
        block = f"{name['stack']}.blocks.{name['layer'] - 1}"
        [changed_one] = changed  # biases start at zero
        assert changed_one.startswith(block)
        assert not torch.allclose(out, whole)
        assert torch.equal(model(source, target), whole)
    assert len(set(names)) == len(names) == 1 + 2 * 2 + 3 + 2 * (2 + 2)
    assert ("sublayer", "decoder", "cross-attention", 1) in names
    assert ("head", "encoder", "self-attention", 2, 2) in names


def test_the_record(tmp_path: Path, model: Transformer) -> None:
    """It starts with the whole model, and the intervals contain the costs."""
    Heads(saved(model, tmp_path), "pocket", "en-fr", sentences=5, out=tmp_path / "heads.json")()
    record = read(tmp_path / "heads.json")
    assert record["settings"]["sentences"] == 5
    intact, *ablated = record["rows"]
    assert intact["ablated"] == "nothing"
    assert len(ablated) == 2 * 2 + 3 + 2 * (2 + 2)
    assert len({row["valid_loss"] for row in ablated}) > len(ablated) / 2
    pairs = CORPUS.valid[:5]
    encoded = [(WORDS.encode(a), WORDS.encode(b)) for a, b in pairs]
    loss = mean_loss(model, Batches(encoded, 4096, seed=0, max_length=32))
    assert intact["valid_loss"] == pytest.approx(loss, abs=1e-4)
    sources, references = zip(*pairs, strict=True)
    outputs = translate(model, WORDS, sources, detokenise=False)
    assert intact["valid_bleu"] == bleu(outputs, references).score
    assert not any("interval" in name for name in intact)
    for row in ablated:
        low, high = row["valid_loss_increase_interval"]
        assert low - 1e-4 <= row["valid_loss"] - intact["valid_loss"] <= high + 1e-4
        assert low < high
        low, high = row["valid_bleu_decrease_interval"]
        assert low - 0.01 <= intact["valid_bleu"] - row["valid_bleu"] <= high + 0.01
