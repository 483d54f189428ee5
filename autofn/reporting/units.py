"""Numbers as text, with a unit that suits their size. Only the page does this: data keeps seconds and bytes."""

from __future__ import annotations

import math

from .model import Kind

TIMES = "\N{MULTIPLICATION SIGN}"

# (factor, unit), in descending order.
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "ratio": ((1.0, TIMES),),
    "percent": ((0.01, "%"),),
    "number": ((1.0, ""),),
}


def scale(value: float, kind: Kind) -> tuple[float, str]:
    """The factor and the name of the largest unit in which `value` is at least 1, else of the smallest unit."""
    scales = SCALES[kind]
    return next((found for found in scales if abs(value) >= found[0]), scales[-1])


def digits(value: float) -> str:
    """Three significant digits, without an exponent between 0.001 and a million: "12.3", "1,230", "1.2e-07"."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    size = abs(value)
    if size < 1e-3 or size >= 1e6:
        return f"{value:.2g}" if size < 1e-3 else f"{value:.3g}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}"


def exact_bytes(value: float) -> str:
    """ "140 B", "256 KiB", "1.5 KiB": all digits of a whole number of a unit, else three."""
    factor, unit = scale(value, "bytes")
    scaled = value / factor
    return f"{scaled:,.0f} {unit}" if scaled == int(scaled) else f"{digits(scaled)} {unit}"


def quantity(value: float, kind: Kind) -> str:
    """A value with its unit: "12.3 µs", "256 KiB", "1.84" and a multiplication sign."""
    if kind == "bytes":
        return exact_bytes(value)
    factor, unit = scale(value, kind)
    if kind == "number" and float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{digits(value / factor)}{'' if kind in ('ratio', 'number') else ' '}{unit}"


def interval(value: float, low: float, high: float, kind: Kind) -> str:
    """The bounds in the unit of the value, without naming it again: "12.1 to 12.6"."""
    factor, _ = scale(value, kind)
    return f"{digits(low / factor)} to {digits(high / factor)}"
