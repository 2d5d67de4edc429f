"""Process-wide settings: changed for one call, restored in any case."""

from collections.abc import Iterator

import pytest
import torch

from tfmr.fast import settings
from tfmr.fast.settings import FEW_ROWS, cpu_matmul_settings


class Model:
    """All that the settings depend on."""

    def __init__(self, device: str = "cpu", parameters: int = 1000) -> None:
        self.device = torch.device(device)
        self.parameters = parameters

    def count_parameters(self) -> int:
        return self.parameters


def current() -> tuple[str, int]:
    return torch.get_float32_matmul_precision(), torch.get_num_threads()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = current()
    torch.set_float32_matmul_precision("medium")
    torch.set_num_threads(2)
    yield
    assert current() == ("medium", 2)
    torch.set_float32_matmul_precision(before[0])
    torch.set_num_threads(before[1])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("model", "rows", "expected"),
    [
        (Model(), FEW_ROWS, ("highest", 1)),
        (Model(parameters=settings.SMALL_MODEL + 1), FEW_ROWS, ("highest", 2)),
        (Model(), FEW_ROWS + 1, ("highest", 2)),
        (Model("meta"), 1, ("medium", 2)),
    ],
)
def test_settings(model: Model, rows: int, expected: tuple[str, int]) -> None:
    with cpu_matmul_settings(model, rows):
        assert current() == expected
    assert current() == ("medium", 2)


@pytest.mark.usefixtures("unchecked")
def test_an_error_restores_the_settings() -> None:
    with pytest.raises(KeyError), cpu_matmul_settings(Model(), 1):
        raise KeyError
