"""Where compiled kernels are kept, one thread, and the table of cases: every test over Functions loops over it."""

from __future__ import annotations

import os
from pathlib import Path

# Before torch is imported: compiled kernels stay in the checkout, so that a second run compiles nothing.
ROOT = Path(__file__).parents[1]
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))

import pytest  # noqa: E402
import torch  # noqa: E402

from autofn import registry  # noqa: E402
from autofn.spec import dtype_named  # noqa: E402
from autofn.terms import COMPILED, KINDS  # noqa: E402

torch.set_num_threads(1)

# A case of a compiled variant takes seconds: whole vectors and what is left over, and of each dtype one at least.
COMPILED_CASES = {("tiny", "float32"), ("small", "float32"), ("small", "bfloat16"), ("tiny", "float64")}
UNCOMPILED = tuple(kind for kind in KINDS if kind not in COMPILED)
# What `compile` makes of strides, frozen inputs or no rows is PyTorch's.
OURS = tuple(kind for kind in KINDS if kind != "compile")


def cases(
    *workloads: str, dtypes: tuple[str, ...] | None = None, kinds: tuple[str, ...] = KINDS
) -> pytest.MarkDecorator:
    """Parametrise by Function, variant, workload and dtype, with ids such as `rms_norm-cpp-small-float32`."""
    table = [
        pytest.param(name, variant.name, workload, dtype_named(dtype), id=f"{name}-{variant.name}-{workload}-{dtype}")
        for name in registry.names()
        for variant in registry.variants(name)
        for workload in workloads
        for dtype in registry.spec(name).dtypes
        if variant.kind in kinds
        and (dtypes is None or dtype in dtypes)
        and (variant.kind not in COMPILED or (workload, dtype) in COMPILED_CASES)
    ]
    return pytest.mark.parametrize(("name", "variant", "workload", "dtype"), table)


every_case = cases("tiny", "small")
every_variant = cases("tiny", dtypes=("float32",), kinds=OURS)


def pytest_collection_modifyitems(items):
    """A measurement that a neighbour disturbed is taken again."""
    for item in items:
        if item.get_closest_marker("measured"):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=5))


@pytest.fixture
def load():
    """`load(name, variant)`: the callable, or the test is skipped with the reason why it cannot run here."""

    def load_or_skip(name: str, variant: str):
        reason = registry.unavailable(name, variant)
        if reason:
            pytest.skip(reason)
        return registry.load(name, variant)

    yield load_or_skip
    # A compiled function keeps eight compilations and then raises: each test starts with none.
    torch._dynamo.reset()
