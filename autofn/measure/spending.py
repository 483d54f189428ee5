"""Where the seconds of a run go. Knows nothing of what it spends them on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Spending:
    """Wall seconds by what they were spent on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self._parts: list[tuple[str, float]] = []

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """All that passes inside."""
        with self.shared(), self.part(what):
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """What passes inside, where parts run at the same time: each part counts by how long it took."""
        begin = self._clock()
        self._parts = []
        try:
            yield
        finally:
            wall, whole = self._clock() - begin, sum(seconds for _, seconds in self._parts)
            for what, seconds in self._parts:
                self._add(what, wall * seconds / whole if whole else 0.0)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """A part of what is shared, from any thread."""
        begin = self._clock()
        try:
            yield
        finally:
            self._parts.append((what, self._clock() - begin))

    def _add(self, what: str, seconds: float) -> None:
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds
