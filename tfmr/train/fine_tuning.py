"""Fine-tuning: a run that starts from the weights of a trained model, with its tokenizer."""

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from typing import Any

from tfmr import checkpoint, registry
from tfmr.checkpoint import Checkpoint
from tfmr.data.corpus import Corpus
from tfmr.data.text import to_form
from tfmr.errors import require
from tfmr.train.config import Recipe, VocabularyConfig


@dataclass(frozen=True)
class Base:
    """The trained model that a run starts from."""

    name: str
    """The path or name that the user gave."""
    saved: Checkpoint

    @classmethod
    def load(cls, model: str | os.PathLike[str]) -> "Base":
        """The model of a run directory, a checkpoint file, or a model of the package.

        Raises:
            TfmrError: if there is no such model, or it is damaged.
        """
        return cls(str(model), checkpoint.load(checkpoint.find(model)))

    def adapt(self, recipe: Recipe) -> Recipe:
        """``recipe`` with the model and the vocabulary of this one."""
        tokenizer = self.saved.tokenizer
        vocabulary = VocabularyConfig(tokenizer.kind, tokenizer.vocab_size)
        return dataclasses.replace(recipe, model=self.saved.config, vocabulary=vocabulary)

    def check(self, recipe: Recipe, corpus: Corpus) -> None:
        """Check that the model can be trained with ``recipe`` on ``corpus``.

        Raises:
            TfmrError: if the recipe has another model or vocabulary, apart from its dropout; or if
                a target sentence is not in the form of the text that the model generates.
        """
        own = self.adapt(recipe)
        before, now = (
            {
                **{f"model.{n}": v for n, v in registry.config_to_dict(r.model).items()},
                **{f"vocabulary.{n}": v for n, v in vars(r.vocabulary).items()},
            }
            for r in (own, dataclasses.replace(recipe, model=self._with_sizes(recipe)))
        )
        for name in before | now:
            require(
                before.get(name) == now.get(name) or "dropout" in name,
                f"{name} is {before.get(name)} in {self.name}, from which the run starts, and "
                f"cannot be {now.get(name)}: remove the setting, or train without --from",
            )
        form = self.saved.tokenizer.form
        for _, target in (*corpus.valid, *corpus.test):
            require(
                to_form(target, form) == target,
                f"{self.name} generates text in the form of the corpus {form}, in lower case with "
                f"spaces around punctuation, but a target sentence is not in this form: "
                f"{target[:40]!r}; convert the files, or train without --from",
            )

    def _with_sizes(self, recipe: Recipe) -> Any:
        return recipe.model_config(self.saved.tokenizer.vocab_size)

    def describe(self) -> dict[str, Any]:
        """JSON values that identify the model, for the metadata of the run."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.saved.weights.items()):
            digest.update(name.encode())
            digest.update(weight.float().numpy().tobytes())
        known = {n: self.saved.metadata.get(n) for n in ("corpus", "direction", "command")}
        return {"model": self.name, "weights_fingerprint": digest.hexdigest()[:12], **known}
