"""pytest's plug-in, by entry point: `pytest --autofn` collects Specs, a test a rule. Without it, nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("autofn")
    group.addoption("--autofn", action="store_true", help="check the Functions of spec files, a test a rule")
    group.addoption("--autofn-level", choices=("quick", "full"), default="quick", help="full also checks what compiles")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--autofn"):
        from .spec_items import SpecFiles

        config.pluginmanager.register(SpecFiles(config), "autofn_spec_files")
