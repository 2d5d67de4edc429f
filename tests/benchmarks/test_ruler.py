"""Of the trials, only validation scores are recorded; a length penalty is selected there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ruler
from benchmarks.multi30k import TrainingRun
from benchmarks.ruler import BEST, DIRECTION, TRIALS, Ruler
from tests.benchmarks.small import CORPUS, saved, small_model
from tests.benchmarks.test_multi30k import Done
from tfmr.train.config import find_recipe

SCORES = {"tokens": 5, "valid_loss": 1.0, "valid_bleu_beam5": 7.0, "test_bleu_beam5": 8.0}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started; each trains a small model at once."""
    started: list[list[str]] = []

    class Shell:
        @staticmethod
        def run(words: list[str], check: bool) -> Done:
            started.append(words)
            folder = Path(words[words.index("--out") + 1])
            folder.mkdir(parents=True)
            saved(small_model(), folder)
            metadata: dict[str, Any] = {
                **{"parameters": 7, "commit": "c", "recipe": {"budget": {"steps": [8000]}}},
                "hardware": {"threads": 2, "device": "cpu", "arithmetic": "fp32"},
                "scores": [{"minutes": 1.0, "step": 8000, **SCORES}],
            }
            (folder / "scores.json").write_text(json.dumps(metadata), "utf-8")
            return Done(words, 0)

    monkeypatch.setattr("benchmarks.multi30k.subprocess", Shell)
    return started


@pytest.mark.usefixtures("small_corpus")
def test_trials_runs_and_penalties(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = dict((*CORPUS.valid, *CORPUS.test))

    def search(
        _: object, __: object, sources: Sequence[str], *, alpha: float, **___: object
    ) -> Any:
        return [references[source] if alpha == 1.0 else "nothing" for source in sources]

    monkeypatch.setattr(ruler, "translate", search)
    Ruler(1, (DIRECTION,), (0.6, 1.0, 2.0), tmp_path / "runs", out := tmp_path / "ruler.json")()
    rows = json.loads(out.read_text("utf-8"))["rows"]
    trials, [run], penalties = (
        [row for row in rows if row["part"] == part] for part in ("trial", "run", "penalty")
    )
    assert len(trials) == len(TRIALS) == len(commands) - 1
    assert not any(name.startswith("test") for row in trials for name in row)
    changes = commands[1][commands[1].index("--set") + 1 :]
    assert changes == [*TRIALS[1][1], "budget.steps=[2500]"]
    assert run["test_bleu_beam5"] == 8.0
    assert run["device"] == "cpu"
    assert [row["valid_bleu"] for row in penalties] == [0.0, 100.0, 0.0]
    assert [row["selected"] for row in penalties] == [False, True, False]
    assert [row.get("test_bleu") for row in penalties] == [0.0, 100.0, None]


def test_a_trial_is_a_recipe_and_the_first_is_that_of_the_record() -> None:
    recipe = find_recipe(BEST)
    for _, changes in TRIALS:
        pairs = dict(change.split("=") for change in changes)
        changed = recipe.with_overrides({name: json.loads(x) for name, x in pairs.items()})
        assert (changed == recipe) == (not changes)
    assert TRIALS[0] == (DIRECTION, ())
    words = TrainingRun(BEST, DIRECTION, 2, (), Path("runs"), ("a.b=1",)).command()
    assert words[-2:] == ["--set", "a.b=1"]
    assert "--seed" in words


def test_the_tables_name_what_was_selected() -> None:
    record = json.loads((ruler.record.FOLDER / "ruler.json").read_text("utf-8"))
    text = "\n".join(ruler.table(record["rows"], record["settings"]))
    assert "2.5 (selected)" in text
    assert "dropout 0.2 |" in text
    assert "| en-de | none | 2,605,568 | 39.2 |" in text
    quoted = list(ruler.quotes(record["rows"], record["settings"]))
    assert quoted[0] == "40.0 (39.8–40.5)"
