"""Recipes: one for every corpus, and each makes a model."""

import pytest

from tfmr.data.corpora import LICENCES
from tfmr.data.corpus import Corpus
from tfmr.model import Transformer
from tfmr.train.recipes import RECIPES, Recipe

CORPUS = Corpus("c", "en", "fr", [("a cat", "un chat")], [("b", "bb")], [("d", "dd")], "")


def test_every_corpus_has_a_recipe() -> None:
    assert set(RECIPES) == {"pocket", *LICENCES}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_a_model_that_fits_its_vocabulary(name: str) -> None:
    recipe = RECIPES[name]
    tokenizer = recipe.tokenizer(CORPUS)
    model = Transformer(recipe.model(tokenizer.vocab_size))
    assert model.source_embedding.weight is model.output.weight
    assert model.source_embedding.num_embeddings == tokenizer.vocab_size <= recipe.vocab_size
    assert model.config.max_length <= recipe.tokens_per_batch
    assert model.config.dropout == recipe.dropout
    assert (model.config.norm, model.config.d_ff) == (recipe.norm, recipe.d_ff)
    assert (model.config.n_encoder, model.config.n_decoder) == (recipe.n_encoder, recipe.n_decoder)
    assert len(model.decoder.blocks) == recipe.n_decoder


def test_the_vocabulary_is_learnt_from_both_sides_of_the_training_part_alone() -> None:
    tokenizer = Recipe(vocabulary="words").tokenizer(CORPUS)
    assert tokenizer.vocabulary == ["a", "cat", "chat", "un"]
