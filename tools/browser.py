"""Find the browser for the tests of the pages, or install it.

pip cannot install a browser. The tests use the program named by the environment variable
``CHROME``, or an installed Chromium or Chrome. If there is none and the user is root on Debian or
Ubuntu, Chromium is installed from the system's packages. ``python -m tools.browser`` prints the
path.

Chromium's headless shell comes first: it draws pages as Chromium does, but has no windows and
menus, so that a page takes about a third less processor time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = (
    *("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
"""Run without a display, as any user, and reach no other machine."""
PACKAGES = ("chromium-headless-shell", "chromium")
"""Packages with a browser; older systems lack the first."""


class BrowserError(RuntimeError):
    """No browser was found; the message states what to install."""


def find() -> str | None:
    """The path of an installed browser, or ``None``."""
    named = os.environ.get("CHROME")
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserError(
                f"expected a program in CHROME, got {named!r}; give the path of Chromium"
            )
        return found
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    return on_path or next((place for place in PLACES if Path(place).exists()), None)


def can_install() -> bool:
    """Whether the system's packages can be installed: as root, on Debian or Ubuntu."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt(*arguments: str) -> str:
    """Run apt-get as root; the last line of its output is returned if it failed."""
    print(f"browser: apt-get {' '.join(arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        ["apt-get", *arguments],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (lines or ["no message"])[-1]


def install() -> None:
    """Install the first of the packages that there is, with apt-get, as root."""
    problem = apt("update", "-q")
    for package in () if problem else PACKAGES:
        problem = apt("install", "-y", "-q", "--no-install-recommends", package)
        if not problem:
            return
    raise BrowserError(f"apt-get failed ({problem}): install Chromium, or set CHROME to its path")


def browser() -> str:
    """The path of a browser; it is installed if none is found and the user is root."""
    found = find()
    if found is None and can_install():
        install()
        found = find()
    if found is None:
        raise BrowserError(
            "the tests of the pages need a browser: install Chromium or Chrome, "
            "or set CHROME to its path"
        )
    return found


def main() -> int:
    """Print the path of the browser, or how to install one."""
    try:
        print(browser())
    except BrowserError as problem:
        print(f"browser: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
