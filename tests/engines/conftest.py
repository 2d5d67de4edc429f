"""The built site in Firefox and in WebKitGTK."""

import functools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.engines.drivers import ENGINES, Engine
from tests.pages.conftest import SITE
from tools.engines import PACKAGES, missing
from tools.site.server import QuietHandler, QuietServer

FAILED: list[str] = []
"""The addresses that the server could not answer."""


class Handler(QuietHandler):
    """Serve the site, and note what is missing."""

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        if int(code) >= 400:
            FAILED.append(self.path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to the site, to which a test can add pages."""
    made = tmp_path_factory.mktemp("site")
    for entry in SITE.iterdir():
        (made / entry.name).symlink_to(entry)
    return made


@pytest.fixture(scope="session")
def address(folder: Path) -> Iterator[str]:
    server = QuietServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session", params=PACKAGES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    reason = missing().get(request.param)
    if reason:
        pytest.skip(reason)
    with ExitStack() as stack:
        yield ENGINES[request.param](tmp_path_factory.mktemp(request.param), stack)
