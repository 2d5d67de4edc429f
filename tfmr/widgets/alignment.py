"""What a recurrent translator attends to at each word, and whether the word depends on it."""

from collections.abc import Mapping
from typing import Any

import torch
import traitlets

from tfmr.errors import require
from tfmr.widgets.figure import LiveFigure
from tfmr.widgets.packing import pack

QUANTITIES = ("weights", "effects")


class AlignmentFigure(LiveFigure):
    """Attention weights of recurrent translators, beside the effect of masking each source word.

    Args:
        record: the content of the record ``alignment.json``, which
            ``python -m benchmarks.alignment`` writes.
        sentence: index of the sentence that is shown first.
        seed: the seed of the model that is shown first.
        word: index of the target word that is selected first; the last one is the
            end-of-sentence token.
        quantity: what the map shows, one of :data:`QUANTITIES`.

    Raises:
        TfmrError: if the record is of another kind, or an argument is out of range.
    """

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    sentence = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    word = traitlets.Int().tag(sync=True)
    """The index of the target word; a shorter sentence shows its last one instead."""
    quantity = traitlets.Enum(QUANTITIES).tag(sync=True)

    def __init__(
        self,
        record: Mapping[str, Any],
        *,
        sentence: int = 0,
        seed: int = 0,
        word: int = 1,
        quantity: str = "weights",
    ) -> None:
        kind = record.get("kind")
        require(kind == "alignment", f"expected a record of the kind 'alignment': got {kind!r}")
        found = [row for row in record["rows"] if "source" in row]
        self._found: dict[int, list[dict[str, Any]]] = {}
        for row in found:
            self._found.setdefault(row["seed"], []).append(row)
        require(
            quantity in QUANTITIES,
            f"quantity must be one of {', '.join(QUANTITIES)}: got {quantity}",
        )
        super().__init__(
            rows=list(map(_stored, found)),
            sentence=sentence,
            seed=seed,
            word=word,
            quantity=quantity,
        )

    @traitlets.validate("seed", "sentence", "word")
    def _check(self, proposal: traitlets.Bunch) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        seeds = sorted({row["seed"] for row in self.rows})
        known = {
            "seed": seeds,
            "sentence": range(len(self.rows) // len(seeds)),
            "word": range(max(len(row["probability"]) for row in self.rows)),
        }[name]
        require(value in known, f"{name} must be from {known[0]} to {known[-1]}: got {value}")
        return int(value)

    def values(self) -> dict[str, Any]:
        """The numbers of the selected target word.

        Returns:
            ``source``, the source words; ``target``, the selected word; ``probability``, its
            probability; for each source word ``weights``, its attention weight, and ``without``,
            the probability of the target word if the source word is masked.
        """
        row = self._found[self.seed][self.sentence]
        at = min(self.word, len(row["probability"]) - 1)
        return {
            "source": row["source"].split(),
            "target": [*row["target"].split(), "end"][at],
            **{name: row[name][at] for name in ("probability", "weights", "without")},
        }

    def summary(self) -> str:
        """The source word with the largest weight for the selected target word, and its effect."""
        found = self.values()
        weight, source, without = max(
            zip(found["weights"], found["source"], found["without"], strict=True)
        )
        return (
            f"what {len(self._found)} recurrent translators attend to at each word of "
            f"{len(self._found[self.seed])} sentences. With seed {self.seed}, "
            f"the largest weight of “{found['target']}” is on “{source}” ({weight:.3f}); if "
            f"“{source}” is masked, the probability of “{found['target']}” is {without:.3f} "
            f"instead of {found['probability']:.3f}."
        )


def _stored(row: Mapping[str, Any]) -> dict[str, Any]:
    """A sentence of one model as the state has it."""
    matrices = {name: pack(torch.tensor(row[name])) for name in ("weights", "without")}
    names = ("seed", "source", "target", "probability")
    return {name: row[name] for name in names} | matrices
