"""torch.vmap against a loop, with planted vmap rules."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome


def pair(dtype=torch.float64):
    return normal(4, dtype=dtype), normal(4, dtype=dtype) + 1


def one(dtype=torch.float64):
    return (normal(2, 4, dtype=dtype),)


def keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def product(vmap):
    """x * y with a vmap rule; `Product.apply` is what the rule may call."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return Product.apply(g, y), Product.apply(g, x)

    Product.vmap = staticmethod(lambda info, in_dims, x, y: vmap(Product.apply, info, in_dims, x, y))
    return Product


def at_front(t, dim, size):
    return t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0)


def right(apply, info, in_dims, x, y):
    return apply(*(at_front(t, dim, info.batch_size) for t, dim in zip((x, y), in_dims, strict=True))), 0


WRONG = {
    "in_dims ignored": lambda apply, info, in_dims, x, y: (apply(x, y), 0),
    "the first dimension assumed": lambda apply, info, in_dims, x, y: (
        apply(
            *(
                t if dim is not None else t.expand(info.batch_size, *t.shape)
                for t, dim in zip((x, y), in_dims, strict=True)
            )
        ),
        0,
    ),
    "None not handled": lambda apply, info, in_dims, x, y: (
        apply(x.movedim(in_dims[0], 0), y.movedim(in_dims[1], 0)),
        0,
    ),
    "one dimension for all": lambda apply, info, in_dims, x, y: (
        apply(
            *(
                at_front(t, dim if dim is None or in_dims[0] is None else in_dims[0], info.batch_size)
                for t, dim in zip((x, y), in_dims, strict=True)
            )
        ),
        0,
    ),
    "out_dims wrong": lambda apply, info, in_dims, x, y: (right(apply, info, in_dims, x, y)[0], 1),
    "detached": lambda apply, info, in_dims, x, y: right(apply, info, in_dims, x.detach(), y.detach()),
    "the order lost": lambda apply, info, in_dims, x, y: (right(apply, info, in_dims, x, y)[0].flip(0), 0),
    "the mean of the batch": lambda apply, info, in_dims, x, y: (
        apply(at_front(x, in_dims[0], info.batch_size), at_front(y, in_dims[1], info.batch_size).mean(0)),
        0,
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_vmap_rule_is_an_error(fault):
    (found,) = findings("vmap", product(WRONG[fault]), pair)
    assert found.severity == "error"
    assert "in_dims" in found.fix


def test_the_in_dims_are_named():
    (found,) = findings("vmap", product(WRONG["None not handled"]), pair)
    assert "in_dims=(0, None)" in found.message


def test_a_rule_that_refuses_in_clear_words_is_told():
    def refusing(apply, info, in_dims, x, y):
        raise ValueError("product: both must be batched")

    (found,) = findings("vmap", product(refusing), pair)
    assert found.severity == "info"
    assert "both must be batched" in found.message


def test_a_right_rule_passes():
    assert findings("vmap", product(right), pair) == ()
    assert of_fault("ok_43_vmap_rule", ["vmap"]) == []


def test_a_generated_rule_passes():
    planted = function(
        lambda x: x.softmax(-1),
        lambda ctx, g: (y := ctx.saved_tensors[0].softmax(-1)) * (g - (g * y).sum(-1, keepdim=True)),
        setup_context=keep_inputs,
    )
    planted.generate_vmap_rule = True
    assert findings("vmap", planted, one) == ()


def test_integer_arguments_are_batched_too():
    def indexed(dtype=torch.float64):
        return normal(5, dtype=dtype), torch.tensor([0, 2, 2])

    assert findings("vmap", lambda x, i: x[i] * 2, indexed) == ()


def test_without_a_rule_that_is_told():
    planted = function(lambda x: x * 2, lambda ctx, g: g * 2, setup_context=keep_inputs)
    (found,) = findings("vmap", planted, one)
    assert found.severity == "info"
    assert "generate_vmap_rule = True" in found.fix


def test_an_operator_registered_with_a_wrong_vmap_is_an_error():
    @torch.library.custom_op("autofn_tests_batching::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_vmap
    def _(info, in_dims, x):
        return twice(x).flip(0), in_dims[0]

    twice.register_autograd(lambda ctx, g: twice(g))
    (found,) = findings("vmap", twice, one)
    assert found.severity == "error"


def test_without_setup_context_or_with_randomness_there_is_nothing_to_check():
    planted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    assert outcome("vmap", planted, one).status == "n/a"
    assert outcome("vmap", lambda x: x * torch.rand_like(x), one, random=True).status == "n/a"
