"""What a call changes beside its results: the gradients of others, the settings of the process, the generators."""

from __future__ import annotations

import gc
import pickle
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .rule import ERROR, INFO, Finding, Rule
from .subject import Inputs, Subject, differentiable
from .tools.passes import Pass, forward, is_compiled, keeping_the_generators, named_tensors, reseed, working

ARGUMENT = (
    "make what needs a gradient an argument of apply and return its gradient; within a backward call "
    "torch.autograd.grad on detached leaves, never .backward()"
)
# Two states of the generators that must still differ after a call that began with each.
SEEDS = (20, 21)


@dataclass(frozen=True)
class Setting:
    """Something that holds for the whole thread or process: how to read and to set it, and values to begin with."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    values: tuple[Any, ...] = (False, True)


def _set_deterministic(on: bool) -> None:
    torch._C._set_deterministic_algorithms(on, warn_only=False)  # the public one imports the compiler


def _flushes_denormals() -> bool:
    return float(torch.full((1,), 1e-310, dtype=torch.float64) * 1) == 0


def _filters() -> list[Any]:
    return list(warnings.filters)


def _set_filters(filters: list[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]


SETTINGS = (
    Setting("the grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype, (torch.float32, torch.float64)),
    # Never two: a fork of a process that has run on several threads hangs when it does.
    Setting("the number of threads", torch.get_num_threads, torch.set_num_threads, (1,)),
    Setting(
        "autocast on the CPU",
        lambda: torch.is_autocast_enabled("cpu"),
        lambda on: torch.set_autocast_enabled("cpu", on),
    ),
    Setting(
        "the CPU's autocast dtype",
        lambda: torch.get_autocast_dtype("cpu"),
        lambda dtype: torch.set_autocast_dtype("cpu", dtype),
        (torch.bfloat16, torch.float16),
    ),
    Setting(
        "autocast on CUDA",
        lambda: torch.is_autocast_enabled("cuda"),
        lambda on: torch.set_autocast_enabled("cuda", on),
    ),
    Setting("anomaly mode", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    Setting("deterministic algorithms", torch.are_deterministic_algorithms_enabled, _set_deterministic),
    Setting(
        "the float32 matmul precision",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        ("highest", "high"),
    ),
    Setting("the flushing of denormal numbers", _flushes_denormals, torch.set_flush_denormal),
    Setting("Python's warning filters", _filters, _set_filters, ([], [("default", None, UserWarning, None, 1)])),
)


def side_effects(subject: Subject) -> Iterator[Finding]:
    """Settings, generators and the gradients of all other tensors are after a call what they were before."""
    with keeping_the_generators(), _keeping_the_settings():
        yield from _settings_changed(subject)
        working(subject)
        yield from _generators_reset(subject)
        yield from _gradients_touched(subject)


@contextmanager
def _keeping_the_settings() -> Iterator[None]:
    before = [setting.read() for setting in SETTINGS]
    try:
        yield
    finally:
        for setting, was in zip(SETTINGS, before, strict=True):
            setting.write(was)


def _settings_changed(subject: Subject) -> Iterator[Finding]:
    if is_compiled(subject):
        return  # a compiled graph is compiled again for other settings
    changed: dict[str, list[str]] = {"forward": [], "backward": []}
    for setting in SETTINGS:
        for phase in _phases_that_change(setting, subject):
            changed[phase].append(setting.name)
    inputs = subject.inputs()
    flags = [t.requires_grad for _, t in named_tensors(inputs)]
    subject.call(inputs)
    if flags != [t.requires_grad for _, t in named_tensors(inputs)]:
        changed["forward"].append("requires_grad of an argument")
    for phase, names in changed.items():
        if names:
            yield Finding(
                f"the {phase} changes {', '.join(names)} for all code after it",
                phase,
                fix="change it by a context manager, which restores it, or not at all",
            )


def _phases_that_change(setting: Setting, subject: Subject) -> list[str]:
    """The phases after which it is not what it was, whichever of its values that is."""
    found = set()
    for value in setting.values:
        try:
            with _keeping_the_settings():
                inputs = subject.inputs()
                setting.write(value)
                outputs = subject.call(inputs)
                if setting.read() != value:
                    found.add("forward")
                if any(map(differentiable, outputs)):
                    setting.write(value)
                    Pass(inputs, outputs, subject.grad_outputs(outputs)).backward()
                    if setting.read() != value:
                        found.add("backward")
        except Exception:  # it need not work in every setting
            continue
    return sorted(found)


def _generators_reset(subject: Subject) -> Iterator[Finding]:
    """From two states the generators must reach two states: else they were seeded, and later draws repeat."""
    ends = [_states_after(subject, seed) for seed in SEEDS]
    for phase, first, second in zip(("forward", "backward"), *ends, strict=True):
        repeated = [name for name in first if first[name] == second[name]]
        if repeated:
            yield Finding(
                f"the {phase} seeds {' and '.join(repeated)}: all later random numbers are the same after every call",
                phase,
                fix="draw from a torch.Generator of your own, or restore the state (torch.random.fork_rng)",
            )
            return


def _states_after(subject: Subject, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """The generators' states after a forward and after a backward that both began with the seed."""
    one = forward(subject, seed=seed)
    after_forward = _states()
    reseed(seed)
    one.backward()
    return after_forward, _states()


def _states() -> dict[str, str]:
    import numpy

    return {
        "PyTorch's generator": str(torch.get_rng_state().tolist()),
        "Python's generator": str(random.getstate()),
        "NumPy's generator": str(pickle.dumps(numpy.random.get_state())),
    }


def _gradients_touched(subject: Subject) -> Iterator[Finding]:
    """torch.autograd.grad writes no `.grad`: where one has changed, the backward did it."""
    inputs = subject.inputs()
    one = forward(subject, inputs)
    watched = _leaves_alive()
    with _gradients_kept(watched):
        before = [(t.grad, None if t.grad is None else t.grad._version) for t in watched]
        one.backward()
        after = [(t.grad, None if t.grad is None else t.grad._version) for t in watched]
        touched = [
            t for t, (old, was), (new, now) in zip(watched, before, after, strict=True) if old is not new or was != now
        ]
    if touched:
        names = sorted({_name(t, inputs) for t in touched})
        yield Finding(
            f"the backward writes the .grad of {', '.join(names[:3])}, which torch.autograd.grad did not ask for",
            names[0],
            "its .grad changes",
            "the gradient is returned",
            fix=ARGUMENT,
        )


def _leaves_alive() -> list[torch.Tensor]:
    """All tensors of this process that may have a `.grad`."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    return [t for t in tensors if t.requires_grad and t.is_leaf]


@contextmanager
def _gradients_kept(watched: list[torch.Tensor]) -> Iterator[None]:
    """Afterwards every `.grad` is the object that it was."""
    before = [t.grad for t in watched]
    try:
        yield
    finally:
        for t, grad in zip(watched, before, strict=True):
            t.grad = grad


def _name(t: torch.Tensor, inputs: Inputs) -> str:
    for name, each in named_tensors(inputs):
        if each is t:
            return name
    for place, value in enumerate(inputs):
        if isinstance(value, torch.nn.Module):
            for name, parameter in value.named_parameters():
                if parameter is t:
                    return f"{name} of the module that is input {place}"
    return f"a tensor of shape {list(t.shape)} that is no argument"


def hook_fires_twice(subject: Subject) -> Iterator[Finding]:
    """One backward through two calls: each leaf is accumulated into once, when all of its gradient is there.

    A hook of register_hook fires in an inner torch.autograd.grad too; that is worth knowing, and no error.
    """
    working(subject)
    with keeping_the_generators():
        inputs = subject.inputs()
        watched = _leaves_alive()
        fired: Counter[int] = Counter()
        accumulated: Counter[int] = Counter()
        handles = [t.register_hook(_count(fired, place)) for place, t in enumerate(watched)]
        handles += [t.register_post_accumulate_grad_hook(_count(accumulated, i)) for i, t in enumerate(watched)]
        try:
            with _gradients_kept(watched):
                _backward_of_two_calls(subject, inputs)
        except Exception as error:  # a Function may raise anything; other rules find it
            raise NotImplementedError(f"two uses in one graph: {type(error).__name__}: {error}") from error
        finally:
            for handle in handles:
                handle.remove()
    for counts, kind, severity in ((accumulated, "post-accumulate hook", ERROR), (fired, "hook", INFO)):
        place, most = max(counts.items(), key=lambda each: each[1], default=(0, 0))
        if most > 1:
            yield Finding(
                f"one backward through two uses fires the {kind} {most} times, each with a part of the gradient: the "
                "backward runs another backward (DistributedDataParallel: 'mark a variable ready only once')",
                _name(watched[place], inputs),
                f"{most} times",
                "once",
                fix=ARGUMENT,
                severity=severity,
            )
            return


def _count(counts: Counter[int], place: int) -> Callable[[torch.Tensor], None]:
    def hook(_: torch.Tensor) -> None:
        counts[place] += 1

    return hook


def _backward_of_two_calls(subject: Subject, inputs: Inputs) -> None:
    both = forward(subject, inputs), forward(subject, inputs)
    pairs = [
        (out, w)
        for one in both
        for out, w in zip(one.outputs, one.weights, strict=True)
        if out.requires_grad and w is not None
    ]
    outs, weights = zip(*pairs, strict=True)
    torch.autograd.backward(outs, weights)


RULES = (
    Rule("side-effects", "error", "a call changes nothing but its results", side_effects),
    Rule("hook-fires-twice", "error", "one backward accumulates into each parameter once", hook_fires_twice),
)
