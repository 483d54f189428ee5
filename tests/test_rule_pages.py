"""Every rule has a page whose wrong Function it finds, and whose right one no quick rule faults."""

from __future__ import annotations

import re

import documents
import pytest
import torch

from autofn import sources
from autofn.checks import pages, plan, rules, runner
from autofn.checks.rule import ERROR
from autofn.checks.runner import Job
from autofn.checks.subject import of_callable

RULES = {rule.id: rule for rule in rules()}
# These are about the benchmarks of a Function; their pages show benchmarks.
TIMING = {name for name in RULES if name.startswith("timing-")}
CUDA = {name for name in RULES if name.startswith("cuda-")}
PAGES = sorted(set(RULES) - TIMING)


def subject_of(code, path):
    path.write_text(code)
    module = sources.named(f"{path}:make_inputs").__globals__
    functions = [
        each
        for each in module.values()
        if isinstance(each, type)
        and issubclass(each, torch.autograd.Function)
        and each.__module__ == module["__name__"]
    ]
    return of_callable(
        functions[-1],
        module["make_inputs"],
        reference=module.get("reference"),
        promises=module.get("PROMISES", ()),
    )


def test_every_page_is_of_a_rule_and_says_its_meaning_and_its_severity():
    assert {path.stem for path in pages.FOLDERS[1].glob("*.md")} == set(RULES)
    for name, rule in RULES.items():
        title, text = pages.page(name).split("\n", 1)
        assert title == f"# {name}: {rule.meaning}"
        assert re.search(rf"^Severity: .*{rule.severity}", text, re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_the_wrong_function_of_a_page_is_found(name, tmp_path):
    if name in CUDA and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    subject = subject_of(documents.block(pages.page(name), "python wrong"), tmp_path / "wrong.py")
    (outcome,) = runner.run([Job(RULES[name], lambda: subject)])
    assert outcome.findings, outcome.reason or f"{name} finds nothing"


@pytest.mark.parametrize("name", PAGES)
def test_the_right_function_of_a_page_has_no_error(name, tmp_path):
    subject = subject_of(documents.block(pages.page(name), "python right"), tmp_path / "right.py")
    chosen = {rule.id: rule for rule in (*plan.chosen(), RULES[name])}
    outcomes = runner.run([Job(rule, lambda: subject) for rule in chosen.values()])
    errors = [f"{each.rule}: {each}" for outcome in outcomes for each in outcome.findings if each.severity == ERROR]
    assert errors == []
