"""README, CONTRIBUTING and the workflows name the commands that exist, and all of them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

import tfmr
from benchmarks.record import read
from tests.house.test_layout import ORDER
from tfmr.train.config import find_recipe
from tools.notebooks import chapters

ROOT = Path(tfmr.__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = dict(re.findall(r"^([a-z]+):[^#\n]*## (.+)$", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(text: str) -> set[str]:
    """The targets that a text tells the reader to make."""
    return set(re.findall(r"(?:^|`|\s)make ([a-z]+)\b", text))


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in a Markdown ``text``."""
    lines = (line.strip() for line in text.splitlines())
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]


def jobs(workflow: Path) -> list[tuple[str, dict[str, Any]]]:
    return list(yaml.safe_load(workflow.read_text("utf-8"))["jobs"].items())


def test_every_target_of_the_makefile_is_described_and_phony() -> None:
    phony = set(re.findall(r"^\.PHONY: ([a-z]+)$", MAKEFILE, re.MULTILINE))
    assert phony == TARGETS.keys()
    assert phony >= {
        "help",
        "book",
        "serve",
        "test",
        "check",
        "refresh",
        "portable",
        "lock",
        "clean",
    }


def test_contributing_has_a_row_for_every_target_and_no_other() -> None:
    described = [
        cells[0].strip("`") for cells in rows(CONTRIBUTING) if cells[0].startswith("`make ")
    ]
    assert described == [f"make {target}" for target in TARGETS]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "book/index.md"])
def test_no_page_names_a_target_that_does_not_exist(name: str) -> None:
    code = re.findall(r"`{3}.*?`{3}|`[^`\n]+`", (ROOT / name).read_text("utf-8"), re.DOTALL)
    assert commands("\n".join(code)) <= TARGETS.keys()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_contributing_gives_the_local_command_of_every_job(workflow: Path) -> None:
    for name, job in jobs(workflow):
        made = [
            target
            for step in job["steps"]
            for target in re.findall(r"^make ([a-z]+)", step.get("run", ""), re.MULTILINE)
        ]
        assert made, f"{workflow.name}: {name} makes nothing"
        told = [
            cells for cells in rows(CONTRIBUTING) if cells[0] == f"`{workflow.stem}` / `{name}`"
        ]
        assert len(told) == 1, f"CONTRIBUTING.md has no row for {workflow.stem} / {name}"
        assert re.findall(r"make ([a-z]+)", told[0][-1]) == made


def test_contributing_names_no_job_that_does_not_exist() -> None:
    named = {cells[0] for cells in rows(CONTRIBUTING) if " / " in cells[0]}
    there = {f"`{path.stem}` / `{name}`" for path in WORKFLOWS for name, _ in jobs(path)}
    assert named == there | {"`.ci/run` / `test`", "pre-commit / all hooks"}


def test_the_hooks_of_a_commit_are_the_steps_of_make_check() -> None:
    config = ROOT / ".pre-commit-config.yaml"
    checked = [sys.executable, "-m", "pre_commit", "validate-config", str(config)]
    assert subprocess.run(checked, check=False).returncode == 0
    [local] = yaml.safe_load(config.read_text("utf-8"))["repos"]
    hooks = [hook["entry"].removeprefix(".venv/bin/python ") for hook in local["hooks"]]
    recipe = re.search(r"^check:.*?(?=\n\n)", MAKEFILE, re.DOTALL | re.MULTILINE)
    assert recipe
    assert hooks == re.findall(r"\$\(PY\) (.+)", recipe[0])


def test_the_continuous_run_is_the_readmes_test_command() -> None:
    assert "make test" in README
    assert re.search(r"^make test\b", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)


def test_the_readme_quotes_the_recorded_runs() -> None:
    record = read(ROOT / "benchmarks" / "multi30k.json")
    german = [row for row in record["rows"] if row["direction"] == "de-en"]
    told = " ".join(README.split())
    assert f"{german[0]['parameters'] / 1e6:.2f} million weights" in told
    assert german[0]["signature"] in told
    seeds = {1: "one seed", 2: "the mean of two seeds", 3: "the mean of three seeds"}
    assert seeds[record["settings"]["seeds"]["de-en"]] in told
    for minutes in record["settings"]["minutes"]:
        scores = [row["test_bleu_beam4"] for row in german if row["minutes"] == minutes]
        assert f"{mean(scores):.1f} after {minutes:g}" in told
    [patient] = [row for row in german if row["recipe"] == "multi30k-patient"]
    best, steps = patient["test_bleu_beam4"], patient["step"]
    assert f"no object: from German it reached {best:.1f} after {steps:,} steps" in told
    longest = record["settings"]["minutes"][-1]
    to_german, to_french = (
        row["test_bleu_beam4"]
        for direction in ("en-de", "en-fr")
        for row in record["rows"]
        if (row["direction"], row["minutes"]) == (direction, longest)
    )
    assert f"to German it reached {to_german:.1f} after {longest:g} minutes" in told
    assert f"and to French {to_french:.1f}, with one seed each" in told
    marks = " ".join(f"{minutes:g}" for minutes in record["settings"]["minutes"])
    assert f"--corpus multi30k --direction de-en --minutes {marks}" in told


def test_the_chapter_on_training_says_when_the_patient_recipe_ends() -> None:
    recipe, base = find_recipe("multi30k-patient"), find_recipe("multi30k")
    told = (ROOT / "book" / "11-training.ipynb").read_text("utf-8")
    assert recipe.evaluation.patience == 10
    assert f"nothing better ten times in a row, or at step {recipe.budget.steps[-1]:,}" in told
    assert recipe.to_dict()["model"]["dropout"] > base.to_dict()["model"]["dropout"]
    assert recipe.train.ema_decay > base.train.ema_decay


def test_the_run_that_the_book_reads_is_the_first_of_them() -> None:
    rows = read(ROOT / "benchmarks" / "multi30k.json")["rows"]
    run = json.loads((ROOT / "benchmarks" / "multi30k-de-en" / "scores.json").read_text("utf-8"))
    about = {"recipe": "multi30k", "direction": "de-en", "seed": 0}
    same = [row for row in rows if about.items() <= row.items()]
    about |= {"parameters": run["parameters"], "commit": run["commit"]}
    about |= {"threads": run["hardware"]["threads"]}
    assert [about | row for row in run["scores"]] == same


def test_the_readmes_map_names_every_chapter_and_every_module() -> None:
    linked = re.findall(r"\]\((book/[\w-]+\.ipynb)\)", README)
    assert linked == [path.relative_to(ROOT).as_posix() for path in chapters()]
    modules = set(re.findall(r"\]\((tfmr/[\w./]+)\)", README))
    assert all((ROOT / module).exists() for module in modules)
    assert {Path(module).stem for module in modules} >= set(ORDER)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_between_files_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / name).read_text("utf-8")):
        assert (ROOT / target).exists(), f"{name} links to {target}"
