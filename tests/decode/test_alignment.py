"""Word alignment from attention weights between tokens."""

import pytest
import torch
from torch import Tensor

from tests.decode.models import TOKENIZER, recurrent, transformer
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import align
from tfmr.decode.alignment import group_into_words
from tfmr.errors import TfmrError
from tfmr.special_tokens import BOS

BPE = Tokenizer.train_bpe(["low lower lowest"] * 9, 264)


def test_group_into_words() -> None:
    ids = BPE.encode("lower é low")
    assert len(ids) > 3
    words, word_of_id = group_into_words(BPE, ids)
    assert words == ["lower", "é", "low"]
    assert word_of_id == sorted(word_of_id)
    for number, word in enumerate(words):
        ids_of_word = [id for id, owner in zip(ids, word_of_id, strict=True) if owner == number]
        assert BPE.decode(ids_of_word).strip() == word
    assert group_into_words(TOKENIZER, [4, 5]) == (["w0", "w1"], [0, 1])
    assert group_into_words(BPE, []) == ([], [])


def test_weights_are_summed_over_the_tokens_of_each_word(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = BPE.encode("xy low"), BPE.encode("low ab")
    _, source_words = group_into_words(BPE, source)
    _, target_words = group_into_words(BPE, target)
    assert source_words == [0, 0, 0, 1]
    # For "low" the single token of "low" has the largest weight, but the three tokens of "xy" have
    # more weight together.
    weights = torch.tensor(
        [[0.0, 0, 0, 1] if word == 1 else [0.3, 0.3, 0.3, 0.4] for word in target_words]
    )
    targets: list[list[int]] = []

    def alignment(source: Tensor, target: Tensor) -> Tensor:
        targets.extend(target.tolist())
        return weights.unsqueeze(0)

    model = transformer(source_vocab=264, target_vocab=264)
    monkeypatch.setattr(model, "alignment", alignment)
    assert align(model, BPE, source, target) == [("xy", "low"), ("low", "ab")]
    assert targets == [[BOS, *target[:-1]]]


def test_every_target_word_is_aligned_with_a_source_word() -> None:
    for model in (transformer(), recurrent()):
        pairs = align(model, TOKENIZER, [4, 5, 6], [10, 11])
        assert [target for _, target in pairs] == ["w6", "w7"]
        assert {source for source, _ in pairs} <= {"w0", "w1", "w2"}
        assert align(model, TOKENIZER, [4], []) == []
        assert align(model, TOKENIZER, [], []) == []


def test_alignment_needs_a_source_and_attention() -> None:
    with pytest.raises(TfmrError, match="needs at least one source token"):
        align(transformer(), TOKENIZER, [], [4])
    with pytest.raises(TfmrError, match="attention"):
        align(recurrent(attention=False), TOKENIZER, [4], [4])
