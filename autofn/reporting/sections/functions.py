"""One section a Function that has results: what it is, then the parts that the page asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import registry
from .. import formula
from ..inputs import Inputs
from ..model import Block, Formula, Section, Text, anchor

Part = Callable[[Inputs], Section]


def sections(
    inputs: Inputs, parts: Sequence[Part], about: Callable[[str], str] = registry.documentation
) -> tuple[Section, ...]:
    """The Functions in alphabetical order, each with its docstring and the parts made from its own results.

    about: what is said of a Function by name; `registry.summary` says its formula only.
    """
    return tuple(
        Section(
            name,
            anchor(name),
            tuple(_about(name, about)),
            tuple(part(own) for part in parts),
            {"function": name},
        )
        for name in sorted(inputs.results["function"].unique())
        for own in [inputs.of(name)]
    )


def _about(name: str, about: Callable[[str], str]) -> list[Block]:
    if name not in registry.every_name():
        return [Text(f"There is no Function {name!r} in this installation: its results are shown, its formula is not.")]
    without = registry.spec(name).without
    absent = [Text(f"No variant {variant!r}: {reason}") for variant, reason in without.items()]
    formulas = map(Formula, formula.of_docstring(about(name)))
    return [*formulas, Text(about(name), preformatted=True), *absent]
