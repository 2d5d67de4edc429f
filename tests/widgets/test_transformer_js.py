"""The page's Transformer equals Python's: tokens, logits, attention weights, translations.

Both use the rounded weights of the page's file. The sentences are captions, sentences of the pocket
grammar, and odd texts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.widgets.page_engine import ODD, Engine, captions, engine, pocket_sentences, random_texts
from tfmr import checkpoint
from tfmr.analysis import record_attention
from tfmr.checkpoint import Checkpoint, named_weights
from tfmr.config import TransformerConfig
from tfmr.data.batches import pad
from tfmr.data.text import canonical
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.decode.beam import beam_search
from tfmr.decode.greedy import greedy_search
from tfmr.fast import prepare
from tfmr.model import Transformer
from tfmr.records import record_path
from tfmr.special_tokens import BOS, EOS, UNK
from tfmr.widgets.page_model import page_model, read_page_model

TOLERANCE = 1e-4
"""The largest difference of a logit."""
NAMES = ("multi30k-de-en", "pocket-en-fr", "pocket-en-ko")


@dataclass
class Both:
    """The same model in Python and in JavaScript, with sentences and Python's translations."""

    name: str
    model: Transformer
    tokenizer: Tokenizer
    page: Engine

    @cached_property
    def sources(self) -> list[list[int]]:
        """The ids of more than 50 short sentences that the model can translate."""
        if self.name.startswith("pocket"):
            texts = pocket_sentences(self.name.removeprefix("pocket-"), 60)
        else:
            texts = [*captions()[::5], *filter(canonical, ODD)]
        found = [ids for ids in map(self.tokenizer.encode, texts) if len(ids) <= 20]
        assert len(found) > 50
        return found

    @cached_property
    def greedy(self) -> list[list[int]]:
        """Python's translations by greedy decoding."""
        return greedy_search(prepare(self.model), pad(self.sources))

    def some(self, n: int) -> list[tuple[list[int], list[int]]]:
        """About ``n`` sentences at regular intervals, with their translations."""
        return list(zip(self.sources, self.greedy, strict=True))[:: len(self.sources) // n]


def start(saved: Checkpoint, name: str, folder: Path) -> Iterator[Both]:
    text = page_model(saved, name)
    path = folder / f"{name}.js"
    path.write_text(text, encoding="utf-8")
    model = read_page_model(text).model()
    assert isinstance(model, Transformer)
    with engine(path) as page:
        yield Both(name, model, saved.tokenizer, page)


@pytest.fixture(scope="module", params=NAMES)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    saved = checkpoint.load(record_path(request.param) / "model.safetensors")
    yield from start(saved, request.param, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A small model of the other variants: post-norm, two vocabularies' weights, longer decoder."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.words(f"word{i}" for i in range(30))
    config = TransformerConfig(
        d_model=24, n_heads=3, d_ff=20, n_encoder=1, n_decoder=3, norm="post", tie="none",
        source_vocab=tokenizer.vocab_size, target_vocab=tokenizer.vocab_size, max_length=12,
    )  # fmt: skip
    model = Transformer(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    saved = Checkpoint(config, tokenizer, named_weights(model))
    yield from start(saved, "untrained", tmp_path_factory.mktemp("models"))


def python_pass(
    both: Both, source: list[int], target: list[int]
) -> tuple[torch.Tensor, dict[str, list[torch.Tensor]]]:
    """Logits and attention weights of a teacher-forced pass."""
    with torch.inference_mode(), record_attention(both.model) as maps:
        logits = both.model(torch.tensor([source]), torch.tensor([target]))[0]
    return logits, dict(maps)


def check_passes(
    both: Both, sources: list[list[int]], targets: list[list[int]], file: Path
) -> None:
    """Compare encoder outputs and logits of teacher-forced passes; in Python they are one batch."""
    batch = pad(sources)
    with torch.inference_mode():
        memories, _ = both.model.encode(batch)
        logits = both.model(batch, pad(targets))
    for source, target, memory, rows in zip(sources, targets, memories, logits, strict=True):
        both.page("teacher", source=source, target=target, file=str(file))
        found = torch.from_numpy(np.fromfile(file, "<f4"))
        expected = torch.cat([memory[: len(source)].flatten(), rows[: len(target)].flatten()])
        assert_close(found, expected, atol=TOLERANCE, rtol=0)


def test_encoder_output_and_logits_are_equal(both: Both, tmp_path: Path) -> None:
    targets = [[BOS, *ids] for ids in both.greedy]
    check_passes(both, both.sources, targets, tmp_path / "numbers")


def test_the_other_variants_are_equal(untrained: Both, tmp_path: Path) -> None:
    sources, targets = [[5], [4, 9, 20, 33], [6] * 12], [[1], [1, 7, 8], [1] + [9] * 11]
    check_passes(untrained, sources, targets, tmp_path / "numbers")
    compare_searches(untrained, [[5, 6, 7], [8], [9, 30, 31, 4, 9]])


def test_incremental_decoding_gives_the_same_logits(both: Both) -> None:
    """With the KV cache, and although a copy of the state was continued differently."""
    for source, ids in both.some(5):
        target = [BOS, *ids]
        logits, _ = python_pass(both, source, target)
        found = torch.tensor(both.page("steps", source=source, target=target))
        assert_close(found, logits[-1], atol=TOLERANCE, rtol=0)


def test_attention_weights_and_alternatives_are_equal(both: Both) -> None:
    for source, target in both.some(6):
        logits, recorded = python_pass(both, source, [BOS, *target])
        result = both.page("explain", source=source, generated=[*target, EOS])
        names = {
            "encoder": "encoder.blocks.{}.attention",
            "self": "decoder.blocks.{}.self_attention",
            "cross": "decoder.blocks.{}.cross_attention",
        }
        config = both.model.config
        for kind, name in names.items():
            blocks = config.n_encoder if kind == "encoder" else config.n_decoder
            assert len(result["maps"][kind]) == blocks
            for block, weights in enumerate(result["maps"][kind]):
                expected = recorded[name.format(block)][0][0]
                assert_close(torch.tensor(weights), expected, atol=1e-4, rtol=0)
        probabilities = logits.softmax(dim=-1)
        assert [step["id"] for step in result["steps"]] == [*target, EOS]
        for step, row in zip(result["steps"], probabilities, strict=True):
            assert step["probability"] == pytest.approx(float(row[step["id"]]), abs=1e-4)
            allowed = row[EOS:].topk(5)
            found = [each["probability"] for each in step["alternatives"]]
            assert found == pytest.approx(allowed.values.tolist(), abs=1e-4)
            for each in step["alternatives"]:
                assert each["probability"] == pytest.approx(float(row[each["id"]]), abs=1e-4)


def compare_searches(both: Both, sources: list[list[int]], **options: float) -> None:
    """Compare greedy decoding and beam search."""
    model, batch = prepare(both.model), pad(sources)
    compare_greedy(both, sources, greedy_search(model, batch))
    results = beam_search(model, batch, **options)  # type: ignore[arg-type]
    for source, hypotheses in zip(sources, results, strict=True):
        found = both.page("beam", source=source, **options)
        assert [each["ids"] for each in found] == [each.ids for each in hypotheses]
        for ours, theirs in zip(found, hypotheses, strict=True):
            assert ours["score"] == pytest.approx(theirs.score, abs=TOLERANCE)
            assert ours["finished"] == theirs.finished


def compare_greedy(both: Both, sources: list[list[int]], expected: list[list[int]]) -> None:
    for source, ids in zip(sources, expected, strict=True):
        assert both.page("greedy", source=source) == ids


def test_translations_are_equal(both: Both) -> None:
    compare_greedy(both, both.sources, both.greedy)
    compare_searches(both, both.sources[::3])


@pytest.mark.parametrize(
    "options",
    [{"beam": 1}, {"beam": 3, "alpha": 0.0, "n_best": 3}, {"beam": 5, "alpha": 1.5, "n_best": 2}],
)
def test_the_options_of_beam_search_are_equal(both: Both, options: dict[str, float]) -> None:
    compare_searches(both, both.sources[:4], **options)


def test_a_translation_of_the_maximum_length_is_truncated(untrained: Both) -> None:
    sources = [[4, k] for k in range(4, 34, 3)]
    assert max(len(untrained.page("greedy", source=source)) for source in sources) == 12
    compare_searches(untrained, sources, beam=2)


def test_tokens_are_equal(both: Both) -> None:
    texts = [*captions(), *ODD, *random_texts(400), "Ein Mann " * 1111, "x" * 10_000]
    texts += pocket_sentences("en-fr", 200)
    for text, ids in zip(texts, both.tokenizer.encode_batch(texts), strict=True):
        assert both.page("encode", text=text) == ids, text
        assert both.page("decode", ids=ids) == both.tokenizer.decode(ids)
        assert both.page("tokens", ids=ids) == both.tokenizer.tokens(ids)


def test_typed_text_is_translated_as_by_python(both: Both) -> None:
    for text in ("the owl sleeps .", "The Owl  sleeps", " The\u00a0owl\nsleeps...\u200b "):
        found = both.page("translate", text=text, beam=1)
        assert [found] == translate(both.model, both.tokenizer, [text])


def test_every_token_is_decoded_equally(both: Both) -> None:
    every = list(range(both.tokenizer.vocab_size))
    assert both.page("tokens", ids=every) == both.tokenizer.tokens(every)
    assert both.page("decode", ids=every) == both.tokenizer.decode(every)
    for ids in (every[3::7], every[300:200:-1], [BOS, EOS], [UNK]):
        assert both.page("decode", ids=ids) == both.tokenizer.decode(ids)


def test_a_character_cut_in_half_is_encoded_as_unknown_character(both: Both) -> None:
    """Half a surrogate pair can be typed into a page; Python has no such text."""
    assert both.page("encode", text="a \ud83d b") == both.tokenizer.encode("a \ufffd b")


Damage = Callable[[str], str]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "The model file is incomplete."),
        (lambda text: "<html>", "The file is not a model of this book."),
        (lambda text: text.replace("model-1", "model-9"),
         "The model file has the format tfmr-page-model-9, but this page reads "
         "tfmr-page-model-1."),
        (lambda text: text.replace('"weights":"AAAA', '"weights":"', 1).replace(
            '"weights":"', '"weights":"AAAAAAAA', 1), "The model file is incomplete."),
        (lambda text: text.replace('"weights":"', '"weights":"!'),
         "The model file is damaged."),
        (lambda text: text.replace('"name":', '"name"'), "The model file is damaged."),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_with_a_sentence(
    untrained: Both, tmp_path: Path, damage: Damage, message: str
) -> None:
    saved = Checkpoint(untrained.model.config, untrained.tokenizer, named_weights(untrained.model))
    path = tmp_path / "damaged.js"
    path.write_text(damage(page_model(saved, "small")), encoding="utf-8")
    assert untrained.page("read", file=str(path)) == message
