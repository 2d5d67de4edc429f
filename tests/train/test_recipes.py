"""Recipes: one for every corpus, each makes a model that trains; a wrong one says what is wrong."""

import dataclasses
import math
import tomllib
from pathlib import Path

import pytest
import torch

from tfmr import registry
from tfmr.data import pocket
from tfmr.data.corpora import LICENCES
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.model import TransformerConfig
from tfmr.seq2seq import Seq2SeqConfig
from tfmr.train.recipes import FOLDER, RECIPES, Recipe, find_recipe, read_recipe
from tfmr.train.schedule import paper_peak
from tfmr.train.trainer import Trainer

CORPUS = Corpus("c", "en", "fr", [("a cat", "un chat")], [("b", "bb")], [("d", "dd")], "")
LINE = ("multi30k-rnn", "multi30k-lstm", "multi30k-gru", "multi30k-lstm-attention", "multi30k")
"""The measured line, in the order of the book."""
SMALL = {
    "vocabulary.size": 300,
    "model.d_model": 16,
    "train.warmup": 10,
    "train.peak_lr": 0.01,
    "batches.tokens_per_batch": 256,
    "train.grad_accum_steps": 1,
}
"""What makes any recipe small enough to smoke-test."""
SMALL_BLOCKS = {
    "model.n_heads": 2,
    "model.d_ff": 32,
    "model.n_encoder": 1,
    "model.n_decoder": 1,
    "model.max_length": 128,
}
"""And any Transformer."""


def test_every_corpus_has_a_recipe_and_every_file_is_one() -> None:
    assert {name.replace(" ", "-") for name in ("pocket", *LICENCES)} <= set(RECIPES)
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(RECIPES)
    assert set(LINE) | {"wmt14-base", "wmt14-big"} <= set(RECIPES)
    assert RECIPES["pocket"].directions == ("en-fr", "en-ko")
    assert RECIPES["multi30k"].directions == ("de-en", "en-de", "en-fr")
    assert RECIPES["tatoeba"].directions[0] == "ko-en"


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_a_model_that_fits_its_vocabulary(name: str) -> None:
    recipe = RECIPES[name]
    vocab = recipe.tokenizer(CORPUS).vocab_size
    assert vocab <= recipe.vocabulary.size
    config = recipe.model(vocab)
    assert (config.source_vocab, config.target_vocab) == (vocab, vocab)
    same = dataclasses.replace(config, source_vocab=1, target_vocab=1)
    assert same == recipe.architecture
    assert config.max_length <= recipe.batches.tokens_per_batch


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains(name: str) -> None:
    recipe = RECIPES[name]
    blocks = isinstance(recipe.architecture, TransformerConfig)
    small = recipe.having(SMALL | SMALL_BLOCKS if blocks else SMALL)
    corpus = pocket.split("en-fr", train=200, valid=4, test=5)
    tokenizer = small.tokenizer(corpus)
    torch.manual_seed(0)
    model = registry.build(small.model(tokenizer.vocab_size))
    curve = Trainer(model, small.fill(corpus.train, tokenizer), small.train).run(steps=20)
    assert abs(curve[0].loss - math.log(tokenizer.vocab_size)) < 1
    assert curve[-1].loss < curve[0].loss - 0.3


def test_the_measured_line_differs_in_the_model_and_its_rate_alone() -> None:
    line = [RECIPES[name] for name in LINE]
    for part in ("corpus", "directions", "vocabulary", "batches", "budget", "score"):
        assert len({getattr(recipe, part) for recipe in line}) == 1
    shapes = [recipe.architecture for recipe in line]
    assert [getattr(shape, "cell", None) for shape in shapes] == [
        "rnn",
        "lstm",
        "gru",
        "lstm",
        None,
    ]
    assert [getattr(shape, "attention", None) for shape in shapes] == [*[False] * 3, True, None]
    assert all(isinstance(shape, Seq2SeqConfig) for shape in shapes[:-1])


@pytest.mark.parametrize(
    ("name", "config", "steps", "dropout", "averaged"),
    [
        ("wmt14-base", TransformerConfig.base(), 100_000, 0.1, 5),
        ("wmt14-big", TransformerConfig.big(), 300_000, 0.3, 20),
    ],
)
def test_the_papers_recipes_are_the_papers(
    name: str, config: TransformerConfig, steps: int, dropout: float, averaged: int
) -> None:
    """Vaswani et al. (2017), sections 5 and 6.1, table 3."""
    recipe = RECIPES[name]
    assert dataclasses.replace(recipe.model(37_000), max_length=config.max_length) == config
    assert recipe.vocabulary.size == 37_000
    assert recipe.batches.tokens_per_batch * recipe.train.grad_accum_steps == 25_000
    assert recipe.architecture.dropout == dropout
    assert recipe.architecture.norm == "post"
    train = recipe.train
    assert train.peak_lr == pytest.approx(paper_peak(config.d_model), rel=1e-12)
    assert (train.warmup, train.label_smoothing, train.ema_decay) == (4000, 0.1, 0)
    assert (train.betas, train.eps) == ((0.9, 0.98), 1e-9)
    assert train.max_grad_norm > 1e6
    assert recipe.budget.steps == (steps,)
    assert recipe.checkpoints.average == averaged
    assert recipe.evaluation.beam == 4


@pytest.mark.parametrize(
    ("name", "hours", "told", "share", "operations"),
    [("wmt14-base", 12, 3.3e18, 29, "9.5e17"), ("wmt14-big", 84, 2.3e19, 42, "9.6e18")],
)
def test_the_papers_cost_on_paper(
    name: str, hours: float, told: float, share: int, operations: str
) -> None:
    recipe = RECIPES[name]
    with torch.device("meta"):
        parameters = registry.build(recipe.model(37_000)).count_parameters()
    flops = recipe.training_flops(parameters, *recipe.budget.steps)
    machines = hours * 3600 * 8 * 9.5e12
    assert machines == pytest.approx(told, rel=0.02), "table 2"
    assert 100 * flops / machines == pytest.approx(share, abs=0.7)
    assert flops == pytest.approx(float(operations), rel=0.01)
    text = (FOLDER / f"{name}.toml").read_text("utf-8")
    assert operations in recipe.about
    assert f"{operations} in {recipe.budget.steps[0] // 1000} 000 steps" in text
    assert f"busy to {share} %" in text


def test_the_operations_of_a_training_step_counted_by_hand() -> None:
    recipe = RECIPES["pocket"].having({"train.grad_accum_steps": 3})
    assert recipe.training_flops(parameters=10, steps=2) == 6 * 10 * (1024 * 3) * 2


@pytest.mark.parametrize("name", RECIPES)
def test_the_file_that_a_run_keeps_says_all_of_it(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8")
    assert read_recipe(path) == find_recipe(str(path)) == recipe
    tables = tomllib.loads(path.read_text("utf-8"))
    for table, part in (("train", recipe.train), ("score", recipe.score)):
        assert set(tables[table]) == {field.name for field in dataclasses.fields(part)}
    assert set(tables["model"]) > {"kind", "d_model", "dropout"}


def test_a_value_is_changed_by_its_name() -> None:
    recipe = RECIPES["multi30k"].having({"train.seed": 7, "model.dropout": 0.25})
    assert (recipe.train.seed, recipe.architecture.dropout) == (7, 0.25)
    assert recipe.having({"train.seed": 0, "model.dropout": 0.15}) == RECIPES["multi30k"]
    for change, message in (
        ({"seed": 1}, "a recipe has no 'seed': name the table and the value, as in train.peak_lr"),
        ({"about.seed": 1}, "a recipe has no 'about.seed'"),
        ({"train.sed": 1}, r"\[train\] has no 'sed': did you mean seed\?"),
        ({"train.seed": "one"}, r"\[train\]: seed must be a whole number: got 'one'"),
    ):
        with pytest.raises(TfmrError, match=message):
            recipe.having(change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train\n", "the recipe .*own.toml is no TOML"),
        ("[training]\n", r"own.toml has no 'training': did you mean train\? It has about"),
        ("train = 3\n", r"train must be a table, \[train\] and lines below it: got 3"),
        ("about = 3\n", "own.toml: about must be a text in quotes"),
        ('[model]\nkind = "mamba"\n', r"\[model\]: kind must be one of transformer, seq2seq"),
        ("[model]\nsource_vocab = 9\n", r"\[model\] has no 'source_vocab'"),
        ("[model]\nd_model = 15\n", r"\[model\]: d_model must be divisible by n_heads"),
        ('[model]\nkind = "seq2seq"\nn_heads = 2\n', r"\[model\] has no 'n_heads'"),
        ("[train]\npeak = 0\n", r"\[train\]: the learning peak_lr must be positive"),
        (
            "[evaluation]\npatience = 2\n",
            r"\[score\]: patience=2 waits for looks .* set eval_every to",
        ),
        (
            "[evaluation]\nbeam = 0\n",
            r"\[score\]: expected eval_every >= 0, patience >= 0 and beam >= 1",
        ),
        ("[checkpoints]\nseconds = -1\n", r"\[checkpoints\]: expected seconds, steps, average"),
        (
            "[checkpoints]\naverage = 5\n",
            "the steps between two, average_every: got average=5, average_every=0",
        ),
        ("[budget]\nsteps = [5]\nminutes = [1]\n", r"\[budget\]: .*give one of them"),
        ("[checkpoints]\naverage = 5\napart = 9\n", "set one of them to 0"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TfmrError, match=message) as error:
        read_recipe(path)
    assert "\n" not in str(error.value)


def test_a_name_that_is_none_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match="no recipe is called 'wmt': there are multi30k, multi30k-"):
        find_recipe("wmt")
    with pytest.raises(TfmrError, match=r"cannot read the recipe .*none.toml: No such file"):
        find_recipe(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes("about = 'forêt'".encode("latin-1"))
    with pytest.raises(TfmrError, match=r"the recipe .*latin.toml is no TOML"):
        find_recipe(str(tmp_path / "latin.toml"))


def test_the_vocabulary_is_learnt_from_both_sides_of_the_training_part_alone() -> None:
    recipe = Recipe.from_tables({"vocabulary": {"kind": "words"}})
    assert recipe.tokenizer(CORPUS).vocabulary == ["a", "cat", "chat", "un"]
