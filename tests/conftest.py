"""What all tests share."""

import re
import signal
from collections.abc import Callable, Iterator

import hypothesis
import jaxtyping
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests import shapes

shapes.install()
from tfmr.errors import TfmrError  # noqa: E402  after the checks are installed

# The tensors of the tests are so small that a second thread makes them ten times slower.
torch.set_num_threads(1)
# For each kind of GPU that is missing, torch.manual_seed formats the stack and keeps the text.
if not torch.accelerator.is_available():
    torch.manual_seed = torch.default_generator.manual_seed
# On a busy machine, every example can take long.
hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")
# A shell lets its background jobs ignore SIGINT, and nohup SIGHUP; some tests send them.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def one_line(error: TfmrError, message: str) -> None:
    """Every message that a test meets is one line."""
    assert "\n" not in message
    ValueError.__init__(error, message)


TfmrError.__init__ = one_line  # type: ignore[method-assign]

IN_TORCH = [
    (r"self_attention\.|(?<![a-z_])attention\.", "self_attn."),
    (r"cross_attention\.", "multihead_attn."),
    (r"w_o\.", "out_proj."),
    (r"feed_forward\.expand\.", "linear1."),
    (r"feed_forward\.contract\.", "linear2."),
    (r"residuals\.(\d)\.norm\.", lambda found: f"norm{int(found[1]) + 1}."),
    (r"blocks\.", "layers."),
]
"""Parameter names of tfmr and of torch.nn, where they differ."""


def pytest_runtest_setup() -> None:
    """Check the shapes in the first calls of each test."""
    shapes.begin_test()


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switch the jaxtyping checks off, to test the package's own error messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def in_torch(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters or gradients with the names and the layout of torch.nn."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        projection = re.search(r"w_([qkv])\.(weight|bias)$", name)
        if projection:
            if projection[1] != "q":
                continue
            parts = [tensors[name.replace("w_q", f"w_{letter}")] for letter in "qkv"]
            name, tensor = name.replace("w_q.", "in_proj_"), torch.cat(parts)
        for pattern, theirs in IN_TORCH:
            name = re.sub(pattern, theirs, name)
        renamed[name] = tensor
    return renamed


Call = Callable[..., Tensor]
Parity = Callable[[nn.Module, nn.Module, list[Tensor], Call, Call], None]


@pytest.fixture
def assert_parity() -> Parity:
    """Compare the outputs and all gradients of a module with those of its torch.nn counterpart."""

    def check(
        own: nn.Module, theirs: nn.Module, inputs: list[Tensor], run: Call, other: Call
    ) -> None:
        own.double()
        theirs.double()
        with torch.no_grad():
            for parameter in own.parameters():  # biases of 0 and weights of 1 would hide faults
                parameter.normal_(std=0.4)
        theirs.load_state_dict(in_torch(own.state_dict()))
        ours = [x.double().requires_grad_() for x in inputs]
        others = [x.detach().clone().requires_grad_() for x in ours]
        out, expected = run(own, *ours), other(theirs, *others)
        assert_close(out, expected)

        direction = torch.randn_like(expected)
        (out * direction).sum().backward()
        (expected * direction).sum().backward()
        assert_close([x.grad for x in ours], [x.grad for x in others])
        gradients = in_torch({name: p.grad for name, p in own.named_parameters()})
        assert_close(gradients, {name: p.grad for name, p in theirs.named_parameters()})

    return check
