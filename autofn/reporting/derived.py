"""What several sections take from the same results, made once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from ..breakeven import break_even
from . import speedup


class Derived:
    """Results, and the frames that are made from them when a section first asks for one.

    What is made of one Function's results is never made: it is that Function's rows of what is made of all. So a frame
    has a column `function`, and what it says of a Function comes from the results of that Function alone.
    """

    def __init__(self, results: pd.DataFrame, whole: Derived | None = None, function: str = "") -> None:
        self.results = results
        self._whole, self._function = whole, function
        self._frames: dict[Make, pd.DataFrame] = {}
        self._places: dict[Make, Mapping[Any, Any]] = {}

    def frame(self, make: Make) -> pd.DataFrame:
        """make(self), made once."""
        if self._whole is not None:
            return self._whole._part(make, self._function)
        if make not in self._frames:
            self._frames[make] = make(self)
        return self._frames[make]

    def of(self, function: str) -> Derived:
        """The same of one Function."""
        return Derived(self._part(_everything, function), self, function)

    def _part(self, make: Make, function: str) -> pd.DataFrame:
        frame = self.frame(make)
        if make not in self._places:
            self._places[make] = frame.groupby("function", sort=False).indices
        return frame.iloc[self._places[make].get(function, [])]


Make = Callable[[Derived], pd.DataFrame]


def current(derived: Derived) -> pd.DataFrame:
    """The newest time of each case with its speedup, see `speedup.current`."""
    return speedup.current(derived.results)


def crossings(derived: Derived) -> pd.DataFrame:
    """Where two variants take equally long, by the newest times, see `autofn.breakeven`."""
    return break_even(derived.frame(current))


def _everything(derived: Derived) -> pd.DataFrame:
    return derived.results
