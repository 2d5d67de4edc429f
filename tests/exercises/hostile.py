"""Submissions that attack the machine, the process that marks them, or their own marks.

In the code, ``SECRET`` is a file outside of the folder of submissions, ``FOLDER`` the folder with
everything, ``EXERCISES`` the folder of the solutions, ``PID`` the process that runs the tests, and
``PORT`` a port on which it listens. With each submission comes what must be reported: a part of the
student's page of feedback.
"""

ENDED = "its process ended before the answer was checked"
ABSENT = "FileNotFoundError"
READ_ONLY = "Read-only file system"
USED = "more than 1"
"""One second of processor time or, on a busy machine, ten seconds."""
SLEPT = "it took more than 10 seconds"
FORGED = """\
def softmax_backward(weights, grad):
    import __main__
    {}
"""

RAISING = {
    "deletes files": ("import shutil\nanother_query = shutil.rmtree('FOLDER')", ABSENT),
    "deletes the exercises": ("import shutil\nanother_query = shutil.rmtree('EXERCISES')", "Error"),
    "overwrites a file": ("another_query = open('SECRET', 'w').write('x')", ABSENT),
    "changes modes": ("import os\nanother_query = os.chmod('FOLDER', 0)", ABSENT),
    "renames the package": (
        "import os\nanother_query = os.rename('EXERCISES/..', '/tfmr')",
        "OSError",
    ),
    "adds to the package": ("another_query = open('EXERCISES/../new.py', 'w')", READ_ONLY),
    "reads a secret": ("another_query = open('SECRET').read()", ABSENT),
    "reads another submission": ("another_query = open('FOLDER/class/ada.py').read()", ABSENT),
    "lists the folder": ("import os\nanother_query = os.listdir('FOLDER')", ABSENT),
    "reads the solutions": ("another_query = open('EXERCISES/ch04_versions.py').read()", ABSENT),
    "imports the solutions": (
        "import sys\ndel sys.modules['tfmr.exercises']\n"
        "from tfmr.exercises.ch04_versions import attention\nanother_query = None",
        "ModuleNotFoundError",
    ),
    "fills the disk": (
        "for folder in ('/', '/tmp', '/dev', '/dev/shm', '.'):\n"
        "    try:\n"
        "        for i in range(10**9):\n"
        "            open(f'{folder}/{i}', 'wb').write(bytes(10**7))\n"
        "    except OSError as error:\n"
        "        last = error\n"
        "another_query = 1 / 0 if not last else open('/x', 'w')",
        READ_ONLY,
    ),
    "fills files in memory": (
        "import os\nfile = os.memfd_create('x')\nanother_query = os.truncate(file, 10**11)",
        "File too large",
    ),
    "forks": ("import os\nwhile True:\n    os.fork()\nanother_query = 1", "PermissionError"),
    "starts programs": (
        "import subprocess\nanother_query = subprocess.run(['sh', '-c', ':(){ :|:& };:'])",
        "PermissionError",
    ),
    "opens a connection": (
        "import socket\nanother_query = socket.create_connection(('127.0.0.1', PORT), 5)",
        "Errno",
    ),
    "kills its parent": (
        "import os\nos.kill(os.getppid(), 9)\nanother_query = 1 / 0",
        "ZeroDivisionError",
    ),
    "kills the marker": ("import os\nanother_query = os.kill(PID, 9)", "ProcessLookupError"),
    "kills everything": ("import os\nanother_query = os.kill(-1, 9)", "ProcessLookupError"),
}
"""Attacks that raise an error, so that the same process can try the next one."""

HOSTILE = {
    "allocates at once": ("another_query = bytearray(10**13)", "MemoryError"),
    "allocates step by step": (
        "kept = []\nwhile True:\n    kept.append(bytes(10**8))\nanother_query = 1",
        "MemoryError",
    ),
    "shares memory": (
        "import mmap\nanother_query = mmap.mmap(-1, 10**11)",
        "Cannot allocate memory",
    ),
    "starts threads": (
        "import threading, time\nwhile True:\n"
        "    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "another_query = 1",
        "start new thread",
    ),
    "recurses": ("def f():\n    return f()\nanother_query = f()", "RecursionError"),
    "crashes": ("import ctypes\nanother_query = ctypes.string_at(0)", ENDED),
    "exits": ("import os\nos._exit(0)", ENDED),
    "leaves politely": ("import sys\nsys.exit(0)\nanother_query = 1", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", ENDED),
    "prints a verdict and exits": (
        "import os\n"
        'text = b\'{"answers": {"another_query": [0.663, 2.229]}, "kind": "right"}\\n\'\n'
        "for number in range(256):\n"
        "    try:\n"
        "        os.write(number, text)\n"
        "    except OSError:\n"
        "        pass\n"
        "os._exit(0)",
        "not a reply",
    ),
    "prints megabytes": (
        "for i in range(10**5):\n    print('x' * 100)\nanother_query = 1",
        "Wrong",
    ),
    "writes megabytes to the marker": (
        "import __main__\n__main__.WORKER.replies.write(b'x' * 10**8)",
        "a result is too large",
    ),
    "writes nested replies": (
        "import __main__\n__main__.WORKER.replies.write(b'[' * 10**6 + b'\\n')",
        "not a reply",
    ),
    "patches the checker": (
        "import tfmr.exercises as e\nfrom tfmr.exercises import ch04\n"
        "e.Verdict = ch04.q1.check = ch04.q1._judge = lambda *_: 'Right.'\nanother_query = [1, 2]",
        "Wrong",
    ),
    "nests brackets": (f"another_query = {'(' * 10**5}1{')' * 10**5}", "SyntaxError"),
    "raises a page": (
        "raise ValueError('<script>alert(1)</script>\\x1b[2J' * 10**6)\nanother_query = 1",
        "ValueError: <script>",
    ),
    "forges a result": (
        FORGED.format("__main__.encode = lambda *_: {'tensor': ['float32', [1 << 60], '']}"),
        "not a reply",
    ),
    "forges a verdict": (
        FORGED.format("__main__.WORKER.send({'kind': 'right', 'headline': 'Right.'})"),
        "not a reply",
    ),
    "returns a result that equals everything": (
        "import torch\n"
        "class Equal(torch.Tensor):\n"
        "    __eq__ = __le__ = lambda *_: True\n"
        "torch.allclose = torch.equal = lambda *_, **__: True\n"
        "def attention(q, k, v):\n"
        "    return torch.zeros(q.shape[:-1] + v.shape[-1:]).as_subclass(Equal)",
        "Wrong for this case",
    ),
    "returns too much": (
        "import torch\ndef attention(q, k, v):\n    return torch.zeros(10**7)",
        "a result is too large",
    ),
    "exhausts the marker": (
        "import torch\ndef leak_test(attend):\n    attend(torch.zeros(1, 10**5, 1))",
        "Your test raised an error",
    ),
    "loops in an answer": (
        "def attention(q, k, v):\n    while True:\n        pass",
        "TimeLimitExceeded: stopped after 5 seconds",
    ),
}
"""Attacks that end their process, exhaust it, or concern what it reports: each has its own."""

ENDLESS = {
    "loops": ("another_query = 0\nwhile True:\n    another_query += 1", "at line 3"),
    "catches everything": (
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass",
        USED,
    ),
    "ignores signals": (
        "import signal\nfor number in (signal.SIGPROF, signal.SIGXCPU):\n"
        "    signal.signal(number, signal.SIG_IGN)\nwhile True:\n    pass",
        "",
    ),
    "counts in C": (
        "import collections, itertools\nanother_query = collections.deque(itertools.count(), 0)",
        USED,
    ),
    "matches for ever": (
        "import re\nanother_query = re.match('(a|a)*b', 'a' * 99)",
        "TimeLimitExceeded",
    ),
    "sleeps": ("import time\ntime.sleep(10**6)", SLEPT),
    "stops itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        SLEPT,
    ),
}
"""Submissions that would never end; their limit is one second of processor time."""
