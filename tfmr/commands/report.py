"""``data``: report on a corpus without training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tfmr.commands.data import TrainingData
from tfmr.commands.plot import check_plot, save_plot
from tfmr.errors import require


@dataclass(frozen=True)
class Report:
    """Report on your own files, or on another corpus, before you train on it.

    The report counts the pairs of each set, states the lengths of their sentences in tokens, and
    lists what will not be used and why: empty, repeated and too long pairs, and training pairs of
    the validation and test sets. It also lists untranslated pairs, lines in another script, and
    characters that the tokenizer has not seen. train prints it, too.

    Example: python -m tfmr data --files train.de train.en --direction de-en
    """

    data: Annotated[TrainingData, tyro.conf.arg(name="")]
    recipe: str | None = None
    """Name of a recipe or path of a TOML file: its tokenizer and its model.max_length are used. If
    not given: the recipe named like the corpus."""
    base: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Use the tokenizer and the maximum length of this run or model instead."""
    tokenizer: Path | None = None
    """Use the tokenizer in this file, which Tokenizer.save of tfmr.data.tokenizer wrote."""
    json: bool = False
    """Print the report as one line of JSON, with all line numbers."""
    plot: Path | None = None
    """Also draw the lengths of the sentences of each set, and write the picture to this file; its
    format is that of its ending, such as .png or .svg."""

    def __call__(self) -> None:
        """Print the report."""
        from json import dumps

        from tfmr import checkpoint
        from tfmr.data.report import DataReport
        from tfmr.data.tokenizer import Tokenizer
        from tfmr.train.config import find_recipe

        check_plot(self.plot)
        require(
            self.base is None or self.tokenizer is None,
            "expected --from or --tokenizer, got both: a model has its own tokenizer; omit one",
        )
        recipe = find_recipe(self.recipe) if self.recipe else None
        corpus = self.data.load(recipe)
        if self.base is not None:
            saved = checkpoint.load(checkpoint.find(self.base))
            tokenizer, max_length = saved.tokenizer, saved.config.max_length
        else:
            recipe = recipe or find_recipe(corpus.name.replace(" ", "-"))
            max_length = recipe.model.max_length
            tokenizer = (
                Tokenizer.load(self.tokenizer) if self.tokenizer else recipe.train_tokenizer(corpus)
            )
        trained = self.base is None and self.tokenizer is None
        report = DataReport.of(corpus, tokenizer, max_length, own_tokenizer=trained)
        print(dumps(report.to_dict()) if self.json else report)
        if self.plot is not None:
            from tfmr.figures.lengths import length_histograms

            save_plot(self.plot, length_histograms(report))
