"""``python -m benchmarks.heads``: ablation of the heads and sublayers of a trained Transformer.

Each head and each sublayer is ablated alone, without retraining. The model is evaluated on the
validation set: cross-entropy in nats per token, and BLEU of greedy decoding. The increase in the
cross-entropy and the decrease in BLEU have intervals (:mod:`tfmr.train.intervals`). Michel et al.
(2019), sections 3.2 and 3.3; Voita et al. (2019).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from tqdm import tqdm

from benchmarks import record
from benchmarks.analysis import MODEL, Analysis, weights_fingerprint
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, Claims, grouped, markdown, select
from tfmr import checkpoint
from tfmr.analysis import ablate_head, ablate_sublayer
from tfmr.attention import MultiHeadAttention
from tfmr.data.batches import Batches
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.fast import prepare
from tfmr.layers import FeedForward
from tfmr.metrics import bleu
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train.intervals import bleu_statistics, corpus_bleu, interval, ratio_of_sums, resample

TOKENS_PER_BATCH = 4096
Ablations = list[tuple[Row, AbstractContextManager[None]]]
"""The columns that name an ablation, and a context in which it is active."""


@dataclass(frozen=True)
class Heads(Analysis):
    """Evaluate a model without each of its heads and sublayers, and record the scores."""

    out: Path = record.FOLDER / "heads.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        model, tokenizer, corpus = self.load("heads")
        settings = {"split": "validation", "sentences": len(corpus.valid)}
        self.write(self.out, "heads", measure(model, tokenizer, corpus.valid), settings)


def measure(
    model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]
) -> Iterator[Row]:
    """A row for the whole model, then one for each ablation, with intervals of the costs."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    encoded = [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in pairs]
    batches = Batches(encoded, TOKENS_PER_BATCH, seed=0, max_length=model.config.max_length)
    counts = resample(len(pairs))
    whole_losses: np.ndarray | None = None
    whole_bleu: np.ndarray | None = None
    for names, ablation in tqdm(ablations(model), unit=" ablations"):
        with ablation:
            outputs = translate(prepare(model), tokenizer, sources, detokenise=False)
            losses, tokens = sentence_losses(model, batches)
        loss = round(float(losses.sum() / tokens.sum()), 4)
        row = {**names, "valid_loss": loss, "valid_bleu": bleu(outputs, references).score}
        resampled = corpus_bleu(bleu_statistics(outputs, references), counts)
        if whole_losses is None or whole_bleu is None:
            whole_losses, whole_bleu = losses, resampled
        else:
            increase = ratio_of_sums(losses - whole_losses, tokens, counts)
            row["valid_loss_increase_interval"] = interval(increase)
            row["valid_bleu_decrease_interval"] = interval(whole_bleu - resampled, digits=2)
        yield row


@torch.inference_mode()
def sentence_losses(
    model: Transformer, batches: Batches
) -> tuple[Float[np.ndarray, "sentences"], Float[np.ndarray, "sentences"]]:
    """Cross-entropy in nats and number of tokens of each sentence, in the order of ``batches``."""
    losses, tokens = [], []
    for batch in batches.epoch(0):
        logits = model(batch.source, batch.target_in).transpose(1, 2)
        nats = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="none")
        losses.append(nats.sum(dim=1).double())
        tokens.append((batch.target_out != PAD).sum(dim=1).double())
    return torch.cat(losses).numpy(), torch.cat(tokens).numpy()


def ablations(model: Transformer) -> Ablations:
    """None; then every sublayer from the first to the last, each followed by its heads.

    Layers and heads are counted from one.
    """
    found: Ablations = [({"ablated": "nothing"}, nullcontext())]
    for stack in ("encoder", "decoder"):
        for layer, block in enumerate(getattr(model, stack).blocks, start=1):
            for sublayer, part in block.named_children():
                if isinstance(part, (MultiHeadAttention, FeedForward)):
                    kind = sublayer.replace("_", "-")
                    kind = "self-attention" if kind == "attention" else kind
                    where = {"stack": stack, "sublayer": kind, "layer": layer}
                    found.append(({"ablated": "sublayer", **where}, ablate_sublayer(part)))
                    if isinstance(part, MultiHeadAttention):
                        found += [
                            ({"ablated": "head", **where, "head": k + 1}, ablate_head(part, k))
                            for k in range(part.n_heads)
                        ]
    return found


def table(rows: list[Row], settings: Row) -> list[str]:
    """The loss of quality without each sublayer and each head, in BLEU and in nats."""
    intact, *ablated = rows
    n_heads = max((row["head"] for row in select(ablated, ablated="head")), default=0)

    def lost(row: Row) -> str:
        bleu = intact["valid_bleu"] - row["valid_bleu"]
        return f"{bleu:.1f} / {row['valid_loss'] - intact['valid_loss']:.3f}"

    lines = []
    for where, (whole, *heads) in grouped(ablated, "stack", "sublayer", "layer").items():
        cells = [lost(row) for row in heads] + [NOTHING] * (n_heads - len(heads))
        lines.append([" ".join(map(str, where)), lost(whole), *cells])
    return [
        "Decrease in BLEU / increase in cross-entropy, in nats per token, when a sublayer or one "
        f"of its heads is ablated, on the {settings['sentences']:,} sentences of the "
        f"{settings['split']} set of {settings['corpus']} {settings['direction']}. Without "
        f"ablation, the model reaches {intact['valid_bleu']:.1f} BLEU (greedy decoding) and a "
        f"cross-entropy of {intact['valid_loss']:.3f}.",
        markdown(["", "sublayer", *(f"head {k + 1}" for k in range(n_heads))], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The record belongs to the recorded model and is complete."""
    same = settings["model"] == weights_fingerprint(MODEL)
    yield "the record is that of the model: run python -m benchmarks.heads", same
    model = checkpoint.load(MODEL).model()
    assert isinstance(model, Transformer)
    names = [{key: row[key] for key in row if not key.startswith("valid")} for row in rows]
    yield "a row for every ablation", names == [name for name, _ in ablations(model)]
    head, sublayer = (
        min(row["valid_bleu"] for row in select(rows, ablated=kind))
        for kind in ("head", "sublayer")
    )
    yield "no head costs as much as the worst sublayer", head > sublayer


if __name__ == "__main__":
    record.run(Heads)
