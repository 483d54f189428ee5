"""One gradient an argument: none too few or too many, none for what is no tensor, and none left out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import torch

from .rule import INFO, Finding, Rule
from .subject import Inputs, Subject, exact, positions
from .tools import watching
from .tools.comparing import same_bits
from .tools.pure import seeded
from .tools.watching import Backward

# The engine's words; it counts from 1. Which arguments were tensors is not to be read from a node.
FOR_NO_TENSOR = re.compile(r"a gradient different than None at position (\d+)")


def arity(subject: Subject) -> Iterator[Finding]:
    """The backward returns one gradient an argument, a tensor or None, whichever inputs require grad."""
    watching.functions(subject)
    told: set[str] = set()
    for inputs in _choices(subject):
        with watching.backwards() as calls:
            refusal = _refusal(subject, inputs)
        for finding in (*(each for call in calls for each in _miscounted(call)), *_for_no_tensor(calls, refusal)):
            if finding.message not in told:
                told.add(finding.message)
                yield finding


def _choices(subject: Subject) -> Iterator[Inputs]:
    """The arguments as given, then with some of the inputs frozen."""
    places = positions(subject.inputs())
    for kept in (places, *([] if subject.compiled else watching.subsets(places))):
        yield watching.frozen(subject.inputs(), kept)


def _refusal(subject: Subject, inputs: Inputs) -> str:
    """What a backward raises, as text; other rules judge whether it may."""
    try:
        watching.gradients(subject, inputs)
    except Exception as error:  # a Function may raise anything
        return str(error)
    return ""


def _miscounted(call: Backward) -> Iterator[Finding]:
    want, got = len(call.node.needs_input_grad), len(call.grads)
    where = f"backward of {call.name}"
    fix = "return one value an argument of forward (ctx left out), None for what has no gradient"
    extra = call.grads[want:]
    if got < want:
        yield Finding("too few gradients are returned", where, str(got), str(want), fix=fix)
    elif any(grad is not None for grad in extra):
        yield Finding("too many gradients are returned", where, str(got), str(want), fix=fix)
    elif extra and got > _parameters(call):
        yield Finding("more values are returned than there are arguments", where, str(got), str(want), None, fix, INFO)
    for place, grad in enumerate(call.grads[:want]):
        if grad is not None and not isinstance(grad, torch.Tensor):
            kind = type(grad).__name__
            yield Finding("a gradient must be a tensor or None", f"gradient {place} of {call.name}", kind, fix=fix)


def _parameters(call: Backward) -> int:
    """How many arguments forward takes, those with a default counted too; the engine drops a None for each."""
    function = call.node._forward_cls
    taken = inspect.signature(function.forward).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in taken):
        return len(call.grads)
    return len(taken) - (not watching.has_setup_context(function))


def _for_no_tensor(calls: list[Backward], refusal: str) -> Iterator[Finding]:
    found = FOR_NO_TENSOR.search(refusal)
    if found:
        place = int(found[1]) - 1
        where = f"gradient {place} of {calls[-1].name}" if calls else f"gradient {place}"
        fix = f"return None in place {place}"
        yield Finding("a gradient is returned for an argument that is no tensor", where, "a tensor", "None", fix=fix)


def none_gradient(subject: Subject) -> Iterator[Finding]:
    """An input that requires grad gets a gradient if the outputs depend on it, whatever else requires grad."""
    if subject.intent.surrogate and subject.truth is None:
        raise NotImplementedError("the gradient is declared a surrogate of nothing known: None may be meant")
    whole = watching.need_a_backward(subject)
    missing = {place for place, grad in whole.items() if grad is None}
    if len(whole) > 1 and not subject.compiled:
        missing |= {place for place in whole if _missing_alone(subject, place)}
    if not missing:
        return
    needed = dependent(subject)
    for place in sorted(missing & needed):
        alone = "" if whole[place] is None else ", where no other input requires grad"
        fix = f"return the gradient wherever ctx.needs_input_grad[{place}] holds"
        message = f"the gradient is None although the output depends on the input{alone}"
        yield Finding(message, f"gradient of input {place}", "None", "a gradient that is not zero", fix=fix)


def _missing_alone(subject: Subject, place: int) -> bool:
    try:
        return watching.gradients(subject, watching.frozen(subject.inputs(), (place,)))[place] is None
    except Exception:  # that it raises is another rule's finding
        return False


def dependent(subject: Subject) -> set[int]:
    """The inputs that require grad on which the outputs depend, by the reference's gradient or by trying."""
    if subject.truth is not None:
        inputs = exact(subject.inputs())
        with seeded():
            grads = subject.gradients(inputs, apply=subject.truth)
        return {
            place for place, grad in zip(positions(inputs), grads, strict=True) if grad is not None and bool(grad.any())
        }
    return {place for place in positions(subject.inputs()) if moves(subject, place)}


def moves(subject: Subject, place: int) -> bool:
    """Whether an output with a gradient changes with a small change of an input; False where calls differ anyway."""
    base, again, moved = (_values(subject, place, step) for step in (0.0, 0.0, watching.STEP))
    return same_bits(base, again) and not same_bits(base, moved)


def _values(subject: Subject, place: int, step: float) -> list[torch.Tensor]:
    """The outputs that require grad, or the floating ones where none does."""
    inputs = watching.moved(subject.inputs(), [place], step)
    with seeded():
        outputs = watching.tensors(subject.call(inputs))
    tracked = [out for out in outputs if out.requires_grad]
    return [out.detach() for out in tracked or outputs if out.is_floating_point() or out.is_complex()]


RULES = (
    Rule(
        "arity",
        "error",
        "the backward returns one gradient an argument, None for what is no tensor",
        arity,
        written=True,
    ),
    Rule(
        "none-gradient", "error", "an input that the outputs depend on never gets None as its gradient", none_gradient
    ),
)
