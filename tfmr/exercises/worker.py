"""Runs one submission in a process of its own; :mod:`tfmr.exercises.sandbox` starts the process.

The process reads requests from standard input, one JSON object a line, and writes replies to
standard output. It defines the answers of a submission and calls them with the arguments that it
is sent. It returns data only: what the data say about the answer is decided by the process that
sent the request. The source of this module is passed to ``python -c``, because the folder that
contains it is hidden in the sandbox; so it imports nothing from the package.
"""

import ast
import base64
import builtins
import ctypes
import importlib
import itertools
import json
import os
import platform
import random
import re
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, BinaryIO

Encoded = Any
"""What :func:`encode` returns: a value that can be written as JSON."""
DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]
SPARE = 1 << 30
"""How much memory a submission may use besides PyTorch's, in bytes."""
SHORT = 500
"""The largest number of characters of a message or of a line of code in a reply."""
DENIED = {
    # The numbers of clone, fork, vfork, clone3, unshare and shmget.
    "x86_64": (0xC000003E, (56, 57, 58, 435, 272, 29)),
    "aarch64": (0xC00000B7, (220, 435, 97, 194)),
}
"""For each processor: the kernel's name for it, and the system calls that are denied."""


class TimeLimitExceeded(BaseException):
    """Raised in the submission when a single call takes too long."""


def encode(value: Any, functions: list[Callable[..., Any]] | None = None) -> Encoded:
    """A value as JSON. Functions are added to ``functions``, and their numbers are sent."""
    if isinstance(value, Callback):
        return {"function": value.number}
    if value is None or value is ... or isinstance(value, bool | int | float | str):
        return None if value is ... else value
    if isinstance(value, list | tuple):
        return {type(value).__name__: [encode(each, functions) for each in value]}
    torch = sys.modules.get("torch")
    if torch and isinstance(value, torch.Tensor) and str(value.dtype)[6:] in DTYPES:
        packed = torch.empty(value.shape, dtype=value.dtype).copy_(value.detach()).reshape(-1)
        data = base64.b64encode(packed.view(torch.uint8).numpy().tobytes()).decode()
        return {"tensor": [str(value.dtype)[6:], list(value.shape), data]}
    if torch and type(value) in (torch.nn.Embedding, torch.nn.Linear):
        # The two identifiers show whether modules share a parameter, or only its numbers.
        weight = value.weight
        shared = [id(weight), weight.data_ptr()]
        return {"module": [type(value).__name__, shared, encode(weight)]}
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(value, numpy.ndarray | numpy.generic):
        return encode(value.tolist())
    if functions is not None and callable(value):
        functions.append(value)
        return {"function": len(functions) - 1}
    return {"other": type(value).__name__}


def decode(
    value: Encoded,
    function: Callable[[int], Any],
    shared: dict[int, Any] | None = None,
) -> Any:
    """The value that was encoded; ``function`` makes a function from its number.

    Raises:
        Exception: of any kind, if the value was not made by :func:`encode`.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    shared = {} if shared is None else shared
    [(kind, content)] = value.items()
    if kind in ("list", "tuple"):
        values = [decode(each, function, shared) for each in content]
        return values if kind == "list" else tuple(values)
    if kind == "function":
        return function(content)
    if kind == "other":
        name = content if str(content).isidentifier() else "object"
        return type(name, (), {})()
    import torch

    if kind == "tensor":
        name, shape, data = content
        dtype = getattr(torch, DTYPES[DTYPES.index(name)])
        numbers = bytearray(base64.b64decode(data, validate=True))
        flat = torch.frombuffer(numbers, dtype=dtype) if numbers else torch.empty(0, dtype=dtype)
        return flat.reshape([int(size) for size in shape])
    name, (parameter, numbers), weight = content
    weight = decode(weight, function)
    if parameter not in shared:
        weight = shared.setdefault(-numbers, weight).view(weight.shape)
        shared[parameter] = torch.nn.Parameter(weight)
    rows, columns = weight.shape
    sizes = (rows, columns) if name == "Embedding" else (columns, rows)
    module = {"Embedding": torch.nn.Embedding, "Linear": torch.nn.Linear}[name](*sizes)
    module.weight = shared[parameter]
    return module


class Callback:
    """A function of the process that sent it, such as the subject of a test."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it there; gradients are computed there, too."""
        import torch

        values = [*arguments, *named.values()]
        tensors = [each for each in values if isinstance(each, torch.Tensor) and each.requires_grad]
        number = next(WORKER.numbers)
        question = {
            "ask": self.number,
            "number": number,
            "arguments": [encode(each) for each in values],
            "names": list(named),
            "differentiable": [getattr(each, "requires_grad", False) for each in values],
        }

        class Apply(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                return exchange(question)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                message = {"gradient": encode(gradients[0]), "number": number}
                return tuple(exchange(message))

        is_differentiable = bool(tensors) and torch.is_grad_enabled()
        if not is_differentiable:
            return exchange(question)
        return Apply.apply(*tensors)  # type: ignore[no-untyped-call]


class Worker:
    """The names that the submission defines, its source code, and the connection."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self.requests, self.replies = requests, replies
        self.names: dict[str, Any] = {"__name__": "answers"}
        self.sources: dict[str, str] = {}
        self.seconds = 0.0
        self.numbers = itertools.count()
        """Numbers of the calls of callbacks."""

    def receive(self) -> Any:
        """The next request; the process ends when there are no more."""
        line = self.requests.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def send(self, reply: Encoded) -> None:
        """Write a reply."""
        self.replies.write(json.dumps(reply).encode() + b"\n")
        self.replies.flush()


WORKER: Worker


def exchange(message: Encoded) -> Any:
    """Ask the other process something while it waits for a result."""
    WORKER.send(message)
    answer = WORKER.receive()
    if "raised" in answer:
        name, text = answer["raised"]
        raise getattr(builtins, name, RuntimeError)(text)
    return decode(answer["result"], Callback)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimitExceeded` in the body when it has used the processor for too long."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded(f"stopped after {seconds:g} seconds of processor time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def raised(error: BaseException) -> Encoded:
    """The names of an exception's classes, its message, and the line of the submission."""
    line, trace = "", error.__traceback__
    while trace:
        text = WORKER.sources.get(trace.tb_frame.f_code.co_filename)
        if text is not None:
            code = text.splitlines()[trace.tb_lineno - 1].strip()
            line = f"line {trace.tb_lineno}: {code}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line, message = f"line {error.lineno}", error.msg
    else:
        message = str(error)
    return {
        "raised": [[each.__name__ for each in type(error).__mro__], message[:SHORT], line[:SHORT]]
    }


def define(text: str, is_notebook: bool, answers: Sequence[str]) -> Encoded:
    """Run a submission. The reply has each answer, or the error that prevented it."""
    cells = [text]
    if is_notebook:
        try:
            found = json.loads(text)["cells"]
            cells = ["".join(each["source"]) for each in found if each["cell_type"] == "code"]
        except (ValueError, KeyError, TypeError) as error:
            return {"problem": f"it is not a notebook ({type(error).__name__})"}
        cells = [re.sub(r"^(\s*)[%!].*", r"\1pass", each, flags=re.MULTILINE) for each in cells]
    errors: list[tuple[str, BaseException]] = []
    trees: list[ast.Module] = []
    unread: list[str] = []
    for number, source in enumerate(cells):
        WORKER.sources[f"<cell {number}>"] = source
        try:
            trees.append(ast.parse(source))
        except (SyntaxError, ValueError) as error:
            trees.append(ast.Module([], []))
            errors.append((source, error))
            unread.append(source)
    if is_notebook:
        keep_needed(trees, set(answers))
    for number, tree in enumerate(trees):
        try:
            with time_limit(WORKER.seconds):
                exec(compile(tree, f"<cell {number}>", "exec"), WORKER.names)
        except (Exception, SystemExit, TimeLimitExceeded) as error:
            errors.append((cells[number], error))
    replies = {}
    for name in answers:
        if name in WORKER.names:
            replies[name] = encode(WORKER.names[name], [])
        else:
            problems = [error for source, error in errors if re.search(rf"\b{name}\b", source)]
            replies[name] = raised(problems[0]) if problems else None
    # A cell of a notebook that cannot be read need not matter; the whole of a file does.
    reported = [error for source, error in errors if not (is_notebook and source in unread)]
    return {"answers": replies, "error": raised(reported[0]) if reported else None}


def keep_needed(trees: Sequence[ast.Module], needed: set[str]) -> None:
    """Keep only the statements that define the needed names, or names that those use in turn.

    A notebook contains the experiments of its chapter, which would take too long.
    """
    for tree in reversed(trees):
        for statement in reversed(tree.body):
            nodes = list(ast.walk(statement))
            names = [each for each in nodes if isinstance(each, ast.Name)]
            used = {each.id for each in names}
            bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                # What is bound inside is local.
                used -= bound | {each.arg for each in nodes if isinstance(each, ast.arg)}
                bound = {statement.name}
            aliases = [each for each in nodes if isinstance(each, ast.alias)]
            bound |= {(each.asname or each.name).partition(".")[0] for each in aliases}
            if bound & needed:
                needed |= used
            else:
                tree.body.remove(statement)


def call(name: str, encoded: Sequence[Encoded]) -> Encoded:
    """Call an answer. The reply has its result, and which arguments it changed."""
    import numpy
    import torch
    from torch.overrides import TorchFunctionMode

    class Counter(TorchFunctionMode):
        calls = 0

        def __torch_function__(
            self, function: Any, types: Any, arguments: Any = (), named: Any = None
        ) -> Any:
            self.calls += 1
            return function(*arguments, **(named or {}))

    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    arguments = [decode(each, Callback) for each in encoded]
    with time_limit(WORKER.seconds), Counter() as counter:
        result = WORKER.names[name](*arguments)
    pairs = enumerate(zip(arguments, encoded, strict=True))
    changed = [number for number, (now, before) in pairs if encode(now) != before]
    return {"result": encode(result), "changed": changed, "calls": counter.calls}


class Silent(ModuleType):
    """Takes the place of ``tfmr.exercises``: a check in the submission does nothing."""

    def __getattr__(self, name: str) -> Any:
        """The same object."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **named: Any) -> None:
        """Do nothing."""


def memory_in_use() -> int:
    """The size of the address space of this process, in bytes; PyTorch takes most of it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def limit(memory: int, seconds: float, is_sandboxed: bool) -> None:
    """Limit this process, which cannot undo it."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    processor = int(used + seconds) + 1
    limits = {
        "RLIMIT_CPU": (processor, processor + 1),
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (256, 256),
        "RLIMIT_NPROC": (0, 0),
    }
    for name, values in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), values)
        except (ValueError, OSError):  # macOS does not have all of them
            if is_sandboxed:
                raise
    if platform.system() == "Linux" and platform.machine() in DENIED:
        _deny(*DENIED[platform.machine()])


def _deny(processor: int, calls: Sequence[int]) -> None:
    """Let the kernel reject system calls, above all those that create processes and threads.

    The limit on the number of processes does not hold for root. The filter is a program for
    Berkeley Packet Filter; see the manual pages seccomp(2) and prctl(2).
    """
    load, equal, above, stop = 0x20, 0x15, 0x35, 0x06
    allowed, denied, killed = 0x7FFF0000, 0x00050001, 0x80000000  # the second: EPERM
    program = [
        (load, 0, 0, 4),  # the processor
        (equal, 1, 0, processor),
        (stop, 0, 0, killed),
        (load, 0, 0, 0),  # the number of the system call
        (above, len(calls) + 1, 0, 0x40000000),  # those of the x32 interface
        *((equal, len(calls) - at, 0, number) for at, number in enumerate(calls)),
        (stop, 0, 0, allowed),
        (stop, 0, 0, denied),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    described = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    )
    library = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(each) for each in (1, 0, 0, 0)]
    no_new_privileges = library.prctl(38, *arguments)
    filtered = library.prctl(22, ctypes.c_ulong(2), described)
    if no_new_privileges or filtered:
        raise OSError(ctypes.get_errno(), "cannot deny system calls")


def main() -> None:
    """Answer requests until there are no more."""
    global WORKER
    requests, replies = (os.fdopen(os.dup(number), mode) for number, mode in ((0, "rb"), (1, "wb")))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    WORKER = Worker(requests, replies)  # type: ignore[arg-type]
    start = WORKER.receive()
    sys.path[:0] = start["path"]
    sys.modules["tfmr.exercises"] = Silent("tfmr.exercises")
    WORKER.seconds = start["seconds"] / 6
    # Imported before the limits are set, so that they hold for the submission alone.
    importlib.import_module("torch")
    limit(memory_in_use() + SPARE, start["seconds"], start["is_sandboxed"])
    WORKER.send(define(start["text"], start["is_notebook"], start["answers"]))
    while True:
        request = WORKER.receive()
        try:
            reply = call(request["call"], request["arguments"])
        except (Exception, SystemExit, TimeLimitExceeded) as error:
            reply = raised(error)
        WORKER.send(reply)


if __name__ == "__main__":
    main()
