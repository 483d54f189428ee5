"""What ships passes its own checks, over every variant of every Function that can run here."""

from __future__ import annotations

import pytest

import autofn
from autofn import registry
from autofn.checks.rule import ERROR, WARNING
from autofn.terms import COMPILED

COMPILING = ["value", "gradient", "double-backward", "compile-*", "recompilation"]
# Values and gradients of every compiled variant are in test_functions.py; here it is that the checks say the same.
SOME = registry.names()[:2]


def told(checked):
    return [f"{each.rule}: {each}" for each in checked.findings if each.severity in (ERROR, WARNING)]


def passed(checked):
    return {record.variant for record in checked.records if record.status == "ok"}


def runnable(function, compiled):
    return {
        variant.name
        for variant in registry.variants(function)
        if (variant.kind in COMPILED) == compiled and registry.unavailable(function, variant.name) is None
    }


@pytest.mark.slow
@pytest.mark.parametrize("function", registry.names())
def test_every_quick_rule_holds_for_every_variant_that_does_not_compile(function):
    found = autofn.check([function])
    assert told(found) == []
    assert set(found.frame["variant"]) == {variant.name for variant in registry.variants(function)}
    assert passed(found) == runnable(function, compiled=False)


@pytest.mark.slow
@pytest.mark.parametrize("function", SOME)
def test_values_and_derivatives_are_right_where_it_compiles(function):
    names = sorted(runnable(function, compiled=True))
    if not names:
        pytest.skip("no variant that compiles can run here")
    found = autofn.check([function], variants=names, level="full", select=COMPILING)
    assert told(found) == []
    assert passed(found) == set(names)


@pytest.mark.parametrize("name", registry.names())
def test_each_says_what_it_costs_and_how_many_bytes_it_saves(name):
    spec = registry.spec(name)
    assert spec.moved_bytes is not None
    assert any(promise.quantity == "saved_new_bytes" for promise in spec.promised)
