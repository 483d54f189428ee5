"""What an argument must be, for the variants' own input checks: `who: rule, got what`."""

from __future__ import annotations

import torch


def floating(who: str, **tensors: torch.Tensor) -> None:
    """Raises ValueError unless all tensors hold floating point numbers of one dtype."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"{who}: {name} must hold floating point numbers, got {tensor.dtype}")
    if len({tensor.dtype for tensor in tensors.values()}) > 1:
        got = " and ".join(f"{name} {tensor.dtype}" for name, tensor in tensors.items())
        raise ValueError(f"{who}: dtypes must be equal, got {got}")


def same_shape(who: str, **tensors: torch.Tensor) -> None:
    """Raises ValueError unless all tensors have one shape."""
    if len({tensor.shape for tensor in tensors.values()}) > 1:
        got = " and ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        raise ValueError(f"{who}: shapes must be equal, got {got}")


def above_zero(who: str, **numbers: float) -> None:
    """Raises ValueError unless all numbers are above 0."""
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{who}: {name} must be above 0, got {number}")


def shape(who: str, name: str, tensor: torch.Tensor, expected: tuple[int | None, ...]) -> None:
    """Raises ValueError unless `tensor` has the expected sizes; None stands for any size."""
    sizes = tensor.shape
    if len(sizes) != len(expected) or any(want not in (None, got) for want, got in zip(expected, sizes, strict=True)):
        rule = ", ".join("*" if size is None else str(size) for size in expected)
        raise ValueError(f"{who}: {name} must have shape [{rule}], got {list(sizes)}")


def device(who: str, **tensors: torch.Tensor) -> None:
    """Raises ValueError unless all tensors are on one device."""
    if len({tensor.device for tensor in tensors.values()}) > 1:
        got = " and ".join(f"{name} {tensor.device}" for name, tensor in tensors.items())
        raise ValueError(f"{who}: devices must be equal, got {got}")
