"""Graphs compiled by torch.compile at their first call: one graph each, or an error; never eager without a word."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any


class Graph:
    """A function as one compiled graph.

    torch.compile is asked at the first call, since asking alone imports Dynamo. `fullgraph=True` turns both a graph
    break and the recompile limit (8 a code object, past which Dynamo would run eagerly) into errors.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        import torch

        return torch.compile(self.function, fullgraph=True)

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


def graph(function: Callable[..., Any]) -> Graph:
    """`function` compiled at its first call. Used as a decorator in `fused.py`."""
    return Graph(function)
