"""``recipes``: the list of recipes, even if one of them is invalid."""

from pathlib import Path

import pytest

from tfmr.train import config
from tfmr.train.config import find_recipe, recipe_names


def test_every_recipe_is_listed_with_its_description(command) -> None:
    out, _ = command("recipes")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == recipe_names()
    for line, name in zip(lines, recipe_names(), strict=True):
        recipe = find_recipe(name)
        assert recipe.about in line
        assert ", ".join(recipe.directions) in line


def test_an_invalid_recipe_is_named_after_the_others(
    command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, text in (("bad", "[train]\nwarmup = 0.5\n"), ("good", ""), ("worse", "[")):
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.setattr(config, "RECIPE_DIR", tmp_path)
    with pytest.raises(SystemExit) as stop:
        command("recipes")
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["good"]
    [line] = err.splitlines()
    assert "bad.toml: train.warmup: expected an integer, got 0.5" in line
    assert "worse.toml is not valid TOML" in line
