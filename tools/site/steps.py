"""The extension that makes the site from the chapters: every step, in order.

``_config.yml`` loads this module, the only extension that belongs to the book. A step is run at an
event of Sphinx, or on the document of a page: when it is *read*, before its links are *resolved*,
or before it is *written*. The steps of one moment run in the order of the list.
"""

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

from tools.site import (
    answers,
    bibliography,
    captions,
    card,
    chapters,
    cover,
    embed,
    exercises,
    figures,
    folding,
    formulas,
    head,
    launch,
    live_code,
    margins,
    moved,
    opener,
    reference,
    search_index,
    styles,
)
from tools.site.builder import BookBuilder


class Step(NamedTuple):
    """What is done at a moment of the build."""

    moment: str
    function: Callable[..., object]
    sentence: str


INDEX = search_index.Index()
EMBEDDED = embed.Pages()

STEPS = (
    Step("config-inited", reference.write_pages, "Write a page for each module of the package."),
    Step("builder-inited", card.write_card, "Draw the picture for messengers."),
    Step("builder-inited", search_index.replace_sphinx_search, "Turn Sphinx's own index off."),
    Step("source-read", reference.fill_page, "List the exports and modules on the first page."),
    Step("source-read", exercises.fill_page, "List the exercises, and what their checks name."),
    Step("read", chapters.number_title, "Add the number of a chapter to its title."),
    Step("read", figures.describe_pictures, "Give pictures their alternative text."),
    Step("read", figures.compress_pictures, "Make pictures small, and lay them out for phones."),
    Step("read", figures.place_live_figures, "Give live figures their place, with a text."),
    Step("read", bibliography.link_citations, "Link citations to the bibliography."),
    Step("read", figures.inline_drawings, "Put drawings into the page, so that they have links."),
    Step("read", opener.open_chapter, "Mark the question and the strip of a chapter."),
    Step("read", captions.number_figures, "Number figures, and give them a caption."),
    Step("read", formulas.collect, "Keep the formulas of the page."),
    Step("env-updated", bibliography.add_anchors, "Make the entries of the bibliography targets."),
    Step("env-check-consistency", formulas.set_formulas, "Set all formulas, with KaTeX."),
    Step("env-check-consistency", margins.collect, "Keep the definitions for the margins."),
    Step("resolved", chapters.name_chapters, "Give a link to a chapter its number as text."),
    Step("written", folding.fold_listings, "Fold long listings, checks and code of figures."),
    Step("written", exercises.frame_exercises, "Frame exercises, and fold solutions."),
    Step("written", answers.add_forms, "Add forms for answers that the page marks."),
    Step("written", captions.code_below_figures, "Put the folded code of a figure below it."),
    Step("written", formulas.keep_marks, "Keep punctuation and the formula before it together."),
    Step("written", margins.add_notes, "Put definitions and citations into the margin."),
    Step("doctree-resolved", INDEX.collect, "Collect the entries of the search index."),
    Step("html-page-context", moved.add_links, "List the sections that are elsewhere now."),
    Step("html-page-context", head.describe_page, "Describe the page, and name what it loads."),
    Step("html-page-context", chapters.list_chapters, "List the chapters in the sidebar."),
    Step("html-page-context", launch.add_buttons, "Add buttons that open a published chapter."),
    Step("html-page-context", EMBEDDED.collect, "Keep the live figures for pages of their own."),
    Step("html-collect-pages", EMBEDDED.pages, "Add a page for each live figure, to embed it."),
    Step("html-collect-pages", search_index.search_page, "Add the page search.html."),
    Step("html-collect-pages", moved.gone_pages, "Add a page for each that is gone."),
    Step("build-finished", live_code.write_live_code, "Write the code of the live figures."),
    Step("build-finished", INDEX.write, "Write the search index."),
    Step("build-finished", styles.write_style_sheet, "Write the rules that the pages use."),
)


class ReadSteps(SphinxTransform):
    """The steps on the document of a page when it is read."""

    default_priority = 850  # after smart quotes, before messages about the document

    def apply(self, **kwargs: Any) -> None:
        """Run the steps in order."""
        run("read", self)


class ResolvedSteps(SphinxPostTransform):
    """The steps on the document of a page before its links are resolved."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Run the steps in order."""
        run("resolved", self)


class WrittenSteps(SphinxPostTransform):
    """The steps on the document of a page before it is written."""

    default_priority = 900

    def run(self, **kwargs: Any) -> None:
        """Run the steps in order."""
        run("written", self)


TRANSFORMS = ("read", "resolved", "written")


def run(moment: str, transform: SphinxTransform) -> None:
    """Run the steps of a moment on the document of a page."""
    for step in STEPS:
        if step.moment == moment:
            step.function(transform.document, transform.env)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all steps to Sphinx."""
    # Millions of nodes live as long as their page. The default threshold of 700 objects doubles the
    # time of a build; a build without garbage collection needs five times the memory.
    gc.set_threshold(20_000, 20, 10)
    app.add_builder(BookBuilder, override=True)
    app.add_html_math_renderer(
        "katex",
        inline_renderers=(formulas.visit_inline, None),
        block_renderers=(formulas.visit_block, None),
    )
    app.add_node(captions.numbered_figure, html=(captions.open_figure, captions.close_figure))
    app.add_node(captions.numbered_caption, html=(captions.open_caption, captions.close_caption))
    app.add_directive("thumbnail", cover.Thumbnail)
    app.add_directive("translator", cover.Translator)
    app.add_transform(ReadSteps)
    app.add_post_transform(ResolvedSteps)
    app.add_post_transform(WrittenSteps)
    for step in STEPS:
        if step.moment not in TRANSFORMS:
            app.connect(step.moment, step.function)
    # Before napoleon, whose priority is 500.
    app.connect("autodoc-process-docstring", reference.keep_first_line, priority=400)
    return {"parallel_read_safe": False, "parallel_write_safe": False}
