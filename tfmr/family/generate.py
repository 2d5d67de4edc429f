"""Continue prompts with a decoder-only model, or answer with T5, token by token, with a cache."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from tfmr.errors import TfmrError, require
from tfmr.family.language_model import LanguageModel
from tfmr.family.t5 import T5

Choose = Callable[[Float[Tensor, "rows vocab"]], Int[Tensor, "rows"]]


def greedy(logits: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows"]:
    """The most probable token of each row."""
    return logits.argmax(dim=1)


def sampler(
    generator: torch.Generator, *, temperature: float = 1.0, top_k: int | None = None
) -> Choose:
    """Draw from the ``top_k`` most probable tokens, after dividing the logits by ``temperature``.

    Raises:
        TfmrError: if ``temperature`` is not positive or ``top_k`` is less than 1.
    """
    require(temperature > 0, f"temperature must be positive: got {temperature}; use greedy instead")
    require(top_k is None or top_k >= 1, f"top_k must be at least 1: got {top_k}")

    def draw(logits: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows"]:
        if top_k is not None and top_k < logits.shape[1]:
            least = logits.topk(top_k, dim=1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        probs = (logits / temperature).softmax(dim=1)
        return torch.multinomial(probs, 1, generator=generator)[:, 0]

    return draw


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    choose: Choose = greedy,
    *,
    eos: int | None = None,
    progress: bool = False,
) -> list[list[int]]:
    """Continue several prompts at once.

    All rows always have equally many tokens, so no padding and no mask are needed: the model first
    processes as many tokens as the shortest prompt has (prefill), then one per step, and while a
    step is inside a longer prompt, the next token of that prompt replaces the chosen one.

    Args:
        model: in evaluation mode.
        prompts: one list of ids per text, at least one id each.
        max_new_tokens: maximum number of tokens to add to each prompt.
        choose: chooses the next token of each row from its logits.
        eos: the token that ends a text; ``None`` if there is none.
        progress: whether to show a progress bar.

    Returns:
        The tokens added to each prompt, without ``eos``.

    Raises:
        TfmrError: if the model is in training mode, a prompt is empty, an id is outside the
            vocabulary, or prompt and continuation are longer than the model's ``max_length``.
    """
    require(not model.training, "generation needs a model in evaluation mode; call model.eval()")
    lengths = [len(prompt) for prompt in prompts]
    if not lengths or min(lengths) == 0:
        raise TfmrError(
            f"expected at least one prompt with at least one token, got prompts of {lengths} tokens"
        )
    require(max_new_tokens > 0, f"max_new_tokens must be positive: got {max_new_tokens}")
    longest = max(lengths) + max_new_tokens
    require(
        longest <= model.max_length,
        f"the model has {model.max_length} positions, but the longest prompt and its continuation "
        f"have {max(lengths)} + {max_new_tokens}; shorten one of them",
    )
    device = model.embedding.weight.device
    texts = [list(prompt) for prompt in prompts]
    finished = [False] * len(texts)
    caches = model.new_caches(longest)
    known = min(lengths)
    ids = torch.tensor([text[:known] for text in texts], device=device)
    with tqdm(total=longest - known, disable=not progress, desc="generating") as bar:
        while True:
            chosen = choose(model(ids, caches=caches)[:, -1]).tolist()
            for row, token in enumerate(chosen):
                if finished[row] or len(texts[row]) > known:  # ended, or still inside its prompt
                    continue
                if token != eos:
                    texts[row].append(token)
                length = lengths[row] + max_new_tokens
                finished[row] = token == eos or len(texts[row]) == length
            known += 1
            bar.update()
            if all(finished):
                break
            # A finished row is computed on with its last token; its output is not used.
            ids = torch.tensor([[text[min(known, len(text)) - 1]] for text in texts], device=device)
    return [text[length:] for text, length in zip(texts, lengths, strict=True)]


@torch.no_grad()
def answer(
    model: T5,
    source: Int[Tensor, "batch source"],
    max_new_tokens: int,
    choose: Choose = greedy,
    *,
    start: int,
    eos: int,
    source_mask: Bool[Tensor, "batch source"] | None = None,
) -> list[list[int]]:
    """Generate the output texts of a T5 for a batch of input texts.

    Args:
        model: in evaluation mode.
        source: ids of the input texts.
        max_new_tokens: maximum number of tokens of an output text.
        choose: chooses the next token of each row from its logits.
        start: the first input of the decoder; the checkpoints of T5 use their padding token.
        eos: the token that ends a text.
        source_mask: ``True`` for real tokens, ``False`` for padding; ``None``: all real.

    Returns:
        One list of ids per text, without ``start`` and ``eos``.

    Raises:
        TfmrError: if the model is in training mode, ``max_new_tokens`` is not positive, or as
            :meth:`tfmr.family.t5.T5.forward`.
    """
    require(not model.training, "generation needs a model in evaluation mode; call model.eval()")
    require(max_new_tokens > 0, f"max_new_tokens must be positive: got {max_new_tokens}")
    memory = model.encode(source, source_mask)
    caches = model.new_caches(max_new_tokens, source.shape[1])
    texts: list[list[int]] = [[] for _ in source]
    finished = [False] * len(texts)
    ids = torch.full((len(texts), 1), start, device=source.device)
    for _ in range(max_new_tokens):
        ids = choose(model.decode(ids, memory, source_mask, caches)[:, -1])[:, None]
        for row, token in enumerate(ids[:, 0].tolist()):
            finished[row] = finished[row] or token == eos
            if not finished[row]:
                texts[row].append(token)
        if all(finished):
            break
    return texts
