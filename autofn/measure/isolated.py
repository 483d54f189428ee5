"""A group measured by arms in lockstep, the baseline as two arms. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..records import FAILED, UNAVAILABLE, Record
from . import device_state
from .lockstep import ArmSpec, Effort, Lockstep, Outcome, Times
from .processes import Build, Processes
from .rows import Arm, Rows
from .statistics import over_processes, ratio_over_processes

BASELINE, AGAIN = "eager", "eager again"
# Ratios with intervals of at most this fraction are narrow enough to stop before the budget is spent.
NARROW = 0.02
NOT_ASKED = "`autofn bench` finds it; this run was of times and bytes"


def measure(
    processes: Processes,
    build: Build,
    rows: Rows,
    arms: Sequence[Arm],
    effort: Effort,
    *,
    errors_and_first_calls: bool = True,
) -> Iterator[Record]:
    """Every record of the group: saved bytes, first calls and times of each arm, or the reason why there are none.

    errors_and_first_calls: whether the error of each arm is found too, which takes its truth in float64, and what first
    calls take. Without, their records say that nobody asked.
    """
    specs = [
        ArmSpec(
            arm.variant, rows.group.key(arm.variant), build, arm.compiled, memory=True, error=errors_and_first_calls
        )
        for arm in arms
    ]
    if any(arm.variant == BASELINE for arm in arms):
        specs.append(ArmSpec(AGAIN, rows.group.key(BASELINE), build))
    effort = replace(effort, enough=partial(_narrow, NARROW), first_calls=errors_and_first_calls)
    outcome = Lockstep(processes, specs, rows.phases, effort, rows.ways).run()
    for arm in arms:
        status, reason = _why_not(arm, outcome)
        if status:
            yield from rows.missing(arm.variant, status, reason)
            continue
        if arm.variant in outcome.memory:
            yield from rows.memory(arm.variant, outcome.memory[arm.variant])
        else:
            yield from rows.no_memory(arm.variant, FAILED, outcome.no_memory[arm.variant])
        if arm.variant in outcome.error:
            yield from rows.error(arm.variant, outcome.error[arm.variant])
        elif errors_and_first_calls:
            yield from rows.no_error(arm.variant, FAILED, outcome.no_error[arm.variant])
        else:
            yield from rows.no_error(arm.variant, UNAVAILABLE, NOT_ASKED)
        if errors_and_first_calls:
            yield from rows.first_calls(arm.variant, outcome.prepared[arm.variant]["first_call_s"])
        else:
            yield from rows.no_first_calls(arm.variant, UNAVAILABLE, NOT_ASKED)
        for phase in rows.phases:
            for way in rows.ways:
                yield _time(rows, arm, phase, way, outcome)


def _narrow(fraction: float, times: Times) -> bool:
    """Whether the ratio of every arm to the baseline has an interval of at most +-`fraction`."""
    for (arm, phase, way), servers in times.items():
        base = times.get((BASELINE, phase, way))
        if base is None or arm == BASELINE:
            continue
        found = ratio_over_processes(base, servers)
        if found.low is None or found.high is None or found.high / found.low > (1 + fraction) ** 2:
            return False
    return True


def _why_not(arm: Arm, outcome: Outcome) -> tuple[str, str]:
    """The status and the reason of an arm that has no times, else two empty strings."""
    if arm.variant in outcome.unavailable:
        return UNAVAILABLE, outcome.unavailable[arm.variant]
    if arm.variant in outcome.failed:
        return FAILED, outcome.failed[arm.variant]
    if arm.compiled and outcome.prepared[arm.variant]["compilation"]["graphs"] < 1:
        return FAILED, "no graph was compiled, so the time would be eager's"
    return "", ""


def _time(rows: Rows, arm: Arm, phase: str, way: str, outcome: Outcome) -> Record:
    cell = arm.variant, phase, way
    if cell not in outcome.times:
        return rows.time(*cell, status=UNAVAILABLE, reason=outcome.no_way[cell])
    servers = outcome.times[cell]
    found = over_processes(servers)
    # How the flat samples fall into generations, and these into servers.
    detail: dict[str, Any] = {
        "generations": [len(samples) for generations in servers for samples in generations],
        "servers": [len(generations) for generations in servers],
    }
    prepared = outcome.prepared[arm.variant]
    if arm.compiled:
        detail["compiled"] = prepared["compilation"]
    if prepared["denormal_inputs"]:
        detail["denormal_inputs"] = prepared["denormal_inputs"]
    if outcome.others_busy is not None:
        detail["others_busy"] = outcome.others_busy
    # Of the whole group, so the same in each of its rows.
    detail["spent_s"] = {what: round(seconds, 3) for what, seconds in outcome.spent_s.items()}
    if arm.variant == BASELINE and (AGAIN, phase, way) in outcome.times:
        detail["again"] = _flat(outcome.times[AGAIN, phase, way])
    states = [state for state in _flat(outcome.states[cell]) if state is not None]
    if states:
        detail |= device_state.detail(list(map(device_state.from_message, states)))
    return rows.time(
        *cell, value=found.value, low=found.low, high=found.high, samples=tuple(_flat(servers)),
        number=outcome.numbers[str(rows.group.key(arm.variant)), phase, way], processes=len(detail["generations"]),
        detail=detail,
    )  # fmt: skip


def _flat(servers: Sequence[Sequence[Sequence[Any]]]) -> list[Any]:
    return [value for generations in servers for samples in generations for value in samples]
