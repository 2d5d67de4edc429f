"""How fast and how good tfmr is beside its peers: measured, recorded, and rendered, never retyped.

Each module is a command, ``python -m benchmarks.speed --help`` for example. What one measures goes
into a JSON file of this folder (:mod:`benchmarks.record`), and ``python -m benchmarks.tables``
renders those files into README.md.
"""

import os

# As in ``python -m tfmr``, and read when torch is imported: threads that wait for one another go to
# sleep soon instead of holding their core. It is the same for every system that is measured.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
