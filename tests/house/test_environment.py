"""The lock, the ranges, conda's file and the environment that runs this say the same."""

import ast
import sys
import tomllib
from collections import deque
from importlib.metadata import distribution, metadata, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import tfmr
from tools.lock import MACHINE, canonical, locked, oldest_python, public

ROOT = Path(tfmr.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
LOCKED = locked(LOCK)
EXTRAS = PROJECT["optional-dependencies"]
PEERS = [Requirement(line) for line in EXTRAS.pop("bench")]
"""What the benchmarks measure beside tfmr: installed by who runs them; not in the lock."""
REQUIREMENTS = [
    Requirement(line) for group in (PROJECT["dependencies"], *EXTRAS.values()) for line in group
]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_lock_holds_a_version_within_every_range(requirement: Requirement) -> None:
    assert canonical(requirement.name) in LOCKED, "run: make lock"
    assert requirement.specifier.contains(LOCKED[canonical(requirement.name)], prereleases=True)


def test_every_range_has_a_lower_end() -> None:
    assert all(any(s.operator == ">=" for s in r.specifier) for r in [*REQUIREMENTS, *PEERS])


def test_the_package_requires_what_it_imports_and_nothing_else() -> None:
    imported = {
        name.split(".")[0]
        for path in (ROOT / "tfmr").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    required = {canonical(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert imported - sys.stdlib_module_names - {"tfmr"} == required


def test_the_lock_is_sorted_names_and_public_versions_only() -> None:
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert lines == [f"{name}=={LOCKED[name]}" for name in sorted(LOCKED)]
    assert all(str(Version(v)) == v == public(v) for v in LOCKED.values())


@pytest.mark.parametrize("name", LOCKED)
def test_the_environment_has_the_version_of_the_lock(name: str) -> None:
    assert public(version(name)) == LOCKED[name], "run: make check (it installs the lock anew)"


@pytest.mark.parametrize("name", LOCKED)
def test_the_oldest_python_can_install_the_lock(name: str) -> None:
    pythons = SpecifierSet(metadata(name).get("Requires-Python") or "")
    assert pythons.contains(f"{oldest_python()}.0"), "run: make lock"


def needed() -> set[str]:
    """What the package and its extras need, directly or not, on this machine."""
    found: set[str] = set()
    waiting = deque((r, "") for r in REQUIREMENTS)
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.popleft()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonical(requirement.name)
        found.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                lines = distribution(name).requires or ()
                waiting.extend((Requirement(line), wanted) for line in lines)
    return found


def test_the_lock_holds_what_is_needed_and_nothing_else() -> None:
    here = {name for name in needed() if not MACHINE.match(name)}
    assert sorted(here - LOCKED.keys()) == []
    assert sorted(LOCKED.keys() - here) == []


def test_conda_and_binder_install_the_lock_and_name_no_version_themselves() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, pip, (rest) = environment["dependencies"]
    assert (
        Version(python.removeprefix("python="))
        in Requirement(f"python{PROJECT['requires-python']}").specifier
    )
    assert pip == "pip"
    assert rest == {"pip": ["-r requirements.lock", "-e ."]}


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == tfmr.__version__
    assert f"## [{tfmr.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
