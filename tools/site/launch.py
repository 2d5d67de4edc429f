"""Buttons for the repository, Colab and Binder, if the address of the repository is set."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from tools import published

ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")
SERVICES = {
    "Binder": "https://mybinder.org/v2/gh/{name}/main?urlpath=lab/tree/{file}",
    "Colab": "https://colab.research.google.com/github/{name}/blob/main/{file}",
}


def buttons(repository: str, file: str) -> dict[str, Any]:
    """The addresses of the repository, and of the services that open ``file`` if it is a notebook.

    Raises:
        ExtensionError: if ``repository`` is not the address of a repository on GitHub.
    """
    found = ADDRESS.fullmatch(repository)
    if found is None:
        raise ExtensionError(
            "expected Repository in pyproject.toml to be the address of the repository, such as "
            f"https://github.com/owner/name, got {repository!r}"
        )
    services = SERVICES if file.endswith(".ipynb") else {}
    return {
        "repository": f"https://github.com/{found[1]}",
        "launch": {
            service: address.format(name=found[1], file=file)
            for service, address in services.items()
        },
    }


def add_buttons(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the template the addresses, if the project is published."""
    repository = published("Repository", Path(app.srcdir))
    if repository:
        context.update(buttons(repository, context.get("sourcename", "")))
