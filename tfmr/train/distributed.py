"""Several processes, one run: ``torchrun`` starts them, PyTorch lets them share the work.

Started as ``torchrun --nproc-per-node 2 -m tfmr train …`` (with ``--nnodes`` on several machines),
every process runs the same program on its own batches. After the backward pass they average their
gradients, so that all take the same step (DDP: Li et al., 2020). Where the weights of the model and
of its optimiser do not fit beside each other, each process keeps a part of every matrix and borrows
the rest of a block while it computes it (FSDP: Zhao et al., 2023). Both are PyTorch's own.

The first process writes the files of the run and all of them read it, so they must see one folder.
A checkpoint does not depend on who wrote it, one process or several, their weights sharded or not,
and any of them can go on from it: as many as before bit for bit as if there had been no stop,
others the same but for rounding if as many batches make a step.
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
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tfmr.data.batches import collate
from tfmr.errors import TfmrError
from tfmr.special_tokens import EOS
from tfmr.train.objective import Objective, blocks

T = TypeVar("T")

PATIENCE = timedelta(minutes=30)
"""How long a process waits for one that neither answers nor ends. The first may be scoring."""

LOST = re.compile(r"connection (was )?(closed|reset|refused)|broken pipe|timed out|nccl", re.I)
"""How PyTorch says that another process is gone."""


class Terminated(BaseException):
    """``torchrun`` told this process to end, because another one has or the job was stopped."""


@dataclass
class World:
    """The processes of a run, seen from one of them; by default there is only this one."""

    rank: int = 0
    """Which one this is, from 0."""
    size: int = 1
    """How many there are."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where this one computes."""
    last_checkpoint: str = ""
    """The last checkpoint, in words, for the one who must say how to go on."""

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def resume_hint(self) -> str:
        """What is left of the run if it ends here, and how to go on."""
        if not self.last_checkpoint:
            return "nothing was saved yet: start again"
        return f"{self.last_checkpoint} is whole: go on with the same command and --resume"

    def all_reduce(self, value: int | float) -> float:
        """The value summed over all processes. All must call this, and wait for one another."""
        if self.size == 1:
            return float(value)
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return float(total)

    def broadcast(self, value: T) -> T:
        """The value that the first process has, for all. All must call this."""
        if self.size == 1:
            return value
        held: list[Any] = [value if self.is_main else None]
        dist.broadcast_object_list(held, src=0, device=self.device)
        shared: T = held[0]
        return shared

    def barrier(self) -> None:
        """Go on when all processes are here."""
        self.all_reduce(0)

    @staticmethod
    @contextmanager
    def join() -> Iterator["World"]:
        """The world that ``torchrun`` made, or a world of one; left in the end in any case.

        With several processes, a mistake or a loss that ends the run is told on standard error by
        one of them alone, in one line, and the exit status is 2 for a mistake and 1 for a loss.

        Raises:
            SystemExit: in a world of several, instead of :class:`TfmrError`, or when another
                process is gone.
        """
        local = int(os.environ.get("LOCAL_RANK", 0))
        device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            yield World(device=device)
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        world = World(dist.get_rank(), dist.get_world_size(), device)
        former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in former:
            signal.signal(number, _terminate)
        try:
            yield world
        except TfmrError as error:
            _tell(str(error))
            raise SystemExit(2) from None
        except Terminated:
            _tell(_loss(world))
            raise SystemExit(1) from None
        except RuntimeError as error:
            if not LOST.search(str(error)):
                raise
            _tell(_loss(world))
            raise SystemExit(1) from None
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            dist.destroy_process_group()


def exit_process() -> NoReturn:
    """End this process, one of several whose work is done, without the interpreter's own end.

    The threads by which PyTorch's processes talk to one another outlive ``destroy_process_group``.
    If one of them has yet to let go of a tensor when the interpreter ends, it aborts the process,
    and a run in which nothing is wrong has failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


def _loss(world: World) -> str:
    """What to say when another process is gone."""
    return (
        f"one of the {world.size} processes has ended, and the run with it; {world.resume_hint()}"
    )


def _tell(sentence: str) -> None:
    """Say why the run ends, unless another process has said so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun hurries whoever is still there
    try:
        told = dist.distributed_c10d._get_default_store().add("tfmr/told", 1) > 1
    except RuntimeError:  # the store has gone down with its machine
        told = False
    if not told:
        print(f"tfmr: {sentence}", file=sys.stderr, flush=True)


def wrap_distributed(objective: Objective, world: World, *, shard: bool = False) -> nn.Module:
    """``objective``, with its gradients averaged over the processes; all begin as the first.

    With ``shard``, every process keeps its part of each weight: the parameters of ``objective``
    become sharded tensors in place (``DTensor``; see :func:`to_local` and :func:`full_tensor`).
    """
    if world.size == 1:
        return objective
    if not shard:
        devices = [world.device] if world.device.type == "cuda" else None
        with warnings.catch_warnings():
            # Newer versions call broadcast_buffers otherwise, older ones know no other name.
            warnings.simplefilter("ignore", FutureWarning)
            together = DistributedDataParallel(
                objective, device_ids=devices, broadcast_buffers=False, gradient_as_bucket_view=True
            )
        # After its first backward pass DDP sends the gradients in another order, which rounds their
        # sums otherwise. Let that pass be now: a run that goes on must not differ from the first.
        together(collate([([EOS], [EOS])]).to(world.device)).backward()
        objective.zero_grad()
        return together
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for parameter in objective.parameters():
        dist.broadcast(parameter.data, src=0)
    mesh = init_device_mesh(world.device.type, (world.size,))
    for block in blocks(objective):
        fully_shard(block, mesh=mesh)
    fully_shard(objective, mesh=mesh)
    return objective


def no_sync(objective: nn.Module) -> AbstractContextManager[None]:
    """Within, gradients are summed up by each process on its own, to be averaged later at once.

    Sharded gradients are averaged every time all the same: no process has room for all of them.
    """
    if isinstance(objective, DistributedDataParallel):
        return objective.no_sync()
    return nullcontext()


def to_local(tensor: Tensor) -> Tensor:
    """This process's part of a sharded tensor, not copied; any other tensor as it is."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def full_tensor(tensor: Tensor) -> Tensor:
    """A sharded tensor put together again, for which all must call this; any other as it is."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full


def distribute_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A copy of ``tensor`` on the device of ``like``, and sharded if it is.

    All must call this; the numbers are those of the first.
    """
    if not hasattr(like, "to_local"):
        return tensor.to(like.device, copy=True)
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = like
    return distribute_tensor(tensor.to(like.device), sharded.device_mesh, sharded.placements)


def joint_norm(norm: Float[Tensor, ""], like: Tensor) -> Float[Tensor, ""]:
    """The Euclidean norm of sharded tensors such as ``like``, from the ``norm`` of the parts here.

    All must call this. If ``like`` is not sharded, that is the norm itself.
    """
    if not hasattr(like, "device_mesh"):
        return norm
    square = norm.square()
    dist.all_reduce(square, group=like.device_mesh.get_group())
    return square.sqrt()
