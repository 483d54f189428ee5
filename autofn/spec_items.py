"""What `pytest --autofn` collects: a file for each spec file, and in it a test for each rule of each variant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import origins, registry
from .terms import COMPILED

if TYPE_CHECKING:
    from .checks.plan import Check


class BrokenRuleError(Exception):
    """A rule finds an error; the message holds each finding and its fix."""


class FragileFunctionWarning(UserWarning):
    """A rule finds something wasteful or fragile."""


class SpecFiles:
    """Knows the spec files: those that autofn is told of, and those that pytest is.

    Where pytest is given no paths, the spec files are collected wherever they lie.
    """

    def __init__(self, config: pytest.Config) -> None:
        given = [Path(text.partition("::")[0]) for text in config.args]
        extra = [str(path) for path in given if path.suffix == ".py" and path.is_file() and _declares(path)]
        known = [*origins.asked()]
        new = [path for path in extra if Path(path).resolve() not in {Path(text).resolve() for text in known}]
        if new:
            origins.ask([*known, *new])
        self.functions: dict[Path, list[str]] = {}
        try:
            names = registry.names()
        except (LookupError, ValueError) as error:
            raise pytest.UsageError(f"--autofn: {error}") from error
        for name in names:
            file = registry.file(name)
            if file is not None:
                self.functions.setdefault(file.resolve(), []).append(name)
        self.broken = {Path(text).resolve(): reason for text, reason in origins.broken().items()}
        for path, reason in self.broken.items():
            if not path.is_file():
                raise pytest.UsageError(f"--autofn: {reason}")
            self.functions.setdefault(path, [])
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args += [str(file) for file in self.functions]

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        path = file_path.resolve()
        if path not in self.functions:
            return None
        return SpecFile.from_parent(
            parent, path=file_path, functions=self.functions[path], broken=self.broken.get(path, "")
        )


def _declares(path: Path) -> bool:
    """Whether a file that pytest is given is one of Specs, and no test that happens to make some."""
    return "Spec(" in path.read_text(errors="replace") and not path.name.startswith("test_")


class SpecFile(pytest.File):
    """A spec file. functions: those that it declares. broken: why it cannot be read."""

    def __init__(self, *, functions: list[str], broken: str, **common: Any) -> None:
        super().__init__(**common)
        self.functions = functions
        self.broken = broken

    def collect(self) -> Iterator[pytest.Item]:
        from .checks import plan

        if self.broken:
            raise self.CollectError(self.broken)
        level = self.config.getoption("--autofn-level")
        for checks in plan.of_registry(self.functions, rules=plan.chosen(level=level), level=level):
            by_rule: dict[str, list[Check]] = {}
            for check in checks:
                by_rule.setdefault(check.job.rule.id, []).append(check)
            for rule, cases in by_rule.items():
                key = cases[0].key
                if level == "full" or registry.variant(key.function, key.variant).kind not in COMPILED:
                    yield RuleItem.from_parent(self, name=f"{key.function}-{key.variant}-{rule}", checks=cases)


class RuleItem(pytest.Item):
    """One rule on all cases of one variant that it is for."""

    def __init__(self, *, checks: list[Check], **common: Any) -> None:
        super().__init__(**common)
        self.checks = checks

    def setup(self) -> None:
        from .checks import runner

        runner.import_for_all()

    def runtest(self) -> None:
        from . import checks
        from .checks.checked import Checked
        from .records import UNAVAILABLE

        found = Checked(tuple(checks.records([self.checks])))
        for each in found.warnings:
            self.warn(FragileFunctionWarning(f"{each.rule}: {each}"))
        if found.errors:
            raise BrokenRuleError(told(found))
        if all(record.status == UNAVAILABLE for record in found.records):
            raise pytest.skip.Exception(found.records[0].reason, _use_item_location=True)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        if isinstance(excinfo.value, BrokenRuleError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


def told(found: Any) -> str:
    """The errors of a check, each with its case and its fix."""
    from .checks.checked import findings_of
    from .checks.rule import ERROR

    lines = []
    for record in found.records:
        for finding in findings_of(record):
            if finding.severity == ERROR:
                fix = f"\n    fix: {finding.fix}" if finding.fix else ""
                lines.append(f"{finding.rule}: {record.workload} {record.dtype}: {finding}{fix}")
    return "\n".join(lines)
