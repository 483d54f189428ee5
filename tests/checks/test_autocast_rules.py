"""Autocast: decorators, precision and values."""

import pytest
import torch
from faulty import NAMES
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

custom_fwd = torch.amp.custom_fwd(device_type="cpu")
custom_bwd = torch.amp.custom_bwd(device_type="cpu")


def pair(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype)


def forward(ctx, x, w):
    ctx.save_for_backward(x, w)
    return x @ w


def backward(ctx, g):
    x, w = ctx.saved_tensors
    return g @ w.t(), x.t() @ g


def in_float16(ctx, g):
    with torch.autocast("cpu", dtype=torch.float16):
        return backward(ctx, g)


def bits_of_float32(ctx, x, w):
    """Takes the output for float32, as a kernel that reads raw memory does."""
    ctx.save_for_backward(x, w)
    y = x @ w
    return y if y.dtype != torch.bfloat16 else y.view(torch.int16).to(torch.float32)


def test_custom_bwd_alone_is_an_error():
    (found,) = findings("autocast", function(forward, custom_bwd(backward)), pair)
    assert found.severity == "error"
    assert "no custom_fwd" in found.message


def test_custom_fwd_alone_is_a_warning():
    (found,) = findings("autocast", function(custom_fwd(forward), backward), pair)
    assert found.severity == "warning"
    assert "no custom_bwd" in found.message


def test_a_backward_that_names_its_own_dtype_is_an_error():
    (found,) = findings("autocast", function(forward, in_float16), pair)
    assert (found.severity, found.observed, found.expected) == ("error", "float16", "bfloat16")


def test_values_that_autocast_spoils_are_an_error():
    (found,) = findings(
        "autocast", function(bits_of_float32, lambda ctx, g: (g @ ctx.saved_tensors[1].t(), None)), pair
    )
    assert found.severity == "error"
    assert found.where == "output 0"


def test_mixed_dtypes_that_raise_are_told():
    (found,) = findings("autocast", function(forward, backward), pair)
    assert found.severity == "info"
    assert "same dtype" in found.message
    assert "custom_fwd" in found.fix


def test_one_that_claims_autocast_and_raises_is_an_error():
    def broken(ctx, g):
        x, w = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return g @ w.t(), x.t() @ g

    (found,) = findings("autocast", function(custom_fwd(forward), custom_bwd(broken)), pair)
    assert found.severity == "error"


def test_both_decorators_pass():
    assert findings("autocast", function(custom_fwd(forward), custom_bwd(backward)), pair) == ()


def test_a_forward_that_casts_to_float32_passes():
    cast = torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    assert findings("autocast", function(cast(forward), custom_bwd(backward)), pair) == ()


def test_plain_operations_pass():
    assert findings("autocast", lambda x, w: (x @ w).softmax(-1), pair) == ()


def test_a_backward_that_computes_in_float32_passes():
    def widened(ctx, g):
        x, w = ctx.saved_tensors
        return g.float() @ w.t(), x.t() @ g.float()

    assert findings("autocast", function(forward, widened), pair) == ()


def test_a_backward_that_writes_to_grad_output_does_not_change_what_it_is_compared_with():
    planted = function(lambda ctx, x, w: x + w[:, 0], lambda ctx, g: (g.mul_(2), None))
    assert findings("autocast", planted, pair) == ()


def test_a_function_that_takes_no_float32_is_not_judged():
    def only_float64(x, w):
        if x.dtype != torch.float64:
            raise TypeError("needs float64")
        return x @ w

    assert outcome("autocast", only_float64, pair).status == "n/a"


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("ok_")])
def test_no_right_one_of_the_corpus_is_blamed(name):
    assert all(each.severity == "info" for each in of_fault(name, ["autocast"]))


def test_a_value_far_off_names_the_way_out():
    planted = function(bits_of_float32, lambda ctx, g: (g @ ctx.saved_tensors[1].t(), None))
    assert "far from the one without it" in messages("autocast", planted, pair)[0]
