"""A progress bar with the time left, fed by the callbacks of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yields `progress(done, total, label)`. Drawn on stderr, so that stdout can be piped."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        said = set()

        def progress(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{what} {label}".strip())
            if not console.is_terminal and label and label not in said:
                said.add(label)
                console.print(f"{what} {done + 1}/{total} {label}", highlight=False)

        yield progress
