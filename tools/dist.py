"""Pack the site as an archive that is read without a server.

``python -m tools.dist`` packs ``site/`` in ``dist/the-executable-transformer.zip``. A reader
unpacks the archive and opens ``index.html``. Equal sites give equal archives: the files are sorted
and have a fixed time. The pages are those of the site without their preloads: browsers refuse to
preload a font from ``file://`` and report an error. The style sheet loads the same fonts.
"""

import argparse
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from tools import ROOT
from tools.browser import BrowserError
from tools.site import SITE, SiteError

FOLDER = "the-executable-transformer"
TARGET = ROOT / "dist" / f"{FOLDER}.zip"
TIME = (1980, 1, 1, 0, 0, 0)
PRELOAD = re.compile(rb'<link rel="preload"[^>]*>\n?')
READ_ME = """\
The Executable Transformer
==========================

Open index.html in a browser. The pages need no network and no server.
"""


def pack(site: Path = SITE, target: Path = TARGET) -> int:
    """Pack the site in ``target``; return the number of files."""
    if not (site / "index.html").is_file():
        raise SiteError("expected a site, found none; run `make book` first")
    files = {path.relative_to(site).as_posix(): data(path) for path in contents(site)}
    files["README.txt"] = READ_ME.encode()
    write_archive(target, FOLDER, files)
    return len(files)


def write_archive(target: Path, folder: str, files: dict[str, bytes]) -> None:
    """Write files as a zip archive that contains one folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def contents(site: Path) -> list[Path]:
    """The files of the site; what only a server needs is left out."""
    return [path for path in site.rglob("*") if path.is_file() and path.name != ".nojekyll"]


def data(path: Path) -> bytes:
    """The bytes of a file of the site in the archive."""
    found = path.read_bytes()
    return PRELOAD.sub(b"", found) if path.suffix == ".html" else found


def run(name: str, about: str | None, make: Callable[[], int], target: Path, unit: str) -> int:
    """Run a command that makes ``target`` from the site; print the number that ``make`` returns.

    The exit status is 2 on failure.
    """
    argparse.ArgumentParser(prog=f"python -m tools.{name}", description=about).parse_args()
    try:
        number = make()
    except (SiteError, BrowserError) as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return 2
    print(f"{name}: {number} {unit} in {target.relative_to(ROOT)}")
    return 0


def main() -> int:
    """Pack the site; the exit status is 2 on failure."""
    return run("dist", __doc__, pack, TARGET, "files")


if __name__ == "__main__":
    raise SystemExit(main())
