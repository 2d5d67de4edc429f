"""Train in several processes with ``torchrun``: data parallel (DDP) or fully sharded (FSDP).

Started as ``torchrun --nproc-per-node 2 -m tfmr train …`` (with ``--nnodes`` on several machines),
each process runs the same program on its own batches. After the backward pass the processes average
their gradients, so that all take the same optimiser step (DDP: Li et al., 2020). For models whose
weights and optimiser state do not fit on one device, each process stores only a shard of every
matrix and gathers the rest of a block while it computes that block (FSDP: Zhao et al., 2023). Both
are PyTorch's implementations.

The main process writes the files of the run and all processes read them, so the run directory must
be on a file system that all of them share. A checkpoint does not depend on the number of processes
or on sharding: any number of processes can resume it. With the same number, the resumed run is
bit-identical to an uninterrupted one. With another number it is equal up to rounding, if each step
uses the same number of batches.
"""

import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tfmr.data.batches import collate
from tfmr.decoder import DecoderBlock
from tfmr.encoder import EncoderBlock
from tfmr.errors import TfmrError, require
from tfmr.special_tokens import EOS
from tfmr.train.interrupt import end_signals_interrupt
from tfmr.train.loss import LossModule

T = TypeVar("T")

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for the others, for example while the main process evaluates."""

LOST_PROCESS = re.compile(
    r"connection \D*(closed|reset|refused)|broken pipe|timed out|timing out|timeout"
    r"|remote process|communicator was aborted",
    re.IGNORECASE,
)
"""What communication backends report if another process has ended or does not respond."""


class Terminated(BaseException):
    """This process received a signal to end, from ``torchrun`` or from the job scheduler."""


@dataclass
class World:
    """The processes of a run, with the rank of this one; by default a single process."""

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """The device on which this process computes."""
    last_checkpoint: str = ""
    """A description of the last saved checkpoint, for messages; empty before the first."""
    launcher: int = 0
    """The id of the process that started this one, ``torchrun``; 0 without ``torchrun``."""

    @property
    def is_main(self) -> bool:
        """Whether this is the main process, which writes files and prints."""
        return self.rank == 0

    @property
    def launcher_has_ended(self) -> bool:
        """Whether ``torchrun`` has ended, so that nothing else ends this process."""
        return self.launcher not in (0, os.getppid())

    def resume_hint(self) -> str:
        """What was saved and how to resume, for the message that ends a run."""
        if not self.last_checkpoint:
            return "nothing was saved: start again with the same command and --resume"
        return f"{self.last_checkpoint} is complete: resume with the same command and --resume"

    def all_reduce(self, value: int | float) -> float:
        """The sum of ``value`` over all processes. All processes must call this."""
        if self.size == 1:
            return float(value)
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return float(total)

    def broadcast(self, value: T) -> T:
        """The main process's ``value``, in every process. All processes must call this."""
        if self.size == 1:
            return value
        values: list[Any] = [value if self.is_main else None]
        dist.broadcast_object_list(values, src=0, device=self.device)
        received: T = values[0]
        return received

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        self.all_reduce(0)

    @staticmethod
    @contextmanager
    def join() -> Iterator["World"]:
        """Join the process group that ``torchrun`` describes; without ``torchrun``, a world of one.

        A single process treats SIGTERM and SIGHUP like Ctrl-C, so a run is also saved if a
        scheduler or a closed terminal ends it.

        If several processes fail together, only one of them prints the reason. The exit status is 2
        for a :class:`TfmrError`, 130 after Ctrl-C, and 1 if a process was lost.

        Raises:
            TfmrError: if the environment has only some of the variables of ``torchrun``, or invalid
                ones, or the processes cannot reach each other.
            SystemExit: in a process group, instead of :class:`TfmrError` and
                :class:`KeyboardInterrupt`, or if another process has ended or does not respond.
        """
        variables = _torchrun_variables()
        local_rank = variables.get("LOCAL_RANK", 0)
        cuda = torch.cuda.is_available()
        device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
        if not variables:
            with end_signals_interrupt():
                yield World(device=device)
            return
        if cuda:
            torch.cuda.set_device(device)
        launcher = os.getppid()
        try:
            dist.init_process_group("nccl" if cuda else "gloo", timeout=TIMEOUT)
        except (ValueError, RuntimeError) as error:
            raise TfmrError(
                f"the processes of torchrun cannot reach each other ({str(error).splitlines()[0]}):"
                " check MASTER_ADDR and MASTER_PORT, or start the command without torchrun"
            ) from error
        world = World(dist.get_rank(), dist.get_world_size(), device, launcher=launcher)
        previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in previous:
            signal.signal(number, _terminate)
        try:
            yield world
        except TfmrError as error:
            _print_once(str(error))
            raise SystemExit(2) from error
        except KeyboardInterrupt as error:
            if world.is_main:  # all processes stop at the same step
                _print_once(str(error))
            raise SystemExit(130) from error
        except (Terminated, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _is_lost_process(error):
                raise
            _print_once(
                f"the run stopped because one of its {world.size} processes ended, was terminated "
                f"or did not respond; {world.resume_hint()}"
            )
            # Every process prints its own error: any of them may be the cause.
            print(f"[rank {world.rank}] {type(error).__name__}: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            dist.destroy_process_group()


def _torchrun_variables() -> dict[str, int]:
    """The numbers that ``torchrun`` puts into the environment; empty without ``torchrun``."""
    numbers = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    if not {"RANK", "WORLD_SIZE"} & set(os.environ):
        return {}
    invalid = [name for name in numbers if not re.fullmatch("[0-9]+", os.environ.get(name, ""))]
    invalid += [] if os.environ.get("MASTER_ADDR") else ["MASTER_ADDR"]
    values = {name: int(os.environ[name]) for name in numbers if name not in invalid}
    if not invalid and not values["RANK"] < values["WORLD_SIZE"]:
        invalid = ["RANK"]
    given = ", ".join(
        f"{name}={os.environ[name]}" if name in os.environ else f"{name} missing"
        for name in invalid
    )
    require(
        not invalid,
        f"expected all variables of torchrun, because RANK or WORLD_SIZE is set, got {given}: "
        "start the command with torchrun, or unset RANK and WORLD_SIZE",
    )
    return values


def exit_process() -> NoReturn:
    """End this process successfully, without the interpreter's shutdown.

    PyTorch's communication threads outlive ``destroy_process_group``. If one of them still holds a
    tensor when the interpreter shuts down, the process aborts and a successful run is reported as
    failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(f"received {signal.Signals(number).name}")


def _is_lost_process(error: RuntimeError) -> bool:
    """Whether a communication backend raised ``error`` because it lost another process."""
    # NCCL and the store raise a DistError; gloo a RuntimeError with the path of its source file.
    from_backend = isinstance(error, dist.DistError) or "/gloo/" in str(error)
    return from_backend and LOST_PROCESS.search(str(error)) is not None


def _print_once(message: str) -> None:
    """Print ``message`` on standard error unless another process has printed its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun terminates the remaining processes
    try:
        printed = dist.distributed_c10d._get_default_store().add("tfmr/printed", 1) > 1
    except RuntimeError:  # the store ended with its process
        printed = False
    if not printed:
        print(f"tfmr: {message}", file=sys.stderr, flush=True)


def transformer_blocks(model: nn.Module) -> list[nn.Module]:
    """The encoder and decoder blocks of ``model``; none if it is not a Transformer."""
    return [part for part in model.modules() if isinstance(part, EncoderBlock | DecoderBlock)]


def wrap_distributed(module: LossModule, world: World, *, fsdp: bool = False) -> nn.Module:
    """Average the gradients of ``module`` over the processes, starting from the main one's weights.

    Args:
        module: the model and its loss.
        world: the processes; a single one gets ``module`` back unchanged.
        fsdp: store only a shard of each weight in each process: the parameters of ``module`` become
            sharded tensors (``DTensor``) in place; see :func:`full_tensor`.
    """
    if world.size == 1:
        return module
    if not fsdp:
        devices = [world.device] if world.device.type == "cuda" else None
        with warnings.catch_warnings():
            # PyTorch renames broadcast_buffers; 2.6 knows only this name.
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                module, device_ids=devices, broadcast_buffers=False, gradient_as_bucket_view=True
            )
        # After its first backward pass DDP changes the order in which it sums gradients, and so
        # their rounding. Run that pass now, so that a resumed run rounds as the original does.
        with torch.random.fork_rng(devices or []):
            wrapped(collate([([EOS], [EOS])]).to(world.device)).backward()
        module.zero_grad()
        return wrapped
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for parameter in module.parameters():
        dist.broadcast(parameter.data, src=0)
    mesh = init_device_mesh(world.device.type, (world.size,))
    for block in transformer_blocks(module):
        fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def no_sync(module: nn.Module) -> AbstractContextManager[None]:
    """Accumulate gradients in each process without averaging them over the processes.

    With FSDP they are still averaged in every backward pass, because no process has memory for all
    of them.
    """
    if isinstance(module, DistributedDataParallel):
        return module.no_sync()
    return nullcontext()


def full_tensor(tensor: Tensor) -> Tensor:
    """A sharded tensor gathered from all processes; any other tensor unchanged.

    All processes must call this.
    """
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full


def distribute_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A copy of ``tensor`` on the device of ``like``, sharded if ``like`` is sharded.

    All processes must call this; the values are those of the main process.
    """
    if not hasattr(like, "to_local"):
        return tensor.to(like.device, copy=True)
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = like
    return distribute_tensor(tensor.to(like.device), sharded.device_mesh, sharded.placements)
