"""What a trace is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass

from ..records import Key


@dataclass(frozen=True)
class Request:
    """What is recorded, and where to. functions, variants: () for all that there are.

    flame, memory: also a flame graph, and on CUDA a snapshot of the allocator. missing: not what lies there, recorded
    so from the same code. commit, code: of the traced package, see TraceSummary. Raises ValueError for what makes no
    sense.
    """

    functions: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    workload: str = "small"
    dtype: str = "float32"
    device: str = "cpu"
    steps: int = 3
    stacks: bool = True
    flame: bool = False
    memory: bool = False
    missing: bool = False
    out: str = "traces"
    commit: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"trace: steps must be 1 or more, got {self.steps}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"trace: device must be 'cpu' or 'cuda', got {self.device!r}")
        if self.memory and self.device != "cuda":
            raise ValueError(
                "trace: a memory snapshot is of CUDA's allocator, got device 'cpu'; the Memory view shows the CPU's"
            )

    def key(self, function: str, variant: str) -> Key:
        return Key(function, variant, self.workload, self.dtype, self.device)
