"""``compare``: compare two trained models on the same test set."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from tfmr.commands.data import Data
from tfmr.commands.decoding import Decoding
from tfmr.commands.evaluate import find_test_corpus, translate_test_set
from tfmr.commands.plot import check_plot, save_plot
from tfmr.data.corpus import Corpus
from tfmr.errors import require

if TYPE_CHECKING:
    from tfmr.train.trainer import StepRecord


@dataclass(frozen=True)
class Compare:
    """Compare two runs or models: scores, settings, training curves, and sentences.

    Both translate the test set of the first, which must also be that of the second, or the files
    that you give. The difference in BLEU has a 95 % interval from paired bootstrap resampling
    (Koehn, 2004); if it contains zero, the difference may be noise.

    Example: python -m tfmr compare runs/a runs/b --plot curves.png
    """

    runs: tyro.conf.Positional[tuple[Path, Path]]
    """Two run directories, checkpoint files, or names of models of the package."""
    data: Annotated[Data, tyro.conf.arg(name="")]
    beam: int | None = None
    """Number of hypotheses of the beam search, 4 if not given; 1 is greedy decoding."""
    sentences: int = 5
    """Number of sentences to print whose chrF differs most."""
    plot: Path | None = None
    """Also draw the training loss of both runs, and write the picture to this file; its format is
    that of its ending, such as .png or .svg."""

    def __call__(self) -> None:
        """Print the comparison."""
        from tfmr.train.comparison import compare_scores, differing_settings, most_different

        require(self.sentences >= 0, f"expected --sentences of at least 0, got {self.sentences}")
        check_plot(self.plot)
        first, second = (Decoding(model=run, beam=self.beam) for run in self.runs)
        options = first.search_options()
        models = [each.load() for each in (first, second)]
        metadata = [each[2] for each in models]
        corpora = [
            find_test_corpus(self.data, run, described)
            for run, described in zip(self.runs, metadata, strict=True)
        ]
        _check_same_test_set(corpora)
        sources, references = zip(*corpora[0].test, strict=True)
        a, b = (
            translate_test_set(model, tokenizer, corpora[0], options)[0]
            for model, tokenizer, _ in models
        )
        scores = compare_scores(a, b, references)
        names = [str(run) for run in self.runs]
        low, high = scores.interval
        print(f"{len(references):,} sentences, beam {options['beam']}, {scores.signature}")
        print(
            f"| | {names[0]} | {names[1]} | difference |", "| --- | ---: | ---: | ---: |", sep="\n"
        )
        print(
            f"| BLEU | {scores.bleu[0]:.2f} | {scores.bleu[1]:.2f} | {scores.difference:+.2f}, "
            f"95 % interval {low:+.2f} to {high:+.2f} |"
        )
        print(
            f"| exact | {scores.exact[0]:.4f} | {scores.exact[1]:.4f} | "
            f"{scores.exact[1] - scores.exact[0]:+.4f} |"
        )
        print("The difference may be noise." if scores.is_noise else "The interval excludes zero.")
        print("\nSettings that differ:")
        for name, values in differing_settings(*metadata).items():
            print(f"- {name}: {values[0]} | {values[1]}")
        self._compare_curves(names)
        print("\nSentences whose chrF differs most:")
        for index, *chrf in most_different(a, b, references, self.sentences):
            print(f"- source: {sources[index]}", f"  reference: {references[index]}", sep="\n")
            for name, hypotheses, value in zip(names, (a, b), chrf, strict=True):
                print(f"  {name} ({value:.1f}): {hypotheses[index]}")

    def _compare_curves(self, names: list[str]) -> None:
        """Print the losses of both runs, and draw them; a model without its curve has none."""
        from tfmr import checkpoint
        from tfmr.train.comparison import compare_curves
        from tfmr.train.run_dir import read_curve

        paths = [checkpoint.find(run).parent / "curve.csv" for run in self.runs]
        curves: dict[str, list[StepRecord]] = {
            name: read_curve(path) for name, path in zip(names, paths, strict=True) if path.exists()
        }
        if len(curves) == len(self.runs) and (rows := compare_curves(*curves.values())):
            print("\nMean training loss up to each step:")
            print(f"| step | {names[0]} | {names[1]} |", "| ---: | ---: | ---: |", sep="\n")
            for step, a, b in rows:
                print(f"| {step:,} | {a:.3f} | {b:.3f} |")
        if self.plot is None:
            return
        require(
            bool(curves),
            f"expected a curve.csv in a run directory for --plot, got none beside {paths[0].parent}"
            f" and {paths[1].parent}; omit --plot",
        )
        from tfmr.figures.curves import loss_curves

        save_plot(self.plot, loss_curves(curves))


def _check_same_test_set(corpora: list[Corpus]) -> None:
    first, second = corpora
    require(
        first.test == second.test,
        f"expected runs with the same test set, got {len(first.test):,} sentences of {first.name} "
        f"and {len(second.test):,} other ones of {second.name}; give one test set with --files",
    )
