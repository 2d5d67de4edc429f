"""The lock, the version ranges, environment.yml and this environment are consistent."""

import ast
import re
import sys
import tomllib
from collections import deque
from importlib.metadata import distribution, packages_distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import tfmr
from tools import engines

ROOT = Path(tfmr.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
LOCKED = dict(line.split("==") for line in LOCK.splitlines() if "==" in line)
MACHINE = re.compile(r"^(nvidia-|cuda-|triton$|pytorch-triton|appnope$|pywin32)")
"""Packages that only some platforms need; `make lock` leaves them out."""
EXTRAS = PROJECT["optional-dependencies"]
PEERS = [Requirement(line) for line in EXTRAS.pop("bench")]
"""The systems that the benchmarks compare tfmr with; not in the lock."""
REQUIREMENTS = [
    Requirement(line) for group in (PROJECT["dependencies"], *EXTRAS.values()) for line in group
]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_lock_satisfies_every_requirement(requirement: Requirement) -> None:
    assert canonicalize_name(requirement.name) in LOCKED, "run: make lock"
    assert requirement.specifier.contains(
        LOCKED[canonicalize_name(requirement.name)], prereleases=True
    )


def test_every_requirement_has_a_lower_bound() -> None:
    assert all(any(s.operator == ">=" for s in r.specifier) for r in [*REQUIREMENTS, *PEERS])


def test_the_package_requires_exactly_what_it_imports() -> None:
    # The name of a package on import can differ from its name for pip: PIL is pillow.
    distributions = packages_distributions()
    imported = {
        canonicalize_name(distributions.get(name.split(".")[0], [name.split(".")[0]])[0])
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
    required = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert imported - {*map(canonicalize_name, sys.stdlib_module_names), "tfmr"} == required


def test_the_lock_is_sorted_and_has_public_versions() -> None:
    assert list(LOCKED) == sorted(LOCKED)
    assert all(name == canonicalize_name(name) for name in LOCKED)
    assert all(Version(v).public == v for v in LOCKED.values())


def test_the_environment_has_the_versions_of_the_lock() -> None:
    installed = {name: Version(version(name)).public for name in LOCKED}
    assert installed == LOCKED, "run: make check (it installs the lock again)"


def needed() -> set[str]:
    """All direct and indirect requirements of the package and its extras on this machine."""
    found: set[str] = set()
    waiting = deque((r, "") for r in REQUIREMENTS)
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.popleft()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found.add(name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                lines = distribution(name).requires or ()
                waiting.extend((Requirement(line), extra) for line in lines)
    return found


def test_the_lock_has_exactly_the_requirements() -> None:
    here = {name for name in needed() if not MACHINE.match(name)}
    assert sorted(here - LOCKED.keys()) == []
    assert sorted(LOCKED.keys() - here) == []


def test_environment_yml_installs_the_lock() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    python, pip, (rest) = environment["dependencies"]
    assert (
        Version(python.removeprefix("python="))
        in Requirement(f"python{PROJECT['requires-python']}").specifier
    )
    assert pip == "pip"
    assert rest == {"pip": ["-r requirements.lock", "-e ."]}


def test_the_version_is_the_same_everywhere() -> None:
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == tfmr.__version__
    assert f"## [{tfmr.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_a_missing_engine_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert engines.main() == 2
    lines = capsys.readouterr().err.splitlines()
    command = "on Debian, run: apt-get install --no-install-recommends"
    assert [line.split(";")[0] for line in lines] == [
        "engines: needs Firefox",
        "engines: needs WebKitGTK",
    ]
    assert lines[0].endswith(f"{command} firefox-esr")
    assert f"{command} webkit2gtk-driver " in lines[1]
