"""Find Firefox and WebKitGTK, in which ``make engines`` tests the pages, or install them.

The other tests of the pages use Chromium (:mod:`tools.browser`). pip cannot install these engines
either. If one is missing and the user is root on Debian, ``python -m tools.engines`` installs it
from the system's packages.
"""

import shutil
import subprocess
import sys

from tools.browser import apt, can_install

PACKAGES = {
    "Firefox": ("firefox-esr",),
    "WebKitGTK": ("webkit2gtk-driver", "gir1.2-webkit2-4.1", "python3-gi", "xvfb"),
}
"""The packages of Debian that contain each engine and the programs that control it."""
INSTALL = ("install", "--no-install-recommends")
SYSTEM_PYTHON = "/usr/bin/python3"
"""The interpreter for which the system's packages install ``gi``, which opens WebKit's window."""
BINDING = "import gi; gi.require_version('WebKit2', '4.1'); from gi.repository import WebKit2"


def firefox() -> str | None:
    """The path of Firefox, or ``None``."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


def webkit() -> bool:
    """Whether WebKitGTK, its driver, the binding for Python and a virtual display are installed."""
    programs = ("WebKitWebDriver", "Xvfb", SYSTEM_PYTHON)
    if not all(map(shutil.which, programs)):
        return False
    return subprocess.run([SYSTEM_PYTHON, "-c", BINDING], capture_output=True).returncode == 0


def missing() -> dict[str, str]:
    """For each engine that is not installed, how to install it."""
    found = {"Firefox": firefox(), "WebKitGTK": webkit()}
    return {
        name: f"needs {name}; on Debian, run: apt-get {' '.join((*INSTALL, *PACKAGES[name]))}"
        for name in PACKAGES
        if not found[name]
    }


def main() -> int:
    """Install the engines that are missing, or print how to install them."""
    packages = [package for name in missing() for package in PACKAGES[name]]
    if packages and can_install():
        problem = apt("update", "-q") or apt(*INSTALL, "-y", "-q", *packages)
        if problem:
            print(f"engines: apt-get failed: {problem}", file=sys.stderr)
    left = missing()
    for reason in left.values():
        print(f"engines: {reason}", file=sys.stderr)
    return 2 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
