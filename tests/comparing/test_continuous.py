"""The trial of `asv continuous` reads asv's table, and counts as that of `autofn compare` does."""

from __future__ import annotations

import pytest

from trials import commits, continuous

TABLE = """
[100.00%] ··· timing.rms_norm.forward_time                                  ok
| Change | Before [1] | After [2] | Ratio | Benchmark (Parameter) |
|--------|------------|------------|-------|-------|
| +      | 9.70±0.1μs | 12.1±0.2μs |  1.25 | timing.rms_norm.forward_time('cpp', 'small', 'float32', 'cpu') |
| -      | 33.0±2μs   | 27.1±1μs  |  0.82 | timing.lltm.backward_time('cpp', 'small', 'float32', 'cpu') |

SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY.
"""


def test_what_the_table_marks_is_read():
    assert list(continuous.reported(TABLE)) == ["rms_norm forward slower", "lltm backward faster"]
    assert list(continuous.reported("\nBENCHMARKS NOT SIGNIFICANTLY CHANGED.\n")) == []


@pytest.mark.parametrize(("kind", "found", "false"), [(commits.PLANTED, 2, 1), (commits.SAME, 0, 2)])
def test_what_is_reported_is_counted(kind, found, false):
    planted = "rms_norm forward slower"
    runs = [{"seconds": 60, "reported": words} for words in ([planted], [planted, "exp forward faster"], [])]
    counts = {"comparisons": 3, "found": found, "false": false, "seconds_a_run": [60] * 3}
    assert continuous.figures(kind, runs) == counts
