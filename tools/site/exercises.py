"""Exercises, which have a frame, and their solutions, which are folded."""

import re

from docutils import nodes
from sphinx.environment import BuildEnvironment

EXERCISE = re.compile(r"Exercise (\d+\.\d+)")
SOLUTION = re.compile(r"Solution of exercise \d+\.\d+")


def frame_exercises(document: nodes.document, env: BuildEnvironment) -> None:
    """Give the sections of exercises a class, and fold the sections of solutions."""
    for section in list(document.findall(nodes.section)):
        title = section[0].astext() if section.children else ""
        if EXERCISE.match(title):
            section["classes"].append("exercise")
        elif SOLUTION.fullmatch(title):
            anchor = f' id="{section["ids"][0]}"' if section["ids"] else ""
            opening = f'<details class="solution"{anchor}><summary>{title}</summary>'
            section.replace_self(
                [
                    nodes.raw("", opening, format="html"),
                    *section.children[1:],
                    nodes.raw("", "</details>", format="html"),
                ]
            )
