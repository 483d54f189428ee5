"""Every fault of the corpus is found by the rule that is about it; what is right gives no error and no warning."""

from __future__ import annotations

import pytest
from faulty import NAMES, subject

from autofn.checks import plan, runner
from autofn.checks.rule import ERROR, INFO, WARNING
from autofn.checks.runner import Job

# The rule that must name the fault, and how gravely.
EXPECTED = {
    "01_row_grad_as_scalar": ("gradient", ERROR),
    "02_grad_strides_ignored": ("grad-output-layout", ERROR),
    "04_inplace_on_grad_output": ("mutated-grad-output", ERROR),
    "05_forward_clobbers_input": ("mutated-input", ERROR),
    "06_backward_clobbers_saved": ("mutated-saved", ERROR),
    "07_grad_shape_hidden_sum": ("gradient-shape", WARNING),
    "08_duplicate_indices": ("repeated-indices", ERROR),
    "10_offset_overflow": ("other-sizes", ERROR),
    "11_nan_at_zero_norm": ("special-values", ERROR),
    "12_all_masked_row": ("special-values", ERROR),
    "15_assumes_normalised": ("other-values", ERROR),
    "17_low_precision_accumulation": ("precision-grows", ERROR),
    "18_gradient_wrong_dtype": ("gradient-dtype", WARNING),
    "19_intermediate_double_backward": ("double-backward", ERROR),
    "20_opaque_backward": ("double-backward", ERROR),
    "21_output_on_ctx": ("reference-cycle", ERROR),
    "23_ctx_tensor_outlives_backward": ("ctx-tensor", ERROR),
    "24_frozen_weight_work": ("frozen-work", WARNING),
    "26_cache_cleared": ("retain-graph", ERROR),
    "27_inner_graph_freed": ("retain-graph", ERROR),
    "29_shared_scratch_threads": ("thread-safety", ERROR),
    "30_stale_weight_checkpoint": ("saved-hooks", ERROR),
    "32_version_check_bypassed": ("version-check", ERROR),
    "34_missing_mark_dirty": ("mutated-input", ERROR),
    "35_none_grad_crash": ("none-grad", ERROR),
    "38_tensors_in_a_list": ("hidden-tensor", ERROR),
    "39_captured_parameter": ("captured-tensor", ERROR),
    "41_none_for_needed_input": ("none-gradient", ERROR),
    "42_no_setup_context": ("func-grad", INFO),
    "44_jvp_ignores_tangent": ("jvp", ERROR),
    "45_compile_drops_backward": ("compile-values", ERROR),
    # An info: torch 2.13 loses the term of every Function with a jvp, right ones too.
    "46_nested_jacfwd": ("nested-transforms", INFO),
    "48_recompute_without_rng": ("randomness", ERROR),
    "50_empty_batch": ("zero-size", ERROR),
    "51_missing_conjugate": ("complex-gradient", ERROR),
    "53_input_layout_assumed": ("input-layout", ERROR),
    "54_custom_op_wrong_fake": ("opcheck", ERROR),
    "55_custom_op_undeclared_mutation": ("opcheck", ERROR),
    "58_ddp_marked_twice": ("hook-fires-twice", ERROR),
    "59_bench_first_call": ("timing-first-call", INFO),
    "60_bench_grads_accumulate": ("timing-accumulation", INFO),
    "61_bench_warm_cache": ("timing-caches", INFO),
    "62_bench_oversubscription": ("timing-threads", INFO),
    "63_bench_denormals": ("timing-denormals", INFO),
    "64_bench_peak_memory": ("timing-peak", INFO),
    "65_bench_noise_regression": ("timing-noise", INFO),
    "66_bench_input_without_grad": ("timing-gradients", INFO),
    "67_bench_saved_memory_count": ("timing-saved", INFO),
}  # fmt: skip
RIGHT = tuple(name for name in NAMES if name.startswith("ok_"))
# Right Functions that are benchmarked wrongly.
BENCHMARKS = tuple(name for name in EXPECTED if "_bench_" in name)


def findings(name, *further):
    """The findings of all quick rules, and of those named whatever their level, as `autofn check` runs them."""
    rules = {rule.id: rule for rule in (*plan.chosen(), *(plan.chosen(further) if further else ()))}
    outcomes = runner.run([Job(rule, lambda: subject(name)) for rule in rules.values()])
    return [found for outcome in outcomes for found in outcome.findings]


def test_every_fault_has_its_rule():
    assert set(EXPECTED) | set(RIGHT) == set(NAMES)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_is_found_by_the_rule_that_is_about_it(name):
    rule, severity = EXPECTED[name]
    found = findings(name, rule)
    told = [f"{each.severity} {each.rule}: {each}" for each in found]
    assert (rule, severity) in {(each.rule, each.severity) for each in found}, "\n".join(told)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_gives_no_error_and_no_warning(name):
    assert [f"{each.severity} {each.rule}: {each}" for each in findings(name) if each.severity != INFO] == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_right_function_in_a_wrong_benchmark_has_no_error(name):
    assert [f"{each.rule}: {each}" for each in findings(name) if each.severity == ERROR] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes_the_rules_that_compile(name):
    slow = [rule for rule in plan.chosen(level="full") if rule.level == "full"]
    outcomes = runner.run([Job(rule, lambda: subject(name)) for rule in slow])
    found = [each for outcome in outcomes for each in outcome.findings]
    assert [f"{each.severity} {each.rule}: {each}" for each in found if each.severity != INFO] == []
