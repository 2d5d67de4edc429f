"""Find the browser for the tests of the pages, or install it.

pip cannot install a browser. The tests use the program named by the environment variable
``CHROME``, or an installed Chromium or Chrome. If there is none and the user is root on Debian or
Ubuntu, Chromium is installed from the system's packages. ``python -m tools.browser`` prints the
path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
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
)
"""Run without a display, as any user, and without background network requests."""


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


def install() -> None:
    """Install the package chromium with apt-get, as root."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (
        ["update", "-q"],
        ["install", "-y", "-q", "--no-install-recommends", "chromium"],
    ):
        print(f"browser: apt-get {' '.join(arguments)}", file=sys.stderr, flush=True)
        done = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise BrowserError(
                f"apt-get {arguments[0]} failed ({' '.join(reason)}): install Chromium, "
                "or set CHROME to its path"
            )


def browser() -> str:
    """The path of a browser; it is installed if none is found and the user is root."""
    found = find()
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
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
