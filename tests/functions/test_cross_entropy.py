import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("cross_entropy")
VARIANTS = [variant.name for variant in registry.variants("cross_entropy")]
WRITTEN = ["python", "fused", "cpp", "triton"]
UNCOMPILED = ["eager", "python", "cpp", "triton"]
INF, NAN = math.inf, math.nan

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")

OPTIONS = list(itertools.product(["none", "sum", "mean"], [False, True], [0.0, 0.1, 1.0], [-100, 2]))
NAMES = [f"{r}-{'weight' if w else 'equal'}-{s}-{i}" for r, w, s, i in OPTIONS]


def arguments(reduction, weighted, smoothing, ignored, shape=(6, 9), dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    target = torch.randint(shape[1], (shape[0],), generator=generator)
    target[::3] = ignored
    weight = torch.rand(shape[1], generator=generator, dtype=torch.float64).to(dtype) if weighted else None
    return logits, target, weight, ignored, reduction, smoothing


def torchs(logits, target, weight, ignored, reduction, smoothing):
    return F.cross_entropy(logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing)


def gradient(apply, inputs, grad_output=None):
    logits = inputs[0].detach().clone().requires_grad_()
    loss = apply(logits, *inputs[1:])
    grad_output = torch.ones_like(loss) if grad_output is None else grad_output
    return loss.detach(), torch.autograd.grad(loss, logits, grad_output)[0]


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_every_combination_of_options_is_torchs(variant, options, load):
    inputs = arguments(*options)
    grad_output = torch.randn(inputs[0].shape[:1] if options[0] == "none" else ()).double()

    got = gradient(load("cross_entropy", variant), inputs, grad_output)

    for mine, want in zip(got, gradient(torchs, inputs, grad_output), strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("options", [("mean", True, 0.1, 2), ("none", False, 0.0, -100)], ids=str)
def test_the_compiled_variant_is_torchs_too(options, load):
    inputs = arguments(*options)

    got = gradient(load("cross_entropy", "fused"), inputs)

    for mine, want in zip(got, gradient(torchs, inputs), strict=True):
        torch.testing.assert_close(mine, want, rtol=1e-13, atol=1e-13)


def test_the_defaults_are_torchs(load):
    logits, target, *_ = arguments("mean", False, 0.0, -100)

    for variant in ("eager", "native", "python", "cpp"):
        torch.testing.assert_close(load("cross_entropy", variant)(logits, target), F.cross_entropy(logits, target))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("variant", ["eager", "native", "python"])
def test_second_derivatives_are_right_for_every_reduction(variant, reduction, load):
    logits, *others = arguments(reduction, True, 0.1, -100, shape=(3, 4))

    assert torch.autograd.gradgradcheck(lambda x: load("cross_entropy", variant)(x, *others), (logits,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_target_the_mean_is_nan_and_the_gradient_0(variant, weighted, smoothing, load):
    logits, target, weight, *_ = arguments("mean", weighted, smoothing, -100, dtype=torch.float32)

    loss, grad = gradient(
        load("cross_entropy", variant), (logits, torch.full_like(target, -100), weight, -100, "mean", smoothing)
    )

    assert loss.isnan()
    assert not grad.any()


# 5,000 classes are more than a block; the first block has nothing but masked ones.
@pytest.mark.parametrize("columns", [20, 5000])
@pytest.mark.parametrize("variant", [*WRITTEN, "eager", "native"])
def test_masked_classes_are_as_if_they_were_not_there(variant, columns, load):
    logits = torch.full((3, columns), -INF)
    logits[:, -3:] = torch.tensor([[0.0, 1, 2], [2, 1, 0], [5, 5, 5]])
    target = torch.tensor([columns - 3, columns - 1, columns - 2])

    loss, grad = gradient(load("cross_entropy", variant), (logits, target, None, -100, "sum", 0.0))

    few, grad_few = gradient(torchs, (logits[:, -3:], target - (columns - 3), None, -100, "sum", 0.0))
    torch.testing.assert_close(loss, few)
    torch.testing.assert_close(grad[:, -3:], grad_few)
    assert not grad[:, :-3].any()


@pytest.mark.parametrize("variant", [*WRITTEN, "eager"])
def test_where_masked_classes_make_the_loss_infinite_no_gradient_is_nan(variant, load):
    apply = load("cross_entropy", variant)
    logits = torch.tensor([[0.0, -INF, 1], [0, 1, 2]])
    target = torch.tensor([1, 0])

    for smoothing, row in ((0.0, 0), (0.1, 0)):
        losses, grad = gradient(apply, (logits, target, None, -100, "none", smoothing))
        assert losses[row] == INF
        assert losses[1].isfinite()
        assert grad.isfinite().all()


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_row_of_masked_classes_alone_is_nan(variant, load):
    logits = torch.tensor([[-INF, -INF], [0.0, 1.0]])

    losses, grad = gradient(load("cross_entropy", variant), (logits, torch.tensor([0, 0]), None, -100, "none", 0.0))

    assert losses.isnan().tolist() == [True, False]
    assert grad.isnan().tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_nan_stays_in_its_row_and_an_ignored_row_has_gradient_0(variant, load):
    logits = torch.zeros(3, 20)
    logits[:2, 7] = NAN

    losses, grad = gradient(
        load("cross_entropy", variant), (logits, torch.tensor([3, -100, 3]), None, -100, "none", 0.0)
    )

    assert losses.isnan().tolist() == [True, False, False]
    assert grad[0].isnan().all()
    assert not grad[1].any()
    assert grad[2].isfinite().all()


@pytest.mark.parametrize("variant", [*WRITTEN, "eager"])
def test_large_numbers_and_large_distances_do_not_overflow(variant, load):
    logits = torch.tensor([[3e38, -3e38, 0], [1e4, 1e4 - 5, 0]])

    losses, grad = gradient(load("cross_entropy", variant), (logits, torch.tensor([0, 1]), None, -100, "none", 0.0))

    # The logarithm of the sum is as exact as a number near 1e4 can be, to half an ulp, 2**-11.
    p = 1 / (1 + math.exp(-5))
    torch.testing.assert_close(losses, torch.tensor([0, 5 - math.log(p)]), rtol=0, atol=2**-10)
    torch.testing.assert_close(grad, torch.tensor([[0, 0, 0], [p, -p, 0]]), rtol=2**-10, atol=0)


@pytest.mark.parametrize("shape", [(0, 5), (3, 1), (2, 4096), (2, 4097), (2, 9000)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_any_number_of_classes_is_taken(variant, dtype, shape, load):
    inputs = arguments("none", True, 0.1, -100, shape=shape, dtype=dtype)
    grads = (torch.ones(shape[0], dtype=dtype),)

    got = evaluate(SPEC, load("cross_entropy", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), dtype)


@pytest.mark.parametrize("variant", UNCOMPILED)
def test_the_mean_of_half_types_is_summed_in_float(variant, load):
    logits = torch.zeros(500, 8, dtype=torch.bfloat16)
    target = torch.arange(500) % 8

    # In bfloat16 the sum would stop at 512, where adding 2.08 no longer changes it.
    for reduction, want in (("sum", 500 * math.log(8)), ("mean", math.log(8))):
        loss = load("cross_entropy", variant)(logits, target, None, -100, reduction, 0.0)
        assert loss == torch.tensor(want).bfloat16()


@pytest.mark.parametrize("columns", [2048, 2047])
def test_rows_of_a_large_gradient_are_the_same_past_the_caches(columns, load):
    inputs = arguments("sum", True, 0.1, -100, shape=(1000, columns), dtype=torch.float32)
    apply = load("cross_entropy", "cpp")

    _, grad = gradient(apply, inputs)

    logits, target, *others = inputs
    few = [gradient(apply, (a, b, *others))[1] for a, b in zip(logits.split(100), target.split(100), strict=True)]
    assert torch.equal(grad, torch.cat(few))


@pytest.mark.parametrize("variant", ["fused", "cpp", "triton"])
def test_one_number_a_row_is_saved_beside_the_inputs(variant, load):
    logits, target, weight, *others = arguments("mean", True, 0.1, -100, dtype=torch.float32)
    logits = logits.detach().bfloat16().requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("cross_entropy", variant)(logits, target, weight.bfloat16(), *others)

    floats = [t for t in saved if t.dtype == torch.float32]
    assert [tuple(t.shape) for t in floats] == [(6,)]
    assert len(saved) == 4


def test_python_works_under_vmap(load):
    logits = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    target = torch.arange(12).view(4, 3) % 5
    target[0, 1] = -100

    def gradients(apply):
        return torch.func.vmap(torch.func.grad(lambda x, t: apply(x, t, None, -100, "mean", 0.1)))(logits, target)

    torch.testing.assert_close(gradients(load("cross_entropy", "python")), gradients(SPEC.reference))


@pytest.mark.parametrize("target", [3, -1, 10**12])
@pytest.mark.parametrize("variant", WRITTEN)
def test_a_target_that_is_no_class_is_named_with_its_row(variant, target, load):
    message = rf"cross_entropy: target must be below 3 or ignore_index -100, got {target} in row 1"
    with pytest.raises(IndexError, match=message):
        load("cross_entropy", variant)(torch.zeros(4, 3), torch.tensor([0, target, -100, target]))


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_weight_that_requires_grad_is_refused_where_it_would_be_given_one(variant, load):
    apply = load("cross_entropy", variant)
    logits, target, weight = torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 1]), torch.ones(3)

    with pytest.raises(ValueError, match="cross_entropy: weight must not require grad"):
        apply(logits, target, weight.requires_grad_())
    with torch.no_grad():
        assert apply(logits, target, weight).isfinite()


LOGITS, TARGET = torch.zeros(3, 8), torch.tensor([0, 1, 2])


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LOGITS[0], TARGET), r"logits must have shape \[rows, classes\] with a class at least, got \[8\]"),
        ((LOGITS[:, :0], TARGET), r"logits must have shape \[rows, classes\] with a class at least, got \[3, 0\]"),
        ((LOGITS.long(), TARGET), r"logits must hold floating point numbers, got "),
        ((LOGITS, TARGET[:2]), r"target must have shape \[3\], got \[2\]"),
        ((LOGITS, TARGET[:, None]), r"target must have shape \[3\], got \[3, 1\]"),
        ((LOGITS, TARGET.int()), r"target must hold int64 indices of classes, got "),
        ((LOGITS, LOGITS), r"target must hold int64 indices of classes, got "),
        ((LOGITS, TARGET.to("meta")), r"devices must be equal, got logits cpu and target meta"),
        ((LOGITS, TARGET, torch.ones(7)), r"weight must have shape \[8\], got \[7\]"),
        ((LOGITS, TARGET, torch.ones(8).double()), r"dtypes must be equal, got logits "),
        ((LOGITS, TARGET, None, -100, "max"), r"reduction must be 'none', 'sum' or 'mean', got 'max'"),
        ((LOGITS, TARGET, None, -100, "sum", 1.5), r"label_smoothing must be from 0 to 1, got 1.5"),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=f"cross_entropy: {message}"):
        load("cross_entropy", variant)(*arguments)
