"""Keep the published addresses in the README: ``python -m tools.readme``.

Fills the part of ``README.md`` between two comments from ``[project.urls]`` in ``pyproject.toml``.
With ``--check``, changes nothing and fails if something would change.
"""

import argparse
import sys
from pathlib import Path

from tools import ROOT, published

START = "<!-- addresses, written by python -m tools.readme -->\n"
END = "<!-- end of the addresses -->\n"


def addresses(root: Path = ROOT) -> str:
    """The link to the published book and the commands that clone the repository."""
    book, repository = (published(name, root) for name in ("Documentation", "Repository"))
    link = f"Read the book at <{book}>.\n\n" if book else ""
    if not repository:
        return f"{link}Clone this repository with `git clone` and change into its folder.\n"
    folder = repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return f"{link}```bash\ngit clone {repository}\ncd {folder}\n```\n"


def expected(root: Path = ROOT) -> str:
    """The README with the present addresses.

    Raises:
        ValueError: unless the README contains both comments, in this order.
    """
    before, start, rest = (root / "README.md").read_text("utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"expected {START!r} and then {END!r} in README.md")
    return f"{before}{START}\n{addresses(root)}\n{END}{after}"


def main() -> int:
    """Write the README, or check it; the exit status is 1 if the check fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a difference")
    check = parser.parse_args().check
    readme, content = ROOT / "README.md", expected()
    if readme.read_text("utf-8") == content:
        return 0
    if check:
        print("readme: README.md differs from [project.urls]; run `make format`", file=sys.stderr)
        return 1
    readme.write_text(content, "utf-8")
    print("readme: README.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
