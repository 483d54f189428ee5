"""torch.func: grad, jacrev and jacfwd against plain autograd, and transforms inside transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import torch

from .forward_mode import jvp as check_jvp
from .rule import ERROR, INFO, Finding, Rule, Seen
from .subject import Subject
from .tools.comparing import allowed, difference
from .tools.pure import (
    Pure,
    Tensors,
    classes,
    dot,
    lacks_setup_context,
    normal_like,
    overrides,
    own_classes,
    seeded,
    told,
    transformable,
)
from .tools.slopes import Point, Slope, settled

# torch.func.jacrev makes a row for each element of the outputs.
MOST_ELEMENTS = 512
SETUP = (
    "split forward(ctx, *args) into forward(*args), without ctx, and setup_context(ctx, inputs, output), which saves; "
    "see https://docs.pytorch.org/docs/stable/notes/extending.func.html"
)
KNOWN_LIMIT = (
    "use jacfwd(jacrev(f)) or torch.func.hessian: the tensors that a jvp reads from ctx carry no outer tangent "
    "(pytorch/pytorch #197867)"
)


def func_grad(subject: Subject) -> Iterator[Finding | Seen]:
    """torch.func.vjp gives the gradients that torch.autograd.grad gives."""
    if not subject.compiled and lacks_setup_context(subject):
        message = "torch.func (grad, vmap, jvp, jacrev, hessian) is not supported: setup_context is missing"
        yield Finding(message, "transforms", fix=SETUP, severity=INFO)
        return
    function = transformable(subject)
    want = _plain(function, function.weights)
    try:
        with seeded():
            pull = torch.func.vjp(function, *function.leaves())[1]
        got = pull(function.weights)
    except Exception as error:  # what a transform meets first
        yield Finding(f"torch.func.grad is not supported: {told(error)}", "transforms", severity=INFO)
        return
    yield from _compared(subject, "torch.func.vjp", got, want)


def jacobians(subject: Subject) -> Iterator[Finding | Seen]:
    """jacrev and jacfwd, multiplied by weights, give the gradients that torch.autograd.grad gives for those weights."""
    function = transformable(subject)
    _need_small(function)
    generator = torch.Generator().manual_seed(3)
    weights = tuple(normal_like(w, generator) for w in function.weights)
    want = _plain(function, weights)
    count = tuple(range(len(function.places)))
    refused = []
    for name, transform in (("jacrev", torch.func.jacrev), ("jacfwd", torch.func.jacfwd)):
        try:
            with seeded():
                blocks = transform(function, argnums=count)(*function.leaves())
        except Exception as error:  # no vmap rule, no jvp, a kernel that reads memory
            refused.append(f"{name} raises {told(error)}")
            continue
        if name == "jacfwd" and _forward_mode_is_wrong(subject):
            continue
        yield from _compared(subject, name, _weighted(weights, blocks, count), want)
    if len(refused) == 2:
        raise NotImplementedError("; ".join(refused))


def nested(subject: Subject) -> Iterator[Finding | Seen]:
    """The second derivative by nested transforms equals the difference of the gradient, where autograd's does."""
    function = transformable(subject)
    if subject.intent.once_differentiable:
        raise NotImplementedError("declared once differentiable")
    if not own_classes(subject):
        raise NotImplementedError("PyTorch's own operations: there is no Function to look into")
    point, slopes = settled(function)
    right = _whole(function, slopes)
    _need_plain_second(function, point, right)
    forward = overrides_any(subject, "jvp") and not _forward_mode_is_wrong(subject)
    ways = REVERSE_WAYS | (FORWARD_WAYS if forward else {})
    reasons = []
    for name, way in ways.items():
        try:
            with seeded():
                found = way(function, point)
        except Exception as error:  # a transform that is not supported says so
            reasons.append(f"{name} raises {told(error, 80)}")
            continue
        yield from _beside(name, found, right)
    if len(reasons) == len(ways):
        raise NotImplementedError("; ".join(reasons))


def overrides_any(subject: Subject, name: str) -> bool:
    """Whether a Function on the way has that static method, or there is none, and PyTorch's own rules hold."""
    found = classes(subject)
    return not found or all(overrides(each, name) for each in found)


# What they share


def _plain(function: Pure, weights: Tensors) -> Tensors:
    """The gradients by torch.autograd.grad, zeros for None."""
    leaves = tuple(t.requires_grad_() for t in function.leaves())
    grads = function.gradients(leaves, weights)
    return tuple(torch.zeros_like(t) if grad is None else grad for t, grad in zip(leaves, grads, strict=True))


def _compared(subject: Subject, name: str, got: Tensors, want: Tensors) -> Iterator[Finding | Seen]:
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        if mine.shape != right.shape:
            yield Finding(
                f"{name} gives another shape than torch.autograd.grad",
                f"gradient {place}",
                str(list(mine.shape)),
                str(list(right.shape)),
            )
            continue
        found = difference(mine, right, *allowed(subject, right.dtype, right))
        if found is None:
            yield Seen(float((mine - right).detach().abs().nan_to_num().max()) if mine.numel() else 0.0)
        else:
            fix = "compute with PyTorch operations on what ctx saved; keep nothing else between forward and backward"
            yield found.finding(f"{name} differs from torch.autograd.grad", f"gradient {place}", fix)


def _need_small(function: Pure) -> None:
    outputs = sum(w.numel() for w in function.weights)
    inputs = sum(t.numel() for t in function.leaves())
    if max(outputs, inputs) > MOST_ELEMENTS:
        raise NotImplementedError(f"a Jacobian of {outputs} x {inputs} is left out")
    if any(t.dtype.is_complex for t in (*function.leaves(), *function.weights)):
        raise NotImplementedError("Jacobians of complex functions have more than one convention")


def _weighted(weights: Tensors, blocks: tuple[Tensors, ...], count: tuple[int, ...]) -> Tensors:
    """The vjp: each block of a Jacobian, (*output, *input), times the output's weights."""
    return tuple(
        sum(
            (torch.tensordot(w, row[place].to(w), dims=w.dim()) for w, row in zip(weights, blocks, strict=True)),
            start=torch.zeros(()),
        )
        for place in count
    )


def _forward_mode_is_wrong(subject: Subject) -> bool:
    """Whether the rule `jvp` reports it: then it is not reported once more under another name."""
    with suppress(NotImplementedError):
        return any(isinstance(each, Finding) for each in check_jvp(subject))
    return True


# Transforms inside transforms: <e, H d> for the Hessian H of <weights, f>


def _phi(function: Pure, weights: Tensors) -> Callable[..., torch.Tensor]:
    """The scalar whose gradient the slopes are of."""

    def phi(*leaves: torch.Tensor) -> torch.Tensor:
        return _sum(weights, function(*leaves))

    return phi


def _sum(first: Tensors, second: Tensors) -> torch.Tensor:
    """The real inner product of two lists of tensors."""
    return torch.stack([(a.conj() * b).real.sum() for a, b in zip(first, second, strict=True)]).sum()


def _gradient(function: Pure, point: Point) -> Callable[..., torch.Tensor]:
    """<vectors, gradient of phi>."""
    gradient = torch.func.grad(_phi(function, point.weights), argnums=tuple(range(len(point.leaves))))
    return lambda *leaves: _sum(point.vectors, gradient(*leaves))


def _tangent(function: Pure, point: Point) -> Callable[..., torch.Tensor]:
    """The same number in forward mode."""
    return lambda *leaves: torch.func.jvp(_phi(function, point.weights), leaves, point.vectors)[1]


def _reverse(inner: Callable[..., torch.Tensor], point: Point) -> float:
    grads = torch.func.grad(inner, argnums=tuple(range(len(point.leaves))))(*point.leaves)
    return sum(dot(grad, d) for grad, d in zip(grads, point.directions, strict=False))


def _forward(inner: Callable[..., torch.Tensor], point: Point) -> float:
    return float(torch.func.jvp(inner, point.leaves, point.directions[: len(point.leaves)])[1])


Way = Callable[[Pure, Point], float]
REVERSE_WAYS: dict[str, Way] = {
    "jacrev(jacrev(f))": lambda function, point: _reverse(_gradient(function, point), point),
}
FORWARD_WAYS: dict[str, Way] = {
    "jacfwd(jacrev(f))": lambda function, point: _forward(_gradient(function, point), point),
    "jacrev(jacfwd(f))": lambda function, point: _reverse(_tangent(function, point), point),
    "jacfwd(jacfwd(f))": lambda function, point: _forward(_tangent(function, point), point),
}


def _whole(function: Pure, slopes: list[list[Slope]]) -> Slope:
    """<vectors, H directions>: the sum over gradients and leaves."""
    count = len(function.places)
    chosen = [slope for row in slopes for slope in row[:count]]
    if not all(slope.settled for slope in chosen):
        raise NotImplementedError("differences of the gradient do not settle here")
    size = sum(abs(slope.value) for slope in chosen)
    return Slope(sum(slope.value for slope in chosen), sum(s.slack for s in chosen) + 1e-4 * size, True)


def _need_plain_second(function: Pure, point: Point, right: Slope) -> None:
    """Where plain autograd's second derivative is wrong already, that is the finding of `double-backward`."""
    leaves = tuple(t.detach().clone().requires_grad_() for t in point.leaves)
    try:
        grads = function.gradients(leaves, point.weights, create_graph=True)
        pairs = [(g, v) for g, v in zip(grads, point.vectors, strict=True) if g is not None and g.requires_grad]
        if not pairs:
            plain = 0.0
        else:
            outs, vectors = zip(*pairs, strict=True)
            second = torch.autograd.grad(outs, leaves, vectors, allow_unused=True)
            plain = sum(dot(t, d) for t, d in zip(second, point.directions, strict=False) if t is not None)
    except Exception as error:  # refused
        raise NotImplementedError(f"no second derivative: {told(error)}") from error
    if not right.equals(plain, 1e-4):
        raise NotImplementedError("autograd's second derivative is not right either; see double-backward")


def _beside(name: str, found: float, right: Slope) -> Iterator[Finding | Seen]:
    if right.equals(found, 1e-4):
        yield Seen(abs(found - right.value))
        return
    limit = name == "jacfwd(jacfwd(f))"
    yield Finding(
        f"{name} is {'wrong' if found else 'silently zero'}" + (": nested forward mode loses terms" if limit else ""),
        "second derivative along random directions",
        f"{found:.6g}",
        f"{right.value:.6g} by differences of the gradient",
        abs(found - right.value),
        KNOWN_LIMIT if limit else "write backward and jvp with differentiable operations on saved inputs and outputs",
        INFO if limit else ERROR,
    )


RULES = (
    Rule("func-grad", ERROR, "torch.func.grad gives the gradient that autograd gives", func_grad),
    Rule("jacobians", ERROR, "jacrev and jacfwd give the gradients that autograd gives", jacobians),
    Rule("nested-transforms", ERROR, "transforms inside transforms give the second derivative", nested),
)
