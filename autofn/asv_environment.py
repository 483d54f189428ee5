"""An asv environment type, "shared": a virtual environment that borrows torch and all else from the one that runs asv.

An environment of its own would hold 900 MB of torch, fetched anew; borrowed, it is made in a second and is 12 MB. Only
the package under test is installed into it. What asv.conf.json's matrix asks for in another version is installed into
the environment itself, where it comes before what is borrowed. A fleet's jobs (`fleets.job`) build nothing: they borrow
the build of their commit too.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import math
import os
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from asv import runner, util
from asv.benchmarks import Benchmarks
from asv.console import log
from asv.environment import EnvironmentUnavailable
from asv.plugins.virtualenv import Virtualenv
from packaging.requirements import Requirement

from .asv_axes import AXES, selected
from .asv_run import BUILD, estimate_s, measurable, profile

PACKAGE = Path(__file__).parent
# How asv names the module of our suites' caches, without the package that it is in.
SUITES = "asv"
# asv's own, which those below take the place of.
CHOSEN, FAIL = Benchmarks.benchmark_selection.fget, runner.fail_benchmark


def measured_selection(benchmarks: Benchmarks) -> dict[str, list[int] | None]:
    """Of what --bench selects, by benchmark, the places of the cases that the profile measures on this machine.

    asv starts a process a case, and three in four would only say that nobody asked for theirs. What is left out keeps
    the results that it has. Raises UserError, which asv tells, where the profile has nothing of it, and for a profile
    or device that there is not. Where the machine lacks the device that AUTOFN_DEVICE names, the setup_caches say so.
    """
    # asv asks once a benchmark, and the answer is of all of them.
    if "measured" not in vars(benchmarks):
        chosen = {name: cases for name, cases in CHOSEN(benchmarks).items() if name in benchmarks}
        found = {name: _measured(benchmarks[name], cases) for name, cases in chosen.items()}
        nothing = not any(cases is None or cases for cases in found.values())
        if any(chosen.values()) and nothing and measurable()["device"]:
            raise util.UserError(
                f"nothing that is selected is measured at profile {profile()} here; AUTOFN_PROFILE names another"
            )
        benchmarks.measured = found
    measured: dict[str, list[int] | None] = benchmarks.measured
    return measured


def fail_measured(benchmark: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """What asv notes of a benchmark that cannot run: a failure of the cases that would have been measured."""
    failed = FAIL(benchmark, *args, **kwargs)
    places = list(range(len(failed.result)))
    measured = set(_measured(benchmark, places) or [])
    return failed._replace(result=[None if place in measured else math.nan for place in places])


def _measured(benchmark: Mapping[str, Any], places: list[int] | None) -> list[int] | None:
    if places is None or not str(benchmark.get("setup_cache_key")).startswith(f"{SUITES}."):
        return places
    try:
        wanted = measurable()
    except ValueError as error:
        raise util.UserError(str(error)) from error
    # asv writes the values of an axis as Python would.
    kept = [
        [axis not in wanted or ast.literal_eval(value) in wanted[axis] for value in values]
        for axis, values in zip(AXES, benchmark["params"], strict=True)
    ]
    taken = [all(case) for case in itertools.product(*kept)]
    return [place for place in places if taken[place]]


Benchmarks.benchmark_selection = property(measured_selection)
runner.fail_benchmark = fail_measured


class SharedEnvironment(Virtualenv):
    """A virtual environment whose `.pth` file leads to the site-packages of the environment that runs asv."""

    tool_name = "shared"

    def __init__(self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: Any) -> None:
        reason = _left_out(requirements.get("torch", ""))
        if reason:
            raise EnvironmentUnavailable(reason)
        super().__init__(conf, python, requirements, tagged_env_vars)

    def _setup(self) -> None:
        log.info(f"Creating virtualenv for {self.name}")
        command = [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update"]
        command += ["--python", sys.executable, self._path]
        util.check_call(command, env={**os.environ, **self.build_env_vars})
        # The name sorts last, so that the environment's own packages come first.
        # Somebody's own repository is measured by this package, wherever it is installed.
        own = [str(PACKAGE.parent)] if _is_own(self._global_env_vars["ASV_PROJECT"]) else []
        self._borrow("zz_borrowed", *(sysconfig.get_path(key) for key in ("purelib", "platlib")), *own)
        self._install_requirements()

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """As asv does it, or where there is a build of the commit, by leading to that. First says how long it takes."""
        _say_how_long(Path.cwd() if _is_own(conf.project) else None)
        if BUILD not in os.environ:
            super().install_project(conf, repo, commit_hash)
            return
        self._borrow("aa_build", os.environ[BUILD])
        self._set_commit_hash(commit_hash)
        self._set_build_dirs(None, None)
        self._set_installed_commit_hash(commit_hash)

    def _borrow(self, name: str, *folders: str) -> None:
        (site,) = Path(self._path).glob("lib/python*/site-packages")
        (site / f"{name}.pth").write_text("".join(f"{folder}\n" for folder in dict.fromkeys(folders)))

    def _install_requirements(self) -> None:
        wanted = {**self._requirements, **self._base_requirements}
        missing = [text for name, version in wanted.items() if not _satisfied(text := _requirement(name, version))]
        if missing:
            log.info(f"Installing {' '.join(missing)} for {self.name}")
            self._run_pip(["install", "--quiet", *missing], env=dict(os.environ))


def _is_own(project: str) -> bool:
    """Whether it is a repository of somebody's, not of this package."""
    return project != PACKAGE.name


@cache
def _say_how_long(root: Path | None) -> None:
    """Once, before the first commit is built. Raises UserError for a profile or device that there is not.

    root: of somebody's own repository.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bench", "-b", action="append", default=[])
    functions = selected(parser.parse_known_args(sys.argv[1:])[0].bench, root)
    try:
        measurable()
    except ValueError as error:
        raise util.UserError(str(error)) from error
    chosen = profile()
    minutes = math.ceil(estimate_s(chosen, functions, root=root) / 60)
    log.info(
        f"{len(functions)} Functions at profile {chosen}: about {minutes} min a commit and device on a quiet "
        "machine, and more where kernels are compiled for the first time"
    )


def _left_out(torch: str) -> str:
    """Why a version of torch is not measured, "" where it is: one that is not installed is fetched on request alone."""
    chosen = os.environ.get("AUTOFN_TORCH", "").split()
    if not torch or "all" in chosen or torch in chosen:
        return ""
    if not chosen and _satisfied(_requirement("torch", torch)):
        return ""
    return f"torch {torch} is left out; AUTOFN_TORCH={torch} measures it, AUTOFN_TORCH=all each of the matrix"


def _requirement(name: str, version: str) -> str:
    """asv's pair, such as ("pip+setuptools>=77", "") or ("torch", "2.13.0"), as pip writes it."""
    name = name.removeprefix("pip+")
    return f"{name}=={version}" if version[:1].isdigit() else f"{name}{version}"


def _satisfied(text: str) -> bool:
    """Whether the environment that runs asv has it; a local version such as 2.13.0+cpu counts as 2.13.0."""
    wanted = Requirement(text)
    try:
        return wanted.specifier.contains(metadata.version(wanted.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False
