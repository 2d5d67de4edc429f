"""The metrics against sacreBLEU and the loss; the evaluation of a model on both sets."""

import math

import pytest
import torch

from tfmr.config import TransformerConfig
from tfmr.data.batches import Batches, collate
from tfmr.data.corpus import Corpus
from tfmr.data.tokenizer import Tokenizer
from tfmr.dtype import Units
from tfmr.fast import prepare
from tfmr.model import Transformer
from tfmr.train import evaluation
from tfmr.train.config import Recipe
from tfmr.train.evaluation import Evaluator, ValidationResult, best_validation, mean_loss
from tfmr.train.loss import cross_entropy
from tfmr.translator import IncrementalTranslator, Translator


def test_mean_loss_weights_tokens_equally_without_dropout_or_smoothing() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        **{"source_vocab": 20, "target_vocab": 20, "d_model": 16, "n_heads": 2, "d_ff": 16},
        **{"n_encoder": 1, "n_decoder": 1, "dropout": 0.5, "max_length": 9},
    )
    model = Transformer(config).train()
    pairs = [([4 + n] * (1 + n % 4), [5 + n] * (1 + n % 5)) for n in range(9)]
    loss = mean_loss(model, Batches(pairs, 12, 0, 9))
    assert model.training
    model.eval()
    batch = collate(pairs)
    expected = cross_entropy(model(batch.source, batch.target_in), batch.target_out)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert 0.5 < loss / math.log(20) < 2


def test_best_validation_is_by_bleu_then_by_loss() -> None:
    by_loss = [ValidationResult(n, 1.0, loss, None) for n, loss in enumerate([3.0, 2.0, 2.0])]
    assert best_validation([]) is None
    assert best_validation(by_loss) == 1, "the first of equal ones"
    by_bleu = [ValidationResult(1, 1.0, 3.0, 20.0), ValidationResult(2, 2.0, 2.0, 19.0)]
    assert best_validation(by_bleu) == 0, "BLEU decides before the loss"
    assert best_validation([*by_bleu, ValidationResult(3, 3.0, 2.9, 20.0)]) == 2


RECIPE = Recipe.from_dict(
    {
        "vocabulary": {"kind": "words"},
        "model": {
            **{"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder": 1, "n_decoder": 1},
            "max_length": 5,
        },
        "batches": {"tokens_per_batch": 50},
        "evaluation": {"beam": 2},
    }
)
TOKENIZER = Tokenizer.words(["a b c", "x y z"])


def make_corpus() -> Corpus:
    """A corpus whose test set has one pair."""
    return Corpus(
        **{"name": "toy", "source": "de", "target": "en", "licence": ""},
        train=[("a", "x")],
        valid=[("a b c", "x y z x"), ("c", "z")],
        test=[("a b", "x y z")],
    )


def test_evaluator_translates_each_set(monkeypatch: pytest.MonkeyPatch) -> None:
    translated = []

    def translate(
        model, tokenizer, sources, *, beam: int, detokenise: bool, on_finished
    ) -> list[str]:
        assert not detokenise, "hypotheses are compared with references"
        translated.append((list(sources), beam))
        if len(sources) == 2:
            return ["x y z x", "z" if beam == 1 else "x"]
        return ["x y z"]

    monkeypatch.setattr(evaluation, "translate", translate)
    torch.manual_seed(0)
    model = Transformer(RECIPE.model_config(TOKENIZER.vocab_size)).eval()
    evaluator = Evaluator(make_corpus(), TOKENIZER, RECIPE)
    result = evaluator.validate(model, 7, 1.5)
    valid = (["a b c", "c"], 1)
    assert translated == [valid], "training must not depend on the test set"
    assert (result.step, result.seconds) == (7, 1.5)
    row, hypotheses = evaluator.evaluate(model)
    assert translated == [valid, valid, (valid[0], 2), (["a b"], 1), (["a b"], 2)]
    assert row["valid_loss"] == round(result.loss, 4)
    assert row["valid_bleu"] == result.bleu == 100
    assert 0 < row["valid_bleu_beam2"] < 100
    assert row["valid_exact"] == row["test_exact"] == 1
    assert row["signature"].startswith("nrefs:1")
    assert hypotheses == ["x y z"]


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_the_evaluation_uses_the_precision_of_the_recipe(
    monkeypatch: pytest.MonkeyPatch, precision: str, dtype: torch.dtype | None
) -> None:
    found: list[object] = []

    def prepared(model: Translator, dtype: torch.dtype | None) -> IncrementalTranslator:
        found.extend([dtype, torch.get_float32_matmul_precision()])
        return prepare(model, dtype)

    monkeypatch.setattr(evaluation, "prepare", prepared)
    units = Units(torch.device("cpu"), bf16=True, avx512=True)
    monkeypatch.setattr(evaluation, "find_units", lambda device: units)
    recipe = RECIPE.with_overrides({"train.precision": precision})
    model = Transformer(recipe.model_config(TOKENIZER.vocab_size)).eval()
    evaluator = Evaluator(make_corpus(), TOKENIZER, recipe)
    evaluator.validate(model, 1, 1.0)
    evaluator.evaluate(model)
    assert found == 2 * [dtype, "medium"], "the machine has AVX-512"
    assert torch.get_float32_matmul_precision() == "highest"
