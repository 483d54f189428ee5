"""The graph of a backward: its nodes, and a drawing of it as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch


def nodes(outputs: Iterable[torch.Tensor]) -> Iterator[Any]:
    """Every node of the graph that made the outputs, once."""
    seen: set[Any] = set()
    ahead = [output.grad_fn for output in outputs]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [following for following, _ in node.next_functions]
            yield node


def mermaid(of: torch.Tensor, **leaves: torch.Tensor) -> str:
    """The graph of a tensor as a Mermaid flowchart: from its node, as a backward goes, to the leaves, by their names.

    A node says which tensors it keeps, and which of these are constants: no path leads from them to a leaf, so a
    second derivative ends there. https://mermaid.js.org/syntax/flowchart.html
    """
    return "\n".join(["flowchart TD", *_lines(of, leaves, "n")])


def beside(**graphs: tuple[torch.Tensor, Mapping[str, torch.Tensor]]) -> str:
    """Several such graphs in one drawing, each a tensor and its leaves, framed and under its name."""
    lines = ["flowchart TD"]
    for name, (of, leaves) in graphs.items():
        lines += [
            f"  subgraph {name}",
            "    direction TD",
            *(f"  {line}" for line in _lines(of, leaves, f"{name}_")),
            "  end",
        ]
    return "\n".join(lines)


def _lines(of: torch.Tensor, leaves: Mapping[str, torch.Tensor], prefix: str) -> list[str]:
    names = {node: f"{prefix}{number}" for number, node in enumerate(nodes([of]))}
    shapes = [f"  {name}{_shape(node, leaves)}" for node, name in names.items()]
    edges = [
        f"  {name} -->{_which(output)} {names[following]}"
        for node, name in names.items()
        for following, output in node.next_functions
        if following is not None
    ]
    return shapes + edges


def _shape(node: Any, leaves: Mapping[str, torch.Tensor]) -> str:
    """A leaf is round, an operation square."""
    if hasattr(node, "variable"):
        (name,) = [name for name, leaf in leaves.items() if leaf is node.variable] or ["leaf"]
        return f'("{name}")'
    return f'["{"<br/>".join([node.name(), *_kept(node)])}"]'


def _which(output: int) -> str:
    """A Function may have several outputs; an edge to any but the first says to which."""
    return f"|output {output}|" if output else ""


def _kept(node: Any) -> Iterator[str]:
    for name, tensor in _saved(node):
        yield f"keeps {name}" + ("" if tensor.requires_grad else ", a constant")


def _saved(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The saved tensors of a node; those of a Function written in Python are numbered. Raises where they are freed."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        named = [(f"tensor {number}", saved) for number, saved in enumerate(node.saved_tensors)]
    else:
        prefix = "_saved_"
        named = [(name.removeprefix(prefix), getattr(node, name)) for name in dir(node) if name.startswith(prefix)]
    return ((name, saved) for name, saved in named if isinstance(saved, torch.Tensor))
