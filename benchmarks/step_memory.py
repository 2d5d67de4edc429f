"""``python -m benchmarks.step_memory``: the peak memory of a training step, beside the formula.

The prediction is the sum of weights, gradients, state of Adam, and the activations that autograd
stores. The measured peak also includes tensors that exist only for a short time, such as gradients
of activations. It is measured in the second step, when the state of Adam exists: once with
gradients that are set to zero and remain in memory, and once with gradients that are released
before the forward pass, as :meth:`torch.optim.Optimizer.zero_grad` does by default. Chapter 16
shows the results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.scaling import peak_bytes
from benchmarks.tables import Claims, markdown
from tfmr.config import TransformerConfig
from tfmr.family import (
    GPT,
    T5,
    Bert,
    BertConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    T5Config,
    ViT,
    ViTConfig,
)
from tfmr.family.memory import bert_formula, gpt_formula, llama_formula, t5_formula, vit_formula
from tfmr.model import Transformer
from tfmr.training_memory import transformer_formula

BATCH = 8
"""Texts, pairs or images of a step."""
LLAMA = LlamaConfig(
    vocab=32000, d_model=768, n_layers=12, n_heads=12, n_kv_heads=4, d_ff=2048, max_length=1024
)
"""A current model of the size of BERT-base; the default sizes of the class need 128 GB."""


class Case(NamedTuple):
    """A model, its inputs, and the predicted bytes of its activations."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    activations: int


@dataclass(frozen=True)
class StepMemory:
    """Measure the peak memory of a training step of each model."""

    length: int = 64
    """Tokens of a text; a sentence pair has as many source and target tokens each."""
    threads: int = 1
    """CPU threads."""
    out: Path = record.FOLDER / "step-memory.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        torch.set_num_threads(self.threads)
        metadata = record.collect_metadata()
        rows = [
            measure(name, case) for name, case in tqdm(cases(self.length).items(), unit=" models")
        ]
        settings = {"batch": BATCH, "length": self.length, "precision": "fp32"}
        record.write(self.out, "step memory", rows, settings=settings, metadata=metadata)


def cases(length: int) -> dict[str, Case]:
    """The models of the paper, and those of the family that fit into the memory of a laptop."""

    def text(vocab: int, texts: int = 1) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: tuple(torch.randint(3, vocab, (texts, BATCH, length)))

    found = {}
    for name in ("base", "big"):
        config: TransformerConfig = getattr(TransformerConfig, name)()
        found[f"Transformer {name}"] = Case(
            partial(Transformer, config),
            text(config.target_vocab, 2),
            transformer_formula(config, BATCH, length, length),
        )
    bert, gpt, t5, vit = BertConfig(), GPTConfig(), T5Config(), ViTConfig()
    image = (BATCH, vit.channels, vit.image_size, vit.image_size)
    return found | {
        "BERT-base": Case(partial(Bert, bert), text(bert.vocab), bert_formula(bert, BATCH, length)),
        "GPT-2, smallest": Case(
            partial(GPT, gpt), text(gpt.vocab), gpt_formula(gpt, BATCH, length)
        ),
        "T5-small": Case(partial(T5, t5), text(t5.vocab, 2), t5_formula(t5, BATCH, length, length)),
        "Llama, 12 blocks": Case(
            partial(Llama, LLAMA), text(LLAMA.vocab), llama_formula(LLAMA, BATCH, length)
        ),
        "ViT-B/16": Case(partial(ViT, vit), lambda: (torch.randn(image),), vit_formula(vit, BATCH)),
    }


def measure(name: str, case: Case) -> dict[str, Any]:
    """The row of a model."""
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in case.make().parameters())
    return {
        "model": name,
        "parameters": parameters,
        "activations": case.activations,
        "predicted": 16 * parameters + case.activations,
        "gradients_kept": peak_bytes(lambda: two_steps(case, release=False)),
        "gradients_released": peak_bytes(lambda: two_steps(case, release=True)),
    }


def two_steps(case: Case, *, release: bool) -> None:
    """Make the model and take two training steps."""
    torch.manual_seed(0)
    model = case.make()
    adam = torch.optim.Adam(model.parameters())
    inputs = case.inputs()
    for _ in range(2):
        adam.zero_grad(set_to_none=release)
        loss(model, inputs).backward()
        adam.step()


def loss(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """The cross-entropy of all logits, with the same label everywhere."""
    if isinstance(model, Transformer):
        logits = model.scores(model.hidden(*inputs))
    else:
        logits = model(*inputs)
    logits = logits.flatten(0, -2)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def table(rows: list[Row], settings: Row) -> list[str]:
    """The predicted and the measured memory of a training step."""
    columns = ("predicted", "gradients_kept", "gradients_released")
    lines = [
        [row["model"], f"{row['parameters']:,}", *(f"{row[name] / 1e9:.2f}" for name in columns)]
        for row in rows
    ]
    return [
        f"Memory, in GB, of a training step in {settings['precision']} with Adam, for a batch of "
        f"{settings['batch']} texts, sentence pairs or images (texts and sentences of "
        f"{settings['length']} tokens): the prediction of the formulas of chapter 16, and the "
        "measured peak of the second step, once with gradients that remain in memory and once "
        "with gradients that are released before the forward pass.",
        markdown(["", "parameters", *(name.replace("_", " ") for name in columns)], lines),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The statements of chapter 16 about the peak memory of a training step."""
    for row in rows:
        kept, released = (
            row[name] / row["predicted"] for name in ("gradients_kept", "gradients_released")
        )
        claim = f"{row['model']}: {kept:.2f} and {released:.2f} of the prediction"
        yield claim, 1 <= kept < 1.2 and released < kept


if __name__ == "__main__":
    record.run(StepMemory)
