"""Buttons for the repository, Colab and Binder, if the address of the repository is set."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

from tools import published

ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
SERVICES = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}


def launch_options(repository: str) -> dict[str, Any]:
    """Theme options for a repository; without one, options for no buttons."""
    address = repository.strip().removesuffix("/").removesuffix(".git")
    if not address:
        return {"repository_url": "", "use_repository_button": False, "launch_buttons": {}}
    if not ADDRESS.fullmatch(address):
        raise ExtensionError(
            "expected Repository in pyproject.toml to be the address of the repository, such as "
            f"https://github.com/owner/name, got {repository!r}"
        )
    return {
        "repository_url": address,
        "repository_branch": "main",
        "use_repository_button": True,
        "launch_buttons": dict(SERVICES),
    }


def add_buttons(app: Sphinx, config: Config) -> None:
    """Set the theme options from the address in ``pyproject.toml``."""
    address = published("Repository", Path(app.srcdir)) or ""
    config.html_theme_options.update(launch_options(address))
