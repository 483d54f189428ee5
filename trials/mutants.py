"""Does `autofn check` find the faults that are planted in Functions which are right?

    python -m trials.mutants --out FOLDER [FUNCTION...]

Each mutation changes one thing in the `python` variant of a Function, such as a gradient scaled, dropped or detached, a
write in place, or a ctx attribute instead of saving, and every quick rule is run on the result. Writes mutants.json and
mutants.md: which rules found each mutant, and which mutants live.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autofn import registry
from autofn.checks import plan, runner
from autofn.checks.rule import INFO, Finding
from autofn.checks.runner import Job
from autofn.checks.subject import custom_nodes, of_variant
from autofn.measure import machine
from autofn.records import write_atomically

VARIANT = "python"
Grads = list[Any]


@dataclass(frozen=True)
class Mutation:
    """One planted fault. plant: changes the class, given the place of the gradient that it is about."""

    name: str
    meaning: str
    plant: Callable[[Any, int], None]


@dataclass(frozen=True)
class Mutant:
    """A mutation of a Function. found: the rules that found it, errors and warnings; told: what the first one said."""

    function: str
    mutation: str
    place: int
    found: tuple[str, ...]
    told: str


# Mutations of what the backward returns


def of_gradient(change: Callable[[torch.Tensor], Any]) -> Callable[[Any, int], None]:
    """Changes the gradient at the place, where there is one."""

    def plant(function: Any, place: int) -> None:
        backward = function.backward

        def mutant(ctx: Any, *grad_outputs: Any) -> Any:
            found = backward(ctx, *grad_outputs)
            grads = list(found) if isinstance(found, tuple) else [found]
            if grads[place] is not None:
                grads[place] = change(grads[place])
            return tuple(grads)

        function.backward = staticmethod(mutant)

    return plant


def _transposed(grad: torch.Tensor) -> torch.Tensor:
    """The elements in column-major order; for a vector, from the last to the first."""
    return grad.flip(0) if grad.dim() < 2 else grad.transpose(-1, -2).reshape(grad.shape)


def _too_large(grad: torch.Tensor) -> torch.Tensor:
    return torch.stack([grad * 0.25, grad * 0.75])


# Mutations of what the backward is given, and of what it does beside


def of_grad_output(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, int], None]:
    """Changes every grad_output before the backward sees it."""

    def plant(function: Any, place: int) -> None:
        backward = function.backward

        def mutant(ctx: Any, *grad_outputs: Any) -> Any:
            return backward(ctx, *(None if g is None else change(g) for g in grad_outputs))

        function.backward = staticmethod(mutant)

    return plant


def _read_as_packed(grad: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that takes the strides of a packed tensor for granted."""
    reach = sum((size - 1) * stride for size, stride in zip(grad.shape, grad.stride(), strict=True))
    if grad.numel() == 0 or reach + 1 < grad.numel():
        return grad.contiguous() if grad.numel() == 0 else grad.reshape(-1)[:1].expand(grad.numel()).reshape(grad.shape)
    return grad.as_strided(grad.shape, torch.empty(grad.shape, device="meta").stride())


def beside(act: Callable[[Any, Sequence[Any], Grads], Any]) -> Callable[[Any, int], None]:
    """Does something more after the backward, with ctx, grad_outputs and gradients at hand."""

    def plant(function: Any, place: int) -> None:
        backward = function.backward

        def mutant(ctx: Any, *grad_outputs: Any) -> Any:
            found = backward(ctx, *grad_outputs)
            grads = list(found) if isinstance(found, tuple) else [found]
            act(ctx, grad_outputs, grads)
            return tuple(grads)

        function.backward = staticmethod(mutant)

    return plant


def _write_to_grad_output(ctx: Any, grad_outputs: Sequence[Any], grads: Grads) -> None:
    with torch.no_grad():
        for grad in grad_outputs:
            if grad is not None and not any(grad is each for each in grads):
                grad.mul_(2)


def _write_to_saved(ctx: Any, grad_outputs: Sequence[Any], grads: Grads) -> None:
    with torch.no_grad():
        for saved in ctx.saved_tensors:
            if saved is not None:
                saved.data.mul_(2)


def _forget(ctx: Any, grad_outputs: Sequence[Any], grads: Grads) -> None:
    if getattr(ctx, "done", False):
        raise AttributeError("ctx has nothing left for a second backward")
    ctx.done = True


KEPT: list[Any] = []


def _hoard(ctx: Any, grad_outputs: Sequence[Any], grads: Grads) -> None:
    KEPT.extend(grad.detach().clone() for grad in grads if grad is not None)


def _noise(ctx: Any, grad_outputs: Sequence[Any], grads: Grads) -> None:
    for place, grad in enumerate(grads):
        if grad is not None:
            grads[place] = grad * (1 + 0.1 * torch.rand_like(grad))


# Mutations of saving


class Stashing:
    """Stands for ctx: what is saved goes to where `keep` says, not through save_for_backward."""

    def __init__(self, ctx: Any, keep: Callable[[Any, tuple[Any, ...]], None]) -> None:
        object.__setattr__(self, "_real", ctx)
        object.__setattr__(self, "_keep", keep)

    def save_for_backward(self, *tensors: Any) -> None:
        self._keep(self._real, tensors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


class Fetching:
    """Stands for ctx in the backward: saved_tensors are those that were kept."""

    def __init__(self, ctx: Any, fetch: Callable[[Any], tuple[Any, ...]]) -> None:
        object.__setattr__(self, "_real", ctx)
        object.__setattr__(self, "_fetch", fetch)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._fetch(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def of_saving(
    keep: Callable[[Any, tuple[Any, ...]], None], fetch: Callable[[Any], tuple[Any, ...]]
) -> Callable[[Any, int], None]:
    """Saves and fetches by another way."""

    def plant(function: Any, place: int) -> None:
        setup, backward = function.setup_context, function.backward
        function.setup_context = staticmethod(lambda ctx, inputs, output: setup(Stashing(ctx, keep), inputs, output))
        function.backward = staticmethod(lambda ctx, *grads: backward(Fetching(ctx, fetch), *grads))

    return plant


def _on_ctx(ctx: Any, tensors: tuple[Any, ...]) -> None:
    ctx.kept = tensors


def _detached_on_ctx(ctx: Any, tensors: tuple[Any, ...]) -> None:
    ctx.kept = tuple(None if t is None else t.detach() for t in tensors)


LAST: dict[str, tuple[Any, ...]] = {}


def _in_a_global(ctx: Any, tensors: tuple[Any, ...]) -> None:
    LAST["saved"] = tensors


def _output_on_ctx(function: Any, place: int) -> None:
    setup = function.setup_context

    def mutant(ctx: Any, inputs: Any, output: Any) -> None:
        setup(ctx, inputs, output)
        ctx.output = output

    function.setup_context = staticmethod(mutant)


def _more_saved(function: Any, place: int) -> None:
    setup = function.setup_context

    def mutant(ctx: Any, inputs: Any, output: Any) -> None:
        setup(ctx, inputs, output)
        ctx.spare = [t.detach().clone() for t in inputs if isinstance(t, torch.Tensor)]

    function.setup_context = staticmethod(mutant)


# Mutations of the forward


def _write_to_input(function: Any, place: int) -> None:
    forward = function.forward

    def mutant(*arguments: Any) -> Any:
        found = forward(*arguments)
        arguments[place].data.mul_(1.5)
        return found

    function.forward = staticmethod(mutant)


def _reads_input_as_packed(function: Any, place: int) -> None:
    forward = function.forward

    def mutant(*arguments: Any) -> Any:
        read = list(arguments)
        read[place] = _read_as_packed(read[place])
        return forward(*read)

    function.forward = staticmethod(mutant)


def _all_gradients(function: Any, place: int) -> None:
    """As if every input always required grad: needs_input_grad is not looked at."""
    setup, backward = function.setup_context, function.backward

    class Wanting(Stashing):
        @property
        def needs_input_grad(self) -> tuple[bool, ...]:
            return self._keep(self._real)  # type: ignore[no-any-return]

    def everything(ctx: Any) -> tuple[bool, ...]:
        return tuple(ctx.tensors)

    def mutant_setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.tensors = [isinstance(t, torch.Tensor) and t.is_floating_point() for t in inputs]
        proxy = Wanting(ctx, everything)
        object.__setattr__(proxy, "save_for_backward", ctx.save_for_backward)
        setup(proxy, inputs, output)

    function.setup_context = staticmethod(mutant_setup)
    function.backward = staticmethod(lambda ctx, *grads: backward(Wanting(ctx, everything), *grads))


MUTATIONS = (
    Mutation("scaled", "a gradient one and a half times as large", of_gradient(lambda g: g * 1.5)),
    Mutation("negated", "a gradient with the other sign", of_gradient(torch.neg)),
    Mutation("dropped", "None for a gradient that is needed", of_gradient(lambda g: None)),
    Mutation("zeroed", "a gradient of zeros", of_gradient(torch.zeros_like)),
    Mutation("transposed", "a gradient whose elements are in another order", of_gradient(_transposed)),
    Mutation("detached", "a gradient that is a constant to the second derivative", of_gradient(torch.Tensor.detach)),
    Mutation("first row only", "a gradient that is zero but for the first row", of_gradient(lambda g: g * _first(g))),
    Mutation("NaN at zero", "a gradient that is NaN where it is zero", of_gradient(lambda g: g * (g / g))),
    Mutation("half precision", "a gradient that has been float16", of_gradient(lambda g: g.half().to(g.dtype))),
    Mutation("other dtype", "a gradient in float32 for whatever input", of_gradient(lambda g: _other(g))),
    Mutation("other shape", "a gradient that the engine must sum to fit", of_gradient(_too_large)),
    Mutation("mean grad_output", "grad_output taken for constant", of_grad_output(lambda g: g.mean().expand(g.shape))),
    Mutation("packed grad_output", "the strides of grad_output ignored", of_grad_output(_read_as_packed)),
    Mutation("write to grad_output", "grad_output doubled in place", beside(_write_to_grad_output)),
    Mutation("write to saved", "saved tensors doubled in place after use", beside(_write_to_saved)),
    Mutation("once only", "a second backward of one graph raises", beside(_forget)),
    Mutation("hoard", "each backward keeps its gradients for ever", beside(_hoard)),
    Mutation("noise", "another gradient at every call", beside(_noise)),
    Mutation("on ctx", "a ctx attribute instead of save_for_backward", of_saving(_on_ctx, lambda ctx: ctx.kept)),
    Mutation("detached on ctx", "detached tensors on ctx", of_saving(_detached_on_ctx, lambda ctx: ctx.kept)),
    Mutation("in a global", "saved in a global", of_saving(_in_a_global, lambda ctx: LAST["saved"])),
    Mutation("output on ctx", "the output kept on ctx: a cycle", _output_on_ctx),
    Mutation("spare copies", "copies of the inputs kept on ctx", _more_saved),
    Mutation("write to input", "the forward changes an input, unseen by its version", _write_to_input),
    Mutation("packed input", "the strides of an input ignored", _reads_input_as_packed),
    Mutation("all gradients", "needs_input_grad not looked at", _all_gradients),
)  # fmt: skip
# Those that are about one gradient or one input, and are planted in each.
PLACED = {
    "scaled", "negated", "dropped", "zeroed", "transposed", "detached", "first row only", "NaN at zero",
    "half precision", "other dtype", "other shape", "write to input", "packed input",
}  # fmt: skip


def _first(grad: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros_like(grad)
    if grad.numel():
        mask.reshape(grad.shape[0] if grad.dim() else 1, -1)[0] = 1
    return mask


def _other(grad: torch.Tensor) -> torch.Tensor:
    return grad.to(torch.float32 if grad.dtype != torch.float32 else torch.float64)


def class_of(function: str) -> Any:
    """The torch.autograd.Function of the `python` variant. Raises LookupError where there is none."""
    spec = registry.spec(function)
    apply = registry.load(function, VARIANT)
    inputs = spec.make_inputs(**spec.workloads["tiny"], dtype=torch.float64, device="cpu")
    outputs = apply(*inputs)
    for node in custom_nodes(outputs if isinstance(outputs, tuple) else (outputs,)):
        return type(node)._forward_cls
    raise LookupError(f"{function} ({VARIANT}) calls no torch.autograd.Function")


def places_of(function: str, mutation: Mutation) -> list[int]:
    """Where a mutation is planted: each input that has a gradient, or once."""
    spec = registry.spec(function)
    inputs = spec.make_inputs(**spec.workloads["tiny"], dtype=torch.float64, device="cpu")
    tensors = [place for place, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    return tensors if mutation.name in PLACED else tensors[:1]


@contextmanager
def planted(function: str, mutation: Mutation, place: int) -> Iterator[None]:
    """The `python` variant of a Function is the mutant inside."""
    target = class_of(function)
    names = ("forward", "setup_context", "backward")
    before = {name: target.__dict__[name] for name in names if name in target.__dict__}
    mutation.plant(target, place)
    try:
        yield
    finally:
        KEPT.clear()
        LAST.clear()
        for name, value in before.items():
            setattr(target, name, value)


def findings(function: str, mutation: Mutation, place: int, select: Sequence[str] | None = None) -> list[Finding]:
    """The errors and warnings that the rules find in a mutant, each rule in the worker."""
    spec = registry.spec(function)
    rules = plan.chosen(select)
    with planted(function, mutation, place):
        subject = of_variant(
            spec, VARIANT, VARIANT, registry.load(function, VARIANT), dtype=torch.float64, workload="tiny", device="cpu"
        )
        outcomes = runner.run([Job(rule, lambda: subject) for rule in rules])
        return [found for outcome in outcomes for found in outcome.findings if found.severity != INFO]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=list(registry.names()))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # once here, not in every worker
    mutants = []
    for function in chosen.functions:
        for mutation in MUTATIONS:
            for place in places_of(function, mutation):
                found = findings(function, mutation, place)
                rules = tuple(dict.fromkeys(each.rule for each in found))
                mutants.append(Mutant(function, mutation.name, place, rules, str(found[0]) if found else ""))
                print(f"{function}, {mutation.name} {place}: {', '.join(rules) or 'LIVES'}", file=sys.stderr)
    chosen.out.mkdir(parents=True, exist_ok=True)
    about = {"commit": machine.commit(), "machine": machine.conditions("cpu", 1)}
    listed = [vars(mutant) for mutant in mutants]
    write_atomically(chosen.out / "mutants.json", json.dumps({**about, "mutants": listed}, indent=1) + "\n")
    write_atomically(chosen.out / "mutants.md", page(mutants))


def page(mutants: Sequence[Mutant]) -> str:
    """The mutants as Markdown: those that live first, then a table of mutations by Functions."""
    living = [mutant for mutant in mutants if not mutant.found]
    functions = list(dict.fromkeys(mutant.function for mutant in mutants))
    lines = [
        "# Mutants: faults planted in Functions that are right",
        "",
        f"{len(mutants)} mutants of the `{VARIANT}` variants, {len(living)} of them live (quick rules).",
        "",
        f"| mutation | meaning | {' | '.join(functions)} |",
        f"|---|---|{'---|' * len(functions)}",
    ]
    for mutation in MUTATIONS:
        cells = [_cell([m for m in mutants if (m.function, m.mutation) == (name, mutation.name)]) for name in functions]
        lines.append(f"| {mutation.name} | {mutation.meaning} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(mutants: Sequence[Mutant]) -> str:
    return "; ".join(f"{m.place}: {', '.join(m.found[:4]) or '**lives**'}" for m in mutants) or "n/a"


if __name__ == "__main__":
    main()
