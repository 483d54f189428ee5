"""For your own pytest suite: a Function of yours must keep autograd's contract, one test a rule.

import autofn.testing

@autofn.testing.each_rule
def test_my_function(rule):
    autofn.testing.assert_correct(MyFunction, make_inputs, reference=my_reference, rule=rule)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .checks import check
from .checks.plan import chosen
from .records import OK, UNAVAILABLE


def rules(level: str = "quick") -> list[str]:
    """The names of the rules of a level. Raises ValueError for an unknown level."""
    return [rule.id for rule in chosen(level=level)]


each_rule = pytest.mark.parametrize("rule", rules())
"""Decorate a test with an argument `rule`: it runs once for each quick rule."""

every_rule = pytest.mark.parametrize("rule", rules("full"))
"""As `each_rule`, with the rules that compile."""


def assert_correct(
    function: Callable[..., Any], make_inputs: Callable[..., Any], *, rule: str | None = None, **options: Any
) -> None:
    """Fails the test where a rule finds an error; the message holds each finding and its fix.

    rule: one rule, and then the test is skipped with the reason where it does not apply; else all quick ones.
    options: those of `autofn.check`, such as reference, surrogate, mutates, level. Raises LookupError for an unknown
    rule, ValueError for options that do not go together.
    """
    __tracebackhide__ = True
    found = check(function, make_inputs, **({"select": [rule], **options} if rule else options))
    if found.errors:
        told = (f"{each.rule}: {each}" + (f"\n    fix: {each.fix}" if each.fix else "") for each in found.errors)
        pytest.fail("\n".join(told), pytrace=False)
    if all(record.status == UNAVAILABLE for record in found.records):
        pytest.skip(found.records[0].reason if found.records else "no rule was chosen")
    assert any(record.status == OK for record in found.records)
