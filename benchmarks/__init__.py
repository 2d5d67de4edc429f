"""Benchmarks: speed and quality, measured, recorded as JSON and rendered into README.md.

Each module is a command, for example ``python -m benchmarks.speed --help``. A command writes its
results to a JSON file (:mod:`benchmarks.record`). The module also has the ``table`` of its record
and the ``claims`` about it; ``python -m benchmarks.tables`` renders all tables into README.md and
checks all claims.
"""

import os

# As in ``python -m tfmr``: waiting OpenMP threads sleep soon instead of occupying a core. This must
# be set before torch is imported; it applies to every system.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
