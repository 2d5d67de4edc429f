"""README, CONTRIBUTING, the Makefile, the workflows and the hooks are consistent."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import tfmr
from tools import module_order
from tools.notebooks import chapters

ROOT = Path(tfmr.__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BENCHMARKS = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = dict(re.findall(r"^([a-z]+):[^#\n]*## (.+)$", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(text: str) -> set[str]:
    """The targets in all ``make`` commands in the code of a Markdown text."""
    code = "\n".join(re.findall(r"`{3}.*?`{3}|`[^`\n]+`", text, re.DOTALL))
    return set(re.findall(r"(?:^|`|\s)make ([a-z]+)\b", code))


def jobs(workflow: Path) -> list[tuple[str, dict[str, Any]]]:
    return list(yaml.safe_load(workflow.read_text("utf-8"))["jobs"].items())


def test_every_target_of_the_makefile_has_a_description_and_is_phony() -> None:
    phony = set(re.findall(r"^\.PHONY: ([a-z]+)$", MAKEFILE, re.MULTILINE))
    assert phony == TARGETS.keys()
    assert phony >= {"help", "book", "serve", "test", "check", "refresh", "lock", "clean"}


def test_contributing_names_every_target() -> None:
    assert commands(CONTRIBUTING) == TARGETS.keys()


@pytest.mark.parametrize("name", ["README.md", "book/index.md"])
def test_targets_in_documents_exist(name: str) -> None:
    assert commands((ROOT / name).read_text("utf-8")) <= TARGETS.keys()


def test_contributing_names_every_job_and_its_local_command() -> None:
    existing = {(".ci/run", "test")}
    for workflow in WORKFLOWS:
        for name, job in jobs(workflow):
            existing.add((workflow.stem, name))
            [line] = [x for x in CONTRIBUTING.splitlines() if f"`{workflow.stem}` / `{name}`" in x]
            runs = "\n".join(step.get("run", "") for step in job["steps"])
            targets = re.findall(r"^make ([a-z]+)", runs, re.MULTILINE)
            assert targets or job.get("needs"), f"{workflow.name}: {name} has no make command"
            assert re.findall(r"make ([a-z]+)", line) == targets
    assert set(re.findall(r"`([^`]+)` / `([^`]+)`", CONTRIBUTING)) == existing


def test_everything_is_run_once_per_push() -> None:
    full = []
    for workflow in WORKFLOWS:
        if "push" not in yaml.safe_load(workflow.read_text("utf-8"))[True]:  # the key is "on"
            continue
        for name, job in jobs(workflow):
            runs = sum(step.get("run", "").startswith("make test") for step in job["steps"])
            versions = job.get("strategy", {}).get("matrix", {}).get("python", ["one"])
            full += [f"{workflow.stem} / {name}"] * runs * len(versions)
    assert full == ["test / test"]


def test_the_pre_commit_hooks_are_the_steps_of_make_check() -> None:
    config = ROOT / ".pre-commit-config.yaml"
    checked = [sys.executable, "-m", "pre_commit", "validate-config", str(config)]
    assert subprocess.run(checked, check=False).returncode == 0
    [local] = yaml.safe_load(config.read_text("utf-8"))["repos"]
    hooks = [hook["entry"].removeprefix(".venv/bin/python ") for hook in local["hooks"]]
    recipe = re.search(r"^check:.*?(?=\n\n)", MAKEFILE, re.DOTALL | re.MULTILINE)
    assert recipe
    assert hooks == re.findall(r"\$\(PY\) (.+)", recipe[0])


def test_continuous_integration_runs_the_command_in_the_readme() -> None:
    assert "make test" in README
    assert re.search(r"^make test\b", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)


def unnamed(pyproject: str) -> list[str]:
    """The published addresses in the text of a pyproject.toml that the README does not name."""
    addresses = tomllib.loads(pyproject)["project"].get("urls", {}).values()
    return [address for address in addresses if address not in README]


def test_the_readme_names_the_published_addresses() -> None:
    assert unnamed((ROOT / "pyproject.toml").read_text("utf-8")) == []
    assert unnamed('[project.urls]\nRepository = "https://git.example/a/b"') != []


def test_the_map_in_the_readme_has_every_chapter_and_module() -> None:
    linked = re.findall(r"\]\((book/[\w-]+\.ipynb)\)", README)
    assert linked == [path.relative_to(ROOT).as_posix() for path in chapters()]
    modules = set(re.findall(r"\]\((tfmr/[\w./]+)\)", README))
    assert all((ROOT / module).exists() for module in modules)
    assert {Path(module).stem for module in modules} >= set(module_order())


def test_the_glossary_is_in_alphabetical_order() -> None:
    text = (ROOT / "book" / "glossary.md").read_text("utf-8")
    sections = re.split(r"^## (\w)\n", text, flags=re.MULTILINE)[1:]
    assert len(sections) > 40
    terms = []
    for letter, section in zip(sections[::2], sections[1::2], strict=True):
        own = re.findall(r"^### (.+)", section, re.MULTILINE)
        assert {term[0].upper() for term in own} == {letter}
        terms += own
    assert terms == sorted(terms, key=lambda term: re.sub(r"\W", "", term.lower()))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_between_files_are_valid(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / name).read_text("utf-8")):
        assert (ROOT / target).exists(), f"{name} links to {target}"


def test_each_benchmark_is_described_once() -> None:
    described = re.findall(r"^\| `python -m benchmarks\.(\w+)", BENCHMARKS, re.MULTILINE)
    modules = {"cost"}  # a package
    for path in (ROOT / "benchmarks").glob("[a-z]*.py"):
        if 'if __name__ == "__main__"' in path.read_text("utf-8"):
            modules.add(path.stem)
    assert sorted(described) == sorted(modules)
