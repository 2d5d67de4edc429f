"""Correct models of other designs: relative and rotary positions, ALiBi, normalised queries."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.patients.case import Case, losses
from tfmr.doctor import Subject
from tfmr.special_tokens import BOS, EOS, PAD

VOCAB, WIDTH = 30, 16
IDS = {
    "vocab_size": VOCAB,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
}
LLAMA: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "initializer_range": 0.2,
}
"""The settings of models like LLaMA; two heads share a key and a value."""


def translator(name: str, **options: Any) -> Subject:
    """A translation model of Hugging Face."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**IDS, **options)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)

    def logits(source: Tensor, target: Tensor) -> Tensor:
        result: Tensor = model(
            input_ids=source, attention_mask=source != PAD, decoder_input_ids=target
        ).logits
        return result

    return Subject(model=model, logits=logits, vocab=VOCAB, source_vocab=VOCAB, **losses(logits))


def language_model(name: str, head: str = "ForCausalLM", **options: Any) -> Subject:
    """A language model of Hugging Face."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**IDS, **options)
    model = getattr(transformers, f"{name}{head}")(config)

    def logits(ids: Tensor) -> Tensor:
        result: Tensor = model(ids, attention_mask=ids != PAD).logits
        return result

    return Subject(model=model, logits=logits, vocab=VOCAB, **losses(logits))


class Recurrent(nn.Module):
    """An LSTM language model, which has no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True, dropout=0.1)
        self.output = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        """The logits."""
        logits: Tensor = self.output(self.lstm(self.embedding(ids))[0])
        return logits


def recurrent() -> Subject:
    """An LSTM language model."""
    torch.manual_seed(0)
    model = Recurrent()
    return Subject(model=model, logits=model, vocab=VOCAB, **losses(model))


CORRECT: dict[str, Callable[[], Subject]] = {
    "T5": functools.partial(
        translator, "T5", d_model=WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2
    ),
    "BART": functools.partial(
        translator,
        "Bart",
        d_model=WIDTH,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        init_std=0.2,
    ),
    "LLaMA": functools.partial(language_model, "Llama", **LLAMA),
    "Mistral": functools.partial(language_model, "Mistral", **LLAMA),
    "Qwen3": functools.partial(language_model, "Qwen3", **LLAMA),
    "Gemma 2": functools.partial(language_model, "Gemma2", **LLAMA, query_pre_attn_scalar=8),
    "BLOOM": functools.partial(
        language_model, "Bloom", hidden_size=WIDTH, n_layer=2, n_head=2, initializer_range=0.2
    ),
    "OPT": functools.partial(
        language_model,
        "OPT",
        hidden_size=WIDTH,
        ffn_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        word_embed_proj_dim=WIDTH,
        init_std=0.2,
    ),
    "LSTM": recurrent,
}
CASES = [Case(name, build) for name, build in CORRECT.items()]
