"""The trials' figures as one page of Markdown.

    python -m trials.report FOLDER

Reads verdicts-idle.json, verdicts-busy.json, coverage.json and agreement.json, as far as they are there, and writes
README.md beside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autofn.records import write_atomically

DIFFERENT = ("faster", "slower")
TRUTH = {"same": "identical arms", "slower_5": "planted 5 % slower", "slower_2": "planted 2 % slower"}


def main() -> None:
    folder = Path(sys.argv[1])
    parts = ["# Trials of the harness on arms whose truth is known", *_about(folder)]
    for kind in ("idle", "busy"):
        parts += _verdicts(_read(folder / f"verdicts-{kind}.json"), kind)
    parts += _coverage(_read(folder / "coverage.json"))
    parts += _agreement(_read(folder / "agreement.json"))
    write_atomically(folder / "README.md", "\n".join(parts) + "\n")


def _read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _about(folder: Path) -> Iterator[str]:
    about = _read(folder / "verdicts-idle.json") or _read(folder / "coverage.json")
    if about:
        machine = about["machine"]
        yield ""
        yield f"{machine['device_model']}, torch {machine['torch']}, one thread, commit {about['commit'][:8]}."


def _verdicts(found: Mapping[str, Any], kind: str) -> Iterator[str]:
    figures = {name: row for name, row in found.get("figures", {}).items() if row}
    if not figures:
        return
    yield from ("", f"## Verdicts, {'a quiet machine' if kind == 'idle' else 'beside a busy neighbour'}", "")
    yield "| operation | arms | how | comparisons | faster | slower | same | cannot tell |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for name, row in figures.items():
        operation = f"{name}, {row['call_s'] * 1e6:.3g} us"
        size = f"{row['generations']:.0f} generations of {row['servers']:.0f} servers"
        real = f"real, {row['seconds_a_comparison']} s each, {size}"
        for arm, words in row["real"].items():
            yield _line(operation, _truth(row, arm), real, words)
        for length in (10, 40):
            for arm, words in row[f"replayed_{length}_s"].items():
                yield _line(operation, _truth(row, arm), f"replayed, {length} s each", words)
    yield from ("", "Others, by their own rules on the same arms, one side after the other:", "")
    yield "| operation | arms | rule | comparisons | faster or slower |"
    yield "|---|---|---|--:|--:|"
    for name, row in figures.items():
        for rival, by_arm in row["rivals"].items():
            for arm, words in by_arm.items():
                called = sum(words.get(word, 0) for word in DIFFERENT)
                yield f"| {name} | {_truth(row, arm)} | {rival} | {words['comparisons']} | {_share(called, words)} |"


def _truth(row: Mapping[str, Any], arm: str) -> str:
    """What was planted, and what it was over all generations."""
    return f"{TRUTH[arm]} (seen {row['planted'][arm]:+.1%})"


def _line(operation: str, arms: str, how: str, words: Mapping[str, Any]) -> str:
    counts = " | ".join(_share(words.get(word, 0), words) for word in ("faster", "slower", "same", "cannot tell"))
    return f"| {operation} | {arms} | {how} | {words['comparisons']} | {counts} |"


def _share(count: int, words: Mapping[str, Any]) -> str:
    return f"{count / words['comparisons']:.1%}" if words["comparisons"] else "n/a"


def _coverage(found: Mapping[str, Any]) -> Iterator[str]:
    if not found:
        return
    cells = found["cells"]
    yield from ("", "## Coverage of 95 % intervals", "")
    yield (
        f"{found['covered']} of {cells} cells hold the median of {found['further']} further interpreters; intervals "
        f"from one process alone hold it in {found['covered_by_one_process']}. Over {found['splits']} divisions of the "
        f"same interpreters into those of the interval and the further ones, {found['covered_share']:.1%} hold."
    )


def _agreement(found: Mapping[str, Any]) -> Iterator[str]:
    if not found:
        return
    yield from ("", "## The sampler's own cost, and agreement with torch.utils.benchmark.Timer", "")
    yield f"The loop adds {found['overhead_s_a_call'] * 1e9:.1f} ns a call: {found['overhead_at_3us']:.2%} of 3 us."
    yield from ("", "| case | this | Timer | ratio |", "|---|--:|--:|--:|")
    for row in found["agreement"]:
        yield f"| {row['case']} | {row['ours_s'] * 1e6:.4g} us | {row['timer_s'] * 1e6:.4g} us | {row['ratio']:.3f} |"


if __name__ == "__main__":
    main()
