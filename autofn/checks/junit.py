"""Checks as JUnit XML, which every CI server reads: a suite a variant, a test a rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from ..records import FAILED, UNAVAILABLE, Record
from .checked import all_findings_of, by_case

# What XML cannot hold, even escaped.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def xml(records: Sequence[Record]) -> str:
    """The document. Warnings and infos are a test's output; suppressed findings are skipped tests with the reason."""
    root = ElementTree.Element("testsuites", name="autofn check")
    for (function, variant), mine in by_case(tuple(records)):
        suite = ElementTree.SubElement(
            root, "testsuite", name=_text(f"{function} {variant}"), tests=str(len(mine)),
            failures=str(sum(record.status == FAILED for record in mine)), errors="0",
            skipped=str(sum(_skipped(record) for record in mine)),
            time=f"{sum(record.detail.get('seconds', 0.0) for record in mine):.3f}",
        )  # fmt: skip
        for record in mine:
            _case(suite, record)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, record: Record) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=_text(f"{record.function}.{record.variant}"),
        name=_text(f"{record.metric} [{record.workload} {record.dtype} {record.device}]"),
        time=f"{record.detail.get('seconds', 0.0):.3f}",
    )  # fmt: skip
    told = "\n".join(f"{found.severity}: {found}\n{found.fix}".strip() for found in all_findings_of(record))
    if record.status == FAILED:
        ElementTree.SubElement(case, "failure", message=_text(record.reason)).text = _text(told)
    elif _skipped(record):
        ElementTree.SubElement(case, "skipped", message=_text(record.reason))
    elif told:
        ElementTree.SubElement(case, "system-out").text = _text(told)


def _skipped(record: Record) -> bool:
    return record.status == UNAVAILABLE or "suppressed" in record.detail


def _text(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)
