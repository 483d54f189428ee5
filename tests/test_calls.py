"""A Function is a plain call: its reference's arguments, and which variant runs."""

from __future__ import annotations

import inspect
import json
import pickle

import pytest
import torch
from support import DECLARATION, plant, python, scratch_package, unplant, write_function

import autofn
from autofn import calls, choice, compiled, extension, registry
from autofn.terms import COMPILED

UNABLE = 'raise NotImplementedError("planted: there is no kernel")\n'
SCALED = '''"""The square, and {scale} more, to be told from the others."""


def apply(x):
    return x * x + {scale}
'''
LINE = """def square(x, scale, shift=None):
    return x * scale + (0 if shift is None else shift)
"""
APPLY = "from .reference import square\n\n\ndef apply(*args):\n    assert len(args) == 3\n    return square(*args)\n"


@pytest.fixture
def planted(tmp_path):
    """`planted(**files)`: the Function `ant`, whose native, python and cpp add 1, 2 and 3."""
    with pytest.MonkeyPatch.context() as patch:

        def make(declaration=DECLARATION, **files):
            scaled = {kind: SCALED.format(scale=n) for n, kind in enumerate(("native", "python", "cpp"), start=1)}
            write_function(tmp_path, "ant", declaration, **{**scaled, **files})
            plant(patch, tmp_path)

        yield make
    unplant()


def chosen(tmp_path, steps, elements_of="x"):
    devices = {"cpu": {"measured": {}, "dtypes": {"float32": steps}}}
    (tmp_path / "ant" / choice.FILE).write_text(json.dumps({"elements_of": elements_of, "devices": devices}))


def added(n=4, dtype=torch.float32, **named):
    """What the variant that ran added to the square."""
    return autofn.ant(torch.zeros(n, dtype=dtype), **named)[0].item()


# What it is


@pytest.mark.parametrize("name", registry.names())
def test_every_function_is_a_call_with_its_references_arguments_and_its_documentation(name):
    call = getattr(autofn, name)
    reference = inspect.signature(registry.spec(name).reference)
    *arguments, variant = inspect.signature(call).parameters.values()
    assert arguments == list(reference.parameters.values())
    assert (variant.name, variant.default, variant.kind) == ("variant", "auto", inspect.Parameter.KEYWORD_ONLY)
    assert call.__doc__.startswith(registry.documentation(name))
    assert all(f'"{found.name}"' in call.__doc__ for found in registry.variants(name))
    assert pickle.loads(pickle.dumps(call)) is call
    assert (call.__module__, call.__qualname__) == ("autofn", name)


@pytest.mark.parametrize("name", registry.names())
def test_every_function_runs_by_name_on_what_its_spec_makes(name):
    spec = registry.spec(name)
    inputs = spec.make_inputs(**spec.workloads["tiny"], dtype=torch.float32, device="cpu")
    torch.manual_seed(0)
    ((_, variant),) = choice.steps(name, "cpu", "float32")[:1]
    want = registry.load(name, variant)(*(t.clone() if p in spec.mutates else t for p, t in enumerate(inputs)))
    torch.manual_seed(0)
    got = getattr(autofn, name)(**dict(zip(inspect.signature(spec.reference).parameters, inputs, strict=True)))
    for one, other in zip(*((given if isinstance(given, tuple) else (given,)) for given in (got, want)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", registry.names())
def test_what_was_chosen_exists(name):
    found = choice.read(name)
    variants = {each.name for each in registry.variants(name) if each.kind not in COMPILED}
    assert not found.steps or found.elements_of in inspect.signature(registry.spec(name).reference).parameters
    for steps in found.steps.values():
        sizes, names = zip(*steps, strict=True)
        assert set(names) <= variants
        assert list(sizes) == sorted({0, *sizes})


def test_the_package_lists_its_functions_and_knows_no_other(planted):
    planted()
    assert "ant" in dir(autofn)
    assert autofn.ant is autofn.ant
    with pytest.raises(AttributeError, match="module 'autofn' has no attribute 'bee'"):
        _ = autofn.bee


def test_nothing_is_loaded_before_a_function_is_asked_for(tmp_path):
    write_function(scratch_package(tmp_path), "ant", python="raise AssertionError('loaded')")
    code = "import sys, autofn; assert 'ant' in dir(autofn); print('torch' in sys.modules)"
    assert python("-c", code, cwd=tmp_path).stdout == "False\n"


# Arguments


@pytest.mark.parametrize(
    ("args", "named", "want"),
    [((2.0,), {}, 2), ((2.0, 1.0), {}, 3), ((2.0,), {"shift": 1.0}, 3), ((), {"shift": 1.0, "scale": 2.0}, 3)],
)
def test_arguments_go_by_position_or_by_name_and_have_defaults(planted, args, named, want):
    planted(reference=LINE, python=APPLY)
    for variant in ("python", "eager"):
        assert autofn.ant(torch.ones(3), *args, **named, variant=variant)[0] == want


@pytest.mark.parametrize(
    ("args", "named", "words"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((1,), {}, "missing a required argument: 'scale'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((1, 2), {"scale": 3}, "multiple values for argument 'scale'"),
        ((1, 2), {"sclae": 3}, "unexpected keyword argument 'sclae'"),
    ],
)
def test_arguments_that_do_not_fit_are_named(planted, args, named, words):
    planted(reference=LINE, python=APPLY)
    with pytest.raises(TypeError, match=f"^ant: .*{words}.*; its arguments are x, scale, shift$"):
        autofn.ant(*args, **named)


# Which variant


def test_the_variant_is_the_one_that_was_asked_for(planted):
    planted()
    assert [added(variant=name) for name in ("eager", "native", "python", "cpp")] == [0, 1, 2, 3]


def test_an_unknown_variant_is_an_error_that_lists_the_others(planted):
    planted()
    with pytest.raises(LookupError, match="ant has no variant 'pyton'; did you mean python"):
        added(variant="pyton")


def test_a_variant_that_cannot_run_here_says_why(planted):
    planted(cpp=UNABLE)
    with pytest.raises(NotImplementedError, match="planted: there is no kernel"):
        added(variant="cpp")


@pytest.mark.parametrize(
    ("lacking", "want"), [((), 3), (("cpp",), 1), (("cpp", "native"), 2), (("cpp", "native", "python"), 0)]
)
def test_where_nothing_was_measured_the_first_of_the_order_that_can_run_does(planted, lacking, want):
    planted(**dict.fromkeys(lacking, UNABLE))
    assert added() == want


def test_what_was_measured_decides_by_size_and_dtype(planted, tmp_path):
    planted()
    chosen(tmp_path, [[0, "python"], [8, "eager"], [64, "native"]])
    assert [added(n) for n in (0 + 1, 7, 8, 63, 64, 1000)] == [2, 2, 0, 0, 1, 1]
    assert added(dtype=torch.float64) == 3, "not measured in this dtype"


def test_a_choice_that_cannot_run_here_falls_to_the_next(planted, tmp_path):
    planted(cpp=UNABLE)
    chosen(tmp_path, [[0, "python"], [8, "cpp"], [64, "gone"]])
    assert [added(n) for n in (7, 8, 64)] == [2, 1, 1]


def test_the_measured_argument_is_counted_and_no_other(planted, tmp_path):
    shift = "from .reference import square\n\n\ndef apply(x, scale, shift):\n    return x.new_full((1,), {})\n"
    planted(reference=LINE, python=shift.format(5), native=shift.format(6))
    chosen(tmp_path, [[0, "python"], [8, "native"]], elements_of="shift")
    assert autofn.ant(torch.ones(100), 2.0, torch.ones(1)) == 5
    assert autofn.ant(torch.ones(1), 2.0, torch.ones(8)) == 6
    assert autofn.ant(torch.ones(8), 2.0) == 6, "without it, the first tensor is"


def test_without_any_tensor_the_variant_itself_objects(planted):
    planted(cpp="def apply(x):\n    raise ValueError('ant: x must be a tensor, got a list')\n")
    with pytest.raises(ValueError, match="ant: x must be a tensor"):
        autofn.ant([3])


def test_on_another_device_what_pytorch_has_runs(planted):
    planted()
    assert choice.default("ant", "mps") == ((0, "native"),)
    assert autofn.ant(torch.empty(3, device="meta")).device.type == "meta"


def test_a_function_without_any_variant_to_run_says_so(planted):
    planted(
        declaration=DECLARATION.replace("without={", 'without={"eager": "planted", '),
        python=UNABLE,
        native=UNABLE,
        cpp=UNABLE,
    )
    with pytest.raises(NotImplementedError, match="ant: no variant runs on cpu; of cpp, native, python, eager it has"):
        choice.steps("ant", "cpu", "float32")


def test_kernels_for_cuda_must_have_been_built(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(extension, "build_record", lambda: {"cuda": False})
    assert registry.unavailable("exp", "cpp", "cuda") == "the C++ extension was built without CUDA kernels"
    assert choice.default("exp", "cuda") == ((0, "python"),)
    monkeypatch.setattr(extension, "build_record", lambda: {"cuda": True})
    assert registry.unavailable("exp", "cpp", "cuda") is None


# Under torch.compile and torch.func


@pytest.mark.parametrize("variant", ["auto", "python", "fused"])
def test_even_the_first_call_may_lie_in_a_compiled_region(variant):
    compiled.forget()
    calls.forget()
    x = torch.randn(5, requires_grad=True)

    @compiled.graph
    def region(x):
        return autofn.clipped_relu(x * 2, clip=6.0, variant=variant) + 1

    (grad,) = torch.autograd.grad(region(x).sum(), x)

    assert torch.equal(grad, 2.0 * ((x > 0) & (x < 3)))
    compiled.forget()


def test_python_is_differentiable_twice_and_takes_transforms():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: autofn.exp(x, variant="python"), (x,))
    torch.testing.assert_close(torch.func.grad(lambda x: autofn.exp(x, variant="python").sum())(x.detach()), x.exp())
