"""``python -m tfmr``: train a model, translate with it, evaluate it."""

import os
import sys

# OpenMP reads this variable when torch is imported. By default, waiting OpenMP threads keep their
# cores busy, which slows training down if another program needs the cores, as on most laptops. With
# this limit they sleep after a short wait, which costs no time on an otherwise idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import tyro

from tfmr.commands.evaluate import Evaluate
from tfmr.commands.export import Export
from tfmr.commands.recipes import Recipes
from tfmr.commands.train import Train
from tfmr.commands.translate import Translate
from tfmr.errors import TfmrError


def main() -> None:
    """Run the command line; invalid input gives one line on standard error and exit status 2."""
    command = tyro.extras.subcommand_cli_from_dict(
        {
            "train": Train,
            "translate": Translate,
            "evaluate": Evaluate,
            "export": Export,
            "recipes": Recipes,
        },
        prog="python -m tfmr",
        description="Train a translation model, translate with it, evaluate it.",
    )
    try:
        command()
        sys.stdout.flush()
    except TfmrError as error:
        print(f"tfmr: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(f"tfmr: {str(stop) or 'stopped'}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The program that reads the output, for example head, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
