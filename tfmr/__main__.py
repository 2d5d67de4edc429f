"""``python -m tfmr``: train a model, translate with it, score it."""

import os
import sys

# Read when torch is imported. Threads that wait for one another without ever letting go of their
# core, the default, lose most of their time as soon as another program wants it; on a laptop one
# always does. This many turns of waiting, then sleep, costs nothing when the machine is free.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import tyro

from tfmr.commands.evaluate import Evaluate
from tfmr.commands.export import Export
from tfmr.commands.recipes import Recipes
from tfmr.commands.train import Train
from tfmr.commands.translate import Translate
from tfmr.errors import TfmrError


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit status 2."""
    command = tyro.extras.subcommand_cli_from_dict(
        {
            "train": Train,
            "translate": Translate,
            "evaluate": Evaluate,
            "export": Export,
            "recipes": Recipes,
        },
        prog="python -m tfmr",
        description="Train a Transformer, translate with it, score it.",
    )
    try:
        command()
        sys.stdout.flush()
    except TfmrError as error:
        print(f"tfmr: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("tfmr: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever reads the output, head for example, has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
