"""A small corpus, and validations with chosen losses."""

import pytest

from tfmr.data import pocket
from tfmr.data.corpus import Corpus
from tfmr.train.evaluation import Evaluator, ValidationResult
from tfmr.translator import Translator


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pocket.split("en-fr", train=400, valid=4, test=5)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The losses that the following validations return, every two steps."""
    values: list[float] = []

    def validate(
        evaluator: Evaluator, model: Translator, step: int, seconds: float
    ) -> ValidationResult:
        return ValidationResult(step, seconds, values[step // 2 - 1], None)

    monkeypatch.setattr(Evaluator, "validate", validate)
    return values
