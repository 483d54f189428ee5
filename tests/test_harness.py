"""Two copies of the package in one process: what measures, and what is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autofn import extension

HARNESS = Path(__file__).parents[1] / "autofn" / "harness.py"
BOTH = """
import runpy, sys
runpy.run_path(sys.argv[1])["load"]()
import autofn.extension, autofn_harness.extension, autofn_harness.case
assert autofn.extension is not autofn_harness.extension
for copy in (autofn.extension, autofn_harness.extension):
    assert copy.unavailable() is None, copy.unavailable()
print([name for name in sys.modules if name.endswith("._C") and name.startswith("autofn")])
"""


@pytest.mark.skipif(extension.unavailable() is not None, reason=str(extension.unavailable()))
def test_both_copies_share_one_extension_which_registers_its_operators_once():
    done = subprocess.run([sys.executable, "-c", BOTH, str(HARNESS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['autofn._C']"
