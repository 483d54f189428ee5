"""The corpus of faults under tests/faults/, each as a subject for the rules."""

from __future__ import annotations

from pathlib import Path

from autofn import sources
from autofn.checks import rules
from autofn.checks.intent import Intent
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable

FOLDER = Path(__file__).parent / "faults"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))


def subject(name, **declared):
    """The subject of tests/faults/<name>.py, with what its author would declare."""
    module = sources._file(FOLDER / f"{name}.py")
    intended = {
        "surrogate": getattr(module, "DECLARES", {}).get("gradient") == "surrogate",
        "mutates": tuple(getattr(module, "DECLARES", {}).get("mutates", ())),
        "random": getattr(module, "DECLARES", {}).get("random", False),
    }
    intent = Intent(**{**intended, **declared})
    return of_callable(
        module.FUNCTION, module.make_inputs, reference=getattr(module, "reference", None), intent=intent, who=name
    )


def findings(name, rule_ids=None, **declared):
    """What the rules (all, or those named) find in a fault, in this process."""
    chosen = [rule for rule in rules() if rule_ids is None or rule.id in rule_ids]
    return [found for rule in chosen for found in judge(Job(rule, lambda: subject(name, **declared))).findings]
