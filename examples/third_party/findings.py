"""The findings of README.md, seen in plain PyTorch and the packages alone: `python findings.py`.

Each is a few lines that anybody can run. One whose package is not installed in the version that the finding is about is
n/a. Exit status: 0 all that could be looked at were seen, 1 one was not, 3 none could be looked at.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import torch


@dataclass(frozen=True)
class Finding:
    """rules, function: as `autofn check` calls them. look: tells what is, AssertionError where it is not so."""

    rules: tuple[str, ...]
    function: str
    package: str
    look: Callable[[], str]


FINDINGS: list[Finding] = []


def finding(rules: str, function: str, package: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def kept(look: Callable[[], str]) -> Callable[[], str]:
        FINDINGS.append(Finding(tuple(rules.split()), function, package, look))
        return look

    return kept


def of(module: str, name: str) -> type[torch.autograd.Function]:
    return getattr(importlib.import_module(module), name)


@finding("double-backward", "entmax_entmax15", "entmax==1.3")
def second_derivative_of_entmax15() -> str:
    """The backward takes the square root of the saved output, whose derivative is infinite where the output is 0."""
    apply = of("entmax.activations", "Entmax15Function").apply
    return _is_nan_in_the_second_derivative(lambda x: apply(x, -1, None))


@finding("double-backward", "entmax_bisect", "entmax==1.3")
def second_derivative_of_entmax_bisect() -> str:
    """The backward takes a power of the saved output, whose derivative is infinite where the output is 0."""
    apply = of("entmax.root_finding", "EntmaxBisectFunction").apply
    return _is_nan_in_the_second_derivative(lambda x: apply(x, 1.6, -1, 50, True))


def _is_nan_in_the_second_derivative(apply: Callable[[torch.Tensor], torch.Tensor]) -> str:
    x = torch.tensor([[2.0, 1.5, -5.0]], dtype=torch.float64, requires_grad=True)
    y = apply(x)
    (grad,) = torch.autograd.grad(y[0, 0], x, create_graph=True)
    (second,) = torch.autograd.grad(grad[0, 0], x)
    assert y[0, 2] == 0
    assert grad.isfinite().all()
    assert second.isnan().any()
    return f"at {x[0].tolist()}, whose last output is 0, the second derivative is {second[0].tolist()}"


@finding("ctx-tensor saved-hooks version-check", "entmax_bisect", "entmax==1.3")
def alpha_is_kept_on_ctx() -> str:
    """The backward reads alpha from ctx.alpha, so that nobody sees that it was changed in place since."""
    x = torch.tensor([[1.0, 0.5, 0.2]], dtype=torch.float64, requires_grad=True)
    packed: list[torch.Size] = []

    def gradient(changed: bool) -> torch.Tensor:
        alpha = torch.tensor([[1.5]], dtype=torch.float64)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t.shape), t)[1], lambda t: t):
            y = of("entmax.root_finding", "EntmaxBisectFunction").apply(x, alpha, -1, 50, True)
        if changed:
            alpha.fill_(1.9)
        return torch.autograd.grad(y[0, 0], x)[0]

    right, wrong = gradient(False), gradient(True)
    assert not torch.allclose(right, wrong)
    assert packed == [x.shape, x.shape], "the hooks see the output alone, not alpha"
    return f"alpha changed in place after the forward: no error, and {wrong[0].tolist()} instead of {right[0].tolist()}"


@finding("value", "snntorch_fast_sigmoid", "snntorch==1.0.0")
def dtype_of_fast_sigmoid() -> str:
    return _is_single_precision("FastSigmoid", 25.0)


@finding("value", "snntorch_atan", "snntorch==1.0.0")
def dtype_of_atan() -> str:
    return _is_single_precision("ATan", 2.0)


def _is_single_precision(name: str, parameter: float) -> str:
    given = (torch.float64, torch.bfloat16, torch.float16)
    got = [of("snntorch.surrogate", name).apply(torch.ones(2, dtype=dtype), parameter).dtype for dtype in given]
    assert got == [torch.float32] * 3
    return f"of {', '.join(map(str, given))} it makes torch.float32"


@finding("mark-dirty", "brevitas_clamp_in_place", "brevitas==0.13.4")
def a_leaf_is_overwritten() -> str:
    """Marked dirty, a leaf that requires grad would be refused, as PyTorch's own clamp_ refuses it."""
    x = torch.tensor([-3.0, 1.0, 3.0], requires_grad=True)
    y = of("brevitas.ops.autograd_ste_ops", "InplaceTensorClampSteFn").apply(x, torch.tensor(-2.0), torch.tensor(2.0))
    assert x.tolist() == [-2, 1, 2]
    assert x.is_leaf
    assert y.data_ptr() == x.data_ptr()
    try:
        x.clamp_(-1, 1)
    except RuntimeError as error:
        return f"a leaf became {x.tolist()}; PyTorch's clamp_ says: {error}"
    raise AssertionError("PyTorch's clamp_ writes into a leaf that requires grad")


@finding("gradient-dtype", "brevitas_abs", "brevitas==0.13.4")
def gradient_of_abs_in_bfloat16() -> str:
    x = torch.tensor([-1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    function = of("brevitas.ops.autograd_ste_ops", "AbsBinarySignGradFn")
    y = function.apply(x)
    made = function.backward(y.grad_fn, torch.ones_like(y))
    (given,) = torch.autograd.grad(y.sum(), x)
    assert made.dtype == torch.float32
    assert given.dtype == torch.bfloat16
    assert given.tolist() == [-1, 1]
    return f"the backward makes {made.dtype}, the engine {given.dtype} of it: {given.tolist()}"


@finding("special-values", "scatter_mul", "torch-scatter==2.1.2")
def gradient_of_a_product_at_0() -> str:
    """The gradient is the product over the element itself, and what that makes of 0 / 0 is replaced by 0."""
    src, right = (torch.tensor([0.0, 2.0, 3.0], requires_grad=True) for _ in range(2))
    index = torch.zeros(3, dtype=torch.int64)
    of("torch_scatter", "scatter_mul")(src, index, 0, None, 1).sum().backward()
    right.prod().backward()
    assert src.grad.tolist() == [0, 0, 0]
    assert right.grad.tolist() == [6, 0, 0]
    return f"of the product of 0, 2 and 3: {src.grad.tolist()}, and torch.prod has {right.grad.tolist()}"


@finding("zero-size", "scatter_mul", "torch-scatter==2.1.2")
def product_of_nothing() -> str:
    """A group without rows has product 1 while another has some, and 0 where none has."""
    scatter_mul = of("torch_scatter", "scatter_mul")
    one = scatter_mul(torch.full((1,), 5.0), torch.zeros(1, dtype=torch.int64), 0, None, 2)
    none = scatter_mul(torch.empty(0), torch.empty(0, dtype=torch.int64), 0, None, 2)
    assert one.tolist() == [5, 1]
    assert none.tolist() == [0, 0]
    return f"two groups of one row: {one.tolist()}; two groups of no row: {none.tolist()}"


@finding("input-layout", "liger_cross_entropy", "liger-kernel==0.8.5")
def gradient_of_transposed_logits() -> str:
    """The copy that is made of them does not require grad, which the kernel takes for: no gradient is needed."""
    values = torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]])
    packed = values.clone().requires_grad_()
    transposed = values.T.contiguous().T.requires_grad_()
    target = torch.tensor([0, 1])
    losses = [_liger(logits, target) for logits in (packed, transposed)]
    (right,) = torch.autograd.grad(losses[0], packed)
    (wrong,) = torch.autograd.grad(losses[1], transposed)
    leaf = values.clone().requires_grad_()
    torch.nn.functional.cross_entropy(leaf, target).backward()
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(right, leaf.grad)
    assert torch.equal(wrong, values)
    return f"of a transposed tensor the gradient is the logits themselves, {wrong.tolist()}, not {leaf.grad.tolist()}"


@finding("mutated-saved retain-graph impure-backward", "liger_cross_entropy", "liger-kernel==0.8.5")
def second_backward_of_one_graph() -> str:
    """The forward writes the gradient over the logits, the backward multiplies it by grad_output in place."""
    logits = torch.tensor([[1.0, -2.0, 3.0]], requires_grad=True)
    loss = _liger(logits, torch.tensor([0]))
    first, second = (
        torch.autograd.grad(loss, logits, torch.tensor(3.0), retain_graph=True)[0].clone() for _ in range(2)
    )
    torch.testing.assert_close(second, 3 * first)
    return f"grad_output 3, twice: {first.tolist()}, then {second.tolist()}"


@finding("double-backward", "liger_cross_entropy", "liger-kernel==0.8.5")
def penalty_of_cross_entropy() -> str:
    target = torch.tensor([0, 2])
    return _loses_a_gradient_penalty(
        lambda x: _liger(x.clone(), target), lambda x: torch.nn.functional.cross_entropy(x, target)
    )


@finding("double-backward", "liger_softmax", "liger-kernel==0.8.5")
def penalty_of_softmax() -> str:
    apply = of("liger_kernel.ops.softmax", "LigerSoftmaxFunction").apply
    return _loses_a_gradient_penalty(lambda x: apply(x)[:, 0].sum(), lambda x: torch.softmax(x, -1)[:, 0].sum())


@finding("double-backward", "liger_sparsemax", "liger-kernel==0.8.5")
def penalty_of_sparsemax() -> str:
    """Its second derivative is 0 in the input, so that what is lost is that of what comes before the sum."""
    apply = of("liger_kernel.ops.sparsemax", "LigerSparsemaxFunction").apply

    def right(x: torch.Tensor) -> torch.Tensor:
        """Two elements are in the support of these rows."""
        two = x[:, :2]
        return ((two - (two.sum(-1, keepdim=True) - 1) / 2) ** 2).sum()

    return _loses_a_gradient_penalty(lambda x: (apply(x, -1) ** 2).sum(), right)


def _liger(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return of("liger_kernel.ops.cross_entropy", "LigerCrossEntropyFunction").apply(logits, target, None)[0]


def _loses_a_gradient_penalty(
    apply: Callable[[torch.Tensor], torch.Tensor], right: Callable[[torch.Tensor], torch.Tensor]
) -> str:
    """`f(x) + sum(grad f(x)**2)` has the gradient of `f(x)` alone, or another one than the penalty asks for."""

    def gradients(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([[0.3, 0.1, -2.0], [0.2, 0.6, -1.0]], requires_grad=True)
        value = function(x)
        (grad,) = torch.autograd.grad(value, x, create_graph=True)
        (total,) = torch.autograd.grad(value + (grad**2).sum(), x)
        return grad.detach(), total

    (grad, got), (exact_grad, want) = gradients(apply), gradients(right)
    torch.testing.assert_close(grad, exact_grad)
    assert not torch.allclose(got, want)
    return f"with a gradient penalty and no error: {got[0].tolist()} instead of {want[0].tolist()}"


def main() -> int:
    said = []
    for each in FINDINGS:
        name, _, version = each.package.partition("==")
        try:
            there = metadata.version(name)
        except metadata.PackageNotFoundError:
            there = ""
        if there != version:
            verdict, words = "n/a", f"{each.package} is not installed"
        else:
            try:
                verdict, words = "seen", each.look()
            except Exception as error:  # somebody's package may raise anything
                verdict, words = "not seen", f"{type(error).__name__}: {error}"
        said.append(verdict)
        print(f"{verdict}: {' '.join(each.rules)} of {each.function} ({each.package}): {words}", flush=True)
    return 1 if "not seen" in said else 0 if "seen" in said else 3


if __name__ == "__main__":
    sys.exit(main())
