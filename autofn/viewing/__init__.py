"""TensorBoard on recorded traces: in a process of its own, which loads no torch and listens on this machine only."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn

MISSING = "view: TensorBoard is not installed; run: pip install 'autofn[tensorboard]'"


class NoViewerError(RuntimeError):
    """TensorBoard or its plugin is not installed; the message says what to install."""


def view(out: str | Path, *, port: int | None = None, offline: bool = False) -> NoReturn:
    """Becomes TensorBoard on the traces below `out`, until it is interrupted.

    port: by default 6006, or the next free one; 0 for any free one. offline: what the plugin's page loads from the
    internet comes from here. Raises NoViewerError where the extra is not installed, LookupError for no trace.
    """
    if not all(importlib.util.find_spec(name) for name in ("tensorboard", "torch_tb_profiler")):
        raise NoViewerError(MISSING)
    if not any(Path(out).rglob("*.pt.trace.json*")):
        raise LookupError(f"view: there are no traces in {out}; autofn trace records them")
    words = [str(out), "" if port is None else str(port), "offline" if offline else ""]
    sys.stdout.flush()
    # Not a child: whoever interrupts or ends this process means TensorBoard.
    os.execv(sys.executable, [sys.executable, "-m", f"{__name__}.server", *words])
