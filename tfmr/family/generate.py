"""Continue prompts with a decoder-only model, token by token, with its KV cache."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm.auto import tqdm

from tfmr.errors import TfmrError, require
from tfmr.family.language_model import LanguageModel

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
