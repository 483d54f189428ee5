"""The reference and the design notes tell of what there is, all of it and nothing else."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields

import pytest
from support import ROOT

from autofn import breakeven, choice, rates, records, registry, speedups
from autofn.checks.rule import Finding
from autofn.comparing.changes import Change
from autofn.fleets.attempts import Attempt
from autofn.fleets.run import Outcome
from autofn.measure.rows import MEMORY_METRICS
from autofn.observe.saved import SavedTensor
from autofn.regressions import Step
from autofn.tracing import operators
from autofn.tracing.files import TraceSummary

DOCS = ROOT / "docs"
FILES = (DOCS / "reference" / "files.md").read_text()
NUMBERS = (DOCS / "design" / "numbers.md").read_text()
# What a summary.json leaves out of a TraceSummary: it is there only where all went well.
NOT_KEPT = {"status", "reason", "folder"}
# Of a break-even: which variants, and under which conditions.
NO_NUMBERS = {"first", "second", *breakeven.CURVE}


def made():
    found = importlib.util.spec_from_file_location("made", DOCS / "made.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["command-line.md", "spec.md"])
def test_a_page_that_is_made_is_what_the_code_says(name):
    assert (DOCS / "reference" / name).read_text() == made().PAGES[name](), "make it anew: python docs/made.py"


def test_no_page_is_made_that_no_test_compares():
    assert set(made().PAGES) == {"command-line.md", "spec.md"}


@pytest.mark.parametrize("variable", re.findall(r"^\| `(AUTOFN_\w+)`", made().COMMAND_LINE, re.MULTILINE))
def test_each_variable_is_read_somewhere(variable):
    sources = [ROOT / "setup.py", *(ROOT / "autofn").rglob("*.py")]
    assert any(f'"{variable}"' in source.read_text() for source in sources)


def first_cells(heading):
    """The names in the first column of the table below a heading."""
    section = re.split(r"^#+ ", FILES[FILES.index(f"\n### {heading}\n") + 5 :], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Saved tensor", SavedTensor),
        ("Finding", Finding),
        ("summary.json", TraceSummary),
        ("Attempt", Attempt),
        ("Change", Change),
        ("Step", Step),
        ("Outcome", Outcome),
    ],
)
def test_the_keys_of_a_file_are_the_fields_of_what_is_written(heading, kind):
    names = {each.name for each in fields(kind)}
    assert sorted(first_cells(heading)) == sorted(names - NOT_KEPT if kind is TraceSummary else names)


def test_the_columns_of_operators_csv_are_those_that_are_written():
    assert sorted(first_cells("operators.csv")) == sorted(operators.COLUMNS)


@pytest.mark.parametrize("folder", [records.RUNS, records.ASV_RESULTS, records.ASV_JOURNAL, records.ASV_AGAIN])
def test_the_folders_of_results_are_named(folder):
    assert f"`{folder}/" in FILES


def test_a_choice_has_the_keys_that_are_told():
    found = [file for name in registry.names() if (file := choice.path(name)) and file.exists()]
    written = set(re.findall(r'"([a-z_]+)":', found[0].read_text())) - {"cpu", "cuda", "float32"}
    section = FILES[FILES.index("## Choices") : FILES.index("## A fleet's files")]
    assert written - set(re.findall(r"`(\w+)`", section)) == set()


METRICS = {metric for _, metric in MEMORY_METRICS} | {"time_s", "first_call_s", "instructions", "error"}
COLUMNS = {*speedups.COLUMNS, "verdict", *rates.COLUMNS, "bound"} | ({*breakeven.COLUMNS} - NO_NUMBERS)
TRACED = {name for name in operators.COLUMNS if name.endswith("_s") or name in ("calls", "launches")} | {"slowdown"}


@pytest.mark.parametrize("number", sorted(METRICS | COLUMNS | TRACED))
def test_each_number_has_a_row_that_says_how_it_is_made_and_what_it_does_not_tell(number):
    rows = [line.split(" | ") for line in NUMBERS.splitlines() if line.startswith("| ")]
    told = [row for row in rows if re.search(rf"`{number}`", row[0])]
    assert told, f"design/numbers.md says nothing of {number}"
    assert all(len(row) == 3 and row[1].strip() and row[2].strip(" |") for row in told)
