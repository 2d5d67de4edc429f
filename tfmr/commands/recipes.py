"""``recipes``: list the recipes of the package."""

from dataclasses import dataclass

from tfmr.errors import TfmrError


@dataclass(frozen=True)
class Recipes:
    """List the recipes of the package with their language pairs and descriptions.

    Train with one of them: python -m tfmr train --recipe NAME
    """

    def __call__(self) -> None:
        """Print one line per recipe.

        Raises:
            TfmrError: after the list, if a recipe file is invalid.
        """
        from tfmr.train.config import find_recipe, recipe_names

        names = recipe_names()
        width = max(map(len, names), default=0)
        invalid = []
        for name in names:
            try:
                recipe = find_recipe(name)
            except TfmrError as error:
                invalid.append(str(error))
            else:
                print(f"{name:{width}}  {', '.join(recipe.directions):23}  {recipe.about}")
        if invalid:
            raise TfmrError(f"invalid recipe: {'; '.join(invalid)}")
