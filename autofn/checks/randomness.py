"""Random numbers: the same for the same seed, and the same in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .rule import INFO, WARNING, Finding, Rule, Seen
from .subject import Subject, leaves, positions
from .tools.comparing import same_bits
from .tools.passes import (
    SEED,
    Pass,
    Result,
    backward_draws,
    compared,
    copied,
    forward,
    is_compiled,
    keeping_the_generators,
    reseed,
    result,
)

OTHER_SEED = SEED + 1
# Central differences in float64, as those of gradcheck: they err by eps**2 times a third derivative and 1e-16 / eps.
EPS, RTOL = 1e-6, 1e-4
DIRECTIONS = 3
SAME_MASK = "save the mask, or the generator's state before it was drawn, and restore that around the second draw"


def determinism(subject: Subject) -> Iterator[Finding]:
    """Two calls with one seed agree bit for bit; without a seed too, unless the Function is random."""
    with keeping_the_generators():
        first, second = _tried(subject), _tried(subject)
        if not same_bits(first.tensors, second.tensors):
            yield from _differ(subject, first, second)
            return
        if not is_compiled(subject):
            yield from _uninitialised(subject, first)
        yield from _other_generators(subject, first)
        if not subject.intent.random and not _is_random(subject):
            return
        if not subject.intent.random and not _reference_is_random(subject):
            yield Finding(
                "two calls without a seed differ: the Function draws random numbers",
                fix="declare it random, and its gradient is checked under fixed seeds",
                severity=INFO,
            )


def _tried(subject: Subject, seed: int = SEED) -> Result:
    try:
        return result(subject, seed=seed)
    except Exception as error:  # a Function may raise anything; other rules find it
        raise NotImplementedError(f"forward and backward do not work: {type(error).__name__}: {error}") from error


def _differ(subject: Subject, first: Result, second: Result) -> Iterator[Finding]:
    """On a GPU the order of additions may differ from run to run."""
    fix = "read no clock, address, counter or uninitialised memory; draw from PyTorch's generator"
    message = "two calls with the same inputs and the same seed differ"
    wrong = list(compared(subject, second, first, message, fix))
    if wrong:
        yield from wrong
    elif subject.device == "cpu":
        yield Finding(f"{message} in their last bits", observed="other bits", fix=fix, severity=WARNING)


def _uninitialised(subject: Subject, want: Result) -> Iterator[Finding]:
    """With all that torch.empty gives filled with NaN, as PyTorch does in its deterministic mode."""
    with _filled_memory():
        try:
            got = _tried(subject)
        except NotImplementedError:  # an operation without a deterministic implementation
            return
    for where, mine, right in zip(_names(subject, want), got.tensors, want.tensors, strict=True):
        if mine is None or right is None or mine.shape != right.shape or not mine.is_floating_point():
            continue
        fresh = ~mine.isfinite() & right.isfinite()
        if fresh.any():
            yield Finding(
                "uninitialised memory is read: with torch.empty filled with NaN the result has NaN",
                where,
                f"{int(fresh.sum())} of {fresh.numel()} elements NaN",
                "finite",
                fix="write every element of what torch.empty gives, or take torch.zeros",
            )
            return


def _names(subject: Subject, want: Result) -> list[str]:
    grads = [f"gradient of input {place}" for place in positions(subject.inputs())]
    return [f"output {place}" for place in range(len(want.outputs))] + grads


@contextmanager
def _filled_memory() -> Iterator[None]:
    """torch.use_deterministic_algorithms would import the compiler; what it sets in the end is this."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch._C._get_deterministic_fill_uninitialized_memory()
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch._C._set_deterministic_fill_uninitialized_memory(True)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(before[0], warn_only=before[1])
        torch._C._set_deterministic_fill_uninitialized_memory(filled)


def _other_generators(subject: Subject, want: Result) -> Iterator[Finding]:
    """PyTorch's generator seeded alike, Python's and NumPy's not."""
    got = _only_pytorch_seeded(subject)
    yield from compared(
        subject,
        got,
        want,
        "random numbers come from Python's or NumPy's generator: torch.manual_seed does not fix them, and activation "
        "checkpointing, which restores PyTorch's, recomputes with others",
        "draw with torch.rand, torch.randn, torch.bernoulli",
    )


def _only_pytorch_seeded(subject: Subject) -> Result:
    inputs = subject.inputs()
    reseed(OTHER_SEED)
    torch.manual_seed(SEED)
    outputs = subject.call(inputs)
    one = Pass(inputs, outputs, subject.grad_outputs(outputs))
    return Result(copied(outputs), copied(one.backward()))  # type: ignore[arg-type]


def _is_random(subject: Subject) -> bool:
    """Whether the outputs depend on the seed."""
    return not same_bits(*(copied(forward(subject, seed=seed).outputs) for seed in (SEED, OTHER_SEED)))


def _reference_is_random(subject: Subject) -> bool:
    if subject.reference is None:
        return False
    outputs = []
    for seed in (SEED, OTHER_SEED):
        inputs = subject.inputs()
        reseed(seed)
        outputs.append(copied(subject.call(inputs, subject.reference)))
    return not same_bits(*outputs)


def randomness(subject: Subject) -> Iterator[Finding | Seen]:
    """The backward draws nothing of its own; of a random Function it is the derivative under that seed."""
    with keeping_the_generators():
        want = _tried(subject)
        if not leaves(subject.inputs()):
            raise NotImplementedError("no argument requires grad")
        wrong = list(_drawn_in_backward(subject, want))
        yield from wrong
        yield from _repeated(subject)
        drawn = subject.intent.random or _is_random(subject)
        if drawn and not wrong and not subject.intent.surrogate and subject.dtype == torch.float64:
            yield from _slopes(subject)


def _repeated(subject: Subject) -> Iterator[Finding]:
    """What depends on the seed, or is declared random, must differ from one call to the next."""
    reseed(SEED)
    outputs = [copied(subject.call(subject.inputs())) for _ in range(2)]
    if not same_bits(*outputs):
        return
    seeded = _is_random(subject)
    if seeded or (subject.intent.random and not backward_draws(subject)):
        yield Finding(
            "two calls in a row draw the same random numbers",
            "output 0",
            "the same outputs",
            "another draw",
            fix="draw from the generator without setting or restoring its state in the forward",
            severity="" if subject.intent.random else WARNING,
        )


def _drawn_in_backward(subject: Subject, want: Result) -> Iterator[Finding]:
    """The generators start elsewhere before the backward: it must not matter."""
    one = forward(subject)
    outputs = copied(one.outputs)
    reseed(OTHER_SEED)
    got = Result(outputs, copied(one.backward()))  # type: ignore[arg-type]
    if same_bits(got.outputs, want.outputs):
        message = (
            "the gradient depends on the generator's state at the backward: it draws other numbers than the forward"
        )
        yield from compared(subject, got, want, message, SAME_MASK)


def _slopes(subject: Subject) -> Iterator[Finding | Seen]:
    """The gradient against the change of the outputs along random directions, each call under the same seed."""
    inputs = subject.inputs()
    one = forward(subject, inputs)
    grads = one.backward()
    generator = torch.Generator().manual_seed(SEED)
    for place, leaf, grad in zip(positions(inputs), leaves(inputs), grads, strict=True):
        if grad is None or leaf.dtype != torch.float64 or not leaf.numel():
            continue
        found, slopes = [], []
        for _ in range(DIRECTIONS):
            direction = torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype)
            high, low = (_weighted(subject, place, sign * EPS * direction, one.weights) for sign in (1, -1))
            slopes.append((high - low) / (2 * EPS))
            found.append(float((grad * direction).sum()))
        errors = [abs(mine - slope) for mine, slope in zip(found, slopes, strict=True)]
        scale = max(1.0, *(abs(slope) for slope in slopes), float(grad.abs().max()))
        # A kink may lie within one of the steps, hardly within two.
        if sorted(errors)[1] > RTOL * scale:
            worst = errors.index(max(errors))
            yield Finding(
                "is not the derivative of the forward under the same seed: it uses other random numbers than that",
                f"gradient of input {place}",
                f"slope {found[worst]:.6g} along a random direction",
                f"{slopes[worst]:.6g}",
                max(errors),
                SAME_MASK,
            )
        else:
            yield Seen(sorted(errors)[1])


def _weighted(subject: Subject, place: int, step: torch.Tensor, weights: tuple[torch.Tensor | None, ...]) -> float:
    """The sum of the weighted outputs where one input is a step away, under the seed of all."""
    inputs = list(subject.inputs())
    inputs[place] = (inputs[place].detach() + step).requires_grad_()
    outputs = forward(subject, tuple(inputs)).outputs
    return sum(float((out.detach() * w).sum()) for out, w in zip(outputs, weights, strict=True) if w is not None)


RULES = (
    Rule("determinism", "error", "the same inputs and the same seed give the same bits", determinism),
    Rule("randomness", "error", "the backward uses the random numbers of its forward", randomness),
)
