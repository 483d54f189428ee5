"""Memory figures against known answers, to the byte."""

from __future__ import annotations

import json
import os
from functools import cache

import memory_truth
import pytest
import torch
from memory_truth import FLOATS, PLANTED, K
from support import ROOT, python

from autofn import extension, registry
from autofn.observe import counters

OUTPUT = 4 * FLOATS
needs_extension = pytest.mark.skipif(extension.unavailable() is not None, reason="needs the C++ extension")

# torch's own imports warn; so does Dynamo's look at the .grad of a saved output.
QUIET = ("ignore::DeprecationWarning", "ignore:The .grad attribute of a Tensor that is not a leaf")


@cache
def answers(what):
    """What memory_truth prints, from a process of its own: the allocator stays installed."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    filters = [word for warning in ("error", *QUIET) for word in ("-W", warning)]
    finished = python(*filters, ROOT / "tests" / "memory_truth.py", what, cwd=ROOT, package=path, timeout=600)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def planted(name, counter="allocator"):
    return answers("planted")[counter][name]


def figures(name):
    """(saved_new, held, hidden, leaked, cyclic) bytes."""
    found = planted(name)
    return tuple(found[f"{kind}_bytes"] for kind in ("saved_new", "held", "hidden", "leaked", "cyclic"))


def peaks(name):
    return planted(name)["peak_bytes"]


@needs_extension
@pytest.mark.parametrize(
    ("name", "saved_new", "held", "hidden", "leaked", "cyclic"),
    [
        ("product", 2 * OUTPUT, 2 * OUTPUT, 0, 0, 0),
        ("compiled product", 0, 0, 0, 0, 0),
        ("saves", K, K, 0, 0, 0),
        ("stashes", 0, K, K, 0, 0),
        ("appends to a global", 0, K, K, K, 0),
        ("overwrites a global", 0, K, K, K, 0),
        ("stores its output", 0, 0, 0, OUTPUT, OUTPUT),
        ("needs room", 0, 0, 0, 0, 0),
        ("stashes on another thread", 0, K, K, 0, 0),
        ("Python numbers", 0, 16, 0, 0, 0),
        ("stashes, and Python numbers", 0, K + 8, K, 0, 0),
        ("views its input", 0, 0, 0, 0, 0),
        ("outputs share a storage", 0, 8, 0, 0, 0),
    ],
)
def test_what_a_case_keeps_is_known_to_the_byte(name, saved_new, held, hidden, leaked, cyclic):
    assert figures(name) == (saved_new, held, hidden, leaked, cyclic)


@needs_extension
def test_saved_bytes_are_those_of_the_hooks_with_the_inputs():
    assert planted("product")["saved_bytes"] == 3 * OUTPUT
    assert [entry["alias"] for entry in planted("product")["ledger"]] == ["input 0", "new", "new"]
    assert planted("product")["counted_by"] == "allocator"


@needs_extension
def test_the_peak_of_a_forward_has_its_temporaries():
    # The number 2 is a tensor of 4 bytes while the product runs, and gone when the temporary comes.
    assert peaks("needs room")["forward"] == OUTPUT + K
    assert peaks("product")["forward"] == 3 * OUTPUT
    assert peaks("compiled product")["forward"] == OUTPUT
    assert peaks("views its input")["forward"] == 0


@needs_extension
def test_the_peak_of_a_backward_starts_above_the_graph_and_the_outputs():
    assert peaks("needs room backwards")["backward"] == OUTPUT + K
    assert peaks("compiled product")["backward"] == OUTPUT
    assert peaks("views its input")["backward"] == 0


@needs_extension
@pytest.mark.parametrize("name", [name for name in PLANTED if "thread" not in name])
def test_the_profiler_counts_what_the_allocator_counts(name):
    profiled = planted(name, "profiler")
    assert profiled.pop("counted_by") == "profiler"
    assert profiled == {key: value for key, value in planted(name).items() if key != "counted_by"}


@needs_extension
def test_the_profiler_is_blind_to_another_thread():
    found = planted("stashes on another thread", "profiler")
    assert (found["held_bytes"], found["hidden_bytes"]) == (0, 0)


@needs_extension
@pytest.mark.parametrize("use", ["says_that_it_counts_nothing", *(use.__name__ for use in memory_truth.ALLOCATOR)])
def test_the_counting_allocator(use):
    assert answers("allocator")[use] == ""


def test_without_the_extension_the_profiler_counts(monkeypatch):
    monkeypatch.setattr(extension, "unavailable", lambda: "not built")
    assert counters.counter("cpu").counted_by == "profiler"


def test_with_an_extension_from_before_the_allocator_the_profiler_counts(monkeypatch):
    monkeypatch.setattr(extension, "unavailable", lambda: None)
    monkeypatch.setattr(counters, "_native", object)
    assert counters.counter("cpu").counted_by == "profiler"


class Device:
    """torch.cuda's statistics, of a device that is not there."""

    def __init__(self, backend):
        self.backend = backend
        self.current = self.peak = 0

    def take(self, size):
        self.current += size
        self.peak = max(self.peak, self.current)

    def memory_stats(self):
        rounded = {"allocated_bytes.all.current": -1, "allocated_bytes.all.peak": -1}
        asked = {"requested_bytes.all.current": self.current, "requested_bytes.all.peak": self.peak}
        return rounded | asked

    def plant(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: self.backend)
        monkeypatch.setattr(torch.cuda, "memory_stats", self.memory_stats)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: setattr(self, "peak", self.current))


def test_on_cuda_each_reading_has_what_is_live_since_the_start_and_the_peak_since_the_last_mark(monkeypatch):
    device = Device("native")
    device.plant(monkeypatch)
    device.take(100)
    counted = counters.counter("cuda")

    counted.start()
    device.take(30)
    device.take(-10)
    counted.mark()
    device.take(5)
    device.take(-25)
    counted.mark()

    assert counted.stop() == [counters.Reading(live=20, peak=30), counters.Reading(live=0, peak=25)]
    assert counted.counted_by == "cuda"


def test_cuda_s_asynchronous_allocator_knows_only_rounded_bytes(monkeypatch):
    Device("cudaMallocAsync").plant(monkeypatch)
    assert counters.counter("cuda").statistic == "allocated_bytes"


def test_no_shipped_variant_hides_or_leaks_memory():
    # One test for all: they are measured in one process.
    found = {who: answer for who, answer in answers("shipped").items() if not isinstance(answer, str)}
    assert {who.partition("-")[0] for who in found} == set(registry.names())
    told = {who: answer.get("error") or _hidden_and_leaked(who, answer) for who, answer in found.items()}
    assert {who: what for who, what in told.items() if what != (0, 0)} == {}


def _hidden_and_leaked(who, answer):
    # Less than nothing is hidden where what is saved is NumPy's memory, which the allocator does not see. What an
    # operator of PyTorch's keeps is its own affair: that of linear_cross_entropy keeps gradients behind the hooks.
    hidden = 0 if who.endswith("-native") else max(0, answer["hidden_bytes"])
    return hidden, answer["leaked_bytes"]
