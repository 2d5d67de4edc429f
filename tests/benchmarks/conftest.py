"""The shapes of every signature of the benchmarks are checked too."""

import jaxtyping

jaxtyping.install_import_hook("benchmarks", "beartype.beartype")
