"""What the tests of Functions share: outputs and gradients, the float64 truth, and the comparison of the two."""

from __future__ import annotations

import torch

from autofn.case import Key, as_tuple, exact_inputs, prepare
from autofn.spec import dtype_name


def prepared(spec, variant, workload, dtype, apply):
    """The case with inputs from the Spec, on the CPU."""
    return prepare(spec, Key(spec.name, variant, workload, dtype_name(dtype), "cpu"), apply)


def fresh(spec, inputs):
    """The same arguments, those that the forward writes into copied."""
    return tuple(t.clone() if position in spec.mutates else t for position, t in enumerate(inputs))


def evaluate(spec, apply, inputs, grad_outputs):
    """(outputs, gradients of the inputs that require grad), as plain tensors."""
    if spec.random:
        torch.manual_seed(0)
    outputs = as_tuple(apply(*fresh(spec, inputs)))
    leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
    grads = torch.autograd.grad(outputs, leaves, grad_outputs, allow_unused=True) if leaves else ()
    return tuple(t.detach() for t in outputs), grads


def truth(spec, inputs, grad_outputs):
    """What `evaluate` should give: the reference in float64, with the gradients of the surrogate where there is one."""
    exact = exact_inputs(inputs)
    wide = tuple(grad.double() for grad in grad_outputs)
    outputs, grads = evaluate(spec, spec.reference, exact, wide)
    if spec.surrogate is not None:
        _, grads = evaluate(spec, spec.surrogate, exact, wide)
    return outputs, grads


def assert_matches(spec, got, want, dtype):
    """Outputs and gradients lie within the Spec's tolerance of the truth, in the dtype of the case."""
    tolerance = spec.tolerance(dtype)
    for kind, (found, exact) in {"output": (got[0], want[0]), "gradient": (got[1], want[1])}.items():
        assert len(found) == len(exact)
        for position, (a, b) in enumerate(zip(found, exact, strict=True)):
            if a is None or b is None:
                zero = all(t is None or not t.any() for t in (a, b))
                assert zero, f"{kind} {position}: one is None and the other is not 0"
                continue
            assert not a.is_floating_point() or a.dtype == dtype
            torch.testing.assert_close(
                a.to(b.dtype),
                b,
                rtol=tolerance.rtol,
                atol=tolerance.atol,
                msg=lambda message, what=f"{kind} {position}": f"{what}: {message}",
            )
