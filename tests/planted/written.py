"""Functions planted in a line or two, and what a rule says of them."""

from __future__ import annotations

import torch

from autofn.checks import rules
from autofn.checks.intent import Intent
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable


def function(forward, backward, name="Planted", **more):
    """A torch.autograd.Function of `forward(ctx, *args)`, or `forward(*args)` with a setup_context, and a backward."""
    methods = {"forward": forward, "backward": backward, **more}
    return type(name, (torch.autograd.Function,), {key: staticmethod(value) for key, value in methods.items()})


def normal(*shape, dtype=torch.float64):
    """Standard normal, always the same for a shape; it requires grad."""
    return (
        torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype).requires_grad_()
    )


def outcome(rule_id, given, make_inputs, reference=None, **intent):
    """What one rule says of a Function or any other callable."""
    (rule,) = (each for each in rules() if each.id == rule_id)
    subject = of_callable(given, make_inputs, reference=reference, intent=Intent(**intent), who="planted")
    return judge(Job(rule, lambda: subject))


def findings(rule_id, given, make_inputs, reference=None, **intent):
    """The findings of one rule; the rule must apply."""
    said = outcome(rule_id, given, make_inputs, reference, **intent)
    assert said.status != "n/a", said.reason
    return said.findings


def messages(*given, **named):
    """The findings as text."""
    return [str(each) for each in findings(*given, **named)]
