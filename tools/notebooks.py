"""The normal form of the chapters: one way to store a notebook, so that a re-run changes no byte.

``refresh`` runs chapters and stores what they print, ``normalise`` only rewrites the file, and
``check`` says which files are not as ``refresh`` would leave them.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import yaml
import zmq
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets import default

from tools import ROOT

CELL_SECONDS = 120
PNG_BYTES = 60_000
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOTEBOOK_METADATA = ("myst", "mystnb", "widgets")
CELL_METADATA = ("tags", "mystnb")
NBVAL_MARKS = re.compile(
    r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$|^(nbval-[\w-]+|raises-exception)$",
    re.MULTILINE,
)
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
REFERENCE = re.compile(r"IPY_MODEL_(\w+)")


def chapters() -> list[Path]:
    """The notebooks that ``_toc.yml`` lists, in the order of the book."""

    def files(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (node[key] for key in ("root", "file") if key in node)
        for child in (
            node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        ):
            yield from files(child)

    toc = ROOT / "_toc.yml"
    if not toc.exists():
        return sorted((ROOT / "book").glob("*.ipynb"))
    listed = (ROOT / name for name in files(yaml.safe_load(toc.read_text("utf-8"))))
    notebooks = (
        page if page.suffix == ".ipynb" else page.with_name(page.name + ".ipynb") for page in listed
    )
    return [notebook for notebook in notebooks if notebook.exists()]


def shown(path: Path) -> str:
    """``path`` as the reader of a message would type it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


class _ThisEnvironment(KernelSpecManager):
    """Knows one kernel: the Python that runs this program, whatever is installed beside it."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


class _KernelManager(AsyncKernelManager):
    @default("kernel_spec_manager")
    def _this_environment(self) -> KernelSpecManager:
        return _ThisEnvironment()

    @default("transport_encryption")
    def _encrypt_when_possible(self) -> str:
        return "auto" if zmq.has("curve") else "disabled"


def kernel_environment() -> dict[str, str]:
    """The environment of a kernel that imports ``tfmr`` from this folder and from nowhere else.

    One thread, unless the caller asks for another number: chapters run side by side, and a second
    thread each would spend its time waiting for the other chapter's.
    """
    inherited = os.environ.get("PYTHONPATH")
    threads = {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "10000"}
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])}
    return threads | os.environ | path


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Execute every cell of ``notebook`` in ``folder`` and return it with its new outputs.

    Raises ``CellExecutionError`` when a cell raises.
    """
    notebook.metadata.pop("widgets", None)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        kernel_manager_class=_KernelManager,
    )
    client.execute(env=kernel_environment())
    return notebook


def _cell_ids(cells: list[NotebookNode]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for cell in cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        yield digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _joined_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """``outputs`` with neighbouring pieces of one stream joined: only timing cuts them."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """``value`` with every reference to a widget model given its new name."""
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        return REFERENCE.sub(lambda found: "IPY_MODEL_" + names.get(found[1], found[1]), value)
    return value


def _without_noise(model: dict[str, Any]) -> dict[str, Any]:
    """A widget model without what the page has from elsewhere: code, style, values not set."""
    layout = model.get("model_name") == "LayoutModel"
    state = {
        key: value
        for key, value in model["state"].items()
        if key not in ("_esm", "_css")
        and not (value is None and (layout or key in ("tabbable", "tooltip")))
    }
    return model | {"state": state}


def _stable_widgets(notebook: NotebookNode) -> None:
    """Name the widget models in the order in which the page meets them; drop the others."""
    views = [
        output.data[WIDGET_VIEW]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if WIDGET_VIEW in output.get("data", {})
    ]
    stored = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {})
    state: dict[str, Any] = stored.get("state", {})
    names: dict[str, str] = {}

    def meet(identifier: str) -> None:
        if identifier in state and identifier not in names:
            names[identifier] = f"{len(names) + 1:032x}"
            for reference in REFERENCE.findall(
                json.dumps(state[identifier]["state"], sort_keys=True)
            ):
                meet(reference)

    for view in views:
        meet(view["model_id"])
        view["model_id"] = names.get(view["model_id"], view["model_id"])
    if not names:
        notebook.metadata.pop("widgets", None)
        return
    kept = {new: _renamed(_without_noise(state[old]), names) for old, new in names.items()}
    notebook.metadata["widgets"] = nbformat.from_dict({WIDGET_STATE: stored | {"state": kept}})


def _describe_image(cell: NotebookNode) -> None:
    """Give the picture of a cell its own text as the page's alternative text."""
    mystnb = {
        key: value for key, value in cell.metadata.get("mystnb", {}).items() if key != "image"
    }
    image = {
        key: value
        for key, value in cell.metadata.get("mystnb", {}).get("image", {}).items()
        if key != "alt"
    }
    for output in cell.outputs:
        if "image/png" in output.get("data", {}):
            image["alt"] = output.data.get("text/plain", "")
    if image:
        mystnb["image"] = image
    cell.metadata.pop("mystnb", None)
    if mystnb:
        cell.metadata["mystnb"] = nbformat.from_dict(mystnb)


def normal_form(notebook: NotebookNode) -> str:
    """The one text in which ``notebook`` is stored."""
    notebook = nbformat.from_dict(json.loads(json.dumps(notebook)))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kept = {key: notebook.metadata[key] for key in NOTEBOOK_METADATA if key in notebook.metadata}
    kept["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    kept["language_info"] = {"name": "python"}
    notebook.metadata = nbformat.from_dict(kept)
    count = 0
    for cell, identifier in zip(notebook.cells, _cell_ids(notebook.cells), strict=True):
        cell.id = identifier
        cell.metadata = nbformat.from_dict(
            {k: cell.metadata[k] for k in CELL_METADATA if cell.metadata.get(k)}
        )
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = _joined_streams(cell.outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            output.pop("transient", None)
        _describe_image(cell)
    _stable_widgets(notebook)
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook, version=4, indent=1)
    return text.rstrip("\n") + "\n"


def problems(notebook: NotebookNode) -> list[str]:
    """What may not be stored in a chapter, a sentence each: empty when all is well."""
    found = []
    for number, cell in enumerate(
        (cell for cell in notebook.cells if cell.cell_type == "code"), start=1
    ):
        where = f"code cell {number}"
        if NBVAL_MARKS.search("\n".join([cell.source, *cell.metadata.get("tags", ())])):
            found.append(f"{where} asks for its output not to be checked; every output is checked")
        pictures = 0
        for output in cell.outputs:
            data = output.get("data", {})
            text = "".join(
                [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
            )
            if output.output_type == "error":
                found.append(
                    f"{where} raises {output.ename}; catch it in the cell and print what it says"
                )
            if output.output_type == "stream" and output.name == "stderr":
                first = output.text.strip().splitlines()[0] if output.text.strip() else ""
                found.append(f"{where} writes to stderr (a warning or a progress bar): {first}")
            if ADDRESS.search(text) or str(ROOT) in text:
                found.append(
                    f"{where} prints an address or a path of this machine; give the object a repr"
                )
            if "image/png" in data:
                pictures += 1
                size = len(data["image/png"]) * 3 // 4
                if size > PNG_BYTES:
                    found.append(
                        f"{where} draws a picture of {size // 1000} KB;"
                        f" keep it under {PNG_BYTES // 1000} KB"
                    )
                if data.get("text/plain", "<").startswith("<"):
                    found.append(
                        f"{where} draws a picture without a text; use tfmr.figures and set its alt"
                    )
        if pictures > 1:
            found.append(
                f"{where} draws {pictures} pictures; one picture a cell, each with its own text"
            )
    return found


def read(path: Path) -> NotebookNode:
    """The notebook in the file ``path``."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def write(path: Path, text: str) -> bool:
    """Store ``text`` in ``path`` at one stroke; say whether that changed a byte."""
    if path.exists() and path.read_bytes() == text.encode():
        return False
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(text.encode())
    beside.replace(path)
    return True


def refresh(path: Path) -> list[str]:
    """Run the chapter ``path`` and store it in normal form; store nothing if there is a problem."""
    try:
        notebook = run(read(path), path.parent)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [COLOUR.sub("", str(error))]
    found = problems(notebook)
    if not found:
        write(path, normal_form(notebook))
    return found


def check(path: Path) -> list[str]:
    """What keeps ``path`` from being in normal form: empty when it is."""
    notebook = read(path)
    found = problems(notebook)
    if path.read_text("utf-8") != normal_form(notebook):
        found.append(f"not in normal form; run: python -m tools.notebooks normalise {shown(path)}")
    return found


def normalise(path: Path) -> list[str]:
    """Rewrite ``path`` in normal form without running it."""
    write(path, normal_form(read(path)))
    return []


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands on the chapters named, or on all of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("command", choices=("refresh", "check", "normalise"))
    parser.add_argument(
        "paths", nargs="*", type=Path, help="notebooks; all chapters of the book when none is named"
    )
    chosen = parser.parse_args(arguments)
    paths = [path.resolve() for path in chosen.paths] or chapters()
    for path in paths:
        if not path.is_file():
            parser.error(f"{shown(path)} is no notebook: name one of book/*.ipynb")
    action = {"refresh": refresh, "check": check, "normalise": normalise}[chosen.command]
    failed = 0
    for path in paths:
        before = path.read_bytes()
        started = time.monotonic()
        found = action(path)
        outcome = "changed" if path.read_bytes() != before else "unchanged"
        seconds = f" in {time.monotonic() - started:.0f} s" if action is refresh else ""
        failed += bool(found)
        for problem in found:
            print(f"{shown(path)}: {problem}", file=sys.stderr)
        if action is not check and not found:
            print(f"{shown(path)}: {outcome}{seconds}", flush=True)
    print(f"{chosen.command}: {len(paths)} notebooks, {failed} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
