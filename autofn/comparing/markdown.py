"""A comparison as GitHub's Markdown, for a comment on a pull request. Text from outside is escaped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from statistics import median

from ..reporting.units import Kind, quantity
from . import Compared
from .changes import BETTER, BROKEN, CANNOT_TELL, FASTER, SAME, SLOWER, WORSE, Change, better, worse

UNITS: dict[str, Kind] = {"time_s": "seconds", "instructions": "number"}


def markdown(found: Compared) -> str:
    """The verdict in a line, a table of what changed, and how much could have been seen."""
    lines = [
        "### autofn compare",
        "",
        f"{escape(found.base.title)} → {escape(found.head.title)}: **{summary(found.changes)}**",
        "",
    ]
    changed = worse(found.changes) + better(found.changes)
    if changed:
        lines += ["| case | phase | | base | head | change |", "|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join(escape(cell) for cell in row(change)) + " |" for change in changed]
        lines.append("")
    lines += [escape(line) for line in notes(found)]
    return "\n".join(lines) + "\n"


def summary(changes: list[Change]) -> str:
    """Such as "2 slower, 1 less, 57 same, 3 cannot tell"."""
    counts = Counter(change.verdict for change in changes)
    order = [*dict.fromkeys([*WORSE, *BETTER, SAME, CANNOT_TELL]), *counts]
    said = [f"{counts[verdict]} {verdict}" for verdict in dict.fromkeys(order) if counts[verdict]]
    return ", ".join(said) or "nothing to compare"


def row(change: Change) -> list[str]:
    """Case, phase, verdict, base, head, and the change with its interval."""
    metric = "" if change.metric == "time_s" else f" {change.metric}"
    unit = UNITS.get(change.metric, "bytes")
    values = ["" if value is None else quantity(value, unit) for value in (change.base, change.head)]
    return [change.case, change.phase, f"{change.verdict}{metric}", *values, difference(change)]


def difference(change: Change) -> str:
    """Of a time the slowdown or the gain in percent, with its interval; of bytes the difference; else the reason."""
    if change.verdict == BROKEN or not change.measured:
        return change.reason
    if change.ratio and change.low and change.high:
        slow = [1 / bound - 1 for bound in (change.ratio, change.high, change.low)]
        return f"{slow[0]:+.1%} ({slow[1]:+.1%} to {slow[2]:+.1%})"
    if change.base and change.head is not None:
        return f"{change.head / change.base - 1:+.1%}"
    return "" if change.base is None or change.head is None else f"{change.head - change.base:+g}"


def notes(found: Compared) -> Iterable[str]:
    """What could have been seen, what could not be measured, and what was left out."""
    times = [change for change in found.changes if change.metric == "time_s" and change.measured]
    seen = [change.smallest_effect for change in times if change.smallest_effect is not None]
    if seen:
        yield f"Differences of {median(seen):.1%} would have been seen in half of the {len(times)} timed comparisons."
    if any(change.verdict in (FASTER, SLOWER) for change in times):
        yield "What is called faster or slower was measured twice, by interpreters of its own each time."
    for change in times:
        if change.verdict == CANNOT_TELL and change.reason:
            yield f"{change.case} {change.phase}: {change.reason}"
    for case, reason in dict.fromkeys((change.case, change.reason) for change in found.changes if not change.measured):
        yield f"{case}: {reason}"
    for name, reason in found.left_out.items():
        yield f"{name}: {reason}"


def escape(text: str) -> str:
    """Nothing in the text is markup: not of Markdown, not of HTML, not of a table."""
    text = re.sub(r"([\\`*_{}\[\]()#+|~-])", r"\\\1", text) if re.search(r"[\\`*_\[\]|~<>]", text) else text
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
