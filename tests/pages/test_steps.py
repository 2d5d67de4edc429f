"""The steps that make the site, tested without a build."""

import types
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import Config, GoogleDocstring

from tfmr.data import batches
from tools.site import chapters, formulas, head, launch, reference, steps


@pytest.mark.parametrize(
    "given",
    [
        "https://github.com/owner/name",
        "https://github.com/owner/name/",
        "https://github.com/owner/name.git",
    ],
)
def test_buttons_lead_to_the_repository_and_open_a_notebook(given: str) -> None:
    made = launch.buttons(given, "book/02-gates.ipynb")
    assert made["repository"] == "https://github.com/owner/name"
    assert list(made["launch"]) == ["Binder", "Colab"]
    assert made["launch"]["Colab"].endswith("/github/owner/name/blob/main/book/02-gates.ipynb")
    assert launch.buttons(given, "book/glossary.md")["launch"] == {}


@pytest.mark.parametrize(
    "given", ["owner/name", "https://example.org/a/b", "git@github.com:owner/name"]
)
def test_an_invalid_repository_is_rejected(given: str) -> None:
    with pytest.raises(ExtensionError, match="Repository in pyproject"):
        launch.buttons(given, "")


@pytest.mark.parametrize(
    ("docname", "number"),
    [
        ("book/04-self-attention", 4),
        ("book/11-training", 11),
        ("book/index", None),
        ("book/00-primer", None),
        ("book/api", None),
    ],
)
def test_chapter_numbers_come_from_file_names(docname: str, number: int | None) -> None:
    assert chapters.chapter_number(docname) == number


def test_a_description_is_the_shortened_first_paragraph() -> None:
    section = nodes.section("", nodes.title("", "A title"), nodes.paragraph("", "One. " * 100))
    page = new_document("page")
    page += section
    text = head.description(page)
    assert text.startswith("One. One.")
    assert text.endswith("One. …")
    assert len(text) <= head.DESCRIPTION_LENGTH + 2


@pytest.mark.parametrize("what", ["attribute", "data", "property"])
def test_docstrings_of_attributes_are_not_split_at_a_colon(what: str) -> None:
    lines = ["The format: a list.", "A second line."]
    split = GoogleDocstring(lines, Config(), what=what, name="x").lines()
    assert ":type: The format" in split
    reference.keep_first_line(None, what, "x", None, None, lines)
    whole = GoogleDocstring(lines, Config(), what=what, name="x").lines()
    assert [line for line in whole if line] == ["..", "The format: a list.", "A second line."]
    assert whole[1] == "", "without it the text would be part of the comment"
    lines = ["Compute a value.", "", "Args:", "    x: a number."]
    reference.keep_first_line(None, "function", "f", None, None, lines)
    assert lines[0] == "Compute a value."


def test_exported_names_link_to_their_modules() -> None:
    package = types.SimpleNamespace(
        __all__=["Batch", "collate", "PAD"], Batch=batches.Batch, collate=batches.collate, PAD=0
    )
    lines = reference.exports(package).splitlines()
    assert lines[0] == "```{eval-rst}"
    assert lines[-1] == "```"
    batch, collate = lines[1:-1]
    assert batch.startswith("* :py:obj:`Batch <tfmr.data.batches.Batch>`: A batch of sentence")
    assert collate.startswith("* :py:obj:`collate <tfmr.data.batches.collate>`: Make one")


def test_a_formula_is_set_for_the_eye_and_for_screen_readers() -> None:
    inline, display = formulas.typeset(
        [formulas.Formula("d_k", False), formulas.Formula(r"\sqrt{d_k}", True)]
    )
    assert inline["html"].startswith('<span class="katex"><span class="katex-mathml"><math')
    assert display["html"].startswith('<span class="katex-display">')
    assert "<msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt>" in display["html"]


def test_errors_in_formulas_end_the_build() -> None:
    wrong = [r"\frac{1}", r"\nosuchcommand", r"{x", "é"]
    page = new_document("page")
    page += [nodes.math("", tex) for tex in ["x", *wrong]]
    env: Any = types.SimpleNamespace(docname="book/02-gates")
    formulas.collect(page, env)
    with pytest.raises(ExtensionError) as raised:
        formulas.set_formulas(types.SimpleNamespace(), env)  # type: ignore[arg-type]
    lines = str(raised.value).splitlines()
    assert len(lines) == len(wrong)
    for line, tex in zip(lines, wrong, strict=True):
        assert line.startswith("book/02-gates: ")
        assert repr(tex) in line


def test_lines_of_a_formula_are_aligned() -> None:
    block = nodes.math_block("", r"a &= b \\ &= c")
    assert formulas.formula(block) == (r"\begin{aligned}a &= b \\ &= c\end{aligned}", True)
    block["nowrap"] = True
    assert formulas.formula(block).tex == r"a &= b \\ &= c"
    fractions = nodes.math_block(
        "", r"\begin{aligned}a &= \frac{1}{2} \\ b &= \frac{1}{3}\end{aligned}"
    )
    assert r"\frac{1}{2} \\[0.7em] b" in formulas.formula(fractions).tex
    assert formulas.formula(nodes.math("", " x ")) == ("x", False)


@pytest.mark.parametrize(
    ("page", "chapter"),
    [("02", "02"), ("api/x", "api"), ("_modules/x", "_modules/x"), ("index", "index")],
)
def test_the_sidebar_marks_the_chapter_of_a_page(page: str, chapter: str) -> None:
    root = new_document("index")
    root += addnodes.toctree(caption="One", includefiles=["01", "02"])
    root += addnodes.toctree(caption="Two", includefiles=["api"])
    titles = {name: nodes.title("", f"Title {name}") for name in ("01", "02", "api")}
    includes = {"index": ["01", "02", "api"], "api": ["api/x"]}
    env = types.SimpleNamespace(
        titles=titles, toctree_includes=includes, get_doctree=lambda name: {"index": root}[name]
    )
    app: Any = types.SimpleNamespace(env=env, config=types.SimpleNamespace(root_doc="index"))
    context: dict[str, Any] = {}
    chapters.list_chapters(app, page, "", context, None)
    assert context["chapter"] == chapter
    assert context["parts"] == [
        ("One", [("01", "Title 01"), ("02", "Title 02")]),
        ("Two", [("api", "Title api")]),
    ]


def test_every_step_has_a_moment_that_runs_it_and_a_sentence() -> None:
    events = {"config-inited", "builder-inited", "source-read", "env-updated"}
    events |= {"env-check-consistency", "doctree-resolved", "html-page-context"}
    events |= {"html-collect-pages", "build-finished", *steps.TRANSFORMS}
    assert {step.moment for step in steps.STEPS} <= events
    for step in steps.STEPS:
        assert step.sentence.endswith(".")


def test_the_steps_on_a_document_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    made = [
        steps.Step(moment, lambda document, env, moment=moment: done.append(moment + document), "")
        for moment in ("read", "written", "read", "resolved")
    ]
    monkeypatch.setattr(steps, "STEPS", made)
    transform: Any = types.SimpleNamespace(document="!", env=None)
    for moment in ("read", "written"):
        steps.run(moment, transform)
    assert done == ["read!", "read!", "written!"]
