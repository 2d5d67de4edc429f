"""Alignment: from the weights between tokens to pairs of words."""

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


def test_the_words_of_pieces() -> None:
    ids = BPE.encode("lower é low")
    assert len(ids) > 3
    words, owners = group_into_words(BPE, ids)
    assert words == ["lower", "é", "low"]
    assert owners == sorted(owners)
    for number, word in enumerate(words):
        own = [id for id, owner in zip(ids, owners, strict=True) if owner == number]
        assert BPE.decode(own).strip() == word
    assert group_into_words(TOKENIZER, [4, 5]) == (["w0", "w1"], [0, 1])
    assert group_into_words(BPE, []) == ([], [])


def test_what_is_read_is_summed_over_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = BPE.encode("xy low"), BPE.encode("low ab")
    _, reads = group_into_words(BPE, source)
    _, says = group_into_words(BPE, target)
    model = transformer(source_vocab=264, target_vocab=264)
    asked: list[list[int]] = []

    def alignment(source: Tensor, target: Tensor) -> Tensor:
        asked.extend(target.tolist())
        # The second word is read most by each piece alone, the first by all its pieces together.
        weights = torch.zeros(1, len(says), len(reads))
        for row, word in enumerate(says):
            for column, other in enumerate(reads):
                weights[0, row, column] = 0.3 if other == 0 else 0.4
            if word == 1:
                weights[0, row] = torch.tensor([1.0 * (other == 1) for other in reads])
        return weights

    monkeypatch.setattr(model, "alignment", alignment)
    assert sum(word == 0 for word in reads) == 3
    assert sum(word == 1 for word in reads) == 1
    assert align(model, BPE, source, target) == [("xy", "low"), ("low", "ab")]
    assert asked == [[BOS, *target[:-1]]]


def test_every_word_is_aligned_and_with_one_of_the_source() -> None:
    for model in (transformer(), recurrent()):
        pairs = align(model, TOKENIZER, [4, 5, 6], [10, 11])
        assert [target for _, target in pairs] == ["w6", "w7"]
        assert {source for source, _ in pairs} <= {"w0", "w1", "w2"}
        assert align(model, TOKENIZER, [4], []) == []


def test_what_cannot_be_aligned() -> None:
    with pytest.raises(TfmrError, match="needs a source sentence"):
        align(transformer(), TOKENIZER, [], [4])
    with pytest.raises(TfmrError, match="attention"):
        align(recurrent(attention=False), TOKENIZER, [4], [4])
