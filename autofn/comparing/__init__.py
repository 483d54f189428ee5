"""Two builds of the package side by side: what became faster or slower, what takes more memory, what broke."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..measure.processes import Processes
    from ..measure.run import Progress
    from .builds import Side
    from .changes import Change
    from .plan import Described

PHASES = ("forward", "backward")
COMPARISONS = Path(".autofn/compare")


@dataclass(frozen=True)
class Compared:
    """What a comparison gave. left_out: Functions that could not be compared, each with the reason."""

    base: Side
    head: Side
    changes: list[Change]
    left_out: dict[str, str]


def compare(
    base: str,
    head: str = ".",
    functions: Sequence[str] | None = None,
    *,
    root: Path = Path(),
    variants: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = ("float32",),
    device: str = "cpu",
    phases: Sequence[str] = PHASES,
    threads: int = 1,
    budget_s: float = 300.0,
    instructions: bool = False,
    progress: Progress = lambda done, total, label: None,
    said: Callable[[str], None] = lambda text: None,
) -> Compared:
    """What differs between two builds, by arms in lockstep.

    base, head: a revision, "." for the working tree, or the path of a Python that has the package installed (another
    environment, another torch). functions: by default those whose code differs. None means all, for variants those
    written by hand. budget_s: seconds of sampling in all; building and compiling come on top. An interrupted comparison
    goes on where it was. Raises LookupError for what does not exist, ValueError for a bad number,
    `comparing.builds.BuildError` where a side cannot be built.
    """
    from ..measure import run as measuring
    from ..measure import selection
    from ..measure.processes import Processes
    from .builds import side
    from .plan import differing, incomparable, pairs
    from .run import Comparison, Looks, compare_pairs

    if not budget_s > 0:
        raise ValueError(f"compare: the budget must be above 0 seconds, got {budget_s}")
    measuring.check_threads(threads)
    phases = selection.phases(list(phases))
    before, after = (side(name, root, threads=threads, said=said) for name in (base, head))
    with Processes() as processes:
        asked = list(functions or dict.fromkeys(name for one in (after, before) for name in _names(one, processes)))
        at_base, at_head = (describe(one, asked, processes) for one in (before, after))
    left_out = incomparable(at_base, at_head, asked)
    chosen = [name for name in asked if name not in left_out]
    if not functions:
        chosen = differing(before, after, chosen)
    found = pairs(at_base, at_head, chosen, variants=variants, workloads=workloads, dtypes=dtypes, device=device)
    looks = Looks(root / COMPARISONS / f"{_digest(before, after, found, phases, budget_s)}.jsonl")
    changes = compare_pairs(Comparison(before, after, phases, budget_s), found, looks, progress)
    if instructions:
        from .counts import compare_instructions

        changes += compare_instructions(before, after, found, phases, progress)
    if looks.path:
        looks.path.unlink(missing_ok=True)
    return Compared(before, after, changes, left_out)


def describe(side: Side, functions: Sequence[str], processes: Processes) -> Described:
    """What the side's package says of the Functions."""
    from ..measure.processes import START_S, Seat

    server = processes.server(Seat(side.build))
    return {name: server.ask({"do": "describe", "function": name}, START_S) for name in functions}


def _names(side: Side, processes: Processes) -> list[str]:
    """The Functions of the side's package."""
    from ..measure.processes import START_S, Seat

    names: list[str] = processes.server(Seat(side.build)).ask({"do": "names"}, START_S)["names"]
    return names


def _digest(*asked: Any) -> str:
    """A name for this very comparison."""
    return hashlib.sha256(json.dumps(asked, default=repr).encode()).hexdigest()[:12]
