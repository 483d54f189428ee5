"""History over commits.

Time of each variant at each commit, as asv measured it, with its 95 % interval. A line ends where the machine's
software, the inputs or the way of measuring changed: what lies before does not compare with what comes after.
"""

from autofn.reporting import Inputs, Page
from autofn.reporting.definitions import commits


def page(inputs: Inputs) -> Page:
    """float32 and asv alone: one commit after the other was built and measured in the same way."""
    results = inputs.results
    return commits.page(inputs.only(results[(results["source"] == "asv") & (results["dtype"] == "float32")]))
