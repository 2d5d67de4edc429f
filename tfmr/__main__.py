"""``python -m tfmr``: train a model, translate with it, evaluate and examine it; check exercises.

A command that fails prints one line on standard error: what was expected, what was given, and what
to do. With ``--traceback`` it also prints where the error was raised. ``--version`` alone prints
the version. The exit status is

==== ==============================================================================================
0    if the command succeeded, or the program that reads its output stopped reading
1    if ``translate`` could not translate some of the sentences, ``exercises check`` found an answer
     that is not right, ``doctor`` found a fault, or a process of a run was lost
2    if the input is invalid, or if memory, disk space, a file or a package is missing
70   if the error was not foreseen
130  if Ctrl-C stopped the command, at whatever moment
==== ==============================================================================================
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO, TextIOWrapper
from pathlib import Path
from traceback import print_exception

import tfmr
from tfmr.data.files import explain_os_error
from tfmr.errors import TfmrError, require

# OpenMP reads this variable when torch is imported. By default, waiting OpenMP threads keep their
# cores busy, which slows training down if another program needs the cores, as on most laptops. With
# this limit they sleep after a short wait, which costs no time on an otherwise idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

TRACEBACK = "--traceback"
VERSION = "--version"
LONGEST = 2000
"""Maximum number of characters in a message."""
OUT_OF_MEMORY = re.compile(
    r"out of memory|not enough memory|can't allocate memory|cannot allocate memory|bad_alloc"
    r"|unable to allocate|failed to map segment",
    re.IGNORECASE,
)
"""How PyTorch, NumPy and the dynamic linker report that memory is exhausted."""


def main() -> None:
    """Run the command line; see the module's description for the exit status."""
    shows_traceback = _take_traceback_option()
    try:
        _prepare_streams()
        _run()
        sys.stdout.flush()
    except SystemExit as stop:  # the command has reported its error
        if shows_traceback and stop.__cause__ is not None:
            print_exception(stop.__cause__)
        _discard_output()
        raise
    except BaseException as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return
        if shows_traceback:
            print_exception(error)
        status, message = _explain(error)
        _report(message)
        sys.exit(status)


def _run() -> None:
    """Parse the arguments and run the command."""
    if sys.argv[1:] == [VERSION]:
        print(f"tfmr {tfmr.__version__}")
        return
    command = _parse_command()
    with _importing():
        import_module("tfmr.checkpoint")  # imports PyTorch and most other packages
    command()


@contextmanager
def _importing() -> Iterator[None]:
    """Inside the ``with`` statement, a broken package and Ctrl-C end in one line.

    Extension modules turn a :class:`KeyboardInterrupt` into other errors while they are imported.
    Nothing is lost if the process ends at once.
    """

    def stop(*_: object) -> None:
        _report("stopped")
        os._exit(130)

    is_main = threading.current_thread() is threading.main_thread()
    replaced = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if replaced:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception as error:  # a broken package may raise anything
        raise TfmrError(
            f"cannot import the packages that tfmr needs: {type(error).__name__} ({error}); "
            "install tfmr again, or raise the memory limit if there is one"
        ) from error
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _parse_command() -> Callable[[], object]:
    """The command that the arguments describe. PyTorch is not imported.

    Raises:
        TfmrError: if the arguments are invalid.
        SystemExit: after ``--help``.
    """
    with _importing():
        import tyro

        from tfmr.commands.compare import Compare
        from tfmr.commands.doctor import Doctor
        from tfmr.commands.evaluate import Evaluate
        from tfmr.commands.exercises import Exercises
        from tfmr.commands.export import Export
        from tfmr.commands.recipes import Recipes
        from tfmr.commands.report import Report
        from tfmr.commands.train import Train
        from tfmr.commands.translate import Translate
    box = StringIO()
    try:
        with redirect_stderr(box):
            command: Callable[[], object] = tyro.extras.subcommand_cli_from_dict(
                {
                    "data": Report,
                    "train": Train,
                    "translate": Translate,
                    "evaluate": Evaluate,
                    "compare": Compare,
                    "export": Export,
                    "recipes": Recipes,
                    "exercises": Exercises,
                    "doctor": Doctor,
                },
                prog="python -m tfmr",
                description="Train a translation model, translate with it, and evaluate it; check "
                "exercises of the book, and examine your own model. With "
                f"{TRACEBACK}, any command shows where an error was raised; {VERSION} prints the "
                "version.",
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise TfmrError(_box_content(box.getvalue())) from stop
    return command


def _box_content(box: str) -> str:
    """The text in the box that tyro draws around an error, as one line without its title."""
    rows = (re.sub(r"^[^\w\s]\s|\s[^\w\s]$", "", row).strip() for row in box.splitlines())
    return re.sub(r"\.?\s*─+\s*", "; ", " ".join(row for row in rows if row[:1] not in "╭╰+"))


def _take_traceback_option() -> bool:
    """Remove ``--traceback`` from the arguments; return whether it was given."""
    options, separator, sentences = sys.argv, [], []
    if "--" in sys.argv:
        at = sys.argv.index("--")
        options, separator, sentences = sys.argv[:at], ["--"], sys.argv[at + 1 :]
    given = TRACEBACK in options[1:]
    sys.argv = [option for option in options if option != TRACEBACK] + separator + sentences
    return given


def _prepare_streams() -> None:
    """Write UTF-8 in every locale, as sentences are read; require standard output and a folder."""
    if sys.stderr is None:  # closed by the shell; print would write to standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  open until the process ends
    require(
        sys.stdout is not None,
        "expected an open standard output, got a closed one; redirect it to a file or to /dev/null",
    )
    try:
        Path.cwd()
    except FileNotFoundError:
        raise TfmrError(
            "expected an existing current folder, but it has been deleted; change to another one"
        ) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """If standard output cannot be written, discard what is left in its buffer.

    Otherwise the interpreter would try again when it shuts down, and print a second error.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: BaseException) -> tuple[int, str]:
    """The exit status and the message for an error."""
    text = str(error).partition("\n")[0]  # PyTorch appends the stack of its C++ code
    if isinstance(error, TfmrError):
        return 2, str(error)
    if isinstance(error, KeyboardInterrupt):
        return 130, str(error) or "stopped"
    if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(text):
        return 2, (
            f"not enough memory ({text or type(error).__name__}): use a smaller model or batch, as "
            "with --set model.d_model=64 batches.tokens_per_batch=512, or raise the memory limit"
        )
    if isinstance(error, OSError):
        where = error.filename or "standard input or output"
        return 2, f"cannot read or write {where}: {explain_os_error(error)}"
    return 70, (
        f"unexpected {type(error).__name__}: {text or 'no description'}; repeat the command with "
        f"{TRACEBACK} to see where it was raised, and report the error as a bug"
    )


def _report(message: str) -> None:
    """Print a message as one line of printable characters on standard error."""
    printable = "".join(each if each.isprintable() else " " for each in message)
    line = " ".join(printable.split())
    if len(line) > LONGEST:  # it quotes something long; the remedy is at the end
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    try:
        print(f"tfmr: {line}", file=sys.stderr, flush=True)
    except OSError:  # standard error is full or closed; the exit status remains
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


if __name__ == "__main__":
    main()
