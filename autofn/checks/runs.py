"""Whether the forward takes the given arguments at all. Where it does not, no other rule has anything to say."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import ERROR, Finding, Rule
from .subject import Subject


def runs(subject: Subject) -> Iterator[Finding]:
    """The forward returns something for the arguments that it is checked with."""
    error = raised(subject)
    if isinstance(error, NotImplementedError):
        raise error
    if error is not None:
        yield Finding(
            f"the forward raises {type(error).__name__}: {' '.join(str(error).split())[:500]}",
            fix="give it arguments that it is for (make_inputs), and see that it runs before it is checked",
        )


def raised(subject: Subject) -> Exception | None:
    """What the forward raises for fresh arguments, or None."""
    try:
        subject.call(subject.inputs())
    except Exception as error:  # a Function may raise anything
        return error
    return None


RULES = (Rule("runs", ERROR, "the forward takes the arguments that it is checked with", runs),)
