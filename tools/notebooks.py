"""The normal form of the chapters: running an unchanged notebook again changes no byte of its file.

``refresh`` executes chapters and stores their outputs, ``normalise`` rewrites files without
executing them, and ``check`` lists what differs from the normal form. Execution is done by nbclient
and the file format by nbformat. This module makes the rest reproducible: the setup cell, metadata,
widget identifiers, and the alternative text of pictures.
"""

import argparse
import functools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools import ROOT, standalone

CELL_SECONDS = 900
"""The time limit of a notebook cell in seconds, which allows for a busy machine."""
PNG_BYTES = 60_000
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOTEBOOK_METADATA = ("myst", "mystnb", "widgets")
CELL_METADATA = ("tags", "jupyter", standalone.COLLAPSED)
NBVAL_MARKS = re.compile(
    r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$|^(nbval-[\w-]+|raises-exception)$",
    re.MULTILINE,
)
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
REFERENCE = re.compile(r"IPY_MODEL_(\w+)")


def chapters() -> list[Path]:
    """The notebooks listed in ``_toc.yml``, in the order of the book."""
    toc = ROOT / "_toc.yml"
    if not toc.exists():
        return sorted((ROOT / "book").glob("*.ipynb"))
    names = re.findall(r"^[\s-]*(?:root|file): *(\S+)", toc.read_text("utf-8"), re.MULTILINE)
    notebooks = (ROOT / f"{name.removesuffix('.ipynb')}.ipynb" for name in names)
    return [notebook for notebook in notebooks if notebook.exists()]


def shown(path: Path) -> str:
    """``path`` relative to the project, for messages."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


@functools.cache
def matplotlib_folder() -> Path:
    """Matplotlib's folder for kernels: it contains a list of fonts and no settings.

    In the user's folder, settings would change the figures, and the list can be one of another
    environment that lacks fonts. A kernel that makes the list itself reports it on stderr.
    """
    folder = ROOT / "_build" / "matplotlib"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", "import matplotlib.font_manager"],
        env=os.environ | {"MPLCONFIGDIR": str(folder)},
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return folder


def kernel_environment() -> dict[str, str]:
    """The environment of a kernel that imports ``tfmr`` from this project.

    A kernel uses one thread by default, because chapters are executed in parallel.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    threads = {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "10000"}
    own = {"PYTHONPATH": path, "MPLCONFIGDIR": str(matplotlib_folder())}
    return threads | os.environ | own


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Execute every cell of ``notebook`` in ``folder``; return it with the new outputs.

    Raises ``CellExecutionError`` if a cell raises.
    """
    notebook.metadata.pop("widgets", None)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=kernel_environment())
    return notebook


def _stable_widgets(notebook: NotebookNode) -> None:
    """Number the widget models in order of appearance; remove unused models, code and defaults."""
    views = [
        output.data[WIDGET_VIEW]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if WIDGET_VIEW in output.get("data", {})
    ]
    stored = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {})
    state: dict[str, Any] = stored.get("state", {})
    names: dict[str, str] = {}

    def add(identifier: str) -> None:
        if identifier in state and identifier not in names:
            names[identifier] = f"{len(names) + 1:032x}"
            content = json.dumps(state[identifier]["state"], sort_keys=True)
            for reference in REFERENCE.findall(content):
                add(reference)

    for view in views:
        add(view["model_id"])
        view["model_id"] = names.get(view["model_id"], view["model_id"])
    if not names:
        notebook.metadata.pop("widgets", None)
        return
    kept = {new: _without_defaults(state[old]) for old, new in names.items()}
    text = REFERENCE.sub(
        lambda match: "IPY_MODEL_" + names.get(match[1], match[1]), json.dumps(kept)
    )
    notebook.metadata["widgets"] = nbformat.from_dict(
        {WIDGET_STATE: stored | {"state": json.loads(text)}}
    )


NOT_STARTED = """\
export default {
  render({ el }) {
    el.textContent = "Run this notebook cell to start the live figure.";
  },
};
"""
"""What JupyterLab displays in place of a figure whose cell has not been run."""


def _without_defaults(model: dict[str, Any]) -> dict[str, Any]:
    """A widget model without unset values, and without code and style, which the site has once."""
    is_layout = model.get("model_name") == "LayoutModel"
    state = {
        key: value
        for key, value in model["state"].items()
        if key not in ("_esm", "_css")
        and not (value is None and (is_layout or key in ("tabbable", "tooltip")))
    }
    if "_anywidget_id" in state:
        state["_esm"] = NOT_STARTED
    return model | {"state": state}


def normal_form(notebook: NotebookNode) -> str:
    """The text of the file of ``notebook``."""
    notebook = nbformat.from_dict(json.loads(json.dumps(notebook)))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kept = {key: notebook.metadata[key] for key in NOTEBOOK_METADATA if key in notebook.metadata}
    kept["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    kept["language_info"] = {"name": "python"}
    notebook.metadata = nbformat.from_dict(kept)
    standalone.set_up(notebook)
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {k: cell.metadata[k] for k in CELL_METADATA if cell.metadata.get(k)}
        )
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            output.pop("transient", None)
    standalone.fold_in_colab(notebook)
    _stable_widgets(notebook)
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook, version=4, indent=1)
    return text.rstrip("\n") + "\n"


def problems(notebook: NotebookNode) -> list[str]:
    """What a chapter must not contain, as one message each."""
    found = standalone.problems(notebook)
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    for number, cell in enumerate(cells, start=1):
        where = f"code cell {number}"
        if NBVAL_MARKS.search("\n".join([cell.source, *cell.metadata.get("tags", ())])):
            found.append(f"{where} excludes its output from checking; every output is checked")
        if "≈" in cell.source:
            found.append(f"{where} writes ≈; its digits are not checked: use notebook.approximate")
        pictures = 0
        for output in cell.outputs:
            data = output.get("data", {})
            text = "".join(
                [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
            )
            if output.output_type == "error":
                found.append(
                    f"{where} raises {output.ename}; catch it in the cell and print its message"
                )
            if output.output_type == "stream" and output.name == "stderr":
                first = output.text.strip().partition("\n")[0]
                found.append(f"{where} writes to stderr (a warning or a progress bar): {first}")
            if ADDRESS.search(text) or str(ROOT) in text:
                found.append(
                    f"{where} prints a memory address or a path of this machine; define __repr__"
                )
            if "image/png" in data:
                pictures += 1
                size = len(data["image/png"]) * 3 // 4
                if size > PNG_BYTES:
                    found.append(
                        f"{where} has a picture of {size // 1000} KB;"
                        f" the limit is {PNG_BYTES // 1000} KB"
                    )
                if data.get("text/plain", "<").startswith("<"):
                    found.append(
                        f"{where} has a picture without a text; use tfmr.figures and set its alt"
                    )
        if pictures > 1:
            found.append(f"{where} has {pictures} pictures; expected at most one per cell")
    return found


def read(path: Path) -> NotebookNode:
    """The notebook in the file ``path``."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def write(path: Path, text: str) -> None:
    """Replace the content of ``path`` with ``text`` atomically."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(text.encode())
    temporary.replace(path)


def refresh(path: Path) -> list[str]:
    """Execute the chapter ``path`` and store it in normal form, unless it has problems."""
    try:
        notebook = run(read(path), path.parent)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [COLOUR.sub("", str(error))]
    found = problems(notebook)
    if not found:
        write(path, normal_form(notebook))
    return found


def check(path: Path) -> list[str]:
    """The problems of ``path``, including a file that is not in normal form."""
    notebook = read(path)
    found = problems(notebook)
    if path.read_text("utf-8") != normal_form(notebook):
        found.append(f"not in normal form; run: python -m tools.notebooks normalise {shown(path)}")
    return found


def normalise(path: Path) -> list[str]:
    """Rewrite ``path`` in normal form without executing it."""
    write(path, normal_form(read(path)))
    return []


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands on the given notebooks, or on all chapters."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("command", choices=("refresh", "check", "normalise"))
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks; default: all chapters")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or chapters()
    for path in paths:
        if not path.is_file():
            parser.error(f"expected a notebook such as book/*.ipynb, got {shown(path)}")
    action = {"refresh": refresh, "check": check, "normalise": normalise}[options.command]
    failed = 0
    for path in paths:
        before = path.read_bytes()
        started = time.monotonic()
        found = action(path)
        failed += bool(found)
        for problem in found:
            print(f"{shown(path)}: {problem}", file=sys.stderr)
        if action is not check and not found:
            outcome = "changed" if path.read_bytes() != before else "unchanged"
            print(f"{shown(path)}: {outcome} in {time.monotonic() - started:.0f} s", flush=True)
    print(f"{options.command}: {len(paths)} notebooks, {failed} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
