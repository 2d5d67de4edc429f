"""The Transformer: parity with torch.nn, leaks, sizes, tying, decoding, invalid input."""

import dataclasses
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tfmr.attention import causal_mask, recording
from tfmr.config import TransformerConfig
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.position import sinusoidal
from tfmr.special_tokens import BOS, PAD

VOCAB = 30
TINY = TransformerConfig(
    **{"source_vocab": VOCAB, "target_vocab": VOCAB, "d_model": 16, "n_heads": 2, "d_ff": 32},
    **{"n_encoder": 2, "n_decoder": 2, "dropout": 0.0, "max_length": 12},
)
KINDS = list(product(["post", "pre"], ["sinusoidal", "learned", "rotary"]))
SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14, PAD, PAD, PAD]])
TARGET = torch.tensor([[BOS, 15, 16, 17, 18, 19], [BOS, 20, 21, 22, 23, 24]])


def build(norm: str = "post", position: str = "sinusoidal", tie: str = "three-way") -> Transformer:
    torch.manual_seed(0)
    return Transformer(dataclasses.replace(TINY, norm=norm, position=position, tie=tie)).eval()


def torch_transformer(norm: str) -> nn.Transformer:
    with warnings.catch_warnings():  # that its fast path is not available
        warnings.simplefilter("ignore")
        theirs = nn.Transformer(16, 2, 2, 2, 32, 0.0, norm_first=norm == "pre", batch_first=True)
    if norm == "post":  # PyTorch adds a final norm to both stacks that figure 1 does not have
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equal_to_torch_from_ids_to_scores(assert_parity, norm: str) -> None:
    own = build(norm)
    theirs = nn.ModuleDict({"stacks": torch_transformer(norm)})
    theirs.target_embedding = nn.Embedding(VOCAB, 16)

    class Stacked(nn.Module):
        """Our model with the names of torch.nn."""

        def __init__(self) -> None:
            super().__init__()
            self.stacks = nn.ModuleDict({"encoder": own.encoder, "decoder": own.decoder})
            self.target_embedding = own.target_embedding

    def other(module: nn.ModuleDict) -> Tensor:
        matrix = module.target_embedding.weight
        vectors = [
            F.embedding(ids, matrix) * 4 + sinusoidal(ids.shape[1], 16).double()
            for ids in (SOURCE, TARGET)
        ]
        out = module.stacks(
            *vectors,
            tgt_mask=~causal_mask(TARGET.shape[1]),
            src_key_padding_mask=SOURCE == PAD,
            memory_key_padding_mask=SOURCE == PAD,
        )
        return out @ matrix.T

    own.double()
    assert_parity(Stacked(), theirs, [], lambda _: own(SOURCE, TARGET), other)


@pytest.mark.parametrize(("norm", "position"), KINDS)
def test_padding_does_not_change_logits(norm: str, position: str) -> None:
    model = build(norm, position)
    scores = model(SOURCE, TARGET)
    wider = model(F.pad(SOURCE, (0, 3)), TARGET)
    assert_close(wider, scores, atol=1e-5, rtol=0)
    alone = model(SOURCE[1:, :4], TARGET[1:])
    assert_close(alone, scores[1:], atol=1e-5, rtol=0)
    longer = model(SOURCE, F.pad(TARGET, (0, 2)))
    assert_close(longer[:, :-2], scores, atol=1e-5, rtol=0)
    with torch.no_grad():
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.weight[PAD] = 100.0
    others = model(F.pad(SOURCE, (0, 3)), F.pad(TARGET, (0, 2)))[:, :-2]
    assert_close(others[..., 1:], scores[..., 1:], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("norm", "position"), KINDS)
def test_a_logit_depends_on_its_prefix_and_its_source_only(norm: str, position: str) -> None:
    model = build(norm, position, "none")  # all ids differ, so a row of a matrix is a position
    for row, t in product(range(2), range(TARGET.shape[1])):
        model.zero_grad()
        model(SOURCE, TARGET)[row, t].square().sum().backward()
        seen = model.target_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert seen.nonzero().flatten().tolist() == sorted(TARGET[row, : t + 1].tolist())
        attended = model.source_embedding.weight.grad.abs().sum(dim=-1) > 0
        assert attended.nonzero().flatten().tolist() == SOURCE[row][SOURCE[row] != PAD].tolist()


@pytest.mark.parametrize(
    ("config", "count", "paper", "within"),
    [
        (TransformerConfig.base(), 63_082_496, 65e6, 0.035),
        (TransformerConfig.big(), 214_245_376, 213e6, 0.01),
    ],
    ids=["base", "big"],
)
def test_the_papers_models_have_the_papers_sizes(
    config: TransformerConfig, count: int, paper: float, within: float
) -> None:
    d, ff = config.d_model, config.d_ff
    attention = 4 * (d * d + d)
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    by_hand = (
        37000 * d  # one matrix: both embeddings and the output projection
        + 6 * (attention + feed_forward + 2 * norm)
        + 6 * (2 * attention + feed_forward + 3 * norm)
    )
    with torch.device("meta"):
        assert Transformer(config).count_parameters() == by_hand == count
    assert abs(count / paper - 1) < within


@pytest.mark.parametrize(("tie", "matrices"), [("three-way", 1), ("target", 2), ("none", 3)])
def test_tied_matrices_share_their_storage_and_others_do_not(tie: str, matrices: int) -> None:
    model = build(tie=tie)
    weights = [model.source_embedding.weight, model.target_embedding.weight, model.output.weight]
    assert len({weight.data_ptr() for weight in weights}) == matrices
    assert (weights[1] is weights[2]) == (tie != "none")
    stacks = sum(p.numel() for part in (model.encoder, model.decoder) for p in part.parameters())
    assert model.count_parameters() == stacks + matrices * VOCAB * 16
    model(SOURCE, TARGET).sum().backward()
    assert all(weight.grad is not None for weight in weights)


def test_a_tied_matrix_starts_as_an_embedding_and_not_as_a_projection() -> None:
    model = Transformer(
        TransformerConfig(source_vocab=2000, target_vocab=2000, d_model=64, n_heads=2, d_ff=64)
    )
    assert model.output.weight.detach().std().item() == pytest.approx(1 / 8, rel=0.02)
    assert all(
        not m.bias.any() for m in model.modules() if isinstance(m, nn.Linear) and m.bias is not None
    )


@pytest.mark.parametrize("side", ["source", "target"])
def test_embeddings_are_scaled_by_the_root_of_d_model_before_positions(side: str) -> None:
    model, seen = build(tie="none"), []
    stack = model.encoder if side == "source" else model.decoder
    stack.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(SOURCE, TARGET)
    ids = SOURCE if side == "source" else TARGET
    embedding = model.source_embedding if side == "source" else model.target_embedding
    assert_close(seen[0], embedding(ids) * math.sqrt(16) + sinusoidal(ids.shape[1], 16))


def test_rotary_positions_act_in_self_attention_only() -> None:
    model = build(position="rotary")
    assert model.position is None
    blocks = model.decoder.blocks
    assert all(block.self_attention.rotary is not None for block in blocks)
    assert all(block.cross_attention.rotary is None for block in blocks)
    assert all(block.attention.rotary is not None for block in model.encoder.blocks)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, dropout=0.5))
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


UNEQUAL = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [11, 12, 13, 0, 0], [14, 0, 0, 0, 0]])


def test_alignment_is_the_mean_attention_of_the_last_block() -> None:
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, n_decoder=3)).eval().double()
    source, target = UNEQUAL, torch.randint(4, 30, (4, 6))
    weights = model.alignment(source, target)
    assert weights.shape == (4, 6, 5)
    assert_close(weights.sum(dim=2), torch.ones(4, 6, dtype=torch.float64))
    assert not weights[(source == PAD)[:, None].expand_as(weights)].any()

    last = model.decoder.blocks[-1].cross_attention
    with recording(last) as recorded:
        model.hidden(source, target)
        # An outer recording stays active and gets nothing from alignment().
        model.alignment(source, target)
    assert len(recorded[last]) == 1
    assert_close(weights, recorded[last][0].mean(dim=1))


def test_threads_align_as_one_after_another() -> None:
    model = build()
    targets = torch.randint(4, 30, (8, 4, 6))
    expected = [model.alignment(UNEQUAL, target) for target in targets]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda target: model.alignment(UNEQUAL, target), targets))
    assert_close(found, expected)


def test_sentences_with_a_beam_are_selected_and_reordered() -> None:
    """Each hypothesis of the third and the first sentence continues as it would alone."""
    model = build().double()
    state = model.start(UNEQUAL, 3, beam=3)
    first = torch.randint(4, 30, (4, 3))
    model.step(first.flatten(), state)
    state.select(torch.tensor([2, 0]))
    parents = torch.tensor([[1, 2, 2], [0, 0, 1]])
    state.reorder(parents)
    logits = model.step(torch.full((6,), 7), state).view(2, 3, -1)
    for row, sentence in enumerate((2, 0)):
        for hypothesis, parent in enumerate(parents[row]):
            target = torch.stack([first[sentence, parent], torch.tensor(7)])[None]
            expected = model(UNEQUAL[sentence : sentence + 1], target)[0, -1]
            assert_close(logits[row, hypothesis], expected)


def test_too_many_steps() -> None:
    model = build()
    state = model.start(UNEQUAL, 2, beam=2)
    tokens = torch.full((8,), 5)
    for _ in range(2):
        model.step(tokens, state)
    with pytest.raises(TfmrError, match=r"capacity of 2.*holds 2.*1 more"):
        model.step(tokens, state)
