"""What a run learns from: its corpus as batches of ids, held in memory or mapped from a file."""

from pathlib import Path

from tqdm import tqdm

from tfmr.data.batches import Batches
from tfmr.data.corpus import Corpus
from tfmr.data.tokenfile import TokenFile, write_token_file
from tfmr.data.tokenizer import Tokenizer
from tfmr.train.distributed import World
from tfmr.train.recipes import Recipe


def training_batches(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, path: Path, world: World, *, again: bool
) -> Batches:
    """The batches of the training part; those of a streamed corpus come from a token file.

    Args:
        corpus: what to learn from.
        tokenizer: its vocabulary.
        recipe: how batches are filled.
        path: of the token file, which the first process writes.
        world: the processes that read it.
        again: write it even if there is one.

    Raises:
        TfmrError: if a sentence is empty, none is short enough, or the file cannot be written.
    """
    if not corpus.is_streamed:
        return recipe.fill(corpus.train, tokenizer)
    if world.is_main and (again or not path.exists()):
        with tqdm(total=len(corpus.train), unit="pair", desc="encode", delay=1, leave=False) as bar:
            write_token_file(path, corpus.train, tokenizer, bar.update)
    world.barrier()
    return recipe.fill_with(TokenFile(path, tokenizer.fingerprint))
