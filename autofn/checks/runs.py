"""Whether the forward takes the given arguments at all. Where it does not, no other rule has anything to say."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import must_share_a_device
from ..sources import told
from .rule import ERROR, Finding, Rule
from .subject import Subject


def runs(subject: Subject) -> Iterator[Finding]:
    """The forward returns something for the arguments that it is checked with."""
    try:
        must_share_a_device(subject.inputs())
    except ValueError as mixed:
        yield Finding(str(mixed), "inputs")
        return
    error = raised(subject)
    if isinstance(error, NotImplementedError):
        raise error
    if error is not None:
        yield Finding(
            f"the forward raises {' '.join(told(error).split())[:500]}",
            fix="give it arguments that it is for (make_inputs), and see that it runs before it is checked",
        )


def raised(subject: Subject) -> Exception | None:
    """What the forward raises for fresh arguments, or None."""
    try:
        inputs = subject.inputs()
        must_share_a_device(inputs)
        subject.call(inputs)
    except Exception as error:  # a Function may raise anything
        return error
    return None


RULES = (Rule("runs", ERROR, "the forward takes the arguments that it is checked with", runs),)
