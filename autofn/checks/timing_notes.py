"""What a benchmark of this Function must heed, with what was seen of it; infos, but for a set-up that spoils times.

`autofn bench` heeds all of them. Source of the kinds: public reports of benchmarks that were wrong (docs/rules).
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ..case import denormal_positions
from .rule import INFO, QUICK, WARNING, Finding, Rule
from .subject import Inputs, Subject, leaves, positions
from .tools.variations import resized, sizes_of
from .tools.watching import operations, tensors

# A size that no other rule has used, so that what is made once a size is made now.
UNUSED = 43
# A call that does this many operations more than the next one has set something up.
SET_UP = 10
# Numbers enough that arithmetic is most of a call.
MANY = 1 << 16
MOST = 1 << 23
SLOWER = 4.0
TURNS = 9
# Past it no further turn begins: a loop over the dimension that is now large takes seconds a call.
TURNS_S = 1.0
CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


def first_call(subject: Subject) -> Iterator[Finding]:
    """Operations of the first call at a size that was not there before, against those of the second."""
    first, second = _at(subject, UNUSED, lambda inputs: (_operations(subject, inputs), _operations(subject, inputs)))
    if first >= second + SET_UP:
        yield Finding(
            "the first call at a new size sets something up",
            observed=f"{first} operations", expected=f"{second}, as in the second call",
            fix="warm up by the very call that is timed; autofn bench reports first_call_s apart",
        )  # fmt: skip


def accumulation(subject: Subject) -> Iterator[Finding]:
    """`.backward()` twice: the second adds to `.grad`, which a training step does not."""
    inputs = subject.inputs()
    wanted = [leaf for leaf in leaves(inputs) if leaf.numel()]
    seen: list[list[float]] = []
    for _ in range(2):
        outputs = subject.call(inputs)
        pairs = [(out, w) for out, w in zip(outputs, subject.grad_outputs(outputs), strict=True) if w is not None]
        if not pairs or not wanted:
            raise NotImplementedError("there is no gradient to accumulate")
        torch.autograd.backward([out for out, _ in pairs], [w for _, w in pairs])
        seen.append([leaf.grad.abs().sum().item() for leaf in wanted if leaf.grad is not None])
    grown = [after / before for before, after in zip(*seen, strict=True) if before]
    if grown:
        yield Finding(
            f"after two backwards without a reset .grad is {max(grown):.3g} times the gradient, and the second did an "
            "addition more for each input",
            fix="set .grad to None outside the clock, or use torch.autograd.grad; autofn bench does",
        )


def gradients(subject: Subject) -> Iterator[Finding]:
    """Which inputs a backward gives gradients for: with fewer it does less."""
    inputs = subject.inputs()
    wanted = positions(inputs)
    floating = [
        place
        for place, t in enumerate(inputs)
        if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())
    ]
    without = [place for place in floating if place not in wanted]
    lacking = f"; inputs {without} could have one and do not require grad" if without else ""
    yield Finding(f"gradients are requested for inputs {wanted}{lacking}")


def caches(subject: Subject) -> Iterator[Finding]:
    """Whether the data of one call fit the last-level cache, so that repeated calls are warm."""
    held = _last_level_bytes()
    inputs = subject.inputs()
    with torch.no_grad():
        tensors = [t for t in (*inputs, *subject.call(inputs)) if isinstance(t, torch.Tensor)]
    size = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
    if size < held:
        yield Finding(
            f"inputs and outputs are {size:,} bytes and stay in a cache of {held:,}: repeated calls are timed warm",
            fix="time a size that leaves the cache too; on CUDA autofn bench gives warm and cold times apart",
        )


def denormals(subject: Subject) -> Iterator[Finding]:
    """Denormal inputs (a warning), or a Function that is several times slower for them."""
    inputs = subject.inputs()
    found = denormal_positions(inputs)
    if found:
        yield Finding(
            f"inputs {found} hold denormal numbers, on which arithmetic may be many times slower", severity=WARNING,
            fix="make inputs of normal numbers, never of torch.empty",
        )  # fmt: skip
        return
    normal, slow = _at(subject, MANY, lambda large: (_seconds(subject, large), _seconds(subject, _tiny(large))))
    if slow > SLOWER * normal:
        yield Finding(f"calls on denormal numbers take {slow / normal:.0f} times as long: times depend on the values")


def threads(subject: Subject) -> Iterator[Finding]:
    """More threads asked for than there are cores (a warning), or how many an operation may use."""
    cores = len(os.sched_getaffinity(0))
    asked = max((int(os.environ.get(name, 0) or 0) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")), default=0)
    if asked > cores:
        yield Finding(
            f"{asked} threads are asked for and there are {cores} cores: threads wait for each other", severity=WARNING,
            fix="unset OMP_NUM_THREADS and MKL_NUM_THREADS; autofn bench takes one thread, and refuses more than cores",
        )  # fmt: skip
    else:
        yield Finding(f"times are for one thread of {cores} cores; more threads than cores would wait for each other")


def peak(subject: Subject) -> Iterator[Finding]:
    """The high-water mark of the process, which no call moves back."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    subject.call(subject.inputs())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Finding(
        f"the process's peak was {before / 1024:.0f} MiB before the call and is {after / 1024:.0f} MiB after it: it is "
        "not this call's",
        fix="measure from a reset baseline; autofn bench counts the allocator's bytes in a process of its own",
    )


def noise(subject: Subject) -> Iterator[Finding]:
    """How far two series of the same calls lie apart, pair by pair."""
    inputs = subject.inputs()
    with torch.no_grad():
        pairs = [(_once(subject, inputs), _once(subject, inputs)) for _ in range(TURNS)]
    apart = median(abs(one / two - 1) for one, two in pairs)
    yield Finding(
        f"two samples of the same code differ by {apart:.1%} here: no difference is one until it is above the noise",
        fix="compare many paired samples of several processes; autofn bench takes the baseline twice for the floor",
    )


def saved(subject: Subject) -> Iterator[Finding]:
    """Bytes of the saved storages, each once, the caller's own apart; and what adding up the tensors would give."""
    inputs = subject.inputs()
    seen: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(seen.append, lambda packed: packed):
        outputs = subject.call(inputs)
    if not seen:
        raise NotImplementedError("nothing is saved")
    own = {_address(t) for t in (*inputs, *outputs) if isinstance(t, torch.Tensor)}
    sizes = {_address(t): t.untyped_storage().nbytes() for t in seen}
    new = sum(size for address, size in sizes.items() if address not in own)
    naive = sum(t.numel() * t.element_size() for t in seen)
    if naive != new:
        yield Finding(
            f"{len(seen)} tensors are saved in {len(sizes)} storages: {new:,} bytes are new, "
            f"{sum(sizes.values()) - new:,} are those of inputs and outputs; adding up the tensors gives {naive:,}"
        )


def _at(subject: Subject, size: int, run: Callable[[Inputs], tuple[Any, Any]]) -> tuple[Any, Any]:
    """What `run` gives for the arguments with one dimension of another size, the first that the forward accepts."""
    inputs = subject.inputs(torch.float32)
    for old in sizes_of(inputs):
        if sum(prod(size if each == old else each for each in t.shape) for t in tensors(inputs)) > MOST:
            continue
        changed = resized(inputs, {old: size})
        try:
            return run(changed)
        except Exception:  # the formula does not go with that size: the next one may
            continue
    raise NotImplementedError("no dimension can have another size")


def _operations(subject: Subject, inputs: Inputs) -> int:
    with operations() as seen:
        subject.call(inputs)
    return len(seen.seen)


def _seconds(subject: Subject, inputs: Inputs) -> float:
    """The shortest of TURNS calls, or of those that began within TURNS_S: one at least."""
    taken: list[float] = []
    with torch.no_grad():
        while len(taken) < TURNS and sum(taken) < TURNS_S:
            taken.append(_once(subject, inputs))
    return min(taken)


def _once(subject: Subject, inputs: Inputs) -> float:
    begin = time.perf_counter()
    subject.call(inputs)
    return time.perf_counter() - begin


def _tiny(inputs: Inputs) -> Inputs:
    return tuple(
        torch.full_like(t, 1e-40) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs
    )


def _address(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _last_level_bytes() -> int:
    """The size of the largest cache. Raises NotImplementedError where the system does not say."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [path.read_text().strip() for path in CACHE.glob("index*/size")]
    if not sizes:
        raise NotImplementedError(f"the size of the caches is not in {CACHE}")
    return max(int(size[:-1]) * units[size[-1]] if size[-1] in units else int(size) for size in sizes)


def _rule(name: str, meaning: str, run: Callable[[Subject], Iterator[Finding]]) -> Rule:
    return Rule(f"timing-{name}", INFO, meaning, run, level=QUICK)


RULES = (
    _rule("first-call", "the first call does what the others do", first_call),
    _rule("accumulation", "gradients are reset between timed backwards", accumulation),
    _rule("gradients", "a timed backward gives the gradients that training needs", gradients),
    _rule("caches", "warm and cold times are told apart", caches),
    _rule("denormals", "times do not depend on the values", denormals),
    _rule("threads", "no more threads than cores", threads),
    _rule("peak", "a peak is counted from a reset baseline", peak),
    _rule("noise", "a difference is above the noise of the machine", noise),
    _rule("saved", "saved bytes are counted once a storage, the caller's own apart", saved),
)
