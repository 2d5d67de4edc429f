"""The README has the published addresses, and no address before the publication."""

from pathlib import Path

import pytest

from tools import ROOT, readme

TEXT = f"# A book\n\n{readme.START}\nformer text\n\n{readme.END}\nRun it.\n"
REPOSITORY = 'Repository = "https://github.com/owner/name"'
BOOK = 'Documentation = "https://owner.github.io/name/"'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(TEXT)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def test_without_addresses_there_is_no_link(project: Path) -> None:
    text = readme.expected(project)
    assert "://" not in text
    assert "Clone this repository with `git clone` and change into its folder." in text
    assert "former text" not in text
    assert text.startswith("# A book\n")
    assert text.endswith("Run it.\n")


def test_both_addresses(project: Path) -> None:
    (project / "pyproject.toml").write_text(f"[project]\n[project.urls]\n{REPOSITORY}\n{BOOK}\n")
    text = readme.expected(project)
    assert "Read the book at <https://owner.github.io/name/>." in text
    assert "git clone https://github.com/owner/name\ncd name\n" in text
    (project / "README.md").write_text(text)
    assert readme.expected(project) == text


def test_missing_comments_are_reported(project: Path) -> None:
    (project / "README.md").write_text(readme.END + readme.START)
    with pytest.raises(ValueError, match="addresses"):
        readme.expected(project)


def test_the_readme_is_up_to_date() -> None:
    assert readme.expected() == (ROOT / "README.md").read_text("utf-8")
