"""The training of the family and its baselines, and the records."""

from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks import family
from benchmarks.family import CHANGES, Family, batches, evaluate, pad, shift
from benchmarks.record import read
from tfmr.data.tokenizer import Tokenizer
from tfmr.errors import TfmrError
from tfmr.family import GPT, Bert, BertConfig, GPTConfig, Llama
from tfmr.special_tokens import BOS, EOS, PAD

TEXTS = [[5, 6, 7], [6], [7, 7, 5, 6, 5], [8, 5]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of four texts instead of a download."""

    tokenizer = Tokenizer.words(["a b c d e"])

    def data() -> family.Texts:
        return family.Texts(tokenizer, TEXTS * 20, TEXTS, TEXTS)

    monkeypatch.setattr(family, "load_pocket", data)
    for source in (family.POCKET, family.CAPTIONS):
        replacement = family.Source(data, ("a", "b c"), ("a _ c",), 16, 2, 3, 1e-3)
        for name, (measure, settings) in family.EXPERIMENTS.items():
            if isinstance(measure, partial) and measure.args[0] is source:
                measured = (partial(measure.func, replacement, *measure.args[1:]), settings)
                monkeypatch.setitem(family.EXPERIMENTS, name, measured)


def test_a_batch_has_begin_end_and_padding() -> None:
    assert pad([[5], [6, 7]]).tolist() == [[BOS, 5, EOS, PAD], [BOS, 6, 7, EOS]]


def test_every_text_is_in_one_batch_of_an_epoch() -> None:
    source = batches(TEXTS, batch=2, seed=0)
    epoch = [row for _ in range(2) for row in next(source).tolist()]
    found = sorted([token for token in row if token > EOS] for row in epoch)
    assert found == sorted(TEXTS)
    assert sorted(len(row) for row in epoch) == [4, 4, 7, 7]


def test_padding_does_not_change_the_cross_entropy() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab=9, max_length=9, d_model=8, n_heads=2, d_ff=8, n_layers=1)).eval()
    alone = [evaluate(model, [text])[0] for text in TEXTS]
    assert evaluate(model, TEXTS) == pytest.approx(alone)


def test_the_mask_token_is_inserted_into_the_vocabulary() -> None:
    assert [shift(token) for token in (PAD, BOS, EOS, 3, 4, 5)] == [0, 1, 2, 3, 5, 6]
    torch.manual_seed(0)
    bert = Bert(BertConfig(vocab=10, max_length=9, d_model=8, n_heads=2, d_ff=8, n_layers=1))
    with torch.no_grad():
        bert.output.bias[shift(7)] = 100
    probs = family.fill(bert.eval(), [5, 6, 8], 1)
    assert len(probs) == 9
    assert probs[7] > 0.99


def test_a_fill_is_scored_by_the_hidden_token() -> None:
    rows = [torch.tensor([0.2, 0.5, 0.3]), torch.tensor([0.25, 0.25, 0.5])]
    found = family.scores_of_fills(rows, [([0, 2, 1], 2), ([1, 0], 0)])
    assert found.correct.tolist() == [1.0, 0.0]
    assert family.summary(found) == {"perplexity": pytest.approx(8**0.5, abs=1e-3), "accuracy": 0.5}


def test_a_gap_between_its_neighbours_by_hand() -> None:
    texts = [[4, 5, 6], [4, 5, 6], [8, 7, 6]]
    right = family.Neighbours(texts, (-1, 1), 9)
    lowest = (1 - 1 / 2) / 5 + 1 / 2 / 9  # five tokens, each between one kind of neighbours
    before_6 = (1 - 2 / 3) / 2 + 2 / 3 * lowest  # 5 and 7, with one kind of left neighbour
    both = (2 - 1 / 3) / 2 + 1 / 3 / 2 * before_6  # between 4 and 6: 5, twice
    assert right.fill([4, 8, 6], 1)[5].item() == pytest.approx(both)
    assert right.fill([3, 8, 6], 1)[5].item() == pytest.approx(before_6)
    assert right.fill([4, 8, 6], 1).sum().item() == pytest.approx(1)
    left = family.Neighbours(texts, (1, -1), 9)
    assert left.fill([4, 8, 3], 1)[5] > 0.5 > left.fill([3, 8, 6], 1)[5]
    # At the ends of a text, the neighbours are BOS and EOS.
    assert right.fill([8, 5], 0)[4] > 0.5
    assert right.fill([5, 8], 1)[6] > 0.5


def test_the_tokens_beside_a_gap_are_those_of_the_whole_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = Tokenizer.train_bpe(["a man plays a guitar.", "a dog runs."] * 9, 280)
    seen: list[list[int]] = []

    def remember(bert: object, text: list[int], position: int) -> torch.Tensor:
        seen.append([*text[:position], *text[position + 1 :]])
        return torch.rand(280)

    monkeypatch.setattr(family, "fill", remember)
    bert = Bert(BertConfig(vocab=281, max_length=9, d_model=8, n_heads=2, d_ff=8, n_layers=1))
    family.fill_text(bert, tokenizer, "a man _ a guitar.")
    whole = tokenizer.encode("a man plays a guitar.")
    verb = tokenizer.encode("plays")
    at = next(i for i in range(len(whole)) if whole[i : i + len(verb)] == verb)
    assert seen == [whole[:at] + whole[at + len(verb) :]]


def test_each_change_is_made_alone_and_all_together(tmp_path: Path) -> None:
    Family("changes", seeds=(0, 1), steps=1, out=tmp_path / "changes.json")()
    record = read(tmp_path / "changes.json")
    names = ["2017", *CHANGES, "all changes"]
    assert [(row["model"], row["seed"]) for row in record["rows"]] == [
        (name, seed) for name in names for seed in (0, 1)
    ]
    parameters = {row["model"]: row["parameters"] for row in record["rows"]}
    assert parameters["RMSNorm"] < parameters["2017"] < parameters["pre-norm"]
    assert parameters["grouped-query attention"] < parameters["2017"]
    assert parameters["separate output matrix"] == parameters["2017"] + 9 * 64
    assert abs(parameters["SwiGLU"] - parameters["2017"]) < 1000


def test_the_block_of_2017_has_none_of_the_changes() -> None:
    for change in CHANGES.values():
        for key, value in change.items():
            assert getattr(family.ORIGINAL, key) != value
    assert Llama(family.ORIGINAL).output.weight is not None


@pytest.mark.parametrize(
    "experiment", ["gpt-pocket", "llama-multi30k", "bert-multi30k", "digits", "tasks"]
)
def test_the_record_has_a_row_for_each_model_and_seed(experiment: str, tmp_path: Path) -> None:
    path = tmp_path / "family.json"
    Family(experiment, seeds=(0, 1), steps=1, out=path)()  # type: ignore[arg-type]
    record = read(path)
    assert record["kind"] == "family"
    assert record["settings"]["seeds"] == [0, 1]
    models = [row["model"] for row in record["rows"]]
    expected = {
        "gpt-pocket": ["frequencies", "2-gram", "3-gram", "4-gram", "GPT", "GPT"],
        "llama-multi30k": ["frequencies", "2-gram", "3-gram", "4-gram", "Llama", "Llama"],
        "bert-multi30k": [
            "frequencies",
            "2-gram on both sides",
            "3-gram on both sides",
            "4-gram on both sides",
            "neighbours, left kept longest",
            "neighbours, right kept longest",
            "BERT",
            "BERT",
        ],
        "digits": [
            "most frequent digit",
            "logistic regression",
            "nearest neighbour",
            "MLP",
            "CNN",
            "ViT",
            "logistic regression, shifted images",
            "nearest neighbour, shifted images",
            "MLP, shifted images",
            "CNN, shifted images",
            "ViT, shifted images",
        ]
        * 2,
        "tasks": ["T5 with prefixes"] * 2 + ["T5 without prefixes"] * 2,
    }
    assert models == expected[experiment]


def test_without_seeds_the_record_has_the_baselines_only(tmp_path: Path) -> None:
    path = tmp_path / "family.json"
    Family("bert-pocket", seeds=(), out=path)()
    record = read(path)
    assert "BERT" not in [row["model"] for row in record["rows"]]
    [text, table] = family.table(record["rows"], record["settings"])
    assert text == "The experiment `bert-pocket`, evaluated on the test data."
    assert "neighbours, left kept longest" in table


def test_llama_differs_from_gpt_by_the_changes_since_2017() -> None:
    vocab, d_model, d_ff = 50, family.CAPTIONS.d_model, 171
    llama = family.make_llama(vocab, family.CAPTIONS)
    block = 3 * d_model**2 + 3 * d_model * d_ff + 2 * d_model  # keys and values: half the heads
    assert llama.count_parameters() == 2 * vocab * d_model + 2 * block + d_model
    gpt = family.make_gpt(vocab, family.CAPTIONS)
    assert gpt.blocks[0].feed_forward.expand.out_features == 256
    sizes = family.EXPERIMENTS["llama-multi30k"][1]
    assert (sizes["d_ff"], sizes["n_kv_heads"]) == (d_ff, llama.config.n_kv_heads)


def test_no_steps_raise(tmp_path: Path) -> None:
    with pytest.raises(TfmrError, match=r"1.*got 0"):
        Family("digits", steps=0, out=tmp_path / "family.json")()
