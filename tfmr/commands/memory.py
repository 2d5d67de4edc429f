"""Memory that was freed is used again, instead of going back to the system and coming from it anew.

A training step frees as much as it takes, and the next one takes as much again. The C library of
Linux hands large blocks back at once, and the system clears every page before it gives one out. A
virtual machine may even have to ask its host for it.
"""

import ctypes
import platform

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""What glibc's ``mallopt`` calls them: how much may be free before some is given back, and how many
blocks may be had from the system directly, to be given back as soon as they are free."""
ALL = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let this process keep what it frees until it ends, if its C library is glibc.

    What the process holds at its peak, it then holds until the end.

    Returns:
        Whether it will.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(MMAP_MAX, 0) and library.mallopt(TRIM_THRESHOLD, ALL))
