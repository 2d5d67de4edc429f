"""The local server of the site."""

from pathlib import Path

import pytest

from tools.site import SiteError
from tools.site.server import server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<title>The book</title>")
    return tmp_path


@pytest.mark.parametrize("lost", [BrokenPipeError, ConnectionResetError])
def test_a_connection_that_a_browser_closes_is_not_reported(
    folder: Path, lost: type[OSError], capsys: pytest.CaptureFixture[str]
) -> None:
    with server(folder, 0) as running:
        try:
            raise lost
        except lost:
            running.handle_error(None, ("127.0.0.1", 1))
    assert capsys.readouterr().err == ""


def test_any_other_error_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(folder, 0) as running:
        try:
            raise ValueError("broken handler")
        except ValueError:
            running.handle_error(None, ("127.0.0.1", 1))
    assert "broken handler" in capsys.readouterr().err


def test_a_folder_without_a_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="run `make book` first"):
        server(tmp_path, 0)
