import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("binarize_ste")
VARIANTS = [variant.name for variant in registry.variants("binarize_ste")]
WRITTEN = ["python", "fused", "cpp"]
INF, NAN = float("inf"), float("nan")


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()


def saved_by(apply, x, window):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        apply(x, window)
    return saved


@pytest.mark.parametrize("variant", VARIANTS)
def test_zero_is_positive_and_the_window_is_closed(variant, load):
    x = torch.tensor([-1.5, -1.0, -0.25, -0.0, 0.0, 1e-40, 1.0, 1.0000001, 1e20], requires_grad=True)

    y = load("binarize_ste", variant)(x, True)
    (grad,) = torch.autograd.grad(y.sum(), x)

    assert y.tolist() == [-1, -1, -1, 1, 1, 1, 1, 1, 1]
    assert grad.tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_a_window_the_gradient_is_grad_output(variant, load):
    inputs, grads = (normal(5, 7).detach().mul(1e20).requires_grad_(), False), (torch.randn(5, 7),)

    got = evaluate(SPEC, load("binarize_ste", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)
    assert torch.equal(got[1][0], grads[0])


@pytest.mark.parametrize("variant", WRITTEN)
def test_infinities_have_signs_and_nan_stays_without_a_gradient(variant, load):
    x = torch.tensor([INF, -INF, NAN], requires_grad=True)

    y = load("binarize_ste", variant)(x, True)
    (grad,) = torch.autograd.grad(y, x, torch.tensor([NAN, 2.0, 3.0]))

    assert y[:2].tolist() == [1, -1]
    assert y[2].isnan()
    # What is outside gets 0, whatever comes in.
    assert grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("elements", [1, 7, 31, 32, 33, 100])
def test_every_bit_of_a_word_stands_for_its_own_element(elements, dtype, load):
    apply = load("binarize_ste", "cpp")
    x = torch.full((elements,), 2.0, dtype=dtype)
    for inside in range(elements):
        one = x.index_fill(0, torch.tensor([inside]), 0.5).requires_grad_()
        (grad,) = torch.autograd.grad(apply(one, True), one, torch.full_like(one, 3))
        assert grad.nonzero().tolist() == [[inside]]
        assert grad[inside] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_output_written_past_the_caches_is_the_same(dtype, load):
    # 8 MiB of bfloat16, and the last word is not full.
    x = normal(2**22 + 17, dtype=dtype)
    inputs, grads = (x, True), (torch.ones_like(x),)

    got = evaluate(SPEC, load("binarize_ste", "cpp"), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), dtype)


@pytest.mark.parametrize("variant", WRITTEN)
def test_nothing_is_saved_without_a_window(variant, load):
    assert saved_by(load("binarize_ste", variant), normal(5, 7), False) == []


def test_cpp_saves_a_bit_an_element_and_lets_x_go(load):
    x = normal(5, 7)
    (words,) = saved_by(load("binarize_ste", "cpp"), x, True)
    assert (words.shape, words.dtype) == ((2,), torch.int32)


@pytest.mark.parametrize("variant", ["python", "fused"])
def test_the_others_save_x_itself(variant, load):
    x = normal(5, 7)
    (saved,) = saved_by(load("binarize_ste", variant), x, True)
    assert saved.data_ptr() == x.data_ptr()


def test_no_bits_are_made_where_no_gradient_is_needed(load):
    with torch.profiler.profile() as profile:
        load("binarize_ste", "cpp")(normal(5, 7).detach(), True)
        with torch.no_grad():
            load("binarize_ste", "cpp")(normal(5, 7), True)
    called = [event.name for event in profile.events() if event.name.startswith("autofn::")]
    assert called
    assert set(called) == {"autofn::binarize_ste"}


def test_the_gradient_of_python_can_be_differentiated_again(load):
    x, grad_output = normal(5, 7, dtype=torch.float64), normal(5, 7, dtype=torch.float64)
    (grad,) = torch.autograd.grad(load("binarize_ste", "python")(x, True), x, grad_output, create_graph=True)

    in_x, in_grad_output = torch.autograd.grad(grad.square().sum(), (x, grad_output), allow_unused=True)

    assert in_x is None or not in_x.any()
    assert torch.equal(in_grad_output, torch.where(x.abs() <= 1, 2 * grad_output, 0))


@pytest.mark.parametrize("variant", ["fused", "cpp"])
def test_a_second_derivative_is_refused_with_a_window_alone(variant, load):
    apply, grad_output = load("binarize_ste", variant), normal(5)
    x = normal(5)
    (grad,) = torch.autograd.grad(apply(x, True), x, grad_output, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"binarize_ste.* \(.*\): double backward is not implemented"):
        torch.autograd.grad(grad.sum(), grad_output)

    (grad,) = torch.autograd.grad(apply(x, False), x, grad_output, create_graph=True)
    assert torch.autograd.grad(grad.sum(), grad_output)[0].tolist() == [1] * 5


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_tensor_has_a_sign(variant, load):
    x = torch.tensor(-0.5, requires_grad=True)
    y = load("binarize_ste", variant)(x, True)
    assert (y.shape, y.item()) == ((), -1)
    assert torch.autograd.grad(y, x)[0].item() == 1


@pytest.mark.parametrize("variant", WRITTEN)
def test_integers_are_refused(variant, load):
    with pytest.raises(ValueError, match=r"binarize_ste: x must hold floating point numbers, got "):
        load("binarize_ste", variant)(torch.ones(2, dtype=torch.int64), True)
