"""Which tensors stay behind: what is new among the objects that Python's garbage collector tracks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def only_new_objects() -> Iterator[None]:
    """Within it the garbage collector does not run by itself, and neither sees nor frees what was there before."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def new_tensors() -> list[torch.Tensor]:
    """The tensors made since `only_new_objects` began that are alive."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]


def new_nodes() -> int:
    """How many autograd nodes of torch.autograd.Functions were made since `only_new_objects` began and are alive."""
    return sum(issubclass(type(each), torch.autograd.function.BackwardCFunction) for each in gc.get_objects())


def gradients() -> list[torch.Tensor]:
    """The `.grad` of all tensors alive: what a backward accumulates stays on purpose. Not within `only_new_objects`."""
    everything = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    return [each.grad for each in everything if each.is_leaf and each.requires_grad and each.grad is not None]


def without_gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those that are no `.grad`."""
    theirs = {id(grad) for grad in gradients()} if tensors else set()
    return [each for each in tensors if id(each) not in theirs]


def described(tensors: list[torch.Tensor]) -> str:
    """Their number and shapes, in words."""
    shapes = ", ".join(str(list(t.shape)) for t in tensors[:3]) + (", ..." if len(tensors) > 3 else "")
    return f"{len(tensors)} tensor{'s' if len(tensors) != 1 else ''} of shape {shapes}" if tensors else "nothing"
