"""Serve the site on this machine, as a public server does."""

import functools
import gzip
import http.server
import io
import sys
from pathlib import Path
from typing import Any, BinaryIO

from tools.site import SiteError

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

    def end_headers(self) -> None:
        """Let browsers keep a file whose address changes with its content."""
        path = getattr(self, "path", "")  # a request line that cannot be parsed has none
        if "?v=" in path and Path(self.translate_path(path)).is_file():
            self.send_header("Cache-Control", "max-age=31536000, immutable")
        super().end_headers()

    def send_error(self, code: int, *arguments: Any) -> None:
        """Send the site's own page for an address without a page, as public servers do."""
        page = Path(self.directory, "404.html")
        if code != http.HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, *arguments)
            return
        body = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

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
