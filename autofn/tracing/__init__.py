"""torch.profiler traces of cases: where the time goes, variant by variant, for TensorBoard and for any Kineto reader.

Where, not how long: the profiler makes a short call up to twice as long, so no time of a trace is a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import registry
from ..measure.machine import commit
from .files import ALL, TraceSummary, load_operators, load_summaries
from .recording import Progress, Request, record

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
    out: str | Path = "traces",
    progress: Progress = lambda done, total, label: None,
) -> list[TraceSummary]:
    """Records a run `<out>/<function>/<variant>` for each variant, and `<out>/<function>/all` with all of them.

    functions, variants: names; None takes all there are. stacks: record Python call stacks, which the Module view and
    the call stacks of the Operator view need. progress: called with (runs done, runs in all, what comes next).

    One summary a run comes back, in the order of recording. A variant that cannot run here is "n/a" and one that
    raised is "failed", each with its reason and no trace; `all` is made of those that were traced, if two or more were.
    Whatever Dynamo compiled before is forgotten, before and after: here kernels are compiled with their names.

    Raises LookupError for a name that no selected Function knows, ValueError for another value that makes no sense.
    """
    names = registry.names() if functions is None else tuple(functions)
    request = Request(
        names, tuple(variants or ()), workload, dtype, device, steps=steps, stacks=stacks, out=str(out), commit=commit()
    )
    return record(request, registry, progress)
