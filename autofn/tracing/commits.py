"""Traces of another commit's build: in a process of its Python, where the `autofn` that is traced is the build's.

What records comes from here, as what measures does: it runs in that process under another name, see `harness`.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import harness, origins
from ..comparing.builds import Side, side
from .files import TraceSummary
from .recording import Progress, record
from .request import Request


class LostError(RuntimeError):
    """The process of a build ended before its traces were done."""


def record_commit(
    revision: str, request: Request, progress: Progress, said: Callable[[str], None] = lambda text: None
) -> list[TraceSummary]:
    """The runs of a request, as `recording.record`, in `<out>/<commit>/<function>/<variant>`.

    revision: of the repository around the working folder, or the path of a Python that has the package. Built unless
    its build is there, asv's or that of `autofn compare`. said: told before that. Raises LookupError for what does not
    exist there, ValueError for Functions of somebody's own, `comparing.builds.BuildError` where building fails.
    """
    if origins.asked():
        raise ValueError(
            "trace: --commit is of the package's own Functions; of yours, check the commit out beside this one "
            f"(git worktree add ../old {revision}) and trace there"
        )
    found = side(revision, Path(), said=said)
    name = found.commit.removesuffix("+dirty")[:12] or Path(revision).parents[1].name
    asked = replace(request, out=str(Path(request.out) / name), commit=found.commit, code=found.commit)
    return _in_build(found, asked, progress)


def _in_build(found: Side, request: Request, progress: Progress) -> list[TraceSummary]:
    """Runs `record_installed` in the build; its messages come through a pipe, for Functions may print."""
    read, write = os.pipe()
    words = [str(Path(harness.__file__).resolve()), "tracing.commits", "record_installed"]
    process = subprocess.Popen(
        [found.build.python, *words, json.dumps(asdict(request)), str(write)],
        env=found.build.variables(),
        pass_fds=[write],
    )
    os.close(write)
    try:
        with os.fdopen(read) as messages:
            answer = _answer(messages, progress)
    except BaseException:
        process.kill()
        raise
    finally:
        status = process.wait()
    if "failed" in answer:
        raise LookupError(f"{found.title}: {answer['failed']}")
    if "summaries" not in answer:
        raise RuntimeError(
            f"trace: the process of {found.title} ended with status {status} before its traces were done"
        )
    return [TraceSummary(**summary) for summary in answer["summaries"]]


def _answer(messages: Any, progress: Progress) -> dict[str, Any]:
    """The last message; those before are of progress."""
    found: dict[str, Any] = {}
    for line in messages:
        found = json.loads(line)
        if "progress" in found:
            progress(*found["progress"])
    return found


def record_installed(request: str, descriptor: str) -> None:
    """In the process of the build: records its Functions and tells it through the pipe."""
    asked = json.loads(request)
    asked |= {name: tuple(asked[name]) for name in ("functions", "variants")}
    with os.fdopen(int(descriptor), "w") as pipe:

        def tell(**message: Any) -> None:
            print(json.dumps(message), file=pipe, flush=True)

        try:
            installed = importlib.import_module("autofn.registry")
            progress = lambda *now: tell(progress=now)  # noqa: E731
            tell(summaries=[asdict(found) for found in record(Request(**asked), installed, progress)])
        except LookupError as error:
            tell(failed=str(error.args[0]))
