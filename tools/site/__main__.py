"""Build the book's site, and serve it locally.

``python -m tools.site build`` builds the pages, with warnings as errors, and meanwhile verifies the
chapters that are not verified. Then it replaces ``site/en/``. If the build or the verification
fails, the previous site remains.
``python -m tools.site serve`` serves the site on this machine.
"""

import argparse
import subprocess
import sys

from tools import ROOT, vendor
from tools.site import SITE, SiteError
from tools.site.build import build
from tools.site.server import server
from tools.verify import NotVerifiedError, require_verified


def serve(port: int) -> None:
    """Serve the site until it is interrupted."""
    with server(SITE, port) as running:
        print(
            f"The book is at http://127.0.0.1:{running.server_port}/ (stop with Ctrl-C)", flush=True
        )
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()


def require_success(verifying: "subprocess.Popen[bytes]") -> None:
    """Wait for the verification; raise :class:`NotVerifiedError` unless all chapters passed."""
    verifying.wait()
    require_verified()


def main() -> int:
    """Build or serve the site; the exit status is 2 on failure."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="verify the chapters and build site/en/")
    serving = commands.add_parser("serve", help="serve site/ on this machine")
    serving.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free port")
    arguments = parser.parse_args()
    try:
        if arguments.command == "serve":
            serve(arguments.port)
            return 0
        vendor.install()
        print("site: building the pages, with warnings as errors", flush=True)
        with subprocess.Popen([sys.executable, "-m", "tools.verify"], cwd=ROOT) as verifying:
            build(ready=lambda: require_success(verifying))
        print(f"site: the book is in {SITE.relative_to(ROOT)}/; `make serve` serves it")
    except (NotVerifiedError, SiteError, vendor.VendorError) as problem:
        print(f"site: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
