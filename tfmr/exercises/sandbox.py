"""Processes that run submissions, isolated from the rest of the machine.

A submission is a program that nobody has read. It runs in a process that has no network, sees only
Python, its libraries and the package without the exercises, and can write no file. The process
cannot create others, and its memory and time are limited. It is asked for the results of the
answers on the probes, and the results, which are data, are compared in this process, where the
solutions are. So a submission cannot write its own verdict: it can only return results.
"""

import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfmr.exercises import worker
from tfmr.exercises.guard import Failure
from tfmr.exercises.worker import Encoded, decode, encode

EXERCISES = Path(__file__).parent
PACKAGE = EXERCISES.parent
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom")
LIBRARIES = ("site-packages", "dist-packages")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
PATIENCE = 10
"""How many times the limit of processor time a submission may take in total."""
LONGEST = 4_000_000
"""The largest number of bytes in a reply."""
SLIPS = (NotImplementedError, NameError, ImportError, SyntaxError, AssertionError)
KNOWN: dict[str, type[Exception]] = {each.__name__: each for each in SLIPS}
"""The exceptions that a check tells apart."""

NOTHING = torch.empty(0)
MOST_COUNTED = 10_000

Command = tuple[str, ...]


class Ended(BaseException):
    """The process of a submission ended early; the message says why.

    It is not an :class:`Exception`, which a check would report as an error in the answer.
    """


def visible() -> list[str]:
    """The files and folders that a submission can read."""
    libraries = [each for each in sys.path if Path(each).name in LIBRARIES]
    paths = [*SYSTEM, sys.prefix, sys.base_prefix, *libraries, str(PACKAGE)]
    real = [os.path.realpath(each) for each in paths]
    found = sorted({each for each in (*paths, *real) if os.path.exists(each)})
    # What is inside of a folder that is visible is visible, too.
    return [each for each in found if not any(each.startswith(f"{other}/") for other in found)]


def hidden() -> list[str]:
    """The folders with solutions inside of those that are visible."""
    copies = [
        Path(each) / "tfmr" / "exercises" for each in sys.path if Path(each).name in LIBRARIES
    ]
    return [os.path.realpath(each) for each in (EXERCISES, *copies) if each.is_dir()]


def by_bubblewrap() -> Command:
    """The command of a sandbox that bubblewrap makes."""
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    for path in visible():
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        else:
            options += ["--dev-bind" if path.startswith("/dev/") else "--ro-bind", path, path]
    for path in hidden():
        options += ["--tmpfs", path, "--remount-ro", path]
    return ("bwrap", *options, "--cap-drop", "ALL", "--remount-ro", "/", "--chdir", "/")


def by_unshare() -> Command:
    """The command of a sandbox that util-linux makes, in the same way as bubblewrap."""
    root = "/sys"  # exists everywhere, and none of the visible files is in it
    lines = ["set -e", f"mount -t tmpfs -o mode=755,size=1m tmpfs {root}"]
    for path in visible():
        source, target = shlex.quote(path), shlex.quote(root + path)
        lines.append(f"mkdir -p {shlex.quote(os.path.dirname(root + path))}")
        if os.path.islink(path):
            lines.append(f"ln -s {shlex.quote(os.readlink(path))} {target}")
        else:
            lines.append(f"{'mkdir -p' if os.path.isdir(path) else 'touch'} {target}")
            lines.append(f"mount --bind {source} {target}")
            lines.append(f"mount -o remount,bind,ro {target}")
    for path in hidden():
        lines.append(f"mount -t tmpfs -o ro,size=4k tmpfs {shlex.quote(root + path)}")
    lines.append(f"mount -o remount,ro {root}")
    drop = "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"
    # The shell waits, so that the first process, whose end ends all others, is not the submission.
    lines.append(f'cd /; chroot {root} {drop} "$@"; exit $?')
    spaces = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts"]
    return ("unshare", *spaces, "--fork", "--kill-child", "sh", "-c", "\n".join(lines), "sh")


@functools.cache
def find_sandbox() -> Command | None:
    """The command of a sandbox that works on this machine; ``None`` if there is none."""
    for make in (by_bubblewrap, by_unshare):
        command = make()
        if shutil.which(command[0], path=os.environ.get("PATH")):
            tried = [*command, sys.executable, "-I", "-c", "print('works')"]
            done = subprocess.run(tried, capture_output=True, env=_environment(), check=False)
            if done.stdout == b"works\n":
                return command
    return None


def _environment() -> dict[str, str]:
    path = os.environ.get("PATH", "")
    return ENVIRONMENT | {"PATH": f"{ENVIRONMENT['PATH']}:{path}"}


class Submission:
    """A submission in a process of its own."""

    def __init__(self, sandbox: Command, seconds: float) -> None:
        code = Path(worker.__file__).read_text("utf-8")
        self.sandbox, self.seconds = sandbox, seconds
        self.process = subprocess.Popen(
            [*sandbox, sys.executable, "-I", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
        self.timed_out = False
        self.timer = threading.Timer(PATIENCE * seconds, self._stop)
        self.timer.daemon = True
        self.timer.start()

    def __enter__(self) -> "Submission":
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            with suppress(OSError):  # what was not sent
                stream.close()

    def _stop(self) -> None:
        self.timed_out = True
        self.process.kill()

    def define(
        self, text: str, is_notebook: bool, names: Sequence[str]
    ) -> tuple[dict[str, Any], Failure | None]:
        """Run the submission; return its answers by name, and the error that it raised, if any.

        An answer is data, a function that is called in the process, or a :class:`Failure`.

        Raises:
            Ended: if the process ends early, or if the text is not a notebook.
        """
        libraries = [each for each in sys.path if Path(each).name in LIBRARIES]
        reply = self._exchange(
            {
                "path": [str(PACKAGE.parent), *libraries],
                "seconds": self.seconds,
                "is_sandboxed": bool(self.sandbox),
                "text": text,
                "is_notebook": is_notebook,
                "answers": list(names),
            }
        )
        with _valid():
            if "problem" in reply:
                raise Ended(str(reply["problem"]))
            answers = {name: self._answer(name, reply["answers"][name]) for name in names}
            return answers, _failure(reply["error"]) if reply["error"] else None

    def _answer(self, name: str, encoded: Encoded) -> Any:
        if isinstance(encoded, dict) and "raised" in encoded:
            return _failure(encoded)
        return decode(encoded, lambda _: Answer(self, name))

    def call(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, int]:
        """The result of an answer, and how often it called PyTorch's functions.

        An exception in the answer is returned as a :class:`Failure`. An argument that the answer
        changed is emptied.

        Raises:
            Ended: if the process ends early.
        """
        functions: list[Callable[..., Any]] = []
        graphs: dict[int, tuple[list[Tensor], Tensor]] = {}
        encoded = [encode(each, functions) for each in arguments]
        reply = self._exchange({"call": name, "arguments": encoded})
        while "ask" in reply or "gradient" in reply:
            reply = self._exchange(_reply_to(reply, functions, graphs))
        with _valid():
            if "raised" in reply:
                return _failure(reply), 0
            for number in reply["changed"]:
                _empty(arguments[number])
            return decode(reply["result"], _no_function), int(reply["calls"])

    def _exchange(self, message: Encoded) -> dict[str, Any]:
        """Send a request; return the reply."""
        assert self.process.stdin
        assert self.process.stdout
        line = b""
        with suppress(OSError):  # the process has ended
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline(LONGEST + 1)
        if not line.endswith(b"\n"):
            raise Ended(self._reason(line))
        with _valid():
            return dict(json.loads(line))

    def _reason(self, line: bytes) -> str:
        """Why there is no reply."""
        if len(line) > LONGEST:
            return "a result is too large"
        status = None
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(1)
        if self.timed_out:
            return f"it took more than {PATIENCE * self.seconds:g} seconds"
        if status in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
            return f"it used more than {self.seconds:g} seconds of processor time"
        return "its process ended before the answer was checked"


class Answer:
    """A function of a submission, which is called in the submission's process."""

    def __init__(self, submission: Submission, name: str) -> None:
        self.submission, self.name = submission, name
        self.stopped: Failure | None = None

    def __call__(self, *arguments: Any) -> Any:
        """The result, or a :class:`Failure`. A function that took too long is not called again."""
        if self.stopped:
            return self.stopped
        result, torch_calls = self.submission.call(self.name, arguments)
        for _ in range(min(torch_calls, MOST_COUNTED)):
            NOTHING.dim()  # so that a count of calls of PyTorch here includes those there
        if isinstance(result, Failure) and type(result.error).__name__ == "TimeLimitExceeded":
            self.stopped = result
        return result

    def __repr__(self) -> str:
        return "a function"


@contextmanager
def _valid() -> Iterator[None]:
    """Raise :class:`Ended` if the body fails because of what a submission wrote."""
    try:
        yield
    except Exception:
        raise Ended("it wrote something that is not a reply") from None


def _failure(reply: dict[str, Any]) -> Failure:
    """The exception that a reply describes."""
    names, message, line = reply["raised"]
    name = names[0] if str(names[0]).isidentifier() else "Exception"
    base = next((KNOWN[each] for each in names if each in KNOWN), Exception)
    return Failure(type(name, (base,), {})(str(message)), str(line))


def _reply_to(
    question: dict[str, Any],
    functions: Sequence[Callable[..., Any]],
    graphs: dict[int, tuple[list[Tensor], Tensor]],
) -> Encoded:
    """The reply to a submission that calls a function of this process, or needs its gradients."""
    try:
        number = question["number"]
        if "gradient" in question:
            inputs, output = graphs[number]
            gradient = decode(question["gradient"], _no_function)
            found = torch.autograd.grad(
                output, inputs, gradient, retain_graph=True, allow_unused=True
            )
            return {"result": encode(found)}
        values = [decode(each, _no_function) for each in question["arguments"]]
        flags = zip(values, question["differentiable"], strict=True)
        inputs = [each.requires_grad_() for each, is_differentiable in flags if is_differentiable]
        at = len(values) - len(question["names"])
        named = dict(zip(question["names"], values[at:], strict=True))
        result = functions[question["ask"]](*values[:at], **named)
        if inputs:
            graphs[number] = inputs, result
        return {"result": encode(result)}
    except Exception as error:  # the submission may pass anything
        return {"raised": [type(error).__name__, str(error)]}


def _no_function(number: int) -> Any:
    raise ValueError("a function is not a result")


def _empty(argument: Any) -> None:
    """Change an argument, as the copy of it in the other process was changed."""
    if isinstance(argument, Tensor):
        argument.data = argument.data.new_empty(0)
    elif isinstance(argument, list):
        argument.clear()
