"""The chapters in JupyterLab: what a reader sees, Run All, an experiment, and the live figure."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page

import tfmr.widgets
from tests.pages.live import STATE, operate
from tools import standalone
from tools.lab import PAGES, copy_chapters
from tools.notebooks import chapters, kernel_environment

ATTENTION = "04-self-attention.ipynb"
TRANSLATOR = "translator.ipynb"
DECODER = "09-decoder.ipynb"
NAMES = sorted({path.name for path in chapters()} - {ATTENTION, TRANSLATOR, DECODER})
"""The chapters that no further test opens."""
WHOLE = {"@jupyterlab/notebook-extension": {"tracker": {"windowingMode": "none"}}}
"""JupyterLab renders all cells, not only the visible ones."""
UNTOUCHED = {"@jupyterlab/apputils-extension": {"notification": {"fetchNews": "false"}}}
READY_SECONDS = 300
OPEN_TIME, RUN_TIME = 300_000, 600_000
"""In milliseconds, as Playwright expects; long enough for a busy machine."""


class Lab:
    """A running JupyterLab and a browser's page that shows one of its notebooks."""

    def __init__(self, page: Page, address: str, folder: Path) -> None:
        self.page, self.address, self.folder = page, address, folder

    def open(self, name: str, *, kernel: bool = True) -> Locator:
        """Show a notebook alone, with or without a kernel, when all its cells are rendered."""
        if "/lab" not in self.page.url:
            self.page.goto(f"{self.address}/lab?reset", wait_until="domcontentloaded")
            self.page.wait_for_function("() => window.jupyterapp?.shell.currentWidget")
        self.page.evaluate(
            """async ([path, shouldStart]) => {
                for (const widget of [...jupyterapp.shell.widgets("main")]) widget.dispose();
                const kernelPreference = { shouldStart };
                await jupyterapp.commands.execute("docmanager:open", { path, kernelPreference });
            }""",
            [name, kernel],
        )
        notebook = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook")
        cells = len(json.loads((self.folder / name).read_text("utf-8"))["cells"])
        self.page.wait_for_function(
            "count => document.querySelectorAll('.jp-Notebook .jp-Cell').length === count",
            arg=cells,
        )
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-MarkdownOutput')].every(e => e.textContent)"
        )
        return notebook

    def execute(self, command: str) -> None:
        """Execute a command of JupyterLab and wait for its end."""
        self.page.evaluate("name => jupyterapp.commands.execute(name)", command)

    def run_all(self) -> None:
        """Run all cells and wait until the last one has ended."""
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
        )
        self.page.set_default_timeout(RUN_TIME)
        self.execute("notebook:run-all-cells")
        self.page.set_default_timeout(OPEN_TIME)

    def evaluate(self, code: str) -> list[dict[str, Any]]:
        """Run ``code`` in a new cell at the end of the notebook; return its outputs."""
        return list(
            self.page.evaluate(
                """async code => {
                    const panel = jupyterapp.shell.currentWidget;
                    const run = (name) => jupyterapp.commands.execute(name);
                    panel.content.activeCellIndex = panel.content.widgets.length - 1;
                    await run("notebook:insert-cell-below");
                    const cell = panel.content.activeCell;
                    cell.model.sharedModel.setSource(code);
                    await run("notebook:run-cell");
                    return cell.model.outputs.toJSON();
                }""",
                code,
            )
        )

    def ask(self, code: str) -> str:
        """What ``code`` prints, run in the kernel without a cell, which takes less time."""
        return str(
            self.page.evaluate(
                """async code => {
                    const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
                    const future = kernel.requestExecute({ code }), printed = [];
                    future.onIOPub = ({ content }) => printed.push(content.text ?? "");
                    const { content } = await future.done;
                    if (content.status !== "ok") throw new Error(content.evalue);
                    return printed.join("");
                }""",
                code,
            )
        )

    def messages(self) -> list[str]:
        """The errors and the outputs on stderr of all cells."""
        return list(
            self.page.evaluate(
                """() => [...jupyterapp.shell.currentWidget.model.cells]
                    .filter((cell) => cell.type === "code")
                    .flatMap((cell) => cell.outputs.toJSON())
                    .filter((o) => o.output_type === "error" || o.name === "stderr")
                    .map((o) => [o.evalue ?? o.text].flat().join(""))"""
            )
        )

    def edit(self, old: str, new: str) -> None:
        """Replace ``old`` by ``new`` in the only code cell that contains it."""
        changed = self.page.evaluate(
            """([old, changed]) => {
                const cells = [...jupyterapp.shell.currentWidget.model.cells];
                const found = cells.filter(
                    (cell) => cell.type === "code" && cell.sharedModel.source.includes(old)
                );
                for (const cell of found) {
                    cell.sharedModel.setSource(cell.sharedModel.source.replace(old, changed));
                }
                return found.length;
            }""",
            [old, new],
        )
        assert changed == 1

    def counts(self) -> list[int | None]:
        """The execution counts of the code cells, ``None`` for a cell that did not run."""
        return list(
            self.page.evaluate(
                """() => [...jupyterapp.shell.currentWidget.model.cells]
                    .filter((cell) => cell.type === "code")
                    .map((cell) => cell.executionState === "idle" ? cell.executionCount : null)"""
            )
        )

    def close(self) -> None:
        """Shut the kernel down."""
        self.page.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll()")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    folder = home / "chapters"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(home / "data"))  # where trusted notebooks are listed
        copy_chapters(folder)
    settings = home / "settings"
    for extension, plugins in (WHOLE | UNTOUCHED).items():
        (settings / extension).mkdir(parents=True)
        for plugin, values in plugins.items():
            file = settings / extension / f"{plugin}.jupyterlab-settings"
            file.write_text(json.dumps(values), "utf-8")
    environment = kernel_environment() | {
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    log = (home / "log").open("w")
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.port=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.collaborative=False"),
    ]
    server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        address = wait_for_server(home / "runtime", home / "log")
        page = chromium.new_page()
        page.set_default_timeout(OPEN_TIME)
        yield Lab(page, address, folder)
        page.close()
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            # Seen once: JupyterLab logged the signal and the shutdown of its extensions, and hung.
            server.kill()
            server.wait()
        log.close()


def wait_for_server(runtime: Path, log: Path) -> str:
    """The address of the server, when it answers."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        for file in runtime.glob("jpserver-*.json"):
            url = str(json.loads(file.read_text("utf-8") or "{}").get("url", ""))
            try:
                urllib.request.urlopen(f"{url}api", timeout=2).close()
            except (OSError, ValueError):
                continue
            return url.rstrip("/")
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text('utf-8')}")


def opened(lab: Lab, name: str, *, kernel: bool = True) -> Locator:
    """Open a chapter; it must have no raw markup, and all its drawings, hints and solutions."""
    notebook = lab.open(name, kernel=kernel)
    texts = notebook.locator(".jp-RenderedMarkdown").all_text_contents()
    assert len("".join(texts)) > (2000 if name == TRANSLATOR else 5000)
    assert standalone.RAW.findall("\n".join(texts)) == []
    assert not re.search(r"\{(?:cite|term|ref|doc)\b|:label:|:pyobject:", "".join(texts))
    solutions = [text for text in texts if text.startswith("Solution of exercise")]
    folded = notebook.locator(".jp-collapseHeadingButton.jp-mod-collapsed")
    assert folded.count() == len(solutions)
    stored = (lab.folder / name).read_text("utf-8")
    assert notebook.locator(".jp-RenderedSVG").count() == stored.count('"image/svg+xml"')
    hints = stored.count("<details>")
    assert notebook.locator("details:not([open]) > summary").count() == hints
    return notebook


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_has_no_raw_markup(lab: Lab, name: str) -> None:
    opened(lab, name, kernel=False)


@pytest.fixture(scope="module")
def attention(lab: Lab) -> Locator:
    """A chapter with a live figure, of which all cells were run once, for the next three tests."""
    notebook = opened(lab, ATTENTION)
    lab.run_all()
    assert None not in lab.counts()
    assert lab.messages() == []
    return notebook


def test_an_error_of_the_package_is_short(lab: Lab, attention: Locator) -> None:
    [error] = lab.evaluate("scaled_dot_product_attention(Q, K[:, :1], V)")
    assert error["output_type"] == "error"
    first, line, last = error["traceback"]
    assert first.startswith("TfmrError: queries and keys need the same d_k")
    assert line == "line 1 of the cell: scaled_dot_product_attention(Q, K[:, :1], V)"
    assert last == "The full traceback: %tb"
    attention.get_by_text(first).wait_for()
    lab.execute("notebook:delete-cell")  # it would end the next run of all cells


def test_the_live_figure_is_connected_to_python(lab: Lab, attention: Locator) -> None:
    live = attention.locator(".live").first
    live.get_by_role("radio", name="good", exact=True).check()
    [output] = lab.evaluate("print(live.selected)")
    assert output["text"] == "2\n"
    lab.evaluate("live.selected = 1")
    live.get_by_role("radio", name="am", exact=True, checked=True).wait_for()


def test_an_experiment_is_explained_and_the_notebook_continues(
    lab: Lab, attention: Locator
) -> None:
    lab.edit("scaled = S / math.sqrt(d_k)", "scaled = S")
    lab.run_all()
    assert None not in lab.counts()
    messages = lab.messages()
    assert messages
    assert all(message.startswith("This differs from the book") for message in messages)
    lab.close()


def stored_figures() -> dict[str, dict[str, Any]]:
    """The state of each figure of the book, by the name of its class."""
    found: dict[str, dict[str, Any]] = {}
    for path in chapters():
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        for model in metadata.get("widgets", {}).get(STATE, {}).get("state", {}).values():
            name = str(model["state"].get("_anywidget_id", "")).rpartition(".")[2]
            if name in tfmr.widgets.__all__:
                found[name] = model["state"]
    return found


FIGURES = stored_figures()
OTHERS = {"LiveFigure", "TranslatorFigure"}
"""The base class, and a figure that first loads a model: it has a test of its own."""
MADE = """\
import json
import tfmr.widgets
state = {{k: v for k, v in json.loads({state!r}).items() if k[0] != "_" and k != "layout"}}
live = tfmr.widgets.{name}.__new__(tfmr.widgets.{name})
tfmr.widgets.LiveFigure.__init__(live, **state)
live.summary = lambda: "made from its state"
live
"""


@pytest.fixture(scope="module")
def figures_notebook(lab: Lab) -> Iterator[Lab]:
    """A notebook without cells but one, to show one figure after the other."""
    cell = nbformat.v4.new_code_cell("1", id="first")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    (lab.folder / "figures.ipynb").write_text(nbformat.writes(notebook), "utf-8")
    lab.open("figures.ipynb")
    lab.run_all()
    yield lab
    lab.close()


@pytest.mark.parametrize("name", sorted({*FIGURES, *tfmr.widgets.__all__} - OTHERS))
def test_every_figure_is_synchronised_with_python(figures_notebook: Lab, name: str) -> None:
    lab = figures_notebook

    def python(code: str) -> Any:
        return json.loads(lab.ask(f"print(json.dumps({code}))"))

    def becomes(text: str, equal: bool) -> None:
        lab.page.wait_for_function(
            "([e, text, equal]) => (e.innerText.replace('As before: ', '') === text) === equal",
            arg=[live.element_handle(), text, equal],
            polling=100,
        )

    def python_has(expected: Any) -> None:
        # JupyterLab sends the changes of a busy widget later than it draws them.
        for _ in range(300):
            if python(state) == expected:
                return
            lab.page.wait_for_timeout(200)
        assert python(state) == expected

    lab.execute("notebook:clear-all-cell-outputs")
    lab.evaluate(MADE.format(name=name, state=json.dumps(FIGURES[name])))
    live = lab.page.locator(".live").last
    live.wait_for()
    state = "{k: getattr(live, k) for k in state}"
    first, text = python(state), live.inner_text()
    operate(live)
    second = python(state)
    changed = [key for key in first if first[key] != second[key]]
    assert changed, "no control changed a trait"
    live.get_by_role("button", name="Reset").click()
    becomes(text, True)
    python_has(first)
    for traits, equal in ((second, False), (first, True)):
        lines = [f"live.{key} = json.loads({json.dumps(traits[key])!r})" for key in changed]
        lab.ask("\n".join(lines))
        becomes(text, equal)


def test_translator_and_stages_get_their_model_from_python(lab: Lab) -> None:
    notebook = opened(lab, TRANSLATOR)
    lab.run_all()
    live = notebook.locator(".live").first
    live.get_by_role("button", name="Load the model").click()
    live.locator(".tra-translation").wait_for()
    [output] = lab.evaluate("print(translator.translation == translator.translate())")
    assert output["text"] == "True\n"
    lab.evaluate("translator.text = 'Zwei Hunde.'")
    live.get_by_role("button", name="Translate").click()
    live.get_by_text("Two dogs.", exact=True).wait_for()
    flow = notebook.locator(".live").nth(1)
    lab.evaluate("flow.text = 'Zwei Frauen lachen.'")
    flow.get_by_role("button", name="Load the model").click()
    flow.get_by_text("“Zwei Frauen lachen.” has 4 tokens.").wait_for()
    [output] = lab.evaluate("print(*flow.trace().source)")
    assert flow.locator(".tra-chips b").all_inner_texts() == output["text"].split()
    lab.close()


# No other test may change this copy: after two minutes, JupyterLab saves a changed notebook.
def test_saving_does_not_change_the_book(lab: Lab) -> None:
    original = next(path for path in chapters() if path.name == DECODER)
    before = original.read_bytes()
    assert (lab.folder / DECODER).read_bytes() == before
    opened(lab, DECODER)
    lab.evaluate("1 + 1")
    lab.execute("docmanager:save")
    assert (lab.folder / DECODER).read_bytes() != before
    assert original.read_bytes() == before
    lab.close()


def test_a_changed_working_copy_is_kept(tmp_path: Path) -> None:
    source, lab = tmp_path / "01-x.md", tmp_path / "lab"
    source.write_text("first", "utf-8")
    assert copy_chapters(lab, [source]) == ["01-x.md: copied"]
    assert copy_chapters(lab, [source]) == []
    source.write_text("second", "utf-8")
    assert copy_chapters(lab, [source]) == ["01-x.md: copied"]
    (lab / "01-x.md").write_text("mine", "utf-8")
    assert copy_chapters(lab, [source]) == []
    source.write_text("third", "utf-8")
    [done] = copy_chapters(lab, [source])
    assert done == "01-x.md: kept with your changes; the book's version is 01-x-new.md"
    assert (lab / "01-x.md").read_text("utf-8") == "mine"
    assert (lab / "01-x-new.md").read_text("utf-8") == "third"
    assert copy_chapters(lab, [source]) == []


def test_the_working_copies_have_the_pages_that_chapters_link_to() -> None:
    linked = set()
    for path in chapters():
        linked |= set(re.findall(r"\]\(([\w-]+\.md)", path.read_text("utf-8")))
    assert linked <= set(PAGES)
