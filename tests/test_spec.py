"""A Spec refuses what contradicts itself, and says so by name."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from support import TOLERANCES, WORKLOADS, make_spec

from autofn import Tolerance
from autofn.spec import REQUIRED_WORKLOADS, dtype_name, dtype_named

TORCH_DTYPES = {found for found in vars(torch).values() if isinstance(found, torch.dtype)}


def test_a_spec_is_frozen():
    spec = make_spec()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.version = "2"


@pytest.mark.parametrize("name", ["", "Square", "2d", "rms-norm", "a b", "_x", "square\n", "straße"])
def test_a_name_that_could_not_be_a_folder_of_ours_is_refused(name):
    with pytest.raises(ValueError, match="a name is lower case"):
        make_spec(name=name)


@pytest.mark.parametrize("name", ["check", "report", "records", "functions", "lambda", "importlib", "annotations"])
def test_a_name_that_is_something_else_of_the_package_is_taken(name):
    with pytest.raises(ValueError, match=f"the name '{name}' is taken: "):
        make_spec(name=name)


@pytest.mark.parametrize("lacking", REQUIRED_WORKLOADS)
def test_a_lacking_workload_is_named(lacking):
    workloads = {name: sizes for name, sizes in WORKLOADS.items() if name != lacking}
    with pytest.raises(ValueError, match=rf"square: workloads must hold .*; add {lacking}$"):
        make_spec(workloads=workloads)


def test_more_workloads_than_required_are_welcome():
    assert "wide" in make_spec(workloads={**WORKLOADS, "wide": {"n": 9}}).workloads


@pytest.mark.parametrize(("field", "value"), [("tolerances", {}), ("version", "")])
def test_an_empty_declaration_is_refused(field, value):
    with pytest.raises(ValueError, match=f"square: {field} must"):
        make_spec(**{field: value})


@pytest.mark.parametrize("requires", [("entmax>=1",), ("",), ("a b",), ("entmax==",)])
def test_what_a_variant_requires_is_a_name_or_a_name_and_a_version(requires):
    with pytest.raises(ValueError, match=r"square: requires must hold NAME or NAME==VERSION, got "):
        make_spec(requires=requires)


def test_packages_that_are_one_text_are_refused():
    with pytest.raises(ValueError, match=r"square: requires must be a tuple of packages, got the text 'entmax==1.3'"):
        make_spec(requires="entmax==1.3")


@pytest.mark.parametrize(("rtol", "atol", "reason"), [(-1e-9, 0, "why"), (0, -1e-9, "why"), (0, 0, ""), (0, 0, "  \n")])
def test_a_tolerance_is_not_negative_and_has_a_reason(rtol, atol, reason):
    with pytest.raises(ValueError, match=r"^Tolerance: "):
        Tolerance(rtol, atol, reason)


def test_the_dtypes_are_those_with_a_tolerance_in_their_order():
    assert make_spec().dtypes == ("float32", "float64")
    assert make_spec(tolerances=dict(reversed(TOLERANCES.items()))).dtypes == ("float64", "float32")


def test_a_dtype_without_tolerance_is_an_error_that_lists_the_others():
    spec = make_spec()
    assert spec.tolerance(torch.float32) is TOLERANCES[torch.float32]
    with pytest.raises(LookupError, match="square has no dtype bfloat16; it has float32, float64"):
        spec.tolerance(torch.bfloat16)


def test_only_the_declared_variants_refuse_double_backward():
    spec = make_spec(once_differentiable=frozenset({"cpp"}))
    assert spec.refuses_double_backward("cpp")
    assert not spec.refuses_double_backward("python")
    assert not spec.refuses_double_backward("cpp_seeded")


@pytest.mark.parametrize("dtype", sorted(TORCH_DTYPES, key=str), ids=str)
def test_a_dtype_is_found_again_by_its_name(dtype):
    assert dtype_named(dtype_name(dtype)) is dtype


@pytest.mark.parametrize("name", ["float33", "torch.float32", "Tensor", "nn", ""])
def test_a_name_that_is_no_dtype_is_an_error(name):
    with pytest.raises(LookupError, match="torch has no dtype"):
        dtype_named(name)
