"""Marian and GPT-2 of Hugging Face's ``transformers``, used as in their documentation."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
)

from benchmarks.patients.case import TRAINING, Case, losses, stepwise
from tfmr.doctor import Subject
from tfmr.special_tokens import BOS, EOS, PAD

VOCAB = 30


def marian(*faults: str, **options: Any) -> Subject:
    """A Marian translation model."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "vocab_size": VOCAB,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 32,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "init_std": 0.2,
        "dropout": 0.1,
        "attn_implementation": "eager",
    }
    model = MarianMTModel(MarianConfig(**(settings | options)))

    def mask(source: Tensor, name: str) -> Tensor:
        real = source != PAD
        return torch.ones_like(real) if name in faults else real

    def encode(source: Tensor) -> Tensor:
        encoder = model.get_encoder()
        memory: Tensor = encoder(source, mask(source, "encoder padding")).last_hidden_state
        return memory

    def decode(source: Tensor, memory: Tensor, target: Tensor, **more: Any) -> Any:
        return model(
            attention_mask=mask(source, "cross padding"),
            encoder_outputs=(memory,),
            decoder_input_ids=target,
            **more,
        )

    def logits(source: Tensor, target: Tensor) -> Tensor:
        result: Tensor = decode(source, encode(source), target).logits
        return result

    def cached(source: Tensor, target: Tensor) -> Tensor:
        memory, cache = encode(source), None

        def step(tokens: Tensor, t: int) -> Tensor:
            nonlocal cache
            if "cache forgets" in faults and t == 3:
                cache = None
            out = decode(source, memory, tokens, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            result: Tensor = out.logits
            return result

        return stepwise(step, target)

    _plant(model, faults)
    total = sum(each.numel() for each in model.parameters())
    return Subject(
        model=model,
        logits=logits,
        encode=encode,
        cached=cached,
        parameters=total,
        vocab=VOCAB,
        source_vocab=VOCAB,
        **losses(logits, *faults),
    )


def gpt2(*faults: str, **options: Any) -> Subject:
    """A GPT-2 language model."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "vocab_size": VOCAB,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 32,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "initializer_range": 0.2,
        "attn_implementation": "eager",
    }
    model = GPT2LMHeadModel(GPT2Config(**(settings | options)))

    def logits(ids: Tensor) -> Tensor:
        real = (ids != PAD).long()
        positions = (real.cumsum(dim=1) - 1).clamp(min=0)
        if "positions count padding" in faults:
            positions = torch.arange(ids.shape[1]).expand_as(ids)
        if "no padding mask" in faults:
            real = torch.ones_like(real)
        result: Tensor = model(ids, attention_mask=real, position_ids=positions).logits
        return result

    def cached(ids: Tensor) -> Tensor:
        cache = None

        def step(tokens: Tensor, t: int) -> Tensor:
            nonlocal cache
            at = {"position_ids": torch.zeros_like(tokens)} if "cache positions" in faults else {}
            out = model(tokens, past_key_values=cache, use_cache=True, **at)
            cache = out.past_key_values
            result: Tensor = out.logits
            return result

        return stepwise(step, ids)

    _plant(model, faults)
    return Subject(
        model=model,
        logits=logits,
        cached=cached,
        vocab=VOCAB,
        parameters=sum(each.numel() for each in model.parameters()),
        padding_side="left" if "left" in faults else "right",
        **losses(logits, *faults),
    )


def _plant(model: Any, faults: tuple[str, ...]) -> None:
    """Plant the faults that concern the modules of a model."""
    for module in model.modules():
        is_dropout = isinstance(module, nn.Dropout) or isinstance(
            getattr(module, "dropout", None), float
        )
        if "dropout" in faults and is_dropout:
            module.train = lambda mode=True, module=module: module
        scaling = getattr(module, "scaling", None)
        if "unscaled" in faults and isinstance(scaling, float):
            module.scaling = 1.0
        if "no mask" in faults and hasattr(module, "is_causal"):
            _ignore_mask(module)
    if "copied" in faults or "untied" in faults:
        weight = model.get_output_embeddings().weight.detach().clone()
        model.get_output_embeddings().weight = nn.Parameter(
            torch.randn_like(weight) / 4 if "untied" in faults else weight
        )
    if "no positions" in faults:
        for name, module in model.named_modules():
            if name.endswith(("wpe", "decoder.embed_positions")):
                module.weight.data.zero_()
    if "no source positions" in faults:
        model.get_encoder().embed_positions.weight.data.zero_()


def _ignore_mask(module: Any) -> None:
    forward: Callable[..., Any] = module.forward

    def unmasked(*arguments: Any, **named: Any) -> Any:
        return forward(*arguments, **(named | {"attention_mask": None}))

    module.forward = unmasked


def _cases(
    build: Callable[..., Subject], name: str, rows: dict[str, tuple[Any, ...]]
) -> list[Case]:
    return [
        Case(f"{name}: {title}", functools.partial(build, *faults), fault)
        for title, (fault, *faults) in rows.items()
    ]


BOTH: dict[str, tuple[Any, ...]] = {
    "as documented": (None,),
    "no causal mask": ("sees the future", "no mask"),
    "dropout stays active": ("dropout in evaluation", "dropout"),
    "scores without the division": ("scores not scaled", "unscaled"),
    "no positions": ("no positions", "no positions"),
    "output weights copied": ("embeddings not tied", "copied"),
    "output weights not tied": ("embeddings not tied", "untied"),
    **TRAINING,
}
CASES = [
    *_cases(
        marian,
        "Marian",
        {
            **BOTH,
            "no padding mask in the encoder": ("attends to padding", "encoder padding"),
            "no padding mask in cross-attention": ("attends to padding", "cross padding"),
            "no positions in the source": ("no positions", "no source positions"),
            "the cache forgets": ("cache differs", "cache forgets"),
        },
    ),
    *_cases(
        gpt2,
        "GPT-2",
        {
            **BOTH,
            "padded on the left": (None, "left"),
            "no padding mask, padded on the left": (
                "attends to padding",
                "left",
                "no padding mask",
            ),
            "positions count the padding": (
                "attends to padding",
                "left",
                "positions count padding",
            ),
            "the cache has positions from 0": ("cache differs", "cache positions"),
        },
    ),
]
