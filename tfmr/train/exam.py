"""The exam: what the validation and the test part of a corpus say about a model."""

from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from tfmr.data.corpus import Corpus, SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.errors import require
from tfmr.special_tokens import UNK
from tfmr.train.evaluate import bleu, exact_match, mean_loss
from tfmr.train.recipes import Recipe
from tfmr.train.records import Look, samples_text
from tfmr.translator import Translator


class Exam:
    """Judges models on the parts of a corpus that they have not learnt from.

    Args:
        corpus: its validation and test parts are used.
        tokenizer: the models' vocabulary.
        recipe: how to judge, and the longest sentence that the models read.
        quiet: show no bar.

    Raises:
        TfmrError: if a sentence is too long to be judged by, or a source has a word that the
            vocabulary lacks: better before the training than after.
    """

    def __init__(
        self, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, *, quiet: bool = True
    ) -> None:
        self.parts = {"valid": corpus.valid, "test": corpus.test}
        self.tokenizer = tokenizer
        self.recipe = recipe
        self.quiet = quiet
        longest = recipe.architecture.max_length
        for part, pairs in self.parts.items():
            for side in (0, 1):
                encoded = tokenizer.encode_batch([pair[side] for pair in pairs])
                for pair, ids in zip(pairs, encoded, strict=True):
                    require(
                        side == 1 or UNK not in ids,
                        f"a source of the {part} part has a word that the vocabulary lacks "
                        f"({pair[0][:40]!r}…): leave it out, or learn pieces of words, with "
                        'kind = "bpe"',
                    )
                    require(
                        len(ids) + side <= longest,
                        f"the model reads at most {longest} tokens and a sentence of the {part} "
                        f"part has {len(ids) + side}: shorten it or leave it out "
                        f"({pair[side][:40]!r}…)",
                    )
        self.valid = recipe.fill(corpus.valid, tokenizer)

    def look(self, model: Translator, step: int, seconds: float) -> Look:
        """How the model of this step and time does on the validation part."""
        score = None
        if self.recipe.evaluation.metric == "bleu":
            outputs = self._translate(model, "valid")
            score = bleu(outputs, _references(self.parts["valid"])).score
        return Look(step, seconds, mean_loss(model, self.valid), score)

    def score(self, model: Translator) -> tuple[dict[str, Any], str]:
        """Validation loss; BLEU and exact match on both parts; and samples of the test part.

        The keys without a beam in their name are those of the greedy translations.
        """
        row: dict[str, Any] = {"valid_loss": round(mean_loss(model, self.valid), 4)}
        beam = self.recipe.evaluation.beam
        samples = ""
        for part, pairs in self.parts.items():
            references = _references(pairs)
            outputs = self._translate(model, part)
            result = bleu(outputs, references)
            row[f"{part}_bleu"] = result.score
            row[f"{part}_exact"] = round(exact_match(outputs, references), 4)
            if beam > 1:
                wide = self._translate(model, part, beam)
                row[f"{part}_bleu_beam{beam}"] = bleu(wide, references).score
            row["signature"] = result.signature
            samples = samples_text([source for source, _ in pairs], references, outputs)
        return row, samples

    def _translate(self, model: Translator, part: str, beam: int = 1) -> list[str]:
        """The translations of a part, with a bar."""
        sources = [source for source, _ in self.parts[part]]
        title = part if beam == 1 else f"{part}, beam {beam}"
        with tqdm(
            total=len(sources), unit="sentence", desc=title, disable=self.quiet, leave=False
        ) as bar:
            return translate(model, self.tokenizer, sources, beam=beam, on_finished=bar.update)


def _references(pairs: Sequence[SentencePair]) -> list[str]:
    return [target for _, target in pairs]
