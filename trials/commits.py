"""Does `autofn compare` report what is not there, and does it find 5 % of one kernel?

    python -m trials.commits --out FOLDER [--runs 10] [--budget 300] [--replays 100]

A scratch clone of this repository gets two commits: one that changes nothing, and one whose forward kernel of rms_norm
does a part of its rows twice. Each of them is compared with the base over twenty cases (`cpp`, `small`, both phases),
`runs` times for real. Their samples are kept as they come and are used again by the same command. For the replays each
case's interpreters are drawn anew from those of all runs, a second look's from second looks where there were any: these
are longer. What `asv continuous` would have decided is said of the same samples, by its own function.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autofn import registry
from autofn.comparing import PHASES, describe, plan
from autofn.comparing.builds import Side, side
from autofn.comparing.changes import FASTER, SLOWER, Change
from autofn.comparing.plan import Pair
from autofn.comparing.run import BASE, HEAD, Comparison, Looks, compare_pairs, measure
from autofn.measure import machine
from autofn.measure.lockstep import Effort, Outcome
from autofn.measure.processes import Processes
from autofn.measure.protocols import WALL
from autofn.measure.statistics import ratio_over_processes
from autofn.records import write_atomically

from .rivals import RIVALS

ROOT = Path(__file__).parents[1]
FUNCTION, VARIANT, WORKLOAD, PHASE = "rms_norm", "cpp", "small", "forward"
CASES = 20
BASE_TAG = "base"
SAME, PLANTED = KINDS = ("same", "slower")
# A row in so many is done twice, which makes the phase some 5 % slower.
AGAIN_EVERY = 24
KERNEL = Path("autofn/functions/rms_norm/kernel.cpp")
ONCE = "[&](auto out, int64_t row) { r[row] = normalise_row(out, px + row * out.columns, w, eps); }"
TWICE = f"""[&](auto out, int64_t row) {{
          if (row % {AGAIN_EVERY} == 0) r[row] = normalise_row(out, px + row * out.columns, w, eps);
          r[row] = normalise_row(out, px + row * out.columns, w, eps);
        }}"""

Server = dict[str, list[list[float]]]
"""One interpreter's times: "arm/phase" -> its generations of seconds a call."""
Pool = dict[str, list[Server]]
"""By group, the interpreters of all runs."""
Run = dict[str, Any]
"""seconds: of the whole comparison. reported: what it called faster or slower. first, second: interpreters by group."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--budget", type=float, default=300)
    parser.add_argument("--replays", type=int, default=100)
    chosen = parser.parse_args()
    base, *heads = sides(scratch(chosen.out / "repository"))
    comparisons = {kind: Comparison(base, head, PHASES, chosen.budget) for kind, head in zip(KINDS, heads, strict=True)}
    pairs = cases(base)
    for number in range(chosen.runs):
        for kind, comparison in comparisons.items():
            _run_for_real(chosen.out / f"commits-{kind}.jsonl", number, comparison, pairs)
    found = {
        kind: _figures(kind, _load(chosen.out / f"commits-{kind}.jsonl"), comparison, pairs, chosen.replays)
        for kind, comparison in comparisons.items()
    }
    about = {"commit": machine.commit(), "machine": machine.conditions("cpu", 1), "budget_s": chosen.budget}
    write_atomically(chosen.out / "commits.json", json.dumps({**about, "figures": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def scratch(folder: Path) -> Path:
    """The clone, with tags `base`, `same` and `slower`. Raises ValueError where the kernel is not the one expected."""
    if folder.exists():
        return folder
    made = folder.with_name("unfinished")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(made)], check=True)
    _git(made, "tag", BASE_TAG)
    _git(made, "commit", "--quiet", "--allow-empty", "--message", "nothing")
    _git(made, "tag", SAME)
    text = (made / KERNEL).read_text()
    if ONCE not in text:
        raise ValueError(f"commits: {KERNEL} has no {ONCE!r} to make slower")
    (made / KERNEL).write_text(text.replace(ONCE, TWICE))
    _git(made, "commit", "--quiet", "--all", "--message", "slower")
    _git(made, "tag", PLANTED)
    made.replace(folder)
    return folder


def sides(repository: Path) -> Iterator[Side]:
    """The builds of the tags, the base's first, each when it is asked for."""
    return (side(name, repository, said=print) for name in (BASE_TAG, *KINDS))


def _git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=trial", "-c", "user.email=trial@localhost"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True)


def cases(base: Side) -> list[Pair]:
    """A pair a Function, the one with the planted kernel among them."""
    with Processes() as processes:
        said = describe(base, registry.names(), processes)
    found = plan.pairs(said, said, registry.names(), variants=[VARIANT], workloads=[WORKLOAD])
    return sorted((pair for pair in found if pair.arms), key=lambda pair: pair.group.function != FUNCTION)[:CASES]


def _run_for_real(path: Path, number: int, comparison: Comparison, pairs: Sequence[Pair]) -> None:
    """Comparison `number`, unless the file has it."""
    if number < len(_load(path)):
        return
    first: dict[str, list[Server]] = {}
    second: dict[str, list[Server]] = {}

    def recorded(processes: Processes, of: Comparison, pair: Pair, effort: Effort) -> Outcome:
        outcome = measure(processes, of, pair, effort)
        group = str(pair.group)
        (second if group in first else first)[group] = list(_servers(outcome))
        return outcome

    begin = time.monotonic()
    changes = compare_pairs(comparison, pairs, Looks(None), measured=recorded)
    run: Run = {"seconds": time.monotonic() - begin, "reported": _reported(changes), "first": first, "second": second}
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")
    print(path.stem, number, f"{run['seconds']:.0f} s", *run["reported"], flush=True)


def _servers(outcome: Outcome) -> Iterator[Server]:
    count = min((len(servers) for servers in outcome.times.values()), default=0)
    for number in range(count):
        yield {f"{arm}/{phase}": servers[number] for (arm, phase, _), servers in outcome.times.items()}


def _reported(changes: Sequence[Change]) -> list[str]:
    return [f"{one.function} {one.phase} {one.verdict}" for one in changes if one.verdict in (FASTER, SLOWER)]


def _load(path: Path) -> list[Run]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _figures(kind: str, runs: list[Run], comparison: Comparison, pairs: Sequence[Pair], replays: int) -> dict[str, Any]:
    pool, longer = (_pool(run[look] for run in runs) for look in ("first", "second"))
    counted = partial(counts, planted=planted(kind))
    replayed = [_replayed(comparison, pairs, pool, longer, random.Random(seed)) for seed in range(replays)]
    return {
        "cases": len(pairs),
        "seconds_a_run": [round(run["seconds"]) for run in runs],
        "slower_by": _slower_by(pool),
        "real": counted([run["reported"] for run in runs]),
        "replayed": counted(replayed),
        "asv continuous": counted(list(_by_asv(pool, replays))),
    }


def _pool(looks: Iterable[Mapping[str, list[Server]]]) -> Pool:
    pool: Pool = {}
    for look in looks:
        for group, servers in look.items():
            pool.setdefault(group, []).extend(servers)
    return pool


def _replayed(
    comparison: Comparison, pairs: Sequence[Pair], pool: Pool, longer: Pool, draw: random.Random
) -> list[str]:
    """What the comparison would have reported had its interpreters been these; a second look draws anew."""
    looked: set[str] = set()

    def drawn(processes: Processes, of: Comparison, pair: Pair, effort: Effort) -> Outcome:
        group = str(pair.group)
        chosen = draw.sample(longer[group] if group in looked and group in longer else pool[group], effort.servers)
        looked.add(group)
        return Outcome(times={(*name.split("/"), WALL): [one[name] for one in chosen] for name in chosen[0]})  # type: ignore[misc]

    return _reported(compare_pairs(comparison, pairs, Looks(None), measured=drawn))


def _slower_by(pool: Pool) -> float:
    """What was planted, as the median over all interpreters shows it: a fraction."""
    servers = next(servers for group, servers in pool.items() if group.startswith(f"{FUNCTION} "))
    base, head = ([one[f"{side} {VARIANT}/{PHASE}"] for one in servers] for side in (BASE, HEAD))
    return round(1 / ratio_over_processes(base, head).value - 1, 4)


def _by_asv(pool: Pool, replays: int) -> Iterator[list[str]]:
    """The same cases by asv's rule: `processes` of one side, then as many of the other."""
    decide, processes = RIVALS["asv continuous"]
    for seed in range(replays):
        draw, found = random.Random(seed), []
        for group, servers in pool.items():
            chosen = draw.sample(servers, 2 * processes)
            for phase in PHASES:
                one, two = (
                    [server[f"{side} {VARIANT}/{phase}"][0] for server in part]
                    for side, part in ((BASE, chosen[:processes]), (HEAD, chosen[processes:]))
                )
                if (word := decide(one, two)) in (FASTER, SLOWER):
                    found.append(f"{group.split()[0]} {phase} {word}")
        yield found


def planted(kind: str) -> str:
    """What a comparison of that kind should report."""
    return f"{FUNCTION} {PHASE} {SLOWER}" if kind == PLANTED else ""


def counts(reported: Sequence[Sequence[str]], planted: str) -> dict[str, int]:
    """found: comparisons that report the planted kernel. false: comparisons that report anything else."""
    return {
        "comparisons": len(reported),
        "found": sum(planted in one for one in reported),
        "false": sum(any(word != planted for word in one) for one in reported),
    }


if __name__ == "__main__":
    main()
