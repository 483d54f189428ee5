"""The asv suites of every Function. They measure with this working tree's code, whatever commit is installed."""

import runpy
from pathlib import Path

HARNESS = Path(__file__).parents[1] / "autofn" / "harness.py"

runpy.run_path(str(HARNESS))["load"]()

from autofn_harness import asv  # noqa: E402  (it exists once the harness is loaded)

asv.register_benchmark_types()
