"""What the sampler itself costs, and whether its times agree with torch.utils.benchmark.Timer.

    python -m trials.agreement --out FOLDER

Both time the same case in this process, in turn; the figure is the median of the ratios of 30 turns. The overhead is
the time of the sampling loop round an empty call, against a call of 3 us.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.benchmark import Timer

from autofn import registry
from autofn.case import Case, Key, prepare
from autofn.measure import machine, phases, sampling
from autofn.records import write_atomically

TURNS = 30
WORKLOADS = ("tiny", "small", "large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    cases = product(registry.names(), WORKLOADS, STATEMENTS)
    rows = [_agreement(name, workload, phase) for name, workload, phase in cases]
    found = {
        "commit": machine.commit(),
        "machine": machine.conditions("cpu", 1),
        "overhead_s_a_call": _overhead_s(),
        "agreement": rows,
    }
    found["overhead_at_3us"] = found["overhead_s_a_call"] / 3e-6
    write_atomically(chosen.out / "agreement.json", json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


# phase -> what Timer runs; pure backward: one graph replayed, so it lacks the freeing of the graph.
STATEMENTS = {
    "forward": "call(*inputs)",
    "inference": "call(*inputs)",
    "backward": "grad(outputs, leaves, grads, retain_graph=True)",
}


def _agreement(function: str, workload: str, phase: str) -> dict[str, Any]:
    spec = registry.spec(function)
    case = prepare(spec, Key(function, "eager", workload, "float32", "cpu"), spec.reference)
    theirs = _timer(case, phase)
    sample = _sampler(case, phase)
    number = sampling.calls_per_sample(sampling.warm_up(sample))
    pairs = []
    for _ in range(TURNS):
        mine = sample(number) / number
        with torch.set_grad_enabled(phase != "inference"):
            pairs.append((mine, theirs.timeit(number).times[0]))
    return {
        "case": f"{function} {workload} {phase}",
        "ours_s": median(mine for mine, _ in pairs),
        "timer_s": median(other for _, other in pairs),
        "ratio": round(median(mine / other for mine, other in pairs), 4),
    }


def _sampler(case: Case, phase: str) -> Callable[[int], float]:
    return lambda number: phases.SAMPLE[phase](case, number, time.perf_counter)


def _timer(case: Case, phase: str) -> Timer:
    names = {
        "call": case.apply,
        "inputs": case.inputs,
        "grad": torch.autograd.grad,
        "outputs": case.forward(),
        "leaves": case.leaves,
        "grads": case.grad_outputs,
    }
    return Timer(STATEMENTS[phase], globals=names, num_threads=1)


def _overhead_s() -> float:
    """Seconds a call that the loop of `phases.forward` adds to a call of nothing, beyond the call itself."""
    spec = registry.spec(registry.names()[0])
    case = prepare(spec, Key(spec.name, "eager", "tiny", "float32", "cpu"), spec.reference)
    empty = Case(case.key, _nothing, case.inputs, case.grad_outputs)
    number = 10_000
    loops, bare = [], []
    for _ in range(TURNS):
        loops.append(phases.forward(empty, number, time.perf_counter) / number)
        bare.append(_unrolled(case.inputs, number) / number)
    return median(loops) - median(bare)


def _nothing(*inputs: Any) -> None:
    return None


def _unrolled(inputs: Any, number: int) -> float:
    """Seconds of that many calls of nothing, ten written out in each turn of the loop."""
    call = _nothing
    begin = time.perf_counter()
    for _ in range(number // 10):
        call(*inputs), call(*inputs), call(*inputs), call(*inputs), call(*inputs)
        call(*inputs), call(*inputs), call(*inputs), call(*inputs), call(*inputs)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
