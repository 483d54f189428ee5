"""False alarms and power of autofn's verdict, and of others' on the same arms.

    python -m trials.verdicts --out FOLDER [--busy] [--minutes 30] [--blocks 60]

A block is one real comparison: servers, templates and generations of its own, of two arms of the baseline, one more of
the same code, and two that are slower by a planted 5 % and 2 %. Its wall time counts for three arms of five; beside a
busy neighbour the planted arms are left out. Recorded blocks are written as they end and are used again by the same
command, and so is what was planted. Where a figure needs more comparisons than were made, or longer ones, servers of
different blocks are put together anew: "replayed".
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from autofn.measure import machine
from autofn.measure.lockstep import Effort
from autofn.measure.statistics import FEWEST_SERVERS, Nested, Values
from autofn.measure.verdict import judge
from autofn.records import write_atomically

from .arms import ARMS, build, busy_neighbour, record
from .calibration import calibrated
from .registry import PLANTED, SIZES
from .rivals import RIVALS

Block = dict[str, Nested]
"""arm -> its seconds a call, by server and generation."""
Names = tuple[str, ...]
BUDGET_S = {"us3": 1.5, "us30": 2.5, "us300": 4.0, "ms5": 8.0}
REPLAYS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--busy", action="store_true", help="beside a process that streams through memory")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--blocks", type=int, default=60)
    chosen = parser.parse_args()
    kind, names = ("busy", ARMS[:3]) if chosen.busy else ("idle", ARMS)
    deadline = time.monotonic() + chosen.minutes * 60
    planted = calibrated(chosen.out / "planted.json", build({}))
    with busy_neighbour() if chosen.busy else nullcontext():
        for round_ in range(chosen.blocks):
            for workload in SIZES:
                _record_one(
                    chosen.out / f"{kind}-{workload}.jsonl", workload, names, planted["turns"], round_, deadline
                )
    found = {workload: _figures(_load(chosen.out / f"{kind}-{workload}.jsonl")) for workload in SIZES}
    about = {"machine": machine.conditions("cpu", 1), "commit": machine.commit(), "load": machine.load_average()}
    about["calibration"] = planted
    write_atomically(chosen.out / f"verdicts-{kind}.json", json.dumps({**about, "figures": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def _record_one(path: Path, workload: str, names: Names, planted: Any, number: int, deadline: float) -> None:
    """Block `number` of a workload, unless it is there already."""
    done = len(path.read_text().splitlines()) if path.exists() else 0
    if number < done:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    effort = Effort(BUDGET_S[workload] * len(names) / 3)
    for took, times in record(workload, build(planted), names, effort, 1, deadline):
        line = {"seconds": took, "times": {arm: servers for (arm, _, _), servers in times.items()}}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _figures(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    if not blocks:
        return {}
    times: list[Block] = [block["times"] for block in blocks]
    generations = median(len(_generations(block["eager"])) for block in times)
    servers = median(len(block["eager"]) for block in times)
    seconds = median(block["seconds"] for block in blocks) * 3 / len(times[0])
    judged = [arm for arm in ("same", *PLANTED) if arm in times[0]]
    return {
        "blocks": len(blocks),
        "seconds_a_comparison": round(seconds, 1),
        "generations": generations,
        "servers": servers,
        "call_s": median(median(values) for block in times for values in _generations(block["eager"])),
        "planted": {arm: round(_ratio(times, arm) - 1, 4) for arm in judged},
        "real": {arm: _words(_real(times, arm)) for arm in judged},
        **{
            f"replayed_{length}_s": {
                arm: _words(_replayed(times, arm, round(servers * length / seconds))) for arm in judged
            }
            for length in (10, 40)
        },
        "rivals": {name: {arm: _words(_rival(times, name, arm)) for arm in judged} for name in RIVALS},
    }


def _generations(servers: Nested) -> list[Values]:
    return [values for generations in servers for values in generations]


def _words(words: Iterator[str]) -> dict[str, Any]:
    found = Counter(words)
    return {"comparisons": found.total(), **found}


def _ratio(times: Sequence[Block], arm: str) -> float:
    """What was really planted: the arm over the baseline, the median over all generations of all blocks."""
    return median(
        median(one) / median(two)
        for block in times
        for one, two in zip(_generations(block[arm]), _generations(block["eager"]), strict=True)
    )


def _real(times: Sequence[Block], arm: str) -> Iterator[str]:
    """The verdict of each block as it was measured."""
    for block in times:
        yield judge(block["eager"], block["again"], block[arm]).word


def _replayed(times: Sequence[Block], arm: str, servers: int) -> Iterator[str]:
    """Comparisons of servers drawn from all blocks, each with its generations."""
    draw = random.Random(1)
    pool = [triple for block in times for triple in zip(block["eager"], block["again"], block[arm], strict=True)]
    for _ in range(REPLAYS):
        chosen = draw.sample(pool, min(max(servers, FEWEST_SERVERS), len(pool)))
        yield judge(*zip(*chosen, strict=True)).word  # type: ignore[call-arg]


def _rival(times: Sequence[Block], name: str, arm: str) -> Iterator[str]:
    """Another's verdict: its processes of one side, then those of the other, from consecutive generations."""
    decide, processes = RIVALS[name]
    base = [values for block in times for values in _generations(block["eager"])]
    other = [values for block in times for values in _generations(block[arm])]
    starts = range(0, len(base) - 2 * processes + 1, max(1, (len(base) - 2 * processes) // REPLAYS or 1))
    for begin in starts:
        yield decide(base[begin : begin + processes], other[begin + processes : begin + 2 * processes])


if __name__ == "__main__":
    main()
