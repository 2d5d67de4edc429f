"""Recipes: those of the package train the models they describe; an invalid one is explained."""

import dataclasses
import math
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import torch

import tfmr
from tfmr import registry
from tfmr.config import TransformerConfig
from tfmr.data import pocket
from tfmr.data.corpora import LICENCES
from tfmr.data.corpus import Corpus
from tfmr.errors import TfmrError
from tfmr.seq2seq import Seq2SeqConfig
from tfmr.train import config
from tfmr.train.config import (
    RECIPE_DIR,
    BatchConfig,
    Budget,
    CheckpointConfig,
    EvalConfig,
    Recipe,
    TrainConfig,
    VocabularyConfig,
    find_recipe,
    read_recipe,
    recipe_names,
)
from tfmr.train.schedule import paper_peak_lr
from tfmr.train.trainer import Trainer

CORPUS = Corpus("c", "en", "fr", [("a cat", "un chat")], [("b", "bb")], [("d", "dd")], "")
LINE = ("multi30k-rnn", "multi30k-lstm", "multi30k-gru", "multi30k-lstm-attention", "multi30k")
"""The systems that the book compares, in its order."""
NAMES = recipe_names()
SMALL = {
    **{"vocabulary.size": 300, "model.d_model": 16, "train.warmup": 10, "train.peak_lr": 0.01},
    **{"batches.tokens_per_batch": 256, "train.grad_accum_steps": 1},
}
"""Overrides that make any recipe small enough to train here."""
SMALL_BLOCKS = {
    **{"model.n_heads": 2, "model.d_ff": 32, "model.n_encoder": 1, "model.n_decoder": 1},
    "model.max_length": 128,
}
"""The same for the blocks of a Transformer."""


def test_every_corpus_has_a_recipe() -> None:
    assert {name.replace(" ", "-") for name in ("pocket", *LICENCES)} <= set(NAMES)
    assert set(LINE) | {"wmt14-base", "wmt14-big"} <= set(NAMES)
    assert find_recipe("pocket").directions == ("en-fr", "en-ko")
    assert find_recipe("multi30k").directions == ("de-en", "en-de", "en-fr")
    assert find_recipe("tatoeba").directions[0] == "ko-en"


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_builds_a_model_for_its_vocabulary(name: str) -> None:
    recipe = find_recipe(name)
    vocab_size = recipe.train_tokenizer(CORPUS).vocab_size
    assert vocab_size <= recipe.vocabulary.size
    model = recipe.model_config(vocab_size)
    assert (model.source_vocab, model.target_vocab) == (vocab_size, vocab_size)
    assert dataclasses.replace(model, source_vocab=1, target_vocab=1) == recipe.model
    assert model.max_length <= recipe.batches.tokens_per_batch


@cache
def pocket_corpus() -> Corpus:
    return pocket.split("en-fr", train=200, valid=4, test=5)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains(name: str) -> None:
    recipe = find_recipe(name)
    is_transformer = isinstance(recipe.model, TransformerConfig)
    small = recipe.with_overrides(SMALL | SMALL_BLOCKS if is_transformer else SMALL)
    corpus = pocket_corpus()
    tokenizer = small.train_tokenizer(corpus)
    torch.manual_seed(0)
    model = registry.build_model(small.model_config(tokenizer.vocab_size))
    batches = small.make_batches(list(corpus.train), tokenizer)
    curve = Trainer(model, batches, small.train).run(steps=20)
    assert abs(curve[0].loss - math.log(tokenizer.vocab_size)) < 1
    assert curve[-1].loss < curve[0].loss - 0.3


def test_the_compared_systems_differ_only_in_model_and_learning_rate() -> None:
    recipes = [find_recipe(name) for name in LINE]
    for part in ("corpus", "directions", "vocabulary", "batches", "budget", "evaluation"):
        assert len({getattr(recipe, part) for recipe in recipes}) == 1
    trains = {dataclasses.replace(recipe.train, peak_lr=1.0, warmup=1) for recipe in recipes}
    assert len(trains) == 1
    models = [recipe.model for recipe in recipes]
    assert [getattr(m, "cell", None) for m in models] == ["rnn", "lstm", "gru", "lstm", None]
    assert [getattr(m, "attention", None) for m in models] == [*[False] * 3, True, None]
    assert all(isinstance(model, Seq2SeqConfig) for model in models[:-1])


@pytest.mark.parametrize(
    ("name", "model", "steps", "dropout", "average"),
    [
        ("wmt14-base", TransformerConfig.base(), 100_000, 0.1, 5),
        ("wmt14-big", TransformerConfig.big(), 300_000, 0.3, 20),
    ],
)
def test_the_wmt14_recipes_have_the_settings_of_the_paper(
    name: str, model: TransformerConfig, steps: int, dropout: float, average: int
) -> None:
    """Vaswani et al. (2017), sections 5 and 6.1, table 3."""
    recipe = find_recipe(name)
    own = recipe.model_config(37_000)
    assert dataclasses.replace(own, max_length=model.max_length) == model
    assert (own.dropout, own.norm) == (dropout, "post")
    assert recipe.vocabulary.size == 37_000
    assert recipe.batches.tokens_per_batch * recipe.train.grad_accum_steps == 25_000
    train = recipe.train
    assert train.peak_lr == pytest.approx(paper_peak_lr(model.d_model), rel=1e-12)
    assert (train.warmup, train.label_smoothing, train.ema_decay) == (4000, 0.1, 0)
    assert (train.betas, train.eps) == ((0.9, 0.98), 1e-9)
    assert train.max_grad_norm > 1e6
    assert recipe.budget.steps == (steps,)
    assert recipe.checkpoints.average == average
    assert recipe.evaluation.beam == 4


@pytest.mark.parametrize(
    ("name", "hours", "reported", "share", "operations"),
    [("wmt14-base", 12, 3.3e18, 29, "9.5e17"), ("wmt14-big", 84, 2.3e19, 42, "9.6e18")],
)
def test_the_training_cost_of_the_paper(
    name: str, hours: float, reported: float, share: int, operations: str
) -> None:
    recipe = find_recipe(name)
    with torch.device("meta"):
        parameters = registry.build_model(recipe.model_config(37_000)).count_parameters()
    flops = recipe.training_flops(parameters, *recipe.budget.steps)
    capacity = hours * 3600 * 8 * 9.5e12
    assert capacity == pytest.approx(reported, rel=0.02), "table 2"
    assert 100 * flops / capacity == pytest.approx(share, abs=0.7)
    assert flops == pytest.approx(float(operations), rel=0.01)
    text = (RECIPE_DIR / f"{name}.toml").read_text("utf-8")
    assert operations in recipe.about
    assert f"{operations} in {recipe.budget.steps[0] // 1000} 000 steps" in text
    assert f"utilisation was {share} %" in text


def test_training_flops_counts_six_operations_per_weight_and_token() -> None:
    recipe = find_recipe("pocket").with_overrides({"train.grad_accum_steps": 3})
    assert recipe.training_flops(parameters=10, steps=2) == 6 * 10 * (1024 * 3) * 2


@pytest.mark.parametrize("name", NAMES)
def test_the_written_recipe_has_every_value_and_is_read_back(name: str, tmp_path: Path) -> None:
    recipe = find_recipe(name)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8")
    assert read_recipe(str(path)) == find_recipe(str(path)) == recipe
    values = tomllib.loads(path.read_text("utf-8"))
    assert values == recipe.to_dict()
    for table in ("vocabulary", "batches", "train", "checkpoints", "evaluation", "budget"):
        fields = dataclasses.fields(getattr(recipe, table))
        assert list(values[table]) == [field.name for field in fields]
    assert set(values["model"]) > {"kind", "d_model", "dropout", "max_length"}
    assert not {"source_vocab", "target_vocab"} & set(values["model"])


def test_special_characters_and_infinity_are_written() -> None:
    recipe = Recipe(about='ein "Wort", 낱말 \\ \t', train=TrainConfig(max_grad_norm=math.inf))
    assert Recipe.from_dict(tomllib.loads(recipe.to_toml())) == recipe


def test_overrides_replace_values_by_name() -> None:
    multi30k = find_recipe("multi30k")
    recipe = multi30k.with_overrides({"train.seed": 7, "model.dropout": 0.25})
    assert (recipe.train.seed, recipe.model.dropout) == (7, 0.25)
    assert recipe.with_overrides({"train.seed": 0, "model.dropout": 0.15}) == multi30k
    for override, message in (
        ({"seed": 1}, "a recipe has no value 'seed': expected TABLE.NAME, as in train.peak_lr"),
        ({"about.seed": 1}, "a recipe has no value 'about.seed'"),
        ({"train.sed": 1}, r"train: unknown key sed, did you mean seed\?"),
        ({"train.seed": "one"}, "train.seed: expected an integer, got 'one'"),
        ({"model.source_vocab": 9}, "model.source_vocab is set by the tokenizer"),
    ):
        with pytest.raises(TfmrError, match=message):
            recipe.with_overrides(override)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train\n", "the recipe .*own.toml is not valid TOML"),
        ("[training]\n", r"own.toml.*key training.*train\? \(known.*about"),
        ("train = 3\n", r"own.toml.*train.*table.*keys.*got 3"),
        ("model = 3\n", r"own.toml.*table.*keys.*got 3"),
        ("about = 3\n", r"own.toml.*about.*string, got 3"),
        ('directions = "de-en"\n', r"own.toml.*directions.*list, got 'de-en'"),
        ('[model]\nkind = "mamba"\n', "own.toml: model: expected a model of kind transformer or"),
        ("[model]\nsource_vocab = 9\n", r"own.toml.*model.source_vocab.*set.*tokenizer"),
        ("[model]\nd_model = 15\n", r"own.toml.*d_model.*divisible.*n_heads"),
        ('[model]\nkind = "seq2seq"\nn_heads = 2\n', r"own.toml.*key n_heads"),
        ("[train]\npeak_lr = 0\n", r"own.toml.*train.*peak_lr.*got 0.0"),
        ("[checkpoints]\naverage = 5\naverage_every = 9\n", "set one of them to 0"),
    ],
)
def test_an_invalid_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TfmrError, match=message):
        read_recipe(path)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (TrainConfig, {"peak_lr": 0.0}, "peak_lr must be positive"),
        (TrainConfig, {"warmup": 0}, "warmup must be at least 1 step"),
        (TrainConfig, {"max_grad_norm": 0.0}, "max_grad_norm"),
        (TrainConfig, {"grad_accum_steps": 0}, r"grad_accum_steps.*1"),
        (TrainConfig, {"precision": "fp8"}, "precision must be one of auto, fp32, tf32, bf16"),
        (TrainConfig, {"compile": True, "fsdp": True}, "compile and fsdp cannot be combined"),
        (TrainConfig, {"betas": (0.9, 1.0)}, r"betas must be in \[0, 1\)"),
        (TrainConfig, {"eps": -1.0}, "eps must not be negative"),
        (TrainConfig, {"seed": -1}, "seed must be between 0 and"),
        (TrainConfig, {"label_smoothing": 1.0}, r"label_smoothing.*\[0, 1\)"),
        (TrainConfig, {"ema_decay": -0.1}, r"ema_decay.*\[0, 1\)"),
        (EvalConfig, {"patience": 2}, r"patience=2.*validations.*set evaluation.eval_every"),
        (EvalConfig, {"beam": 0}, r"eval_every >= 0, patience >= 0.*beam >= 1"),
        (CheckpointConfig, {"seconds": -1.0}, r"seconds, steps, average.*average_every"),
        (CheckpointConfig, {"average": 5}, r"both.*both 0.*got average=5"),
        (Budget, {}, r"either minutes.*steps.*got minutes=\[\], steps=\[\]"),
        (Budget, {"minutes": (1.0,), "steps": (2,)}, "either minutes or steps"),
        (Budget, {"minutes": (-1.0, 1.0)}, "minutes must be positive"),
        (Budget, {"steps": (10, 0)}, "steps must be positive"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_value_out_of_range_is_refused(cls: type, values: dict, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        cls(**values)


def test_a_run_is_saved_every_minute_by_default() -> None:
    assert CheckpointConfig() == CheckpointConfig(60.0, steps=0, average=0, average_every=0)


def test_a_recipe_that_does_not_exist_or_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"no recipe named 'wmt'.*multi30k, multi30"):
        find_recipe("wmt")
    with pytest.raises(TfmrError, match=r"cannot read the recipe .*none.toml: No such file"):
        find_recipe(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes("about = 'forêt'".encode("latin-1"))
    with pytest.raises(TfmrError, match=r"the recipe .*latin.toml is not valid TOML"):
        find_recipe(str(tmp_path / "latin.toml"))


def test_an_invalid_recipe_of_the_package_breaks_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.toml").write_text('about = "x"\n')
    (tmp_path / "broken.toml").write_text("[train]\nwarmup = 0.5\n")
    monkeypatch.setattr(config, "RECIPE_DIR", tmp_path)
    assert recipe_names() == ["broken", "good"]
    assert find_recipe("good").about == "x"
    with pytest.raises(TfmrError, match=r"broken\.toml: train\.warmup: expected an integer"):
        find_recipe("broken")


def test_importing_the_package_parses_no_recipe() -> None:
    code = "import tomllib; del tomllib.loads; import tfmr.__main__"
    root = Path(tfmr.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_the_tokenizer_is_trained_on_both_sides_of_the_training_set_only() -> None:
    recipe = Recipe(vocabulary=VocabularyConfig("words"), batches=BatchConfig(9))
    assert recipe.train_tokenizer(CORPUS).vocabulary == ["a", "cat", "chat", "un"]
