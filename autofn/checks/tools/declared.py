"""What the code of a Function declares by itself, so that nobody has to say it again."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..subject import Subject, function_of
from . import watching


def with_declared(subject: Subject) -> Subject:
    """The subject, its intent with the arguments that its code marks dirty, unless the intent names some."""
    if subject.intent.mutates:
        return subject
    return replace(subject, intent=replace(subject.intent, mutates=dirtied(subject)))


def dirtied(subject: Subject) -> tuple[int, ...]:
    """The positions of the arguments that the forward hands to ctx.mark_dirty.

    The forward runs only if its code names mark_dirty. An argument must be a copy then: a leaf that requires grad is
    refused.
    """
    function: Any = function_of(subject.apply)
    if function is None or not any(_names_mark_dirty(each) for each in (function.forward, function.setup_context)):
        return ()
    try:
        passed = watching.copies(subject.inputs())
    except Exception:  # a user's make_inputs may raise anything: the rules tell it
        return ()
    # What was marked before the forward raised still counts; that it raises is found by the rules.
    with watching.marks() as marked, suppress(Exception):
        watching.outputs_of(subject, passed)
    return tuple(place for place, t in enumerate(passed) if any(t is each for each in marked.dirty))


def _names_mark_dirty(method: Any) -> bool:
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and "mark_dirty" in code.co_names
