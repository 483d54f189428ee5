"""What every variant of every Function must do; the cases come from the registry."""

from __future__ import annotations

import pytest
import torch
from conftest import COMPILED, OURS, UNCOMPILED, cases, every_case, every_variant
from torch.utils._python_dispatch import TorchDispatchMode
from truth import assert_matches, evaluate, prepared, truth

from autofn import registry
from autofn.case import as_tuple, undirtied
from autofn.observe.saved import ledger, saved_new_bytes

# Those that are not compiled anew for other sizes.
sizeless = cases("tiny", dtypes=("float32",), kinds=("native", "python", "cpp", "triton"))
cpp_variant = cases("tiny", dtypes=("float32",), kinds=("cpp",))
in_float64 = cases("tiny", dtypes=("float32", "float64"), kinds=OURS)
# A compiled graph gives its buffers away in the backward; only where rows are many, sums are split.
replayed = cases("small", dtypes=("float32", "bfloat16"), kinds=UNCOMPILED)

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


def leaves_of(inputs):
    return [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]


@every_case
def test_output_and_gradients_match_the_float64_reference(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))

    got = evaluate(spec, case.apply, case.inputs, case.grad_outputs)

    assert_matches(spec, got, truth(spec, case.inputs, case.grad_outputs), dtype)


@replayed
def test_two_backwards_of_one_graph_agree_bit_for_bit(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    outputs = as_tuple(case.apply(*undirtied(spec.mutates, case.inputs)))

    first = torch.autograd.grad(outputs, case.leaves, case.grad_outputs, retain_graph=True, allow_unused=True)
    second = torch.autograd.grad(outputs, case.leaves, case.grad_outputs, retain_graph=True, allow_unused=True)

    assert all(a is b or torch.equal(a, b) for a, b in zip(first, second, strict=True))


def strided(tensor):
    """The same values, every second element of a wider memory, with the last two dimensions swapped in memory."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    if tensor.dim() > 1:
        wide = wide.transpose(0, 1).contiguous().transpose(0, 1)
    wide[..., 0] = tensor.detach()
    return wide[..., 0].requires_grad_(tensor.requires_grad)


@every_variant
def test_strided_arguments_give_the_same_as_contiguous_ones(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    inputs = tuple(strided(t) for t in case.inputs)
    grads = tuple(strided(grad) for grad in case.grad_outputs)
    assert not any(t.is_contiguous() for t in leaves_of(inputs))

    got = evaluate(spec, case.apply, inputs, grads)

    assert_matches(spec, got, truth(spec, case.inputs, case.grad_outputs), dtype)


@every_variant
def test_an_expanded_grad_output_gives_the_same_as_a_full_one(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    expanded = tuple(torch.ones((), dtype=grad.dtype).expand(grad.shape) for grad in case.grad_outputs)

    got = evaluate(spec, case.apply, case.inputs, expanded)

    assert_matches(spec, got, truth(spec, case.inputs, expanded), dtype)


@in_float64
def test_double_backward_is_right_or_refused(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    if spec.surrogate is not None or spec.random:
        pytest.skip("its gradient is intentionally not the derivative, or differs from call to call")
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    if not spec.refuses_double_backward(variant):
        if dtype == torch.float64:
            assert torch.autograd.gradcheck(case.apply, case.inputs)
            assert torch.autograd.gradgradcheck(case.apply, case.inputs)
        return

    for grads in (case.grad_outputs, tuple(grad.clone().requires_grad_() for grad in case.grad_outputs)):
        first = torch.autograd.grad(case.forward(), case.leaves, grads, create_graph=True)
        penalty = sum(grad.square().sum() for grad in first)
        with pytest.raises(NotImplementedError, match=rf"{name} .*: double backward is not implemented"):
            torch.autograd.grad(penalty, case.leaves, allow_unused=True)


@every_variant
def test_each_input_may_be_frozen(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    positions = [p for p, t in enumerate(case.inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    if len(positions) < 2:
        pytest.skip("there is one input that requires grad")

    only_one = [frozenset(positions) - {position} for position in positions]
    # Each is compiled for: that a backward is right where only one gradient is needed says most.
    but_one = [] if registry.variant(name, variant).kind in COMPILED else [frozenset({each}) for each in positions]
    for frozen in dict.fromkeys([*only_one, *but_one]):
        inputs = tuple(
            t.detach().requires_grad_(t.requires_grad and p not in frozen) if isinstance(t, torch.Tensor) else t
            for p, t in enumerate(case.inputs)
        )
        got = evaluate(spec, case.apply, inputs, case.grad_outputs)
        assert_matches(spec, got, truth(spec, inputs, case.grad_outputs), dtype)
        torch._dynamo.reset()


def with_rows(spec, workload, count, dtype):
    """Inputs of the workload with another number of rows."""
    # By its place, for every Spec names the sizes in its own words: the rows or the batch come first.
    rows, *_ = spec.workloads[workload]
    return spec.make_inputs(**{**spec.workloads[workload], rows: count}, dtype=dtype, device="cpu")


@every_variant
def test_no_rows_give_no_rows(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    apply = load(name, variant)
    inputs = with_rows(spec, workload, 0, dtype)
    grads = tuple(torch.zeros_like(out) for out in as_tuple(spec.reference(*undirtied(spec.mutates, inputs))))

    got = evaluate(spec, apply, inputs, grads)

    assert_matches(spec, got, truth(spec, inputs, grads), dtype)


# One row, and a prime number of rows: no block of a kernel is full, or the last one is not.
@pytest.mark.parametrize("rows", [1, 149])
@sizeless
def test_any_number_of_rows_matches_the_float64_reference(name, variant, workload, dtype, rows, load):
    spec = registry.spec(name)
    apply = load(name, variant)
    inputs = with_rows(spec, workload, rows, dtype)
    generator = torch.Generator().manual_seed(0)
    outputs = as_tuple(spec.reference(*undirtied(spec.mutates, inputs)))
    grads = tuple(torch.randn(out.shape, generator=generator).to(out) for out in outputs)

    got = evaluate(spec, apply, inputs, grads)

    assert_matches(spec, got, truth(spec, inputs, grads), dtype)


written = cases("tiny", "small", kinds=("python", "fused", "cpp", "triton"))


@written
def test_no_more_new_bytes_are_saved_than_the_spec_promises(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    promised = [each for each in spec.promised if each.quantity == "saved_new_bytes" and each.concerns(case.key)]
    if not promised:
        pytest.skip("promises nothing")

    saved = saved_new_bytes(ledger(case))

    sizes = spec.workloads[workload]
    assert [each.text for each in promised if not each.keeps(saved, each.limit(sizes, dtype.itemsize))] == []


class Recorded(TorchDispatchMode):
    """Notes every call of an operator of autofn, those that autograd makes too."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "autofn":
            self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def detached(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


@cpp_variant
def test_opcheck_accepts_the_operators(name, variant, workload, dtype, load):
    spec = registry.spec(name)
    case = prepared(spec, variant, workload, dtype, load(name, variant))
    with Recorded() as recorded:
        case.backward(case.forward())
    # One that is composed of PyTorch's own is seen through.
    assert recorded.calls or torch._C._dispatch_has_kernel_for_dispatch_key(
        case.apply.name(), "CompositeImplicitAutograd"
    )

    if isinstance(case.apply, torch._ops.OpOverload):
        torch.library.opcheck(case.apply, case.inputs)
    for function, args, kwargs in recorded.calls:
        torch.library.opcheck(function, tuple(map(detached, args)), kwargs)
