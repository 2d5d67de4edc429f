"""A process that keeps what it frees takes its memory from the system once."""

import platform
import subprocess
import sys

from tfmr.commands.memory import keep_freed_memory

SCRIPT = """
import resource
import sys
import torch
if sys.argv[1] == "keep":
    from tfmr.commands.memory import keep_freed_memory
    assert keep_freed_memory()
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(16 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(how: str) -> int:
    """How many pages the system had to give for twenty times 64 MiB, each freed before the next.

    Twenty others go before them: the allocator sets some blocks side by side before it finds that
    one will do.
    """
    words = [sys.executable, "-c", SCRIPT, how]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def test_freed_memory_is_used_again() -> None:
    if platform.libc_ver()[0] == "glibc":
        assert pages("keep") < pages("return") / 50
    else:
        assert not keep_freed_memory()
