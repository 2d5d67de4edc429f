"""The loss against its formula and PyTorch's, forward and gradient, and the work that it does."""

import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tfmr.config import TransformerConfig
from tfmr.data.batches import collate
from tfmr.dtype import Arithmetic
from tfmr.errors import TfmrError
from tfmr.model import Transformer
from tfmr.special_tokens import PAD
from tfmr.train import loss as loss_module
from tfmr.train.loss import LossModule, cross_entropy, cross_entropy_naive, linear_cross_entropy

TARGET = torch.tensor([[4, 5, 2, PAD, PAD], [6, 1, 3, 7, 2]])


class MatmulCounter(TorchDispatchMode):
    """Counts the matrix multiplications of a ``with`` statement."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in ("mm", "matmul", "addmm_")
        return func(*args, **(kwargs or {}))


def inputs(
    x_grad: bool = True, weight_grad: bool = True, dtype: torch.dtype = torch.double
) -> tuple[torch.Tensor, torch.Tensor]:
    """Decoder outputs for TARGET, and the weight of an output projection to 9 tokens."""
    torch.manual_seed(0)
    x, weight = torch.randn(2, 5, 4, dtype=dtype), torch.randn(9, 4, dtype=dtype)
    return x.requires_grad_(x_grad), weight.requires_grad_(weight_grad)


def test_hand_computed_loss() -> None:
    logits = torch.tensor([[[0.0, math.log(3), 0.0, math.log(3)]]])  # p = 1/8, 3/8, 1/8, 3/8
    target = torch.tensor([[1]])
    assert_close(cross_entropy(logits, target), torch.tensor(math.log(8 / 3)))
    assert_close(cross_entropy_naive(logits, target), torch.tensor(math.log(8 / 3)))
    # q = 0.9 [k = 1] + 0.1 / 4
    expected = 0.925 * math.log(8 / 3) + 0.025 * (2 * math.log(8) + math.log(8 / 3))
    assert_close(cross_entropy_naive(logits, target, 0.1), torch.tensor(expected))
    assert_close(cross_entropy(logits, target, 0.1), torch.tensor(expected))


LOGITS, IDS = torch.zeros(1, 2, 5), torch.tensor([[1, 2]])


def of_hidden_vectors(logits: torch.Tensor, target: torch.Tensor, *options: float) -> torch.Tensor:
    """:func:`linear_cross_entropy` with the identity as its weight: ``x`` equals the logits."""
    return linear_cross_entropy(logits, torch.eye(5), target, *options)


LOSSES = [cross_entropy, cross_entropy_naive, of_hidden_vectors]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LOGITS.tolist(), IDS), "a tensor: got list"),
        ((LOGITS, [[1, 2]]), r"target.*got list"),
        ((LOGITS.int(), IDS), r"floating-point.*got torch\.int32"),
        ((LOGITS[0], IDS), r"\(batch, target.*got \(2, 5\).*\(1, 2\)"),
        ((LOGITS, IDS[0]), r"target.*\(batch, target\).*got \(1, 2, 5\).*\(2,\)"),
        ((LOGITS, IDS[:, :1]), r"got \(1, 2, 5\).*\(1, 1\)"),
        ((LOGITS, IDS.expand(3, 2)), r"got \(1, 2, 5\).*\(3, 2\)"),
        ((LOGITS, IDS.int()), r"torch\.int32.*target\.long"),
        ((LOGITS, IDS.float()), r"torch\.float32.*target\.long"),
        ((LOGITS, IDS.to("meta")), r"device cpu, .*got meta"),
        ((LOGITS, IDS + 3), "from 0 to 4.*from 4 to 5"),
        ((LOGITS, torch.tensor([[1, -100]])), "from 0 to 4.*from -100 to 1"),
        ((LOGITS, torch.full((1, 2), PAD)), r"not padding.*\(1, 2\)"),
        ((LOGITS[:, :0], IDS[:, :0]), r"not padding.*\(1, 0\)"),
        ((LOGITS, IDS, -0.1), r"label_smoothing.*\[0, 1\].*got -0\.1"),
        ((LOGITS, IDS, 1.5), r"\[0, 1\].*got 1\.5"),
        ((LOGITS, IDS, math.nan), r"\[0, 1\].*got nan"),
    ],
)
def test_all_losses_reject_the_same_inputs(unchecked, loss, arguments, message: str) -> None:
    loss(LOGITS, IDS)
    loss(LOGITS, IDS, 1.0)
    with pytest.raises(TfmrError, match=message):
        loss(*arguments)


def test_a_message_names_the_argument_of_its_loss(unchecked) -> None:
    for loss, names in ((cross_entropy, "logits.*vocab"), (of_hidden_vectors, "x.*d_model")):
        with pytest.raises(TfmrError, match=f"^{names}"):
            loss(LOGITS[0], IDS)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.eye(5)[0], r"weight.*\(vocab, d_model\).*got \(5,\)"),
        (torch.zeros(5, 4), r"d_model=4.*got \(1, 2, 5\)"),
        (torch.eye(5).double(), r"torch\.float64.*got torch\.float32"),
        (torch.eye(5).long(), r"weight.*floating-point.*got torch\.int64"),
        (torch.eye(5).tolist(), r"weight.*got list"),
    ],
)
def test_the_fused_loss_rejects_a_weight_that_does_not_fit(unchecked, weight, message) -> None:
    with pytest.raises(TfmrError, match=message):
        linear_cross_entropy(LOGITS, weight, IDS)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_naive_and_library_versions_agree_forward_and_gradient(smoothing: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 9, dtype=torch.double, requires_grad=True)
    losses = [
        cross_entropy_naive(logits, TARGET, smoothing),
        cross_entropy(logits, TARGET, smoothing),
        F.cross_entropy(logits[TARGET != PAD], TARGET[TARGET != PAD], label_smoothing=smoothing),
    ]
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in losses]
    for loss, gradient in zip(losses[1:], gradients[1:], strict=True):
        assert_close(loss, losses[0])
        assert_close(gradient, gradients[0])
    assert not gradients[1][TARGET == PAD].any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_in_compiled_code_is_the_same(
    monkeypatch: pytest.MonkeyPatch, smoothing: float
) -> None:
    x, weight = inputs()
    expected = torch.autograd.grad(linear_cross_entropy(x, weight, TARGET, smoothing), (x, weight))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    found = torch.autograd.grad(linear_cross_entropy(x, weight, TARGET, smoothing), (x, weight))
    assert_close(found, expected)


@pytest.mark.parametrize("rows", [3, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_fused_loss_equals_loss_of_the_logits(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, rows: int
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ROWS", rows)
    x, weight = inputs()
    loss = linear_cross_entropy(x, weight, TARGET, smoothing)
    expected = cross_entropy(x @ weight.T, TARGET, smoothing)
    assert_close(loss, expected)
    with torch.no_grad():
        assert linear_cross_entropy(x, weight, TARGET, smoothing) == loss
    gradients = torch.autograd.grad(3 * expected, [x, weight])
    assert_close(torch.autograd.grad(3 * loss, [x, weight]), gradients)
    for needed in range(2):
        x, weight = inputs(needed == 0, needed == 1)
        linear_cross_entropy(x, weight, TARGET, smoothing).backward()
        assert_close((x, weight)[needed].grad, gradients[needed] / 3)


@pytest.mark.parametrize(
    ("context", "needs_grad", "matmuls"),
    [
        (nullcontext, (True, True), 3),
        (nullcontext, (True, False), 2),
        (nullcontext, (False, True), 2),
        (nullcontext, (False, False), 1),
        (torch.no_grad, (True, True), 1),
        (torch.inference_mode, (True, True), 1),
    ],
)
def test_fused_loss_computes_only_the_gradients_that_are_needed(
    context: type, needs_grad: tuple[bool, bool], matmuls: int
) -> None:
    x, weight = inputs(*needs_grad)
    with context(), MatmulCounter() as counter:
        linear_cross_entropy(x, weight, TARGET, 0.1)
    assert counter.count == matmuls


def test_fused_loss_refuses_second_derivatives() -> None:
    x, weight = inputs()
    loss = linear_cross_entropy(x, weight, TARGET)
    with pytest.raises(TfmrError, match=r"no second derivatives.*use cross_entropy\(x @ weight"):
        torch.autograd.grad(loss, x, create_graph=True)


@pytest.mark.parametrize("rows", [4, 256])
def test_autocast_rounds_only_the_matmuls(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_ROWS", rows)
    x, weight = inputs(dtype=torch.float32)
    exact = linear_cross_entropy(x, weight, TARGET, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = linear_cross_entropy(x, weight, TARGET, 0.1)
    assert rounded.dtype == torch.float32
    assert 0 < abs(rounded.item() - exact.item()) < 0.01 * exact.item(), "bfloat16 has 8 bits"
    gradients = (torch.autograd.grad(loss, [x, weight]) for loss in (rounded, exact))
    for found, expected in zip(*gradients, strict=True):
        assert found.dtype == torch.float32
        assert float((found - expected).norm() / expected.norm()) < 0.02


def test_improbable_token_has_finite_loss() -> None:
    x, weight = torch.ones(1, 1, 1), torch.tensor([[0.0], [0.0], [300.0], [0.0], [-300.0]])
    assert float(linear_cross_entropy(x, weight, torch.tensor([[4]]))) == 600.0


def test_logits_at_padding_are_ignored() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 9)
    changed = logits.clone()
    changed[TARGET == PAD] = 100 * torch.randn(2, 9)
    assert torch.equal(cross_entropy(changed, TARGET, 0.1), cross_entropy(logits, TARGET, 0.1))


def test_loss_module_is_the_loss_of_the_models_logits() -> None:
    config = TransformerConfig(
        source_vocab=30, target_vocab=30, d_model=16, n_heads=2, d_ff=16, n_encoder=1, n_decoder=1
    )
    model = Transformer(config).eval()
    batch = collate([([4 + n] * (1 + n % 4), [16 + n] * (1 + n % 5)) for n in range(8)])
    expected = cross_entropy_naive(model(batch.source, batch.target_in), batch.target_out, 0.1)
    assert_close(LossModule(model, 0.1, Arithmetic("fp32"))(batch), expected)
