"""A worker forked from a process whose Inductor has compiled compiles by itself, and waits for nobody."""

from __future__ import annotations

import shutil

import pytest
import torch

from autofn.checks import runner
from autofn.checks.rule import Rule, Seen
from autofn.checks.runner import Job
from autofn.checks.subject import of_callable
from autofn.records import OK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler for the CPU"),
]


def compiles(subject):
    compiled = torch.compile(lambda x: (x * 3.25).cos().sum(), fullgraph=True)
    yield Seen(float(compiled(torch.arange(5.0))))


def test_a_worker_of_a_process_that_has_compiled_compiles_too():
    torch.compile(lambda x: (x * 1.75).sin() + 2, fullgraph=True)(torch.arange(4.0))
    job = Job(Rule("compiles", "error", "planted", compiles), lambda: of_callable(torch.exp, lambda: (torch.ones(3),)))
    (outcome,) = runner.run([job], limit_s=100.0)
    assert outcome.status == OK, outcome.reason
    torch._dynamo.reset()
