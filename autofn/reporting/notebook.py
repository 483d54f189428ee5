"""A progress bar in a notebook, by what IPython itself shows; elsewhere nothing."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from ..measure.run import Progress


def progress(what: str) -> Progress:
    """`progress(done, total, label)` for a run: a bar that is drawn anew in one place, and is gone in the end."""
    display = _display()
    if display is None:
        return lambda done, total, label: None
    handle: list[Any] = []

    def show(done: int, total: int, label: str) -> None:
        text = escape(f"{what} {done}/{total} {label}".strip())
        bar = display.HTML("" if done == total else f'<progress value="{done}" max="{total}"></progress> {text}')
        if handle:
            handle[0].update(bar)
        else:
            handle.append(display.display(bar, display_id=True))

    return show


def _display() -> Any:
    """IPython's display module where a notebook shows what it is given, else None."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    import importlib

    return importlib.import_module("IPython.display")
