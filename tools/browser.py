"""Find the browser that the tests of the pages drive, or install it where that is allowed.

It is the one thing that pip cannot bring. ``CHROME`` names it; otherwise a Chromium or Chrome on
the path is taken; otherwise, as root on Debian or Ubuntu, the system's package is installed.
``python -m tools.browser`` prints where it is.
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
"""Headless, as any user, and without the requests that a browser makes on its own account."""


class BrowserError(RuntimeError):
    """There is no browser; the message says what to install."""


def find() -> str | None:
    """The path of a browser that is there already, or ``None``."""
    named = os.environ.get("CHROME")
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserError(
                f"CHROME names {named!r}, which is no program: give the path of Chromium"
            )
        return found
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    return on_path or next((place for place in PLACES if Path(place).exists()), None)


def install() -> None:
    """Install Debian's Chromium, which Ubuntu has as a snap only; needs root and apt-get."""
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
                "or name it in CHROME"
            )


def browser() -> str:
    """The path of a browser, installed first if need be and allowed."""
    found = find()
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
        found = find()
    if found is None:
        raise BrowserError(
            "the tests of the pages need a browser: install Chromium or Chrome, "
            "or name it in CHROME"
        )
    return found


def main() -> int:
    """Print the path of the browser, or what to do about its absence."""
    try:
        print(browser())
    except BrowserError as problem:
        print(f"browser: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
