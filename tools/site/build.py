"""Build the pages with Jupyter Book, and replace the previous site by them."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools import ROOT, published
from tools.site import LANGUAGE, SITE, SiteError
from tools.site.head import published_tags

FRONT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url=en/index.html">
<meta name="description" content="From recurrent networks to a Transformer that translates.">
<meta property="og:title" content="The Executable Transformer">
<meta property="og:description" content="From recurrent networks to a Transformer that translates.">
<title>The Executable Transformer</title>
<link rel="icon" href="en/_static/favicon.svg" type="image/svg+xml">
{published}</head>
<body>
<main><h1>The Executable Transformer</h1><p><a href="en/index.html">Read the book</a></p></main>
</body>
</html>
"""
"""The page at the address of the site; it leads to the cover."""
NOT_FOUND = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="This page does not exist.">
<title>Page not found – The Executable Transformer</title>
</head>
<body>
<main><h1>Page not found</h1>
<p>The book has no page at this address. It may have moved.</p>
<p><a href="{home}/en/index.html">The Executable Transformer</a>,
<a href="{home}/en/search.html">search</a></p></main>
</body>
</html>
"""
"""The page for all addresses without one; its links begin at the root of the site."""


def build_pages(root: Path, out: Path) -> Path:
    """Build the book in ``root`` below ``out``, warnings as errors; return the pages' folder."""
    command = [
        *(sys.executable, "-c", "import tools; from jupyter_book.cli.main import main; main()"),
        *("build", "-W", "-n", "--keep-going", "-q", str(root), "--path-output", str(out)),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(ROOT)])}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    pages = out / "_build" / "html"
    if done.returncode != 0 or not (pages / "index.html").is_file():
        print(re.sub(r"\x1b\[[\d;]*m", "", done.stderr or done.stdout), file=sys.stderr)
        raise SiteError("building the pages failed; the site was not changed")
    return pages


def build(root: Path = ROOT, site: Path = SITE, ready: Callable[[], object] = lambda: None) -> Path:
    """Build the book into ``site``; return the folder of its pages.

    ``ready`` is called before the previous site is replaced; an exception from it prevents that.
    """
    site.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site, prefix=".building-") as temporary:
        pages = build_pages(root, Path(temporary))
        ready()
        (pages / ".buildinfo").unlink(missing_ok=True)
        target, old = site / LANGUAGE, Path(temporary) / "old"
        if target.exists():
            target.rename(old)
        pages.rename(target)
    front = FRONT.format(published=published_tags("index.html", root))
    (site / "index.html").write_text(front, encoding="utf-8")
    home = (published("Documentation", root) or "").rstrip("/")
    (site / "404.html").write_text(NOT_FOUND.format(home=home), encoding="utf-8")
    (site / ".nojekyll").touch()
    return target
