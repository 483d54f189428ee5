"""Forward mode against reverse mode: the dot-product test, by dual numbers and by torch.func.jvp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch.autograd import forward_ad

from .rule import ERROR, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.pure import Pure, Tensors, classes, deliberate, dot, normal_like, overrides, pure, seeded, told
from .tools.slopes import STEP

# Of the sum of the absolute products: a hundred roundings of float32, which a kernel may compute in.
RTOL = 1e-5
# The forward's own difference decides which of the two modes is right: it must come this near.
NEAR = 1e-3

Forward = Callable[[Pure, Tensors, Tensors], Tensors]
"""The tangents of the outputs, from the leaves and their tangents."""


@dataclass(frozen=True)
class Product:
    """<weights, J tangents>, with the sum of the absolute products that it is made of."""

    value: float
    size: float

    def equals(self, other: Product, rtol: float) -> bool:
        return abs(self.value - other.value) <= rtol * max(self.size, other.size)


def jvp(subject: Subject) -> Iterator[Finding | Seen]:
    """<w, J t> by the forward-mode rule equals <Jᵀ w, t> by the backward, for all leaves and for each alone."""
    if subject.compiled:
        raise NotImplementedError("forward mode does not look into a compiled graph")
    function = pure(subject)
    declared = any(overrides(each, "jvp") for each in classes(subject))
    generator = torch.Generator().manual_seed(2)
    tangents = tuple(normal_like(t, generator) for t in function.leaves())
    for moving in _subsets(len(tangents)):
        given = tuple(t if place in moving else torch.zeros_like(t) for place, t in enumerate(tangents))
        for name, forward in (("dual numbers", _by_duals), ("torch.func.jvp", _by_jvp)):
            try:
                found = list(_disagreement(function, forward, given, moving, name))
            except Exception as error:  # the rule may raise anything
                if not declared or deliberate(error) or "setup_context" in str(error):
                    _give_up(error, name)
                    continue
                yield Finding(
                    f"the jvp rule raises under {name} {_inputs(moving)}: {told(error)}",
                    fix="jvp gets a tangent for each input, zeros or None where there is none",
                )
                return
            for each in found:
                # Without a jvp of its own the Function is not to blame: an operator of torch.library drops tangents.
                yield replace(each, severity=INFO) if isinstance(each, Finding) and not declared else each
            if any(isinstance(each, Finding) for each in found):
                return


def _give_up(error: Exception, name: str) -> None:
    """Without dual numbers there is no forward mode at all; torch.func alone may be missing."""
    if name == "dual numbers":
        raise NotImplementedError(f"there is no forward mode: {told(error)}") from error


def _subsets(count: int) -> list[tuple[int, ...]]:
    every = [tuple(range(count))]
    return every + [(place,) for place in range(count)] if count > 1 else every


def _inputs(moving: tuple[int, ...]) -> str:
    return f"with a tangent for leaf {', '.join(map(str, moving))}"


def _by_duals(function: Pure, leaves: Tensors, tangents: Tensors) -> Tensors:
    with forward_ad.dual_level():
        moved = [
            forward_ad.make_dual(t, tangent) if tangent.any() else t
            for t, tangent in zip(leaves, tangents, strict=True)
        ]
        found = [forward_ad.unpack_dual(out) for out in function(*moved)]
        return tuple(torch.zeros_like(each.primal) if each.tangent is None else each.tangent for each in found)


def _by_jvp(function: Pure, leaves: Tensors, tangents: Tensors) -> Tensors:
    return torch.func.jvp(function, leaves, tangents)[1]


def _disagreement(
    function: Pure, forward: Forward, tangents: Tensors, moving: tuple[int, ...], name: str
) -> Iterator[Finding | Seen]:
    with seeded():
        found = forward(function, function.leaves(), tangents)
    for place, (weight, tangent) in enumerate(zip(function.weights, found, strict=True)):
        mine = _product([(weight, tangent)])
        right = _reverse(function, place, tangents)
        if mine.equals(right, RTOL):
            yield Seen(abs(mine.value - right.value))
        elif function.subject.intent.surrogate or not _difference(function, place, tangents).equals(mine, NEAR):
            yield Finding(
                f"jvp is inconsistent with backward: <w, J t> by {name} is not <Jᵀ w, t> {_inputs(moving)}",
                f"tangent of output {function.kept[place]}",
                f"{mine.value:.6g}",
                f"{right.value:.6g} by the backward",
                abs(mine.value - right.value),
                "jvp(ctx, *tangents) returns J @ tangents: linear in the tangents, and each of them used",
                WARNING if function.subject.intent.surrogate else "",
            )
            return


def _product(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Product:
    return Product(
        sum(dot(a, b) for a, b in pairs), sum(float((a.detach() * b.detach()).abs().sum()) for a, b in pairs)
    )


def _reverse(function: Pure, place: int, tangents: Tensors) -> Product:
    """By the backward, for one output."""
    leaves = tuple(t.requires_grad_() for t in function.leaves())
    weights = tuple(w if at == place else torch.zeros_like(w) for at, w in enumerate(function.weights))
    grads = function.gradients(leaves, weights)
    return _product([(grad, t) for grad, t in zip(grads, tangents, strict=True) if grad is not None])


def _difference(function: Pure, place: int, tangents: Tensors) -> Product:
    """By a central difference of one output of the forward."""
    ends = []
    for step in (STEP, -STEP):
        with seeded(), torch.no_grad():
            ends.append(function(*(t + step * v for t, v in zip(function.leaves(), tangents, strict=True)))[place])
    return _product([(function.weights[place], (ends[0] - ends[1]) / (2 * STEP))])


RULES = (Rule("jvp", ERROR, "forward mode gives the same derivative as the backward", jvp),)
