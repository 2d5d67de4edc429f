"""Continue prompts with a decoder-only model, or answer with T5, by the searches of
``tfmr.decode``.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from tfmr.decode.beam import ALPHA
from tfmr.decode.generate import GenerationConfig
from tfmr.decode.sampling import Sampling
from tfmr.decode.search import search
from tfmr.errors import TfmrError
from tfmr.family.language_model import LanguageModel
from tfmr.family.t5 import T5


def stack_prompts(prompts: Sequence[Sequence[int]]) -> Int[Tensor, "batch source"]:
    """Prompts as the source of a language model: one per row, padded with -1.

    Raises:
        TfmrError: if there is no prompt, or one without tokens.
    """
    lengths = [len(prompt) for prompt in prompts]
    if not lengths or min(lengths) == 0:
        raise TfmrError(
            f"expected at least one prompt with at least one token, got prompts of {lengths} tokens"
        )
    return torch.tensor([[*prompt, *[-1] * (max(lengths) - len(prompt))] for prompt in prompts])


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    eos: int | None = None,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> list[list[int]]:
    """Continue several prompts at once.

    Args:
        model: in evaluation mode.
        prompts: one list of ids per text, at least one id each.
        max_new_tokens: maximum number of tokens to add to each prompt.
        eos: the token that ends a text; ``None`` if there is none.
        beam: hypotheses per prompt of :func:`tfmr.decode.beam.beam_search`; 1 is greedy decoding.
        alpha: exponent of the length penalty of the beam search.
        sampling: sample each next token instead of searching.
        seed: random seed of the first prompt when sampling; the second uses ``seed + 1``, and so
            on.

    Returns:
        The tokens added to each prompt, without ``eos``.

    Raises:
        TfmrError: if the model is in training mode, a prompt is empty, an id is outside the
            vocabulary, prompt and continuation are longer than the model's ``max_length``, or an
            option is out of range.
    """
    return search(
        model,
        stack_prompts(prompts).to(model.device),
        beam=beam,
        alpha=alpha,
        sampling=sampling,
        seeds=range(seed, seed + len(prompts)),
        generation=GenerationConfig(start=None, eos=eos, lowest=0, max_new_tokens=max_new_tokens),
    )


def answer(
    model: T5,
    source: Int[Tensor, "batch source"],
    max_new_tokens: int,
    *,
    start: int,
    eos: int | None,
    beam: int = 1,
    alpha: float = ALPHA,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> list[list[int]]:
    """Generate the output texts of a T5 for a batch of input texts.

    Args:
        model: in evaluation mode.
        source: ids of the input texts, padded with ``PAD``.
        max_new_tokens: maximum number of tokens of an output text.
        start: the first input of the decoder; the checkpoints of T5 use their padding token.
        eos: the token that ends a text; ``None`` if there is none.
        beam, alpha, sampling, seed: see :func:`generate`.

    Returns:
        One list of ids per text, without ``start`` and ``eos``.

    Raises:
        TfmrError: if the model is in training mode, an option is out of range, or as
            :meth:`tfmr.family.t5.T5.start`.
    """
    return search(
        model,
        source,
        beam=beam,
        alpha=alpha,
        sampling=sampling,
        seeds=range(seed, seed + len(source)),
        generation=GenerationConfig(start, eos, lowest=0, max_new_tokens=max_new_tokens),
    )
