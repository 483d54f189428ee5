"""The page of each rule: a wrong Function, why it is wrong, and the right one."""

from __future__ import annotations

from pathlib import Path

from ..terms import unknown
from . import rules

# Installed beside this file (setup.py copies them), or in the checkout.
FOLDERS = (Path(__file__).parent / "rules", Path(__file__).parents[2] / "docs" / "rules")


def page(rule: str) -> str:
    """The page as Markdown. Raises LookupError for a rule that there is not."""
    known = [each.id for each in rules()]
    if rule not in known:
        raise unknown("there is no rule", rule, known)
    for folder in FOLDERS:
        if (folder / f"{rule}.md").is_file():
            return (folder / f"{rule}.md").read_text(encoding="utf-8")
    raise LookupError(f"the rule {rule} has no page; looked in {' and '.join(map(str, FOLDERS))}")
