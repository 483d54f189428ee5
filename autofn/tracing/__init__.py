"""torch.profiler traces of cases: where the time goes, variant by variant, for TensorBoard and for any Kineto reader.

Where, not how long: the profiler makes a short call up to twice as long, so no time of a trace is a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .. import registry
from ..measure.machine import commit
from .files import ALL, TraceSummary, load_operators, load_summaries
from .recording import Progress, record
from .request import Request

__all__ = ["ALL", "TraceSummary", "load_operators", "load_summaries", "trace"]


def trace(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    workload: str = "small",
    dtype: str = "float32",
    device: str = "cpu",
    steps: int = 3,
    stacks: bool = True,
    flame: bool = False,
    memory: bool = False,
    missing: bool = False,
    revision: str | None = None,
    out: str | Path = "traces",
    progress: Progress = lambda done, total, label: None,
    said: Callable[[str], None] = lambda text: None,
) -> list[TraceSummary]:
    """Records a run `<out>/<function>/<variant>` for each variant, and `<out>/<function>/all` with all of them.

    functions, variants: names; None takes all there are. stacks: record Python call stacks, which the Module view and
    the call stacks of the Operator view need. flame: beside each trace a flame graph for speedscope. memory: a snapshot
    of CUDA's allocator. missing: leaves Functions alone whose runs lie there, recorded so from the code as it is, so
    that an interrupted recording goes on where it was. revision: traces that commit's build into `<out>/<commit>`;
    said: told before it is built. progress: called with (runs done, runs in all, what comes next).

    One summary a run comes back, in the order of recording. A variant that cannot run here is "n/a" and one that
    raised is "failed", each with its reason and no trace; `all` is made of those that were traced, if two or more were.
    Whatever Dynamo compiled before is forgotten, before and after: here kernels are compiled with their names.

    Raises LookupError for a name that no selected Function knows, ValueError for another value that makes no sense,
    `comparing.builds.BuildError` where a commit cannot be built.
    """
    request = Request(
        tuple(functions or ()), tuple(variants or ()), workload, dtype, device, steps=steps, stacks=stacks, flame=flame,
        memory=memory, missing=missing, out=str(out), commit=commit(), code=registry.fingerprint(),
    )  # fmt: skip
    if revision is not None:
        from .commits import record_commit

        return record_commit(revision, request, progress, said)
    return record(request, registry, progress)
