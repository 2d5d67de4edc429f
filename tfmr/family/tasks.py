"""Three tasks on letters for T5: a prefix selects what to do with the same input.

Every input is a prefix and some random letters; the output is the letters copied, reversed or
sorted. Without the prefix, the task can only be guessed.
"""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from tfmr.errors import require
from tfmr.family.generate import answer
from tfmr.family.t5 import T5, T5Config
from tfmr.family.training import train
from tfmr.special_tokens import BOS, EOS, SPECIAL

TASKS = ("copy", "reverse", "sort")
"""The tasks; the prefix of task ``k`` is the token ``len(SPECIAL) + k``."""
LETTERS = "abcdefgh"
FIRST_LETTER = len(SPECIAL) + len(TASKS)
LENGTH = 5
"""Number of letters of an input."""
CONFIG = T5Config(
    vocab=FIRST_LETTER + len(LETTERS),
    d_model=64,
    d_k=16,
    d_ff=128,
    n_encoder=2,
    n_decoder=2,
    n_heads=4,
    dropout=0.0,
    n_buckets=16,
    max_distance=16,
)
BATCH, PEAK_LR, TESTS = 64, 3e-3, 1000

Batch = tuple[Int[Tensor, "batch"], Int[Tensor, "batch length_plus_1"], Int[Tensor, "batch length"]]


def draw(count: int, generator: torch.Generator, *, prefix: bool = True) -> Batch:
    """Random tasks, inputs with their prefixes, and expected outputs.

    Args:
        count: number of inputs.
        generator: source of random numbers.
        prefix: whether the first token states the task; otherwise it is that of *copy*.
    """
    require(count > 0, f"count must be positive: got {count}")
    task = torch.randint(len(TASKS), (count,), generator=generator)
    letters = FIRST_LETTER + torch.randint(len(LETTERS), (count, LENGTH), generator=generator)
    outputs = torch.stack([letters, letters.flip(1), letters.sort(dim=1).values])
    first = len(SPECIAL) + task * int(prefix)
    return task, torch.cat([first[:, None], letters], dim=1), outputs[task, torch.arange(count)]


def encode(task: str, letters: str) -> Int[Tensor, "1 length"]:
    """The input of a task on ``letters``, for example ``encode("sort", "cab")``."""
    require(
        task in TASKS and len(letters) > 0 and set(letters) <= set(LETTERS),
        f"expected one of the tasks {', '.join(TASKS)} and letters of {LETTERS!r}, got {task!r} "
        f"and {letters!r}",
    )
    ids = [FIRST_LETTER + LETTERS.index(letter) for letter in letters]
    return torch.tensor([[len(SPECIAL) + TASKS.index(task), *ids]])


def decode(ids: list[int]) -> str:
    """The letters of ``ids``; a question mark stands for every other token."""
    known = dict(enumerate(LETTERS, FIRST_LETTER))
    return "".join(known.get(token, "?") for token in ids)


def train_t5(steps: int, seed: int, *, prefix: bool = True) -> T5:
    """Train a T5 with :data:`CONFIG` on all tasks at once."""
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        _, source, target = draw(BATCH, generator, prefix=prefix)
        logits = model(source, F.pad(target, (1, 0), value=BOS))
        return F.cross_entropy(logits.flatten(0, 1), F.pad(target, (0, 1), value=EOS).flatten())

    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = T5(CONFIG)
        train(model, loss, steps, PEAK_LR)
    return model


def accuracy(model: T5, seed: int, *, prefix: bool = True) -> dict[str, float]:
    """The fraction of outputs without an error, by task, on :data:`TESTS` random inputs."""
    generator = torch.Generator().manual_seed(1_000_000 + seed)
    task, source, target = draw(TESTS, generator, prefix=prefix)
    outputs = answer(model, source, LENGTH + 1, start=BOS, eos=EOS)
    correct = torch.tensor([a == b for a, b in zip(outputs, target.tolist(), strict=True)])
    return {name: correct[task == k].float().mean().item() for k, name in enumerate(TASKS)}
