"""History over commits.

Time of each variant at each commit, with its 95 % interval. A line ends where the machine's software, the inputs or the
way of measuring changed: what lies before does not compare with what comes after.
"""

from __future__ import annotations

from autofn import registry
from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Page
from autofn.reporting.sections import commits, functions, history, machine, skipped


def page(inputs: Inputs) -> Page:
    """What asv measured commit by commit, else all that has a commit; float32 is what shows first."""
    asv = inputs.results[inputs.results["source"] == "asv"]
    inputs = inputs if asv.empty else inputs.only(asv)
    drawn, left_out = history.bounded(inputs)
    return Page(
        (
            skipped.section(inputs),
            commits.section(inputs),
            left_out,
            *functions.sections(drawn, [history.section], registry.summary),
            machine.section(inputs),
        ),
        preset={"dtype": "float32"},
    )
