"""Complex arguments, where they are taken: PyTorch's gradient is that of the conjugate, and real for a real input.

For a holomorphic f the gradient is `grad_output * conj(f'(z))`: the derivative without its conjugate is right for real
numbers only. See "Autograd for Complex Numbers", https://docs.pytorch.org/docs/stable/notes/autograd.html.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from .rule import ERROR, INFO, Finding, Rule
from .subject import Inputs, Subject, function_of, positions
from .tools.attempt import Grads, Raised, Result, attempt, copies, disagreement, weights_of

# Two results of the same formula in complex128.
RTOL = 1e-8
# Finite differences in complex128: they err by EPS**2 times a third derivative, and by 1e-16 / EPS of rounding.
EPS, ATOL, INF = 1e-6, 1e-4, float("inf")
# What a module says that deals with complex numbers; "complex" alone is an English word.
SPEAKS = re.compile(
    r"\bcomplex(32|64|128)\b|\bc(float|double|half)\b|\bis_complex\b|\bconj(_physical)?\b|\bconjugate|\.imag\b"
    r"|\bview_as_(real|complex)\b|\bcomplex[- ](number|value|input|output|tensor|gradient|product|argument|plane|z\b)",
    re.IGNORECASE,
)
FIX = "multiply grad_output by the conjugate of the derivative (.conj()), or refuse complex inputs in the forward"


def complex_gradient(subject: Subject) -> Iterator[Finding]:
    """All differentiable inputs complex, then each alone: the gradient against the reference, or gradcheck.

    Where complex numbers are taken without a word of them (in the inputs or in the module that defines the Function),
    a wrong gradient is told, but as a fact to know: whoever wrote for real numbers has promised nothing.
    """
    if subject.intent.random or subject.intent.surrogate:
        raise NotImplementedError(
            "random, or declared a surrogate: there is no derivative to hold the gradient against"
        )
    if subject.compiled:
        raise NotImplementedError("torch.compile falls back to eager code for complex numbers")
    claimed = _speaks_of_complex(subject)
    judged = False
    for inputs, meant in _arguments(subject):
        weights = weights_of(subject, inputs)
        if weights is None:
            continue
        found = (_by_differences if subject.reference is None else _by_reference)(subject, inputs, weights)
        if found is None:
            continue
        judged = True
        severity = ERROR if meant and claimed else INFO
        yield from (replace(each, fix=FIX, severity=severity) for each in found)
        if found:
            return
    if not judged:
        raise NotImplementedError("complex inputs are refused, or the forward is not the reference's for them")


def _arguments(subject: Subject) -> Iterator[tuple[Inputs, bool]]:
    """The arguments as given where complex numbers are in them or come of them; else made complex, all or each alone.

    The second of a pair is whether whoever means complex numbers means these: a mixture of real and complex arguments
    is an offer of PyTorch's own operations only.
    """
    inputs = subject.inputs()
    places = positions(inputs)
    plain = attempt(subject, copies(inputs))
    outputs = plain.outputs if isinstance(plain, Result) else ()
    if any(isinstance(t, torch.Tensor) and t.is_complex() for t in (*inputs, *outputs)):
        yield inputs, True
        return
    _need_right_for_real(subject, inputs, plain)
    for chosen in (places, *([at] for at in places if len(places) > 1)):
        if chosen:
            complexes = tuple(_complex(t, at) if at in chosen else t for at, t in enumerate(copies(inputs)))
            yield complexes, chosen == places


def _need_right_for_real(subject: Subject, inputs: Inputs, plain: Result | Raised) -> None:
    """Raises NotImplementedError where the gradient is wrong already: that is not for want of a conjugate."""
    weights = weights_of(subject, inputs)
    if isinstance(plain, Raised) or weights is None:
        raise NotImplementedError("it raises for real inputs")
    if subject.reference is None:
        wrong = bool(_by_differences(subject, inputs, weights))
    else:
        want = attempt(subject, copies(inputs), weights, subject.reference)
        wrong = isinstance(want, Raised) or disagreement(plain, want, RTOL) is not None
    if wrong:
        raise NotImplementedError("the gradient is wrong for real inputs already")


def _complex(t: torch.Tensor, seed: int) -> torch.Tensor:
    """An imaginary part beside the values, as large as they are."""
    generator = torch.Generator().manual_seed(seed)
    imaginary = torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.device)
    size = t.detach().abs().mean() if t.numel() else 1.0
    return torch.complex(t.detach().double(), imaginary * size).requires_grad_(t.requires_grad)


def _by_reference(subject: Subject, inputs: Inputs, weights: Grads) -> list[Finding] | None:
    """Findings against the reference; None where either refuses, or where the forwards differ."""
    want = attempt(subject, copies(inputs), weights, subject.reference)
    got = attempt(subject, copies(inputs), weights)
    if isinstance(want, Raised) or not want.finite:
        return None
    if isinstance(got, Raised):
        return _raised(got, inputs)
    if len(got.outputs) != len(want.outputs) or disagreement(_outputs(got), _outputs(want), RTOL) is not None:
        return None
    wrong = disagreement(got.gradients(), want.gradients(), RTOL)
    if wrong is not None:
        name, worst = wrong
        why = ": the derivative is not conjugated" if _unconjugated(subject, inputs, weights, want) else ""
        return [worst.finding(f"wrong for {_kinds(inputs)}{why}", name)]
    return _conjugate_view(subject, inputs, weights, got)


def _raised(got: Raised, inputs: Inputs) -> list[Finding] | None:
    """None where complex numbers are refused in so many words, if late."""
    mixed = "input_is_complex" in str(got)
    if got.stage == "forward" or ("complex" in str(got).lower() and not mixed):
        return None
    real = [at for at in positions(inputs) if not inputs[at].is_complex()]
    hint = f"; the gradient of input {real[0]}, which is real, must be real" if mixed else ""
    return [Finding(f"the backward raises for {_kinds(inputs)}, which the forward takes{hint}", "", str(got))]


def _conjugate_view(subject: Subject, inputs: Inputs, weights: Grads, want: Result) -> list[Finding]:
    """The same grad_outputs behind the conjugate bit, as `.conj()` hands them back."""
    laid = tuple(w.conj().resolve_conj().conj() if w is not None and w.is_complex() else w for w in weights)
    if all(w is None or not w.is_complex() for w in laid):
        return []
    got = attempt(subject, copies(inputs), laid)
    if isinstance(got, Raised):
        return [Finding("the backward raises for a grad_output that is a conjugate view", "grad_output", str(got))]
    wrong = disagreement(got.gradients(), want.gradients(), RTOL)
    return [] if wrong is None else [wrong[1].finding("wrong for a grad_output that is a conjugate view", wrong[0])]


def _by_differences(subject: Subject, inputs: Inputs, weights: Grads) -> list[Finding] | None:
    """torch.autograd.gradcheck in complex128, where the forward is differentiable by it and takes such inputs."""
    if subject.intent.mutates or isinstance(attempt(subject, copies(inputs)), Raised):
        return None
    try:
        torch.autograd.gradcheck(
            subject.apply, inputs, eps=EPS, atol=ATOL, fast_mode=True, check_undefined_grad=False, nondet_tol=INF
        )
    except GradcheckError as error:
        return [Finding(f"gradcheck for {_kinds(inputs)}: {' '.join(str(error).split())[:400]}")]
    except Exception:  # gradcheck has demands of its own on a Function
        return None
    return []


def _unconjugated(subject: Subject, inputs: Inputs, weights: Grads, want: Result) -> bool:
    """Whether one conjugate mends it: g * conj(d) is the conjugate of conj(g) * d."""
    turned = attempt(subject, copies(inputs), tuple(None if w is None else w.conj().resolve_conj() for w in weights))
    if isinstance(turned, Raised):
        return False
    mended = tuple(None if grad is None else grad.conj().resolve_conj() for grad in turned.grads)
    return disagreement(Result((), mended, turned.places), want.gradients(), RTOL) is None


def _kinds(inputs: Inputs) -> str:
    """Such as "complex input 0 and real input 1"."""
    return " and ".join(f"{'complex' if inputs[at].is_complex() else 'real'} input {at}" for at in positions(inputs))


def _outputs(result: Result) -> Result:
    return Result(result.outputs, (), ())


def _speaks_of_complex(subject: Subject) -> bool:
    """Whether complex inputs are meant: given, declared, or spoken of where the Function is defined."""
    if any(t.is_complex() for t in subject.inputs() if isinstance(t, torch.Tensor)) or subject.dtype.is_complex:
        return True
    return any(dtype.is_complex for dtype in subject.dtypes) or bool(SPEAKS.search(_source(subject.apply)))


def _source(apply: Callable[..., Any]) -> str:
    """The text of the module that defines it; empty where there is none to read."""
    owner = function_of(apply) or apply
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    try:
        return inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        return ""


RULES = (
    Rule(
        "complex-gradient",
        ERROR,
        "the gradient for complex inputs is conjugated, and real for a real input",
        complex_gradient,
    ),
)
