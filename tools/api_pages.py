"""Keep one page of the reference per module: ``python -m tools.api_pages``.

Writes ``book/api/<module>.md`` for each module, which ``book/_ext/api.py`` fills with the
documentation, removes pages of modules that are gone, and lists the pages in ``_toc.yml``. With
``--check``, changes nothing and fails if something would change.
"""

import argparse
import re
import sys
from pathlib import Path

from tools import ROOT, module_order

PAGE = "book/api"
MODULE_MARK = "<!-- module -->"
DEFINITION = re.compile(r"^(class|def) ", re.MULTILINE)
ENTRY = re.compile(rf"^( *)- file: {PAGE}/.*\n", re.MULTILINE)


def modules(package: Path) -> list[str]:
    """Dotted names of the modules below ``package``, in the order of the package.

    A subpackage is included if it defines a class or a function itself.
    """
    order = module_order()
    found = []
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        if parts[-1] == "__init__" and DEFINITION.search(file.read_text("utf-8")):
            parts = parts[:-1]
        # The package itself is described at the top of the page, by its exports.
        if len(parts) > 1 and not any(part.startswith("_") for part in parts):
            found.append(parts)

    def rank(parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        return (order.index(parts[1]) if parts[1] in order else len(order), parts)

    return [".".join(parts) for parts in sorted(found, key=rank)]


def page_of(module: str) -> str:
    """The page of a module: ``book/api/data-batches`` for ``tfmr.data.batches``."""
    return f"{PAGE}/{module.partition('.')[2].replace('.', '-')}"


def expected(root: Path) -> dict[Path, str | None]:
    """The files that have to change, with their new content; ``None`` if the file has to go."""
    names = modules(root / "tfmr")
    pages = {root / f"{page_of(name)}.md": f"# {name}\n\n{MODULE_MARK}\n" for name in names}
    toc = root / "_toc.yml"
    text = toc.read_text("utf-8")
    entry = ENTRY.search(text)
    if entry is None:
        raise ValueError(f"expected an entry '- file: {PAGE}/...' in {toc.name}, found none")
    entries = "".join(f"{entry.group(1)}- file: {page_of(name)}\n" for name in names)
    rest = ENTRY.sub("", text)
    listed = rest[: entry.start()] + entries + rest[entry.start() :]
    wanted: dict[Path, str | None] = {**pages, toc: listed}
    wanted |= {file: None for file in (root / PAGE).glob("*.md") if file not in pages}
    return {
        file: content
        for file, content in wanted.items()
        if (file.read_text("utf-8") if file.exists() else None) != content
    }


def main() -> int:
    """Write the pages, or check them; the exit status is 1 if a check fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.api_pages", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a difference")
    check = parser.parse_args().check
    changes = expected(ROOT)
    for file, content in changes.items():
        print(f"api_pages: {file.relative_to(ROOT)}", file=sys.stderr if check else sys.stdout)
        if check:
            continue
        if content is None:
            file.unlink()
        else:
            file.write_text(content, "utf-8")
    if check and changes:
        print("api_pages: these files differ from the modules; run `make format`", file=sys.stderr)
    return int(check and bool(changes))


if __name__ == "__main__":
    raise SystemExit(main())
