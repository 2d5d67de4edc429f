"""``recipes``: what the package can be asked to train."""

from dataclasses import dataclass

from tfmr.train.recipes import RECIPES


@dataclass(frozen=True)
class Recipes:
    """List the recipes of the package; train one with `python -m tfmr train --recipe NAME`."""

    def __call__(self) -> None:
        """Print a line for each: its name, its languages, what it is."""
        width = max(map(len, RECIPES))
        for name, recipe in RECIPES.items():
            print(f"{name:{width}}  {', '.join(recipe.directions):23}  {recipe.about}")
