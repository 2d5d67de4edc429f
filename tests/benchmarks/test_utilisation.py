"""The share of the peak: its record and its arithmetic."""

from pathlib import Path

import pytest

from benchmarks import utilisation
from benchmarks.record import read
from benchmarks.utilisation import PEAK, Utilisation
from tfmr.complexity import attention_flops, feed_forward_flops, projection_flops
from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError


@pytest.fixture
def small_base(monkeypatch: pytest.MonkeyPatch) -> None:
    small = TransformerConfig(
        16, 2, 32, source_vocab=50, target_vocab=50, n_encoder=1, n_decoder=1, max_length=40
    )
    monkeypatch.setattr(TransformerConfig, "base", lambda: small)


@pytest.mark.usefixtures("small_base")
def test_the_share_is_the_ratio_of_two_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(functions, rounds: int) -> dict[int, list[float]]:
        for function in functions.values():
            function(0)
        return {index: [float(index + 1)] * rounds for index in functions}

    monkeypatch.setattr(utilisation, "time_interleaved", seconds)
    out = tmp_path / "x.json"
    Utilisation(widths=(16,), sentences=2, pairs=(1,), peak_size=64, rounds=2, out=out)()
    peak, gpt, base = read(out)["rows"]
    assert [row["model"] for row in (peak, gpt, base)] == [PEAK, "GPT, d_model 16", "base"]
    assert peak["flops"] == 2 * 64**3
    assert peak["share_of_peak"] == 1
    n, d = 64, 16
    block = projection_flops(n, d) + attention_flops(n, d) + feed_forward_flops(n, d, 4 * d)
    assert gpt["flops"] == 3 * 2 * (2 * block + 2 * n * d * utilisation.VOCAB)
    for k, row in ((2, gpt), (3, base)):
        assert row["seconds"] == [k, k]
        expected = row["flops"] / k / peak["flops"]
        assert row["share_of_peak"] == pytest.approx(expected, abs=1e-4)


def test_no_rounds_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"1.*got 0"):
        Utilisation(rounds=0, out=tmp_path / "x.json")()
