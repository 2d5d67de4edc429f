"""Build the book's site, and serve it locally.

``python -m tools.site build`` requires that all chapters are verified, builds the pages with
warnings as errors, and then replaces ``site/en/``; if a build fails, the previous site remains.
``python -m tools.site serve`` serves the site on this machine.
"""

import argparse
import functools
import gzip
import http.server
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from tools import ROOT, published, vendor
from tools.verify import NotVerifiedError, require_verified

SITE = ROOT / "site"
LANGUAGE = "en"
CARD = "_static/card.png"
"""The picture that messengers display beside a link to the book."""
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


class SiteError(RuntimeError):
    """The site could not be built or served; the message states what to do."""


def build_pages(root: Path, out: Path) -> Path:
    """Build the book in ``root`` below ``out``, warnings as errors; return the pages' folder."""
    command = [
        *(sys.executable, "-c", "from jupyter_book.cli.main import main; main()"),
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


def published_tags(page: str, root: Path = ROOT) -> str:
    """The canonical address and the picture of a ``page``, if the project is published."""
    address = published("Documentation", root)
    if not address:
        return ""
    pages = f"{address.rstrip('/')}/{LANGUAGE}"
    return (
        f'<link rel="canonical" href="{pages}/{page}">\n'
        f'<meta property="og:image" content="{pages}/{CARD}">\n'
    )


def build(root: Path = ROOT, site: Path = SITE) -> Path:
    """Build the verified book into ``site``; return the folder of its pages."""
    site.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site, prefix=".building-") as temporary:
        pages = build_pages(root, Path(temporary))
        (pages / ".buildinfo").unlink(missing_ok=True)
        target, old = site / LANGUAGE, Path(temporary) / "old"
        if target.exists():
            target.rename(old)
        pages.rename(target)
    front = FRONT.format(published=published_tags("index.html", root))
    (site / "index.html").write_text(front, encoding="utf-8")
    (site / ".nojekyll").touch()
    return target


COMPRESSED = (".html", ".css", ".js", ".json", ".svg", ".txt", ".md", ".ipynb", ".wasm")


@functools.lru_cache(maxsize=512)
def compressed(file: Path, changed: int) -> bytes:
    """The content of a file, compressed with gzip; ``changed`` is its time of modification."""
    return gzip.compress(file.read_bytes(), mtime=0)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serve files without logging requests, text with gzip, as a public server does."""

    protocol_version = "HTTP/1.1"
    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".woff2": "font/woff2",
    }

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send the headers of a response, and return its body."""
        file = Path(self.translate_path(self.path))
        if self.path.partition("?")[0].endswith("/"):
            file /= "index.html"
        accepted = "gzip" in self.headers.get("Accept-Encoding", "")
        if not accepted or file.suffix not in COMPRESSED or not file.is_file():
            return super().send_head()
        body = compressed(file, file.stat().st_mtime_ns)
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(file))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Vary", "Accept-Encoding")
        self.end_headers()
        return io.BytesIO(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class QuietServer(http.server.ThreadingHTTPServer):
    """A server that does not report connections that a browser closes early."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the connection was lost."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """A local server for ``folder``; with ``port`` 0 on any free port."""
    if not (folder / "index.html").is_file():
        raise SiteError("expected a site, found none; run `make book` first")
    try:
        return QuietServer(
            ("127.0.0.1", port), functools.partial(QuietHandler, directory=str(folder))
        )
    except OSError as problem:
        raise SiteError(
            f"cannot use port {port} ({problem.strerror}); choose another with --port"
        ) from problem


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


def main() -> int:
    """Build or serve the site; the exit status is 2 on failure."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build site/en/ from verified chapters")
    serving = commands.add_parser("serve", help="serve site/ on this machine")
    serving.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free port")
    arguments = parser.parse_args()
    try:
        if arguments.command == "serve":
            serve(arguments.port)
            return 0
        require_verified()
        vendor.install()
        print("site: building the pages, with warnings as errors", flush=True)
        build()
        print(f"site: the book is in {SITE.relative_to(ROOT)}/; `make serve` serves it")
    except (NotVerifiedError, SiteError, vendor.VendorError) as problem:
        print(f"site: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
