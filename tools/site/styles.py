"""The style sheet of the site: one file, with the rules that a page uses.

It has the rules of the theme and of the extensions, the colours of :mod:`tfmr.figures.palette`, the
style of :mod:`tfmr.figures.map`, the parts in ``book/_style``, and a rule for each style in a
formula.
"""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from pydata_sphinx_theme.pygments import get_pygments_stylesheet
from sphinx.application import Sphinx

from tfmr.figures import map, palette
from tools import vendor
from tools.site import heights

PARTS = "book/_style"
SHEET = "site.css"
SCRIPT = Path(__file__).with_suffix(".cjs")
CODE = ("a11y-high-contrast-light", "a11y-high-contrast-dark")
"""The colours of code on light and on dark pages."""
SCRIPTS = ("*.js", "live/*.js", "search/*.js", "widgets/*.js")
"""The scripts of the site that give elements classes."""
SOURCES = {
    "book": ("*.ipynb", "*.md", "*.bib", "_assets/**/*", "_style/*", "_templates/*", "vendor/**/*"),
    "tfmr": ("**/*.py", "widgets/**/*.js", "widgets/**/*.css", "records/**/*.safetensors"),
    "tools/site": ("*",),
}
"""What the files are made of that are written after the pages."""
ICON_FONT = re.compile(r"@font-face\s*\{[^}]*Font ?Awesome[^}]*\}")
TAG = re.compile(r"<[a-z][^<>]*>", re.IGNORECASE)
NAME = re.compile(r"[\w-]+")
LINK = re.compile(r'href="([^"#]*#)')
"""A page with the mark of an anchor, for rules about links to the glossary."""


def theme_sheets(app: Sphinx) -> Iterator[str]:
    """The style sheets of Sphinx, of the theme, and of MyST-NB, in their order."""
    folders = {name: Path(str(files(name))) for name in ("sphinx", "myst_nb")}
    basic = folders["sphinx"] / "themes" / "basic" / "static" / "basic.css.jinja"
    yield app.builder.templates.render_string(
        basic.read_text("utf-8"),
        app.builder.globalcontext,  # type: ignore[attr-defined]
    )
    for theme in ("pydata_sphinx_theme", "sphinx_book_theme"):
        name = theme.replace("_", "-")
        sheet = Path(str(files(theme)), "theme", theme, "static", "styles", f"{name}.css")
        yield ICON_FONT.sub("", sheet.read_text("utf-8"))
        if theme == "pydata_sphinx_theme":
            yield get_pygments_stylesheet(*CODE)
    yield (folders["myst_nb"] / "static" / "mystnb.css").read_text("utf-8")


def book_sheets(root: Path) -> Iterator[str]:
    """The style sheet of KaTeX, the colours, the parts by name, and the heights of figures."""
    katex = (vendor.BOOK / "vendor" / "katex" / "katex.css").read_text("utf-8")
    yield katex.replace("url(fonts/", "url(katex/fonts/")
    yield palette.css()
    yield map.STYLE
    parts = sorted((root / PARTS).glob("*.css"))
    if not parts:
        raise FileNotFoundError(f"expected the parts of the style sheet in {root / PARTS}")
    yield from (part.read_text("utf-8") for part in parts)
    yield from heights.rules()


def rules_of(styles: dict[str, str]) -> str:
    """A rule for each style in a formula, by the name of its class."""
    # The id gives the class the precedence of a style attribute. In :is(), a browser would not find
    # the rule by its class, and would test every element of a page for it.
    return "\n".join(f".{name}:not(#s){{{style}}}" for style, name in styles.items())


def names(site: Path) -> set[str]:
    """Every name in the tags of the pages, and in the scripts, that a selector could match."""
    found: set[str] = set()
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for tag in TAG.findall(text):
            found.update(NAME.findall(tag))
        found.update(LINK.findall(text))
    for pattern in SCRIPTS:
        for script in (site / "_static").glob(pattern):
            found.update(NAME.findall(script.read_text("utf-8")))
    return found


def used(css: str, words: set[str]) -> str:
    """The rules of a style sheet whose names are among ``words``, in short form."""
    made: dict[str, str] = vendor.run_node(SCRIPT, {"css": css, "words": sorted(words)})
    return made["css"]


def write_style_sheet(app: Sphinx, failure: Exception | None) -> None:
    """Write the style sheet when all pages are written."""
    if failure is None:
        rules = rules_of(app.env.formula_rules)  # type: ignore[attr-defined]
        css = "\n".join([*theme_sheets(app), *book_sheets(Path(app.srcdir)), rules])
        site = Path(app.outdir)
        (site / "_static" / SHEET).write_text(used(css, names(site)), "utf-8")


@cache
def version(root: Path) -> str:
    """A short hash of the sources of the files that are written after the pages."""
    found = ((root / folder).glob(pattern) for folder in SOURCES for pattern in SOURCES[folder])
    sources = sorted(file for each in found for file in each if file.is_file())
    content = b"".join(file.read_bytes() for file in sources)
    return sha256(content).hexdigest()[:8]
