"""What the tests of Functions share: outputs and gradients, the float64 truth, and the comparison of the two."""

from __future__ import annotations

import torch

from autofn.case import Key, prepare
from autofn.observe.accuracy import evaluate as evaluate
from autofn.observe.accuracy import truth as truth
from autofn.spec import dtype_name


def prepared(spec, variant, workload, dtype, apply):
    """The case with inputs from the Spec, on the CPU."""
    return prepare(spec, Key(spec.name, variant, workload, dtype_name(dtype), "cpu"), apply)


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
