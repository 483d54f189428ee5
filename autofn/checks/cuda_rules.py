"""CUDA: another current device, a side stream, a thread's first operation, hidden synchronisation, CUDA graphs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .rule import ERROR, FULL, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.comparing import allowed, difference
from .tools.pure import Pure, Tensors, pure, told

# Atomic additions come in any order: some hundred roundings more than `comparing` allows.
MARGIN = 100
# Clock ticks that the side stream sleeps before its inputs are written: about 25 ms at 2 GHz, far above a launch.
SLEEP_TICKS = 50_000_000
# Calls before a capture: libraries allocate workspaces and choose kernels at the first ones.
WARM_UPS = 3
JOIN_S = 20.0

Results = list[torch.Tensor]


def other_device(subject: Subject) -> Iterator[Finding | Seen]:
    """Inputs on the last device, with the first one current: the same values."""
    function = _on_cuda(subject)
    if torch.cuda.device_count() < 2:
        raise NotImplementedError("there is one CUDA device")
    want = _expected(function)
    last = torch.device("cuda", torch.cuda.device_count() - 1)
    moved = _moved(function, last)
    with torch.cuda.device(0):
        try:
            got = _forward_backward(moved, moved.leaves())
            torch.cuda.synchronize(last)
        except Exception as error:  # a kernel that looks at the current device
            yield Finding(f"raises with inputs on {last} while cuda:0 is current: {told(error)}", fix=GUARD)
            return
    yield from _compared(function, f"with inputs on {last} while cuda:0 is current", got, want, GUARD)


def side_stream(subject: Subject) -> Iterator[Finding | Seen]:
    """On a stream of its own, whose inputs are written late: a kernel on another stream would read them too early."""
    function = _on_cuda(subject)
    want = _expected(function)
    stream = torch.cuda.Stream()
    late = tuple(torch.zeros_like(t) for t in function.leaves())
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP_TICKS)
        for target, source in zip(late, function.leaves(), strict=True):
            target.copy_(source)
        got = _forward_backward(function, late)
    torch.cuda.synchronize()
    yield from _compared(function, "on a side stream", got, want, STREAM)


def first_in_a_thread(subject: Subject) -> Iterator[Finding | Seen]:
    """A backward with a ready-made gradient as the first operation of a thread."""
    function = _on_cuda(subject)
    want = _expected(function)
    leaves = tuple(t.requires_grad_() for t in function.leaves())
    outputs = function(*leaves)
    answers: list[Results | Exception] = []

    def work() -> None:
        try:
            answers.append(_backward(outputs, leaves, function.weights))
        except Exception as error:  # no context in this thread, for one
            answers.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(JOIN_S)
    if not answers:
        yield Finding(f"a backward that is a thread's first operation hangs: no answer after {JOIN_S:.0f} s", fix=GUARD)
    elif isinstance(answers[0], Exception):
        yield Finding(f"a backward that is a thread's first operation raises {told(answers[0])}", fix=GUARD)
    else:
        torch.cuda.synchronize()
        got = [out.detach() for out in outputs] + answers[0]
        yield from _compared(function, "as a thread's first operation", got, want, GUARD)


def synchronisation(subject: Subject) -> Iterator[Finding]:
    """Neither direction waits for the device, unless the reference does."""
    function = _on_cuda(subject)
    _expected(function)
    leaves = tuple(t.requires_grad_() for t in function.leaves())
    reference = None if subject.reference is None else pure(subject, apply=subject.reference)
    error = _waits(function, leaves)
    if error is None or (reference is not None and _waits(reference, leaves) is not None):
        return
    fix = "leave out .item(), .tolist(), .cpu(), nonzero(), boolean indexing and torch.cuda.synchronize()"
    yield Finding(f"waits for the device: {told(error)}", fix=fix)


def cuda_graph(subject: Subject) -> Iterator[Finding | Seen]:
    """Captured in a CUDA graph, forward and backward give the values of other inputs when replayed."""
    function = _on_cuda(subject)
    _expected(function)
    fixed = tuple(t.requires_grad_() for t in function.leaves())
    _warm_up(function, fixed)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            captured = _on_leaves(function, fixed)
    except Exception as error:  # a synchronisation, or memory from outside PyTorch's allocator
        fix = "synchronise nothing, and allocate through PyTorch"
        yield Finding(f"cannot be captured in a CUDA graph: {told(error)}", fix=fix, severity=INFO)
        return
    other = tuple(t.flip(0) if t.dim() else t for t in function.leaves())
    with torch.no_grad():
        for target, source in zip(fixed, other, strict=True):
            target.copy_(source)
    graph.replay()
    torch.cuda.synchronize()
    got = [t.clone() for t in captured]
    fix = "keep what depends on the inputs on the device: a Python number is baked into the graph"
    yield from _compared(function, "replayed from a CUDA graph", got, _forward_backward(function, other), fix)


# What they share

GUARD = "set the device of the inputs around each launch: at::cuda::CUDAGuard, or torch.cuda.device(x.device) in Python"
STREAM = (
    "launch on at::cuda::getCurrentCUDAStream(), never on stream 0, and call record_stream for what other streams use"
)


def _on_cuda(subject: Subject) -> Pure:
    if not torch.cuda.is_available():
        raise NotImplementedError("no CUDA device")
    if subject.device != "cuda":
        raise NotImplementedError("checked on the CPU; ask for --device cuda")
    if subject.compiled:
        raise NotImplementedError("PyTorch generated its kernels")
    if subject.intent.random:
        raise NotImplementedError("the Function is random: two calls differ by design")
    return pure(subject)


def _moved(function: Pure, device: torch.device) -> Pure:
    inputs = tuple(
        t.detach().to(device).requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
        for t in function.inputs
    )
    weights = tuple(w.to(device) for w in function.weights)
    return Pure(function.subject, inputs, function.places, function.kept, weights)


def _expected(function: Pure) -> Results:
    """The results on the current device and stream. Raises NotImplementedError where two calls differ."""
    first, second = (_forward_backward(function, function.leaves()) for _ in range(2))
    for mine, right in zip(first, second, strict=True):
        if difference(mine, right, *allowed(function.subject, right.dtype, right)) is not None:
            raise NotImplementedError("two calls differ")
    return first


def _forward_backward(function: Pure, leaves: Tensors) -> Results:
    """Outputs and gradients, each detached."""
    return _on_leaves(function, tuple(t.detach().requires_grad_() for t in leaves))


def _on_leaves(function: Pure, leaves: Tensors) -> Results:
    outputs = function(*leaves)
    return [out.detach() for out in outputs] + _backward(outputs, leaves, function.weights)


def _backward(outputs: Tensors, leaves: Tensors, weights: Tensors) -> Results:
    grads = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    return [torch.zeros_like(t) if grad is None else grad for t, grad in zip(leaves, grads, strict=True)]


def _compared(function: Pure, how: str, got: Results, want: Results, fix: str) -> Iterator[Finding | Seen]:
    outputs = len(function.kept)
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        where = f"output {function.kept[place]}" if place < outputs else f"gradient {place - outputs}"
        rtol, atol = allowed(function.subject, right.dtype, right)
        found = difference(mine, right, MARGIN * rtol, MARGIN * atol)
        if found is not None:
            yield found.finding(f"the values are others {how}", where, fix)
            return
    yield Seen(0.0)


@contextmanager
def _waiting_raises() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _waits(function: Pure, leaves: Tensors) -> Exception | None:
    """What PyTorch raises where forward or backward wait for the device."""
    try:
        with _waiting_raises():
            _on_leaves(function, leaves)
    except RuntimeError as error:
        return error if "synchroniz" in str(error) else None
    return None


def _warm_up(function: Pure, leaves: Tensors) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            _on_leaves(function, leaves)
    torch.cuda.current_stream().wait_stream(stream)


RULES = (
    Rule("cuda-device", ERROR, "kernels run on the inputs' device, whichever is current", other_device),
    Rule("cuda-stream", ERROR, "kernels run on the current stream", side_stream),
    Rule("cuda-thread", ERROR, "a backward may be the first operation of a thread", first_in_a_thread),
    Rule("cuda-sync", WARNING, "neither direction waits for the device", synchronisation),
    Rule("cuda-graph", ERROR, "a CUDA graph of it gives the right values when replayed", cuda_graph, level=FULL),
)
