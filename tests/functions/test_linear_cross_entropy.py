import math
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from truth import evaluate, truth

from autofn import registry
from autofn.case import Key, prepare
from autofn.functions.linear_cross_entropy import chunked
from autofn.observe.memory import measure

SPEC = registry.spec("linear_cross_entropy")
VARIANTS = [variant.name for variant in registry.variants("linear_cross_entropy")]
CHUNKED = ["python", "python_recompute", "fused", "cpp", "cpp_recompute", "triton"]
# Without those that compile for each size.
EAGER = ["python", "python_recompute", "cpp", "cpp_recompute"]


def inputs(rows, features, vocabulary, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, features, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(vocabulary, features, generator=generator).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(vocabulary, (rows,), generator=generator)


def loss_and_gradients(apply, hidden, weight, *rest):
    loss = apply(hidden, weight, *rest)
    return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_torchs_cross_entropy_of_a_linear_layer(variant, reduction, load):
    hidden, weight, target = inputs(9, 5, 7)
    target[[2, 5]] = 3

    got = loss_and_gradients(load("linear_cross_entropy", variant), hidden, weight, target, 3, reduction)

    def stock(hidden, weight):
        return F.cross_entropy(F.linear(hidden, weight), target, ignore_index=3, reduction=reduction)

    for found, expected in zip(got, loss_and_gradients(stock, hidden, weight), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@cache
def of_reference(dtype, rows, vocabulary):
    """Arguments and the gradient of the loss; outputs and gradients in float64, and those of eager."""
    hidden, weight, target = inputs(rows, 3, vocabulary, dtype)
    target[::7] = -100
    case = (hidden, weight, target, -100, "sum"), (torch.ones((), dtype=dtype),)
    return case, truth(SPEC, *case), evaluate(SPEC, SPEC.reference, *case)


def error(found, exact):
    """The root of the mean square."""
    return (found.double() - exact).square().mean().sqrt().item()


# Rows and vocabulary in more than one chunk, the last of them short.
@pytest.mark.parametrize(("rows", "vocabulary"), [(75, 33000), (33000, 75)], ids=["wide", "long"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("variant", [*EAGER, "fused"])
def test_chunks_are_seamless_and_as_exact_as_eager(variant, dtype, rows, vocabulary, load):
    cpu = torch.device("cpu")
    assert all(len(list(chunked.chunks(*sizes, cpu))) > 1 for sizes in ((rows, vocabulary), (vocabulary, rows)))
    case, (outputs, gradients), (_, eager) = of_reference(dtype, rows, vocabulary)

    found = evaluate(SPEC, load("linear_cross_entropy", variant), *case)

    torch.testing.assert_close(found[0][0].double(), outputs[0], rtol=torch.finfo(dtype).eps, atol=0)
    for got, exact, stock in zip(found[1], gradients, eager, strict=True):
        assert error(got, exact) <= 1.5 * error(stock, exact)


@pytest.mark.parametrize("variant", ["python_recompute", "cpp_recompute"])
def test_the_running_logsumexp_does_not_drift(variant, load):
    # 64 chunks of 256 equal logits. A running sum in float32 is wrong by 2**-20.
    hidden = torch.linspace(-7, -2, 4096)[:, None].requires_grad_()
    weight, target = torch.ones(16384, 1), torch.zeros(4096, dtype=torch.int64)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("linear_cross_entropy", variant)(hidden, weight, target)

    (logsumexp,) = (t for t in saved if t.shape == target.shape and t.is_floating_point())
    exact = hidden.detach()[:, 0].double() + math.log(16384)
    # Half an ulp of 4 to 8, and half an ulp of 2 to 4 in the chunks.
    assert (logsumexp - exact).abs().max() <= 2**-22 + 2**-23


@pytest.mark.parametrize("count", [1, 31, 32, 33, 1000, 2**20, 2**20 + 1])
@pytest.mark.parametrize("other", [0, 1, 7, 32768, 2**22])
def test_chunks_cover_all_and_stay_small(count, other):
    found = list(chunked.chunks(count, other, torch.device("cpu")))

    assert [chunk.start for chunk in found[1:]] == [chunk.stop for chunk in found[:-1]]
    assert (found[0].start, found[-1].stop) == (0, count)
    assert all((chunk.stop - chunk.start) * other <= max(2**20, 32 * other) for chunk in found)


@pytest.mark.parametrize("variant", [*EAGER, "fused", "triton"])
def test_of_ignored_rows_alone_the_mean_is_nan_and_the_gradients_are_0(variant, load):
    hidden, weight, target = inputs(4, 3, 5)

    loss, *grads = loss_and_gradients(
        load("linear_cross_entropy", variant), hidden, weight, torch.full_like(target, -100)
    )

    assert loss.isnan()
    assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("variant", CHUNKED)
def test_large_logits_do_not_overflow(variant, load):
    hidden = torch.tensor([[200.0], [-200.0]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)

    loss, grad_hidden, grad_weight = loss_and_gradients(
        load("linear_cross_entropy", variant), hidden, weight, torch.tensor([1, 1]), -100, "sum"
    )

    assert loss.item() == 400
    assert grad_hidden.flatten().tolist() == [2, 0]
    assert grad_weight.flatten().tolist() == [200, -200, 0]


@pytest.mark.parametrize("variant", CHUNKED)
def test_no_gradient_is_computed_where_none_is_recorded(variant, load):
    apply = load("linear_cross_entropy", variant)
    hidden, weight, target = inputs(4, 3, 5)
    expected = apply(hidden, weight, target)
    with torch.no_grad():
        loss = apply(hidden, weight, target)

    assert not loss.requires_grad
    assert torch.equal(loss, expected)


@pytest.mark.parametrize("variant", ["python", "fused", "cpp", "triton"])
def test_only_the_gradients_that_are_needed_are_kept(variant, load):
    apply = load("linear_cross_entropy", variant)
    for frozen, kept in ((0, [(5, 3)]), (1, [(4, 3)]), (None, [(4, 3), (5, 3)])):
        *leaves, target = inputs(4, 3, 5)
        if frozen is not None:
            leaves[frozen].requires_grad_(False)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.append(t) or t, lambda t: t):
            apply(*leaves, target)
        new = [tuple(t.shape) for t in saved if t.data_ptr() not in [leaf.data_ptr() for leaf in leaves]]
        assert new == kept


@pytest.mark.parametrize("variant", ["python_recompute", "cpp_recompute"])
def test_one_number_a_row_is_kept_where_gradients_are_not(variant, load):
    hidden, weight, target = inputs(4, 3, 5, torch.bfloat16)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("linear_cross_entropy", variant)(hidden, weight, target)

    new = [t for t in saved if t.data_ptr() not in [t.data_ptr() for t in (hidden, weight, target)]]
    assert [(tuple(t.shape), t.dtype) for t in new] == [((4,), torch.float32)]


@pytest.mark.parametrize("variant", [*EAGER, "fused"])
def test_the_weight_gradient_of_half_types_is_summed_in_float(variant, load):
    # A chunk adds 1 to 16 rows of weight at a time: in bfloat16 the sum would stop at 256.
    rows = 33000
    hidden = torch.ones(rows, 1, dtype=torch.bfloat16)
    weight = torch.zeros(64, 1, dtype=torch.bfloat16, requires_grad=True)
    target = torch.zeros(rows, dtype=torch.int64)

    (grad,) = torch.autograd.grad(load("linear_cross_entropy", variant)(hidden, weight, target, -100, "sum"), weight)

    assert grad.flatten().tolist() == pytest.approx([-rows * 63 / 64, *[rows / 64] * 63], rel=2**-8)


@pytest.mark.parametrize("target", [5, -1, -101])
@pytest.mark.parametrize("variant", CHUNKED)
def test_a_target_outside_the_vocabulary_is_named(variant, target, load):
    hidden, weight, words = inputs(4, 3, 5)
    words[2] = target
    with pytest.raises(
        IndexError,
        match=rf"linear_cross_entropy: target must be below 5 or ignore_index -100, got {target} in row 2",
    ):
        load("linear_cross_entropy", variant)(hidden, weight, words)


HIDDEN, WEIGHT, TARGET = torch.ones(4, 3), torch.ones(5, 3), torch.zeros(4, dtype=torch.int64)
WRONG = {
    "hidden": ((HIDDEN[0], WEIGHT, TARGET), r"hidden must have shape \[\*, \*\], got \[3\]"),
    "weight": ((HIDDEN, torch.ones(5, 2), TARGET), r"weight must have shape \[\*, 3\], got \[5, 2\]"),
    "no words": ((HIDDEN, torch.ones(0, 3), TARGET), r"weight must have a row at least, got \[0, 3\]"),
    "target": ((HIDDEN, WEIGHT, TARGET[:1]), r"target must have shape \[4\], got \[1\]"),
    "dtypes": ((HIDDEN, WEIGHT.double(), TARGET), r"dtypes must be equal, got hidden .* and weight "),
    "integers": ((HIDDEN.long(), WEIGHT.long(), TARGET), r"hidden must hold floating point numbers, got "),
    "int32": ((HIDDEN, WEIGHT, TARGET.int()), r"target must hold int64 indices, got "),
    "devices": (
        (HIDDEN, WEIGHT.to("meta"), TARGET),
        r"devices must be equal, got hidden cpu and weight meta and target cpu",
    ),
    "reduction": ((HIDDEN, WEIGHT, TARGET, -100, "none"), r"reduction must be 'mean' or 'sum', got 'none'"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("variant", CHUNKED)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=f"linear_cross_entropy: {message}"):
        load("linear_cross_entropy", variant)(*arguments)


@cache
def peaks(variant):
    """By phase, of 512 rows and 32,000 words."""
    apply = registry.load("linear_cross_entropy", variant)
    key = Key("linear_cross_entropy", variant, "vocabulary_32k", "float32", "cpu")
    return measure(prepare(SPEC, key, apply)).peak_bytes


@pytest.mark.parametrize("variant", [*EAGER, "fused"])
def test_the_step_takes_a_quarter_of_eagers_memory(variant, load):
    load("linear_cross_entropy", variant)
    mine, eager = peaks(variant), peaks("eager")

    assert all(4 * mine[phase] <= eager[phase] for phase in ("forward", "backward")), (mine, eager)
    assert math.isclose(eager["forward"], 2 * 4 * 512 * 32000, rel_tol=0.01)
