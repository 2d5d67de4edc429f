"""The generated pages: the reference, and the source code of the modules.

They are many and alike. A browser opens enough of them to see every structure: every pair of an
element and the element around it, by name, classes and attributes. The others are tested by what
depends on their words only.
"""

import re

from tests.pages.conftest import SITE, page_names

TAG = re.compile(r"<(/?)([a-z]\w*)([^>]*?)(/?)>")
VALUE = re.compile(r'(?<! class)="[^"]*"')
# The words of code have no structure; the classes of formulas have the number of their style.
CODE, NUMBER = re.compile(r"<(pre|math).*?</\1>", re.DOTALL), re.compile(r"\bmath-\d+")
VOID = ("br", "hr", "img", "input", "link", "source")


def structure(html: str) -> set[tuple[str, str]]:
    """The pairs of an element and the one around it that occur in the main part of a page."""
    found, around = set(), ["main"]
    main = html.partition("<main")[2].partition("</main>")[0]
    for end, name, attributes, empty in TAG.findall(CODE.sub("", main)):
        if end:
            around.pop()
            continue
        element = name + NUMBER.sub("math", VALUE.sub("", attributes))
        found.add((around[-1], element))
        if not empty and name not in VOID:
            around.append(element)
    return found


def representatives(structures: dict[str, set[tuple[str, str]]]) -> list[str]:
    """A few pages in which every structure occurs, each time the one with the most new ones."""
    chosen = []
    missing = set().union(*structures.values())
    while missing:
        chosen.append(max(structures, key=lambda name: len(structures[name] & missing)))
        missing -= structures[chosen[-1]]
    return chosen


GENERATED = [name for name in page_names() if "/" in name]
INDEXES = ["genindex.html", "py-modindex.html", "search.html"]
TO_READ = [n for n in page_names() if n not in INDEXES and not n.startswith("_modules/")]
OPENED = representatives({n: structure((SITE / n).read_text("utf-8")) for n in GENERATED})
ALIKE = [name for name in GENERATED if name not in OPENED]
