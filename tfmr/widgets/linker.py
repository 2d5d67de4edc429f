"""Link the JavaScript modules of the live figures into one file, without a bundler.

A notebook loads the code of a widget from a string, where relative imports do not work, and a page
that is opened from a disk cannot load modules at all. So each module becomes a function that is
called once and returns its exports:

.. code-block:: text

    modules["lib/format.js"] = (() => {
      …the code of the file, without import and export…
      return { format, percent };
    })();

:func:`notebook_module` makes one ES module of a figure and everything that it imports.
:func:`write_scripts` writes classic scripts for the pages: ``shared.js`` with the library and
``lib/``, which all figures use, and one script for each figure. Both have the same code. A figure
has the styles that stand beside its modules: ``NAME.css`` beside ``NAME.js``.

The linker is strict. It knows these forms, each at the start of a line, and reports all others:

.. code-block:: text

    import { a, b } from "./lib/format.js";
    export function a() { … }
    export const b = …
    export { a, b as c };              (once, at the end of the file)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tfmr.errors import TfmrError
from tfmr.figures import palette

HERE = Path(__file__).parent
SHARED = ("vendor", "lib")
"""The folders whose modules are in ``shared.js``; all other modules belong to their figure."""
STYLE = "lib/figure.css"

IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[^"]*)";$', re.M)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const) ([\w$]+))", re.M)
EXPORT_LIST = re.compile(r"(?:^|(?<=;))export ?\{([^{}]*)\};\s*\Z", re.M)
UNKNOWN = re.compile(r"^(?:import|export)\b.*|(?<=;)(?:import|export)[ {*].*|\bimport\(.*", re.M)


class LinkError(TfmrError):
    """A module cannot be linked; the message states the file and what is expected."""


@dataclass(frozen=True)
class Module:
    """One file: its path below the folder, its code, and what it imports and exports."""

    name: str
    code: str
    imports: dict[str, tuple[str, ...]]
    exports: dict[str, str]

    def linked(self) -> str:
        """The module as a function call that defines ``modules[name]``."""
        exports = ", ".join(
            name if name == local else f"{name}: {local}" for name, local in self.exports.items()
        )
        lines = [
            f"modules[{_quoted(self.name)}] = (() => {{",
            *(
                f"const {{ {', '.join(names)} }} = modules[{_quoted(source)}];"
                for source, names in self.imports.items()
            ),
            self.code.strip(),
            f"return {{ {exports} }};",
            "})();",
        ]
        return "\n".join(lines)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _names(text: str) -> Iterator[tuple[str, str]]:
    """The pairs (name, alias) of a list such as ``a, b as c``."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, alias = part.partition(" as ")
        yield name.strip(), (alias or name).strip()


def _resolve(importer: str, address: str, folder: Path) -> str:
    """The path below ``folder`` that ``importer`` means by ``address``."""
    parts: list[str] = []
    for part in (PurePosixPath(importer).parent / address).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    name = "/".join(parts)
    if not (folder / name).is_file():
        raise LinkError(f'{importer}: expected a file for import "{address}", found no {name}')
    return name


def parse(name: str, folder: Path = HERE) -> Module:
    """Read the module ``name`` (a path below ``folder``).

    Raises:
        LinkError: if it has an import or export in a form that is not in the list above.
    """
    code = (folder / name).read_text(encoding="utf-8")
    imports: dict[str, tuple[str, ...]] = {}
    for names, address in IMPORT.findall(code):
        source = _resolve(name, address, folder)
        imports[source] = (
            *imports.get(source, ()),
            *(f"{a}: {b}" if a != b else a for a, b in _names(names)),
        )
    code = IMPORT.sub("", code)
    exports = {found: found for found in EXPORT.findall(code)}
    code = EXPORT.sub("", code)
    listed = EXPORT_LIST.search(code)
    if listed:
        exports |= {alias: local for local, alias in _names(listed[1])}
        code = code[: listed.start()]
    unknown = UNKNOWN.search(code)
    if unknown:
        raise LinkError(
            f'{name}: expected import {{ … }} from "./…" or export function, const or {{ … }}, '
            f"got: {unknown[0][:60]}"
        )
    return Module(name, code, imports, exports)


def modules(entry: str, folder: Path = HERE) -> list[Module]:
    """The module ``entry`` and all that it imports, each after its imports.

    Raises:
        LinkError: if a module imports itself indirectly, or a name that is not exported.
    """
    done: dict[str, Module] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise LinkError(f"{name}: expected no circular imports, got {' → '.join(importers)}")
        if name in done:
            return
        module = parse(name, folder)
        for source, names in module.imports.items():
            add(source, (*importers, name))
            for imported in names:
                wanted = imported.partition(":")[0]
                if wanted not in done[source].exports:
                    raise LinkError(f"{name}: expected {source} to export {wanted}, found none")
        done[name] = module

    add(entry, ())
    return list(done.values())


def _is_shared(module: Module) -> bool:
    return module.name.split("/")[0] in SHARED


def _figure_modules(name: str, folder: Path) -> list[Module]:
    found = modules(f"{name}.js", folder)
    if "render" not in found[-1].exports:
        raise LinkError(f"{name}.js: expected an export named render, found none")
    return found


def notebook_module(name: str, folder: Path = HERE) -> str:
    """The figure ``name`` as one ES module, for a notebook."""
    return "\n".join(
        [
            "const modules = {};",
            *(module.linked() for module in _figure_modules(name, folder)),
            f'export default {{ render: modules["{name}.js"].render }};',
        ]
    )


def shared_style(folder: Path = HERE) -> str:
    """The colours of the book, and the style of all figures."""
    return palette.css() + (folder / STYLE).read_text(encoding="utf-8")


def own_style(name: str, folder: Path = HERE) -> str:
    """The styles beside the modules of the figure ``name``, without the shared style."""
    modules = (module for module in _figure_modules(name, folder) if not _is_shared(module))
    files = ((folder / module.name).with_suffix(".css") for module in modules)
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())


def style(name: str, folder: Path = HERE) -> str:
    """The style of the figure ``name``, with the shared style."""
    return f"{shared_style(folder)}\n{own_style(name, folder)}"


def figures(folder: Path = HERE) -> list[str]:
    """The names of all figures: the files ``NAME.js`` that stand beside a ``NAME.py``."""
    return sorted(file.stem for file in folder.glob("*.js") if file.with_suffix(".py").is_file())


def _script(found: list[Module]) -> str:
    """A classic script that adds modules to those of the page."""
    lines = [
        "(() => {",
        '"use strict";',
        "const modules = (window.tfmrModules ??= {});",
        *(module.linked() for module in found),
        "})();",
    ]
    return "\n".join(lines) + "\n"


def write_scripts(target: Path, folder: Path = HERE) -> None:
    """Write what a page needs to ``target``: ``shared.js``, ``shared.css`` and each figure's files.

    Raises:
        LinkError: if a module cannot be linked.
    """
    target.mkdir(parents=True, exist_ok=True)
    shared: dict[str, Module] = {}
    for name in figures(folder):
        found = _figure_modules(name, folder)
        shared |= {module.name: module for module in found if _is_shared(module)}
        own = [module for module in found if not _is_shared(module)]
        (target / f"{name}.js").write_text(_script(own), encoding="utf-8")
        # A figure without a style of its own has an empty file, so that a page need not know.
        (target / f"{name}.css").write_text(own_style(name, folder), encoding="utf-8")
    (target / "shared.js").write_text(_script(list(shared.values())), encoding="utf-8")
    (target / "shared.css").write_text(shared_style(folder), encoding="utf-8")
