"""What ships passes its own checks: every rule, over every variant of every Function that can run here."""

from __future__ import annotations

import pytest

import autofn
from autofn import registry
from autofn.records import FAILED, OK


@pytest.mark.slow
@pytest.mark.parametrize("function", registry.names())
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_every_rule_holds_for_every_variant(function):
    found = autofn.check([function]).frame
    failed = found[found["status"] == FAILED]
    findings = [f"{row.metric} {row.variant} {row.dtype}: {row.reason}" for row in failed.itertuples()]
    assert not findings, "\n".join(findings)
    assert set(found["variant"]) == {variant.name for variant in registry.variants(function)}
    runnable = {v.name for v in registry.variants(function) if registry.unavailable(function, v.name) is None}
    assert set(found[found["status"] == OK]["variant"]) == runnable
