"""`autofn init`: what asv, reports and a workflow need, in a repository that has none."""

from __future__ import annotations


def init_command() -> None:
    """Write asv.conf.json, benchmarks/, reports/ and a workflow for GitHub that checks and compares pull requests.

    Run it at the top of a repository whose pyproject.toml names spec files. A file that is there is left as it is.
    """
    from ..scaffold import init
    from .new import print_written

    print_written(init())
