"""What `autofn.bench` gives: the tidy frame, and in a notebook a table and a plot that need no network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from ..records import OK
from .units import quantity

if TYPE_CHECKING:
    import pandas as pd

GROUP = ["function", "workload", "dtype", "device", "way"]
# Pixels: of a bar, of the labels beside it, of the bars' full width.
BAR, LABELS, WIDTH = 16, 190, 320
COLOURS = {"faster": "#1a7f37", "slower": "#cf222e"}
PLAIN = "#6e7781"
ONE_PROCESS = "One process: ratios of that process, no verdicts."
SEVERAL = "Over several processes; faster and slower are verdicts, beyond what two arms of the baseline differ by."


@dataclass(frozen=True)
class Benched:
    """The results of one bench. frame: a row a metric of a case in a phase, in the columns of `autofn.results`."""

    frame: pd.DataFrame

    @cached_property
    def times(self) -> pd.DataFrame:
        """The times, with their speedups over eager, intervals and verdicts."""
        from ..speedups import add_speedups

        return add_speedups(self.frame)

    def __str__(self) -> str:
        lines = []
        for title, rows in self._groups():
            lines.append(title)
            lines += ["  " + "  ".join(cells) for cells in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return "".join(
            f"<h4>{escape(title)}</h4>{_table(rows)}{_plot(group)}"
            for (title, rows), (_, group) in zip(self._groups(), self._by_group(), strict=True)
        ) + (f"<p>{SEVERAL if (self.times['processes'] > 1).any() else ONE_PROCESS}</p>")

    def _by_group(self) -> Any:
        return self.times.groupby(GROUP, sort=False)

    def _groups(self) -> Iterator[tuple[str, list[list[str]]]]:
        """A title, and rows of cells, the first of which is the header."""
        saved = self.frame[self.frame["metric"] == "saved_new_bytes"].set_index([*GROUP[:4], "variant"])["value"]
        for key, group in self._by_group():
            phases = list(dict.fromkeys(group["phase"]))
            rows = [["variant", *phases, "new saved bytes"]]
            for variant, mine in group.groupby("variant", sort=False):
                by_phase = {row.phase: row for row in mine.itertuples()}
                cells = [_cell(by_phase[phase]) if phase in by_phase else "n/a" for phase in phases]
                kept: Any = saved.get((*key[:4], variant), math.nan)
                rows.append([str(variant), *cells, "n/a" if math.isnan(kept) else quantity(kept, "bytes")])
            yield " ".join(key[:4]), rows


def _cell(row: Any) -> str:
    if row.status != OK:
        return f"{row.status}: {row.reason}" if row.reason else str(row.status)
    speedup = "" if math.isnan(row.speedup) else f" {quantity(row.speedup, 'ratio')}"
    return f"{quantity(row.value, 'seconds')}{speedup} {row.verdict}".rstrip()


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _plot(group: pd.DataFrame) -> str:
    """Bars of the speedup, with the interval as far as there is room; the line is eager. Nothing without a speedup."""
    everything: list[Any] = list(group.itertuples())
    rows = [row for row in everything if not math.isnan(row.speedup) and row.variant != "eager"]
    if not rows:
        return ""
    # A wide interval of one shall not make all bars short.
    most = 1.25 * max(1.0, *(row.speedup for row in rows))
    height = BAR * len(rows)
    bars = "".join(_bar(row, number * BAR, WIDTH / most) for number, row in enumerate(rows))
    one = LABELS + WIDTH / most
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="speedup over eager" font-size="11" '
        f'font-family="sans-serif" width="{LABELS + WIDTH + 60}" height="{height + BAR}">{bars}'
        f'<line x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{height}" stroke="currentColor"/>'
        f'<text x="{one:.1f}" y="{height + 12}" text-anchor="middle" fill="currentColor">eager</text></svg>'
    )


def _bar(row: Any, top: int, scale: float) -> str:
    middle, label = top + BAR / 2, f"{row.variant} {row.phase}"
    interval = ""
    if not math.isnan(row.speedup_low):
        low, high = (LABELS + min(WIDTH, scale * bound) for bound in (row.speedup_low, row.speedup_high))
        interval = f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="currentColor"/>'
    return (
        f'<text x="{LABELS - 6}" y="{middle + 4}" text-anchor="end" fill="currentColor">{escape(label)}</text>'
        f'<rect x="{LABELS}" y="{top + 2}" width="{scale * row.speedup:.1f}" height="{BAR - 4}" '
        f'fill="{COLOURS.get(row.verdict, PLAIN)}"/>{interval}'
        f'<text x="{LABELS + WIDTH + 8}" y="{middle + 4}" fill="currentColor">'
        f"{quantity(row.speedup, 'ratio')}</text>"
    )
