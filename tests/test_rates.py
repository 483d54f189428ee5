"""Rates are the least bytes and operations of a phase over its time, and a share of what the same run reached."""

from __future__ import annotations

import math

import pytest
import torch
from support import make_spec, plant, unplant, write_function
from torch.utils.flop_counter import FlopCounterMode

from autofn import registry, results
from autofn.case import Key, prepare
from autofn.rates import add_rates
from autofn.records import FAILED, Record
from autofn.spec import of_phase
from autofn.terms import PHASES

DECLARED = """
from autofn.spec import of_phase


def moved_bytes(phase, workload, itemsize):
    return of_phase(phase, forward=1000, backward=3000) * workload["n"] * itemsize


def operations(phase, workload, itemsize):
    return of_phase(phase, forward=500, backward=1000) * workload["n"]
"""


@pytest.fixture
def planted(tmp_path):
    """`square`, which declares its costs (a forward of n = 64 in float32: 256 kB and 32 kflop), and `bare`."""
    from support import DECLARATION

    declared = DECLARATION.replace("SPEC =", f"{DECLARED}\n\nSPEC =").replace(
        'version="1",', 'version="1",\n    moved_bytes=moved_bytes,\n    operations=operations,'
    )
    write_function(tmp_path, "square", declared)
    write_function(tmp_path, "bare")
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path)
        yield
    unplant()


def record(value=1e-3, **changes):
    fields = {
        "function": "square", "variant": "python", "workload": "small", "dtype": "float32", "device": "cpu",
        "phase": "forward", "metric": "time_s", "unit": "s", "value": value, "source": "bench", "run": "r",
        "machine": "vm", "commit": "c", "version": "1", "threads": 1,
    }  # fmt: skip
    return Record(**{**fields, **changes})


def ceiling(variant, value, dtype="float32", **detail):
    changes = {name: detail.pop(name) for name in ("run", "device", "machine", "threads", "status") if name in detail}
    return record(value, function="ceiling", variant=variant, dtype=dtype, version="", detail=detail, **changes)


# 1 GB/s near 256 kB, 0.5 GB/s far beyond; 0.128 GFLOP/s.
CEILINGS = [
    ceiling("copy", 2.5e-4, "uint8", bytes=250_000),
    ceiling("copy", 2.0, "uint8", bytes=1_000_000_000),
    ceiling("matmul", 1.0, flops=128_000_000),
]


def rates(*records, ceilings=CEILINGS):
    given = results.frame(ceilings) if isinstance(ceilings, list) else ceilings
    return add_rates(results.frame(records), given)


def one(*records, **options):
    (row,) = rates(*records, **options).itertuples()
    return row


def test_a_rate_is_the_least_cost_over_the_time(planted):
    row = one(record(1e-3))
    assert (row.gb_per_s, row.gflop_per_s) == (pytest.approx(0.256), pytest.approx(0.032))
    assert (row.percent_of_ceiling, row.bound) == (pytest.approx(25.6), "bytes")


def test_the_larger_percentage_counts_and_says_of_what(planted):
    row = one(record(1e-3), ceilings={"copy": 2.56, "float32": 0.064})
    assert (row.percent_of_ceiling, row.bound) == (pytest.approx(50.0), "operations")
    row = one(record(1e-3), ceilings={"copy": 0.32, "float32": 0.064})
    assert (row.percent_of_ceiling, row.bound) == (pytest.approx(80.0), "bytes")


def test_each_phase_and_dtype_has_its_own_cost(planted):
    found = rates(*(record(1e-3, phase=phase, dtype=dtype) for dtype in ("float32", "float64") for phase in PHASES))
    assert list(found["gb_per_s"]) == pytest.approx([0.256, 0.768, 1.024, 0.256, 0.512, 1.536, 2.048, 0.512])
    assert list(found["gflop_per_s"]) == pytest.approx([0.032, 0.064, 0.096, 0.032] * 2)


def test_the_copy_nearest_in_size_is_the_ceiling(planted):
    # 64,000 times 8 kB is nearer to a gigabyte, whose copy is half as fast.
    small, large = (ceiling("copy", 1.0, "uint8", bytes=count) for count in (200_000, 400_000))
    assert one(record(1.0), ceilings=[small, large]).percent_of_ceiling == pytest.approx(100 * 256 / 200)
    assert one(record(1.0, dtype="float64"), ceilings=[small, large]).percent_of_ceiling == pytest.approx(
        100 * 512 / 400
    )


def test_without_a_product_of_the_dtype_the_bytes_alone_count(planted):
    row = one(record(1e-3, dtype="float64"))
    assert row.bound == "bytes"
    assert row.gflop_per_s == pytest.approx(0.032)


@pytest.mark.parametrize("change", [{"run": "other"}, {"device": "cuda"}, {"machine": "other"}, {"threads": 2}])
def test_the_ceilings_of_another_run_do_not_count(planted, change):
    row = one(record(), ceilings=[ceiling("copy", 1.0, bytes=1000, **change)])
    assert math.isnan(row.percent_of_ceiling)
    assert row.bound == ""
    assert row.gb_per_s == pytest.approx(0.256)


NOTHING = {
    "the Spec declares nothing": record(function="bare"),
    "there is no such Function": record(function="gone"),
    "there is no such workload": record(workload="wide"),
    "the inputs have changed": record(version="0"),
    "there is no time": record(None, status=FAILED, reason="x"),
}


@pytest.mark.parametrize("why", NOTHING)
def test_there_is_no_rate_where(planted, why):
    row = one(NOTHING[why])
    assert all(math.isnan(value) for value in (row.gb_per_s, row.gflop_per_s, row.percent_of_ceiling))
    assert row.bound == ""


def test_only_times_of_functions_have_rates(planted):
    found = rates(record(metric="first_call_s"), record(), *CEILINGS)
    assert list(found["function"]) == ["square"]
    assert len(rates()) == 0
    assert len(rates(record(), ceilings=[])) == 1


# What a Spec declares


@pytest.mark.parametrize("field", ["moved_bytes", "operations"])
@pytest.mark.parametrize("cost", [12, lambda *_: -1, lambda *_: 1.5, lambda *_: None])
def test_a_cost_that_is_no_whole_number_is_refused(field, cost):
    with pytest.raises(ValueError, match=rf"square: {field} must be"):
        make_spec(**{field: cost})


def test_the_name_of_the_ceilings_is_taken():
    with pytest.raises(ValueError, match="the name 'ceiling' is taken"):
        make_spec(name="ceiling")


def test_a_training_step_costs_both_passes():
    costs = {phase: of_phase(phase, forward=2, backward=3) for phase in PHASES}
    assert costs == {"forward": 2, "inference": 2, "backward": 3, "forward_backward": 5}
    with pytest.raises(LookupError, match="there is no phase 'bakward'"):
        of_phase("bakward", forward=1, backward=1)


# What the shipped Functions declare, counted by other means

SHIPPED = [
    pytest.param(registry.spec(name), workload, dtype, id=f"{name}-{workload}-{dtype}")
    for name in registry.names()
    for workload in ("tiny", "small")
    for dtype in registry.spec(name).dtypes
]
shipped = pytest.mark.parametrize(("spec", "workload", "dtype"), SHIPPED)


def case_of(spec, workload, dtype):
    return prepare(spec, Key(spec.name, "eager", workload, dtype, "cpu"), spec.reference)


def nbytes(tensors):
    return sum(t.nbytes for t in tensors if isinstance(t, torch.Tensor))


def read_by_the_backward(spec, case):
    """The inputs on which a gradient depends: another value there changes it."""
    before = case.backward(case.forward())
    for position, given in enumerate(case.inputs):
        if not isinstance(given, torch.Tensor):
            continue
        other = given.detach().flatten().flip(0).reshape(given.shape)
        if given.is_floating_point():
            other = (other * -1.5).requires_grad_(given.requires_grad)
        inputs = (*case.inputs[:position], other, *case.inputs[position + 1 :])
        changed = type(case)(case.key, case.apply, inputs, case.grad_outputs)
        after = changed.backward(changed.forward())
        if not all(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
            yield given


@shipped
def test_moved_bytes_are_no_more_than_those_of_the_tensors_and_hardly_less(spec, workload, dtype):
    """Less by the few bytes a row that a docstring leaves out, or by an index where the reference keeps the number."""
    case = case_of(spec, workload, dtype)
    outputs = case.forward()
    gradients = case.backward(outputs)
    most = {
        "forward": nbytes(case.inputs) + nbytes(outputs),
        "backward": nbytes(case.grad_outputs) + nbytes(read_by_the_backward(spec, case)) + nbytes(gradients),
    }
    for phase, tensors in most.items():
        found = spec.moved_bytes(phase, spec.workloads[workload], outputs[0].itemsize)
        # A view moves nothing; the backward of a surrogate may hand on what it got.
        least = 0 if spec.views or spec.surrogate is not None else 0.7 * tensors
        assert least <= found <= tensors


@shipped
def test_a_training_step_has_both_passes(spec, workload, dtype):
    sizes, itemsize = spec.workloads[workload], getattr(torch, dtype).itemsize
    for cost in filter(None, (spec.moved_bytes, spec.operations)):
        forward, backward, step, inference = (
            cost(phase, sizes, itemsize) for phase in ("forward", "backward", "forward_backward", "inference")
        )
        assert (step, inference) == (forward + backward, forward)


class Operations(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts what a formula does to each number: one an element of a result, or of what is summed."""

    VIEWS = ("view", "reshape", "expand", "squeeze", "slice", "select", "split", "as_strided")
    MOVES = (*VIEWS, "copy", "detach", "clone", "cat")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        is_number = isinstance(found, torch.Tensor) and found.is_floating_point()
        if is_number and not any(move in name for move in self.MOVES):
            self.count += max(t.numel() for t in (found, *args) if isinstance(t, torch.Tensor))
        return found


def counted(case, phase, mode):
    """The mode, after it has seen the phase alone."""
    outputs = case.forward() if phase == "backward" else None
    with mode:
        if phase == "forward_backward":
            outputs = case.forward()
        case.forward() if outputs is None else case.backward(outputs)
    return mode


@shipped
@pytest.mark.parametrize("phase", ["forward", "backward", "forward_backward"])
def test_operations_are_the_matrix_products_or_about_what_the_formula_needs(spec, workload, dtype, phase):
    """About: an operator of PyTorch that does five things to a number counts as one here."""
    if spec.operations is None:
        pytest.skip("declares no operations")
    case = case_of(spec, workload, dtype)
    declared = spec.operations(phase, spec.workloads[workload], 4)
    products = counted(case, phase, FlopCounterMode(display=False)).get_total_flops()
    if products:
        assert declared == products
        return
    seen = counted(case, phase, Operations()).count
    assert declared <= 6 * seen
    # The formula of a surrogate adds and takes away again what only steers its gradient.
    assert spec.surrogate is not None or seen <= 6 * declared
