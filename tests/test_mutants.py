"""Faults planted by program in the Functions that ship are found, by the rule that is about them."""

from __future__ import annotations

import pytest

from trials import mutants

MUTATIONS = {mutation.name: mutation for mutation in mutants.MUTATIONS}
# One of each mutation: Function, place, and the rule that must name it.
PLANTED = {
    "scaled": ("linear", 0, "gradient"),
    "negated": ("rms_norm", 1, "gradient"),
    "dropped": ("linear", 1, "none-gradient"),
    "zeroed": ("linear", 2, "gradient"),
    "transposed": ("linear", 1, "gradient"),
    "detached": ("rms_norm", 0, "double-backward"),
    "first row only": ("clipped_relu", 0, "gradient"),
    "NaN at zero": ("clipped_relu", 0, "gradient"),
    "half precision": ("exp", 0, "gradient"),
    "other dtype": ("exp", 0, "gradient-dtype"),
    "other shape": ("exp", 0, "gradient-shape"),
    "mean grad_output": ("exp", 0, "gradient"),
    "packed grad_output": ("clipped_relu", 0, "grad-output-layout"),
    "write to grad_output": ("exp", 0, "mutated-grad-output"),
    "write to saved": ("rms_norm", 0, "mutated-saved"),
    "once only": ("exp", 0, "retain-graph"),
    "hoard": ("exp", 0, "leak"),
    "noise": ("exp", 0, "gradient"),
    "on ctx": ("exp", 0, "ctx-tensor"),
    "detached on ctx": ("rms_norm", 0, "version-check"),
    "in a global": ("exp", 0, "state-between-calls"),
    "output on ctx": ("exp", 0, "reference-cycle"),
    "spare copies": ("linear", 0, "ctx-tensor"),
    "write to input": ("exp", 0, "mutated-input"),
    "packed input": ("exp", 0, "input-layout"),
    "all gradients": ("linear", 0, "frozen-work"),
}


def test_every_mutation_is_planted():
    assert set(PLANTED) == set(MUTATIONS)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_leaves_no_trace(name):
    function, place, rule = PLANTED[name]
    assert place in mutants.places_of(function, MUTATIONS[name])
    found = mutants.findings(function, MUTATIONS[name], place, select=[rule])
    assert {each.rule for each in found} == {rule}
    assert mutants.findings(function, mutants.Mutation("none", "nothing", lambda *_: None), place, select=[rule]) == []


def test_a_bias_gradient_of_zeros_is_told_in_gradchecks_own_words():
    """The exercise of the extending-PyTorch lesson: gradcheck names output, input and both Jacobians."""
    found = mutants.findings("linear", MUTATIONS["zeroed"], 2, select=["gradient"])
    told = "\n".join(map(str, found))
    assert "Jacobian mismatch for output 0 with respect to input 2" in told


def test_a_report_lists_what_lives():
    living = mutants.Mutant("exp", "scaled", 0, (), "")
    caught = mutants.Mutant("exp", "negated", 0, ("gradient",), "observed")
    page = mutants.page([living, caught])
    assert "2 mutants of the `python` variants, 1 of them live" in page
    assert "| scaled | a gradient one and a half times as large | 0: **lives** |" in page
    assert "| negated | a gradient with the other sign | 0: gradient |" in page
