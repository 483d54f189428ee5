"""The registry finds Functions and variants in folders, says why one cannot run, and helps with names."""

from __future__ import annotations

import pytest
import torch
from support import DECLARATION, plant, unplant, write_function

from autofn import extension, registry


@pytest.fixture
def functions(tmp_path):
    return tmp_path / "functions"


@pytest.fixture
def planted(functions, request):
    """`planted()` makes the registry look into `functions`."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: plant(patch, functions)
    unplant()


def names_of(function):
    return [found.name for found in registry.variants(function)]


def test_every_shipped_function_has_a_spec_of_its_name_a_formula_and_a_reference():
    assert registry.names()
    for name in registry.names():
        assert registry.spec(name).name == name
        assert registry.load(name, "eager") is registry.spec(name).reference
        assert registry.documentation(name).startswith(registry.summary(name))
        assert "`" in registry.summary(name), "the first line of the docstring gives the formula"


def test_a_folder_with_an_init_is_a_function_and_nothing_else_is(functions, planted):
    for name in ("zebra", "ant"):
        write_function(functions, name)
    (functions / "no_init").mkdir()
    (functions / "no_init" / "python.py").write_text("")
    (functions / "lonely.py").write_text("")
    (functions / "__pycache__").mkdir()
    planted()
    assert registry.names() == ("ant", "zebra")
    assert registry.summary("ant") == "The square, `y = x * x`, planted by a test."


def test_variants_are_derived_or_files_in_the_order_of_the_kinds(functions, planted):
    declaration = DECLARATION.replace('{"compile": "compiling it would take longer than the test"}', "{}")
    more = dict.fromkeys(
        ["triton", "cpp", "python_combined", "python_a1", "fused", "helpers", "pythonic", "inputs", "cpp_", "eager"],
        "apply = abs",
    )
    write_function(functions, "ant", declaration, **more)
    planted()
    assert names_of("ant") == ["eager", "compile", "python", "python_a1", "python_combined", "fused", "cpp", "triton"]
    assert {v.name: v.kind for v in registry.variants("ant")}["python_combined"] == "python"
    assert registry.load("ant", "python_a1") is abs


def test_a_derived_variant_that_makes_no_sense_is_absent_with_its_reason(functions, planted):
    write_function(functions, "ant")
    planted()
    assert "compile" not in names_of("ant")
    with pytest.raises(LookupError, match="ant has no variant 'compile': compiling it would take longer"):
        registry.variant("ant", "compile")


def test_a_file_declared_away_is_absent_too(functions, planted):
    declaration = DECLARATION.replace('without={"compile"', 'without={"native": "broken upstream", "compile"')
    write_function(functions, "ant", declaration, native="apply = abs")
    planted()
    assert "native" not in names_of("ant")
    with pytest.raises(LookupError, match="broken upstream"):
        registry.load("ant", "native")


@pytest.mark.parametrize("lookup", [registry.spec, registry.variants, lambda name: registry.load(name, "eager")])
def test_a_near_name_is_suggested(functions, planted, lookup):
    for name in ("swiglu", "softmax"):
        write_function(functions, name)
    planted()
    with pytest.raises(LookupError, match=r"there is no Function 'swigul'; did you mean swiglu.* there are softmax, "):
        lookup("swigul")


def test_a_name_like_none_gets_no_suggestion_but_the_list(functions, planted):
    write_function(functions, "ant")
    planted()
    with pytest.raises(LookupError, match=r"^there is no Function 'qqqqqqqq'; there is ant$"):
        registry.spec("qqqqqqqq")


def test_a_near_variant_is_suggested(functions, planted):
    write_function(functions, "ant")
    planted()
    with pytest.raises(LookupError, match="ant has no variant 'pyton'; did you mean python"):
        registry.load("ant", "pyton")


def test_a_spec_that_is_not_named_like_its_folder_is_an_error(functions, planted):
    write_function(functions, "ant", DECLARATION.replace("NAME", "bee"))
    planted()
    with pytest.raises(ValueError, match="ant: the Spec's name must be its folder's, got 'bee'"):
        registry.spec("ant")


def test_a_variant_for_another_device_says_so(functions, planted):
    declaration = DECLARATION.replace("without=", 'only_on={"triton": "cuda"},\n    without=')
    write_function(functions, "ant", declaration, triton="raise AssertionError('must not be imported')")
    planted()
    assert registry.unavailable("ant", "triton", "cpu") == "runs on cuda only, not on cpu"
    assert registry.unavailable("ant", "python", "cpu") is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_nothing_runs_on_it():
    for name in registry.names():
        for found in registry.variants(name):
            assert registry.unavailable(name, found.name, "cuda") == "no CUDA device"


def test_a_module_that_is_not_installed_makes_a_variant_unavailable(functions, planted):
    write_function(functions, "ant", triton="import no_such_compiler\n")
    planted()
    assert "'no_such_compiler', which is not installed" in registry.unavailable("ant", "triton")


def test_a_defect_in_a_variant_is_an_error_when_loaded_and_a_reason_when_listed(functions, planted):
    write_function(functions, "ant", native="from .refernece import square", cpp="1 / 0", fused="from math import taau")
    planted()
    for variant, error, words in (
        ("native", ModuleNotFoundError, "refernece"),
        ("cpp", ZeroDivisionError, "division by zero"),
        ("fused", ImportError, "taau"),
    ):
        with pytest.raises(error, match=words):
            registry.load("ant", variant)
        assert registry.unavailable("ant", variant).startswith(f"cannot be loaded: {error.__name__}: ")


def test_without_a_compiler_what_needs_one_says_so(functions, planted, monkeypatch):
    declaration = DECLARATION.replace('{"compile": "compiling it would take longer than the test"}', "{}")
    write_function(functions, "ant", declaration, fused="apply = abs")
    planted()
    monkeypatch.setenv("CXX", "/nowhere/g++")
    for variant in ("compile", "fused"):
        assert "found no '/nowhere/g++'" in registry.unavailable("ant", variant)
    assert registry.unavailable("ant", "eager") is None


def test_an_operator_that_the_extension_lacks_is_not_there_with_a_reason(tmp_path, monkeypatch):
    with pytest.raises(NotImplementedError, match="extension"):
        extension.operator("no_such_operator")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"reason": "no C++ compiler 'c++' was found"}, "was not built: no C++ compiler 'c++'"),
        ({}, "was not built: install the package"),
    ],
)
def test_an_extension_that_was_not_built_says_why(monkeypatch, record, words):
    monkeypatch.setattr(extension, "build_record", lambda: record)
    monkeypatch.setattr(extension.importlib.util, "find_spec", lambda *names: None)
    assert words in extension.unavailable.__wrapped__()


@pytest.mark.parametrize(
    ("record", "words"),
    [({"torch": "1.0.0"}, "built for torch 1.0.0"), ({"arch": "x86-64-v3"}, "AUTOFN_ARCH=baseline")],
)
def test_an_extension_for_something_else_is_not_loaded(monkeypatch, record, words):
    monkeypatch.setattr(extension, "build_record", lambda: record)
    monkeypatch.setattr(extension.importlib.util, "find_spec", lambda *names: object())
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert words in extension.unavailable.__wrapped__()
